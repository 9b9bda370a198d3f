//! RECALL: its version, types, clauses, fields, values and options.

use gristmill_queries::cal::{Options, parse, print};

use super::{assert_outcomes, canonical};

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
