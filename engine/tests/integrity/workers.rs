//! Work on segments by other processes does what one process does, also if it is done twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use gristmill_engine::compact::{
    CompactOptions, CompactReport, GroupMerge, compact, compact_by, merge_segments,
};
use gristmill_engine::error::EngineError;
use gristmill_engine::gc::{GcOptions, collect_garbage};
use gristmill_engine::index::{
    IndexKinds, ReindexReport, SegmentIndexing, index_segment, reindex, reindex_by,
};
use gristmill_engine::lake::{DataFile, Lake, Outcomes, SegmentJob, SegmentWorkers};
use gristmill_engine::progress::WorkProgress;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::lab::Lab;

/// Workers that do each job twice, as if the first worker had been lost, and the last job first.
/// Each opens the lake anew.
pub struct TwiceWorkers(String);

impl TwiceWorkers {
    pub fn of(lab: &Lab) -> TwiceWorkers {
        TwiceWorkers(lab.path("").display().to_string())
    }

    pub async fn lake(&self) -> Lake {
        Lake::open(&self.0).await.unwrap()
    }
}

/// Returns `outcomes` with the numbers of their jobs, the last one first.
pub fn reversed<J: SegmentJob>(outcomes: Vec<J::Outcome>) -> Outcomes<J> {
    let numbered: Vec<_> = outcomes.into_iter().enumerate().map(Ok).collect();
    stream::iter(numbered.into_iter().rev()).boxed()
}

#[async_trait]
impl SegmentWorkers<SegmentIndexing> for TwiceWorkers {
    async fn run(
        &self,
        jobs: Vec<SegmentIndexing>,
    ) -> Result<Outcomes<SegmentIndexing>, EngineError> {
        let mut outcomes = Vec::new();
        for job in &jobs {
            outcomes.push(index_segment(&self.lake().await, job).await?);
            index_segment(&self.lake().await, job).await?;
        }
        Ok(reversed::<SegmentIndexing>(outcomes))
    }
}

/// Returns `message` as another process gets it.
pub fn sent<M: Serialize + DeserializeOwned>(message: &M) -> M {
    serde_json::from_str(&serde_json::to_string(message).unwrap()).unwrap()
}

#[async_trait]
impl SegmentWorkers<GroupMerge> for TwiceWorkers {
    async fn run(&self, jobs: Vec<GroupMerge>) -> Result<Outcomes<GroupMerge>, EngineError> {
        let mut outcomes = Vec::new();
        for job in &jobs {
            merge_segments(&self.lake().await, &sent(job), u64::MAX).await?;
            let merged = merge_segments(&self.lake().await, &sent(job), u64::MAX).await?;
            outcomes.push(sent(&merged));
        }
        Ok(reversed::<GroupMerge>(outcomes))
    }
}

/// Workers whose new files this process doesn't find.
pub struct WorkersElsewhere(pub TwiceWorkers);

#[async_trait]
impl<J> SegmentWorkers<J> for WorkersElsewhere
where
    J: SegmentJob,
    TwiceWorkers: SegmentWorkers<J>,
{
    async fn run(&self, jobs: Vec<J>) -> Result<Outcomes<J>, EngineError> {
        let outcomes = self.0.run(jobs).await?;
        let segments = self.0.lake().await.segments().unwrap();
        let files = contents(&Path::new(&self.0.0).join("grains"));
        for file in files
            .keys()
            .filter(|file| file.extension() == Some("parquet".as_ref()))
        {
            let is_of_lake = |name: &str| segments.iter().any(|segment| segment.file.name == name);
            let name = file.file_name().unwrap().to_str().unwrap();
            if name.starts_with("part-") && !is_of_lake(name) {
                std::fs::remove_file(file).unwrap();
            }
        }
        Ok(outcomes)
    }
}

/// Workers during whose work another process merges the same segments.
struct WorkersBesideAnother(TwiceWorkers);

#[async_trait]
impl SegmentWorkers<GroupMerge> for WorkersBesideAnother {
    async fn run(&self, jobs: Vec<GroupMerge>) -> Result<Outcomes<GroupMerge>, EngineError> {
        let merged = self.0.run(jobs).await?;
        let progress = Arc::new(WorkProgress::default());
        compact(&mut self.0.lake().await, &merging(), progress).await?;
        Ok(merged)
    }
}

/// Returns the files below `folder` with their bytes, full-text indexes with none: their parts have
/// random names.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false if path.ends_with("fulltext.bin") => _ = found.insert(path, Vec::new()),
            false => _ = found.insert(path.clone(), std::fs::read(&path).unwrap()),
        }
    }
    found
}

fn without_time(report: ReindexReport) -> ReindexReport {
    ReindexReport {
        seconds: 0.0,
        ..report
    }
}

