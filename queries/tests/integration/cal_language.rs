//! The rules of the language, one table for each: valid queries, and the error codes of invalid
//! ones.
//!
//! It is long because it is data: one table of queries for each rule.

use gristmill_queries::cal::{Options, parse, print, to_json};

/// Returns the error code of a query, or `ok`.
fn outcome(text: &str) -> String {
    match parse(text, Options::default()) {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.code().as_str().trim_start_matches("CAL-").to_owned(),
    }
}

fn assert_outcomes(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(outcome(text), *expected, "{text}");
    }
}

fn warnings(text: &str) -> Vec<&'static str> {
    let parsed = parse(text, Options::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
    parsed
        .warnings
        .iter()
        .map(|warning| warning.code.as_str().trim_start_matches("CAL-"))
        .collect()
}

fn canonical(text: &str) -> String {
    print(
        &parse(text, Options::default())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .query,
    )
}

fn json(text: &str) -> String {
    to_json(
        &parse(text, Options::default())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .query,
    )
    .to_string()
}

#[test]
fn the_version_is_one_or_absent() {
    assert_outcomes(&[
        ("CAL/1 RECALL", "ok"),
        ("cal / 1 RECALL", "ok"),
        ("CAL/2 RECALL", "E100"),
        ("CAL/0 RECALL", "E100"),
        ("CAL/10 RECALL", "E100"),
        ("CAL/ RECALL", "E002"),
        ("CAL RECALL", "E002"),
        ("CAL/1", "E002"),
        ("RECALL;", "ok"),
        ("RECALL;;;", "ok"),
        ("RECALL; RECALL", "E002"),
        (";", "E002"),
    ]);
}

#[test]
fn types_are_plural_after_recall_and_singular_elsewhere() {
    assert_outcomes(&[
        ("RECALL BELIEFS", "ok"),
        ("RECALL belief", "E003"),
        ("RECALL observation", "E003"),
        ("RECALL fact", "E003"),
        ("RECALL facts", "E003"),
        ("RECALL tools", "E003"),
        ("RECALL memories", "E003"),
        ("RECALL MY", "ok"),
        ("RECALL MY goals", "ok"),
        ("RECALL goals MY", "E002"),
        ("RECALL FROM x", "E002"),
        ("RECALL * WHERE subject = \"a\"", "E002"),
        ("RECALL \"beliefs\"", "E002"),
        ("RECALL WHERE type = \"belief\"", "ok"),
        ("RECALL WHERE type = \"beliefs\"", "E003"),
        ("RECALL WHERE type = 5", "E020"),
        ("RECALL WHERE type != \"belief\"", "E020"),
        ("RECALL WHERE type = $t", "ok"),
        ("DESCRIBE fields Belief", "ok"),
        ("DESCRIBE fields beliefs", "E003"),
        ("ADD workflow \"x\" a -> b", "E051"),
        ("ADD events SET subject = \"a\"", "E003"),
    ]);
    let aliases = |text| {
        parse(text, Options { aliases: true })
            .map(|parsed| print(&parsed.query))
            .unwrap()
    };
    assert_eq!(
        aliases("RECALL facts WHERE type = \"fact\""),
        "RECALL beliefs WHERE type = \"belief\""
    );
    assert_eq!(
        aliases("RECALL tools WHERE tool_name = \"x\""),
        "RECALL actions WHERE tool_name = \"x\""
    );
    assert_eq!(
        aliases("RECALL episodes THREAD \"s\""),
        "RECALL events THREAD \"s\""
    );
    assert_eq!(
        aliases("DESCRIBE fields checkpoint"),
        "DESCRIBE fields state"
    );
}

