//! Regression tests for bugs of other implementations of the specification. `docs/pitfalls.md`
//! lists each bug with its test; those of the codec alone are in `schemas/tests` and in the
//! conformance cases.
//!
//! Above 500 lines: one list of small, unrelated tests.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{
    Codec, Container, ContainerLimits, ContainerOptions, IndexState, Manifest,
};
use gristmill_schemas::error::ErrorCode;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Encoding, Field, Grain, Mark, Payload,
    TypeByte, Value, encode, integration_keys,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{SigningKey, sign};
use gristmill_tests::grains::{belief, container, frames, grain, grain_with, plain};
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

const ACTION: &str = r#"{"type":"action","tool_name":"run","input":{"cmd":"ls"},"content":"ok","is_error":false,"created_at":5}"#;

// Format and fields

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

// Containers

#[tokio::test(flavor = "multi_thread")]
async fn offsets_may_count_from_the_file_or_from_the_region() {
    let grains: Vec<_> = (0..5).map(belief).collect();
    let absolute = plain(&grains);
    let mut relative = absolute.clone();
    let start = 16 + 4 * grains.len();
    for at in (16..start).step_by(4) {
        let offset = u32::from_be_bytes(relative[at..at + 4].try_into().unwrap()) - start as u32;
        relative[at..at + 4].copy_from_slice(&offset.to_be_bytes());
    }
    refoot(&mut relative);
    let mut lake = TestLake::new().await;
    let report = lake
        .ingest(&[("absolute.mg", &absolute), ("relative.mg", &relative)])
        .await;
    assert_eq!(
        (report.grains_written, report.duplicates, report.rejected),
        (5, 5, 0)
    );
}

fn refoot(file: &mut [u8]) {
    use sha2::Digest;
    let body = file.len() - 32;
    let footer = sha2::Sha256::digest(&file[..body]);
    file[body..].copy_from_slice(&footer);
}

