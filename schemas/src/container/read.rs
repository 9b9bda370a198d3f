//! Finding the grains of a container.
//!
//! A [`Container`] keeps the file's bytes (a slice, or something that owns a memory map) and, of a
//! compressed region, a decompressed copy up to a limit: nothing else is held in memory. Nothing is
//! allocated by the grain count that the file claims. The footer is checked by whoever reads the
//! file through ([`Container::footer`]), so that it can be hashed beside other work; so are the
//! header's promises about the grains ([`Container::broken_promises`]).

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::{Deref, Range};

use super::layout::{
    CONTAINER_HEADER_LENGTH, Codec, ContainerHeader, FIELD_MAP_VERSION, FOOTER_LENGTH,
};
use super::manifest::Manifest;
use crate::compression::{
    LZ4_MAGIC, ZSTD_MAGIC, decompress_lz4, decompress_zstd, zstd_frame_length,
};
use crate::error::GrainError;
use crate::grain::{DEFAULT_PAYLOAD_LIMIT, Field, Grain, Header, Mode, Payload, delivered_length};
use crate::sign::Delivery;

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
        ContainerLimits {
            region: 1 << 30,
            grain: DEFAULT_PAYLOAD_LIMIT,
        }
    }
}

impl ContainerLimits {
    /// Bytes of the decompressed region of a container with so many grains at most. A writer leaves
    /// a larger one uncompressed.
    pub fn region_of(&self, grains: usize) -> usize {
        self.region.min(self.grain.saturating_mul(grains))
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
    /// The manifest isn't in canonical form (§11.7).
    ManifestForm,
    /// Flag bit 0 is set, and some grain was created before the one in front of it.
    Unsorted,
    /// Flag bit 1 is set, and some grain stands twice.
    Repeated,
}

impl Oddity {
    /// The oddity's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Oddity::Codec => "codec_flag",
            Oddity::RelativeOffsets => "relative_offsets",
            Oddity::ReservedFlags => "reserved_flags",
            Oddity::FieldMapVersion => "field_map_version",
            Oddity::ManifestForm => "manifest_not_canonical",
            Oddity::Unsorted => "sorted_flag",
            Oddity::Repeated => "deduplicated_flag",
        }
    }
}

