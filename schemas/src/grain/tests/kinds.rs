//! Values of another kind than the specification's: refused, converted, or kept with a mark.

use super::*;

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
