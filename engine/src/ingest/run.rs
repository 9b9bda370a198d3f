//! The run as a whole: admission ahead of the batches, commits behind them.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use arrow::array::{AsArray, RecordBatch};
use chrono::Utc;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use gristmill_connectors::source::{DEFAULT_SPOOL_LIMIT, Source, SourceKind, SpoolOptions};
use gristmill_connectors::transcript::grains::GrainCounts;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{RejectRow, SourceOutcome, SourceRow, StateRow};
use gristmill_schemas::container::ContainerLimits;
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Mode};
use gristmill_schemas::sign::{KeyResolver, SelfContained};
use rayon::prelude::*;

use super::admit::{Admission, Again, Door, arrivals};
use super::batch::{Batch, BatchLimits};
use super::claims;
use super::digests::hashed_together;
use super::morsel::{Admitted, Morsels, Next};
use super::plan::{Fates, plan};
use super::prove::{Judgement, Refusal, prove};
use super::proven::ProvenBatch;
use super::report::{IngestReport, OnError};
use super::retry::{REFUSAL, Retry, refusals};
use super::sources::{Listing, Register};
use super::together::arrange;
use super::write::{Run, address_index, write};
use crate::error::{Context, EngineError, Result};
use crate::index::IndexKinds;
use crate::keys::LakeKeys;
use crate::lake::{Change, KnownAddresses, Lake, Ledger, Progress, Taken, transaction_name};
use crate::progress::WorkProgress;
use crate::segment::{AddressIndex, WrittenSegment};

/// What a user can choose.
#[derive(Clone)]
pub struct IngestOptions {
    /// The kind of all sources; detected if not named.
    pub kind: Option<SourceKind>,
    /// What happens to refused input.
    pub on_error: OnError,
    /// Strict readers refuse what isn't canonical, lenient ones mark it.
    pub mode: Mode,
    /// Reads sources of grains again of which something was refused before.
    pub retry_refused: bool,
    /// Reads every source once more, whatever the lake knows of it.
    pub again: bool,
    /// Proves everything and writes nothing.
    pub dry_run: bool,
    /// Threads for proving and writing; 0 for one per core.
    pub threads: usize,
    /// Bytes of memory that the run may use, roughly.
    pub memory: usize,
    /// Bytes of a source at most that is no file and has to be spooled.
    pub max_source: u64,
    /// Who knows the keys of signers.
    pub resolver: Arc<dyn KeyResolver>,
    /// Which sidecars are built with each segment.
    pub indexes: IndexKinds,
}

impl Default for IngestOptions {
    fn default() -> Self {
        IngestOptions {
            kind: None,
            on_error: OnError::default(),
            mode: Mode::default(),
            retry_refused: false,
            again: false,
            dry_run: false,
            threads: 0,
            memory: DEFAULT_MEMORY,
            max_source: DEFAULT_SPOOL_LIMIT,
            resolver: Arc::new(SelfContained),
            indexes: IndexKinds::ALL,
        }
    }
}

/// Memory of a run unless the user says otherwise.
const DEFAULT_MEMORY: usize = 1 << 30;

/// The share of it that a source has which is held in memory because it may not lie open on a disk.
const HELD_SHARE: usize = 4;

/// Grains of a segment at most.
const SEGMENT_GRAINS: usize = 8 * crate::segment::ROW_GROUP_ROWS;

/// Sources that are fetched and admitted ahead of the one that is read.
const AHEAD: usize = 4;

/// How often a commit is put behind those of other writers before the run gives up.
pub(super) const COMMIT_ATTEMPTS: usize = 10;