/// A container whose structure was checked: header, offsets, region, manifest. `B` is whatever
/// holds the file's bytes.
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
    /// [`ErrorCode::Corrupt`](crate::error::ErrorCode::Corrupt) for a structure that doesn't add up
    /// or a region beyond the limits; those of [`ContainerHeader::read`] and [`Manifest::read`].
    /// Offsets are from the start of the file.
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
        if codec == Codec::None {
            check_last(offsets, base, rest, body.len())?;
        }
        let mut oddities = oddities_of(&header, codec, base, offsets);
        let split = Split {
            rest,
            start,
            offsets,
            base,
            with_manifest: header.flags.has_index_manifest(),
        };
        let (region, extra) = split.region(codec, limits)?;
        let region_length = match &region {
            Region::InFile(range) => range.len(),
            Region::Decompressed(bytes) => bytes.len(),
        };
        check_offsets(offsets, base, region_length)?;
        let manifest = match read_manifest(&header, extra, body.len())? {
            Some((manifest, is_canonical)) => {
                oddities.extend((!is_canonical).then_some(Oddity::ManifestForm));
                Some(manifest)
            }
            None => None,
        };
        let count = offsets.len();
        Ok(Container {
            header,
            codec,
            count,
            base,
            region,
            manifest,
            footer,
            oddities,
            file,
        })
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
        let offset = self
            .file
            .get(CONTAINER_HEADER_LENGTH + 4 * at..)?
            .first_chunk::<4>()?;
        Some(u32::from_be_bytes(*offset).saturating_sub(self.base) as usize)
    }

    /// Where in the region the delivered bytes of grain `at` lie. Constant time.
    fn range(&self, at: usize) -> Option<Range<usize>> {
        let start = self.place(at).filter(|_| at < self.count)?;
        let end = if at + 1 < self.count {
            self.place(at + 1)?
        } else {
            self.region().len()
        };
        Some(start..end)
    }

    /// The delivered bytes of grain `at`: a blob, or an envelope around one. Constant time.
    pub fn grain(&self, at: usize) -> Option<&[u8]> {
        self.region().get(self.range(at)?)
    }

    /// Where grain `at` lies: in the file, or in the decompressed region of a compressed one.
    /// Constant time.
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

    /// The SHA-256 that the file claims for everything before its last 32 bytes (§11.5). It isn't
    /// checked here, so that it can be hashed beside other work.
    pub fn footer(&self) -> &[u8; FOOTER_LENGTH] {
        &self.footer
    }

    /// What is odd about the file, as far as its structure shows it.
    pub fn oddities(&self) -> &[Oddity] {
        &self.oddities
    }

    /// What the header promises of the grains and isn't so (§11.3): goes through all of them, and
    /// holds a hash of each if none is to stand twice.
    pub fn broken_promises(&self) -> impl Iterator<Item = Oddity> {
        let flags = self.header.flags;
        let unsorted = flags.sorted() && !self.is_sorted();
        let repeated = flags.deduplicated() && self.has_repeated();
        [(Oddity::Unsorted, unsorted), (Oddity::Repeated, repeated)]
            .into_iter()
            .filter_map(|(oddity, broken)| broken.then_some(oddity))
    }

    /// The blobs of the grains that can be opened.
    fn blobs(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count).filter_map(|at| Some(Delivery::open(self.grain(at)?).ok()?.blob()))
    }

    /// By the seconds in the headers, which are at hand; where those don't ascend the payloads have
    /// the word.
    fn is_sorted(&self) -> bool {
        let second = |blob| Header::read(blob).map_or(0, |header| header.created_at_seconds);
        self.blobs().is_sorted_by(|left, right| {
            second(left) <= second(right) || created_at(left) <= created_at(right)
        })
    }

    fn has_repeated(&self) -> bool {
        let hasher = RandomState::new();
        let (mut seen, mut again) = (HashSet::new(), HashSet::new());
        for blob in self.blobs() {
            let hash = hasher.hash_one(blob);
            if !seen.insert(hash) {
                again.insert(hash);
            }
        }
        // Equal hashes may be chance: only of these the bytes are compared.
        let mut suspects = HashSet::new();
        !again.is_empty()
            && !self
                .blobs()
                .filter(|blob| again.contains(&hasher.hash_one(blob)))
                .all(|blob| suspects.insert(blob))
    }
}

/// When a grain was created, in milliseconds since 1970: by its payload, or by its header if that
/// can't be read.
fn created_at(blob: &[u8]) -> i64 {
    let told = || {
        let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).ok()?;
        Grain::decode(&payload, Mode::Lenient)
            .ok()?
            .get(Field::CreatedAt)?
            .as_int()
    };
    told().unwrap_or_else(|| {
        Header::read(blob).map_or(0, |header| i64::from(header.created_at_seconds) * 1_000)
    })
}

fn oddities_of(
    header: &ContainerHeader,
    codec: Codec,
    base: u32,
    offsets: &[[u8; 4]],
) -> Vec<Oddity> {
    let by_flag = if header.flags.compressed() && header.codec == Codec::None {
        Codec::Zstd
    } else {
        header.codec
    };
    let found = [
        (
            Oddity::Codec,
            codec != by_flag || header.flags.compressed() != (codec != Codec::None),
        ),
        (
            Oddity::RelativeOffsets,
            codec == Codec::None && base == 0 && !offsets.is_empty(),
        ),
        (Oddity::ReservedFlags, header.flags.reserved()),
        (
            Oddity::FieldMapVersion,
            header.field_map_version != FIELD_MAP_VERSION,
        ),
    ];
    found
        .into_iter()
        .filter(|(_, odd)| *odd)
        .map(|(oddity, _)| oddity)
        .collect()
}

