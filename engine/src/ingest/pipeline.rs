//! The pipeline of batches: one is proven while the one before it is written and committed.
//!
//! The grains of the batch before are known before they are committed, so the segment of the next
//! batch is planned with them. If another writer commits in between, that plan is outdated and the
//! segment is written again.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use gristmill_schemas::columns::{RejectRow, StateRow};
use gristmill_schemas::error::GrainError;

use super::batch::IngestBatch;
use super::batch_grains::BatchGrains;
use super::claims;
use super::commit::{CommitResult, StateSplit};
use super::jobs::{BatchJob, DryRun, WrittenBatch};
use super::plan::by_source;
use super::prove::RejectedGrain;
use super::proven_batch::ProvenBatch;
use super::report::OnError;
use super::run::{COMMIT_ATTEMPTS, IngestRun, overtaken};
use crate::error::{EngineError, Result};
use crate::progress::WorkProgress;

/// A batch whose segment is being written.
pub(super) struct PendingWrite {
    batch: IngestBatch,
    segment: SegmentWrite,
}

/// A batch whose segment is written and not committed yet.
pub(super) struct UncommittedBatch {
    batch: IngestBatch,
    written: WrittenBatch,
}

/// A segment that is being written.
type SegmentWrite = BoxFuture<'static, Result<WrittenBatch>>;

/// Waits for the proof of a batch, and starts to write its segment. There is no segment in a dry
/// run, or if the run stops because a grain was rejected.
async fn start_write(
    job: BatchJob,
    proving: impl Future<Output = Result<ProvenBatch>>,
) -> Result<(Arc<ProvenBatch>, Option<SegmentWrite>)> {
    let proven = Arc::new(proving.await?);
    let stops = job.options.on_error == OnError::Fail && proven.has_rejects();
    if job.options.dry_run || stops {
        return Ok((proven, None));
    }
    let segment = job.start_write(Arc::clone(&proven)).await?.boxed();
    Ok((proven, Some(segment)))
}

