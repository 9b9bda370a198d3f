//! Blobs and envelopes: truncation, false lengths, the depth limit, decompression bombs.

use gristmill_schemas::error::ErrorCode;
use gristmill_schemas::grain::{
    DEPTH_LIMIT, DecodeMode, EncodeOptions, Encoding, HEADER_LENGTH, encode_json,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{SigningKey, sign};

use super::{LIMIT, belief, blob_of, code, read};

#[test]
fn a_blob_truncated_at_any_byte_is_an_error() {
    let blob = belief(7);
    for length in 0..blob.len() {
        let expected = if length < 10 {
            ErrorCode::TooShort
        } else {
            ErrorCode::Corrupt
        };
        for mode in [DecodeMode::Strict, DecodeMode::Lenient] {
            let error = read(&blob[..length], mode).unwrap_err();
            assert_eq!(error.code, expected, "{length}: {error}");
            assert!(
                error.offset.is_none_or(|offset| offset <= length as u64),
                "{length}: {error}"
            );
        }
    }
}

#[test]
fn an_envelope_truncated_at_any_byte_is_an_error() {
    let text = br#"{"type":"event","content":"hello","created_at":1}"#;
    let options = EncodeOptions {
        signed: true,
        ..EncodeOptions::default()
    };
    let blob = encode_json(&Json::parse(text).unwrap(), options)
        .unwrap()
        .blob;
    let envelope = sign(&blob, &SigningKey::from_seed(&[1; 32]), None, 0).unwrap();
    assert_eq!(read(&envelope, DecodeMode::Strict), Ok(()));
    for length in 1..envelope.len() {
        assert!(
            read(&envelope[..length], DecodeMode::Lenient).is_err(),
            "{length}"
        );
    }
}

#[test]
fn trailing_bytes_are_an_error_in_every_mode() {
    for tail in [&b"\0"[..], b"\xc0", b"\x80", &[0xff; 100]] {
        let blob = [&belief(1)[..], tail].concat();
        for mode in [DecodeMode::Strict, DecodeMode::Lenient] {
            assert_eq!(read(&blob, mode).unwrap_err().code, ErrorCode::Corrupt);
        }
    }
}

#[test]
fn a_declared_length_beyond_the_input_is_an_error_without_allocation() {
    let pack: [&[u8]; 8] = [
        b"\xdf\xff\xff\xff\xff",
        b"\xde\xff\xff",
        b"\x81\xa1x\xdb\xff\xff\xff\xff",
        b"\x81\xa1x\xc6\xff\xff\xff\xff",
        b"\x81\xa1x\xdd\xff\xff\xff\xff",
        b"\x81\xdb\x7f\xff\xff\xff",
        b"\x81\xa1x\xdc\xff\xff",
        b"\x8f",
    ];
    for payload in pack {
        assert_eq!(
            code(&blob_of(payload)),
            Some(ErrorCode::Corrupt),
            "{payload:02x?}"
        );
    }
    let cbor: [&[u8]; 5] = [
        b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xba\xff\xff\xff\xff",
        b"\xa1\x61x\x7b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xa1\x61x\x9b\x00\x00\x00\xff\xff\xff\xff\xff",
        b"\xa1\x61x\x5a\xff\xff\xff\xff",
    ];
    for payload in cbor {
        let mut blob = blob_of(payload);
        blob[1] = 1 << 5;
        assert_eq!(code(&blob), Some(ErrorCode::Corrupt), "{payload:02x?}");
    }
}

/// Returns a belief whose context nests `depth` levels below the payload's own map, as arrays or as
/// maps.
fn nested(depth: usize, opening: &[u8], innermost: &[u8]) -> Vec<u8> {
    let rest = &belief(1)[HEADER_LENGTH + 1..];
    let open = opening.repeat(depth);
    // Six fields, and `x_`, which sorts after them.
    blob_of(&[b"\x87", rest, b"\xa2x_", &open, innermost].concat())
}

#[test]
fn the_depth_limit_is_exact() {
    for (opening, innermost) in [(&b"\x91"[..], &b"\x90"[..]), (b"\x81\xa1k", b"\x80")] {
        // The payload's own map and the innermost container count as levels.
        for (depth, fits) in [
            (DEPTH_LIMIT - 3, true),
            (DEPTH_LIMIT - 2, true),
            (DEPTH_LIMIT - 1, false),
        ] {
            let mut blob = nested(depth, opening, innermost);
            blob[5..9].copy_from_slice(&[0; 4]);
            assert_eq!(
                read(&blob, DecodeMode::Strict).is_ok(),
                fits,
                "{depth}: {:?}",
                read(&blob, DecodeMode::Strict)
            );
        }
        for depth in [1_000, 1_000_000] {
            assert_eq!(
                code(&nested(depth, opening, innermost)),
                Some(ErrorCode::Corrupt)
            );
        }
    }
    let mut cbor = blob_of(&[&b"\xa1\x61x"[..], &b"\x81".repeat(1_000_000)].concat());
    cbor[1] = 1 << 5;
    assert_eq!(code(&cbor), Some(ErrorCode::Corrupt));
}

#[test]
fn a_decompression_bomb_is_an_error_by_declared_and_by_actual_size() {
    let content = vec![0; LIMIT + 1];
    let declared = zstd::bulk::compress(&content, 19).unwrap();
    let mut undeclared = Vec::new();
    zstd::stream::copy_encode(&content[..], &mut undeclared, 19).unwrap();
    for frame in [declared, undeclared] {
        assert!(frame.len() < 200, "a bomb is small");
        let mut blob = blob_of(&frame);
        blob[1] = 1 << 2;
        assert_eq!(code(&blob), Some(ErrorCode::Corrupt));
    }
}

#[test]
fn indefinite_lengths_tags_and_undefined_are_errors_in_cbor() {
    for payload in [
        &b"\xbf\xff"[..],
        b"\xa1\x61x\x9f\xff",
        b"\xa1\x61x\xc0\x60",
        b"\xa1\x61x\xf7",
        b"\xa1\x61x\x7f\xff",
    ] {
        let mut blob = blob_of(payload);
        blob[1] = 1 << 5;
        for mode in [DecodeMode::Strict, DecodeMode::Lenient] {
            assert_eq!(
                read(&blob, mode).unwrap_err().code,
                ErrorCode::Corrupt,
                "{payload:02x?}"
            );
        }
    }
    let cbor = EncodeOptions {
        encoding: Encoding::Cbor,
        ..EncodeOptions::default()
    };
    let text = br#"{"type":"event","content":"hello","created_at":1}"#;
    assert_eq!(
        read(
            &encode_json(&Json::parse(text).unwrap(), cbor).unwrap().blob,
            DecodeMode::Strict
        ),
        Ok(())
    );
}
