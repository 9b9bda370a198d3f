//! Finding the grains of a container.
//!
//! A [`Container`] borrows the file's bytes, typically a memory map: only a compressed region is held in memory, up to a
//! limit. Nothing is allocated by the grain count that the file claims. The footer is checked by whoever reads the file
//! through ([`Container::footer`]), so that it can be hashed beside other work.

use std::borrow::Cow;

use super::layout::{CONTAINER_HEADER_LENGTH, Codec, ContainerHeader, FIELD_MAP_VERSION, FOOTER_LENGTH};
use super::manifest::Manifest;
use crate::compression::{LZ4_MAGIC, ZSTD_MAGIC, decompress_lz4, decompress_zstd, zstd_frame_length};
use crate::error::GrainError;
use crate::grain::{DEFAULT_PAYLOAD_LIMIT, Header, delivered_length};

/// How large the decompressed region of a container may be.
#[derive(Debug, Clone, Copy)]
pub struct ContainerLimits {
    /// Bytes of the whole region.
    pub region: usize,
    /// Bytes of a grain, on average: a region beyond so many per grain is a bomb.
    pub grain: usize,
}

impl Default for ContainerLimits {
    /// 1 GiB in all, 16 MiB per grain.
    fn default() -> Self {
        ContainerLimits { region: 1 << 30, grain: DEFAULT_PAYLOAD_LIMIT }
    }
}

/// Something odd about a container that doesn't make it unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oddity {
    /// Flag bit 2 or the codec byte says something else than the region's first bytes.
    Codec,
    /// Offsets count from the start of the grain region.
    RelativeOffsets,
    /// Reserved flag bits are set.
    ReservedFlags,
    /// Another version of the field map than 1.
    FieldMapVersion,
}

impl Oddity {
    /// The oddity's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Oddity::Codec => "codec_flag",
            Oddity::RelativeOffsets => "relative_offsets",
            Oddity::ReservedFlags => "reserved_flags",
            Oddity::FieldMapVersion => "field_map_version",
        }
    }
}

/// A container whose structure was checked: header, offsets, region, manifest.
#[derive(Debug, Clone)]
pub struct Container<'a> {
    header: ContainerHeader,
    codec: Codec,
    offsets: &'a [[u8; 4]],
    /// What offsets count from, so that `offset - base` is a place in the region.
    base: u32,
    region: Cow<'a, [u8]>,
    manifest: Option<Manifest>,
    footer: [u8; FOOTER_LENGTH],
    oddities: Vec<Oddity>,
}

