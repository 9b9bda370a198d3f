//! Grains with compressed payloads, decompressed for the byte search.

use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, GrainHeader, HEADER_LENGTH, Payload, VERSION,
};
use memchr::memmem;

/// The first bytes of a compressed payload.
const ZSTD_FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Calls `found` with each compressed grain in `page`, decompressed. The values of a page each
/// follow their length in four bytes.
pub(super) fn each_decompressed(page: &[u8], mut found: impl FnMut(&[u8])) {
    for payload in memmem::find_iter(page, &ZSTD_FRAME) {
        let blob = payload
            .checked_sub(HEADER_LENGTH)
            .and_then(|start| value_at(page, start));
        if let Some(grain) = blob.and_then(decompressed) {
            found(&grain);
        }
    }
}

/// Returns the value of `page` that begins at `start`, by the length before it.
fn value_at(page: &[u8], start: usize) -> Option<&[u8]> {
    let (before, value) = page.split_at_checked(start)?;
    let length = u32::from_le_bytes(*before.last_chunk()?);
    value.get(..length as usize)
}

/// Returns the grain `blob` as one that isn't compressed. Returns `None` if it isn't, or can't be
/// opened.
pub(super) fn decompressed(blob: &[u8]) -> Option<Vec<u8>> {
    if !GrainHeader::read(blob).ok()?.flags.compressed() {
        return None;
    }
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).ok()?;
    let (plain, _) = payload.plaintext()?;
    let header = blob.get(2..HEADER_LENGTH)?;
    Some([&[VERSION, 0][..], header, plain].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_looks_like_a_compressed_grain_is_none() {
        let frame = [&[VERSION, 4, 1, 0, 0, 0, 0, 0, 0][..], &ZSTD_FRAME].concat();
        for page in [
            ZSTD_FRAME.to_vec(),
            frame.clone(),
            [&13_u32.to_le_bytes()[..], &frame].concat(),
            [&u32::MAX.to_le_bytes()[..], &frame].concat(),
        ] {
            let mut found = 0;
            each_decompressed(&page, |_| found += 1);
            assert_eq!(found, 0, "{page:?}");
        }
    }
}
