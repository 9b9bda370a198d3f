//! Opens a container and locates its grains.
//!
//! A [`Container`] holds the bytes of the file (a slice, or the owner of a memory map) and, for a
//! compressed region, its decompressed copy up to a limit. No allocation depends on the declared
//! number of grains. [`Container::open`] checks the structure. The caller checks the footer
//! ([`Container::footer`]), so that the file can be hashed in parallel with other work, and the
//! guarantees in the header's flags ([`Container::violated_flags`]).

use std::ops::{Deref, Range};

use super::layout::{
    CONTAINER_HEADER_LENGTH, Codec, ContainerHeader, FIELD_MAP_VERSION, FOOTER_LENGTH,
};
use super::manifest::Manifest;
use super::region::{GrainRegion, RegionLocator};
use crate::error::GrainError;
use crate::grain::DEFAULT_PAYLOAD_LIMIT;

/// Limits on the decompressed region of a container, against decompression bombs.
#[derive(Debug, Clone, Copy)]
pub struct ContainerLimits {
    /// The maximum length of the region in bytes.
    pub region: usize,
    /// The maximum average length of a grain in bytes.
    pub grain: usize,
}

impl Default for ContainerLimits {
    /// 1 GiB in total, 16 MiB per grain.
    fn default() -> Self {
        ContainerLimits {
            region: 1 << 30,
            grain: DEFAULT_PAYLOAD_LIMIT,
        }
    }
}

impl ContainerLimits {
    /// Returns the maximum length in bytes of the decompressed region of a container with the given
    /// number of grains. Writers leave a larger region uncompressed.
    pub fn max_region_bytes(&self, grains: usize) -> usize {
        self.region.min(self.grain.saturating_mul(grains))
    }
}

/// An anomaly of a container that does not make it unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerAnomaly {
    /// Flag bit 2 or the codec byte contradicts the region's first bytes.
    Codec,
    /// Offsets of an uncompressed region count from its start instead of from that of the file.
    RelativeOffsets,
    /// Reserved flag bits are set.
    ReservedFlags,
    /// The version of the field map is not 1.
    FieldMapVersion,
    /// The manifest is not in canonical form (§11.7).
    ManifestForm,
    /// Flag bit 0 is set, but a grain was created before its predecessor.
    Unsorted,
    /// Flag bit 1 is set, but a grain is repeated.
    Repeated,
}

impl ContainerAnomaly {
    /// Returns the name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            ContainerAnomaly::Codec => "codec_flag",
            ContainerAnomaly::RelativeOffsets => "relative_offsets",
            ContainerAnomaly::ReservedFlags => "reserved_flags",
            ContainerAnomaly::FieldMapVersion => "field_map_version",
            ContainerAnomaly::ManifestForm => "manifest_not_canonical",
            ContainerAnomaly::Unsorted => "sorted_flag",
            ContainerAnomaly::Repeated => "deduplicated_flag",
        }
    }
}

/// A container with a valid structure: header, offsets, region and manifest. `B` holds the bytes of
/// the file.
#[derive(Debug, Clone)]
pub struct Container<B> {
    file: B,
    header: ContainerHeader,
    codec: Codec,
    count: usize,
    /// The value that offsets count from: `offset - base` is a position in the region.
    base: u32,
    region: GrainRegion,
    manifest: Option<Manifest>,
    footer: [u8; FOOTER_LENGTH],
    anomalies: Vec<ContainerAnomaly>,
}

impl<B: Deref<Target = [u8]>> Container<B> {
    /// Opens a container that consists of all of `file`.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupt`](crate::error::ErrorCode::Corrupt) for an inconsistent structure or a
    /// region beyond the limits; those of [`ContainerHeader::read`] and [`Manifest::read`]. Offsets
    /// count from the start of the file.
    pub fn open(file: B, limits: ContainerLimits) -> Result<Container<B>, GrainError> {
        let header = ContainerHeader::read(&file)?;
        let (body, footer) = file
            .split_last_chunk::<FOOTER_LENGTH>()
            .filter(|(body, _)| body.len() >= CONTAINER_HEADER_LENGTH)
            .ok_or_else(|| GrainError::corrupt(file.len(), "the file ends before its footer"))?;
        let footer = *footer;
        let locator = RegionLocator::new(&header, body)?;
        let (codec, base, count) = (locator.codec, locator.base, locator.offsets.len());
        let mut anomalies = find_anomalies(&header, &locator);
        let (region, extra) = locator.locate(limits)?;
        let manifest = match read_manifest(&header, extra, body.len())? {
            Some((manifest, is_canonical)) => {
                anomalies.extend((!is_canonical).then_some(ContainerAnomaly::ManifestForm));
                Some(manifest)
            }
            None => None,
        };
        Ok(Container {
            header,
            codec,
            count,
            base,
            region,
            manifest,
            footer,
            anomalies,
            file,
        })
    }

