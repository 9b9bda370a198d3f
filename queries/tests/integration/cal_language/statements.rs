//! HISTORY, EXPLAIN, DESCRIBE, BATCH, COALESCE and the statements that write.

use super::{assert_outcomes, outcome};

#[test]
fn histories_are_of_a_grain_or_of_a_triple() {
    assert_outcomes(&[
        ("HISTORY sha256:a1b2c3d4", "ok"),
        ("HISTORY $h DIFF $g", "ok"),
        ("HISTORY sha256:a1b2c3d4 DIFF", "E002"),
        ("HISTORY sha256:a1b2c3d4 AS OF \"today\"", "E002"),
        ("HISTORY", "E002"),
        ("HISTORY \"a\"", "E002"),
        (
            "HISTORY IN SCOPE \"n\" WHERE subject = $s AND relation = \"r\" AS OF \"today\"",
            "ok",
        ),
        ("HISTORY WHERE subject = \"a\"", "E002"),
        (
            "HISTORY WHERE subject != \"a\" AND relation = \"r\"",
            "E002",
        ),
        ("HISTORY WHERE subject = 5 AND relation = \"r\"", "E020"),
        (
            "HISTORY WHERE subject = \"a\" AND relation = \"r\" AND object = \"o\"",
            "E002",
        ),
        ("HISTORY OF sha256:a1b2c3d4", "E002"),
        ("EXISTS", "E002"),
        ("EXISTS \"sha256:a1b2c3d4\"", "E002"),
        ("EXISTS sha256:A1B2C3D4", "E015"),
    ]);
}