/// Takes `sources` into `lake`.
///
/// # Errors
/// [`EngineError::Refused`] if the options say to stop at refused input,
/// [`EngineError::Interrupted`], [`EngineError::Conflict`], and whatever the system says. The lake
/// is then as it was at the last commit.
pub async fn ingest(
    lake: &mut Lake,
    sources: Vec<Source>,
    options: &IngestOptions,
    progress: Arc<WorkProgress>,
) -> Result<IngestReport> {
    let started = Instant::now();
    let mut run = Ingest::begin(lake, options, Arc::clone(&progress)).await?;
    let total = sources.iter().filter_map(|source| source.length).sum();
    progress.total_bytes.store(total, Ordering::Relaxed);
    let door = run.door().await?;
    let together = hashed_together(sources.len(), options.threads);
    let arrivals = arrivals(arrange(sources, &door, options.memory).await?, together);
    let mut admissions = stream::iter(arrivals)
        .map(|arrival| door.clone().admit(arrival))
        .buffered(AHEAD / together);
    while let Some(admitted) = admissions.next().await {
        for admission in admitted? {
            run.take(admission).await?;
        }
    }
    let mut report = run.end().await?;
    report.took(started.elapsed());
    Ok(report)
}

/// A run that goes on.
struct Ingest<'l> {
    lake: &'l mut Lake,
    options: IngestOptions,
    progress: Arc<WorkProgress>,
    pool: Arc<rayon::ThreadPool>,
    known: KnownAddresses,
    /// What everything is sealed with, if the lake is encrypted.
    keys: Option<Arc<LakeKeys>>,
    /// Refusals that `rejects` has already.
    told: HashSet<(String, i64)>,
    retry: Retry,
    batch: Batch,
    writing: Option<Writing>,
    limits: BatchLimits,
    now: i64,
    register: Register,
    report: IngestReport,
}

/// What writing a segment yields: the grains for another attempt, the segment if there is anything
/// new, and what was left out.
type Written = (Arc<ProvenBatch>, Option<WrittenSegment>, Vec<Fates>);

/// A batch whose segment is being written.
struct Writing {
    batch: Batch,
    segment: BoxFuture<'static, Result<Written>>,
}

/// A batch whose segment is written and not committed yet.
struct Unsettled {
    batch: Batch,
    written: Written,
}

/// What a commit brought.
struct Committed {
    /// How many grains came in.
    grains: u64,
    /// The version of `grains` that has them.
    version: u64,
}

