//! Compaction by workers: each merges one group of segments and publishes the new ones. This
//! process plans the groups, and commits what came back.
//!
//! Names of new segments are random, so a merge that is done twice has written other files; those
//! that no commit names are removed by `gc`.

use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use super::{
    CompactOptions, CompactReport, CompactRun, ROW_MEMORY, kept_vectors, largest, merge_group,
    target_rows, vector_bytes,
};
use crate::error::{Context, EngineError, Result};
use crate::lake::{Change, DataFile, Lake, Segment, SegmentJob, SegmentWorkers};
use crate::progress::{StopOnDrop, WorkProgress};
use crate::segment::SegmentId;

/// The job of a worker that merges some segments.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GroupMerge {
    /// The segments, in the order of their names.
    pub segments: Vec<MergeSource>,
    /// As [`CompactOptions::target_rows`].
    pub target_rows: u64,
    /// As [`CompactOptions::vector_bytes`].
    pub vector_bytes: u64,
}

/// A segment that a worker merges.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MergeSource {
    /// Name of its data file.
    pub file: String,
    /// Names of its vector files.
    pub vectors: Vec<String>,
}

/// What a worker has made of a group of segments.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MergedGroup {
    /// The data files of the new segments. No commit names them yet.
    added: Vec<DataFile>,
    /// The number of segments whose vectors weren't kept.
    without_vectors: u64,
}

impl SegmentJob for GroupMerge {
    type Outcome = MergedGroup;

    /// No file is unreferenced for long.
    const IS_UNBATCHED: bool = true;
}

/// Does the same as [`compact`](super::compact), but has the segments merged by `workers`. Groups
/// are committed one by one, as they come back. The files of small tables are merged here.
///
/// # Errors
/// As [`compact`](super::compact); [`EngineError::Task`] if a worker fails, for example because it
/// has less memory than a merged segment of [`CompactOptions::target_rows`] needs;
/// [`EngineError::Key`] if the lake is encrypted.
pub async fn compact_by(
    workers: &dyn SegmentWorkers<GroupMerge>,
    lake: &mut Lake,
    options: &CompactOptions,
    progress: Arc<WorkProgress>,
) -> Result<CompactReport> {
    let mut run = CompactRun::begin(lake, options, &progress).await?;
    lake.segments_for_workers("compacted")?;
    let jobs = run.groups.iter();
    let jobs = jobs.map(|group| GroupMerge::new(group, &run.vectors, options));
    progress.begin_tasks(run.groups.len());
    let mut merges = workers.run(jobs.collect()).await?;
    // A request to stop cancels the jobs, which is an error of theirs.
    let cause = |error| match progress.is_stopped() {
        true => EngineError::Interrupted,
        false => error,
    };
    while let Some((number, merged)) = merges.try_next().await.map_err(cause)? {
        let Some(group) = run.groups.get(number) else {
            continue;
        };
        let without_vectors = merged.without_vectors;
        let change = merged.into_change(lake, group).await?;
        let removed = || change.removed.iter();
        progress.end_task(
            removed().map(|file| file.size).sum(),
            removed().map(|file| file.rows).sum(),
        );
        run.report.count_without_vectors(without_vectors);
        run.commit(lake, change).await?;
        if progress.is_stopped() {
            return Err(EngineError::Interrupted);
        }
    }
    run.finish(lake, options).await
}