impl<'a> Container<'a> {
    /// Opens the container that fills the whole of `file`.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupt`](crate::error::ErrorCode::Corrupt) for a structure that doesn't add up or a region beyond the limits; those of
    /// [`ContainerHeader::read`] and [`Manifest::read`]. Offsets are from the start of the file.
    pub fn open(file: &'a [u8], limits: ContainerLimits) -> Result<Container<'a>, GrainError> {
        let header = ContainerHeader::read(file)?;
        let (body, footer) = file
            .split_last_chunk::<FOOTER_LENGTH>()
            .filter(|(body, _)| body.len() >= CONTAINER_HEADER_LENGTH)
            .ok_or_else(|| GrainError::corrupt(file.len(), "the file ends before its footer"))?;
        let (offsets, rest) = split_offsets(body, header.grain_count)?;
        let start = body.len() - rest.len();
        let codec = codec_of(rest, offsets, start, &header);
        let mut oddities = Vec::new();
        let mut note = |oddity, odd: bool| odd.then(|| oddities.push(oddity));
        let by_flag = if header.flags.compressed() && header.codec == Codec::None { Codec::Zstd } else { header.codec };
        note(Oddity::Codec, codec != by_flag || header.flags.compressed() != (codec != Codec::None));
        note(Oddity::ReservedFlags, header.flags.reserved());
        note(Oddity::FieldMapVersion, header.field_map_version != FIELD_MAP_VERSION);
        let base = base_of(offsets, start)?;
        note(Oddity::RelativeOffsets, codec == Codec::None && base == 0 && !offsets.is_empty());
        let split = Split { rest, offsets, base, with_manifest: header.flags.has_index_manifest() };
        let (region, manifest) = split.region(codec, limits, start)?;
        check_offsets(offsets, base, region.len())?;
        let manifest = match (header.flags.has_index_manifest(), manifest) {
            (false, []) => None,
            (false, extra) => {
                let message = format!("{} bytes follow the grain region", extra.len());
                return Err(GrainError::corrupt(body.len() - extra.len(), message));
            }
            (true, []) => {
                return Err(GrainError::corrupt(body.len(), "the file promises an index manifest and has none"));
            }
            (true, bytes) => {
                let at = body.len() - bytes.len();
                Some(Manifest::read(bytes).map_err(|error| error.shifted(at))?)
            }
        };
        Ok(Container { header, codec, offsets, base, region, manifest, footer: *footer, oddities })
    }

    /// The header.
    pub fn header(&self) -> &ContainerHeader {
        &self.header
    }

    /// How the region really is compressed, whatever the header says.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// How many grains it has.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// True if it has no grains.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The grain region, decompressed.
    pub fn region(&self) -> &[u8] {
        &self.region
    }

    /// Where in the region the delivered bytes of grain `at` lie. Constant time.
    pub fn range(&self, at: usize) -> Option<std::ops::Range<usize>> {
        let place = |offset: &[u8; 4]| u32::from_be_bytes(*offset).saturating_sub(self.base) as usize;
        let start = place(self.offsets.get(at)?);
        let end = self.offsets.get(at + 1).map_or(self.region.len(), place);
        Some(start..end)
    }

    /// The delivered bytes of grain `at`: a blob, or an envelope around one. Constant time.
    pub fn grain(&self, at: usize) -> Option<&[u8]> {
        self.region.get(self.range(at)?)
    }

    /// Where grain `at` begins, for messages to people: in the file, or in the decompressed region of a compressed one.
    pub fn offset(&self, at: usize) -> Option<u64> {
        let start = self.range(at)?.start as u64;
        let region = (CONTAINER_HEADER_LENGTH + 4 * self.offsets.len()) as u64;
        Some(if self.codec == Codec::None { region + start } else { start })
    }

    /// The index manifest, if the file has one.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// The SHA-256 that the file claims for everything before its last 32 bytes (§11.5).
    pub fn footer(&self) -> &[u8; FOOTER_LENGTH] {
        &self.footer
    }

    /// What is odd about the file.
    pub fn oddities(&self) -> &[Oddity] {
        &self.oddities
    }
}

fn split_offsets(body: &[u8], count: u32) -> Result<(&[[u8; 4]], &[u8]), GrainError> {
    let rest = body.get(CONTAINER_HEADER_LENGTH..).unwrap_or_default();
    let length = (count as usize).checked_mul(4).filter(|length| *length <= rest.len());
    let length = length
        .ok_or_else(|| GrainError::corrupt(4, format!("the file is too short for the offsets of {count} grains")))?;
    let (table, rest) = rest.split_at(length);
    let (offsets, _) = table.as_chunks::<4>();
    Ok((offsets, rest))
}

/// The codec that the region's first bytes show; they can't be mistaken for a grain's, which begins with its version byte
/// or with an envelope's head.
fn codec_of(rest: &[u8], offsets: &[[u8; 4]], start: usize, header: &ContainerHeader) -> Codec {
    let claimed = if header.flags.compressed() || header.codec != Codec::None { header.codec } else { Codec::None };
    match rest.first_chunk::<4>() {
        Some(&ZSTD_MAGIC) => Codec::Zstd,
        Some(&LZ4_MAGIC) => Codec::Lz4,
        _ if header.flags.compressed() && claimed == Codec::None => Codec::Zstd,
        // A codec byte alone, over absolute offsets and a grain's first byte, is a lie.
        _ if !header.flags.compressed() && offsets.first() == Some(&(start as u32).to_be_bytes()) => Codec::None,
        _ => claimed,
    }
}

/// What offsets count from: the file's start or the region's (first offset 16 + 4·n or 0).
fn base_of(offsets: &[[u8; 4]], start: usize) -> Result<u32, GrainError> {
    match offsets.first().map(|first| u32::from_be_bytes(*first)) {
        None | Some(0) => Ok(0),
        Some(first) if first as usize == start => Ok(first),
        Some(first) => {
            let message = format!("the first grain is at {first}, neither at {start} (absolute) nor at 0 (relative)");
            Err(GrainError::corrupt(CONTAINER_HEADER_LENGTH, message))
        }
    }
}

/// Offsets ascend, and each leaves room for a grain.
fn check_offsets(offsets: &[[u8; 4]], base: u32, region: usize) -> Result<(), GrainError> {
    let mut previous = None;
    for (at, offset) in offsets.iter().enumerate() {
        let place = u32::from_be_bytes(*offset).checked_sub(base).map(|place| place as usize);
        let valid = place.is_some_and(|place| place < region && previous.is_none_or(|previous| place > previous));
        if !valid {
            let message =
                format!("the offset of grain {at} doesn't ascend or lies outside the region of {region} bytes");
            return Err(GrainError::corrupt(CONTAINER_HEADER_LENGTH + 4 * at, message));
        }
        previous = place;
    }
    Ok(())
}

/// What stands between the offsets and the footer.
struct Split<'a, 'o> {
    rest: &'a [u8],
    offsets: &'o [[u8; 4]],
    base: u32,
    with_manifest: bool,
}

impl<'a> Split<'a, '_> {
    /// The decompressed region, and what follows it. `start` is where the region begins in the file.
    fn region(
        &self,
        codec: Codec,
        limits: ContainerLimits,
        start: usize,
    ) -> Result<(Cow<'a, [u8]>, &'a [u8]), GrainError> {
        let limit = limits.region.min(limits.grain.saturating_mul(self.offsets.len()));
        match codec {
            Codec::None => {
                let length = if self.with_manifest { self.uncompressed_length(start)? } else { self.rest.len() };
                let (region, extra) = self.rest.split_at(length.min(self.rest.len()));
                Ok((Cow::Borrowed(region), extra))
            }
            // An empty region may be left uncompressed.
            _ if self.offsets.is_empty() && !begins_frame(self.rest) => Ok((Cow::Borrowed(&[]), self.rest)),
            Codec::Zstd => {
                let length = zstd_frame_length(self.rest).map_err(|error| error.shifted(start))?;
                let (frame, extra) = self.rest.split_at(length);
                let region = decompress_zstd(frame, limit).map_err(|error| error.shifted(start))?;
                Ok((Cow::Owned(region), extra))
            }
            Codec::Lz4 => {
                let (region, length) = decompress_lz4(self.rest, limit).map_err(|error| error.shifted(start))?;
                Ok((Cow::Owned(region), self.rest.get(length..).unwrap_or_default()))
            }
        }
    }

