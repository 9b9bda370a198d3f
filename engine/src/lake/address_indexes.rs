//! The address indexes of all segments, for a pass over all addresses of a lake.

use std::collections::{BTreeSet, HashSet};
use std::io::Write;
use std::sync::Arc;

use gristmill_connectors::source::SourceBytes;

use super::known_addresses::build_index;
use super::{LakeLocation, Segment};
use crate::error::{Context, Result};
use crate::segment::{ADDRESSES_FILE, AddressIndex, SegmentId};

/// Segments and their address indexes. These are mapped files, of which a pass reads one part after
/// another, so memory holds the parts that are being read.
#[derive(Debug, Default)]
pub(crate) struct AddressIndexes {
    /// The segments whose addresses can be read.
    pub(crate) segments: Vec<Segment>,
    /// The index of each of them.
    pub(crate) indexes: Vec<Arc<AddressIndex>>,
}

impl AddressIndexes {
    /// Opens the indexes of `segments` without reading them. The index of a segment that has no
    /// usable one, or is among `distrusted`, is built from its rows, one segment at a time, and
    /// mapped. Segments whose addresses can't be read are left out: checks of their rows find why.
    ///
    /// # Errors
    /// Errors of the environment.
    pub(crate) async fn open(
        location: &LakeLocation,
        segments: Vec<Segment>,
        distrusted: &HashSet<SegmentId>,
    ) -> Result<AddressIndexes> {
        let mut opened = AddressIndexes::default();
        for segment in segments {
            let index = match distrusted.contains(&segment.id) {
                true => None,
                false => open_unchecked(location, &segment).await,
            };
            let index = match index {
                Some(index) => index,
                None => match built_from_rows(location, &segment).await {
                    Ok(index) => index,
                    Err(error) if error.is_environment() => return Err(error),
                    Err(error) => {
                        let segment = segment.id.as_str();
                        tracing::warn!(segment, %error, "its addresses can't be read");
                        continue;
                    }
                },
            };
            opened.segments.push(segment);
            opened.indexes.push(Arc::new(index));
        }
        Ok(opened)
    }

    /// Returns those of the segments with the numbers `involved` whose rows have other addresses
    /// than their indexes: a pass over these found something else than what the lake contains.
    /// Reads the addresses of the rows, one segment at a time.
    ///
    /// # Errors
    /// As [`AddressIndexes::open`].
    pub(crate) async fn differing(
        &self,
        location: &LakeLocation,
        involved: &BTreeSet<usize>,
    ) -> Result<HashSet<SegmentId>> {
        let mut differing = HashSet::new();
        for number in involved {
            let (Some(segment), Some(index)) =
                (self.segments.get(*number), self.indexes.get(*number))
            else {
                continue;
            };
            let is_equal = match build_index(location, segment).await {
                Ok(built) => index.has_bytes(&built),
                Err(error) if error.is_environment() => return Err(error),
                Err(_) => false,
            };
            index.release();
            if !is_equal {
                differing.insert(segment.id.clone());
            }
        }
        Ok(differing)
    }
}

/// Opens the address index of `segment`, whose binding is checked but not its checksum. Returns
/// `None` if it isn't usable.
async fn open_unchecked(location: &LakeLocation, segment: &Segment) -> Option<AddressIndex> {
    let binding = segment.logged_binding(location).await.ok()?;
    let bytes = location.read(&segment.id.sidecar(ADDRESSES_FILE)).await;
    let content = binding.unwrap(bytes.ok()?).ok()?;
    let index = AddressIndex::open_unchecked(content).ok()?;
    (index.len() as u64 == segment.file.rows).then_some(index)
}

/// Builds the address index of `segment` from its rows, in a temporary file without a name.
async fn built_from_rows(location: &LakeLocation, segment: &Segment) -> Result<AddressIndex> {
    let built = build_index(location, segment).await?;
    let write = move || -> std::io::Result<SourceBytes> {
        let mut file = tempfile::tempfile()?;
        file.write_all(&built)?;
        SourceBytes::map_file(&file)
    };
    let written = tokio::task::spawn_blocking(write).await;
    let mapped = written
        .task("an address index")?
        .file("can't write", "a temporary address index")?;
    AddressIndex::open_unchecked(mapped).file("can't read", segment.path())
}
