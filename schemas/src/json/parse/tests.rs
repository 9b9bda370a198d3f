use super::*;

fn parse(text: &str) -> Result<Json<'_>, JsonError> {
    Json::parse(text.as_bytes())
}

#[test]
fn strings_without_escapes_are_borrowed() {
    let Json::Array(items) = parse(r#"["plain", "a\u00e9b", ""]"#).unwrap() else {
        panic!()
    };
    assert!(matches!(&items[0], Json::String(Cow::Borrowed("plain"))));
    assert!(matches!(&items[1], Json::String(Cow::Owned(text)) if text == "aéb"));
    assert_eq!(items[2].as_str(), Some(""));
}

#[test]
fn a_repeated_key_keeps_its_first_position_and_last_value() {
    for filler in [0, HASH_INDEX_THRESHOLD] {
        let mut text = String::from(r#"{"a":1,"b":2"#);
        (0..filler).for_each(|n| text.push_str(&format!(r#","k{n}":0"#)));
        text.push_str(r#","a":3}"#);
        let value = parse(&text).unwrap();
        assert_eq!(value.as_object().unwrap().len(), filler + 2);
        assert_eq!(value.get("a").and_then(Json::as_i64), Some(3));
        assert_eq!(value.as_object().unwrap().keys().next(), Some("a"));
        let refused = Json::parse_unique_keys(text.as_bytes()).unwrap_err();
        assert_eq!(refused.kind, JsonErrorKind::RepeatedKey);
        let message = "the key `a` is repeated in one object at byte ";
        assert!(refused.to_string().starts_with(message), "{refused}");
    }
    let inner = parse(r#"{"a":[{"b":1}],"b":{"a":2}}"#).unwrap().to_string();
    assert!(Json::parse_unique_keys(inner.as_bytes()).is_ok());
}

#[test]
fn repeated_keys_of_a_large_object_are_found_in_constant_time() {
    // By linear look-ups this takes minutes.
    const KEYS: usize = 200_000;
    let mut text = String::from("{");
    (0..KEYS).for_each(|n| text.push_str(&format!(r#""k{n}":0,"#)));
    (1..=KEYS).for_each(|n| text.push_str(&format!(r#""k{}":{n},"#, KEYS - 1)));
    text.pop();
    text.push('}');
    let value = parse(&text).unwrap();
    assert_eq!(value.as_object().unwrap().len(), KEYS);
    for n in 0..KEYS {
        let expected = if n + 1 == KEYS { KEYS as i64 } else { 0 };
        let found = value.get(&format!("k{n}")).and_then(Json::as_i64);
        assert_eq!(found, Some(expected));
    }
}

#[test]
fn errors_have_a_position() {
    let error = parse("{\"a\": 1,\n \"b\": nope}").unwrap_err();
    assert_eq!((error.line, error.offset > 9), (2, true), "{error}");
    for text in [
        "",
        "[1,]",
        "{\"a\" 1}",
        "[1] 2",
        "\"\u{1}\"",
        "01",
        "[",
        "\"\\ud800\"",
    ] {
        assert!(parse(text).is_err(), "{text:?}");
    }
    let error = Json::parse(b"[\"\xc3\xa9\",\n\"\xff\"]").unwrap_err();
    assert_eq!(
        (error.kind, error.offset, error.line),
        (JsonErrorKind::Utf8, 8, 2)
    );
}

#[test]
fn nan_and_infinity_are_distinguished_from_other_errors() {
    for (text, offset) in [
        ("NaN", 0),
        ("{\"a\": -Infinity}", 6),
        ("[1, Infinity]", 4),
        ("[NaN]", 1),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(
            (error.kind, error.offset),
            (JsonErrorKind::NotFinite, offset),
            "{text}"
        );
    }
    for text in ["Nan", "[-]", "-Inf", "nan", "\"NaN"] {
        assert_eq!(
            parse(text).unwrap_err().kind,
            JsonErrorKind::Syntax,
            "{text}"
        );
    }
}

#[test]
fn the_limit_on_nesting_is_exact() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(Json::parse_with_depth(nested(8).as_bytes(), 8).is_ok());
    assert!(Json::parse_with_depth(nested(9).as_bytes(), 8).is_err());
    assert!(parse(&nested(1_000_000)).is_err());
}

#[test]
fn more_values_and_keys_than_the_limit_are_an_error() {
    let parse = |text: &str, limit| {
        let mut parser = JsonParser::new().with_value_limit(limit);
        let parsed = parser.parse_bytes(text.as_bytes()).map(|_| ());
        (parsed, parser.values())
    };
    for (text, values) in [("1", 1), ("[1,[2],{}]", 5), (r#"{"a":1,"b":[2]}"#, 6)] {
        assert_eq!(parse(text, values), (Ok(()), values), "{text}");
        let error = parse(text, values - 1).0.unwrap_err();
        assert_eq!(error.kind, JsonErrorKind::Values, "{text}");
        let expected = format!("more than {} values and keys at byte ", values - 1);
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

#[test]
fn a_long_list_is_neither_copied_nor_is_its_memory_kept() {
    let text = format!("[[{}0],1]", "0,".repeat(2 * KEPT_ENTRIES));
    let mut parser = JsonParser::new();
    for text in [&*text, &text[1..text.len() - 3]] {
        let value = parser.parse(text).unwrap();
        let list = value.as_array().unwrap();
        let inner = list[0].as_array().unwrap_or(list);
        assert_eq!(inner.len(), 2 * KEPT_ENTRIES + 1);
        assert!(inner.iter().all(|item| item.as_u64() == Some(0)));
        assert!(parser.items.capacity() <= KEPT_ENTRIES);
    }
}

#[test]
fn half_of_a_surrogate_pair_is_an_error_or_replaced() {
    let lossy = |text: &str| {
        let parsed = Json::parse_lossy(text.as_bytes());
        parsed.map(|value| value.to_string())
    };
    for (text, expected) in [
        (r#"{"a":"x\ud83d","a":"\udc00"}"#, "{\"a\":\"\u{fffd}\"}"),
        (
            r#"["\ud83d x","\ud83d\n"]"#,
            "[\"\u{fffd} x\",\"\u{fffd}\\n\"]",
        ),
        (r#""\ud83d\ud83d\ude00""#, "\"\u{fffd}😀\""),
    ] {
        assert_eq!(parse(text).unwrap_err().kind, JsonErrorKind::Surrogate);
        assert_eq!(lossy(text).as_deref(), Ok(expected), "{text}");
    }
    for text in [r#"["\ud83d""#, r#""\ud83d\u12""#, r#""\u12"#] {
        assert!(lossy(text).is_err(), "{text}");
    }
    let mut strict = JsonParser::new().with_unique_keys().with_lone_surrogates();
    let repeated = strict.parse_bytes(br#"{"a":"\ud83d","a":1}"#).unwrap_err();
    assert_eq!(repeated.kind, JsonErrorKind::RepeatedKey);
}