#[test]
fn clauses_are_in_any_order_each_once_with_as_last() {
    assert_outcomes(&[
        (
            "RECALL LIMIT 5 WITH superseded WHERE subject = \"a\" IN \"n\"",
            "ok",
        ),
        ("RECALL WITH superseded WITH explanation", "ok"),
        ("RECALL WITH superseded, explanation", "ok"),
        ("RECALL WHERE subject = \"a\" WHERE object = \"b\"", "E002"),
        ("RECALL RECENT 5 RECENT 5", "E002"),
        ("RECALL CONTRADICTIONS CONTRADICTIONS", "E002"),
        ("RECALL LIKE \"a\" LIKE \"b\"", "E002"),
        ("RECALL AS sml LIMIT 5", "E002"),
        ("RECALL AS sml AS text", "E002"),
        ("RECALL AS readable", "E002"),
        ("RECALL AS html", "E002"),
        ("RECALL FORMAT json", "E002"),
        ("RECALL IN n", "E002"),
        ("RECALL IN SCOPE \"n\"", "ok"),
        ("RECALL ABOUT $x", "E002"),
        ("RECALL WHERE subject = \"a\" OR object = \"b\"", "E002"),
        ("RECALL WHERE NOT subject = \"a\"", "E002"),
        ("RECALL WHERE object IS NULL", "E002"),
        ("RECALL WHERE subject IS PREFERENCE", "E002"),
        ("RECALL WHERE relation IS FRIENDSHIP", "E002"),
        ("RECALL WHERE relation IS knowledge", "ok"),
    ]);
    assert_eq!(
        canonical("recall limit 5 as SML -- x"),
        "RECALL | LIMIT 5 AS sml"
    );
    assert_eq!(
        canonical(
            r#"RECALL events RECENT 3 WITH iso_timestamps WHERE role="user" SINCE "today" IN "n""#
        ),
        r#"RECALL events IN "n" SINCE "today" WHERE role = "user" WITH iso_timestamps RECENT 3"#
    );
}

#[test]
fn fields_belong_to_types() {
    assert_outcomes(&[
        ("RECALL beliefs WHERE goal_state = \"active\"", "E060"),
        ("RECALL WHERE goal_state = \"active\"", "E061"),
        (
            "RECALL WHERE type = \"goal\" AND goal_state = \"active\"",
            "E061",
        ),
        ("RECALL goals WHERE goal_state = \"active\"", "ok"),
        ("RECALL beliefs WHERE Subject = \"a\"", "E004"),
        ("RECALL beliefs WHERE priority = \"high\"", "E004"),
        ("RECALL beliefs WHERE when = \"x\"", "E004"),
        ("RECALL beliefs WHERE LIMIT 5", "E002"),
        ("RECALL beliefs WHERE limit 5", "E002"),
        ("RECALL beliefs WHERE key = \"x\"", "E002"),
        ("RECALL consents WHERE scope = \"x\"", "ok"),
        (
            "RECALL beliefs WHERE hc:condition_code IN (\"a\", \"b\")",
            "ok",
        ),
        ("RECALL beliefs WHERE hc: = \"x\"", "E002"),
        ("RECALL beliefs WHERE hc:tags INCLUDE [\"x\"]", "ok"),
        ("RECALL beliefs WHERE hc:x = [\"x\"]", "E020"),
        ("RECALL beliefs WITH dedup(goal_state)", "E060"),
        ("ASSEMBLE x FROM (RECALL) WITH dedup(goal_state)", "E061"),
        ("ASSEMBLE x FROM (RECALL) WITH dedup(hc:x)", "ok"),
    ]);
}

