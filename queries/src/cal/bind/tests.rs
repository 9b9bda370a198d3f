//! Tests of the binding of parameters.

use super::*;
use crate::cal::{parse, print};

fn bound(text: &str, arguments: &[(&str, &str)]) -> Result<String> {
    let mut bindings = Bindings::new();
    for (name, argument) in arguments {
        bindings.insert_argument(name, argument)?;
    }
    let query = parse(text, Options::default()).unwrap().query;
    bind(&query, &bindings, Options::default()).map(|query| print(&query))
}

fn code(text: &str, arguments: &[(&str, &str)]) -> Code {
    bound(text, arguments).expect_err(text).code()
}

#[test]
fn parameters_are_values_and_never_text_of_the_query() {
    let evil = r#"x" OR subject = "y"#;
    let text = bound("RECALL beliefs WHERE subject = $s", &[("s", evil)]).unwrap();
    assert_eq!(
        text,
        r#"RECALL beliefs WHERE subject = "x\" OR subject = \"y""#
    );
}

#[test]
fn parameters_are_parsed_with_the_options_of_the_query() {
    let query = parse("RECALL WHERE type = $t", Options::default())
        .unwrap()
        .query;
    let mut bindings = Bindings::new();
    bindings.insert_argument("t", "Fact").unwrap();
    let bound = bind(&query, &bindings, Options { aliases: true }).map(|query| print(&query));
    assert_eq!(bound.as_deref(), Ok(r#"RECALL WHERE type = "belief""#));
    assert_eq!(
        bind(&query, &bindings, Options::default())
            .unwrap_err()
            .code(),
        Code::E003
    );
}

#[test]
fn every_place_of_a_parameter_is_bound() {
    let address = "sha256:3288d0d41cf49a1d";
    let arguments = [
        ("n", "3"),
        ("s", "alice"),
        ("h", address),
        ("t", "last week"),
        ("l", "[\"a\", \"b\"]"),
        ("b", "true"),
    ];
    for (text, expected) in [
        (
            "RECALL WHERE hash = $h | OFFSET $n",
            "RECALL WHERE hash = sha256:3288d0d41cf49a1d | OFFSET 3",
        ),
        ("EXISTS $h", "EXISTS sha256:3288d0d41cf49a1d"),
        (
            "HISTORY $h DIFF $h",
            "HISTORY sha256:3288d0d41cf49a1d DIFF sha256:3288d0d41cf49a1d",
        ),
        (
            "HISTORY WHERE subject = $s AND relation = $s",
            r#"HISTORY WHERE subject = "alice" AND relation = "alice""#,
        ),
        (
            "RECALL events BETWEEN $t AND $n",
            r#"RECALL events BETWEEN "last week" AND 3"#,
        ),
        (
            "RECALL WHERE subject IN ($l, $s)",
            r#"RECALL WHERE subject IN ("a", "b", "alice")"#,
        ),
        (
            "RECALL WHERE tags INCLUDE [$s, $l]",
            r#"RECALL WHERE tags INCLUDE ["alice", "a", "b"]"#,
        ),
        (
            "RECALL WHERE contradicted = $b",
            "RECALL WHERE contradicted = TRUE",
        ),
        (
            "RECALL WITH x_hint($n, [$s])",
            r#"RECALL WITH x_hint(3, ["alice"])"#,
        ),
        (
            "SUPERSEDE $h SET tags = $l REASON \"r\"",
            r#"SUPERSEDE sha256:3288d0d41cf49a1d SET tags = ["a", "b"] REASON "r""#,
        ),
        (
            "(RECALL WHERE subject = $s) UNION (RECALL WHERE subject IN (RECALL WHERE object = \
             $s | SUBJECTS))",
            r#"(RECALL WHERE subject = "alice") UNION (RECALL WHERE subject IN (RECALL WHERE object = "alice" | SUBJECTS))"#,
        ),
        (
            "EXPLAIN ASSEMBLE c FROM (RECALL WHERE subject = $s)",
            r#"EXPLAIN ASSEMBLE c FROM (RECALL WHERE subject = "alice")"#,
        ),
        (
            "BATCH { a: EXISTS $h }",
            "BATCH { a: EXISTS sha256:3288d0d41cf49a1d }",
        ),
        (
            "COALESCE(RECALL WHERE subject = $s, RECALL)",
            r#"COALESCE(RECALL WHERE subject = "alice", RECALL)"#,
        ),
    ] {
        assert_eq!(bound(text, &arguments).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn references_to_lets_remain_and_parameters_in_lets_are_bound() {
    let text =
        r#"LET $a = RECALL beliefs WHERE object = $o | SUBJECTS; RECALL WHERE subject IN ($a)"#;
    assert_eq!(
        bound(text, &[("o", "x"), ("a", "not this")]).unwrap(),
        r#"LET $a = RECALL beliefs WHERE object = "x" | SUBJECTS; RECALL WHERE subject IN ($a)"#
    );
}

#[test]
fn values_are_checked_like_literals() {
    assert_eq!(code("RECALL WHERE subject = $s", &[]), Code::E008);
    assert_eq!(code("RECALL WHERE subject = $s", &[("s", "5")]), Code::E020);
    assert_eq!(code("RECALL WHERE hash = $h", &[("h", "nope")]), Code::E015);
    assert_eq!(code("EXISTS $h", &[("h", "5")]), Code::E020);
    assert_eq!(code("RECALL | OFFSET $n", &[("n", "-1")]), Code::E006);
    assert_eq!(code("RECALL | OFFSET $n", &[("n", "x")]), Code::E020);
    assert_eq!(
        code("RECALL goals WHERE goal_state = $s", &[("s", "lost")]),
        Code::E063
    );
    assert_eq!(
        code("RECALL WHERE time = $t", &[("t", "whenever")]),
        Code::E020
    );
    assert_eq!(
        code("RECALL WHERE subject = $s", &[("s", "\u{202e}")]),
        Code::E071
    );
    assert_eq!(
        code("RECALL WHERE subject = $s", &[("s", "a"), ("s", "b")]),
        Code::E009
    );
    let many = format!("[{}]", vec!["\"x\""; 101].join(","));
    assert_eq!(
        code("RECALL WHERE subject IN ($s)", &[("s", &many)]),
        Code::E011
    );
    assert_eq!(
        code(
            "ADD belief SET subject = $n SET relation = \"r\" SET object = \"o\" REASON \"x\"",
            &[("n", "1")]
        ),
        Code::E020
    );
    assert_eq!(
        code(
            "SUPERSEDE $h SET confidence = $n REASON \"x\"",
            &[("h", "sha256:3288d0d41cf49a1d"), ("n", "1.5")]
        ),
        Code::E020
    );
}
