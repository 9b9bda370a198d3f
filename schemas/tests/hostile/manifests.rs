//! Manifests of containers: their errors, and where the last grain before one ends.

use std::time::{Duration, Instant};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{
    CONTAINER_HEADER_LENGTH, Codec, FOOTER_LENGTH, IndexState, Manifest,
};
use gristmill_schemas::error::ErrorCode;
use gristmill_schemas::grain::{DecodeMode, HEADER_LENGTH};

use super::{LIMIT, belief, blob_of, container, open, read};

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
        started.elapsed() < Duration::from_secs(120),
        "{:?}",
        started.elapsed()
    );
}
