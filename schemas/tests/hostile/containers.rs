//! Containers and frames: truncation, offsets, counts, flags and the limits of the region.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{
    CONTAINER_HEADER_LENGTH, Codec, Container, ContainerLimits, ContainerOptions, ContainerWriter,
    FOOTER_LENGTH, GrainFrame, IndexState, Manifest, next_frame,
};
use gristmill_schemas::error::ErrorCode;
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{SigningKey, sign};

use super::{LIMIT, belief, container, open};

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

#[test]
fn an_excessive_frame_is_an_error_and_a_truncated_one_incomplete() {
    assert!(next_frame(&u32::MAX.to_be_bytes()).is_err());
    assert!(matches!(
        next_frame(&[0, 0, 1, 0, 1]),
        Ok(GrainFrame::Incomplete(260))
    ));
}
