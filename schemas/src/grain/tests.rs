//! Tests of grains that violate single rules of the specification.

use super::*;
use crate::error::{ErrorCode, GrainError};
use crate::json::Json;

fn json(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes()).unwrap()
}

/// Returns a blob with the type byte `byte` and exactly these keys.
fn raw(byte: u8, payload: &str, encoding: Encoding) -> Vec<u8> {
    let payload = write_value(&from_json(&json(payload)).unwrap(), encoding).unwrap();
    let flags = if encoding == Encoding::Cbor {
        1 << 5
    } else {
        0
    };
    [&[1, flags, byte, 0, 0, 0, 0, 0, 0], &payload[..]].concat()
}

fn read(blob: &[u8]) -> Result<Vec<&'static str>, GrainError> {
    read_as(blob, DecodeMode::Strict)
}

fn read_as(blob: &[u8], mode: DecodeMode) -> Result<Vec<&'static str>, GrainError> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT)?;
    let grain = Grain::decode(&payload, mode)?;
    Ok(grain.marks().iter().map(Mark::name).collect())
}

/// Returns the error code of a strict reader, or the marks of the grain.
fn verdict(byte: u8, payload: &str) -> Result<Vec<&'static str>, ErrorCode> {
    read(&raw(byte, payload, Encoding::MessagePack)).map_err(|error| error.code)
}

fn write(grain: &str) -> Result<EncodedGrain, GrainError> {
    encode_json(&json(grain), EncodeOptions::default())
}

fn code_of_write(grain: &str) -> Option<ErrorCode> {
    write(grain).err().map(|error| error.code)
}

fn decoded(blob: &[u8]) -> Json<'static> {
    decoded_as(blob, DecodeMode::Strict)
}

fn decoded_as(blob: &[u8], mode: DecodeMode) -> Json<'static> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
    Grain::decode(&payload, mode).unwrap().to_json()
}

const SCHEMA: Result<Vec<&str>, ErrorCode> = Err(ErrorCode::Schema);

