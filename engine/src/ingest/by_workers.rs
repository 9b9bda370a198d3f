//! Ingest by workers: each reads some sources and publishes their grains as segments (`prepared`).
//! This process plans the jobs, finds duplicates between them, and commits.
//!
//! Outcomes are taken in the order of the input. A job whose segments share a grain with the lake,
//! or with an earlier job, is deferred: its segments are dropped, and in the next round it is done
//! again without the grains of the lake and of the deferred jobs before it. So all jobs of a round
//! are independent, and a job is done twice at most, unless other writers bring the same grains
//! meanwhile. The first source of a grain has the row, as in an ingest by one process.
//!
//! A job that has left out grains of earlier jobs is committed when the lake has these: otherwise
//! they would be lost if the run is killed, or if a source of an earlier job has changed meanwhile.
//!
//! Claims of manifests are judged here before each commit, as in an ingest by one process.
//!
//! What workers leave is read here at the end: linked transcripts, streams, refused containers, and
//! what they can't read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures::TryStreamExt;
use gristmill_connectors::source::Source;

use super::batch_grains::PublishedGrains;
use super::commit::{CommitResult, SegmentUpload, StateSplit};
use super::deferred_jobs::{DeferredJobs, OpenedSegment, PendingJob, PreparedSegment, has_any};
use super::options::IngestOptions;
use super::prepared::{JobSettings, PreparedBatch, ReadSources, SourceJob};
use super::report::{IngestReport, OnError};
use super::run::{COMMIT_ATTEMPTS, IngestRun};
use super::source_jobs::{SplitSources, jobs_of};
use crate::error::{EngineError, Result};
use crate::keys::TrustedKey;
use crate::lake::{Change, DataFile, Lake, SegmentWorkers};
use crate::progress::WorkProgress;

/// Does the same as [`ingest`](super::ingest()), but has the sources read by `workers`, which find
/// them by the same names. Signers without a `did:key` are trusted with `trusted_keys`. Each job
/// makes segments of its own, which `compact` merges.
///
/// # Errors
/// As [`ingest`](super::ingest()); [`EngineError::Request`] for options that workers don't have;
/// [`EngineError::Key`] if the lake is encrypted; [`EngineError::Task`] if a worker fails. The lake
/// is then as it was at the last commit, and the next run continues there.
pub async fn ingest_by(
    workers: &dyn SegmentWorkers<SourceJob>,
    trusted_keys: Vec<TrustedKey>,
    lake: &mut Lake,
    sources: Vec<Source>,
    options: &IngestOptions,
    progress: Arc<WorkProgress>,
) -> Result<IngestReport> {
    let started = Instant::now();
    refuse_unfit(options)?;
    let mut run = IngestRun::begin(lake, options, progress).await?;
    run.lake.segments_for_workers("filled")?;
    let (admitter, arranged) = run.arranged(sources).await?;
    let mut split = SplitSources::of(arranged);
    let settings = JobSettings::of(&run, trusted_keys);
    let left = run
        .read_by(workers, jobs_of(&split.for_workers, &settings))
        .await?;
    run.read_all(&admitter, split.take_for_client(&left))
        .await?;
    let mut report = run.end().await?;
    report.set_elapsed(started.elapsed());
    Ok(report)
}

/// Refuses options that only one process can have.
fn refuse_unfit(options: &IngestOptions) -> Result<()> {
    let refused = |what: &str| {
        Err(EngineError::Request(format!(
            "an ingest by several machines has no {what}; leave out --cluster"
        )))
    };
    match () {
        () if options.dry_run => refused("dry run"),
        () if options.on_error == OnError::Fail => refused("stop at refused input (--on-error)"),
        () if options.content.is_some() => refused("folder of embedded content (--content-dir)"),
        () => Ok(()),
    }
}

