//! Disclosed copies (§10.4): rows whose `_disclosure_of` names another grain, the original.
//!
//! A copy is superseded by its original if both are in the lake, whichever came first, unless they
//! are in different namespaces: what a namespace contains doesn't depend on another. A copy may
//! hide its namespace. This follows from the rows, so no event is written. The tag
//! `gristmill.disclosedRows` of a segment's `add` action is the number of its copies: segments
//! without any aren't read, and those without the tag are.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field;

use super::cells::{address_at, text_at, texts};
use super::known_addresses::open_index;
use super::lifecycle::{row_links, rows_with};
use super::{Lake, LakeFile, Segment, SegmentCache};
use crate::error::{Context, Result};
use crate::segment::{AddressIndex, SegmentId};

/// A row that is a disclosed copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DisclosedCopy {
    /// The address of the copy.
    pub(crate) address: ContentAddress,
    /// The grain that it is a copy of, which may be absent.
    pub(crate) original: ContentAddress,
    /// When the copy was created, or else ingested, in microseconds since 1970. A copy has the
    /// creation time of its original (§10.2).
    pub(crate) at: i64,
    /// `None` if it is hidden or absent.
    namespace: Option<String>,
}

/// The columns from which [`DisclosedCopy`] is read.
const COLUMNS: [&str; 5] = [
    Field::DisclosureOf.name(),
    Field::Namespace.name(),
    SystemColumn::ContentAddress.name(),
    Field::CreatedAt.name(),
    SystemColumn::IngestedAt.name(),
];

/// Counts the rows of `batch` that are disclosed copies; `None` if it lacks the column.
pub(crate) fn disclosed_rows_in(batch: &RecordBatch) -> Option<u64> {
    let column = batch.column_by_name(Field::DisclosureOf.name())?;
    Some((batch.num_rows() - column.null_count()) as u64)
}

/// Counts the rows of `file` that are disclosed copies. Reads one column; a sealed file is
/// decrypted.
pub(crate) fn disclosed_rows(file: &LakeFile) -> Result<u64> {
    Ok(rows_with(file, Field::DisclosureOf.name())?.len() as u64)
}

/// Returns the disclosed copies in `file`. One whose original isn't an address is left out.
fn copies_in(file: &LakeFile) -> Result<Vec<DisclosedCopy>> {
    let rows = rows_with(file, Field::DisclosureOf.name())?;
    let mut out = Vec::new();
    if rows.is_empty() {
        return Ok(out);
    }
    for batch in file.read_rows(&COLUMNS, &rows)? {
        let mut namespaces = namespaces_in(&batch);
        for (original, copy, at) in row_links(&batch) {
            out.extend(copy.parse().ok().map(|address| DisclosedCopy {
                address,
                original,
                at,
                namespace: namespaces.remove(&address),
            }));
        }
    }
    Ok(out)
}

/// Returns the namespaces of the grains of `batch` that have one.
fn namespaces_in(batch: &RecordBatch) -> HashMap<ContentAddress, String> {
    let [addresses, namespaces] = NAMESPACE_COLUMNS.map(|name| texts(batch, name));
    let namespace = |row| {
        let namespace = text_at(namespaces, row)?.to_owned();
        Some((address_at(addresses, row)?, namespace))
    };
    (0..batch.num_rows()).filter_map(namespace).collect()
}

/// The columns that [`namespaces_in`] reads.
const NAMESPACE_COLUMNS: [&str; 2] = [SystemColumn::ContentAddress.name(), Field::Namespace.name()];

/// Returns the namespaces of the rows `wanted` of `segment` that have one.
async fn namespaces_of(
    lake: &Lake,
    segment: &Segment,
    wanted: BTreeSet<u32>,
) -> Result<HashMap<ContentAddress, String>> {
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let path = segment.path();
    let file = LakeFile::open(lake, &path).await?;
    let wanted: Vec<u32> = wanted.into_iter().collect();
    let reading = move || file.read_rows(&NAMESPACE_COLUMNS, &wanted);
    let batches = tokio::task::spawn_blocking(reading).await;
    let batches = batches.file("can't read", &path)??;
    Ok(batches.iter().flat_map(namespaces_in).collect())
}

/// The segments without a tag that were read and have no copies.
#[derive(Debug, Default)]
struct SegmentsWithoutCopies(Mutex<HashSet<SegmentId>>);

impl SegmentsWithoutCopies {
    fn lock(&self) -> MutexGuard<'_, HashSet<SegmentId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SegmentCache for SegmentsWithoutCopies {
    fn retain(&self, live: &[Segment]) {
        let live: HashSet<&SegmentId> = live.iter().map(|segment| &segment.id).collect();
        self.lock().retain(|id| live.contains(id));
    }
}

impl Lake {
    /// Returns the disclosed copies in `segment`. Reads nothing if the log states that it has none,
    /// and a segment of which the log states nothing only until it is known to have none.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File),
    /// [`EngineError::Key`](crate::error::EngineError::Key).
    pub(crate) async fn disclosed_copies(&self, segment: &Segment) -> Result<Vec<DisclosedCopy>> {
        let without = self.segment_cache::<SegmentsWithoutCopies>();
        if segment.file.disclosed == Some(0) || without.lock().contains(&segment.id) {
            return Ok(Vec::new());
        }
        let path = segment.path();
        let file = LakeFile::open(self, &path).await?;
        let copies = tokio::task::spawn_blocking(move || copies_in(&file))
            .await
            .file("can't read", &path)??;
        if copies.is_empty() {
            without.lock().insert(segment.id.clone());
        }
        Ok(copies)
    }

    /// Returns the disclosed copies for which `wanted` is true and whose originals are in the lake
    /// and in no other namespace, at the version of the handle. Without copies, no address index is
    /// opened.
    ///
    /// # Errors
    /// As [`Lake::disclosed_copies`].
    pub(crate) async fn copies_with_originals(
        &self,
        wanted: impl Fn(&DisclosedCopy) -> bool,
    ) -> Result<Vec<DisclosedCopy>> {
        let segments = self.segments()?;
        let mut copies = Vec::new();
        for segment in &segments {
            let own = self.disclosed_copies(segment).await?.into_iter();
            copies.extend(own.filter(|copy| wanted(copy)));
        }
        let mut found = Vec::new();
        for segment in &segments {
            if copies.is_empty() {
                break;
            }
            let index = open_index(self.location(), segment).await?;
            found.extend(self.take_copies_of(segment, &index, &mut copies).await?);
        }
        Ok(found)
    }

    /// Removes from `copies` those whose originals are in `segment`, of which `index` has the
    /// addresses, and in no other namespace; returns them.
    ///
    /// # Errors
    /// As [`Lake::disclosed_copies`].
    pub(crate) async fn take_copies_of(
        &self,
        segment: &Segment,
        index: &AddressIndex,
        copies: &mut Vec<DisclosedCopy>,
    ) -> Result<Vec<DisclosedCopy>> {
        let with_namespace = copies.iter().filter(|copy| copy.namespace.is_some());
        let rows = with_namespace.filter_map(|copy| index.row_of(&copy.original));
        let namespaces = namespaces_of(self, segment, rows.collect()).await?;
        let has_original = |copy: &DisclosedCopy| match &copy.namespace {
            None => index.row_of(&copy.original).is_some(),
            own => namespaces.get(&copy.original) == own.as_ref(),
        };
        let (found, left) = std::mem::take(copies).into_iter().partition(has_original);
        *copies = left;
        Ok(found)
    }
}
