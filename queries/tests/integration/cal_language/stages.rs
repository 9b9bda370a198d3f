//! Stages of a pipeline, subqueries, bindings, parameters and set operations.

use super::{assert_outcomes, canonical, json, outcome};

#[test]
fn stages_depend_on_their_input() {
    assert_outcomes(&[
        (
            "RECALL | SELECT subject, confidence | ORDER BY time DESC | LIMIT 5",
            "ok",
        ),
        ("RECALL ORDER BY time LIMIT 5 SELECT subject", "ok"),
        ("RECALL |", "E002"),
        ("RECALL || LIMIT 5", "E002"),
        ("RECALL | WHERE subject = \"a\"", "E002"),
        ("RECALL | RECENT 5", "E002"),
        ("RECALL | LIMIT", "E002"),
        ("RECALL | LIMIT 0", "E006"),
        ("RECALL | LIMIT 10.0", "E006"),
        ("RECALL | LIMIT 1001", "E010"),
        ("RECALL | LIMIT 99999999999999999999999", "E010"),
        ("RECALL RECENT 0", "E006"),
        ("RECALL RECENT $n", "E002"),
        ("RECALL | OFFSET 0", "ok"),
        ("RECALL | OFFSET 99999999999999999999999", "ok"),
        ("RECALL | OFFSET $n", "ok"),
        ("RECALL | OFFSET -1", "E006"),
        ("RECALL | OFFSET 1.5", "E006"),
        ("RECALL | OFFSET \"5\"", "E002"),
        ("RECALL | SELECT", "E002"),
        ("RECALL | SELECT nope", "E004"),
        ("RECALL | SELECT query", "E021"),
        ("RECALL events | SELECT role", "E021"),
        ("RECALL goals | SELECT role", "E060"),
        ("RECALL goals | ORDER BY deadline", "E021"),
        ("RECALL | ORDER BY user_id", "E021"),
        ("RECALL | ORDER BY hc:x", "E021"),
        ("RECALL | GROUP BY user_id", "ok"),
        ("RECALL | GROUP BY time", "E021"),
        ("RECALL | GROUP type", "E002"),
        ("RECALL | COUNT | LIMIT 5", "E021"),
        ("RECALL | FIRST | LIMIT 5", "E021"),
        ("RECALL | GROUP BY type | COUNT", "E021"),
        ("RECALL beliefs | SUBJECTS | LIMIT 5 | COUNT", "ok"),
        ("RECALL beliefs | SUBJECTS | OFFSET 1 | FIRST", "ok"),
        ("RECALL beliefs | SUBJECTS | SELECT subject", "E021"),
        ("RECALL beliefs | SUBJECTS | OBJECTS", "E021"),
        ("RECALL events | SUBJECTS", "E022"),
        ("RECALL goals | OBJECTS", "E022"),
        ("RECALL goals | HASHES", "ok"),
        (
            "RECALL | LIMIT 1 | LIMIT 1 | LIMIT 1 | LIMIT 1 | LIMIT 1",
            "ok",
        ),
        (
            "RECALL | LIMIT 1 | LIMIT 1 | LIMIT 1 | LIMIT 1 | LIMIT 1 | LIMIT 1",
            "E012",
        ),
        ("RECALL PROJECT content(subject), attr(confidence)", "ok"),
        ("RECALL PROJECT attr(observer), content(hc:x)", "ok"),
        ("RECALL PROJECT attr(x_mood, tags)", "ok"),
        ("RECALL PROJECT attr(nope)", "E004"),
        ("RECALL PROJECT attr(session_id)", "E061"),
        ("RECALL beliefs PROJECT attr(session_id)", "E060"),
        ("RECALL PROJECT attr()", "E002"),
        ("RECALL PROJECT label(subject)", "E002"),
    ]);
}

#[test]
fn subqueries_end_in_an_extractor_and_nest_three_deep() {
    let nested = |depth: usize| {
        let open = "RECALL beliefs WHERE subject IN (".repeat(depth);
        format!(
            "{open}RECALL beliefs | SUBJECTS{}",
            ") | SUBJECTS".repeat(depth)
        )
    };
    assert_eq!(outcome(&nested(3)), "ok");
    assert_eq!(outcome(&nested(4)), "E007");
    assert_outcomes(&[
        (
            "RECALL WHERE subject IN (RECALL beliefs | SUBJECTS RECENT 5)",
            "ok",
        ),
        ("RECALL WHERE subject IN (RECALL beliefs SUBJECTS)", "ok"),
        (
            "RECALL WHERE subject IN (RECALL beliefs | SUBJECTS | LIMIT 5)",
            "E002",
        ),
        ("RECALL WHERE subject IN (RECALL beliefs | COUNT)", "E002"),
        ("RECALL WHERE subject IN (RECALL events | SUBJECTS)", "E022"),
        ("RECALL WHERE subject IN (RECALL events | HASHES)", "ok"),
        ("RECALL WHERE subject IN (EXISTS sha256:a1b2c3d4)", "E002"),
    ]);
    let hundred = vec!["\"a\""; 100].join(", ");
    assert_eq!(
        outcome(&format!("RECALL WHERE subject IN ({hundred})")),
        "ok"
    );
    assert_eq!(
        outcome(&format!("RECALL WHERE subject IN ({hundred}, \"a\")")),
        "E011"
    );
    assert_eq!(
        canonical("RECALL WHERE subject IN (RECALL beliefs SUBJECTS RECENT 5 AS text)"),
        "RECALL WHERE subject IN (RECALL beliefs | SUBJECTS RECENT 5 AS text)"
    );
}