/// Has the sidecars of the lake rebuilt by workers.
async fn reindexed(lab: &Lab, all: bool) -> Result<ReindexReport, EngineError> {
    let progress = Arc::new(WorkProgress::default());
    let (workers, lake) = (TwiceWorkers::of(lab), lab.lake().await);
    let report = reindex_by(&workers, &lake, IndexKinds::ALL, all, progress).await;
    report.map(without_time)
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_rebuild_the_sidecars_that_one_process_rebuilds() {
    let lab = Lab::new(3, 60, false).await;
    let index = lab.path("index");
    std::fs::remove_dir_all(&index).unwrap();
    let local = reindex(&lab.lake().await, IndexKinds::ALL, false).await;
    let local = without_time(local.unwrap());
    assert_eq!((local.rebuilt, local.whole), (3, 0));
    let files = contents(&index);
    assert!(files.len() >= 15, "{}", files.len());

    std::fs::remove_dir_all(&index).unwrap();
    assert_eq!(reindexed(&lab, false).await.unwrap(), local);
    assert_eq!(contents(&index), files);
    let again = reindexed(&lab, false).await.unwrap();
    assert_eq!((again.rebuilt, again.whole, again.bytes), (0, 3, 0));
    assert_eq!(reindexed(&lab, true).await.unwrap(), local);
    assert_eq!(contents(&index), files);
    assert_eq!(lab.verify_with(true).await.bad, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_get_no_work_on_an_encrypted_lake() {
    let lab = Lab::new(2, 20, true).await;
    let refused = reindexed(&lab, true).await.unwrap_err();
    assert!(matches!(refused, EngineError::Key(_)), "{refused}");
}

/// Options with which the segments of a lab are merged.
fn merging() -> CompactOptions {
    CompactOptions {
        target_rows: 1_000,
        ..CompactOptions::default()
    }
}

/// Has the segments of the lake merged by `workers`.
async fn compacted(
    workers: &dyn SegmentWorkers<GroupMerge>,
    lab: &Lab,
) -> Result<CompactReport, EngineError> {
    let progress = Arc::new(WorkProgress::default());
    compact_by(workers, &mut lab.lake().await, &merging(), progress).await
}

/// Returns what the log states of each segment, without what depends on names and instants.
async fn stated(lab: &Lab) -> Vec<DataFile> {
    let segments = lab.lake().await.segments().unwrap();
    let mut files: Vec<DataFile> = segments.into_iter().map(|segment| segment.file).collect();
    for file in &mut files {
        assert!(file.digest.is_some() && file.footer.is_some() && file.versions.is_some());
        (file.name, file.size) = (String::new(), 0);
        (file.digest, file.footer, file.versions) = (None, None, None);
    }
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_merge_what_one_process_merges_and_gc_removes_what_was_done_twice() {
    let (lab, other) = (Lab::new(4, 60, false).await, Lab::new(4, 60, false).await);
    let rows = lab.rows().await;
    let report = compacted(&TwiceWorkers::of(&lab), &lab).await.unwrap();
    let progress = Arc::new(WorkProgress::default());
    let local = compact(&mut other.lake().await, &merging(), progress).await;
    let local = local.unwrap();
    let figures = |it: &CompactReport| (it.segments_before, it.segments_after, it.rows, it.version);
    assert_eq!(figures(&report), figures(&local));
    assert_eq!((report.segments_before, report.segments_after), (4, 1));
    assert_eq!(stated(&lab).await, stated(&other).await);
    assert!(lab.rows().await == rows);

    let options = GcOptions {
        older_than: Duration::ZERO,
        retention: Duration::ZERO,
        dry_run: false,
    };
    let removed = collect_garbage(&mut lab.lake().await, &options).await;
    assert_eq!(removed.unwrap().data_files, 5);
    let report = lab.verify_with(true).await;
    assert_eq!(report.bad, 0, "{:#?}", report.problems);
    assert!(lab.rows().await == rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_whose_file_is_not_here_is_not_committed() {
    let lab = Lab::new(2, 60, false).await;
    let (rows, version) = (lab.rows().await, lab.lake().await.grains.version());
    let workers = WorkersElsewhere(TwiceWorkers::of(&lab));
    let refused = compacted(&workers, &lab).await.unwrap_err();
    assert!(
        refused.to_string().contains("is it the same lake?"),
        "{refused}"
    );
    assert_eq!(lab.lake().await.grains.version(), version);
    assert!(lab.rows().await == rows);
    let sealed = Lab::new(2, 20, true).await;
    let refused = compacted(&TwiceWorkers::of(&sealed), &sealed)
        .await
        .unwrap_err();
    assert!(matches!(refused, EngineError::Key(_)), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_of_segments_that_another_process_has_merged_is_refused() {
    let lab = Lab::new(4, 60, false).await;
    let rows = lab.rows().await;
    let workers = WorkersBesideAnother(TwiceWorkers::of(&lab));
    let refused = compacted(&workers, &lab).await.unwrap_err();
    assert!(matches!(refused, EngineError::Conflict(_)), "{refused}");
    assert!(lab.rows().await == rows, "each row once");
    assert_eq!(lab.lake().await.segments().unwrap().len(), 1);
}