#[test]
fn operators_and_values_depend_on_the_field() {
    assert_outcomes(&[
        ("RECALL WHERE confidence >= 0.5 AND confidence != 1", "ok"),
        ("RECALL WHERE confidence BETWEEN 0 AND 1", "E020"),
        ("RECALL WHERE confidence = \"0.5\"", "E020"),
        ("RECALL WHERE subject > \"a\"", "E020"),
        ("RECALL WHERE subject = true", "E020"),
        ("RECALL WHERE subject = [\"a\"]", "E020"),
        ("RECALL WHERE subject = sha256:a1b2c3d4", "E020"),
        ("RECALL WHERE subject IN (\"a\", 5)", "E020"),
        ("RECALL WHERE subject IN ()", "E002"),
        ("RECALL WHERE subject IN (\"a\",)", "E002"),
        ("RECALL WHERE subject IN $a", "E002"),
        ("RECALL WHERE subject IN ($a, $b, \"c\")", "ok"),
        ("RECALL WHERE subject IN ([\"a\"])", "E020"),
        ("RECALL WHERE score >= 0.5", "ok"),
        ("RECALL WHERE score = 0.5", "E020"),
        ("RECALL WHERE score < 0.5", "E020"),
        ("RECALL WHERE hash = $h", "ok"),
        ("RECALL WHERE hash IN (sha256:a1b2c3d4)", "E020"),
        (
            "RECALL WHERE tags INCLUDE [\"a\"] AND tags EXCLUDE [\"b\"]",
            "ok",
        ),
        ("RECALL WHERE tags INCLUDE []", "ok"),
        ("RECALL WHERE tags INCLUDE [5]", "E020"),
        ("RECALL WHERE tags INCLUDE [$t]", "ok"),
        ("RECALL WHERE tags INCLUDE $t", "E002"),
        ("RECALL WHERE tags = [\"a\"]", "E020"),
        ("RECALL WHERE tags IN (\"a\")", "E020"),
        ("RECALL WHERE subject INCLUDE [\"a\"]", "E020"),
        (
            "RECALL consensuses WHERE participating_observers INCLUDE [\"a\"]",
            "ok",
        ),
        (
            "RECALL consensuses WHERE participating_observers EXCLUDE [\"a\"]",
            "E020",
        ),
        ("RECALL consensuses WHERE threshold != 3", "E020"),
        (
            "RECALL consensuses WHERE threshold < 3 AND agreement_count = 2",
            "ok",
        ),
        ("RECALL WHERE contradicted = TRUE", "ok"),
        ("RECALL WHERE contradicted = 1", "E020"),
        ("RECALL actions WHERE is_error = \"false\"", "E020"),
        ("RECALL actions WHERE tool_name IN (\"a\", \"b\")", "ok"),
        ("RECALL actions WHERE action_phase = 5", "E020"),
        ("RECALL actions WHERE action_phase = \"complete\"", "ok"),
        ("RECALL actions WHERE action_phase = \"completed\"", "E062"),
        ("RECALL goals WHERE goal_state != \"suspended\"", "ok"),
        ("RECALL goals WHERE goal_state = \"done\"", "E063"),
        ("RECALL goals WHERE goal_state = $s", "ok"),
        ("RECALL consents WHERE consent_action = \"granted\"", "E064"),
        ("RECALL WHERE recall_priority = \"lukewarm\"", "E065"),
        ("RECALL WHERE epistemic_status = \"sure\"", "E066"),
        ("RECALL WHERE verification_status = \"anything\"", "ok"),
        ("RECALL WHERE query IN (\"a\")", "E020"),
        ("RECALL WHERE subject", "E002"),
        ("RECALL WHERE subject \"a\"", "E002"),
        ("RECALL WHERE subject = \"a\" AND", "E002"),
        ("RECALL WHERE subject == \"a\"", "E002"),
    ]);
}

#[test]
fn times_are_dates_ages_or_epochs() {
    assert_outcomes(&[
        ("RECALL WHERE time = \"last 7 days\"", "ok"),
        ("RECALL WHERE time = 1768478400", "ok"),
        ("RECALL WHERE time = 1.5", "E020"),
        ("RECALL WHERE time = true", "E020"),
        ("RECALL WHERE time = \"soon\"", "E020"),
        ("RECALL WHERE time >= \"today\"", "E020"),
        ("RECALL WHERE time BETWEEN \"2026-01-01\" AND $end", "ok"),
        (
            "RECALL WHERE time BETWEEN \"2026-01-01\" AND \"never\"",
            "E020",
        ),
        ("RECALL WHERE time BETWEEN 1", "E002"),
        (
            "RECALL goals WHERE deadline = \"2026-03-15T00:00:00Z\"",
            "ok",
        ),
        ("RECALL goals WHERE deadline = \"someday\"", "E020"),
        ("RECALL SINCE \"someday\"", "E020"),
        ("RECALL SINCE 5", "E002"),
        ("RECALL BETWEEN 1 AND 2", "ok"),
        ("RECALL BETWEEN \"a\" AND \"b\"", "E020"),
        ("RECALL BETWEEN TRUE AND FALSE", "E020"),
        (
            "HISTORY WHERE subject = \"a\" AND relation = \"r\" AS OF \"someday\"",
            "E020",
        ),
    ]);
}

#[test]
fn equivalent_shortcuts_exclude_each_other() {
    assert_outcomes(&[
        ("RECALL ABOUT \"a\" LIKE \"b\"", "E060"),
        ("RECALL RECENT 5 | LIMIT 5", "E060"),
        ("RECALL RECENT 5 | ORDER BY time", "E060"),
        ("RECALL RECENT 5 | OFFSET 5", "ok"),
        ("RECALL SINCE \"today\" WHERE time BETWEEN 1 AND 2", "E060"),
        ("RECALL SINCE \"today\" BETWEEN 1 AND 2", "E060"),
        ("RECALL BETWEEN 1 AND 2 WHERE time = \"today\"", "ok"),
        ("RECALL MY WHERE user_id != \"a\"", "E060"),
        ("RECALL ABOUT \"a\" WHERE subject = \"b\"", "ok"),
        ("RECALL CONTRADICTIONS WITH contradiction_detection", "ok"),
        ("RECALL events THREAD \"s\" RECENT 5", "ok"),
        ("RECALL goals THREAD \"s\"", "E060"),
        ("RECALL THREAD FROM sha256:a1b2c3d4", "E061"),
        ("RECALL events THREAD FROM $m", "E002"),
        ("RECALL events THREAD s", "E002"),
        ("ASSEMBLE x FROM (RECALL AS sml) FORMAT markdown", "ok"),
        ("COALESCE(RECALL, RECALL ABOUT \"a\" LIKE \"b\")", "E060"),
        // The leftmost error is reported; rules about a whole statement are checked at its end.
        ("RECALL ABOUT \"a\" LIKE \"b\" WHERE nope = 1", "E004"),
        ("RECALL ABOUT \"a\" LIKE \"b\" banana", "E060"),
    ]);
}

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
        ("EXPLAIN (RECALL) UNION (RECALL)", "ok"),
    ]);
}