impl IngestRun<'_> {
    /// Proves the current batch, commits the one before it meanwhile, and starts to write the
    /// segment.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`] if the user stopped the run; errors of the commit.
    pub(super) async fn flush(&mut self) -> Result<()> {
        if self.progress.is_stopped() {
            return Err(EngineError::Interrupted);
        }
        let mut batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        let morsels = std::mem::take(&mut batch.morsels);
        let proving = self.job().start(move |job| Ok(job.prove(morsels)));
        let before = self.await_write().await?;
        let pending = before
            .as_ref()
            .map(|before| Arc::clone(&before.written.proven));
        let job = BatchJob {
            pending,
            ..self.job()
        };
        let (overtaken, begun) =
            tokio::join!(self.commit_written(before), start_write(job, proving));
        let (overtaken, (proven, segment)) = (overtaken?, begun?);
        let rejects = self.count(&proven)?;
        batch.rejects.extend(rejects);
        let Some(segment) = segment else {
            self.judge_claims(&mut batch, &*proven).await?;
            return self.dry_run(proven).await;
        };
        let segment = match overtaken {
            true => self.job().start_write(Arc::clone(&proven)).await?.boxed(),
            false => segment,
        };
        // This takes one core, while the others write.
        if self.prepared.is_none() {
            self.judge_claims(&mut batch, &*proven).await?;
        }
        self.writing = Some(PendingWrite { batch, segment });
        Ok(())
    }

    /// Waits for the segment that is being written, if there is one.
    pub(super) async fn await_write(&mut self) -> Result<Option<UncommittedBatch>> {
        let Some(PendingWrite { batch, segment }) = self.writing.take() else {
            return Ok(None);
        };
        Ok(Some(UncommittedBatch {
            batch,
            written: segment.await?,
        }))
    }

    /// Commits a batch whose segment is written, if there is one. Returns true if other writers
    /// committed in between, so that plans made before are outdated.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if other writers were faster every time; errors of the commit.
    pub(super) async fn commit_written(&mut self, last: Option<UncommittedBatch>) -> Result<bool> {
        let Some(UncommittedBatch { batch, mut written }) = last else {
            return Ok(false);
        };
        if self.prepared.is_some() {
            self.prepare(batch, written).await?;
            return Ok(false);
        }
        for attempt in 0..COMMIT_ATTEMPTS {
            let WrittenBatch {
                proven,
                segment,
                outcomes,
            } = written;
            let states = StateSplit::of(&self.known, &batch, &*proven).await?;
            let upload = segment.map(|segment| self.publish(segment));
            let counts = by_source(&proven, &outcomes);
            match self.commit(&batch, &counts, upload, &states).await {
                // The grains of the faster writer must not be written twice.
                Err(EngineError::Conflict(_)) => {
                    self.refresh().await?;
                    written = self.job().start_write(proven).await?.await?;
                }
                Err(error) => return Err(error),
                Ok(CommitResult { grains, version }) => {
                    self.report.count_left_out(outcomes);
                    self.report.grains_written += grains;
                    WorkProgress::add(&self.progress.committed, grains);
                    let last = self.commit_late(&batch, &states.late, version).await?;
                    // The handle sees a commit that followed at once already, so that it wouldn't
                    // be a conflict any more.
                    let followed = self.lake.grains.version() > last;
                    if followed {
                        self.refresh().await?;
                    }
                    return Ok(attempt > 0 || followed);
                }
            }
        }
        Err(overtaken())
    }

    /// Reads what other writers committed.
    pub(super) async fn refresh(&mut self) -> Result<()> {
        self.lake.refresh().await?;
        self.known.refresh(self.lake).await
    }

    /// Moves the claims of manifests that the lifecycle gate denies from `batch.states` to
    /// `batch.rejects`. A process that commits nothing leaves this to the one that does: claims may
    /// depend on batches that it doesn't have.
    pub(super) async fn judge_claims(
        &mut self,
        batch: &mut IngestBatch,
        grains: &dyn BatchGrains,
    ) -> Result<()> {
        let claims = std::mem::take(&mut batch.states)
            .into_iter()
            .filter_map(|claim| self.known.permitted(claim));
        let judged = claims::judge(
            self.lake,
            &self.known,
            claims.collect(),
            grains,
            &*self.options.resolver,
            self.now,
        )
        .await?;
        batch.states = judged.permitted;
        for (claim, error) in judged.denied {
            self.reject_claim(batch, &claim, &error)?;
        }
        Ok(())
    }

    /// Adds a denied claim to `batch.rejects`.
    fn reject_claim(
        &mut self,
        batch: &mut IngestBatch,
        claim: &StateRow,
        error: &GrainError,
    ) -> Result<()> {
        let id = claim.source_id.as_deref().unwrap_or_default();
        let uri = batch.uris.get(id).map_or(id, String::as_str);
        let row = claims::reject_row(claim, error, uri, self.now);
        self.reject(uri, error)?;
        batch.rejects.push(row);
        Ok(())
    }

    /// Adds the grains of a batch to the report. Returns the rows of its rejects.
    fn count(&mut self, proven: &ProvenBatch) -> Result<Vec<RejectRow>> {
        let mut rejects = Vec::new();
        for morsel in proven.morsels() {
            self.report.grains_read += morsel.morsel.len() as u64;
            for (mark, count) in &morsel.marks {
                *self.report.marks.entry(mark.name().to_owned()).or_default() += count;
            }
            for (name, count) in morsel.beyond_profile.named() {
                *self.report.marks.entry(name.to_owned()).or_default() += count;
            }
            for RejectedGrain {
                error,
                is_readable,
                row,
            } in &morsel.rejects
            {
                self.reject(&row.source, error)?;
                self.report.readable_rejects += u64::from(*is_readable);
                rejects.push(row.clone());
            }
        }
        Ok(rejects)
    }

    /// Counts what a dry run would have written, and records its addresses.
    async fn dry_run(&mut self, proven: Arc<ProvenBatch>) -> Result<()> {
        let known = self.known.of_seconds(proven.seconds()).await?;
        let DryRun {
            index,
            rows,
            outcomes,
        } = self
            .job()
            .start(move |_| BatchJob::dry_run(&proven, &known))
            .await?;
        self.known.add_dry_run(index);
        self.report.count_left_out(outcomes);
        self.report.grains_written += rows;
        Ok(())
    }

    /// Returns a job with a snapshot of the run.
    fn job(&self) -> BatchJob {
        BatchJob {
            pool: Arc::clone(&self.pool),
            location: self.lake.location().clone(),
            options: self.options.clone(),
            progress: Arc::clone(&self.progress),
            known: self.known.clone(),
            pending: None,
            keys: self.keys.clone(),
            now: self.now,
        }
    }
}
