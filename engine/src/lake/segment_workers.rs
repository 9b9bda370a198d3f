//! Work on the segments of a lake that other processes do for this one, also on those that they
//! make of sources: a job is a message, and so is its outcome. Workers open the lake themselves.
//! They publish files, but commit nothing.

use async_trait::async_trait;
use futures::stream::BoxStream;

use super::{DataFile, Lake, Segment};
use crate::error::{Context, EngineError, Result};
use crate::segment::SegmentId;

/// A job on segments that any process can do that has the lake. It may be done twice, also at the
/// same time, if a worker was lost meanwhile.
pub trait SegmentJob: Send + 'static {
    /// What comes back.
    type Outcome: Send + 'static;

    /// True if the outcome of each job must come back as soon as it is done. Otherwise workers may
    /// do several jobs before their outcomes come back.
    const IS_UNBATCHED: bool = false;
}

/// Outcomes in any order, each with the index of its job.
pub type Outcomes<J> = BoxStream<'static, Result<(usize, <J as SegmentJob>::Outcome)>>;

/// Processes that do jobs on segments.
#[async_trait]
pub trait SegmentWorkers<J: SegmentJob>: Send + Sync {
    /// Has `jobs` done. Returns one outcome for each. Dropping the stream cancels what isn't done.
    ///
    /// # Errors
    /// [`EngineError::Task`] if the workers can't be reached, or if one of them fails.
    async fn run(&self, jobs: Vec<J>) -> Result<Outcomes<J>>;
}

impl Lake {
    /// Returns the segments, which workers will have `done` (checked, indexed …).
    ///
    /// # Errors
    /// [`EngineError::Key`] if the lake is encrypted: workers have no keys.
    pub(crate) fn segments_for_workers(&self, done: &str) -> Result<Vec<Segment>> {
        let segments = self.segments()?;
        match self.is_encrypted() || segments.iter().any(|segment| segment.id.is_sealed()) {
            true => Err(EngineError::Key(format!(
                "an encrypted lake is {done} by one machine, which has its keys"
            ))),
            false => Ok(segments),
        }
    }

    /// Returns the segment whose data file a worker has published, if this process finds it: it may
    /// have another folder of the same name, or the file may have been removed meanwhile.
    ///
    /// # Errors
    /// [`EngineError::File`] if the file is missing or another one.
    pub(crate) async fn published_segment(&self, file: &DataFile) -> Result<Segment> {
        const WHAT: &str = "can't find what another process has written (is it the same lake?):";
        let path = self.grains.path_of(&file.name);
        let id = SegmentId::of_file(&file.name)
            .ok_or("it isn't the name of a segment")
            .file(WHAT, &path)?;
        let segment = Segment {
            id,
            file: file.clone(),
        };
        segment.binding(self.location()).await.file(WHAT, &path)?;
        Ok(segment)
    }

    /// Returns the segment whose data file is `file`, for a worker.
    ///
    /// # Errors
    /// [`EngineError::Request`] if it isn't part of the lake any more.
    pub(crate) fn segment_of_file(&self, file: &str) -> Result<Segment> {
        let segments = self.segments()?;
        let mut segments = segments.into_iter();
        let segment = segments.find(|segment| segment.file.name == file);
        segment.ok_or_else(|| {
            EngineError::Request(format!(
                "the segment `{file}` isn't part of the lake any more: it was compacted or erased \
                 meanwhile; run the command again"
            ))
        })
    }
}
