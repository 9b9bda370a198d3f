//! Invalid input: truncated, modified, decompression bombs, false lengths, random bytes. Every case
//! yields its error code quickly, and without allocating more than the input justifies.

mod grains;

use std::time::{Duration, Instant};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{
    CONTAINER_HEADER_LENGTH, Codec, Container, ContainerLimits, ContainerOptions, ContainerWriter,
    FOOTER_LENGTH, GrainFrame, IndexState, Manifest, next_frame,
};
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{
    DEPTH_LIMIT, DecodeMode, EncodeOptions, Encoding, Grain, HEADER_LENGTH, Payload, encode_json,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{DeliveredGrain, SigningKey, sign};
use proptest::collection::vec;
use proptest::prelude::*;

/// The limit for decompressed payloads and regions in these tests.
const LIMIT: usize = 1 << 20;

const LIMITS: ContainerLimits = ContainerLimits {
    region: LIMIT,
    grain: LIMIT,
};

fn read(blob: &[u8], mode: DecodeMode) -> Result<(), GrainError> {
    let delivery = DeliveredGrain::open(blob)?;
    let payload = Payload::open(delivery.blob(), LIMIT)?;
    let grain = Grain::decode(&payload, mode)?;
    // A validated payload decodes again without checks, whatever its marks are.
    let again = Grain::decode_validated(&payload, grain.marks()).unwrap();
    assert_eq!(again.known(), grain.known());
    assert_eq!(
        (again.unknown(), again.marks()),
        (grain.unknown(), grain.marks())
    );
    Ok(())
}

fn code(blob: &[u8]) -> Option<ErrorCode> {
    read(blob, DecodeMode::Strict).err().map(|error| error.code)
}

/// Returns a belief with the given payload.
fn blob_of(payload: &[u8]) -> Vec<u8> {
    [&[1, 0, 1, 0, 0, 0, 0, 0, 0], payload].concat()
}

fn belief(number: usize) -> Vec<u8> {
    let text = format!(
        r#"{{"type":"belief","subject":"s{number}","relation":"is","object":"o","confidence":0.5,"created_at":{number}}}"#
    );
    encode_json(
        &Json::parse(text.as_bytes()).unwrap(),
        EncodeOptions::default(),
    )
    .unwrap()
    .blob
}

fn container(grains: &[Vec<u8>], codec: Codec, manifest: Option<&Manifest>) -> Vec<u8> {
    let options = ContainerOptions {
        codec,
        with_manifest: manifest.is_some(),
        ..ContainerOptions::default()
    };
    let lengths = grains.iter().map(|grain| grain.len() as u32).collect();
    let mut writer = ContainerWriter::new(Vec::new(), options, lengths).unwrap();
    grains.iter().for_each(|grain| writer.push(grain).unwrap());
    writer.finish(manifest).unwrap()
}

fn open(file: &[u8]) -> Result<Container<&[u8]>, GrainError> {
    Container::open(file, LIMITS)
}

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
fn a_region_beyond_the_limits_is_an_error() {
    let grains: Vec<_> = (0..3).map(|_| vec![7; LIMIT]).collect();
    for codec in [Codec::Zstd, Codec::Lz4] {
        let file = container(&grains, codec, None);
        assert!(file.len() < 20_000, "a bomb is small");
        assert_eq!(open(&file).unwrap_err().code, ErrorCode::Corrupt);
        let wider = ContainerLimits {
            region: 3 * LIMIT,
            grain: LIMIT,
        };
        assert_eq!(Container::open(&file[..], wider).unwrap().len(), 3);
        let per_grain = ContainerLimits {
            region: 3 * LIMIT,
            grain: LIMIT - 1,
        };
        assert!(
            Container::open(&file[..], per_grain).is_err(),
            "so many bytes per grain"
        );
    }
}

#[test]
fn a_container_truncated_at_any_byte_is_an_error() {
    let grains: Vec<_> = (0..4).map(belief).collect();
    let state = IndexState {
        access_count: Some(3),
        ..IndexState::default()
    };
    let address = ContentAddress::of(&grains[1]);
    let manifest = Manifest {
        entries: [(address, state)].into(),
    };
    for codec in [Codec::None, Codec::Zstd, Codec::Lz4] {
        for manifest in [None, Some(&manifest)] {
            let file = container(&grains, codec, manifest);
            assert_eq!(open(&file).unwrap().len(), 4);
            for length in 0..file.len() {
                // Without a manifest, truncation of the last grain of an uncompressed file is only
                // detected by the footer.
                if let Ok(cut) = open(&file[..length]) {
                    assert!(
                        manifest.is_none() && codec == Codec::None,
                        "{codec:?} {length}"
                    );
                    let hash = ContentAddress::of(&file[..length - FOOTER_LENGTH]);
                    assert_ne!(hash.as_bytes(), cut.footer(), "{length}");
                }
            }
        }
    }
}

#[test]
fn a_corrupt_first_grain_that_looks_compressed_affects_only_that_grain() {
    for magic in [[0x28, 0xB5, 0x2F, 0xFD], [0x04, 0x22, 0x4D, 0x18]] {
        let mut damaged = belief(0);
        damaged[..4].copy_from_slice(&magic);
        let grains = [damaged, belief(1), belief(2)];
        let file = container(&grains, Codec::None, None);
        let opened = open(&file).unwrap();
        assert_eq!((opened.codec(), opened.len()), (Codec::None, 3));
        assert!(
            grains
                .iter()
                .enumerate()
                .all(|(at, grain)| opened.grain(at) == Some(grain))
        );
    }
}

#[test]
fn invalid_offsets_are_an_error() {
    let grains: Vec<_> = (0..3).map(belief).collect();
    let good = container(&grains, Codec::None, None);
    let first = (CONTAINER_HEADER_LENGTH + 12) as u32;
    let with = |offsets: [u32; 3]| {
        let mut file = good.clone();
        for (at, offset) in offsets.into_iter().enumerate() {
            let place = CONTAINER_HEADER_LENGTH + 4 * at;
            file[place..place + 4].copy_from_slice(&offset.to_be_bytes());
        }
        open(&file).err().map(|error| error.code)
    };
    let (second, third) = (
        first + grains[0].len() as u32,
        first + (grains[0].len() + grains[1].len()) as u32,
    );
    assert_eq!(with([first, second, third]), None);
    assert_eq!(
        with([0, second - first, third - first]),
        None,
        "relative to the region"
    );
    for offsets in [
        [first, third, second],
        [first, second, second],
        [first, first, first],
        [first + 1, second, third],
        [first, second, u32::MAX],
        [first, second, good.len() as u32],
        [first, 0, third],
        [u32::MAX; 3],
        [0, 0, 0],
        [1, 2, 3],
    ] {
        assert_eq!(with(offsets), Some(ErrorCode::Corrupt), "{offsets:?}");
    }
}

#[test]
fn a_false_grain_count_is_an_error() {
    let grains: Vec<_> = (0..3).map(belief).collect();
    for codec in [Codec::None, Codec::Zstd, Codec::Lz4] {
        for count in [4_u32, 1_000, u32::MAX] {
            let mut file = container(&grains, codec, None);
            file[4..8].copy_from_slice(&count.to_be_bytes());
            assert_eq!(
                open(&file).unwrap_err().code,
                ErrorCode::Corrupt,
                "{codec:?} {count}"
            );
        }
    }
}

#[test]
fn grains_after_a_count_of_zero_are_an_error() {
    for manifest in [None, Some(&Manifest::default())] {
        let mut file = container(&[], Codec::None, manifest);
        assert!(open(&file).unwrap().is_empty());
        file.splice(CONTAINER_HEADER_LENGTH..CONTAINER_HEADER_LENGTH, belief(1));
        let error = open(&file).unwrap_err();
        // The bytes at the position of a manifest are parsed as one.
        let expected = if manifest.is_none() {
            ErrorCode::Corrupt
        } else {
            ErrorCode::NotMap
        };
        assert_eq!(
            (error.code, error.offset),
            (expected, Some(CONTAINER_HEADER_LENGTH as u64)),
            "{error}"
        );
    }
}

#[test]
fn a_later_version_is_reported() {
    let mut file = container(&[belief(1)], Codec::None, None);
    file[2] = 2;
    let error = open(&file).unwrap_err();
    assert_eq!((error.code, error.offset), (ErrorCode::Version, Some(2)));
    assert!(error.message.contains('2'), "{error}");
}

#[test]
fn violated_flags_are_reported_and_all_grains_are_readable() {
    let signed = |issued_at| {
        let text = br#"{"type":"event","content":"hello","created_at":90000}"#;
        let options = EncodeOptions {
            signed: true,
            ..EncodeOptions::default()
        };
        let blob = encode_json(&Json::parse(text).unwrap(), options)
            .unwrap()
            .blob;
        sign(&blob, &SigningKey::from_seed(&[1; 32]), None, issued_at).unwrap()
    };
    // A header with a wrong creation time: the payload is authoritative.
    let early = |number| {
        let mut blob = belief(number);
        blob[5..9].copy_from_slice(&[0xff; 4]);
        blob
    };
    // The order within one second is not checked: 2000 and 1000 milliseconds are in different
    // seconds, 1001 and 1000 are not.
    let both = (true, true);
    for (grains, promised, expected) in [
        (vec![belief(1_000), belief(2_000)], both, vec![]),
        (vec![belief(1_001), belief(1_000)], both, vec![]),
        (
            vec![belief(2_000), belief(1_000)],
            both,
            vec!["sorted_flag"],
        ),
        (vec![belief(2_000), belief(1_000)], (false, true), vec![]),
        (
            vec![belief(1_000), belief(1_000)],
            both,
            vec!["deduplicated_flag"],
        ),
        (vec![belief(1_000), belief(1_000)], (true, false), vec![]),
        (vec![signed(1), signed(2)], both, vec!["deduplicated_flag"]),
        (vec![early(1_000), belief(2_000)], both, vec![]),
        (vec![early(3_000), belief(2_000)], both, vec!["sorted_flag"]),
        (
            vec![belief(1_000), b"damage".to_vec(), belief(2_000)],
            both,
            vec![],
        ),
        (vec![], both, vec![]),
    ] {
        for codec in [Codec::None, Codec::Zstd] {
            let (sorted, deduplicated) = promised;
            let options = ContainerOptions {
                codec,
                sorted,
                deduplicated,
                ..ContainerOptions::default()
            };
            let lengths = grains.iter().map(|grain| grain.len() as u32).collect();
            let mut writer = ContainerWriter::new(Vec::new(), options, lengths).unwrap();
            grains.iter().for_each(|grain| writer.push(grain).unwrap());
            let file = writer.finish(None).unwrap();
            let read = open(&file).unwrap();
            assert_eq!(read.len(), grains.len());
            let broken: Vec<_> = read.violated_flags().map(|oddity| oddity.name()).collect();
            assert_eq!(broken, expected);
        }
    }
}

#[test]
fn a_corrupt_last_grain_before_a_manifest_affects_only_that_grain() {
    let state = IndexState {
        access_count: Some(3),
        ..IndexState::default()
    };
    let manifest = Manifest {
        entries: [(ContentAddress::of(&belief(0)), state)].into(),
    };
    let last = belief(2);
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut last = last.clone();
        change(&mut last);
        last
    };
    for last in [
        damaged(&|last| last[0] = 9),
        damaged(&|last| last[2] = 0),
        damaged(&|last| last[HEADER_LENGTH] = 0xc1),
        // One field too many and one too few.
        damaged(&|last| last[HEADER_LENGTH] += 1),
        damaged(&|last| last[HEADER_LENGTH] -= 1),
        damaged(&|last| last.truncate(20)),
        damaged(&|last| last.truncate(5)),
    ] {
        let file = container(
            &[belief(0), belief(1), last.clone()],
            Codec::None,
            Some(&manifest),
        );
        let read = open(&file).unwrap();
        assert_eq!(
            (read.grain(1), read.grain(2)),
            (Some(&belief(1)[..]), Some(&last[..]))
        );
        assert_eq!(read.manifest(), Some(&manifest));
        assert!(self::read(&last, DecodeMode::Lenient).is_err());
    }
}

