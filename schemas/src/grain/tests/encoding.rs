//! Bytes of a blob: lengths, headers, offsets of errors, limits.

use super::*;

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

#[test]
fn entries_are_in_the_order_of_the_bytes_whether_their_keys_are_fields_or_not() {
    for (encoding, expected) in [
        (Encoding::MessagePack, ["ca", "o", "obj2", "r", "s", "t"]),
        (Encoding::Cbor, ["o", "r", "s", "t", "ca", "obj2"]),
    ] {
        let json = r#"{"ca":0,"o":"c","obj2":2,"r":"b","s":"a","t":"belief"}"#;
        let blob = raw(1, json, encoding);
        let payload = Payload::open(&blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
        let grain = Grain::decode(&payload, DecodeMode::Lenient).unwrap();
        let keys: Vec<&str> = grain.entries().map(|(key, _)| key).collect();
        assert_eq!(keys, expected);
    }
}

#[test]
fn entries_include_null_ones() {
    let map = b"\x84\xa3Ada\xc0\xa2ca\x00\xa7content\xa1x\xa1t\xa5event";
    let blob = [&b"\x01\0\x02\0\0\0\0\0\0"[..], map].concat();
    let payload = Payload::open(&blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
    let grain = Grain::decode_validated(&payload, Marks::default()).unwrap();
    let entries: Vec<_> = grain.entries().take(2).collect();
    assert_eq!(entries, [("Ada", RawValue::Nil), ("ca", RawValue::Int(0))]);
    assert_eq!(grain.entries().count(), 4);
    assert_eq!(grain.null_keys(), ["Ada"]);
}
