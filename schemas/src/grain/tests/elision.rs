//! Fields that a disclosure hides.

use super::*;
use crate::address::ContentAddress;

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
fn a_hidden_tag_that_is_a_single_string_counts_like_a_list() {
    let grain = Json::parse(
        br#"{"type":"belief","subject":"a","relation":"b","object":"c","confidence":0.5,
             "created_at":0,"structural_tags":"phi:diagnosis"}"#,
    )
    .unwrap();
    let address = ContentAddress::of(b"any");
    let hidden = [Field::StructuralTags];
    let disclosed = elide(&grain, &address, &hidden, EncodeOptions::default()).unwrap();
    let header = GrainHeader::read(&disclosed.blob).unwrap();
    assert_eq!(header.flags.sensitivity(), Sensitivity::Phi);
}

#[test]
fn a_copy_of_a_copy_hides_the_fields_of_both_and_names_the_original() {
    let grain = json(
        r#"{"type":"belief","subject":"a","relation":"b","object":"c","confidence":0.5,
            "created_at":0}"#,
    );
    let original = ContentAddress::of(b"original");
    let options = EncodeOptions::default();
    let copy = elide(&grain, &original, &[Field::Subject], options).unwrap();
    let copied = decoded(&copy.blob);
    let again = elide(&copied, &copy.address, &[Field::Object], options).unwrap();
    let again = decoded(&again.blob);
    for (field, value) in [(Field::Subject, "a"), (Field::Object, "c")] {
        assert_eq!(verify_elision(&again, field, &Json::from(value)), Ok(()));
    }
    let named = again.get("_disclosure_of").and_then(Json::as_str);
    assert_eq!(named, Some(original.to_string().as_str()));
}
