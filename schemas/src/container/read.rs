//! Finding the grains of a container.
//!
//! A [`Container`] keeps the file's bytes (a slice, or something that owns a memory map) and, of a compressed region, a
//! decompressed copy up to a limit: nothing else is held in memory. Nothing is allocated by the grain count that the file claims. The footer is checked by whoever reads the file
//! through ([`Container::footer`]), so that it can be hashed beside other work.

use std::ops::{Deref, Range};

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

/// A container whose structure was checked: header, offsets, region, manifest. `B` is whatever holds the file's bytes.
#[derive(Debug, Clone)]
pub struct Container<B> {
    file: B,
    header: ContainerHeader,
    codec: Codec,
    count: usize,
    /// What offsets count from, so that `offset - base` is a place in the region.
    base: u32,
    region: Region,
    manifest: Option<Manifest>,
    footer: [u8; FOOTER_LENGTH],
    oddities: Vec<Oddity>,
}

#[derive(Debug, Clone)]
enum Region {
    /// These bytes of the file.
    InFile(Range<usize>),
    Decompressed(Vec<u8>),
}

impl<B: Deref<Target = [u8]>> Container<B> {
    /// Opens the container that fills the whole of `file`.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupt`](crate::error::ErrorCode::Corrupt) for a structure that doesn't add up or a region beyond the
    /// limits; those of [`ContainerHeader::read`] and [`Manifest::read`]. Offsets are from the start of the file.
    pub fn open(file: B, limits: ContainerLimits) -> Result<Container<B>, GrainError> {
        let header = ContainerHeader::read(&file)?;
        let (body, footer) = file
            .split_last_chunk::<FOOTER_LENGTH>()
            .filter(|(body, _)| body.len() >= CONTAINER_HEADER_LENGTH)
            .ok_or_else(|| GrainError::corrupt(file.len(), "the file ends before its footer"))?;
        let footer = *footer;
        let (offsets, rest) = split_offsets(body, header.grain_count)?;
        let start = body.len() - rest.len();
        let codec = codec_of(rest, offsets, start, &header);
        let base = base_of(offsets, start)?;
        let oddities = oddities_of(&header, codec, base, offsets);
        let split = Split { rest, start, offsets, base, with_manifest: header.flags.has_index_manifest() };
        let (region, extra) = split.region(codec, limits)?;
        let region_length = match &region {
            Region::InFile(range) => range.len(),
            Region::Decompressed(bytes) => bytes.len(),
        };
        check_offsets(offsets, base, region_length)?;
        let manifest = read_manifest(&header, extra, body.len())?;
        let count = offsets.len();
        Ok(Container { header, codec, count, base, region, manifest, footer, oddities, file })
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
        self.count
    }

    /// True if it has no grains.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The file's bytes.
    pub fn file(&self) -> &B {
        &self.file
    }

    /// The grain region, decompressed.
    fn region(&self) -> &[u8] {
        match &self.region {
            Region::InFile(range) => self.file.get(range.clone()).unwrap_or_default(),
            Region::Decompressed(bytes) => bytes,
        }
    }

    fn place(&self, at: usize) -> Option<usize> {
        let offset = self.file.get(CONTAINER_HEADER_LENGTH + 4 * at..)?.first_chunk::<4>()?;
        Some(u32::from_be_bytes(*offset).saturating_sub(self.base) as usize)
    }

    /// Where in the region the delivered bytes of grain `at` lie. Constant time.
    fn range(&self, at: usize) -> Option<Range<usize>> {
        let start = self.place(at).filter(|_| at < self.count)?;
        let end = if at + 1 < self.count { self.place(at + 1)? } else { self.region().len() };
        Some(start..end)
    }

    /// The delivered bytes of grain `at`: a blob, or an envelope around one. Constant time.
    pub fn grain(&self, at: usize) -> Option<&[u8]> {
        self.region().get(self.range(at)?)
    }

    /// Where grain `at` lies: in the file, or in the decompressed region of a compressed one. Constant time.
    pub fn extent(&self, at: usize) -> Option<Range<usize>> {
        let range = self.range(at)?;
        match &self.region {
            Region::InFile(region) => Some(region.start + range.start..region.start + range.end),
            Region::Decompressed(_) => Some(range),
        }
    }

    /// The index manifest, if the file has one.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// The SHA-256 that the file claims for everything before its last 32 bytes (§11.5). It isn't checked here, so that it
    /// can be hashed beside other work.
    pub fn footer(&self) -> &[u8; FOOTER_LENGTH] {
        &self.footer
    }

    /// What is odd about the file.
    pub fn oddities(&self) -> &[Oddity] {
        &self.oddities
    }
}

