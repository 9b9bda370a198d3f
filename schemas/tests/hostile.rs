//! Bad input: cut, changed, bombs, lies and noise. It gives its error code, at once, and takes no
//! memory that it didn't pay for with its own length.

mod grains;

use std::time::{Duration, Instant};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{
    CONTAINER_HEADER_LENGTH, Codec, Container, ContainerLimits, ContainerOptions, ContainerWriter,
    FOOTER_LENGTH, Frame, IndexState, Manifest, next_frame,
};
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{
    DEPTH_LIMIT, EncodeOptions, Encoding, Grain, HEADER_LENGTH, Mode, Payload, encode_json,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{Delivery, SigningKey, sign};
use proptest::collection::vec;
use proptest::prelude::*;

/// Bytes that a payload or region may decompress to in these tests.
const LIMIT: usize = 1 << 20;

const LIMITS: ContainerLimits = ContainerLimits {
    region: LIMIT,
    grain: LIMIT,
};

fn read(blob: &[u8], mode: Mode) -> Result<(), GrainError> {
    let delivery = Delivery::open(blob)?;
    let payload = Payload::open(delivery.blob(), LIMIT)?;
    let grain = Grain::decode(&payload, mode)?;
    // What was checked once is found again without, whatever is odd about it.
    let again = Grain::decode_again(&payload, grain.marks()).unwrap();
    assert_eq!(again.known(), grain.known());
    assert_eq!(
        (again.unknown(), again.marks()),
        (grain.unknown(), grain.marks())
    );
    Ok(())
}

fn code(blob: &[u8]) -> Option<ErrorCode> {
    read(blob, Mode::Strict).err().map(|error| error.code)
}

/// A header of a belief, and `payload`.
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
fn a_blob_cut_anywhere_says_so() {
    let blob = belief(7);
    for length in 0..blob.len() {
        let expected = if length < 10 {
            ErrorCode::TooShort
        } else {
            ErrorCode::Corrupt
        };
        for mode in [Mode::Strict, Mode::Lenient] {
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
fn an_envelope_cut_anywhere_says_so() {
    let text = br#"{"type":"event","content":"hello","created_at":1}"#;
    let options = EncodeOptions {
        signed: true,
        ..EncodeOptions::default()
    };
    let blob = encode_json(&Json::parse(text).unwrap(), options)
        .unwrap()
        .blob;
    let envelope = sign(&blob, &SigningKey::from_seed(&[1; 32]), None, 0).unwrap();
    assert_eq!(read(&envelope, Mode::Strict), Ok(()));
    for length in 1..envelope.len() {
        assert!(
            read(&envelope[..length], Mode::Lenient).is_err(),
            "{length}"
        );
    }
}

#[test]
fn bytes_after_a_payload_are_refused_in_every_mode() {
    for tail in [&b"\0"[..], b"\xc0", b"\x80", &[0xff; 100]] {
        let blob = [&belief(1)[..], tail].concat();
        for mode in [Mode::Strict, Mode::Lenient] {
            assert_eq!(read(&blob, mode).unwrap_err().code, ErrorCode::Corrupt);
        }
    }
}

#[test]
fn a_declared_length_beyond_the_bytes_is_refused_before_anything_is_allocated() {
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

/// A belief whose context nests `depth` levels below the payload's own map, as arrays or as maps.
fn nested(depth: usize, opening: &[u8], innermost: &[u8]) -> Vec<u8> {
    let rest = &belief(1)[HEADER_LENGTH + 1..];
    let open = opening.repeat(depth);
    // Six fields, and `x_`, which sorts behind all of them.
    blob_of(&[b"\x87", rest, b"\xa2x_", &open, innermost].concat())
}

#[test]
fn the_depth_limit_holds_below_at_and_above() {
    for (opening, innermost) in [(&b"\x91"[..], &b"\x90"[..]), (b"\x81\xa1k", b"\x80")] {
        // The payload's own map and the innermost container count too.
        for (depth, fits) in [
            (DEPTH_LIMIT - 3, true),
            (DEPTH_LIMIT - 2, true),
            (DEPTH_LIMIT - 1, false),
        ] {
            let mut blob = nested(depth, opening, innermost);
            blob[5..9].copy_from_slice(&[0; 4]);
            assert_eq!(
                read(&blob, Mode::Strict).is_ok(),
                fits,
                "{depth}: {:?}",
                read(&blob, Mode::Strict)
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
fn a_payload_that_would_burst_is_refused_by_what_it_declares_and_by_what_it_is() {
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
fn a_region_that_would_burst_is_refused() {
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
fn a_container_cut_anywhere_is_refused() {
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
                // Without a manifest the last grain of an uncompressed file may be cut unseen; the
                // footer tells that.
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
fn a_damaged_first_grain_that_begins_like_a_compressed_region_costs_that_grain_only() {
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
fn offsets_that_lie_are_refused() {
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
fn a_count_that_lies_is_refused_at_once() {
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
fn grains_behind_a_count_of_none_are_not_passed_over() {
    for manifest in [None, Some(&Manifest::default())] {
        let mut file = container(&[], Codec::None, manifest);
        assert!(open(&file).unwrap().is_empty());
        file.splice(CONTAINER_HEADER_LENGTH..CONTAINER_HEADER_LENGTH, belief(1));
        let error = open(&file).unwrap_err();
        // What stands where a manifest should is read as one.
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
fn a_later_version_is_named_as_such() {
    let mut file = container(&[belief(1)], Codec::None, None);
    file[2] = 2;
    let error = open(&file).unwrap_err();
    assert_eq!((error.code, error.offset), (ErrorCode::Version, Some(2)));
    assert!(error.message.contains('2'), "{error}");
}

#[test]
fn promises_of_the_header_that_are_not_kept_are_told_and_cost_no_grain() {
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
    // A header that lies about its second: the payload has the word.
    let early = |number| {
        let mut blob = belief(number);
        blob[5..9].copy_from_slice(&[0xff; 4]);
        blob
    };
    // Within one second the order isn't looked into: 2000 and 1000 milliseconds are two of them,
    // 1001 and 1000 are one.
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
            let broken: Vec<_> = read.broken_promises().map(|oddity| oddity.name()).collect();
            assert_eq!(broken, expected);
        }
    }
}

#[test]
fn a_damaged_last_grain_in_front_of_a_manifest_costs_that_grain_only() {
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
        // One field more than there is, and one less.
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
        assert!(self::read(&last, Mode::Lenient).is_err());
    }
}

/// `manifest` of a container without grains.
fn with_manifest(manifest: &[u8]) -> Vec<u8> {
    let mut file = container(&[], Codec::None, Some(&Manifest::default()));
    let end = file.len() - FOOTER_LENGTH;
    file.splice(end - 1..end, manifest.iter().copied());
    file
}

#[test]
fn a_manifest_out_of_canonical_form_is_read_and_told() {
    let [one, two] = [b"\xd9\x40".to_vec(), b"\xd9\x40".to_vec()];
    let [one, two] = [
        [one, vec![b'1'; 64]].concat(),
        [two, vec![b'2'; 64]].concat(),
    ];
    let count: &[u8] = b"\x81\xa2ac\x05";
    for (manifest, oddities) in [
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
        let found: Vec<_> = read.oddities().iter().map(|oddity| oddity.name()).collect();
        assert_eq!(found, oddities, "{manifest:02x?}");
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
fn a_fault_of_a_manifest_names_the_byte_in_the_file() {
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
fn a_writer_can_ask_what_region_a_reader_takes() {
    let limits = ContainerLimits {
        region: 100,
        grain: 30,
    };
    assert_eq!(
        [0, 2, 3, 4, usize::MAX].map(|grains| limits.region_of(grains)),
        [0, 60, 90, 100, 100]
    );
}

#[test]
fn a_custom_field_map_is_refused_in_words() {
    let mut file = container(&[belief(1)], Codec::None, None);
    file[3] |= 1 << 3;
    let error = open(&file).unwrap_err();
    assert_eq!(
        (error.code, error.offset),
        (ErrorCode::Unsupported, Some(3))
    );
    assert!(error.message.contains("field map"), "{error}");
}

/// A blob whose encrypted flag is set, over `ciphertext`.
fn encrypted(ciphertext: &[u8]) -> Vec<u8> {
    let mut blob = blob_of(ciphertext);
    blob[1] = 1 << 1;
    blob
}

#[test]
fn the_end_of_an_encrypted_last_grain_is_where_the_manifest_begins() {
    // The value of the first entry ends in a byte that begins a map of one entry, and one entry
    // follows.
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
fn a_ciphertext_full_of_false_manifests_takes_no_time() {
    let mut tail = Vec::new();
    while tail.len() < LIMIT {
        // A map of two: one entry whose value jumps ahead, and a long text for the second's key.
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
fn a_frame_longer_than_any_grain_is_refused_and_a_cut_one_waited_for() {
    assert!(next_frame(&u32::MAX.to_be_bytes()).is_err());
    assert!(matches!(
        next_frame(&[0, 0, 1, 0, 1]),
        Ok(Frame::Incomplete(260))
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn noise_is_an_error_and_never_more(mut bytes in vec(any::<u8>(), 0..400), header in any::<bool>()) {
        if header && bytes.len() > 3 {
            bytes[0] = 1;
            bytes[1] &= 0b0010_0000;
            bytes[2] = bytes[2] % 10 + 1;
        } else if let [1, flags, ..] = bytes.as_mut_slice() {
            // Noise behind the header of an encrypted blob is what ciphertext looks like.
            *flags &= !0b10;
        }
        for mode in [Mode::Strict, Mode::Lenient] {
            prop_assert!(read(&bytes, mode).is_err());
        }
        let _ = open(&bytes);
        let _ = Manifest::read(&bytes);
        let _ = next_frame(&bytes);
    }

    #[test]
    fn a_blob_with_changed_bytes_is_read_or_refused(
        mut blob in grains::blob(),
        changes in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        for (at, byte) in changes {
            let at = at.index(blob.len());
            blob[at] = byte;
        }
        if read(&blob, Mode::Strict).is_ok() {
            prop_assert!(read(&blob, Mode::Lenient).is_ok());
        }
    }

    #[test]
    fn a_container_with_a_flipped_bit_shows_it_in_its_structure_or_its_footer(
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
                let _ = self::read(grain, Mode::Lenient);
            }
        }
    }
}

#[test]
fn indefinite_lengths_tags_and_undefined_have_no_place_in_cbor_grains() {
    for payload in [
        &b"\xbf\xff"[..],
        b"\xa1\x61x\x9f\xff",
        b"\xa1\x61x\xc0\x60",
        b"\xa1\x61x\xf7",
        b"\xa1\x61x\x7f\xff",
    ] {
        let mut blob = blob_of(payload);
        blob[1] = 1 << 5;
        for mode in [Mode::Strict, Mode::Lenient] {
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
            Mode::Strict
        ),
        Ok(())
    );
}