/// Returns a container without grains and with `manifest`.
fn with_manifest(manifest: &[u8]) -> Vec<u8> {
    let mut file = container(&[], Codec::None, Some(&Manifest::default()));
    let end = file.len() - FOOTER_LENGTH;
    file.splice(end - 1..end, manifest.iter().copied());
    file
}

#[test]
fn a_non_canonical_manifest_is_read_and_reported() {
    let [one, two] = [b"\xd9\x40".to_vec(), b"\xd9\x40".to_vec()];
    let [one, two] = [
        [one, vec![b'1'; 64]].concat(),
        [two, vec![b'2'; 64]].concat(),
    ];
    let count: &[u8] = b"\x81\xa2ac\x05";
    for (manifest, anomalies) in [
        ([b"\x82", &one[..], count, &two[..], count].concat(), vec![]),
        (
            [b"\x82", &two[..], count, &one[..], count].concat(),
            vec!["manifest_not_canonical"],
        ),
        (
            [b"\x81", &one[..], b"\x81\xa2ac\xcd\x00\x05"].concat(),
            vec!["manifest_not_canonical"],
        ),
        (
            [b"\x81", &one[..], b"\x82\xa2ac\x05\xa3laa\xc0"].concat(),
            vec!["manifest_not_canonical"],
        ),
    ] {
        let file = with_manifest(&manifest);
        let read = open(&file).unwrap();
        let found: Vec<_> = read
            .anomalies()
            .iter()
            .map(|oddity| oddity.name())
            .collect();
        assert_eq!(found, anomalies, "{manifest:02x?}");
        assert!(
            read.manifest()
                .unwrap()
                .entries
                .values()
                .all(|state| state.access_count == Some(5))
        );
    }
}

