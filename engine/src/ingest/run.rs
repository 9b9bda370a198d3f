//! The run of an ingest: it admits sources, cuts them into batches and reports the outcome.
//!
//! Sources are admitted ahead of the one that is read. A full batch goes to the pipeline
//! ([`pipeline`](super::pipeline)), which commits it while the next one is filled.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use chrono::Utc;
use futures::{StreamExt, stream};
use gristmill_connectors::source::{Source, SpoolOptions};
use gristmill_connectors::transcript::grain_output::GrainCounts;
use gristmill_schemas::columns::SourceOutcome;
use gristmill_schemas::container::ContainerLimits;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::lifecycle::HoldIndex;

use super::admission::{Admission, RetryMode, admission_units};
use super::admit::Admitter;
use super::batch::{BatchLimits, IngestBatch};
use super::digests::sources_per_thread;
use super::held_versions::claim_held;
use super::known_states::KnownStates;
use super::linked_sources::{ReadSlot, arrange};
use super::morsel::{AdmittedSource, MorselReader, NextMorsel};
use super::options::IngestOptions;
use super::pipeline::PendingWrite;
use super::prepared::PreparedRun;
use super::refused_lines::RefusedLines;
use super::report::{IngestReport, OnError};
use super::retry::{RejectKeys, RetriedSources, known_rejects};
use super::sources::{SourceInfo, SourceRegister};
use crate::error::{Context, EngineError, Result};
use crate::index::refresh_after;
use crate::keys::LakeKeys;
use crate::lake::{AddressCatalog, Lake, Ledger};
use crate::progress::{WorkPhase, WorkProgress};

/// The part of the run's memory for a source that is held in memory because an encrypted lake
/// allows no plain temporary file.
const HELD_SHARE: usize = 4;

/// Sources that are fetched and admitted ahead of the one that is read.
const AHEAD: usize = 4;

/// How often a commit is retried after commits of other writers.
pub(super) const COMMIT_ATTEMPTS: usize = 10;

/// Returns the error of a run whose commits met other writers at all attempts.
pub(super) fn overtaken() -> EngineError {
    EngineError::Conflict(format!("other writers were faster {COMMIT_ATTEMPTS} times"))
}

/// Ingests `sources` into `lake`.
///
/// # Errors
/// [`EngineError::Refused`] and [`EngineError::RefusedLine`] if input is refused and the options
/// request to stop then,
/// [`EngineError::Interrupted`], [`EngineError::Conflict`], and errors of the system. The lake is
/// then as it was at the last commit.
pub async fn ingest(
    lake: &mut Lake,
    sources: Vec<Source>,
    options: &IngestOptions,
    progress: Arc<WorkProgress>,
) -> Result<IngestReport> {
    let started = Instant::now();
    let mut run = IngestRun::begin(lake, options, progress).await?;
    let (admitter, sources) = run.arranged(sources).await?;
    run.read_all(&admitter, sources).await?;
    let mut report = run.end().await?;
    report.set_elapsed(started.elapsed());
    Ok(report)
}

/// The state of a run.
pub(super) struct IngestRun<'l> {
    pub(super) lake: &'l mut Lake,
    pub(super) options: IngestOptions,
    pub(super) progress: Arc<WorkProgress>,
    pub(super) pool: Arc<rayon::ThreadPool>,
    pub(super) known: AddressCatalog,
    /// The keys to encrypt with, if the lake is encrypted.
    pub(super) keys: Option<Arc<LakeKeys>>,
    /// Rows that `rejects` contains already.
    pub(super) known_rejects: RejectKeys,
    /// The files of `rejects` whose rows `known_rejects` takes into account.
    pub(super) reject_files: HashSet<String>,
    pub(super) retried: RetriedSources,
    pub(super) known_states: KnownStates,
    /// The holds of the lake when the run needed them first.
    holds: Option<HoldIndex>,
    /// The batch that is being filled.
    pub(super) batch: IngestBatch,
    /// The batch before it, whose segment is being written.
    pub(super) writing: Option<PendingWrite>,
    /// The batches of a run that prepares them for another process, instead of committing.
    pub(super) prepared: Option<PreparedRun>,
    limits: BatchLimits,
    /// When the run began, in microseconds since 1970.
    pub(super) now: i64,
    pub(super) register: SourceRegister,
    pub(super) report: IngestReport,
}

