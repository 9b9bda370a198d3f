//! What executors do with the segments and files of a lake, and with sources that become segments:
//! jobs as messages, each done as the engine does it in one process.

use datafusion::common::{DataFusionError, Result};
use gristmill_engine::compact::{GroupMerge, merge_segments};
use gristmill_engine::erase::{SearchJob, SurveyJob, search_files, survey_segments};
use gristmill_engine::error::EngineError;
use gristmill_engine::index::{SegmentIndexing, index_segment};
use gristmill_engine::ingest::{SourceJob, read_sources};
use gristmill_engine::lake::Lake;
use gristmill_engine::verify::{SegmentCheck, check_segment};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A job of an executor.
#[derive(Debug, Serialize, Deserialize)]
pub enum ClusterJob {
    /// Check a segment.
    Check(SegmentCheck),
    /// Rebuild the sidecars of a segment.
    Index(SegmentIndexing),
    /// Merge a group of segments.
    Merge(GroupMerge),
    /// Read some sources, and write their grains to segments.
    Read(SourceJob),
    /// Find the rows of some segments that an erasure selects.
    Survey(SurveyJob),
    /// Search some files for what an erasure must not have left.
    Search(SearchJob),
}

impl From<SegmentCheck> for ClusterJob {
    fn from(check: SegmentCheck) -> ClusterJob {
        ClusterJob::Check(check)
    }
}

impl From<SegmentIndexing> for ClusterJob {
    fn from(indexing: SegmentIndexing) -> ClusterJob {
        ClusterJob::Index(indexing)
    }
}

impl From<GroupMerge> for ClusterJob {
    fn from(merge: GroupMerge) -> ClusterJob {
        ClusterJob::Merge(merge)
    }
}

impl From<SourceJob> for ClusterJob {
    fn from(job: SourceJob) -> ClusterJob {
        ClusterJob::Read(job)
    }
}

impl From<SurveyJob> for ClusterJob {
    fn from(job: SurveyJob) -> ClusterJob {
        ClusterJob::Survey(job)
    }
}

impl From<SearchJob> for ClusterJob {
    fn from(job: SearchJob) -> ClusterJob {
        ClusterJob::Search(job)
    }
}

impl ClusterJob {
    /// Does the job in `lake` with `memory` bytes, and returns its outcome.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) async fn run(&self, lake: &Lake, memory: u64) -> Result<Value> {
        let outcome = match self {
            ClusterJob::Check(check) => {
                serde_json::to_value(check_segment(lake, check).await.map_err(failed)?)
            }
            ClusterJob::Index(indexing) => {
                serde_json::to_value(index_segment(lake, indexing).await.map_err(failed)?)
            }
            ClusterJob::Merge(merge) => {
                serde_json::to_value(merge_segments(lake, merge, memory).await.map_err(failed)?)
            }
            ClusterJob::Read(job) => {
                serde_json::to_value(read_sources(lake, job, memory).await.map_err(failed)?)
            }
            ClusterJob::Survey(job) => {
                serde_json::to_value(survey_segments(lake, job).await.map_err(failed)?)
            }
            ClusterJob::Search(job) => {
                serde_json::to_value(search_files(lake, job).await.map_err(failed)?)
            }
        };
        outcome.map_err(json)
    }
}

/// Returns the error of a plan whose engine failed.
pub(crate) fn failed(error: EngineError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Returns the error of JSON that can't be read or written.
pub(crate) fn json(error: serde_json::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use gristmill_engine::compact::MergeSource;
    use gristmill_engine::index::IndexKinds;
    use gristmill_engine::verify::{SegmentSettings, Subset};

    use super::*;

    /// Returns the job that an executor gets.
    fn received(job: &ClusterJob) -> ClusterJob {
        serde_json::from_str(&serde_json::to_string(job).unwrap()).unwrap()
    }

    #[test]
    fn jobs_survive_the_wire() {
        let check = SegmentCheck {
            file: "part-a.parquet".to_owned(),
            settings: SegmentSettings {
                subset: Some(Subset::Group { number: 2, of: 3 }),
                problems: 7,
                ..SegmentSettings::default()
            },
        };
        let indexing = SegmentIndexing {
            file: "part-b.parquet".to_owned(),
            kinds: IndexKinds {
                words: false,
                ..IndexKinds::ALL
            },
            all: true,
        };
        let source = MergeSource {
            file: "part-c.parquet".to_owned(),
            vectors: vec!["vectors-x.bin".to_owned()],
        };
        let merge = GroupMerge {
            segments: vec![source],
            target_rows: 5,
            vector_bytes: 6,
        };
        for job in [check.into(), indexing.into(), ClusterJob::from(merge)] {
            assert_eq!(format!("{:?}", received(&job)), format!("{job:?}"));
        }
    }
}