/// Does the job of a worker with `memory` bytes. The new segments are published, but not part of
/// the lake. If the future is dropped, the merge stops at the next row group.
///
/// # Errors
/// [`EngineError::Request`] if one of the segments isn't part of the lake any more, or if the
/// memory doesn't suffice; errors of the system.
pub async fn merge_segments(lake: &Lake, job: &GroupMerge, memory: u64) -> Result<MergedGroup> {
    let mut group = Vec::with_capacity(job.segments.len());
    let mut vectors = HashMap::new();
    for source in &job.segments {
        let segment = lake.segment_of_file(&source.file)?;
        if !source.vectors.is_empty() {
            vectors.insert(segment.id.clone(), source.vectors.clone());
        }
        group.push(segment);
    }
    check_memory(&group, job.target_rows, memory)?;
    let options = CompactOptions {
        target_rows: job.target_rows,
        vector_bytes: job.vector_bytes.min(vector_bytes(memory)),
        threads: 1,
        ..CompactOptions::default()
    };
    let stop = StopOnDrop(Arc::default());
    let (replaced, without_vectors) = kept_vectors(lake, &group, &vectors, &options).await?;
    let change = merge_group(lake, group, replaced, &options, &stop.0).await?;
    Ok(MergedGroup {
        added: change.added,
        without_vectors,
    })
}

/// Checks that `memory` bytes suffice for the largest segment of `target` rows at most to which
/// `group` is merged.
fn check_memory(group: &[Segment], target: u64, memory: u64) -> Result<()> {
    let rows = largest(group, target);
    match rows <= target_rows(memory) {
        true => Ok(()),
        false => Err(EngineError::Request(format!(
            "a merged segment needs {} MiB of memory, and a task of this executor has {} MiB: \
             start executors with more --memory or fewer --slots, or compact with a smaller \
             --memory",
            rows.saturating_mul(ROW_MEMORY) >> 20,
            memory >> 20
        ))),
    }
}

impl GroupMerge {
    /// Returns the merge of `group`, whose vector files are among `vectors`.
    fn new(
        group: &[Segment],
        vectors: &HashMap<SegmentId, Vec<String>>,
        options: &CompactOptions,
    ) -> GroupMerge {
        let source = |segment: &Segment| MergeSource {
            file: segment.file.name.clone(),
            vectors: vectors.get(&segment.id).cloned().unwrap_or_default(),
        };
        GroupMerge {
            segments: group.iter().map(source).collect(),
            target_rows: options.target_rows,
            vector_bytes: options.vector_bytes,
        }
    }
}

impl MergedGroup {
    /// Returns the change that replaces `group`, if the files are as they are described.
    ///
    /// # Errors
    /// [`EngineError::File`] if a file is missing or another one, or if the rows aren't as many as
    /// before.
    async fn into_change(self, lake: &Lake, group: &[Segment]) -> Result<Change> {
        for file in &self.added {
            lake.published_segment(file).await?;
        }
        let before: u64 = group.iter().map(|segment| segment.file.rows).sum();
        let after: u64 = self.added.iter().map(|file| file.rows).sum();
        if before != after {
            let cause = format!("{after} rows came back of {before}");
            return Err(cause).file("can't use a merge of", lake.location().name());
        }
        Ok(Change {
            added: self.added,
            removed: group.iter().map(|segment| segment.file.clone()).collect(),
            ..Change::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::ROW_GROUP_ROWS;

    fn segment(rows: u64) -> Segment {
        let name = "part-a.parquet".to_owned();
        let digest = crate::FileDigest::of(b"");
        let written = crate::WrittenFile {
            rows,
            size: 1,
            digest,
            created: None,
        };
        Segment {
            id: SegmentId::of_folder("a"),
            file: DataFile::new(name, written),
        }
    }

    #[test]
    fn a_worker_with_too_little_memory_for_the_new_segment_refuses() {
        let group_memory = ROW_GROUP_ROWS as u64 * ROW_MEMORY;
        let target = 4 * ROW_GROUP_ROWS as u64;
        let few = [segment(10), segment(20)];
        assert!(check_memory(&few, target, 1).is_ok());
        let many = [segment(target), segment(target)];
        assert!(check_memory(&many, target, 4 * group_memory).is_ok());
        let refused = check_memory(&many, target, 4 * group_memory - 1).unwrap_err();
        assert!(refused.to_string().contains("needs 512 MiB"), "{refused}");
        assert!(check_memory(&many, target, u64::MAX).is_ok());
    }
}