#[tokio::test(flavor = "multi_thread")]
async fn last_grain_before_a_manifest_ends_where_its_bytes_end() {
    let grains: Vec<_> = (0..3).map(belief).collect();
    let address = ContentAddress::of(&grains[2]);
    let state = IndexState {
        superseded_by: Some(ContentAddress::of(&grains[0])),
        ..IndexState::default()
    };
    let manifest = Manifest {
        entries: [(address, state)].into(),
    };
    let file = container(&grains, ContainerOptions::default(), Some(&manifest));
    let mut lake = TestLake::new().await;
    let report = lake.ingest(&[("a.mg", &file)]).await;
    assert_eq!((report.grains_written, report.rejected), (3, 0));
    assert_eq!(
        lake.value("SELECT value FROM state").await,
        ContentAddress::of(&grains[0]).to_string()
    );
    assert_eq!(lake.value("SELECT count(*) FROM current").await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn codec_byte_and_compressed_flag_may_disagree() {
    let grains: Vec<_> = (0..5).map(belief).collect();
    let mut lake = TestLake::new().await;
    for codec in [Codec::Zstd, Codec::Lz4] {
        let file = container(
            &grains,
            ContainerOptions {
                codec,
                ..ContainerOptions::default()
            },
            None,
        );
        let mut without_flag = file.clone();
        without_flag[3] &= !(1 << 2);
        refoot(&mut without_flag);
        let mut without_codec = file.clone();
        without_codec[9] = 0;
        refoot(&mut without_codec);
        for file in [file, without_flag, without_codec] {
            let opened = Container::open(&file[..], ContainerLimits::default()).unwrap();
            assert_eq!((opened.len(), opened.codec()), (5, codec));
            let report = lake.ingest(&[("a.mg", &file)]).await;
            assert_eq!((report.grains_read, report.rejected), (5, 0));
        }
    }
    assert_eq!(lake.value("SELECT count(*) FROM grains").await, "5");
}

#[test]
fn offsets_of_32_bits_limit_a_file_to_four_gibibytes() {
    use gristmill_schemas::container::ContainerWriter;
    let fits = vec![1 << 30; 3];
    assert!(ContainerWriter::new(std::io::sink(), ContainerOptions::default(), fits).is_ok());
    let beyond = vec![1 << 30; 4];
    assert!(ContainerWriter::new(std::io::sink(), ContainerOptions::default(), beyond).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_footer_refuses_the_file_even_if_every_grain_is_sound() {
    let mut file = plain(&[belief(1), belief(2)]);
    let last = file.len() - 1;
    file[last] ^= 1;
    let mut lake = TestLake::new().await;
    let report = lake.ingest(&[("a.mg", &file)]).await;
    assert_eq!(
        (report.grains_written, lake.reject_codes().await),
        (0, vec!["ERR_INTEGRITY".to_owned()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn error_in_a_wrapped_grain_has_its_byte_offset_in_the_file() {
    let text = r#"{"type":"belief","subject":"s","relation":"r","object":"o","confidence":0.5,"created_at":1}"#;
    let mut blob = grain_with(
        text,
        EncodeOptions {
            signed: true,
            ..EncodeOptions::default()
        },
    )
    .blob;
    // 2.5 in place of 0.5.
    let at = blob
        .windows(3)
        .position(|window| window == [0xcb, 0x3f, 0xe0])
        .unwrap();
    blob[at + 1..at + 3].copy_from_slice(&[0x40, 0x04]);
    let file = plain(&[sign(&blob, &SigningKey::from_seed(&[7; 32]), None, 0).unwrap()]);
    let place = file
        .windows(3)
        .position(|window| window == [0xcb, 0x40, 0x04])
        .unwrap();
    let mut lake = TestLake::new().await;
    lake.ingest(&[("a.mg", &file)]).await;
    let rows = lake
        .rows("SELECT error_code, \"offset\" FROM rejects")
        .await;
    assert_eq!(rows, [["ERR_RANGE".to_owned(), place.to_string()]]);
}

// Ingest

#[tokio::test(flavor = "multi_thread")]
async fn every_import_path_checks_the_hash_before_storing() {
    let mut damaged = belief(1);
    let last = damaged.len() - 1;
    damaged[last] = 0xff;
    let mut lake = TestLake::new().await;
    let pair = [belief(2), damaged.clone()];
    let compressed = container(
        &pair,
        ContainerOptions {
            codec: Codec::Zstd,
            ..ContainerOptions::default()
        },
        None,
    );
    let report = lake
        .ingest(&[
            ("a.mg", &plain(&pair)),
            ("b.mg", &compressed),
            ("c.frames", &frames(&pair)),
            ("d", &damaged),
        ])
        .await;
    assert_eq!(
        (report.grains_written, report.duplicates, report.rejected),
        (1, 2, 4)
    );
    assert_eq!(lake.reject_codes().await, ["ERR_CORRUPT"; 4]);
    // Stored grains match their address on every path.
    assert_eq!(
        lake.value("SELECT count(*) FROM grains WHERE content_address <> content_address(blob)")
            .await,
        "0"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_commits_once_and_not_per_row() {
    let grains: Vec<_> = (0..3_000).map(belief).collect();
    let mut lake = TestLake::new().await;
    let before = lake.lake.grains.version();
    let report = lake
        .ingest(&[
            ("a.mg", &plain(&grains[..1_500])),
            ("b.frames", &frames(&grains[1_000..])),
        ])
        .await;
    assert_eq!(
        (report.grains_written, report.duplicates, report.version),
        (3_000, 500, before + 1)
    );
    assert_eq!(lake.lake.segments().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_index_costs_time_and_admits_no_duplicate() {
    let grains: Vec<_> = (0..200).map(belief).collect();
    let mut lake = TestLake::new().await;
    lake.ingest(&[("a.mg", &plain(&grains))]).await;
    std::fs::remove_dir_all(lake.folder().join("lake/index")).unwrap();
    let report = lake.ingest(&[("b.frames", &frames(&grains))]).await;
    assert_eq!((report.grains_written, report.duplicates), (0, 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn cost_per_grain_does_not_grow_with_the_lake() {
    let batch = |from: usize| plain(&(from..from + 2_000).map(belief).collect::<Vec<_>>());
    let mut lake = TestLake::new().await;
    let mut seconds = Vec::new();
    for round in 0..6 {
        seconds.push(
            lake.ingest(&[("a.mg", &batch(round * 2_000))])
                .await
                .seconds,
        );
    }
    assert_eq!(lake.value("SELECT count(*) FROM grains").await, "12000");
    // A generous bound for a busy machine; a cost that grows with each insert would exceed it by
    // far.
    let early = seconds[..3].iter().copied().fold(f64::INFINITY, f64::min);
    let late = seconds[3..].iter().copied().fold(f64::INFINITY, f64::min);
    assert!(late < 4.0 * early + 1.0, "{seconds:?}");
}