/// Reads what follows the region and ends at `end`: a manifest if the header promises one, else
/// nothing. With the manifest it tells whether that is in canonical form.
fn read_manifest(
    header: &ContainerHeader,
    extra: &[u8],
    end: usize,
) -> Result<Option<(Manifest, bool)>, GrainError> {
    let at = end - extra.len();
    match (header.flags.has_index_manifest(), extra) {
        (false, []) => Ok(None),
        (false, extra) => Err(GrainError::corrupt(
            at,
            format!("{} bytes follow the grain region", extra.len()),
        )),
        (true, []) => Err(GrainError::corrupt(
            at,
            "the file promises an index manifest and has none",
        )),
        (true, bytes) => Manifest::read_form(bytes)
            .map(Some)
            .map_err(|error| error.shifted(at)),
    }
}

fn split_offsets(body: &[u8], count: u32) -> Result<(&[[u8; 4]], &[u8]), GrainError> {
    let rest = body.get(CONTAINER_HEADER_LENGTH..).unwrap_or_default();
    let length = (count as usize)
        .checked_mul(4)
        .filter(|length| *length <= rest.len());
    let length = length.ok_or_else(|| {
        GrainError::corrupt(
            4,
            format!("the file is too short for the offsets of {count} grains"),
        )
    })?;
    let (table, rest) = rest.split_at(length);
    let (offsets, _) = table.as_chunks::<4>();
    Ok((offsets, rest))
}

/// The codec that the region's first bytes show, whatever the header says: a whole grain's can't be
/// mistaken for them, since it begins with its version byte or with an envelope's head. A damaged
/// one's can, so that they don't count where flag, codec byte and offsets all say that nothing is
/// compressed.
fn codec_of(rest: &[u8], offsets: &[[u8; 4]], start: usize, header: &ContainerHeader) -> Codec {
    let is_flagged = header.flags.compressed();
    let is_absolute = offsets.first() == Some(&(start as u32).to_be_bytes());
    let begin = rest.first_chunk::<4>();
    match header.codec {
        Codec::None if !is_flagged && is_absolute => Codec::None,
        _ if begin == Some(&ZSTD_MAGIC) => Codec::Zstd,
        _ if begin == Some(&LZ4_MAGIC) => Codec::Lz4,
        Codec::None if is_flagged => Codec::Zstd,
        // A codec byte alone, over absolute offsets and a grain's first byte, is a lie.
        _ if !is_flagged && is_absolute => Codec::None,
        claimed => claimed,
    }
}

/// What offsets count from: the file's start or the region's (first offset 16 + 4·n or 0).
fn base_of(offsets: &[[u8; 4]], start: usize) -> Result<u32, GrainError> {
    match offsets.first().map(|first| u32::from_be_bytes(*first)) {
        None | Some(0) => Ok(0),
        Some(first) if first as usize == start => Ok(first),
        Some(first) => {
            let message = format!(
                "the first grain is at {first}, neither at {start} (absolute) nor at 0 (relative)"
            );
            Err(GrainError::corrupt(CONTAINER_HEADER_LENGTH, message))
        }
    }
}

/// The last grain of an uncompressed region, which is `rest`, begins before the file's footer at
/// `end`: else the file is cut off as a rule, and whatever would be read there says less.
fn check_last(offsets: &[[u8; 4]], base: u32, rest: &[u8], end: usize) -> Result<(), GrainError> {
    let Some(last) = offsets.last().map(|last| u32::from_be_bytes(*last)) else {
        return Ok(());
    };
    let place = last.saturating_sub(base) as usize;
    if place < rest.len() {
        return Ok(());
    }
    let begin = end - rest.len() + place;
    let message = format!("the file is cut off (its last grain is to begin at byte {begin})");
    Err(GrainError::corrupt(end + FOOTER_LENGTH, message))
}

