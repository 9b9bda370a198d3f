//! Random bytes, and random changes of valid blobs and containers.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{Codec, FOOTER_LENGTH, Manifest, next_frame};
use gristmill_schemas::grain::DecodeMode;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{container, grains, open, read};

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