    /// Returns the header.
    pub fn header(&self) -> &ContainerHeader {
        &self.header
    }

    /// Returns the actual codec of the region, regardless of the header.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Returns the number of grains.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if the container has no grains.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes of the file.
    pub fn file(&self) -> &B {
        &self.file
    }

    /// Returns the decompressed grain region.
    fn region(&self) -> &[u8] {
        match &self.region {
            GrainRegion::InFile(range) => self.file.get(range.clone()).unwrap_or_default(),
            GrainRegion::Decompressed(bytes) => bytes,
        }
    }

    /// Returns the position of grain `index` in the region.
    fn position(&self, index: usize) -> Option<usize> {
        let offset = self
            .file
            .get(CONTAINER_HEADER_LENGTH + 4 * index..)?
            .first_chunk::<4>()?;
        Some(u32::from_be_bytes(*offset).saturating_sub(self.base) as usize)
    }

    /// Returns the range of the delivered bytes of grain `index` in the region. Constant time.
    fn range_in_region(&self, index: usize) -> Option<Range<usize>> {
        let start = self.position(index).filter(|_| index < self.count)?;
        let end = if index + 1 < self.count {
            self.position(index + 1)?
        } else {
            self.region().len()
        };
        Some(start..end)
    }

    /// Returns the delivered bytes of grain `index`: a blob, or an envelope around one. Constant
    /// time.
    pub fn grain(&self, index: usize) -> Option<&[u8]> {
        self.region().get(self.range_in_region(index)?)
    }

    /// Returns the range of grain `index` in the file or, if the region is compressed, in the
    /// decompressed region. Constant time.
    pub fn grain_range(&self, index: usize) -> Option<Range<usize>> {
        let range = self.range_in_region(index)?;
        match &self.region {
            GrainRegion::InFile(region) => {
                Some(region.start + range.start..region.start + range.end)
            }
            GrainRegion::Decompressed(_) => Some(range),
        }
    }

    /// Returns the index manifest, if the file has one.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Returns the SHA-256 in the footer, which covers all bytes of the file before it (§11.5). It
    /// is not checked here, so that the file can be hashed in parallel with other work.
    pub fn footer(&self) -> &[u8; FOOTER_LENGTH] {
        &self.footer
    }

    /// Returns the anomalies of the container's structure.
    pub fn anomalies(&self) -> &[ContainerAnomaly] {
        &self.anomalies
    }
}

fn find_anomalies(header: &ContainerHeader, locator: &RegionLocator) -> Vec<ContainerAnomaly> {
    let is_compressed = header.flags.compressed();
    let declared = match header.codec {
        Codec::None if is_compressed => Codec::Zstd,
        codec => codec,
    };
    let codec_differs =
        locator.codec != declared || is_compressed != (locator.codec != Codec::None);
    let is_relative =
        locator.codec == Codec::None && locator.base == 0 && !locator.offsets.is_empty();
    let conditions = [
        (ContainerAnomaly::Codec, codec_differs),
        (ContainerAnomaly::RelativeOffsets, is_relative),
        (ContainerAnomaly::ReservedFlags, header.flags.reserved()),
        (
            ContainerAnomaly::FieldMapVersion,
            header.field_map_version != FIELD_MAP_VERSION,
        ),
    ];
    conditions
        .into_iter()
        .filter_map(|(anomaly, holds)| holds.then_some(anomaly))
        .collect()
}

/// Reads the bytes between the region and `end`: the manifest if the header announces one. Returns
/// the manifest and whether it is in canonical form.
fn read_manifest(
    header: &ContainerHeader,
    extra: &[u8],
    end: usize,
) -> Result<Option<(Manifest, bool)>, GrainError> {
    let start = end - extra.len();
    match (header.flags.has_index_manifest(), extra) {
        (false, []) => Ok(None),
        (false, extra) => Err(GrainError::corrupt(
            start,
            format!("{} bytes follow the grain region", extra.len()),
        )),
        (true, []) => Err(GrainError::corrupt(
            start,
            "the header announces an index manifest, but the file has none",
        )),
        (true, bytes) => Manifest::read_with_form(bytes)
            .map(Some)
            .map_err(|error| error.shifted(start)),
    }
}
