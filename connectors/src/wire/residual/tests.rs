//! The property of diff and apply for all values: `apply(diff(a, b), a)` is `b`, with the patch
//! encoded as JSON and decoded in between.

use gristmill_schemas::json::{Json, Number, Object};
use proptest::prelude::*;

use super::*;

fn json(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes()).unwrap()
}

/// Computes the patch, encodes and decodes it, applies it, and returns its JSON.
fn check(old: &Json, new: &Json) -> String {
    let Some(patch) = diff(old, new) else {
        assert!(old.is_identical(new));
        return String::new();
    };
    let text = patch_to_json(patch).to_string();
    let stored = json(&text);
    let patch = patch_from_json(&stored).unwrap();
    let made = apply(&patch, old).unwrap();
    assert!(
        made.is_identical(new),
        "\nold  {old}\nnew  {new}\nmade {made}\npatch {text}"
    );
    text
}

#[test]
fn small_differences_make_small_patches() {
    for (old, new, patch) in [
        ("{}", "{}", ""),
        ("1", "1.0", r#"{"=":1.0}"#),
        (
            r#"{"a":1,"b":{"c":2}}"#,
            r#"{"b":{"c":3},"d":null}"#,
            r#"{"-a":0,"~b":{"+c":3},"+d":null}"#,
        ),
        ("[1,2,3,4]", "[1,2,9,4]", "[2,-1,[9]]"),
        // A member without a name isn't patched: `{"~": P}` is an item that is an array.
        (r#"[{"":[]}]"#, r#"[{"":[null]}]"#, r#"[{"+":[null]}]"#),
        ("[1,2,3,4]", "[2,3,5,4]", "[-1,2,[5]]"),
        ("[[1],[2]]", "[[1],[2,3]]", r#"[1,{"~":[1,[3]]}]"#),
        (r#"["{\"a\":1}"]"#, r#"["{\"a\": 1}"]"#, r#"[{"j":"p"}]"#),
        ("[0]", r#"[{"$":1}]"#, r#"[-1,[{"$":{"$":1}}]]"#),
        (
            "0",
            r#"{"$":{"$":"x"}}"#,
            r#"{"=":{"$":{"$":{"$":{"$":"x"}}}}}"#,
        ),
    ] {
        assert_eq!(check(&json(old), &json(new)), patch, "{old} {new}");
    }
}

#[test]
fn moved_text_is_referenced_instead_of_stored() {
    let text = "a text that is long enough to be worth a reference";
    let old = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
    let unwrapped = check(&json(&old), &json(&format!(r#"{{"content":"{text}"}}"#)));
    assert_eq!(unwrapped, r#"{"+content":{"$":"/content/0/text"}}"#);
    let doubled = check(
        &json(&old),
        &json(&format!(
            r#"{{"content":[{{"type":"text","text":"{text}"}}],"again":"{text}"}}"#
        )),
    );
    assert_eq!(doubled, r#"{"+again":{"$":"/content/0/text"}}"#);
    let joined = format!(r#"["{text}; {text}, twice"]"#);
    let split = check(&json(&joined), &json(&format!(r#"[{{"text":"{text}"}}]"#)));
    assert_eq!(split, r#"[-1,[{"text":{"$":[["/0",0,50]]}}]]"#);
    let longer = check(
        &json(&format!(r#"["{text}"]"#)),
        &json(&format!(r#"["{text}!"]"#)),
    );
    assert_eq!(longer, r#"[{"=":{"$":[["/0",0,50],"!"]}}]"#);
}

#[test]
fn moved_subtrees_are_referenced() {
    let (left, right) = (
        r#"{"a":"0123456789","b":[1,2,3]}"#,
        r#"{"c":"0123456789","d":[4,5,6]}"#,
    );
    let patch = check(
        &json(&format!("[{left},{right}]")),
        &json(&format!("[{right},{left}]")),
    );
    assert!(patch.len() < 60, "{patch}");
}

#[test]
fn a_patch_of_another_value_is_rejected_without_panic() {
    for (patch, old) in [
        (r#"{"~a":{"=":1}}"#, "{}"),
        (r#"{"-a":0}"#, "{}"),
        (r#"{"+a":1}"#, "[]"),
        ("[5]", "[1]"),
        ("[-5]", "[1]"),
        (r#"[{"=":1}]"#, "[]"),
        (r#"{"j":"p"}"#, "\"not json\""),
        (r#"{"j":"p"}"#, "1"),
        (r#"{"=":{"$":"/a/b"}}"#, r#"{"a":[]}"#),
        (r#"{"=":{"$":[["/a",1,2]]}}"#, r#"{"a":"é"}"#),
        (r#"{"=":{"$":[["/a",2,1]]}}"#, r#"{"a":"xyz"}"#),
    ] {
        let (patch, old) = (json(patch), json(old));
        assert!(
            apply(&patch_from_json(&patch).unwrap(), &old).is_err(),
            "{patch} {old}"
        );
    }
    for patch in [
        "1",
        "null",
        r#"{"a":1}"#,
        "[[1,2]]",
        "[1.5]",
        r#"{"j":"?"}"#,
        r#"{"=":{"$":1}}"#,
        r#"{"=":{"$":[[1]]}}"#,
    ] {
        assert!(patch_from_json(&json(patch)).is_err(), "{patch}");
    }
}

#[test]
fn a_patch_that_copies_too_much_is_rejected() {
    let old = Json::Array(vec![Json::Null; 1 << 16]);
    let bomb = Patch::Replace(ValueTemplate::Array(vec![
        ValueTemplate::At(String::new());
        1 << 10
    ]));
    assert_eq!(apply(&bomb, &old), Err(ApplyError::TooLarge));
}

/// Generates JSON from few distinct parts, so that two values have much in common.
fn any_json() -> impl Strategy<Value = Json<'static>> {
    let text = prop_oneof![
        "[a-c]{0,2}",
        Just("a text that is long enough to be worth a reference".to_owned()),
        Just("a text that is long enough to be worth a reference, and é more".to_owned()),
        Just("worth a reference, and é more".to_owned()),
        Just(r#"{"b": [1, "é"]}"#.to_owned()),
        Just(r#"{"b":[1,"é"]}"#.to_owned()),
        Just(r#"{"b":[1,"\u00e9"]}"#.to_owned()),
    ];
    let number = prop_oneof![
        Just("1"),
        Just("1.0"),
        Just("-0"),
        Just("18446744073709551617"),
        Just("1e2")
    ];
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        number.prop_map(|text| Json::parse(text.as_bytes()).unwrap().into_owned()),
        any::<f64>().prop_map(|value| Number::from_f64(value).map_or(Json::Null, Json::Number)),
        text.prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        let key = prop_oneof![
            Just("$"),
            Just("="),
            Just("j"),
            Just("+a"),
            Just("a/b~"),
            Just("text"),
            Just("type"),
            Just("")
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            proptest::collection::vec((key, inner), 0..5)
                .prop_map(|members| Json::Object(members.into_iter().collect::<Object>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn applying_the_difference_gives_the_new_value(old in any_json(), new in any_json()) {
        check(&old, &new);
    }

    #[test]
    fn a_nested_change_is_found(old in any_json(), new in any_json()) {
        let wrap = |inner: &Json| json(&format!(r#"{{"x":[1,{{"type":"t","inner":{inner}}},{inner}]}}"#)).into_owned();
        check(&wrap(&old), &wrap(&new));
    }

    #[test]
    fn any_json_as_a_patch_is_rejected_or_applied_without_panic(patch in any_json(), old in any_json()) {
        if let Ok(patch) = patch_from_json(&patch) {
            let _ = apply(&patch, &old);
        }
    }
}
