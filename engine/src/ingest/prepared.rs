//! Reading sources for another process: their grains are proven and written to segments, which are
//! published, but nothing is committed. The process that plans the run commits what comes back
//! (`by_workers`).
//!
//! Names of segments are random, so a job that is done twice has written other files; those that no
//! commit names are removed by `gc`.

use std::sync::Arc;

use gristmill_connectors::source::{Source, SourceKind, SourceReference};
use gristmill_schemas::grain::{DecodeMode, DeviceProfile};
use serde::{Deserialize, Serialize};

use super::batch::IngestBatch;
use super::jobs::WrittenBatch;
use super::linked_sources::ReadSlot;
use super::options::IngestOptions;
use super::plan::{SourceOutcomes, by_source};
use super::report::IngestReport;
use super::run::IngestRun;
use super::sources::SourceRegister;
use crate::error::{Context, EngineError, Result};
use crate::index::IndexKinds;
use crate::keys::{TrustStore, TrustedKey};
use crate::lake::{Change, DataFile, Lake, SegmentJob};
use crate::progress::{StopOnDrop, WorkProgress};

/// Maximum size of what comes back of a job, in bytes: a quarter of the largest message.
const RESULT_BYTES: usize = 64 << 20;

/// The size of a reject in a message without its bytes, of which each takes two, and that of a
/// lifecycle event.
const REJECT_BYTES: usize = 512;
const STATE_BYTES: usize = 320;

/// The job of a worker that reads some sources.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SourceJob {
    /// The sources, in the order in which they are read.
    pub(super) sources: Vec<SourceReference>,
    pub(super) settings: JobSettings,
    /// Segments of jobs that will be committed before this one. Their grains are duplicates.
    pub(super) earlier_segments: Vec<DataFile>,
}

impl SegmentJob for SourceJob {
    type Outcome = ReadSources;

    /// No file is unreferenced for long.
    const IS_UNBATCHED: bool = true;
}

/// What all jobs of a run have in common; see [`IngestOptions`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct JobSettings {
    kind: Option<SourceKind>,
    lenient: bool,
    retry_refused: bool,
    again: bool,
    memory: usize,
    commit_every: Option<usize>,
    max_source: u64,
    trusted_keys: Vec<TrustedKey>,
    indexes: IndexKinds,
    device_profile: Option<DeviceProfile>,
    run_id: String,
    /// When the run began, in microseconds since 1970.
    now: i64,
}

impl JobSettings {
    /// Returns the settings of the jobs of `run`. Signers without a `did:key` are trusted with
    /// `trusted_keys`.
    pub(super) fn of(run: &IngestRun<'_>, trusted_keys: Vec<TrustedKey>) -> JobSettings {
        let options = &run.options;
        JobSettings {
            kind: options.kind,
            lenient: options.mode == DecodeMode::Lenient,
            retry_refused: options.retry_refused,
            again: options.again,
            memory: options.memory,
            commit_every: options.commit_every,
            max_source: options.max_source,
            trusted_keys,
            indexes: options.indexes,
            device_profile: options.device_profile,
            run_id: run.register.run_id().to_owned(),
            now: run.now,
        }
    }

    /// Returns the options of a worker with `memory` bytes.
    ///
    /// # Errors
    /// [`EngineError::Request`] if one of the trusted keys can't be read.
    fn options(&self, memory: u64) -> Result<IngestOptions> {
        let trusted = TrustStore::of(self.trusted_keys.clone())
            .map_err(|error| EngineError::Request(format!("a trusted key: {error}")))?;
        let mode = match self.lenient {
            true => DecodeMode::Lenient,
            false => DecodeMode::StrictAliased,
        };
        Ok(IngestOptions {
            kind: self.kind,
            mode,
            retry_refused: self.retry_refused,
            again: self.again,
            threads: 1,
            memory: usize::try_from(memory)
                .unwrap_or(usize::MAX)
                .min(self.memory),
            commit_every: self.commit_every,
            max_source: self.max_source,
            resolver: Arc::new(trusted),
            indexes: self.indexes,
            device_profile: self.device_profile,
            ..IngestOptions::default()
        })
    }
}

/// What a worker has made of its sources.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadSources {
    /// In the order in which they are committed.
    pub(super) batches: Vec<PreparedBatch>,
    /// URIs of sources that the process which commits reads itself.
    pub(super) left: Vec<String>,
    /// The ids of sources that were read again, and whether their entries in the ledger stay.
    pub(super) retried: Vec<(String, bool)>,
    /// What was read.
    pub(super) report: IngestReport,
}

impl ReadSources {
    /// Returns the result of `job` if none of its sources was read.
    fn none_of(job: &SourceJob) -> ReadSources {
        let uris = job.sources.iter().map(|source| source.uri.clone());
        ReadSources {
            batches: Vec::new(),
            left: uris.collect(),
            retried: Vec::new(),
            report: IngestReport::default(),
        }
    }

    /// Returns true if there are claims of manifests.
    pub(super) fn has_claims(&self) -> bool {
        let mut batches = self.batches.iter();
        batches.any(|prepared| !prepared.batch.states.is_empty())
    }

    /// Returns the data files of the segments.
    pub(super) fn segments(&self) -> impl Iterator<Item = &DataFile> {
        let batches = self.batches.iter();
        batches.filter_map(|prepared| prepared.segment.as_ref())
    }
}

