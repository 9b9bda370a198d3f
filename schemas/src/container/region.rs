//! Locates the grain region of a container: its codec, the base of its offsets, and its end.

use std::ops::Range;

use super::layout::{CONTAINER_HEADER_LENGTH, Codec, ContainerHeader, FOOTER_LENGTH};
use super::manifest::Manifest;
use super::read::ContainerLimits;
use crate::compression::{
    LZ4_MAGIC, ZSTD_MAGIC, decompress_lz4, decompress_zstd, zstd_frame_length,
};
use crate::error::GrainError;
use crate::grain::delivered_length;

/// The bytes of the grain region.
#[derive(Debug, Clone)]
pub(super) enum GrainRegion {
    /// A range of the file.
    InFile(Range<usize>),
    /// A decompressed copy.
    Decompressed(Vec<u8>),
}

impl GrainRegion {
    fn len(&self) -> usize {
        match self {
            GrainRegion::InFile(range) => range.len(),
            GrainRegion::Decompressed(bytes) => bytes.len(),
        }
    }
}

/// The bytes between the header and the footer of a container.
pub(super) struct RegionLocator<'a> {
    /// The offset table.
    pub(super) offsets: &'a [[u8; 4]],
    /// The actual codec of the region.
    pub(super) codec: Codec,
    /// The value that offsets count from.
    pub(super) base: u32,
    /// The region and what follows it.
    rest: &'a [u8],
    /// The offset of `rest` in the file.
    start: usize,
    has_manifest: bool,
}

impl<'a> RegionLocator<'a> {
    /// Splits `body`, the file without its footer.
    pub(super) fn new(header: &ContainerHeader, body: &'a [u8]) -> Result<Self, GrainError> {
        let (offsets, rest) = split_offsets(body, header.grain_count)?;
        let start = body.len() - rest.len();
        let codec = detect_codec(rest, offsets, start, header);
        let base = detect_base(offsets, start)?;
        if codec == Codec::None {
            check_last_offset(offsets, base, rest, body.len())?;
        }
        Ok(RegionLocator {
            offsets,
            codec,
            base,
            rest,
            start,
            has_manifest: header.flags.has_index_manifest(),
        })
    }

    /// Returns the region and the bytes that follow it, after checking all offsets.
    pub(super) fn locate(
        &self,
        limits: ContainerLimits,
    ) -> Result<(GrainRegion, &'a [u8]), GrainError> {
        let (region, length) = self.region(limits)?;
        let extra = self
            .rest
            .get(length..)
            .ok_or_else(|| GrainError::corrupt(self.start, "the last grain is truncated"))?;
        check_offsets(self.offsets, self.base, region.len())?;
        Ok((region, extra))
    }

    /// Returns the region and its length in the file.
    fn region(&self, limits: ContainerLimits) -> Result<(GrainRegion, usize), GrainError> {
        let in_file = |length| (GrainRegion::InFile(self.start..self.start + length), length);
        let limit = limits.max_region_bytes(self.offsets.len());
        match self.codec {
            Codec::None => Ok(in_file(self.uncompressed_length()?)),
            // An empty region may be uncompressed whatever the codec byte is.
            _ if self.offsets.is_empty() && !starts_with_frame(self.rest) => Ok(in_file(0)),
            Codec::Zstd => self.decompress_zstd(limit),
            Codec::Lz4 => decompress_lz4(self.rest, limit)
                .map(|(region, length)| (GrainRegion::Decompressed(region), length)),
        }
        .map_err(|error| match self.codec {
            Codec::None => error,
            Codec::Zstd | Codec::Lz4 => error.shifted(self.start),
        })
    }

    fn decompress_zstd(&self, limit: usize) -> Result<(GrainRegion, usize), GrainError> {
        let length = zstd_frame_length(self.rest)?;
        let frame = self.rest.get(..length).unwrap_or_default();
        let region = decompress_zstd(frame, limit)?;
        Ok((GrainRegion::Decompressed(region), length))
    }

    /// Returns the length of an uncompressed region.
    ///
    /// If a manifest follows, the region ends with the last grain, whose own encoding indicates its
    /// length. If it does not, because the grain is encrypted or corrupt, the region ends where the
    /// first complete manifest starts, so that corruption inside a grain affects only that grain.
    fn uncompressed_length(&self) -> Result<usize, GrainError> {
        let Some(last) = self.offsets.last() else {
            // Without grains there is no region, whatever follows.
            return Ok(0);
        };
        if !self.has_manifest {
            return Ok(self.rest.len());
        }
        let position = u32::from_be_bytes(*last).saturating_sub(self.base) as usize;
        let tail = self.rest.get(position..).unwrap_or_default();
        let own_length = match delivered_length(tail) {
            Ok(Some(length)) if is_manifest(tail.get(length..).unwrap_or_default()) => {
                return Ok(position + length);
            }
            Ok(Some(length)) => Ok(length),
            Ok(None) => Err(GrainError::corrupt(
                0,
                "the last grain is encrypted and no complete manifest follows it",
            )),
            Err(error) => Err(error),
        };
        length_before_manifest(tail)
            .map_or(own_length, Ok)
            .map(|length| position + length)
            .map_err(|error| error.shifted(self.start + position))
    }
}