impl<'l> IngestRun<'l> {
    pub(super) async fn begin(
        lake: &'l mut Lake,
        options: &IngestOptions,
        progress: Arc<WorkProgress>,
    ) -> Result<IngestRun<'l>> {
        if options.content.is_some() && lake.is_encrypted() {
            let cause = "the lake is encrypted, and files of embedded content wouldn't be";
            return Err(EngineError::Request(cause.to_owned()));
        }
        lake.refresh().await?;
        let known = AddressCatalog::load(lake).await?;
        let keys = lake.keys_to_write()?;
        let limits = BatchLimits::of_bytes(options.batch_bytes(), lake.is_encrypted());
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.threads)
            .thread_name(|number| format!("ingest-{number}"))
            .build()
            .threads()?;
        let now = Utc::now().timestamp_micros();
        let register = SourceRegister::new(now);
        let report = IngestReport {
            run_id: register.run_id().to_owned(),
            ..IngestReport::default()
        };
        Ok(IngestRun {
            lake,
            options: options.clone(),
            progress,
            pool: Arc::new(pool),
            known,
            keys,
            known_rejects: RejectKeys::default(),
            reject_files: HashSet::new(),
            retried: RetriedSources::default(),
            known_states: KnownStates::default(),
            holds: None,
            batch: IngestBatch::default(),
            writing: None,
            prepared: None,
            limits,
            now,
            register,
            report,
        })
    }

    /// Returns `sources` as they are read, and what admits them.
    pub(super) async fn arranged(
        &mut self,
        sources: Vec<Source>,
    ) -> Result<(Admitter, Vec<(Source, Option<ReadSlot>)>)> {
        let total = sources.iter().filter_map(|source| source.length).sum();
        self.progress.total_bytes.store(total, Ordering::Relaxed);
        let admitter = self.admitter().await?;
        let arranged = arrange(sources, &admitter, self.options.memory).await?;
        Ok((admitter, arranged))
    }

    /// Reads from the lake what admission depends on.
    pub(super) async fn admitter(&mut self) -> Result<Admitter> {
        let ledger = Ledger::load(&self.lake.grains).await?;
        let again = self.options.again;
        let retries = self.options.retry_refused || again;
        let (known_rejects, retried) = known_rejects(self.lake, &ledger, retries).await?;
        if self.prepared.is_none() {
            self.register.load(self.lake, &ledger).await?;
        }
        let rejected_sources = known_rejects.sources().cloned().collect();
        self.known_rejects = known_rejects;
        let files = self.lake.rejects.files()?.into_iter();
        self.reject_files = files.map(|file| file.name).collect();
        let limits = ContainerLimits {
            region: self.options.memory / 2,
            ..ContainerLimits::default()
        };
        let in_memory = self
            .lake
            .is_encrypted()
            .then_some((self.options.memory / HELD_SHARE) as u64);
        Ok(Admitter {
            ledger: Arc::new(ledger),
            retried: Arc::new(retried),
            rejected_sources: Arc::new(rejected_sources),
            again,
            kind: self.options.kind,
            limits,
            threads: self.options.threads,
            spool: SpoolOptions {
                limit: self.options.max_source,
                in_memory,
            },
            content: self.options.content.clone(),
            are_bundles: self.options.are_bundles,
            now: self.now,
        })
    }

    /// Admits `sources`, and reads them into batches.
    pub(super) async fn read_all(
        &mut self,
        admitter: &Admitter,
        sources: Vec<(Source, Option<ReadSlot>)>,
    ) -> Result<()> {
        let per_unit = sources_per_thread(sources.len(), self.options.threads);
        let mut admissions = stream::iter(admission_units(sources, per_unit))
            .map(|unit| admitter.clone().admit(unit))
            .buffered(AHEAD / per_unit);
        while let Some(admitted) = admissions.next().await {
            for admission in admitted? {
                self.take(admission).await?;
            }
        }
        Ok(())
    }

    /// Reads an accepted source into batches, and lists any other one.
    async fn take(&mut self, admission: Admission) -> Result<()> {
        if let Some(prepared) = &mut self.prepared
            && let Some(uri) = admission.needs_client()
        {
            prepared.left.push(uri.to_owned());
            return Ok(());
        }
        match admission {
            Admission::Accepted {
                mut source,
                refused,
                first,
                retry,
            } => {
                let extras = &mut source.extras;
                claim_held(self.lake, &self.known, &mut self.holds, extras, self.now).await?;
                match retry {
                    RetryMode::No => {}
                    RetryMode::Restart => self.retried.begin(&source.id, false),
                    RetryMode::KeepProgress => self.retried.begin(&source.id, true),
                }
                self.report.files += 1;
                self.report.bytes += source.length();
                let reader = MorselReader::new(Arc::from(source), first);
                self.read(reader, refused).await
            }
            Admission::AlreadyIngested(info) => {
                self.report.known += 1;
                self.list(info, SourceOutcome::Known, None).await
            }
            Admission::Unsupported { info, reason } => {
                self.report.skip(&info.uri, &reason);
                self.list(info, SourceOutcome::Skipped, Some(reason)).await
            }
            Admission::Unreadable { cause, .. } if self.options.on_error == OnError::Fail => {
                Err(cause.into())
            }
            Admission::Unreadable { cause, info } => {
                tracing::warn!("{cause}");
                self.report.unreadable_files += 1;
                self.list(info, SourceOutcome::Unreadable, Some(cause.to_string()))
                    .await
            }
            Admission::Rejected {
                reject,
                error,
                info,
            } => {
                self.reject(&reject.source, &error)?;
                self.report.files += 1;
                self.report.bytes += info.size;
                WorkProgress::add(&self.progress.bytes, info.size);
                self.batch.complete_rejected(info, *reject);
                self.flush_if_full().await
            }
        }
    }

    /// Adds a row to `sources` for a source that isn't read.
    async fn list(
        &mut self,
        info: SourceInfo,
        outcome: SourceOutcome,
        reason: Option<String>,
    ) -> Result<()> {
        WorkProgress::add(&self.progress.bytes, info.size);
        self.batch
            .listed
            .push(self.register.row(info, outcome, reason));
        self.flush_if_full().await
    }

    /// Reads a source to its end, its `refused` lines first. Full batches are flushed.
    async fn read(&mut self, mut morsels: MorselReader, refused: RefusedLines) -> Result<()> {
        let first = morsels.next_ordinal();
        self.reject_lines(morsels.source(), refused).await?;
        self.report.transcripts.add(morsels.source().extras.counts);
        loop {
            match morsels.next(self.batch.room(self.limits)) {
                NextMorsel::Morsel(morsel) => self.batch.add(morsel),
                NextMorsel::Damage {
                    ordinal,
                    offset,
                    error,
                } => {
                    self.reject(&morsels.source().uri, &error)?;
                    let damage = morsels.source().damage(ordinal, offset, &error, self.now);
                    self.batch.reject(damage);
                }
                NextMorsel::End => break,
            }
            self.flush_if_full().await?;
        }
        let keeps_entry = self.retried.keeps_entry(&morsels.source().id);
        self.batch
            .complete(morsels.source(), first, keeps_entry, self.now);
        self.flush_if_full().await
    }

    async fn flush_if_full(&mut self) -> Result<()> {
        match self.batch.room(self.limits) {
            0 => self.flush().await,
            _ => Ok(()),
        }
    }

    /// Counts refused input of the source at `uri`.
    ///
    /// # Errors
    /// [`EngineError::Refused`] if the run stops at refused input.
    pub(super) fn reject(&mut self, uri: &str, error: &GrainError) -> Result<()> {
        if self.options.on_error == OnError::Fail {
            return Err(EngineError::Refused {
                source_uri: uri.to_owned(),
                error: error.clone(),
            });
        }
        self.report.count_reject(error.code.name());
        WorkProgress::add(&self.progress.rejected, 1);
        Ok(())
    }

    /// Adds the rejects of a transcript that were found before its grains were made. Full batches
    /// are flushed, but not between two rejects of one line: they have the same key, by which a
    /// later batch, or the next run after a kill, takes the second for a row that is there already.
    async fn reject_lines(&mut self, source: &AdmittedSource, refused: RefusedLines) -> Result<()> {
        if self.options.on_error == OnError::Fail
            && let Some(fault) = refused.first()
        {
            return Err(EngineError::RefusedLine {
                source_uri: source.uri.clone(),
                fault: fault.clone(),
            });
        }
        let mut last = None;
        for rejected in refused.into_rows(source.reject_context(self.now)) {
            if last.replace(rejected.ordinal) != Some(rejected.ordinal) {
                self.flush_if_full().await?;
            }
            self.report.count_reject(&rejected.error_code);
            WorkProgress::add(&self.progress.rejected, 1);
            self.batch.reject(rejected);
        }
        self.flush_if_full().await
    }

    /// Commits what is left, and writes the entry of the audit log.
    pub(super) async fn end(mut self) -> Result<IngestReport> {
        self.progress.enter(WorkPhase::WritingSegments);
        self.flush().await?;
        let last = self.await_write().await?;
        self.progress.enter(WorkPhase::Committing);
        self.commit_written(last).await?;
        warn_about(&self.report.transcripts);
        self.report.version = self.lake.grains.version();
        if !self.options.dry_run && self.report.files > 0 {
            refresh_after(self.lake, "ingest").await;
            self.report.resolved_rejects =
                std::mem::take(&mut self.retried).resolve(self.lake).await?;
            self.lake
                .record("ingest", audit_details(&self.report))
                .await?;
        }
        self.progress.end_input();
        Ok(self.report)
    }
}