#[test]
fn errors_of_a_manifest_have_offsets_in_the_file() {
    let start = CONTAINER_HEADER_LENGTH as u64;
    let key = |digit: usize| {
        let mut key = vec![b'a'; 64];
        key[digit] = b'X';
        key
    };
    let head: &[u8] = b"\x81\xd9\x40";
    let good = vec![b'a'; 64];
    for (manifest, code, offset) in [
        (
            [head, &key(7), b"\x80"].concat(),
            ErrorCode::HashFormat,
            3 + 7,
        ),
        ([&b"\x81\xa3abc\x80"[..]].concat(), ErrorCode::HashLength, 2),
        (
            [head, &good, b"\x81\xa2sb\xd9\x40", &key(9)].concat(),
            ErrorCode::HashFormat,
            3 + 64 + 6 + 9,
        ),
        (
            [head, &good, b"\x81\xa2ac\xa1x"].concat(),
            ErrorCode::Schema,
            3,
        ),
    ] {
        let error = open(&with_manifest(&manifest)).unwrap_err();
        assert_eq!(
            (error.code, error.offset),
            (code, Some(start + offset)),
            "{error}"
        );
    }
}

#[test]
fn the_maximum_region_depends_on_the_grain_count() {
    let limits = ContainerLimits {
        region: 100,
        grain: 30,
    };
    assert_eq!(
        [0, 2, 3, 4, usize::MAX].map(|grains| limits.max_region_bytes(grains)),
        [0, 60, 90, 100, 100]
    );
}