#[test]
fn assemble_has_its_clauses_in_order() {
    assert_outcomes(&[
        ("ASSEMBLE FROM (RECALL)", "ok"),
        ("ASSEMBLE FOR \"x\" FROM (RECALL)", "ok"),
        ("ASSEMBLE \"x\" FROM (RECALL)", "E002"),
        (
            "ASSEMBLE x FOR \"a\" FROM a: (RECALL), (RECALL) BUDGET 5 grains PRIORITY a FORMAT \
             data STREAM WITH summarize",
            "ok",
        ),
        ("ASSEMBLE x FROM (RECALL) FOR \"a\"", "E002"),
        (
            "ASSEMBLE x FROM a: (RECALL) PRIORITY a BUDGET 5 grains",
            "E002",
        ),
        ("ASSEMBLE x FROM (RECALL) WITH summarize FORMAT sml", "E002"),
        (
            "ASSEMBLE x FROM (RECALL) WITH summarize WITH explanation",
            "E002",
        ),
        ("ASSEMBLE x FROM (RECALL),", "E002"),
        ("ASSEMBLE x FROM (ASSEMBLE y FROM (RECALL))", "E002"),
        ("ASSEMBLE x FROM (EXISTS sha256:a1b2c3d4)", "E002"),
        ("ASSEMBLE x FROM a: (RECALL), a: (RECALL)", "E034"),
        ("ASSEMBLE x FROM a: (RECALL) PRIORITY b", "E035"),
        ("ASSEMBLE x FROM a: (RECALL) PRIORITY a > a", "E034"),
        ("ASSEMBLE x FROM a: (RECALL), b: (RECALL) PRIORITY b", "ok"),
        ("ASSEMBLE x FROM a: (RECALL) PRIORITY a: 0.5", "E002"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 5", "E002"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 0 tokens", "E006"),
        ("ASSEMBLE x FROM (RECALL) BUDGET -5 tokens", "E006"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 1.5 tokens", "E006"),
        ("ASSEMBLE x FROM (RECALL) BUDGET $n tokens", "E002"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 16000 TOKENS", "ok"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 16001 tokens", "E033"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 201 grains", "E033"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 5 bytes", "E002"),
        ("ASSEMBLE x FROM (RECALL) FORMAT html", "E002"),
        ("ASSEMBLE x FROM (RECALL) FORMAT Structured", "ok"),
        ("ASSEMBLE x FROM (RECALL) FORMAT TEMPLATE mine", "ok"),
        ("ASSEMBLE x FROM (RECALL) FORMAT TEMPLATE", "E002"),
        ("ASSEMBLE x FROM (RECALL) FORMAT TEMPLATE { }", "E002"),
        (
            "ASSEMBLE x FROM (RECALL) FORMAT TEMPLATE { ELEMENT { x }",
            "E002",
        ),
        (
            "ASSEMBLE x FROM (RECALL) FORMAT TEMPLATE { ELEMENT { x } } WITH summarize",
            "ok",
        ),
        ("ASSEMBLE x FROM (RECALL) STREAM { }", "E002"),
        (
            "ASSEMBLE x FROM (RECALL) STREAM { progress, budget, chunks }",
            "ok",
        ),
        ("ASSEMBLE x FROM (RECALL) STREAM { everything }", "E077"),
        ("ASSEMBLE x FROM (RECALL) STREAM { chunk_size = 20 }", "ok"),
        ("ASSEMBLE x FROM (RECALL) STREAM { chunk_size = 0 }", "E078"),
        ("ASSEMBLE x FROM (RECALL) STREAM { chunk_size }", "E002"),
        ("ASSEMBLE x FROM (RECALL) STREAM { all", "E002"),
    ]);
    let sources = |count: usize| vec!["(RECALL)"; count].join(", ");
    assert_eq!(outcome(&format!("ASSEMBLE x FROM {}", sources(8))), "ok");
    assert_eq!(outcome(&format!("ASSEMBLE x FROM {}", sources(9))), "E032");
    assert_eq!(
        outcome(&format!("ASSEMBLE {} FROM (RECALL)", "n".repeat(64))),
        "ok"
    );
    assert_eq!(
        outcome(&format!(
            "ASSEMBLE x FOR \"{}\" FROM (RECALL)",
            "é".repeat(256)
        )),
        "ok"
    );
    assert_eq!(
        outcome(&format!(
            "ASSEMBLE x FOR \"{}\" FROM (RECALL)",
            "é".repeat(257)
        )),
        "E002"
    );
    assert_eq!(
        json("ASSEMBLE x FROM (RECALL) STREAM"),
        json("ASSEMBLE x FROM (RECALL) STREAM { ALL }")
    );
}

#[test]
fn options_require_their_arguments() {
    assert_outcomes(&[
        (
            "RECALL WITH Superseded, SCORE_BREAKDOWN, explanation, provenance, summarize, \
             iso_timestamps",
            "ok",
        ),
        ("RECALL WITH superseded(1)", "E002"),
        ("RECALL WITH dedup", "E002"),
        ("RECALL WITH dedup()", "E002"),
        ("RECALL WITH dedup(subject, object)", "E002"),
        ("RECALL WITH locale(de)", "E002"),
        ("RECALL WITH cache(60)", "E002"),
        ("RECALL WITH cache(ttl = 0)", "E006"),
        ("RECALL WITH diversity(mmr)", "ok"),
        ("RECALL WITH diversity(mmr, 0.5)", "E002"),
        ("RECALL WITH diversity(threshold)", "E002"),
        ("RECALL WITH diversity(other)", "E002"),
        ("RECALL WITH consistency(bounded(0.5))", "ok"),
        ("RECALL WITH consistency(bounded)", "E002"),
        ("RECALL WITH consistency(strong)", "E002"),
        ("RECALL WITH progressive_disclosure(Headlines)", "ok"),
        ("RECALL WITH progressive_disclosure()", "E002"),
        ("RECALL WITH rerank", "E002"),
        ("RECALL WITH x_", "E002"),
        ("RECALL WITH x_hint(5, \"a\", [1, [2]])", "ok"),
        ("RECALL WITH x_hint()", "E002"),
        ("RECALL WITH superseded,", "E002"),
    ]);
}

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

#[test]
fn type_names_are_case_insensitive_and_normalised() {
    for text in ["goal", "Goal", "GOAL"] {
        let parsed = parse(
            &format!("RECALL WHERE type = \"{text}\""),
            Options::default(),
        )
        .unwrap();
        assert_eq!(parsed.query.to_string(), "RECALL WHERE type = \"goal\"");
    }
}

#[test]
fn templates_are_checked_when_they_are_defined() {
    assert_outcomes(&[
        (
            "DEFINE TEMPLATE t EXTENDS structured HEADER { a } ELEMENT { b } FOOTER { c }",
            "ok",
        ),
        (
            "define template t element { {{#each}}{{grain.content}}{{/each}} }",
            "ok",
        ),
        ("DEFINE TEMPLATE t ELEMENT { } ELEMENT_SUMMARY { x }", "ok"),
        ("DEFINE TEMPLATE t", "E002"),
        ("DEFINE t ELEMENT { x }", "E002"),
        ("DEFINE TEMPLATE \"t\" ELEMENT { x }", "E002"),
        ("DEFINE TEMPLATE t AS \"x\"", "E002"),
        ("DEFINE TEMPLATE t BODY { x }", "E002"),
        ("DEFINE TEMPLATE t ELEMENT x", "E002"),
        ("DEFINE TEMPLATE t ELEMENT { x", "E002"),
        ("DEFINE TEMPLATE t ELEMENT { x } }", "E002"),
        ("DEFINE TEMPLATE t EXTENDS data ELEMENT { x }", "E086"),
        ("DEFINE TEMPLATE t EXTENDS json ELEMENT { x }", "E087"),
        ("DEFINE TEMPLATE t ELEMENT { a } ELEMENT { b }", "E095"),
        ("DEFINE TEMPLATE t ELEMENT { {{grain.nope}} }", "E090"),
        (
            "DEFINE TEMPLATE t ELEMENT { {{#grain.nope}}x{{/grain.nope}} }",
            "E090",
        ),
        ("DEFINE TEMPLATE t ELEMENT { {{#grain.tags}}x }", "E091"),
        ("DEFINE TEMPLATE t ELEMENT { x{{/grain.tags}} }", "E091"),
        ("DEFINE TEMPLATE t ELEMENT { {{}} }", "E094"),
        ("DEFINE TEMPLATE t ELEMENT { {{=<% %>=}} }", "E094"),
        ("DEFINE TEMPLATE t ELEMENT { {{grain.type }", "E094"),
        (
            "DEFINE TEMPLATE t ELEMENT { {\"type\": \"{{grain.type}}\"} }",
            "ok",
        ),
        (
            "ASSEMBLE x FROM (RECALL) FORMAT TEMPLATE { ELEMENT { {{nope}} } }",
            "E090",
        ),
    ]);
    let define = |bytes: usize| {
        outcome(&format!(
            "DEFINE TEMPLATE t HEADER {{ {} }}",
            "x".repeat(bytes)
        ))
    };
    assert_eq!(
        define(4095),
        "ok",
        "with its newline the text has 4096 bytes"
    );
    assert_eq!(define(4096), "E092");
    assert_eq!(
        json("DEFINE TEMPLATE t ELEMENT {\n  a\n} SOURCE_BREAK { - } HEADER {}"),
        r#"{"cal_version":1,"statement":"define_template","name":"t","sections":{"header":"","element":"  a\n","source_break":"-\n"}}"#
    );
}

#[test]
fn warnings_report_suspicious_but_valid_queries() {
    for (text, expected) in [
        (
            "RECALL WHERE relation = \"mg:prefers\" AND relation != \"prefers\"",
            vec![],
        ),
        (
            "RECALL WHERE relation IN (\"mg:knows\", \"mg:loves\")",
            vec!["W001"],
        ),
        ("RECALL WHERE object = \"mg:loves\"", vec![]),
        (
            "HISTORY WHERE subject = \"a\" AND relation = \"mg:loves\"",
            vec!["W001"],
        ),
        (
            "RECALL WHERE legal:case_id = \"x\" AND tags INCLUDE [\"a\", \"profile:legal\"]",
            vec![],
        ),
        (
            "RECALL WHERE tags INCLUDE [\"profile:legal\"] AND hc:x = \"y\"",
            vec!["W002"],
        ),
        (
            "RECALL WHERE tags EXCLUDE [\"profile:legal\"] AND legal:x = \"y\"",
            vec!["W002"],
        ),
        ("RECALL PROJECT attr(fin:account_id)", vec!["W002"]),
        ("RECALL WHERE HC:x = \"y\"", vec!["W003"]),
        ("RECALL WITH x_a, x_b(1)", vec!["W004", "W004"]),
        (
            "RECALL WHERE int:source_system = \"crm\" AND tags INCLUDE [\"profile:integration\"]",
            vec![],
        ),
    ] {
        assert_eq!(warnings(text), expected, "{text}");
    }
}

#[test]
fn errors_suggest_the_most_similar_name() {
    let suggestion = |text: &str| {
        parse(text, Options::default())
            .unwrap_err()
            .suggestion()
            .to_owned()
    };
    for (text, meant) in [
        ("RECALL facts", "\"beliefs\""),
        ("RECALL beleifs", "\"beliefs\""),
        ("RECALL belief", "\"beliefs\""),
        ("ADD fact", "\"belief\""),
        ("RECALL WHERE subjct = \"a\"", "\"subject\""),
        ("RECALL goals WHERE goal_stat = \"a\"", "\"goal_state\""),
        ("RECALL goals WHERE goal_state = \"activ\"", "\"active\""),
        ("RECALL WITH supersede", "\"superseded\""),
        ("ASSEMBLE x FROM (RECALL) FORMAT markdwn", "\"markdown\""),
        ("ASSEMBLE x FROM facts: (RECALL) PRIORITY fact", "\"facts\""),
        ("RECALL AS readable", "AS markdown"),
        ("RECALL WHERE relation IS PREFERENCES", "PREFERENCE"),
        ("DEFINE TEMPLATE t ELEMENT { {{content}} }", "grain.content"),
        ("RECALL 'a'", "double quotes"),
    ] {
        assert!(
            suggestion(text).contains(meant),
            "{text}: {}",
            suggestion(text)
        );
    }
}