#[test]
fn names_are_bound_before_they_are_used_and_once() {
    assert_outcomes(&[
        (
            "LET $a = RECALL beliefs | SUBJECTS; RECALL WHERE subject IN ($a)",
            "ok",
        ),
        ("LET $a = RECALL beliefs; RECALL", "ok"),
        (
            "LET $a = RECALL beliefs; RECALL WHERE subject IN ($a)",
            "E020",
        ),
        (
            "LET $a = RECALL beliefs | SUBJECTS; RECALL WHERE subject = $a",
            "E020",
        ),
        (
            "LET $a = RECALL beliefs | SUBJECTS; ASSEMBLE x FROM $a",
            "E020",
        ),
        ("LET $a = RECALL beliefs; ASSEMBLE x FROM s: ($a), $a", "ok"),
        ("ASSEMBLE x FROM $a", "E008"),
        ("LET $a = RECALL beliefs; LET $a = RECALL", "E009"),
        ("LET a = RECALL beliefs; RECALL", "E002"),
        ("LET $a = RECALL beliefs RECALL", "E002"),
        ("LET $a = COALESCE(RECALL, RECALL); RECALL", "E002"),
        ("LET $a = RECALL;", "E002"),
        (
            "LET $a = RECALL WHERE subject IN ($a); ASSEMBLE x FROM (RECALL)",
            "E008",
        ),
        (
            "LET $a = RECALL beliefs WHERE subject IN ($p) | SUBJECTS; RECALL WHERE subject IN \
             ($a)",
            "ok",
        ),
        (
            "LET $a = RECALL beliefs | SUBJECTS; LET $b = RECALL WHERE subject IN ($a); RECALL",
            "E008",
        ),
        (
            "LET $a = RECALL beliefs | SUBJECTS; LET $b = RECALL WHERE subject IN ($a); ASSEMBLE x \
             FROM $b",
            "ok",
        ),
        (
            "LET $a = RECALL beliefs | SUBJECTS; LET $b = RECALL WHERE subject IN ($a); EXPLAIN \
             ASSEMBLE x FROM $b",
            "ok",
        ),
        (
            "LET $a = RECALL beliefs | SUBJECTS; BATCH { x: RECALL WHERE subject IN ($a) }",
            "ok",
        ),
        (
            "(LET $a = RECALL beliefs | SUBJECTS; RECALL WHERE subject IN ($a)) UNION (RECALL)",
            "ok",
        ),
        (
            "(LET $a = RECALL beliefs | SUBJECTS; RECALL) UNION (RECALL WHERE subject IN ($a))",
            "ok",
        ),
        (
            "LET $a = RECALL beliefs; (LET $a = RECALL; RECALL) UNION (RECALL)",
            "E009",
        ),
    ]);
    let lets: String = (0..6).map(|at| format!("LET $l{at} = RECALL; ")).collect();
    assert_eq!(outcome(&format!("{lets}RECALL")), "E036");
    assert_eq!(
        json("LET $a = RECALL beliefs | LIMIT 5 | SUBJECTS; RECALL"),
        r#"{"cal_version":1,"let":[{"name":"a","query":{"statement":"recall","grain_type":"beliefs","pipeline":[{"stage":"limit","n":5}]},"extract":"subjects"}],"statement":"recall"}"#
    );
}

#[test]
fn parameters_are_names_and_at_most_twenty() {
    let with = |count: usize| {
        let names: Vec<String> = (0..count).map(|at| format!("$p{at}, $p{at}")).collect();
        format!("RECALL WHERE subject IN ({})", names.join(", "))
    };
    assert_eq!(outcome(&with(20)), "ok");
    assert_eq!(outcome(&with(21)), "E002");
    assert_outcomes(&[
        ("RECALL WHERE subject = $secret", "ok"),
        ("RECALL WHERE subject = $", "E002"),
        ("EXISTS $h", "ok"),
    ]);
}

#[test]
fn set_operations_combine_up_to_five_recalls() {
    assert_outcomes(&[
        ("(RECALL) UNION (RECALL)", "ok"),
        ("(RECALL) minus (RECALL)", "E002"),
        ("(RECALL)", "E002"),
        ("RECALL UNION RECALL", "E002"),
        ("(RECALL) UNION RECALL", "E002"),
        ("(RECALL) UNION (RECALL) UNION (RECALL)", "E002"),
        (
            "((RECALL) UNION (RECALL)) INTERSECT ((RECALL) EXCEPT (RECALL))",
            "ok",
        ),
        (
            "((RECALL) UNION (RECALL)) UNION ((RECALL) UNION ((RECALL) UNION (RECALL)))",
            "ok",
        ),
        (
            "((RECALL) UNION ((RECALL) UNION (RECALL))) UNION ((RECALL) UNION ((RECALL) UNION \
             (RECALL)))",
            "E013",
        ),
        ("(EXISTS sha256:a1b2c3d4) UNION (RECALL)", "E021"),
        ("(RECALL) UNION (ASSEMBLE x FROM (RECALL))", "E021"),
        ("(RECALL | COUNT) UNION (RECALL)", "E021"),
        ("(RECALL | FIRST) UNION (RECALL LIMIT 5)", "ok"),
        ("(CAL/1 RECALL) UNION (RECALL)", "ok"),
        ("(RECALL;) UNION ((RECALL; ;) EXCEPT (RECALL););", "ok"),
        ("(RECALL; RECALL) UNION (RECALL)", "E002"),
        ("EXPLAIN (RECALL) UNION (RECALL)", "ok"),
    ]);
}