#[test]
fn explain_describe_batch_and_coalesce_accept_certain_statements() {
    assert_outcomes(&[
        ("EXPLAIN COALESCE(RECALL, RECALL)", "ok"),
        ("EXPLAIN REVERT sha256:a1b2c3d4 REASON \"r\"", "ok"),
        ("EXPLAIN HISTORY sha256:a1b2c3d4", "E002"),
        ("EXPLAIN DESCRIBE server", "E002"),
        ("EXPLAIN DEFINE TEMPLATE t ELEMENT { x }", "E002"),
        ("EXPLAIN EXPLAIN RECALL", "E002"),
        ("EXPLAIN", "E002"),
        ("DESCRIBE GRAMMAR", "ok"),
        ("DESCRIBE capabilities now", "E002"),
        ("DESCRIBE tables", "E002"),
        ("DESCRIBE server belief", "E002"),
        ("BATCH { }", "E002"),
        ("BATCH { a: RECALL, }", "E002"),
        ("BATCH { RECALL }", "E002"),
        ("BATCH { a: RECALL goals b: RECALL }", "E002"),
        ("BATCH { a: ASSEMBLE x FROM (RECALL) }", "E002"),
        (
            "BATCH { a: ADD belief SET subject = \"s\" REASON \"r\" }",
            "E002",
        ),
        ("BATCH { a: BATCH { b: RECALL } }", "E002"),
        (
            "BATCH { limit: RECALL LIMIT 5, recall: RECALL SELECT subject, where: RECALL WITH \
             superseded, b: DESCRIBE fields }",
            "ok",
        ),
        (
            "BATCH { a: RECALL PROJECT content(object), attr: RECALL }",
            "ok",
        ),
        ("COALESCE(RECALL)", "E002"),
        ("COALESCE(RECALL, RECALL,)", "E002"),
        (
            "COALESCE(RECALL SELECT subject, RECALL WITH superseded, RECALL)",
            "ok",
        ),
        ("COALESCE RECALL, RECALL", "E002"),
        ("COALESCE(RECALL, COALESCE(RECALL, RECALL))", "E002"),
    ]);
    let entries = |count: usize| {
        (0..count)
            .map(|at| format!("e{at}: RECALL"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    assert_eq!(outcome(&format!("BATCH {{ {} }}", entries(10))), "ok");
    assert_eq!(outcome(&format!("BATCH {{ {} }}", entries(11))), "E002");
    assert_eq!(
        outcome(&format!("COALESCE({})", ["RECALL"; 5].join(", "))),
        "ok"
    );
    assert_eq!(
        outcome(&format!("COALESCE({})", ["RECALL"; 6].join(", "))),
        "E039"
    );
}

#[test]
fn evolve_statements_set_allowed_fields_and_require_a_reason() {
    let base = "SET subject = \"s\" SET relation = \"r\" SET object = \"o\"";
    let add = |grain_type: &str, more: &str| outcome(&format!("ADD {grain_type} {base} {more}"));
    for (grain_type, more, expected) in [
        ("belief", "REASON \"r\"", "ok"),
        ("belief", "REASON \"\"", "ok"),
        ("belief", "", "E018"),
        ("belief", ";", "E018"),
        ("belief", "REASON 5", "E002"),
        ("belief", "REASON $r", "E002"),
        ("belief", "BECAUSE \"r\"", "E002"),
        ("belief", "SET subject = \"t\" REASON \"r\"", "E002"),
        ("belief", "SET tags = [] REASON \"r\"", "ok"),
        ("belief", "SET tags = \"t\" REASON \"r\"", "E020"),
        ("belief", "SET tags = [1] REASON \"r\"", "E020"),
        ("belief", "SET confidence = \"high\" REASON \"r\"", "E020"),
        (
            "belief",
            "SET confidence = 1 SET importance = 0.0 REASON \"r\"",
            "ok",
        ),
        ("belief", "SET confidence = 7 REASON \"r\"", "E020"),
        ("belief", "SET confidence = -0.1 REASON \"r\"", "E020"),
        ("goal", "SET importance = 11 REASON \"r\"", "E020"),
        ("observation", "SET observer_id = \"\" REASON \"r\"", "E020"),
        (
            "observation",
            "SET observer_type = \"\" REASON \"r\"",
            "E020",
        ),
        ("belief", "SET observer_id = \"x\" REASON \"r\"", "E017"),
        ("belief", "SET hc = \"x\" REASON \"r\"", "E017"),
        (
            "observation",
            "SET observer_id = \"x\" SET observer_type = \"y\" REASON \"r\"",
            "ok",
        ),
        (
            "goal",
            "SET goal_state = \"blocked\" SET assigned_agent = \"a\" SET deadline = 1768478400 \
             REASON \"r\"",
            "ok",
        ),
        ("goal", "SET goal_state = \"lost\" REASON \"r\"", "E063"),
        ("goal", "SET deadline = \"someday\" REASON \"r\"", "E020"),
        ("goal", "SET depends_on = \"a\" REASON \"r\"", "ok"),
        ("goal", "SET depends_on = [\"a\", \"b\"] REASON \"r\"", "ok"),
        ("event", "REASON \"r\"", "E051"),
    ] {
        assert_eq!(add(grain_type, more), expected, "{grain_type} {more}");
    }
    assert_outcomes(&[
        ("ADD belief REASON \"r\"", "E050"),
        ("ADD belief SET subject = \"s\"", "E018"),
        ("ADD belief", "E018"),
        ("ADD", "E002"),
        (
            "SUPERSEDE sha256:a1b2c3d4 SET object = \"o\" REASON \"r\"",
            "ok",
        ),
        ("SUPERSEDE $h SET confidence = $c REASON \"r\"", "ok"),
        ("SUPERSEDE sha256:a1b2c3d4 REASON \"r\"", "E019"),
        ("SUPERSEDE sha256:a1b2c3d4", "E019"),
        ("SUPERSEDE SET object = \"o\" REASON \"r\"", "E002"),
        (
            "SUPERSEDE sha256:a1b2c3d4 SET subject = \"s\" REASON \"r\"",
            "E017",
        ),
        (
            "SUPERSEDE sha256:a1b2c3d4 SET object = \"o\" SET object = \"p\" REASON \"r\"",
            "E002",
        ),
        (
            "SUPERSEDE sha256:a1b2c3d4 SET object = 5 REASON \"r\"",
            "E020",
        ),
        (
            "SUPERSEDE sha256:a1b2c3d4 SET importance = 1.5 REASON \"r\"",
            "E020",
        ),
        (
            "SUPERSEDE sha256:a1b2c3d4 SET object = \"\" REASON \"r\"",
            "ok",
        ),
        (
            "EXPLAIN SUPERSEDE sha256:a1b2c3d4 SET confidence = 7 REASON \"r\"",
            "E020",
        ),
        (
            "ADD belief SET subject = \"\" SET relation = \"r\" SET object = \"o\" REASON \"r\"",
            "E020",
        ),
        (
            "ADD belief SET subject = \"s\" SET relation = \"r\" SET object = \"\" REASON \"r\"",
            "ok",
        ),
        (
            "ADD goal SET subject = \"s\" SET relation = \"r\" SET object = \"\" REASON \"r\"",
            "E020",
        ),
        ("SUPERSEDE sha256:a1b2c3d4 SET object = \"o\"", "E018"),
        ("REVERT sha256:a1b2c3d4", "E018"),
        (
            "REVERT sha256:a1b2c3d4 SET object = \"o\" REASON \"r\"",
            "E002",
        ),
        ("REVERT REASON \"r\"", "E002"),
        ("REVERT $h REASON \"r\"", "ok"),
    ]);
    let reason = |length: usize| format!("REVERT $h REASON \"{}\"", "é".repeat(length));
    assert_eq!(outcome(&reason(500)), "ok");
    assert_eq!(outcome(&reason(501)), "E016");
}