/// Warns about transcripts that weren't understood completely, and messages without own times.
fn warn_about(counts: &GrainCounts) {
    let GrainCounts {
        unknown_parts,
        orphan_results,
        raw_arguments,
        opaque_exchanges,
        dated_by_file,
        messages,
        ..
    } = *counts;
    if unknown_parts + orphan_results + opaque_exchanges > 0 {
        tracing::warn!(
            unknown_parts,
            orphan_results,
            opaque_exchanges,
            "parts of the transcripts aren't understood; they are stored as they are"
        );
    }
    if raw_arguments > 0 {
        tracing::warn!(
            raw_arguments,
            "tool calls whose arguments aren't a JSON object have them as text, under \
             `_raw_arguments` of `input`"
        );
    }
    if dated_by_file > 0 {
        tracing::warn!(
            dated_by_file,
            messages,
            "messages without a time of their own have the time of their file; `time_source` marks \
             them, and no latency is computed from it. They keep it in a longer file at the same \
             place; a copy at another place brings them again"
        );
    }
}

/// Returns the entry of the audit log about a run.
fn audit_details(report: &IngestReport) -> serde_json::Value {
    serde_json::json!({
        "files": report.files,
        "grains_read": report.grains_read,
        "grains_written": report.grains_written,
        "duplicates": report.duplicates,
        "rejected": report.rejected,
        "resolved_rejects": report.resolved_rejects,
        "version": report.version,
    })
}
