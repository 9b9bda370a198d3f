//! Work on segments by other processes does what one process does, also if it is done twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use gristmill_engine::error::EngineError;
use gristmill_engine::index::{
    IndexKinds, ReindexReport, SegmentIndexing, index_segment, reindex, reindex_by,
};
use gristmill_engine::lake::{Lake, Outcomes, SegmentJob, SegmentWorkers};
use gristmill_engine::progress::WorkProgress;

use crate::lab::Lab;

/// Workers that do each job twice, as if the first worker had been lost, and the last job first.
/// Each opens the lake anew.
struct TwiceWorkers(String);

impl TwiceWorkers {
    fn of(lab: &Lab) -> TwiceWorkers {
        TwiceWorkers(lab.path("").display().to_string())
    }

    async fn lake(&self) -> Lake {
        Lake::open(&self.0).await.unwrap()
    }
}

/// Returns `outcomes` with the numbers of their jobs, the last one first.
fn reversed<J: SegmentJob>(outcomes: Vec<J::Outcome>) -> Outcomes<J> {
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

/// Returns the files below `folder` with their bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
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