fn split_offsets(body: &[u8], count: u32) -> Result<(&[[u8; 4]], &[u8]), GrainError> {
    let rest = body.get(CONTAINER_HEADER_LENGTH..).unwrap_or_default();
    let length = (count as usize)
        .checked_mul(4)
        .filter(|length| *length <= rest.len())
        .ok_or_else(|| {
            GrainError::corrupt(
                4,
                format!("the file is too short for the offsets of {count} grains"),
            )
        })?;
    let (table, rest) = rest.split_at(length);
    let (offsets, _) = table.as_chunks::<4>();
    Ok((offsets, rest))
}

/// Detects the codec by the region's first bytes, regardless of the header. They can't be confused
/// with those of a valid grain, which are its version byte or the head of an envelope. Those of a
/// corrupt grain can, so the first bytes are ignored if flag, codec byte and offsets all indicate
/// an uncompressed region.
fn detect_codec(rest: &[u8], offsets: &[[u8; 4]], start: usize, header: &ContainerHeader) -> Codec {
    let is_flagged = header.flags.compressed();
    let is_absolute = offsets.first() == Some(&(start as u32).to_be_bytes());
    let first = rest.first_chunk::<4>();
    match header.codec {
        Codec::None if !is_flagged && is_absolute => Codec::None,
        _ if first == Some(&ZSTD_MAGIC) => Codec::Zstd,
        _ if first == Some(&LZ4_MAGIC) => Codec::Lz4,
        Codec::None if is_flagged => Codec::Zstd,
        // The codec byte alone, with absolute offsets and the first byte of a grain, is wrong.
        _ if !is_flagged && is_absolute => Codec::None,
        declared => declared,
    }
}

/// Detects whether offsets count from the start of the file (the first is 16 + 4·n) or of the
/// region (the first is 0).
fn detect_base(offsets: &[[u8; 4]], start: usize) -> Result<u32, GrainError> {
    match offsets.first().map(|first| u32::from_be_bytes(*first)) {
        None | Some(0) => Ok(0),
        Some(first) if first as usize == start => Ok(first),
        Some(first) => {
            let message = format!(
                "the offset of the first grain is {first}, expected {start} (absolute) or 0 \
                 (relative)"
            );
            Err(GrainError::corrupt(CONTAINER_HEADER_LENGTH, message))
        }
    }
}

/// Checks that the last grain of an uncompressed region starts before the footer at `end`. The
/// usual cause of a violation is a truncated file, and this error describes that better than any
/// later one.
fn check_last_offset(
    offsets: &[[u8; 4]],
    base: u32,
    rest: &[u8],
    end: usize,
) -> Result<(), GrainError> {
    let Some(last) = offsets.last().map(|last| u32::from_be_bytes(*last)) else {
        return Ok(());
    };
    let position = last.saturating_sub(base) as usize;
    if position < rest.len() {
        return Ok(());
    }
    let expected = end - rest.len() + position;
    let message = format!("the file is truncated: its last grain should start at byte {expected}");
    Err(GrainError::corrupt(end + FOOTER_LENGTH, message))
}

/// Checks that offsets ascend and lie within the region.
fn check_offsets(offsets: &[[u8; 4]], base: u32, region: usize) -> Result<(), GrainError> {
    let mut previous = None;
    for (index, offset) in offsets.iter().enumerate() {
        let position = u32::from_be_bytes(*offset)
            .checked_sub(base)
            .map(|position| position as usize);
        let is_valid = position.is_some_and(|position| {
            position < region && previous.is_none_or(|previous| position > previous)
        });
        if !is_valid {
            let message = format!(
                "the offset of grain {index} does not ascend or lies outside the region of \
                 {region} bytes"
            );
            return Err(GrainError::corrupt(
                CONTAINER_HEADER_LENGTH + 4 * index,
                message,
            ));
        }
        previous = position;
    }
    Ok(())
}

fn starts_with_frame(rest: &[u8]) -> bool {
    matches!(rest.first_chunk::<4>(), Some(&ZSTD_MAGIC | &LZ4_MAGIC))
}

/// Returns true if `bytes` are a manifest or start like one (a corrupt manifest).
fn is_manifest(bytes: &[u8]) -> bool {
    Manifest::starts_like_manifest(bytes) || Manifest::read(bytes).is_ok()
}

/// The number of positions that are tried as the start of a manifest after a grain of unknown
/// length. In valid files only the right position matches. The limit bounds the time spent on a
/// crafted file, since each try may parse the rest of the file.
const MAX_MANIFEST_TRIES: usize = 16;

/// Returns the shortest length of the last grain after which the rest is a complete manifest.
fn length_before_manifest(tail: &[u8]) -> Option<usize> {
    let rest = |length: usize| tail.get(length..).unwrap_or_default();
    (1..tail.len())
        .filter(|length| Manifest::starts_like_manifest(rest(*length)))
        .take(MAX_MANIFEST_TRIES)
        .find(|length| Manifest::read(rest(*length)).is_ok())
}