    /// Where an uncompressed region ends that a manifest follows: where the last grain's own bytes end.
    fn uncompressed_length(&self, start: usize) -> Result<usize, GrainError> {
        let Some(last) = self.offsets.last() else {
            return Ok(0);
        };
        let place = u32::from_be_bytes(*last).saturating_sub(self.base) as usize;
        let tail = self.rest.get(place..).unwrap_or_default();
        let length = match delivered_length(tail) {
            Ok(Some(length)) => length,
            Ok(None) => length_before_manifest(tail).ok_or_else(|| {
                GrainError::corrupt(start + place, "the end of the last, encrypted grain can't be told")
            })?,
            Err(error) => return Err(error.shifted(start + place)),
        };
        Ok(place + length)
    }
}

fn begins_frame(rest: &[u8]) -> bool {
    matches!(rest.first_chunk::<4>(), Some(&ZSTD_MAGIC | &LZ4_MAGIC))
}

/// The length of an encrypted last grain: the ciphertext doesn't tell, so the longest that leaves exactly a manifest.
fn length_before_manifest(tail: &[u8]) -> Option<usize> {
    Header::read(tail).ok()?;
    (crate::grain::MIN_BLOB_LENGTH..tail.len()).rev().find(|length| {
        tail.get(*length..).is_some_and(|rest| Manifest::read(rest).is_ok_and(|found| !found.entries.is_empty()))
    })
}