/// A batch whose segment is published, and which isn't committed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PreparedBatch {
    pub(super) batch: IngestBatch,
    pub(super) outcomes: Vec<SourceOutcomes>,
    /// The data file of the segment; `None` if the batch brings no new grain.
    pub(super) segment: Option<DataFile>,
}

/// The result of a run that commits nothing, so far.
#[derive(Debug, Default)]
pub(super) struct PreparedRun {
    batches: Vec<PreparedBatch>,
    /// As [`ReadSources::left`].
    pub(super) left: Vec<String>,
    /// The size of the batches as a message, roughly.
    bytes: usize,
    /// The data files of all segments.
    files: Vec<DataFile>,
}

impl PreparedRun {
    fn add(&mut self, prepared: PreparedBatch) {
        let rejects = prepared.batch.rejects.iter();
        let rejects = rejects.map(|reject| REJECT_BYTES + 2 * reject.bytes.len());
        self.bytes += rejects.sum::<usize>() + STATE_BYTES * prepared.batch.states.len();
        self.files.extend(prepared.segment.clone());
        match self.is_too_large() {
            true => self.batches.clear(),
            false => self.batches.push(prepared),
        }
    }

    /// Returns true if the result is too large for a message.
    fn is_too_large(&self) -> bool {
        self.bytes > RESULT_BYTES
    }
}

/// Does the job of a worker with `memory` bytes. The new segments are published, but not part of
/// the lake. If the future is dropped, the work stops at the next batch.
///
/// # Errors
/// [`EngineError::Key`] if the lake is encrypted; errors of the system. Sources that can't be read
/// here are left to the process that commits.
pub async fn read_sources(lake: &Lake, job: &SourceJob, memory: u64) -> Result<ReadSources> {
    let (lake, job) = (lake.clone(), job.clone());
    let stop = StopOnDrop(Arc::default());
    let progress = Arc::clone(&stop.0);
    let runtime = tokio::runtime::Handle::current();
    // A run is polled on one thread.
    let read = move || runtime.block_on(read(lake, &job, memory, progress));
    let read = tokio::task::spawn_blocking(read);
    read.await.task("a job of ingest")?
}

async fn read(
    mut lake: Lake,
    job: &SourceJob,
    memory: u64,
    progress: Arc<WorkProgress>,
) -> Result<ReadSources> {
    let options = job.settings.options(memory)?;
    let mut run = IngestRun::begin(&mut lake, &options, progress).await?;
    run.begin_prepared(job).await?;
    let admitter = run.admitter().await?;
    let (sources, mut left) = resolved(job);
    run.read_all(&admitter, sources).await?;
    let mut read = run.end_prepared(job).await?;
    read.left.append(&mut left);
    Ok(read)
}

/// Returns the sources of `job` that this process can read, and the URIs of the others.
fn resolved(job: &SourceJob) -> (Vec<(Source, Option<ReadSlot>)>, Vec<String>) {
    let (mut sources, mut left) = (Vec::with_capacity(job.sources.len()), Vec::new());
    for reference in &job.sources {
        match reference.resolve() {
            Ok(source) => sources.push((source, None)),
            Err(_) => left.push(reference.uri.clone()),
        }
    }
    (sources, left)
}

impl IngestRun<'_> {
    /// Makes this the run of `job`, which commits nothing.
    async fn begin_prepared(&mut self, job: &SourceJob) -> Result<()> {
        self.lake.segments_for_workers("filled")?;
        self.prepared = Some(PreparedRun::default());
        self.now = job.settings.now;
        self.register = SourceRegister::of_run(job.settings.run_id.clone(), self.now);
        for file in &job.earlier_segments {
            let (segment, index) = self.open_published(file).await?;
            self.known.add(segment, index);
        }
        Ok(())
    }

    /// Publishes the segment of a batch for the process that commits it. Its grains are duplicates
    /// from then on.
    pub(super) async fn prepare(
        &mut self,
        batch: IngestBatch,
        written: WrittenBatch,
    ) -> Result<()> {
        let outcomes = by_source(&written.proven, &written.outcomes);
        let mut segment = None;
        if let Some(new) = written.segment {
            let (published, index) = self.publish(new).finish().await?;
            segment = Some(published.file.clone());
            self.known.add(published, index);
        }
        if let Some(prepared) = &mut self.prepared {
            prepared.add(PreparedBatch {
                batch,
                outcomes,
                segment,
            });
        }
        Ok(())
    }

    /// Prepares what is left, and returns the result of `job`.
    async fn end_prepared(mut self, job: &SourceJob) -> Result<ReadSources> {
        self.flush().await?;
        let last = self.await_write().await?;
        self.commit_written(last).await?;
        let prepared = self.prepared.take().unwrap_or_default();
        if prepared.is_too_large() {
            let unused = Change {
                added: prepared.files,
                changes_rows: true,
                ..Change::default()
            };
            self.lake.grains.remove_uncommitted(&unused).await;
            return Ok(ReadSources::none_of(job));
        }
        Ok(ReadSources {
            batches: prepared.batches,
            left: prepared.left,
            retried: std::mem::take(&mut self.retried).into_sources().collect(),
            report: self.report,
        })
    }
}