impl<'l> Ingest<'l> {
    async fn begin(
        lake: &'l mut Lake,
        options: &IngestOptions,
        progress: Arc<WorkProgress>,
    ) -> Result<Ingest<'l>> {
        lake.refresh().await?;
        let known = KnownAddresses::load(lake).await?;
        let keys = lake.keys_to_write()?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.threads)
            .thread_name(|number| format!("ingest-{number}"))
            .build()
            .file("can't start", "threads")?;
        let now = Utc::now().timestamp_micros();
        let register = Register::new(now);
        let report = IngestReport {
            run_id: register.run_id().to_owned(),
            ..IngestReport::default()
        };
        Ok(Ingest {
            lake,
            options: options.clone(),
            progress,
            pool: Arc::new(pool),
            known,
            keys,
            told: HashSet::new(),
            retry: Retry::default(),
            batch: Batch::default(),
            writing: None,
            limits: BatchLimits {
                grains: SEGMENT_GRAINS,
                bytes: (options.memory / 4).clamp(1 << 20, 1 << 30),
            },
            now,
            register,
            report,
        })
    }

    async fn door(&mut self) -> Result<Door> {
        let ledger = Ledger::load(&self.lake.grains).await?;
        let again = self.options.again;
        let (told, retried) = told(self.lake, &ledger, self.options.retry_refused || again).await?;
        self.register.load(self.lake, &ledger).await?;
        let refused = told.iter().map(|(source, _)| source.clone()).collect();
        self.told = told;
        let limits = ContainerLimits {
            region: self.options.memory / 2,
            ..ContainerLimits::default()
        };
        let (kind, threads) = (self.options.kind, self.options.threads);
        let in_memory = self
            .lake
            .is_encrypted()
            .then_some((self.options.memory / HELD_SHARE) as u64);
        let spool = SpoolOptions {
            limit: self.options.max_source,
            in_memory,
        };
        Ok(Door {
            ledger: Arc::new(ledger),
            retried: Arc::new(retried),
            refused: Arc::new(refused),
            again,
            kind,
            limits,
            threads,
            spool,
            now: self.now,
        })
    }

    /// Takes in what was admitted, batch by batch.
    async fn take(&mut self, admission: Admission) -> Result<()> {
        match admission {
            Admission::Known(listing) => {
                self.report.known += 1;
                self.list(listing, SourceOutcome::Known, None).await
            }
            Admission::NotUnderstood { listing, reason } => {
                self.report.skip(&listing.uri, &reason);
                self.list(listing, SourceOutcome::Skipped, Some(reason))
                    .await
            }
            Admission::Unreadable { cause, .. } if self.options.on_error == OnError::Fail => {
                Err(cause.into())
            }
            Admission::Unreadable { cause, listing } => {
                tracing::warn!("{cause}");
                self.report.unreadable_files += 1;
                self.list(listing, SourceOutcome::Unreadable, Some(cause.to_string()))
                    .await
            }
            Admission::Refused {
                reject,
                error,
                listing,
            } => {
                if self.options.on_error == OnError::Fail {
                    return Err(EngineError::Refused {
                        source_uri: reject.source,
                        error,
                    });
                }
                self.report.files += 1;
                self.report.bytes += listing.size;
                self.report.refuse(error.code.name());
                WorkProgress::add(&self.progress.rejected, 1);
                WorkProgress::add(&self.progress.bytes, listing.size);
                self.batch.complete_refused(listing, *reject);
                Ok(())
            }
            Admission::Granted {
                source,
                next,
                again,
            } => {
                match again {
                    Again::No => {}
                    Again::Anew => self.retry.begin(&source.id, false),
                    Again::Known => self.retry.begin(&source.id, true),
                }
                self.report.files += 1;
                self.report.bytes += source.length();
                self.read(Morsels::new(source, next)).await
            }
        }
    }

    /// Lists a source that isn't read.
    async fn list(
        &mut self,
        listing: Listing,
        outcome: SourceOutcome,
        reason: Option<String>,
    ) -> Result<()> {
        WorkProgress::add(&self.progress.bytes, listing.size);
        self.batch
            .listed
            .push(self.register.row(listing, outcome, reason));
        if self.batch.room(self.limits) == 0 {
            self.flush().await?;
        }
        Ok(())
    }

    async fn read(&mut self, mut morsels: Morsels) -> Result<()> {
        let first = morsels.next_ordinal();
        self.refuse_lines(morsels.source())?;
        self.report.transcripts.add(morsels.source().beside.counts);
        loop {
            match morsels.next(self.batch.room(self.limits)) {
                Next::Morsel(morsel) => self.batch.add(morsel),
                Next::Damage {
                    ordinal,
                    offset,
                    error,
                } => {
                    let source = Arc::clone(morsels.source());
                    if self.options.on_error == OnError::Fail {
                        return Err(EngineError::Refused {
                            source_uri: source.uri.clone(),
                            error,
                        });
                    }
                    self.report.refuse(error.code.name());
                    WorkProgress::add(&self.progress.rejected, 1);
                    self.batch
                        .rejects
                        .push(source.damage(ordinal, offset, &error, self.now));
                }
                Next::End => break,
            }
            if self.batch.room(self.limits) == 0 {
                self.flush().await?;
            }
        }
        let keeps_entry = self.retry.keeps(&morsels.source().id);
        self.batch
            .complete(morsels.source(), first, keeps_entry, self.now);
        Ok(())
    }

    /// What was refused of a transcript before there were grains.
    fn refuse_lines(&mut self, source: &Admitted) -> Result<()> {
        for refused in &source.beside.refused {
            if self.options.on_error == OnError::Fail {
                let error = GrainError::new(ErrorCode::Corrupt, refused.message.clone());
                return Err(EngineError::Refused {
                    source_uri: source.uri.clone(),
                    error,
                });
            }
            self.report.refuse(&refused.error_code);
            self.batch.rejects.push(refused.clone());
        }
        WorkProgress::add(&self.progress.rejected, source.beside.refused.len() as u64);
        Ok(())
    }

    async fn end(mut self) -> Result<IngestReport> {
        self.flush().await?;
        let last = self.written().await?;
        self.settle(last).await?;
        let GrainCounts {
            unknown_parts,
            orphan_results,
            raw_arguments,
            opaque_exchanges,
            ..
        } = self.report.transcripts;
        if unknown_parts + orphan_results + raw_arguments + opaque_exchanges > 0 {
            tracing::warn!(
                unknown_parts,
                orphan_results,
                raw_arguments,
                opaque_exchanges,
                "not all of the transcripts is understood; what isn't is kept as it is"
            );
        }
        let GrainCounts {
            dated_by_file,
            messages,
            ..
        } = self.report.transcripts;
        if dated_by_file > 0 {
            tracing::warn!(
                dated_by_file,
                messages,
                "messages without a time of their own have that of their file; `time_source` marks \
                 them, and no latency is computed from it"
            );
        }
        self.report.version = self.lake.grains.version();
        if !self.options.dry_run && self.report.files > 0 {
            self.report.resolved_rejects =
                std::mem::take(&mut self.retry).resolve(self.lake).await?;
            let details = serde_json::json!({
                "files": self.report.files,
                "grains_read": self.report.grains_read,
                "grains_written": self.report.grains_written,
                "duplicates": self.report.duplicates,
                "rejected": self.report.rejected,
                "resolved_rejects": self.report.resolved_rejects,
                "version": self.report.version,
            });
            self.lake.record("ingest", details).await?;
        }
        Ok(self.report)
    }

    /// Proves the batch and begins to write its segment, while the batch before it is written and
    /// committed. What that brings is known before it is committed; if another writer came in
    /// between, the segment is begun anew.
    async fn flush(&mut self) -> Result<()> {
        if self.progress.is_stopped() {
            return Err(EngineError::Interrupted);
        }
        let mut batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        let morsels = std::mem::take(&mut batch.morsels);
        let proving = self.work().start(move |work| Ok(work.prove(morsels)));
        let before = self.written().await?;
        let coming = before.as_ref().map(|before| Arc::clone(&before.written.0));
        let work = Work {
            coming,
            ..self.work()
        };
        let begin = async move {
            let proven = Arc::new(proving.await?);
            let (dry_run, on_error) = (work.options.dry_run, work.options.on_error);
            let ends_here = dry_run || on_error == OnError::Fail && proven.has_rejects();
            let grains = Arc::clone(&proven);
            let segment = (!ends_here).then(|| work.start(move |work| work.write(grains)).boxed());
            Ok::<_, EngineError>((proven, segment))
        };
        let (overtaken, begun) = tokio::join!(self.settle(before), begin);
        let (overtaken, (proven, segment)) = (overtaken?, begun?);
        let refusals = self.account(&proven)?;
        batch.rejects.extend(refusals);
        let Some(segment) = segment else {
            self.judge_claims(&mut batch, &proven).await?;
            return self.pretend(proven).await;
        };
        let grains = Arc::clone(&proven);
        let segment = if overtaken {
            self.work().start(move |work| work.write(grains)).boxed()
        } else {
            segment
        };
        // That takes one core, while the others write.
        self.judge_claims(&mut batch, &proven).await?;
        self.writing = Some(Writing { batch, segment });
        Ok(())
    }

    /// Waits for the segment that is being written, if there is one.
    async fn written(&mut self) -> Result<Option<Unsettled>> {
        let Some(Writing { batch, segment }) = self.writing.take() else {
            return Ok(None);
        };
        Ok(Some(Unsettled {
            batch,
            written: segment.await?,
        }))
    }

    /// Commits a batch whose segment is written, if there is one. True if other writers came in
    /// between, so that what was known before isn't all that there is.
    async fn settle(&mut self, unsettled: Option<Unsettled>) -> Result<bool> {
        let Some(Unsettled { batch, mut written }) = unsettled else {
            return Ok(false);
        };
        for attempt in 0..COMMIT_ATTEMPTS {
            let (proven, segment, left_out) = written;
            let (late, early) = self.late_closings(&batch, &proven);
            let states = States {
                early: &early,
                held: &held_by(&late),
            };
            match self
                .commit(&batch, (&proven, &left_out), segment, states)
                .await
            {
                // Another writer was faster: what it brought in must not come in twice.
                Err(EngineError::Conflict(_)) => {
                    self.look_again().await?;
                    written = self.work().start(move |work| work.write(proven)).await?;
                }
                Err(error) => return Err(error),
                Ok(Committed { grains, version }) => {
                    self.report.leave_out(&left_out);
                    self.report.grains_written += grains;
                    WorkProgress::add(&self.progress.committed, grains);
                    let last = self.commit_late(&batch, &late, version).await?;
                    // One that came right behind is seen by the handle already, and would be no
                    // conflict any more.
                    let followed = self.lake.grains.version() > last;
                    if followed {
                        self.look_again().await?;
                    }
                    return Ok(attempt > 0 || followed);
                }
            }
        }
        Err(EngineError::Conflict(format!(
            "other writers were faster {COMMIT_ATTEMPTS} times"
        )))
    }

    /// Learns what other writers brought.
    async fn look_again(&mut self) -> Result<()> {
        self.lake.refresh().await?;
        self.known.extend(self.lake).await?;
        Ok(())
    }

    /// Leaves of what the manifests claim what the lifecycle gate permits.
    async fn judge_claims(&mut self, batch: &mut Batch, proven: &ProvenBatch) -> Result<()> {
        let claims = std::mem::take(&mut batch.states)
            .into_iter()
            .filter_map(|claim| self.known.permitted(claim));
        let resolver = &*self.options.resolver;
        let judged = claims::judge(
            self.lake,
            &self.known,
            claims.collect(),
            proven,
            resolver,
            self.now,
        )
        .await?;
        batch.states = judged.permitted;
        for (claim, error) in judged.denied {
            let id = claim.source_id.as_deref().unwrap_or_default();
            let uri = batch.uris.get(id).map_or(id, String::as_str);
            let refused = claims::refused(&claim, &error, uri, self.now);
            if self.options.on_error == OnError::Fail {
                return Err(EngineError::Refused {
                    source_uri: uri.to_owned(),
                    error,
                });
            }
            self.report.refuse(error.code.name());
            WorkProgress::add(&self.progress.rejected, 1);
            batch.rejects.push(refused);
        }
        Ok(())
    }

    /// Counts what was found, and collects what was refused.
    fn account(&mut self, proven: &ProvenBatch) -> Result<Vec<RejectRow>> {
        let mut refused = Vec::new();
        for morsel in proven.morsels() {
            self.report.grains_read += morsel.morsel.len() as u64;
            for (mark, count) in &morsel.marks {
                *self.report.marks.entry(mark.name().to_owned()).or_default() += count;
            }
            for Refusal {
                error,
                is_readable,
                row,
            } in &morsel.rejects
            {
                if self.options.on_error == OnError::Fail {
                    return Err(EngineError::Refused {
                        source_uri: row.source.clone(),
                        error: error.clone(),
                    });
                }
                self.report.refuse(error.code.name());
                self.report.readable_rejects += u64::from(*is_readable);
                refused.push(row.clone());
            }
        }
        WorkProgress::add(&self.progress.rejected, refused.len() as u64);
        Ok(refused)
    }

    /// A dry run remembers what it would have written.
    async fn pretend(&mut self, proven: Arc<ProvenBatch>) -> Result<()> {
        let (index, rows, left_out) = self
            .work()
            .start(move |work| {
                let plan = plan(&proven, &work.known, None);
                let index = AddressIndex::open(address_index(proven.morsels(), &plan).into());
                Ok((
                    index.file("can't index", "addresses")?,
                    plan.order.len(),
                    plan.fates,
                ))
            })
            .await?;
        self.known.pretend(index);
        self.report.leave_out(&left_out);
        self.report.grains_written += rows as u64;
        Ok(())
    }

    /// What a job needs to know now.
    fn work(&self) -> Work {
        Work {
            pool: Arc::clone(&self.pool),
            location: self.lake.location().clone(),
            options: self.options.clone(),
            progress: Arc::clone(&self.progress),
            known: self.known.clone(),
            coming: None,
            keys: self.keys.clone(),
            now: self.now,
        }
    }

    /// The claims of `batch` that close a grain which the lake has by one that comes with the
    /// batch, and the others. If the former were committed with the other state, ahead of `grains`,
    /// a kill in between would leave a grain closed by a successor that isn't there.
    fn late_closings<'b>(
        &self,
        batch: &'b Batch,
        proven: &ProvenBatch,
    ) -> (Vec<&'b StateRow>, Vec<&'b StateRow>) {
        let closes_ahead = |row: &&StateRow| {
            let old = || {
                row.content_address
                    .parse()
                    .is_ok_and(|old| self.known.find(&old).is_some())
            };
            let comes =
                |new: &ContentAddress| self.known.find(new).is_none() && proven.contains(new);
            claims::successor_of(row).is_some_and(|new| comes(&new)) && old()
        };
        batch.states.iter().partition(closes_ahead)
    }

    /// Commits `late` claims, whose successors are in `grains` since `version`, and then that their
    /// sources are complete: a run that is killed before that reads the ends of these sources
    /// again, and the claims with them. Returns the version of `grains` after it.
    async fn commit_late(
        &mut self,
        batch: &Batch,
        late: &[&StateRow],
        version: u64,
    ) -> Result<u64> {
        if late.is_empty() {
            return Ok(version);
        }
        self.append_states(late).await?;
        let held = held_by(late);
        let reached = batch
            .progress
            .iter()
            .filter(|reached| held.contains(reached.source_id.as_str()));
        let reached = reached.filter(|reached| !self.retry.keeps(&reached.source_id));
        let complete = |kind| {
            Taken {
                progress: Progress::Complete,
                kind,
            }
            .to_version()
        };
        let progress = reached
            .map(|reached| (transaction_name(&reached.source_id), complete(reached.kind)))
            .collect();
        let change = Change {
            progress,
            ..Change::default()
        };
        let committed = self
            .lake
            .grains
            .commit(change, "ingest", COMMIT_ATTEMPTS)
            .await?;
        // Whatever came in between was brought by others.
        Ok(if committed == version + 1 {
            committed
        } else {
            version
        })
    }

    /// Commits a batch: rejects, the early states and sources first, `grains` last. `proven` are
    /// its grains, with what becomes of those of each morsel.
    async fn commit(
        &mut self,
        batch: &Batch,
        proven: (&ProvenBatch, &[Fates]),
        segment: Option<WrittenSegment>,
        states: States<'_>,
    ) -> Result<Committed> {
        // The segment's files come to the disk meanwhile; nobody sees them before the last commit.
        let publishing = segment.map(|segment| {
            (
                segment.id.clone(),
                tokio::spawn(self.lake.publish_segment_files(segment)),
            )
        });
        let rejects: Vec<_> = batch
            .rejects
            .iter()
            .filter(|reject| {
                !self
                    .told
                    .contains(&(reject.source_id.clone(), reject.ordinal))
            })
            .filter(|reject| !self.known.is_erased_part(&reject.bytes))
            // A stricter reader than the one before doesn't undo what that took in.
            .filter(|reject| {
                !(self.retry.has(&reject.source_id) && self.known.contains_part(&reject.bytes))
            })
            .cloned()
            .collect();
        self.append_rejects(&rejects).await?;
        self.append_states(states.early).await?;
        let account = self.register.account(proven, batch, states.held);
        let rows: Vec<SourceRow> = batch.listed.iter().chain(&account.rows).cloned().collect();
        self.register.append(self.lake, &rows).await?;
        let mut change = Change {
            changes_rows: true,
            ..Change::default()
        };
        // A source that is read once more stays known: if the run is killed, it is as if there
        // hadn't been one.
        let taken = account.taken.iter().filter(|(id, _)| !self.retry.keeps(id));
        change.progress = taken
            .map(|(id, taken)| (transaction_name(id), taken.to_version()))
            .collect();
        let mut committed = Committed {
            grains: 0,
            version: self.lake.grains.version(),
        };
        let mut index = None;
        if let Some((id, published)) = publishing {
            let (file, addresses) = published.await.file("can't finish", "a batch")??;
            committed.grains = file.rows;
            change.added.push(file);
            index = Some((id, addresses));
        }
        if !change.added.is_empty() || !change.progress.is_empty() {
            committed.version = self.lake.grains.commit(change, "ingest", 0).await?;
        }
        if let Some((id, index)) = index {
            self.known.add(id, index);
        }
        batch
            .rejects
            .iter()
            .for_each(|reject| self.retry.note(reject));
        self.register.committed(account, &batch.ended);
        Ok(committed)
    }

    async fn append_rejects(&mut self, rows: &[RejectRow]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let file = self.lake.write_rejects(rows).await?;
        let change = Change {
            added: vec![file],
            changes_rows: true,
            ..Change::default()
        };
        self.lake
            .rejects
            .commit(change, "ingest", COMMIT_ATTEMPTS)
            .await?;
        // If the commit to `grains` must be repeated, these are told.
        self.told
            .extend(rows.iter().map(|row| (row.source_id.clone(), row.ordinal)));
        Ok(())
    }

    async fn append_states(&mut self, rows: &[&StateRow]) -> Result<()> {
        let fresh: Vec<_> = new_states(self.lake, rows)
            .await?
            .into_iter()
            .filter_map(|row| self.known.permitted(row))
            .collect();
        if fresh.is_empty() {
            return Ok(());
        }
        let file = self.lake.write_events(&fresh).await?;
        let change = Change {
            added: vec![file],
            changes_rows: true,
            ..Change::default()
        };
        self.lake
            .state
            .commit(change, "ingest", COMMIT_ATTEMPTS)
            .await?;
        Ok(())
    }
}