#[test]
fn types_without_a_schema_accept_any_value_in_known_fields() {
    for byte in [0x0b, 0x42, 0xf0] {
        for fields in [
            r#""c":7.5,"ca":"yesterday""#,
            r#""ca":-5,"cat":256"#,
            r#""tags":{"a":1},"atypes":[256]"#,
            r#""_e":5,"sc":-1,"user":5"#,
        ] {
            let payload = format!(r#"{{"t":"measurement",{fields}}}"#);
            assert_eq!(
                verdict(byte, &payload),
                Ok(vec!["field_kind"]),
                "{byte:#x} {payload}"
            );
        }
        assert_eq!(verdict(byte, r#"{"s":"x"}"#), Err(ErrorCode::NoType));
        assert_eq!(
            verdict(byte, r#"{"t":"measurement","tags":["phi:name"]}"#),
            Err(ErrorCode::SensitivityMismatch)
        );
    }
}

#[test]
fn types_without_a_schema_accept_any_name_except_those_of_standard_types() {
    assert_eq!(verdict(0xf0, r#"{"t":"trigger"}"#), Ok(vec![]));
    assert_eq!(verdict(0x0e, r#"{"t":"skill"}"#), Ok(vec![]));
    assert_eq!(verdict(0xf0, r#"{"t":"belief"}"#), Err(ErrorCode::Corrupt));
}

#[test]
fn a_wrong_kind_in_a_required_field_of_another_type_is_marked() {
    let belief =
        |more: &str| format!(r#"{{"t":"belief","s":"a","r":"b","o":"c","c":0.5,"ca":0,{more}}}"#);
    for more in [
        r#""desc":5"#,
        r#""steps":[{}]"#,
        r#""tn":5"#,
        r#""cblocks":5"#,
        r#""scope":[1]"#,
    ] {
        assert_eq!(verdict(1, &belief(more)), Ok(vec!["field_kind"]), "{more}");
    }
    assert_eq!(
        verdict(1, &belief(r#""gs":"done""#)),
        Ok(vec!["vocabulary"])
    );
    assert_eq!(
        verdict(7, r#"{"t":"goal","ca":0,"desc":5,"gs":"active"}"#),
        SCHEMA
    );
    assert_eq!(
        verdict(7, r#"{"t":"goal","ca":0,"desc":"a","gs":"done"}"#),
        SCHEMA
    );
}

#[test]
fn fields_that_must_stay_visible_can_not_be_elided() {
    let hash = format!(r#""sha256:{}""#, "ab".repeat(32));
    for (byte, payload) in [
        (
            1,
            r#"{"t":"belief","s":"a","r":"b","o":"c","ca":0,"_e":{"confidence":HASH}}"#,
        ),
        (
            1,
            r#"{"t":"belief","s":"a","o":"c","c":0.5,"ca":0,"_e":{"relation":HASH}}"#,
        ),
        (
            1,
            r#"{"t":"belief","s":"a","r":"b","o":"c","c":0.5,"_e":{"created_at":HASH}}"#,
        ),
        (
            7,
            r#"{"t":"goal","desc":"a","ca":0,"_e":{"goal_state":HASH}}"#,
        ),
        (
            6,
            r#"{"t":"observation","oid":"a","ca":0,"_e":{"observer_type":HASH}}"#,
        ),
    ] {
        assert_eq!(
            verdict(byte, &payload.replace("HASH", &hash)),
            SCHEMA,
            "{payload}"
        );
    }
    let hidden = |hash: &str| {
        format!(r#"{{"t":"belief","r":"b","o":"c","c":0.5,"ca":0,"_e":{{"subject":{hash}}}}}"#)
    };
    assert_eq!(verdict(1, &hidden(&hash)), Ok(vec![]));
    assert_eq!(verdict(1, &hidden("5")), SCHEMA, "hashes are strings");
}

#[test]
fn a_field_with_a_malformed_hash_is_not_hidden() {
    for hash in ["x", "sha256:ab", &format!("sha256:{}", "AB".repeat(32))] {
        let required = r#"{"t":"belief","r":"b","o":"c","c":0.5,"ca":0,"_e":{"subject":"HASH"}}"#;
        assert_eq!(verdict(1, &required.replace("HASH", hash)), SCHEMA);
        let other =
            r#"{"t":"belief","s":"a","r":"b","o":"c","c":0.5,"ca":0,"_e":{"user_id":"HASH"}}"#;
        let marked = verdict(1, &other.replace("HASH", hash));
        assert_eq!(marked, Ok(vec!["field_kind"]));
    }
}

#[test]
fn content_references_with_odd_values_are_marked_and_not_refused() {
    let checksum = format!("sha256:{}", "0a".repeat(32));
    for (modality, checksum, marks) in [
        ("image", checksum.as_str(), vec![]),
        ("hologram", &checksum, vec!["vocabulary"]),
        ("image", "md5:0a", vec!["field_kind"]),
    ] {
        let payload = format!(
            r#"{{"t":"event","content":"a","ca":0,
                 "cr":[{{"u":"x","m":"{modality}","ck":"{checksum}"}}]}}"#
        );
        let mut found = verdict(2, &payload).unwrap();
        found.retain(|mark| *mark != "reference_flags");
        assert_eq!(found, marks, "{payload}");
    }
}

#[test]
fn hiding_the_tags_keeps_the_sensitivity_that_they_require() {
    let grain = Json::parse(
        br#"{"type":"belief","subject":"a","relation":"b","object":"c","confidence":0.5,
             "created_at":0,"structural_tags":["phi:diagnosis"]}"#,
    )
    .unwrap();
    let options = EncodeOptions::default();
    let original = encode_json(&grain, options).unwrap();
    let hidden = [Field::StructuralTags];
    let disclosed = elide(&grain, &original.address, &hidden, options).unwrap();
    let class = |encoded: &EncodedGrain| {
        let header = GrainHeader::read(&encoded.blob).unwrap();
        header.flags.sensitivity()
    };
    assert_eq!(class(&original), Sensitivity::Phi);
    assert_eq!(class(&disclosed), Sensitivity::Phi);
}

#[test]
fn required_fields_of_an_action_must_have_the_right_kind() {
    for payload in [
        r#"{"t":"action","ca":0,"tn":5,"inp":{},"cnt":"a","iserr":false}"#,
        r#"{"t":"action","ca":0,"tn":"a","inp":"x","cnt":"a","iserr":false}"#,
        r#"{"t":"action","ca":0,"tn":"a","inp":{},"cnt":"a","iserr":0}"#,
        r#"{"t":"action","ca":0,"aphase":"result","tcid":5,"cnt":"a","iserr":false,"df":["x"]}"#,
        r#"{"t":"action","ca":0,"aphase":"result","tcid":"a","cnt":"a","iserr":false,"df":7}"#,
        r#"{"t":"action","ca":0,"aphase":"definition","tn":"a","tdesc":"b","isch":"{}"}"#,
        r#"{"t":"action","ca":0,"emode":"code_exec","code":5,"iserr":false}"#,
    ] {
        assert_eq!(verdict(5, payload), SCHEMA, "{payload}");
    }
    // A description is only valid in definitions; a single parent may be a plain text.
    let call = r#"{"t":"action","ca":0,"aphase":"call","tn":"a","inp":{},"tdesc":5}"#;
    assert_eq!(verdict(5, call), Ok(vec!["field_kind", "phase_fields"]));
    let result =
        r#"{"t":"action","ca":0,"aphase":"result","tcid":"a","cnt":"","iserr":false,"df":"x"}"#;
    assert_eq!(verdict(5, result), Ok(vec!["field_kind"]));
}

#[test]
fn required_texts_of_an_action_must_not_be_empty() {
    let definition = r#"{"type":"action","created_at":0,"action_phase":"definition","tool_name":"a","tool_description":"","input_schema":{}}"#;
    assert_eq!(code_of_write(definition), Some(ErrorCode::Empty));
    let run = r#"{"type":"action","created_at":0,"execution_mode":"code_exec","code":"","is_error":false}"#;
    assert_eq!(code_of_write(run), Some(ErrorCode::Empty));
    let silent = r#"{"type":"action","created_at":0,"tool_name":"a","input":{},"content":"","is_error":false}"#;
    assert_eq!(
        code_of_write(silent),
        None,
        "a tool may have nothing to say"
    );
}

#[test]
fn an_ordinary_call_may_run_code() {
    let run = |more: &str| {
        format!(
            r#"{{"type":"action","created_at":0,"execution_mode":"code_exec","is_error":false,{more}}}"#
        )
    };
    assert_eq!(
        code_of_write(&run(
            r#""tool_name":"python","input":{"code":"1"},"content":"1""#
        )),
        None
    );
    assert_eq!(code_of_write(&run(r#""code":"1","stdout":"1""#)), None);
    assert_eq!(
        write(&run(r#""stdout":"1""#)).unwrap_err().field.as_deref(),
        Some("code")
    );
    assert_eq!(
        write(&run(r#""tool_name":"python","content":"1""#))
            .unwrap_err()
            .field
            .as_deref(),
        Some("input")
    );
}

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

#[test]
fn a_key_with_a_non_canonical_length_denotes_its_field() {
    for (encoding, short, long) in [
        (Encoding::MessagePack, &b"\xa1s"[..], &b"\xd9\x01s"[..]),
        (Encoding::Cbor, b"\x61s", b"\x78\x01s"),
    ] {
        let blob = raw(
            1,
            r#"{"ca":0,"o":"c","r":"b","s":"a","t":"belief"}"#,
            encoding,
        );
        let at = blob.windows(2).position(|pair| pair == short).unwrap();
        let longer = [&blob[..at], long, &blob[at + 2..]].concat();
        assert_eq!(
            read(&longer).map_err(|error| error.code),
            Err(ErrorCode::Corrupt)
        );
        let payload = Payload::open(&longer, DEFAULT_PAYLOAD_LIMIT).unwrap();
        let grain = Grain::decode(&payload, DecodeMode::Lenient).unwrap();
        assert_eq!(grain.text(Field::Subject), Some("a"));
        assert!(grain.marks().iter().any(|mark| mark == Mark::NotCanonical));
        assert_eq!(
            Grain::decode_validated(&payload, grain.marks())
                .unwrap()
                .to_json(),
            grain.to_json()
        );
    }
}

#[test]
fn reused_grains_compare_each_namespace_with_its_own_header() {
    let [first, second, none] =
        [r#""namespace":"one","#, r#""namespace":"two","#, ""].map(|namespace| {
            write(&format!(
                r#"{{"type":"belief","subject":"a","relation":"b","object":"c",{namespace}"confidence":1.0,"created_at":0}}"#
            ))
            .unwrap()
            .blob
        });
    let mut mixed = second.clone();
    mixed[3..5].copy_from_slice(&first[3..5]);
    let blobs = [&first, &first, &mixed, &second, &none, &first, &mixed];
    let payloads = blobs.map(|blob| Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).unwrap());
    let mut grain = Grain::decode(&payloads[0], DecodeMode::Strict).unwrap();
    for (payload, blob) in payloads.iter().zip(blobs) {
        grain.redecode(payload, DecodeMode::Strict).unwrap();
        assert_eq!(
            grain
                .marks()
                .iter()
                .any(|mark| mark == Mark::HeaderNamespace),
            *blob == mixed
        );
    }
}

#[test]
fn compound_fields_must_have_their_required_members() {
    let with = |field: &str| {
        write(&format!(
            r#"{{"type":"event","created_at":0,"content":"x",{field}}}"#
        ))
        .map_err(|error| (error.code, error.field.unwrap_or_default().into_owned()))
        .map(|_| ())
    };
    for (field, missing) in [
        (
            r#""content_refs":[{"modality":"image"}]"#,
            "content_refs[0].uri",
        ),
        (
            r#""content_refs":[{"uri":"x","modality":"image"},{"uri":"x"}]"#,
            "content_refs[1].modality",
        ),
        (
            r#""content_refs":[{"uri":5,"modality":"image"}]"#,
            "content_refs[0].uri",
        ),
        (
            r#""content_refs":[{"citation_type":"doi"}]"#,
            "content_refs[0].identifier",
        ),
        (
            r#""embedding_refs":[{"vector_id":"v"}]"#,
            "embedding_refs[0].model",
        ),
        (
            r#""embedding_refs":[{"vector_id":"v","model":"m","dimensions":"3"}]"#,
            "embedding_refs[0].dimensions",
        ),
        (r#""owner":{"name":"x"}"#, "owner.type"),
        (
            r#""related_to":[{"relation_type":"supports"}]"#,
            "related_to[0].hash",
        ),
        (
            r#""related_to":[{"hash":"a","relation_type":"causal"},{"hash":"a"}]"#,
            "related_to[1].relation_type",
        ),
        (
            r#""derived_from":["a",{"identifier":"10.1/2"}]"#,
            "derived_from[1].citation_type",
        ),
        (
            r#""content_blocks":[{"type":"text","text":"x"},{"text":"x"}]"#,
            "content_blocks[1].type",
        ),
    ] {
        assert_eq!(
            with(field),
            Err((ErrorCode::Schema, missing.to_owned())),
            "{field}"
        );
    }
    for field in [
        r#""content_refs":[{"uri":"x","modality":"image"},{"citation_type":"doi","identifier":"10.1/2"}]"#,
        r#""embedding_refs":[{"vector_id":"v","model":"m","dimensions":3}]"#,
        r#""related_to":[{"hash":"a","relation_type":"causal"}]"#,
        r#""derived_from":["a",{"citation_type":"doi","identifier":"10.1/2"}]"#,
        r#""owner":{"type":"human","name":"x"}"#,
        r#""content_blocks":[{"type":"x_own"}]"#,
    ] {
        assert_eq!(with(field), Ok(()), "{field}");
    }
    let event = r#"{"t":"event","ca":0,"content":"x","own":{"name":"x"}}"#;
    assert_eq!(
        verdict(2, event),
        Ok(vec![]),
        "a reader takes what is there"
    );
}

#[test]
fn convertible_values_of_another_kind_are_marked() {
    for (byte, payload) in [
        (1, r#"{"t":"belief","s":"a","r":"b","o":"c","c":1,"ca":0}"#),
        (2, r#"{"t":"event","ca":0,"content":"x","im":1}"#),
        (2, r#"{"t":"event","ca":0,"content":"x","tags":"work"}"#),
        (2, r#"{"t":"event","ca":0,"content":"x","df":"y"}"#),
        (2, r#"{"t":"event","ca":0,"content":"x","sc":1.5}"#),
    ] {
        assert_eq!(verdict(byte, payload), Ok(vec!["field_kind"]), "{payload}");
    }
    assert_eq!(
        verdict(1, r#"{"t":"belief","s":"a","r":"b","o":"c","c":2,"ca":0}"#),
        Err(ErrorCode::Range)
    );
    assert_eq!(
        verdict(2, r#"{"t":"event","ca":0,"content":"x","sc":-1.5}"#),
        Err(ErrorCode::Range)
    );
}

#[test]
fn a_type_byte_above_255_is_out_of_range() {
    let goal = |types: &str| {
        format!(
            r#"{{"type":"goal","created_at":0,"description":"a","goal_state":"active","authorized_types":{types}}}"#
        )
    };
    assert_eq!(code_of_write(&goal("[1,255]")), None);
    assert_eq!(code_of_write(&goal("[1,256]")), Some(ErrorCode::Range));
    assert_eq!(code_of_write(&goal("[-1]")), Some(ErrorCode::Range));
    assert_eq!(code_of_write(&goal(r#"["1"]"#)), Some(ErrorCode::Schema));
    assert_eq!(code_of_write(&goal("1")), Some(ErrorCode::Schema));
}

#[test]
fn an_error_in_a_field_has_the_offset_of_its_value() {
    for encoding in [Encoding::MessagePack, Encoding::Cbor] {
        for (byte, payload, value) in [
            (
                1,
                r#"{"c":2.5,"ca":0,"o":"c","r":"b","s":"a","t":"belief"}"#,
                "c",
            ),
            (
                1,
                r#"{"c":0.5,"ca":true,"o":"c","r":"b","s":"a","t":"belief"}"#,
                "ca",
            ),
            (
                1,
                r#"{"c":0.5,"ca":0,"o":"c","r":"b","s":"","t":"belief"}"#,
                "s",
            ),
            (
                1,
                r#"{"c":0.5,"ca":0,"o":[1],"r":"b","s":"a","t":"belief"}"#,
                "o",
            ),
            (7, r#"{"ca":0,"desc":"a","gs":"no","t":"goal"}"#, "gs"),
        ] {
            let blob = raw(byte, payload, encoding);
            let key = &write_value(&value.into(), encoding).unwrap()[..];
            let end = blob
                .windows(key.len())
                .position(|window| window == key)
                .unwrap()
                + key.len();
            assert_eq!(
                read(&blob).unwrap_err().offset,
                Some(end as u64),
                "{encoding:?} {payload}"
            );
        }
    }
}

#[test]
fn a_cbor_array_at_the_root_is_not_a_map() {
    let blob = |flags: u8, payload: &[u8]| [&[1, flags, 1, 0, 0, 0, 0, 0, 0], payload].concat();
    let code = |flags, payload: &[u8]| read(&blob(flags, payload)).unwrap_err().code;
    for payload in [
        &b"\x80"[..],
        b"\x81\x01",
        b"\x82\x01\x61a",
        b"\x81\xa1\x61t\x66belief",
    ] {
        assert_eq!(code(1 << 5, payload), ErrorCode::NotMap, "{payload:02x?}");
    }
    assert_eq!(code(0, b"\x80"), ErrorCode::NoType);
    assert_eq!(code(1 << 5, b"\x82\x01"), ErrorCode::Corrupt, "neither");
    // A CBOR flag on MessagePack is detected nevertheless.
    let mut lying = raw(
        2,
        r#"{"t":"event","ca":0,"content":"x"}"#,
        Encoding::MessagePack,
    );
    lying[1] = 1 << 5;
    assert_eq!(read(&lying), Ok(vec!["encoding_flag"]));
}

#[test]
fn a_payload_beyond_the_readers_limit_is_not_compressed() {
    let grain = |length: usize| {
        vec![
            (Field::Type.into(), "event".into()),
            (Field::CreatedAt.into(), 0_i64.into()),
            (Field::Content.into(), "a".repeat(length).into()),
        ]
    };
    let compressed = EncodeOptions {
        compressed: true,
        ..EncodeOptions::default()
    };
    assert!(encode(grain(DEFAULT_PAYLOAD_LIMIT), EncodeOptions::default()).is_ok());
    let error = encode(grain(DEFAULT_PAYLOAD_LIMIT), compressed).unwrap_err();
    assert!(error.message.contains("can't be compressed"), "{error}");
    let fits = encode(grain(DEFAULT_PAYLOAD_LIMIT - 100), compressed).unwrap();
    assert_eq!(read(&fits.blob), Ok(vec![]));
}