#[test]
fn a_custom_field_map_is_an_error_with_a_remedy() {
    let mut file = container(&[belief(1)], Codec::None, None);
    file[3] |= 1 << 3;
    let error = open(&file).unwrap_err();
    assert_eq!(
        (error.code, error.offset),
        (ErrorCode::Unsupported, Some(3))
    );
    assert!(error.message.contains("field map"), "{error}");
}

/// Returns a blob with the encrypted flag and `ciphertext` as its payload.
fn encrypted(ciphertext: &[u8]) -> Vec<u8> {
    let mut blob = blob_of(ciphertext);
    blob[1] = 1 << 1;
    blob
}

#[test]
fn an_encrypted_last_grain_ends_where_the_manifest_starts() {
    // The value of the first entry ends in a byte that can start a map of one entry, followed by
    // one entry.
    let state = |until| IndexState {
        system_valid_to: Some(until),
        ..IndexState::default()
    };
    let [one, two] = [[1; 32], [2; 32]].map(ContentAddress::from_digest);
    let manifest = Manifest {
        entries: [(one, state(1_700_000_000_129)), (two, state(5))].into(),
    };
    assert_eq!(1_700_000_000_129_i64 & 0xff, 0x81);
    let last = encrypted(&[0x5a; 40]);
    let file = container(&[belief(1), last.clone()], Codec::None, Some(&manifest));
    let read = open(&file).unwrap();
    assert_eq!(
        (read.grain(1), read.manifest()),
        (Some(&last[..]), Some(&manifest))
    );
}

