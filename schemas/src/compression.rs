//! Bounded decompression of zstd and lz4: a single frame, no trailing bytes, and never more output
//! than the given limit.

use std::io::Read;

use zstd::zstd_safe;

use crate::error::GrainError;

/// The magic number of a zstd frame.
pub(crate) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The magic number of an lz4 frame.
pub(crate) const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// Returns the length in bytes of the zstd frame at the start of `bytes`.
pub(crate) fn zstd_frame_length(bytes: &[u8]) -> Result<usize, GrainError> {
    match zstd_safe::find_frame_compressed_size(bytes) {
        Ok(length) if length <= bytes.len() => Ok(length),
        _ => Err(GrainError::corrupt(0, "an incomplete zstd frame")),
    }
}

/// Decompresses `bytes`, which must be exactly one zstd frame, to at most `limit` bytes. Trailing
/// bytes are an error because they would give the same content another address.
pub(crate) fn decompress_zstd(bytes: &[u8], limit: usize) -> Result<Vec<u8>, GrainError> {
    if zstd_frame_length(bytes)? != bytes.len() {
        return Err(GrainError::corrupt(0, "bytes follow the zstd frame"));
    }
    let declared = zstd_safe::get_frame_content_size(bytes).ok().flatten();
    match declared {
        Some(size) if size > limit as u64 => Err(too_large(limit)),
        Some(size) => zstd::bulk::decompress(bytes, size as usize)
            .map_err(|error| decompression_error("zstd", error)),
        None => {
            let decoder = zstd::stream::read::Decoder::with_buffer(bytes)
                .map_err(|error| decompression_error("zstd", error))?;
            read_bounded(decoder.single_frame(), limit, "zstd")
        }
    }
}

/// Flags in the header of an lz4 frame, and in the sizes of its blocks.
mod lz4_flags {
    pub(super) const BLOCK_CHECKSUM: u8 = 1 << 4;
    pub(super) const CONTENT_SIZE: u8 = 1 << 3;
    pub(super) const CONTENT_CHECKSUM: u8 = 1 << 2;
    pub(super) const DICTIONARY: u8 = 1;
    /// This bit of a block's size marks an uncompressed block.
    pub(super) const STORED: u32 = 1 << 31;
}

/// Returns the length of the lz4 frame at the start of `bytes`, computed from its block sizes;
/// `None` if its end mark is missing. `lz4_flex` does not report such a truncated frame.
fn lz4_frame_length(bytes: &[u8]) -> Option<usize> {
    use lz4_flags::{BLOCK_CHECKSUM, CONTENT_CHECKSUM, CONTENT_SIZE, DICTIONARY, STORED};
    let flags = *bytes.strip_prefix(&LZ4_MAGIC)?.first()?;
    let extra = |flag: u8, length: usize| if flags & flag != 0 { length } else { 0 };
    // Magic, flags, block size, header checksum, and the optional header fields.
    let mut at = 7 + extra(CONTENT_SIZE, 8) + extra(DICTIONARY, 4);
    loop {
        let size = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
        at += 4;
        if size == 0 {
            at += extra(CONTENT_CHECKSUM, 4);
            return (at <= bytes.len()).then_some(at);
        }
        at = at
            .checked_add((size & !STORED) as usize)?
            .checked_add(extra(BLOCK_CHECKSUM, 4))?;
    }
}

/// Decompresses the lz4 frame at the start of `bytes` to at most `limit` bytes; returns the content
/// and the length of the frame.
pub(crate) fn decompress_lz4(bytes: &[u8], limit: usize) -> Result<(Vec<u8>, usize), GrainError> {
    let length =
        lz4_frame_length(bytes).ok_or_else(|| GrainError::corrupt(0, "an incomplete lz4 frame"))?;
    let frame = bytes.get(..length).unwrap_or_default();
    Ok((
        read_bounded(lz4_flex::frame::FrameDecoder::new(frame), limit, "lz4")?,
        length,
    ))
}

fn read_bounded(reader: impl Read, limit: usize, codec: &str) -> Result<Vec<u8>, GrainError> {
    let mut content = Vec::new();
    reader
        .take(limit as u64 + 1)
        .read_to_end(&mut content)
        .map_err(|error| decompression_error(codec, error))?;
    if content.len() > limit {
        return Err(too_large(limit));
    }
    Ok(content)
}

fn decompression_error(codec: &str, error: std::io::Error) -> GrainError {
    GrainError::corrupt(0, format!("damaged {codec} data: {error}"))
}

fn too_large(limit: usize) -> GrainError {
    GrainError::corrupt(
        0,
        format!("decompresses to more than the limit of {limit} bytes"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lz4(content: &[u8]) -> Vec<u8> {
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        std::io::Write::write_all(&mut encoder, content).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn the_limit_is_exact() {
        let content = vec![7; 10_000];
        let sized = zstd::bulk::compress(&content, 3).unwrap();
        let mut unsized_frame = Vec::new();
        zstd::stream::copy_encode(&content[..], &mut unsized_frame, 3).unwrap();
        for frame in [&sized, &unsized_frame] {
            assert_eq!(decompress_zstd(frame, 10_000).unwrap(), content);
            assert!(decompress_zstd(frame, 9_999).is_err());
            assert!(decompress_zstd(frame, 10_001).is_ok());
        }
        let frame = lz4(&content);
        assert_eq!(
            decompress_lz4(&frame, 10_000).unwrap(),
            (content, frame.len())
        );
        assert!(decompress_lz4(&frame, 9_999).is_err());
    }

    #[test]
    fn trailing_bytes_are_an_error_for_zstd_and_left_for_lz4() {
        let mut frame = zstd::bulk::compress(b"grain", 3).unwrap();
        let length = frame.len();
        frame.extend(b"tail");
        assert_eq!(zstd_frame_length(&frame).unwrap(), length);
        assert!(decompress_zstd(&frame, 100).is_err());
        let mut frame = lz4(b"grain");
        let length = frame.len();
        frame.extend(b"tail");
        assert_eq!(
            decompress_lz4(&frame, 100).unwrap(),
            (b"grain".to_vec(), length)
        );
    }

    #[test]
    fn an_lz4_frame_truncated_at_any_byte_is_an_error() {
        let content: Vec<u8> = (0..200_000_u32)
            .flat_map(|number| number.wrapping_mul(0x9e37_79b9).to_le_bytes())
            .collect();
        let info = lz4_flex::frame::FrameInfo::new()
            .block_size(lz4_flex::frame::BlockSize::Max64KB)
            .block_checksums(true)
            .content_checksum(true)
            .content_size(Some(content.len() as u64));
        let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        std::io::Write::write_all(&mut encoder, &content).unwrap();
        let frame = encoder.finish().unwrap();
        assert_eq!(
            decompress_lz4(&frame, content.len()).unwrap(),
            (content, frame.len())
        );
        for length in (0..frame.len())
            .step_by(997)
            .chain(frame.len() - 12..frame.len())
        {
            assert!(
                decompress_lz4(&frame[..length], 1 << 20).is_err(),
                "{length}"
            );
        }
    }
}
