//! Disclosed copies (§10.4): rows whose `_disclosure_of` names another grain, the original.
//!
//! A copy is superseded by its original if both are in the lake, whichever came first. This follows
//! from the rows, so no event is written. The tag `gristmill.disclosedRows` of a segment's `add`
//! action is the number of its copies: segments without any aren't read, and those without the tag
//! are.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field;

use super::known_addresses::open_index;
use super::lifecycle::{row_links, rows_with};
use super::{Lake, LakeFile, Segment, SegmentCache};
use crate::error::{Context, Result};
use crate::segment::SegmentId;

/// A row that is a disclosed copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DisclosedCopy {
    /// The address of the copy.
    pub(crate) address: ContentAddress,
    /// The grain that it is a copy of, which may be absent.
    pub(crate) original: ContentAddress,
    /// When the copy was created, or else ingested, in microseconds since 1970. A copy has the
    /// creation time of its original (§10.2).
    pub(crate) at: i64,
}

/// The columns from which [`DisclosedCopy`] is read.
const COLUMNS: [&str; 4] = [
    Field::DisclosureOf.name(),
    SystemColumn::ContentAddress.name(),
    Field::CreatedAt.name(),
    SystemColumn::IngestedAt.name(),
];

/// Counts the rows of `batch` that are disclosed copies; `None` if it lacks the column.
pub(crate) fn disclosed_rows_in(batch: &RecordBatch) -> Option<u64> {
    let column = batch.column_by_name(Field::DisclosureOf.name())?;
    Some((batch.num_rows() - column.null_count()) as u64)
}

/// Counts the rows of `file` that are disclosed copies. Reads one column; a sealed file is decrypted.
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
        for (original, copy, at) in row_links(&batch) {
            out.extend(copy.parse().ok().map(|address| DisclosedCopy {
                address,
                original,
                at,
            }));
        }
    }
    Ok(out)
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

    /// Returns the disclosed copies for which `wanted` is true and whose originals are in the lake,
    /// at the version of the handle. Without copies, no address index is opened.
    ///
    /// # Errors
    /// As [`Lake::disclosed_copies`].
    pub(super) async fn copies_beside_originals(
        &self,
        wanted: impl Fn(&ContentAddress) -> bool,
    ) -> Result<Vec<DisclosedCopy>> {
        let segments = self.segments()?;
        let mut copies = Vec::new();
        for segment in &segments {
            let own = self.disclosed_copies(segment).await?.into_iter();
            copies.extend(own.filter(|copy| wanted(&copy.address)));
        }
        if !copies.is_empty() {
            let found = self.originals_in(&segments, &copies).await?;
            copies.retain(|copy| found.contains(&copy.original));
        }
        Ok(copies)
    }

    /// Returns the originals of `copies` that are in `segments`.
    async fn originals_in(
        &self,
        segments: &[Segment],
        copies: &[DisclosedCopy],
    ) -> Result<HashSet<ContentAddress>> {
        let mut found = HashSet::new();
        for segment in segments {
            let index = open_index(self.location(), segment).await?;
            let originals = copies.iter().map(|copy| copy.original);
            found.extend(originals.filter(|original| index.row_of(original).is_some()));
        }
        Ok(found)
    }
}