#[test]
fn a_ciphertext_full_of_false_manifests_takes_bounded_time() {
    let mut tail = Vec::new();
    while tail.len() < LIMIT {
        // A map of two entries: the value of the first skips ahead, the key of the second is a long
        // text.
        tail.extend(b"\x82\xd9\x40");
        tail.extend([b'a'; 64]);
        tail.extend(b"\x81\xa1x\xc6");
        let ahead = LIMIT.saturating_sub(tail.len() + 4);
        tail.extend((ahead as u32).to_be_bytes());
    }
    tail.extend(b"\xdb\x00\x40\x00\x00");
    tail.extend(std::iter::repeat_n(b'a', 1 << 22));
    let mut file = container(&[encrypted(&tail)], Codec::None, None);
    file[3] |= 1 << 4;
    let started = Instant::now();
    assert_eq!(open(&file).unwrap_err().code, ErrorCode::Corrupt);
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn an_excessive_frame_is_an_error_and_a_truncated_one_incomplete() {
    assert!(next_frame(&u32::MAX.to_be_bytes()).is_err());
    assert!(matches!(
        next_frame(&[0, 0, 1, 0, 1]),
        Ok(GrainFrame::Incomplete(260))
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_never_panic(mut bytes in vec(any::<u8>(), 0..400), header in any::<bool>()) {
        if header && bytes.len() > 3 {
            bytes[0] = 1;
            bytes[1] &= 0b0010_0000;
            bytes[2] = bytes[2] % 10 + 1;
        } else if let [1, flags, ..] = bytes.as_mut_slice() {
            // Random bytes after the header of an encrypted blob are a valid ciphertext.
            *flags &= !0b10;
        }
        for mode in [DecodeMode::Strict, DecodeMode::Lenient] {
            prop_assert!(read(&bytes, mode).is_err());
        }
        let _ = open(&bytes);
        let _ = Manifest::read(&bytes);
        let _ = next_frame(&bytes);
    }

    #[test]
    fn a_modified_blob_never_panics(
        mut blob in grains::blob(),
        changes in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        for (at, byte) in changes {
            let at = at.index(blob.len());
            blob[at] = byte;
        }
        if read(&blob, DecodeMode::Strict).is_ok() {
            prop_assert!(read(&blob, DecodeMode::Lenient).is_ok());
        }
    }

    #[test]
    fn a_flipped_bit_in_a_container_is_detected_by_structure_or_footer(
        grains in vec(grains::blob(), 1..4),
        codec in prop_oneof![Just(Codec::None), Just(Codec::Zstd), Just(Codec::Lz4)],
        at in any::<proptest::sample::Index>(),
        bit in 0_u32..8,
    ) {
        let mut file = container(&grains, codec, None);
        let at = at.index(file.len());
        file[at] ^= 1 << bit;
        if let Ok(read) = open(&file) {
            let hash = ContentAddress::of(&file[..file.len() - FOOTER_LENGTH]);
            prop_assert_ne!(hash.as_bytes(), read.footer());
            for number in 0..read.len() {
                let grain = read.grain(number).unwrap_or_default();
                let _ = self::read(grain, DecodeMode::Lenient);
            }
        }
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