/// The lifecycle state of a batch that is committed ahead of its grains, and the sources of what is
/// committed after them: these aren't complete before that.
#[derive(Clone, Copy)]
struct States<'s> {
    early: &'s [&'s StateRow],
    held: &'s BTreeSet<&'s str>,
}

/// The sources of `late` claims.
fn held_by<'r>(late: &[&'r StateRow]) -> BTreeSet<&'r str> {
    late.iter()
        .filter_map(|row| row.source_id.as_deref())
        .collect()
}

/// What a job on the run's threads needs.
struct Work {
    pool: Arc<rayon::ThreadPool>,
    location: crate::lake::LakeLocation,
    options: IngestOptions,
    progress: Arc<WorkProgress>,
    known: KnownAddresses,
    /// The batch before, if it isn't committed yet.
    coming: Option<Arc<ProvenBatch>>,
    keys: Option<Arc<LakeKeys>>,
    now: i64,
}

impl Work {
    /// Starts `job` on the run's threads; what is answered waits for its end. Nothing that is
    /// fetched meanwhile is held up.
    fn start<T: Send + 'static>(
        self,
        job: impl FnOnce(Work) -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + Send + 'static {
        let pool = Arc::clone(&self.pool);
        let job = tokio::task::spawn_blocking(move || pool.install(|| job(self)));
        async { job.await.file("can't finish", "a batch")? }
    }

    fn prove(&self, morsels: Vec<super::morsel::Morsel>) -> ProvenBatch {
        let judgement = Judgement {
            mode: self.options.mode,
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
            resolver: &*self.options.resolver,
            now: self.now,
            keys: self.keys.as_deref(),
        };
        let proven = morsels
            .into_par_iter()
            .map(|morsel| {
                let (grains, bytes) = (morsel.len() as u64, morsel.bytes as u64);
                let proven = prove(morsel, judgement);
                WorkProgress::add(&self.progress.grains, grains);
                WorkProgress::add(&self.progress.bytes, bytes);
                proven
            })
            .collect();
        ProvenBatch::of(proven)
    }

    /// Plans and writes the segment, if there is anything new; gives the grains back for another
    /// attempt.
    fn write(mut self, proven: Arc<ProvenBatch>) -> Result<Written> {
        // After that it holds memory for nothing.
        let coming = self.coming.take();
        let plan = plan(&proven, &self.known, coming.as_deref());
        self.known.release();
        drop(coming);
        if plan.order.is_empty() {
            return Ok((proven, None, plan.fates));
        }
        let run = Run {
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
            now: self.now,
            keys: self.keys.as_deref(),
        };
        let segment = write(
            &self.location,
            proven.morsels(),
            &plan,
            run,
            self.options.indexes,
        )?;
        Ok((proven, Some(segment), plan.fates))
    }
}