/// Offsets ascend, and each leaves room for a grain.
fn check_offsets(offsets: &[[u8; 4]], base: u32, region: usize) -> Result<(), GrainError> {
    let mut previous = None;
    for (at, offset) in offsets.iter().enumerate() {
        let place = u32::from_be_bytes(*offset)
            .checked_sub(base)
            .map(|place| place as usize);
        let valid = place.is_some_and(|place| {
            place < region && previous.is_none_or(|previous| place > previous)
        });
        if !valid {
            let message = format!(
                "the offset of grain {at} doesn't ascend or lies outside the region of {region} \
                 bytes"
            );
            return Err(GrainError::corrupt(
                CONTAINER_HEADER_LENGTH + 4 * at,
                message,
            ));
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
    fn region(
        &self,
        codec: Codec,
        limits: ContainerLimits,
    ) -> Result<(Region, &'a [u8]), GrainError> {
        let limit = limits.region_of(self.offsets.len());
        let (region, length) = match codec {
            Codec::None => {
                // Without grains there is no region, whatever follows.
                let is_known = !self.with_manifest && !self.offsets.is_empty();
                let length = if is_known {
                    self.rest.len()
                } else {
                    self.uncompressed_length()?
                };
                (Region::InFile(self.start..self.start + length), length)
            }
            // An empty region may be left uncompressed.
            _ if self.offsets.is_empty() && !begins_frame(self.rest) => {
                (Region::InFile(self.start..self.start), 0)
            }
            Codec::Zstd => {
                let length =
                    zstd_frame_length(self.rest).map_err(|error| error.shifted(self.start))?;
                let frame = self.rest.get(..length).unwrap_or_default();
                (
                    Region::Decompressed(
                        decompress_zstd(frame, limit).map_err(|error| error.shifted(self.start))?,
                    ),
                    length,
                )
            }
            Codec::Lz4 => {
                let (region, length) =
                    decompress_lz4(self.rest, limit).map_err(|error| error.shifted(self.start))?;
                (Region::Decompressed(region), length)
            }
        };
        let extra = self
            .rest
            .get(length..)
            .ok_or_else(|| GrainError::corrupt(self.start, "the last grain is cut off"))?;
        Ok((region, extra))
    }

    /// Where an uncompressed region ends that a manifest follows: where the last grain's own bytes
    /// end. If they don't tell, because they are encrypted or damaged, it is where the first whole
    /// manifest begins: damage inside a grain costs that grain only.
    fn uncompressed_length(&self) -> Result<usize, GrainError> {
        let Some(last) = self.offsets.last() else {
            return Ok(0);
        };
        let place = u32::from_be_bytes(*last).saturating_sub(self.base) as usize;
        let tail = self.rest.get(place..).unwrap_or_default();
        let at = self.start + place;
        let told = match delivered_length(tail) {
            Ok(Some(length)) if is_manifest(tail.get(length..).unwrap_or_default()) => {
                return Ok(place + length);
            }
            Ok(Some(length)) => Ok(length),
            Ok(None) => Err(GrainError::corrupt(
                0,
                "the end of the last, encrypted grain can't be told",
            )),
            Err(error) => Err(error),
        };
        let length = length_before_manifest(tail)
            .map_or(told, Ok)
            .map_err(|error| error.shifted(at))?;
        Ok(place + length)
    }
}

fn begins_frame(rest: &[u8]) -> bool {
    matches!(rest.first_chunk::<4>(), Some(&ZSTD_MAGIC | &LZ4_MAGIC))
}

/// True if `bytes` are a manifest, or begin as one does: then it is the manifest that is damaged.
fn is_manifest(bytes: &[u8]) -> bool {
    Manifest::seems_to_begin(bytes) || Manifest::read(bytes).is_ok()
}

/// Places that are tried as the beginning of a manifest after a grain whose end isn't known. By
/// chance there is none but the right one; a file that was made to look otherwise isn't worth more
/// work, each try may read the rest of the file.
const MANIFEST_TRIES: usize = 16;

/// The length of a last grain whose own bytes don't tell it: the shortest after which exactly a
/// manifest comes.
fn length_before_manifest(tail: &[u8]) -> Option<usize> {
    let rest = |length: usize| tail.get(length..).unwrap_or_default();
    (1..tail.len())
        .filter(|length| Manifest::seems_to_begin(rest(*length)))
        .take(MANIFEST_TRIES)
        .find(|length| Manifest::read(rest(*length)).is_ok())
}
