//! Keys of other writers, and custom keys that are spelled like them.

use super::*;

#[test]
fn a_writer_must_not_use_other_spellings_of_known_fields() {
    for (grain, field) in [
        (
            r#"{"type":"action","created_at":0,"tool_name":"a","arguments":{},"content":"x","is_error":false}"#,
            "input",
        ),
        (
            r#"{"type":"action","created_at":0,"tool_name":"a","input":{},"result":"x","is_error":false}"#,
            "content",
        ),
        (
            r#"{"type":"event","created_at":0,"content":null,"cnt":"hello"}"#,
            "content",
        ),
    ] {
        let error = write(grain).unwrap_err();
        assert_eq!(
            (error.code, error.field.as_deref()),
            (ErrorCode::Schema, Some(field)),
            "{grain}"
        );
    }
    let keys = vec![
        (Field::Type.into(), "event".into()),
        (Key::Custom("content".into()), "hello".into()),
        (Key::Custom("created_at".into()), 0_i64.into()),
    ];
    let error = encode(keys, EncodeOptions::default()).unwrap_err();
    assert_eq!(
        error.field.as_deref(),
        Some("created_at"),
        "a full name isn't a key"
    );
}

#[test]
fn a_custom_field_with_the_name_of_an_alias_round_trips() {
    let grain = r#"{"type":"action","created_at":0,"tool_name":"a","input":{},"content":"x","is_error":false,"result":7,"arguments":[1]}"#;
    let blob = write(grain).unwrap().blob;
    assert_eq!(read(&blob), Ok(vec![]));
    let again = decoded(&blob);
    assert_eq!(again, json(grain));
    assert_eq!(
        encode_json(&again, EncodeOptions::default()).unwrap().blob,
        blob
    );
}

#[test]
fn an_alias_is_read_as_the_field_that_the_grain_lacks() {
    let payload =
        r#"{"t":"action","ca":0,"tn":"a","arguments":{"x":1},"result":"y","iserr":false}"#;
    for encoding in [Encoding::MessagePack, Encoding::Cbor] {
        let blob = raw(5, payload, encoding);
        assert_eq!(
            read(&blob).map_err(|error| error.code),
            SCHEMA,
            "in strict decoding it is a custom key"
        );
        for mode in [DecodeMode::StrictAliased, DecodeMode::Lenient] {
            assert_eq!(read_as(&blob, mode), Ok(vec!["foreign_key"]));
            let grain = decoded_as(&blob, mode);
            assert_eq!(grain.get("input"), Some(&json(r#"{"x":1}"#)));
            assert_eq!(grain.get("content").and_then(Json::as_str), Some("y"));
        }
    }
}

#[test]
fn required_fields_under_the_keys_of_other_writers_are_missing_in_strict_decoding() {
    for (byte, payload) in [
        (
            6,
            r#"{"ca":1,"otype":"t","sensor_id":"x","t":"observation"}"#,
        ),
        (
            9,
            r#"{"agcnt":1,"ca":1,"discnt":0,"pobs":["d"],"t":"consensus","thr":2}"#,
        ),
    ] {
        assert_eq!(verdict(byte, payload), SCHEMA);
        let blob = raw(byte, payload, Encoding::MessagePack);
        let marks = read_as(&blob, DecodeMode::StrictAliased).unwrap();
        assert!(marks.contains(&"foreign_key"), "{marks:?}");
    }
}

#[test]
fn custom_fields_with_the_names_of_aliases_round_trip_where_no_alias_is_meant() {
    let definition = r#"{"type":"action","created_at":1,"action_phase":"definition","tool_name":"t","tool_description":"d","input_schema":{},"result":"x"}"#;
    let call = r#"{"type":"action","created_at":1,"action_phase":"call","tool_name":"t","input":{},"result":"x","xcode":3}"#;
    for grain in [definition, call] {
        let blob = write(grain).unwrap().blob;
        // The phase forbids the field, so that the key isn't an alias for any reader.
        for mode in [
            DecodeMode::Strict,
            DecodeMode::StrictAliased,
            DecodeMode::Lenient,
        ] {
            assert_eq!(decoded_as(&blob, mode), json(grain));
        }
    }
    let complete = r#"{"type":"action","created_at":1,"tool_name":"t","input":{},"content":"c","is_error":false,"xcode":3}"#;
    let blob = write(complete).unwrap().blob;
    assert_eq!(read(&blob), Ok(vec![]));
    assert_eq!(decoded(&blob), json(complete));
    let aliased = decoded_as(&blob, DecodeMode::StrictAliased);
    assert_eq!(aliased.get("exit_code").and_then(Json::as_i64), Some(3));
}
