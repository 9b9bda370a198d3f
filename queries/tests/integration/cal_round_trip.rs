//! Round trips of random queries through text, JSON and binding without parameters.

use crate::trees;
use gristmill_queries::cal::{
    Bindings, CalError, Code, Options, Parsed, Warning, bind, from_json, from_json_bytes, parse,
    print, query_hash, to_json,
};
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_tree_round_trips_through_text_and_json(query in trees::query()) {
        let text = print(&query);
        let json = to_json(&query);
        let from_text = parse(&text, Options::default()).unwrap_or_else(|error| panic!("{text}: \
            {error}"));
        let from_json = from_json(&json, Options::default()).unwrap_or_else(|error| panic!("{json}: \
            {error}"));
        prop_assert_eq!(&from_text.query, &query, "{}", text);
        prop_assert_eq!(&from_json.query, &query, "{}", json);
        prop_assert_eq!(print(&from_text.query), text, "the canonical text is its own");
        let told = |warnings: &[Warning]| {
            let mut told: Vec<_> = warnings.iter().map(|warning| (warning.code, warning.message.clone())).collect();
            told.sort();
            told
        };
        prop_assert_eq!(told(&from_text.warnings), told(&from_json.warnings));
    }

    #[test]
    fn any_tree_round_trips_through_json_bytes(query in trees::query()) {
        let json = to_json(&query).to_string();
        let parsed = from_json_bytes(json.as_bytes(), Options::default()).unwrap();
        prop_assert_eq!(&parsed.query, &query);
        prop_assert_eq!(query_hash(&parsed.query), query_hash(&query));
    }

    #[test]
    fn binding_a_query_without_parameters_changes_nothing(query in trees::query()) {
        match bind(&query, &Bindings::new(), Options::default()) {
            Ok(bound) => prop_assert_eq!(bound, query),
            Err(error) => prop_assert!(error.code() == Code::E008 && print(&query).contains('$'), "{}", error),
        }
    }
}

#[test]
fn spellings_of_one_query_have_the_same_hash() {
    let hash = |text: &str| query_hash(&parse(text, Options::default()).unwrap().query);
    let plain =
        hash(r#"RECALL beliefs ABOUT "alice" WHERE confidence >= 0.8 | LIMIT 5 AS markdown"#);
    assert_eq!(
        hash(
            "cal/1 recall BELIEFS -- who\n  limit 5 where confidence>=0.80 about \"alice\" as \
             Markdown ;"
        ),
        plain
    );
    assert_ne!(
        hash(r#"RECALL beliefs ABOUT "Alice" WHERE confidence >= 0.8 | LIMIT 5 AS markdown"#),
        plain
    );
    assert_eq!(
        hash("RECALL"),
        "sha256:48528ae80ef20693fa0989bf47123f474fa19f5e7ee5bb58df8db3915f11d237"
    );
}

#[test]
fn a_text_of_the_greatest_length_is_read_though_its_canonical_text_is_longer() {
    let text = |filler: usize| {
        let filler = "x".repeat(filler);
        format!(r#"RECALL ABOUT "\a{filler}" WHERE confidence>=0.8 LIMIT 5"#)
    };
    let longest = text(8192 - text(0).len());
    let parsed = parse(&longest, Options::default()).unwrap();
    let canonical = print(&parsed.query);
    assert_eq!((longest.len(), canonical.len()), (8192, 8192 + 5));
    let code = |read: Result<Parsed, CalError>| read.unwrap_err().code();
    assert_eq!(code(parse(&canonical, Options::default())), Code::E001);
    let json = to_json(&parsed.query);
    assert_eq!(code(from_json(&json, Options::default())), Code::E001);
    let shorter = text(8192 - text(0).len() - 5);
    let parsed = parse(&shorter, Options::default()).unwrap();
    assert_eq!(print(&parsed.query).len(), 8192);
    for read in [
        parse(&print(&parsed.query), Options::default()),
        from_json(&to_json(&parsed.query), Options::default()),
    ] {
        assert_eq!(read.unwrap().query, parsed.query);
    }
}
