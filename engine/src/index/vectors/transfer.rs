//! Copies the vectors of rows from segments that are replaced to the segment with these rows.
//!
//! A vector isn't computed again: imported ones couldn't be, and a sentence transformer embeds
//! about a hundred texts per second. The graph is built again, because it would lose its paths
//! through vectors that are gone.

use std::collections::{HashMap, HashSet};

use super::{VectorBuilder, VectorIndex, file_name, files_of};
use crate::error::Result;
use crate::lake::{Lake, Segment};
use crate::segment::{SegmentId, SidecarFile};

/// Maximal number of bytes of the vectors of a new segment, unless a run has its own limit.
pub(crate) const VECTOR_BYTES: u64 = 768 << 20;

/// A row of a replaced segment, and the row of the new segment that it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MovedRow {
    pub(crate) old: u32,
    pub(crate) new: u32,
}

/// The vectors of segments that are replaced.
#[derive(Debug)]
pub(crate) struct ReplacedVectors {
    /// Those of each segment, of the models of which all have vectors, in the order of the models.
    segments: Vec<Vec<VectorIndex>>,
}

impl ReplacedVectors {
    /// Opens the vectors of `segments`, whose files are among `files`. Leaves out the models of
    /// which a segment has no intact vectors: the new segment's would be incomplete, and a search
    /// in them a wrong answer.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if a data file can't be read.
    pub(crate) async fn of(
        lake: &Lake,
        segments: &[Segment],
        files: &HashMap<SegmentId, Vec<String>>,
    ) -> Result<ReplacedVectors> {
        let mut opened = Vec::with_capacity(segments.len());
        for segment in segments {
            let names = files.get(&segment.id).map(Vec::as_slice);
            let mut indexes = open_vectors(lake, segment, names.unwrap_or_default()).await?;
            indexes.sort_by(|left, right| left.model().cmp(right.model()));
            opened.push(indexes);
        }
        let models = common_models(&opened);
        for indexes in &mut opened {
            indexes.retain(|index| models.contains(index.model()));
        }
        Ok(ReplacedVectors { segments: opened })
    }

    /// Returns true if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.iter().all(Vec::is_empty)
    }

    /// Returns the bytes of all vectors in memory.
    pub(crate) fn bytes(&self) -> u64 {
        let indexes = self.segments.iter().flatten();
        indexes
            .map(|index| 2 * (index.dimensions() * index.len()) as u64)
            .sum()
    }

    /// Builds the files of a segment of `rows` rows, on all threads of the current pool. `moved`
    /// has the rows of each replaced segment that it contains, ascending.
    pub(crate) fn files(&self, moved: &[Vec<MovedRow>], rows: u64) -> Vec<SidecarFile> {
        let first = self.segments.first().into_iter().flatten();
        first
            .enumerate()
            .filter_map(|(at, model)| {
                let (name, metric) = (model.model(), model.metric());
                let mut builder = VectorBuilder::new(name, model.dimensions(), metric)?;
                for (indexes, moved) in self.segments.iter().zip(moved) {
                    copy_moved(indexes.get(at)?, moved, &mut builder);
                }
                Some(SidecarFile::whole(&file_name(name), builder.build(rows)))
            })
            .collect()
    }
}

/// Returns the vectors of `segment`, whose files are among `files`, and the rows of a segment that
/// replaces it without the rows `gone` (ascending). `None` if it has none, or if they are larger
/// than [`VECTOR_BYTES`].
///
/// # Errors
/// As [`ReplacedVectors::of`].
pub(crate) async fn vectors_without(
    lake: &Lake,
    segment: &Segment,
    files: &HashMap<SegmentId, Vec<String>>,
    gone: &[u32],
) -> Result<Option<(ReplacedVectors, Vec<MovedRow>)>> {
    let replaced = ReplacedVectors::of(lake, std::slice::from_ref(segment), files).await?;
    if replaced.is_empty() {
        return Ok(None);
    }
    if replaced.bytes() > VECTOR_BYTES {
        tracing::warn!(
            segment = segment.id.as_str(),
            "its vectors aren't kept, because they are larger than {} MiB; \
             `gristmill reindex --embed` or `--vectors FILE` makes them again",
            VECTOR_BYTES >> 20
        );
        return Ok(None);
    }
    let moved = rows_without(segment.file.rows as u32, gone);
    Ok(Some((replaced, moved)))
}

/// Returns the rows of a segment of `rows` rows that stay without the rows `gone` (ascending).
fn rows_without(rows: u32, gone: &[u32]) -> Vec<MovedRow> {
    let mut gone = gone.iter().copied().peekable();
    let kept = (0..rows).filter(|row| gone.next_if_eq(row).is_none());
    let moved = kept.zip(0..).map(|(old, new)| MovedRow { old, new });
    moved.collect()
}

/// Adds the vectors of the `moved` rows.
fn copy_moved(index: &VectorIndex, moved: &[MovedRow], builder: &mut VectorBuilder) {
    index.each(|row, vector| {
        if let Ok(at) = moved.binary_search_by_key(&row, |moved| moved.old)
            && let Some(moved) = moved.get(at)
        {
            builder.copy(moved.new, vector);
        }
    });
}

/// Returns the models of which each segment has vectors with the same metric and dimensions.
fn common_models(segments: &[Vec<VectorIndex>]) -> HashSet<String> {
    let spaces = |indexes: &[VectorIndex]| -> HashSet<_> {
        let space =
            |index: &VectorIndex| (index.model().to_owned(), index.metric(), index.dimensions());
        indexes.iter().map(space).collect()
    };
    let common = segments
        .iter()
        .map(|indexes| spaces(indexes))
        .reduce(|left, right| left.intersection(&right).cloned().collect());
    let common = common.unwrap_or_default();
    common.into_iter().map(|(model, _, _)| model).collect()
}

/// Opens those of the vector files `names` of `segment` that are intact and its own.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if one can't be read.
pub(super) async fn open_vectors(
    lake: &Lake,
    segment: &Segment,
    names: &[String],
) -> Result<Vec<VectorIndex>> {
    let mut indexes = Vec::new();
    if names.is_empty() {
        return Ok(indexes);
    }
    // Without its binding it isn't known whose the files are.
    let Ok(binding) = segment.binding(lake.location()).await else {
        return Ok(indexes);
    };
    for name in names {
        let content = lake.location().read(&segment.id.sidecar(name)).await?;
        let index = binding.unwrap(content).ok().map(VectorIndex::open);
        indexes.extend(index.and_then(std::result::Result::ok).filter(|index| {
            index.segment_rows() == segment.file.rows && file_name(index.model()) == *name
        }));
    }
    Ok(indexes)
}

/// Opens the vectors of the single `segment`, for a segment that replaces it.
///
/// # Errors
/// As [`ReplacedVectors::of`].
pub(crate) async fn vectors_of(lake: &Lake, segment: &Segment) -> Result<Vec<VectorIndex>> {
    let files = files_of(lake).await?;
    let names = files.get(&segment.id).map(Vec::as_slice);
    open_vectors(lake, segment, names.unwrap_or_default()).await
}