fn oddities_of(header: &ContainerHeader, codec: Codec, base: u32, offsets: &[[u8; 4]]) -> Vec<Oddity> {
    let by_flag = if header.flags.compressed() && header.codec == Codec::None { Codec::Zstd } else { header.codec };
    let found = [
        (Oddity::Codec, codec != by_flag || header.flags.compressed() != (codec != Codec::None)),
        (Oddity::RelativeOffsets, codec == Codec::None && base == 0 && !offsets.is_empty()),
        (Oddity::ReservedFlags, header.flags.reserved()),
        (Oddity::FieldMapVersion, header.field_map_version != FIELD_MAP_VERSION),
    ];
    found.into_iter().filter(|(_, odd)| *odd).map(|(oddity, _)| oddity).collect()
}

/// Reads what follows the region and ends at `end`: a manifest if the header promises one, else nothing.
fn read_manifest(header: &ContainerHeader, extra: &[u8], end: usize) -> Result<Option<Manifest>, GrainError> {
    let at = end - extra.len();
    match (header.flags.has_index_manifest(), extra) {
        (false, []) => Ok(None),
        (false, extra) => Err(GrainError::corrupt(at, format!("{} bytes follow the grain region", extra.len()))),
        (true, []) => Err(GrainError::corrupt(at, "the file promises an index manifest and has none")),
        (true, bytes) => Manifest::read(bytes).map(Some).map_err(|error| error.shifted(at)),
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

/// What stands between the offsets and the footer, from the byte `start` of the file on.
struct Split<'a, 'o> {
    rest: &'a [u8],
    start: usize,
    offsets: &'o [[u8; 4]],
    base: u32,
    with_manifest: bool,
}

impl<'a> Split<'a, '_> {
    /// The region, and what follows it.
    fn region(&self, codec: Codec, limits: ContainerLimits) -> Result<(Region, &'a [u8]), GrainError> {
        let limit = limits.region.min(limits.grain.saturating_mul(self.offsets.len()));
        let (region, length) = match codec {
            Codec::None => {
                let length = if self.with_manifest { self.uncompressed_length()? } else { self.rest.len() };
                (Region::InFile(self.start..self.start + length), length)
            }
            // An empty region may be left uncompressed.
            _ if self.offsets.is_empty() && !begins_frame(self.rest) => (Region::InFile(self.start..self.start), 0),
            Codec::Zstd => {
                let length = zstd_frame_length(self.rest).map_err(|error| error.shifted(self.start))?;
                let frame = self.rest.get(..length).unwrap_or_default();
                (
                    Region::Decompressed(decompress_zstd(frame, limit).map_err(|error| error.shifted(self.start))?),
                    length,
                )
            }
            Codec::Lz4 => {
                let (region, length) = decompress_lz4(self.rest, limit).map_err(|error| error.shifted(self.start))?;
                (Region::Decompressed(region), length)
            }
        };
        let extra =
            self.rest.get(length..).ok_or_else(|| GrainError::corrupt(self.start, "the last grain is cut off"))?;
        Ok((region, extra))
    }

    /// Where an uncompressed region ends that a manifest follows: where the last grain's own bytes end.
    fn uncompressed_length(&self) -> Result<usize, GrainError> {
        let Some(last) = self.offsets.last() else {
            return Ok(0);
        };
        let place = u32::from_be_bytes(*last).saturating_sub(self.base) as usize;
        let tail = self.rest.get(place..).unwrap_or_default();
        let at = self.start + place;
        let length = match delivered_length(tail).map_err(|error| error.shifted(at))? {
            Some(length) => length,
            None => length_before_manifest(tail)
                .ok_or_else(|| GrainError::corrupt(at, "the end of the last, encrypted grain can't be told"))?,
        };
        Ok(place + length)
    }
}

fn begins_frame(rest: &[u8]) -> bool {
    matches!(rest.first_chunk::<4>(), Some(&ZSTD_MAGIC | &LZ4_MAGIC))
}

/// Places that are tried as the beginning of a manifest after an encrypted grain. By chance there is none but the right one;
/// a file that was made to look otherwise isn't worth more work, each try may read the rest of the file.
const MANIFEST_TRIES: usize = 16;

/// The length of an encrypted last grain: the ciphertext doesn't tell, so the shortest after which exactly a manifest comes.
fn length_before_manifest(tail: &[u8]) -> Option<usize> {
    Header::read(tail).ok()?;
    let rest = |length: usize| tail.get(length..).unwrap_or_default();
    (crate::grain::MIN_BLOB_LENGTH..tail.len())
        .filter(|length| Manifest::seems_to_begin(rest(*length)))
        .take(MANIFEST_TRIES)
        .find(|length| Manifest::read(rest(*length)).is_ok())
}