/// The refusals in `rejects` that may come up again: those of sources that aren't complete, which a
/// run told that was killed between its commits, and, if sources are retried, all the others, with
/// their sources.
async fn told(
    lake: &Lake,
    ledger: &Ledger,
    retried: bool,
) -> Result<(HashSet<(String, i64)>, HashSet<String>)> {
    let (mut told, mut sources) = (HashSet::new(), HashSet::new());
    for batch in lake.rejects.read_columns(&REFUSAL).await? {
        for (source, ordinal) in refusals(&batch) {
            let is_complete = ledger.progress(source) == Some(Progress::Complete);
            if is_complete && retried && !sources.contains(source) {
                sources.insert(source.to_owned());
            }
            if !is_complete || retried {
                told.insert((source.to_owned(), ordinal));
            }
        }
    }
    Ok((told, sources))
}

/// The rows that `state` doesn't have from the same source.
async fn new_states(lake: &Lake, rows: &[&StateRow]) -> Result<Vec<StateRow>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    // What other sources said isn't held: `state` may be larger than memory.
    let sources: HashSet<&str> = rows
        .iter()
        .map(|row| row.source_id.as_deref().unwrap_or_default())
        .collect();
    let mut known = HashSet::new();
    let note = |batch: RecordBatch| {
        let [addresses, events, ids] = [0, 1, 2].map(|at| batch.column(at).as_string::<i32>());
        for row in (0..batch.num_rows()).filter(|row| sources.contains(ids.value(*row))) {
            known.insert([addresses, events, ids].map(|column| column.value(row).to_owned()));
        }
    };
    lake.state
        .each_batch(&["content_address", "event", "source_id"], note)
        .await?;
    let is_new = |row: &&&StateRow| {
        let source = row.source_id.clone().unwrap_or_default();
        !known.contains(&[
            row.content_address.clone(),
            row.event.name().to_owned(),
            source,
        ])
    };
    Ok(rows
        .iter()
        .filter(is_new)
        .map(|row| (*row).clone())
        .collect())
}