impl IngestRun<'_> {
    /// Has `jobs` done by `workers`, in rounds, and commits their outcomes. Returns the URIs of the
    /// sources that the workers left.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if other writers brought the same grains in every round; as
    /// [`ingest_by`].
    async fn read_by(
        &mut self,
        workers: &dyn SegmentWorkers<SourceJob>,
        jobs: Vec<SourceJob>,
    ) -> Result<Vec<String>> {
        let mut published = Change {
            changes_rows: true,
            ..Change::default()
        };
        let read = self
            .read_in_rounds(workers, jobs, &mut published.added)
            .await;
        // Segments that no commit names. After other errors a commit may still be made.
        let is_decided = matches!(
            read,
            Ok(_)
                | Err(EngineError::Conflict(_)
                    | EngineError::Key(_)
                    | EngineError::Task { .. }
                    | EngineError::Interrupted)
        );
        if is_decided {
            self.lake.grains.remove_uncommitted(&published).await;
        }
        read
    }

    /// As [`IngestRun::read_by`]. Adds the segments that come back to `published`.
    async fn read_in_rounds(
        &mut self,
        workers: &dyn SegmentWorkers<SourceJob>,
        jobs: Vec<SourceJob>,
        published: &mut Vec<DataFile>,
    ) -> Result<Vec<String>> {
        let jobs = jobs.into_iter().map(|job| PendingJob { job, read: None });
        let mut jobs: Vec<PendingJob> = jobs.collect();
        let (mut left, mut tasks) = (Vec::new(), 0);
        for _ in 0..COMMIT_ATTEMPTS {
            if jobs.is_empty() {
                break;
            }
            tasks += jobs.len();
            self.progress.begin_tasks(tasks);
            let deferred = self.round(workers, jobs, &mut left, published).await?;
            jobs = deferred.jobs;
        }
        match jobs.is_empty() {
            true => Ok(left),
            false => Err(same_grains()),
        }
    }

    /// Has `pending` jobs done once, and takes their outcomes in the order of the jobs. Returns the
    /// jobs that are deferred, of which the first is always done again.
    async fn round(
        &mut self,
        workers: &dyn SegmentWorkers<SourceJob>,
        pending: Vec<PendingJob>,
        left: &mut Vec<String>,
        published: &mut Vec<DataFile>,
    ) -> Result<DeferredJobs> {
        let mut deferred = DeferredJobs::new(self.known.without_segments());
        // A request to stop cancels the jobs, which is an error of theirs.
        let progress = Arc::clone(&self.progress);
        let cause = |error| match progress.is_stopped() {
            true => EngineError::Interrupted,
            false => error,
        };
        let mut waiting: BTreeMap<usize, ReadSources> = BTreeMap::new();
        let (mut jobs, mut sent, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for (number, PendingJob { job, read }) in pending.into_iter().enumerate() {
            match read {
                Some(read) => _ = waiting.insert(number, read),
                None => {
                    sent.push(job.clone());
                    numbers.push(number);
                }
            }
            jobs.push(job);
        }
        let mut outcomes = workers.run(sent).await.map_err(cause)?;
        let mut jobs = jobs.into_iter();
        let mut next = 0;
        while let Some((sent, read)) = outcomes.try_next().await.map_err(cause)? {
            published.extend(read.segments().cloned());
            waiting.extend(numbers.get(sent).map(|number| (*number, read)));
            while let Some(read) = waiting.remove(&next)
                && let Some(job) = jobs.next()
            {
                next += 1;
                left.extend(self.take_read(job, read, &mut deferred).await?);
                if progress.is_stopped() {
                    return Err(EngineError::Interrupted);
                }
            }
        }
        match jobs.len() {
            0 => Ok(deferred),
            missing => Err(EngineError::Task {
                what: "an ingest by other processes".to_owned(),
                cause: format!("{missing} outcomes have not come back").into(),
            }),
        }
    }

    /// Commits what `job` has read, or defers it. Claims of manifests are judged in the order of
    /// the input, so a job with some waits for earlier ones. Returns the URIs of the sources that
    /// it left.
    async fn take_read(
        &mut self,
        job: SourceJob,
        mut read: ReadSources,
        deferred: &mut DeferredJobs,
    ) -> Result<Vec<String>> {
        let mut segments = Vec::with_capacity(read.batches.len());
        for prepared in &read.batches {
            segments.push(match &prepared.segment {
                Some(file) => Some(self.open_published(file).await?),
                None => None,
            });
        }
        let missing = self.missing_of_earlier(&job, deferred).await?;
        let is_new = missing.is_empty()
            && !deferred.has_any(&segments).await?
            && !has_any(&self.known, &segments).await?;
        let waits = !deferred.jobs.is_empty() && read.has_claims();
        if is_new && !waits && self.commit_read(&mut read, &segments).await? {
            self.progress
                .end_task(read.report.bytes, read.report.grains_read);
            WorkProgress::add(&self.progress.rejected, read.report.rejected);
            self.report.add_read(read.report);
            return Ok(read.left);
        }
        self.progress.end_task(0, 0);
        match is_new && waits {
            true => deferred.add_waiting(job, read, segments),
            false => deferred.add_again(job, segments, &missing).await?,
        }
        Ok(Vec::new())
    }

    /// Opens the segments of earlier jobs whose grains `job` has left out, and of which the lake
    /// lacks some: one was deferred again, is left to this process, or its source has changed.
    async fn missing_of_earlier(
        &self,
        job: &SourceJob,
        deferred: &mut DeferredJobs,
    ) -> Result<Vec<OpenedSegment>> {
        let mut missing = Vec::new();
        for file in &job.earlier_segments {
            if deferred.is_contained(file) {
                continue;
            }
            let (segment, index) = self.open_published(file).await?;
            match self.known.has_all(&segment, &index).await? {
                true => deferred.set_contained(file),
                false => missing.push((segment, index)),
            }
        }
        Ok(missing)
    }

    /// Opens the address index of the segment with the data file `file`, which another process has
    /// published.
    pub(super) async fn open_published(&self, file: &DataFile) -> Result<OpenedSegment> {
        let segment = self.lake.published_segment(file).await?;
        let index = self.known.open_published(&segment).await?;
        Ok((segment, index))
    }

    /// Commits the batches of a job, none of whose grains the lake had so far. Returns false, and
    /// changes no grains, if another writer has committed some of them meanwhile.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if that was after the first batch; errors of the commits.
    async fn commit_read(
        &mut self,
        read: &mut ReadSources,
        segments: &[PreparedSegment],
    ) -> Result<bool> {
        let unchanged = (self.report.clone(), self.retried.clone());
        for (source, keeps_entry) in &read.retried {
            self.retried.begin(source, *keeps_entry);
        }
        let (mut is_checked, mut attempts) = (true, 0);
        for (at, (prepared, segment)) in read.batches.iter_mut().zip(segments).enumerate() {
            let batch = &mut prepared.batch;
            let grains = PublishedGrains::load(self.lake, segment.as_ref(), &batch.states).await?;
            self.judge_claims(batch, &grains).await?;
            loop {
                let rest = segments.get(at..).unwrap_or_default();
                if !is_checked && has_any(&self.known, rest).await? {
                    if at > 0 {
                        return Err(same_grains());
                    }
                    (self.report, self.retried) = unchanged;
                    return Ok(false);
                }
                match self.commit_prepared(prepared, segment, &grains).await {
                    Ok(is_followed) => {
                        is_checked = !is_followed;
                        break;
                    }
                    Err(EngineError::Conflict(_)) if attempts < COMMIT_ATTEMPTS => {
                        attempts += 1;
                        self.refresh().await?;
                        is_checked = false;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(true)
    }

    /// Commits a batch, of whose `grains` those are loaded on which its claims depend. Returns true
    /// if another writer has committed right after it.
    async fn commit_prepared(
        &mut self,
        prepared: &PreparedBatch,
        segment: &PreparedSegment,
        grains: &PublishedGrains,
    ) -> Result<bool> {
        let published = |(segment, index)| SegmentUpload::published(segment, index);
        let upload = segment.clone().map(published);
        let (batch, outcomes) = (&prepared.batch, &prepared.outcomes);
        let states = StateSplit::of(&self.known, batch, grains).await?;
        let committed = self.commit(batch, outcomes, upload, &states).await?;
        let CommitResult { grains, version } = committed;
        let counts = outcomes.iter().map(|(_, counts)| *counts);
        self.report.count_left_out(counts);
        self.report.grains_written += grains;
        WorkProgress::add(&self.progress.committed, grains);
        let last = self.commit_late(batch, &states.late, version).await?;
        let is_followed = self.lake.grains.version() > last;
        if is_followed {
            self.refresh().await?;
        }
        Ok(is_followed)
    }
}

fn same_grains() -> EngineError {
    EngineError::Conflict("it brings the same grains".to_owned())
}
