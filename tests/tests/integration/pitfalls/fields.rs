//! Format and fields of a grain.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::ErrorCode;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Encoding, Field, Grain, Mark, Payload,
    TypeByte, Value, encode, integration_keys,
};
use gristmill_schemas::json::Json;
use gristmill_tests::grains::{belief, grain, grain_with, plain};
use gristmill_tests::lake::TestLake;

/// Decodes `blob` in `mode`: the grain as JSON and its marks, or the error code.
fn read(blob: &[u8], mode: DecodeMode) -> Result<(Json<'static>, Vec<Mark>), ErrorCode> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).map_err(|error| error.code)?;
    let grain = Grain::decode(&payload, mode).map_err(|error| error.code)?;
    Ok((grain.to_json(), grain.marks().iter().collect()))
}

fn strict(blob: &[u8]) -> (Json<'static>, Vec<Mark>) {
    read(blob, DecodeMode::Strict).unwrap()
}

const ACTION: &str = r#"{"type":"action","tool_name":"run","input":{"cmd":"ls"},"content":"ok","is_error":false,"created_at":5}"#;

/// The blob of a grain with unknown keys.
fn blob_with(json: &str, own: &[(&'static str, Value)]) -> Vec<u8> {
    let plain = grain(json).blob;
    let payload = Payload::open(&plain, DEFAULT_PAYLOAD_LIMIT).unwrap();
    let grain = Grain::decode(&payload, DecodeMode::Strict).unwrap();
    let known = grain
        .known()
        .iter()
        .map(|(field, value)| ((*field).into(), value.to_value()));
    let own = own.iter().map(|(key, value)| {
        (
            gristmill_schemas::grain::Key::Custom((*key).into()),
            value.clone(),
        )
    });
    encode(known.chain(own).collect(), EncodeOptions::default())
        .unwrap()
        .blob
}

#[test]
fn cbor_flag_over_messagepack_is_read_and_marked() {
    let mut blob = belief(1);
    blob[1] |= 1 << 5;
    let (json, marks) = strict(&blob);
    assert_eq!(
        (json.get("subject").and_then(Json::as_str), marks),
        (Some("subject 1"), vec![Mark::EncodingFlag])
    );
    let cbor = grain_with(
        ACTION,
        EncodeOptions {
            encoding: Encoding::Cbor,
            ..EncodeOptions::default()
        },
    )
    .blob;
    assert_eq!(strict(&cbor).1, []);
}

#[test]
fn short_keys_of_other_writers_are_read_in_their_own_type_only() {
    let fields: [(&'static str, Value); 8] = [
        ("t", "action".into()),
        ("ca", 5_i64.into()),
        ("tn", "run".into()),
        ("inp", Value::Map(Vec::new())),
        ("cnt", "ok".into()),
        ("iserr", false.into()),
        ("stdout", "hello".into()),
        ("xcode", 3_i64.into()),
    ];
    let action = by_hand(
        5,
        fields
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect(),
    );
    // To the codec a key outside of the field map is the author's own.
    let (json, _) = strict(&action);
    assert_eq!(json.get("xcode").and_then(Json::as_i64), Some(3));
    let (json, marks) = read(&action, DecodeMode::StrictAliased).unwrap();
    assert_eq!(json.get("stdout").and_then(Json::as_str), Some("hello"));
    assert_eq!(json.get("exit_code").and_then(Json::as_i64), Some(3));
    assert!(marks.contains(&Mark::AliasedKey));
    // In a belief the same key is unknown.
    let text = r#"{"type":"belief","subject":"s","relation":"r","object":"o","confidence":1.0,"created_at":1}"#;
    let (json, marks) = strict(&blob_with(text, &[("xcode", 3_i64.into())]));
    assert_eq!(
        (
            json.get("xcode").and_then(Json::as_i64),
            json.get("exit_code"),
            marks
        ),
        (Some(3), None, vec![])
    );
}

#[test]
fn renamed_short_keys_are_read_under_both_names() {
    for (name, keys) in [
        ("int:http_method", ["int:http_method", "ihm", "im"]),
        ("int:http_path", ["int:http_path", "ihp", "ip"]),
        ("int:cursor_type", ["int:cursor_type", "icft", "ict2"]),
        ("int:config_schema", ["int:config_schema", "icfg", "icfgs"]),
        ("int:event_schema", ["int:event_schema", "ievt", "ievs"]),
    ] {
        assert!(integration_keys(name).eq(keys), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_a_tool_result_is_in_the_column_content() {
    let event = r#"{"type":"event","content":"said","created_at":1}"#;
    let mut lake = TestLake::new().await;
    lake.ingest(&[("a.mg", &plain(&[grain(ACTION).blob, grain(event).blob]))])
        .await;
    let rows = lake
        .rows("SELECT type, content FROM grains ORDER BY type")
        .await;
    assert_eq!(rows, [["action", "ok"], ["event", "said"]]);
}

#[test]
fn keys_inside_a_user_map_are_unchanged() {
    let text = r#"{"type":"state","context":{"object":"long","o":"short","subject":1,"s":2},"created_at":1}"#;
    let (json, marks) = strict(&grain(text).blob);
    assert_eq!(
        json.get("context").unwrap(),
        Json::parse(text.as_bytes())
            .unwrap()
            .get("context")
            .unwrap()
    );
    assert_eq!(marks, []);
}

#[test]
fn unknown_keys_are_kept_with_known_ones() {
    let text = r#"{"type":"event","content":"hi","created_at":1,"x_note":"mine","o_":5}"#;
    let (json, _) = strict(&grain(text).blob);
    assert_eq!(json, Json::parse(text.as_bytes()).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn text_for_a_list_and_numbers_of_another_kind_become_cells() {
    let goal = r#"{"type":"goal","description":"d","goal_state":"active","created_at":1}"#;
    let consensus = r#"{"type":"consensus","participating_observers":["a"],"agreement_count":1,"dissent_count":0,"threshold":2,"created_at":1}"#;
    let replaced = |text: &str, field: Field, value: Value| {
        let plain = grain(text).blob;
        let payload = Payload::open(&plain, DEFAULT_PAYLOAD_LIMIT).unwrap();
        let grain = Grain::decode(&payload, DecodeMode::Strict).unwrap();
        let rest = grain.known().iter().filter(|(known, _)| *known != field);
        let rest = rest.map(|(known, value)| {
            (
                known.short_key(grain.grain_type()).to_owned().into(),
                value.to_value(),
            )
        });
        let key = field.short_key(grain.grain_type()).to_owned().into();
        by_hand(plain[2], rest.chain([(key, value)]).collect())
    };
    let address = ContentAddress::of(b"x").to_string();
    let grains = [
        replaced(goal, Field::DerivedFrom, address.clone().into()),
        replaced(goal, Field::Priority, "7".into()),
        replaced(consensus, Field::Threshold, 2.0.into()),
    ];
    let mut lake = TestLake::new().await;
    let report = lake.ingest(&[("a.mg", &plain(&grains))]).await;
    assert_eq!(
        report.rejected,
        0,
        "{:?}",
        lake.rows("SELECT message FROM rejects").await
    );
    assert_eq!(
        lake.value("SELECT derived_from[1] FROM grains WHERE derived_from IS NOT NULL")
            .await,
        address
    );
    assert_eq!(
        lake.value("SELECT priority FROM grains WHERE priority IS NOT NULL")
            .await,
        "7"
    );
    assert_eq!(
        lake.value("SELECT threshold FROM grains WHERE threshold IS NOT NULL")
            .await,
        "2"
    );
    // The blob is unchanged, whatever the cell contains.
    assert_eq!(
        lake.value("SELECT count(*) FROM grains WHERE content_address = content_address(blob)")
            .await,
        "3"
    );
}

/// A MessagePack blob with a type byte and any map; the map's bytes come from the encoder of an
/// event's context.
fn by_hand(type_byte: u8, entries: Vec<(std::borrow::Cow<'static, str>, Value)>) -> Vec<u8> {
    let seconds = 0_u32.to_be_bytes();
    let mut blob = vec![1, 0, type_byte, 0, 0];
    blob.extend(seconds);
    blob.extend(message_pack(Value::Map(entries)));
    blob
}

/// Returns `value` in MessagePack: the bytes after the key `ctx` of a state in which it is last.
fn message_pack(value: Value) -> Vec<u8> {
    let fields = vec![
        (Field::Type.into(), "state".into()),
        (Field::CreatedAt.into(), 1_i64.into()),
        (Field::Context.into(), value),
    ];
    let blob = encode(fields, EncodeOptions::default()).unwrap().blob;
    // 83, a2 "ca" 01, a3 "ctx" value, a1 "t" a5 "state"
    blob[9 + 1 + 4 + 4..blob.len() - 8].to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn index_fields_inside_a_blob_are_marked_and_not_applied() {
    let other = belief(2);
    let claimed = ContentAddress::of(&other).to_string();
    let payload = belief(1);
    let opened = Payload::open(&payload, DEFAULT_PAYLOAD_LIMIT).unwrap();
    let decoded = Grain::decode(&opened, DecodeMode::Strict).unwrap();
    let known = decoded
        .known()
        .iter()
        .map(|(field, value)| (field.short_key(None).to_owned().into(), value.to_value()));
    let blob = by_hand(
        1,
        known
            .chain([
                ("sb".into(), claimed.into()),
                ("vstatus".into(), "retracted".into()),
            ])
            .collect(),
    );
    let mut lake = TestLake::new().await;
    let report = lake.ingest(&[("a.mg", &plain(&[blob]))]).await;
    assert_eq!(
        (report.grains_written, report.marks.get("index_fields")),
        (1, Some(&1)),
        "{report:?}"
    );
    assert_eq!(lake.value("SELECT count(*) FROM state").await, "0");
    assert_eq!(lake.value("SELECT count(*) FROM current").await, "1");
}

#[test]
fn trailing_bytes_are_refused() {
    for mode in [DecodeMode::Strict, DecodeMode::Lenient] {
        assert_eq!(
            read(&[&belief(1)[..], b"\xc0"].concat(), mode),
            Err(ErrorCode::Corrupt)
        );
    }
}

#[test]
fn keys_are_normalized_like_values() {
    let decomposed =
        "{\"type\":\"state\",\"created_at\":1,\"context\":{\"caf\u{65}\u{301}\":\"cre\u{300}me\"}}";
    let composed =
        "{\"type\":\"state\",\"created_at\":1,\"context\":{\"caf\u{e9}\":\"cr\u{e8}me\"}}";
    assert_eq!(grain(decomposed), grain(composed));
    let twice =
        "{\"type\":\"state\",\"created_at\":1,\"context\":{\"\u{65}\u{301}\":1,\"\u{e9}\":2}}";
    let json = Json::parse(twice.as_bytes()).unwrap();
    let error = gristmill_schemas::grain::encode_json(&json, EncodeOptions::default()).unwrap_err();
    assert_eq!(error.code, ErrorCode::Corrupt);
}

#[test]
fn every_historical_type_name_is_read_and_the_header_byte_decides() {
    for (name, byte) in [
        ("fact", 1),
        ("belief", 1),
        ("episode", 2),
        ("checkpoint", 3),
        ("tool_call", 5),
        ("tool", 5),
    ] {
        assert_eq!(
            TypeByte::from_name(name).map(TypeByte::byte),
            Some(byte),
            "{name}"
        );
    }
    let text = r#"{"type":"fact","subject":"s","relation":"r","object":"o","confidence":1.0,"created_at":1}"#;
    let blob = grain(text).blob;
    // The type name's spelling is kept, because another one would be another grain.
    assert_eq!(
        (blob[2], strict(&blob).0.get("type").and_then(Json::as_str)),
        (1, Some("fact"))
    );
    let mut lie = blob;
    lie[2] = 2;
    assert_eq!(read(&lie, DecodeMode::Lenient), Err(ErrorCode::Corrupt));
}

#[test]
fn two_calls_in_one_millisecond_differ_by_their_call_ids() {
    let call = |id: &str| {
        grain(&format!(
            r#"{{"type":"action","action_phase":"call","tool_name":"t","input":{{}},"tool_call_id":"{id}","created_at":1}}"#
        ))
    };
    assert_ne!(call("one").address, call("two").address);
    assert_eq!(call("one").address, call("one").address);
}
