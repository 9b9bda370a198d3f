//! Tests of the statements that tool calls become.

use super::*;
use serde_json::json;

fn call<T: serde::de::DeserializeOwned>(
    arguments: JsonValue,
    convert: impl Fn(T) -> Result<ToolCall>,
) -> Result<String> {
    convert(serde_json::from_value(arguments).unwrap()).map(|call| call.statement)
}

fn recall(arguments: JsonValue) -> Result<String> {
    call(arguments, RecallArguments::into_call)
}

#[test]
fn a_call_is_one_statement_whatever_its_texts_contain() {
    let hostile = r#"a" | COUNT; ADD belief SET subject = "x\"#;
    let statement = call(json!({ "query": hostile }), SearchArguments::into_call).unwrap();
    let parsed = gristmill_queries::cal::parse(&statement, Default::default()).unwrap();
    let Statement::Recall(recalled) = parsed.query.statement else {
        panic!("{statement}");
    };
    assert_eq!(recalled.like.as_deref(), Some(hostile));
    let statement = recall(json!({ "subject": hostile, "where": { "object": hostile } }));
    assert!(statement.unwrap().ends_with("| LIMIT 10"));
}

#[test]
fn arguments_become_clauses() {
    let statement = recall(json!({
        "type": "belief", "subject": "ada", "where": { "confidence": 0.5 }, "superseded": true,
        "limit": 3,
    }));
    assert_eq!(
        statement.unwrap(),
        "RECALL beliefs WHERE subject = \"ada\" AND confidence = 0.5 WITH superseded | LIMIT 3"
    );
    let statement = recall(json!({ "type": "event", "session": "s-1", "recent": 5 }));
    assert_eq!(
        statement.unwrap(),
        "RECALL events WHERE session_id = \"s-1\" RECENT 5"
    );
    let statement = recall(json!({ "recent": 5, "limit": 3 }));
    assert_eq!(statement.unwrap(), "RECALL RECENT 3");
    let statement = recall(json!({ "cal": "RECALL goals", "mine": false }));
    assert_eq!(statement.unwrap(), "RECALL goals");
}

#[test]
fn wrong_names_and_values_have_codes_and_suggestions() {
    for (arguments, code) in [
        (json!({ "type": "beleif" }), "CAL-E003"),
        (json!({ "where": { "nonsense": 1 } }), "CAL-E004"),
        (json!({ "where": { "object": null } }), "CAL-E120"),
        (json!({ "limit": 100_000 }), "CAL-E010"),
        (json!({ "cal": "RECALL", "mine": true }), "CAL-E060"),
    ] {
        let error = recall(arguments.clone()).unwrap_err();
        assert_eq!(error.code().as_str(), code, "{arguments}");
    }
}

#[test]
fn a_context_is_no_larger_than_an_answer() {
    let assemble = |budget: u32| {
        let arguments = json!({ "topic": "tea", "budget": budget });
        call(arguments, |given: AssembleArguments| given.into_call(4_000))
    };
    for (budget, expected) in [(3_000, "BUDGET 3000 "), (9_000, "BUDGET 4000 ")] {
        let statement = assemble(budget).unwrap();
        assert!(statement.contains(expected), "{statement}");
    }
    let refused = assemble(20_000).unwrap_err();
    assert_eq!(refused.code().as_str(), "CAL-E033");
}

#[test]
fn the_counts_of_all_types_are_one_valid_statement() {
    gristmill_queries::cal::parse(&counts_by_type(None), Default::default()).unwrap();
}

#[test]
fn a_type_restricts_every_description_or_is_refused() {
    let describe = |arguments| call(arguments, DescribeArguments::into_call);
    let of_type = describe(json!({ "type": "belief" })).unwrap();
    assert_eq!(of_type, "BATCH { beliefs_count: RECALL beliefs | COUNT }");
    gristmill_queries::cal::parse(&of_type, Default::default()).unwrap();
    let refused = describe(json!({ "type": "beleif" })).unwrap_err();
    assert_eq!(refused.code().as_str(), "CAL-E003");
    assert!(describe(json!({ "topic": "grammar", "type": "belief" })).is_err());
}

#[test]
fn a_grain_is_added_or_superseded() {
    let fields = json!({ "subject": "ada", "relation": "mg:prefers", "object": "tea" });
    let add = json!({ "fields": fields, "reason": "said so" });
    let statement = call(add, RememberArguments::into_call).unwrap();
    assert!(statement.starts_with("ADD belief SET subject = \"ada\""));
    let change = json!({
        "fields": { "object": "coffee" }, "reason": "said so", "supersedes": "sha256:0123456789",
    });
    let statement = call(change, RememberArguments::into_call).unwrap();
    assert!(statement.starts_with("SUPERSEDE sha256:0123456789 SET object"));
}

#[test]
fn a_new_version_is_of_no_other_type() {
    for (name, code) in [("event", "CAL-E060"), ("beleif", "CAL-E003")] {
        let change = json!({
            "type": name, "fields": { "object": "coffee" }, "reason": "said so",
            "supersedes": "sha256:0123456789",
        });
        let error = call(change, RememberArguments::into_call).unwrap_err();
        assert_eq!(error.code().as_str(), code, "{name}");
    }
}

#[test]
fn an_integer_that_was_rounded_to_a_float_is_refused_and_no_other_value() {
    let fits = recall(json!({ "where": { "importance": u64::MAX, "confidence": 0.25 } }));
    let fits = fits.unwrap();
    assert!(
        fits.contains("importance = 18446744073709551615 "),
        "{fits}"
    );
    for number in ["18446744073709551616", "-9223372036854775809"] {
        for value in [number.to_owned(), format!("[1, [{number}]]")] {
            let given = format!(r#"{{ "where": {{ "importance": {value} }} }}"#);
            let error = recall(serde_json::from_str(&given).unwrap()).unwrap_err();
            assert_eq!(error.code().as_str(), "CAL-E006", "{given}");
            let given = format!(r#"{{ "fields": {{ "object": {value} }}, "reason": "none" }}"#);
            let given = serde_json::from_str(&given).unwrap();
            let error = call(given, RememberArguments::into_call).unwrap_err();
            assert_eq!(error.code().as_str(), "CAL-E006", "{value}");
        }
    }
}
