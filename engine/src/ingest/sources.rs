//! The rows of `sources`: the outcome of each source, and when it counts as ingested.
//!
//! A row is committed before the grains of the batch in which its source ends. If the process is
//! killed in between, the row is wrong: the next run that ingests the source replaces it. A source
//! without grains but with rejects isn't complete: it can be ingested as another kind or by a later
//! version.

use std::collections::{BTreeSet, HashMap, HashSet};

use gristmill_connectors::source::SourceKind;
use gristmill_schemas::columns::{SourceOutcome, SourceRow};
use serde::{Deserialize, Serialize};

use super::batch::{IngestBatch, SourceProgress};
use super::morsel::AdmittedSource;
use super::plan::{OutcomeCounts, SourceOutcomes};
use super::run::{COMMIT_ATTEMPTS, overtaken};
use super::stale_sources::{CLAIM, DanglingRows, StaleRows, UncommittedRows, change_of, claimed};
use crate::error::{EngineError, Result};
use crate::lake::{Lake, Ledger, LedgerEntry, ReadPosition, text_of};

/// What is known of a source, whether it is ingested or not.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SourceInfo {
    /// Where it was read from.
    pub(crate) uri: String,
    /// BLAKE3 of its bytes, in hex, if they could be read.
    pub(crate) id: Option<String>,
    /// The kind that it is read as, if it is known.
    pub(crate) kind: Option<SourceKind>,
    /// Its size in bytes, or 0 if that isn't known.
    pub(crate) size: u64,
}

impl SourceInfo {
    /// Returns the data of a file of which only the name matters.
    pub(crate) fn of_file(uri: String) -> SourceInfo {
        SourceInfo {
            uri,
            id: None,
            kind: None,
            size: 0,
        }
    }
}

/// A source that ends in a batch.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FinishedSource {
    info: SourceInfo,
    first: u64,
    /// True if its reader found messages in it, even if another source brings their grains.
    has_messages: bool,
    /// True if its entry in the ledger isn't changed.
    pub(super) keeps_entry: bool,
    /// Why it was rejected as a whole, if it was.
    reason: Option<String>,
}

impl FinishedSource {
    /// Returns the end of `source`, which was read from its grain `first` on.
    pub(super) fn of(source: &AdmittedSource, first: u64, keeps_entry: bool) -> FinishedSource {
        let info = source.info.clone();
        FinishedSource {
            info,
            first,
            has_messages: source.has_messages,
            keeps_entry,
            reason: None,
        }
    }

    /// Returns the end of a source that was rejected as a whole.
    pub(super) fn rejected(info: SourceInfo, reason: String) -> FinishedSource {
        FinishedSource {
            info,
            first: 0,
            has_messages: false,
            keeps_entry: true,
            reason: Some(reason),
        }
    }

    fn id(&self) -> &str {
        self.info.id.as_deref().unwrap_or_default()
    }
}

/// The grains and rejects of a source so far.
#[derive(Debug, Clone, Copy, Default)]
struct SourceCounts {
    outcomes: OutcomeCounts,
    rejected: u64,
}

impl SourceCounts {
    fn counts_as_ingested(&self, ended: &FinishedSource) -> bool {
        let found = self.outcomes.new + self.outcomes.duplicates + self.outcomes.erased;
        ended.has_messages || ended.first > 0 || found > 0 || self.rejected == 0
    }
}

/// What a batch changes for its sources.
pub(super) struct SourceUpdates {
    /// The rows for `sources`.
    pub(super) rows: Vec<SourceRow>,
    /// The new entries of the ledger.
    pub(super) new_entries: Vec<(String, LedgerEntry)>,
    /// The counts of each source, by where it was read from.
    counts: HashMap<String, SourceCounts>,
}

/// The sources of a run.
#[derive(Debug)]
pub(super) struct SourceRegister {
    run_id: String,
    /// When the run began, in microseconds since 1970.
    now: i64,
    /// The counts of sources that haven't ended, by where each was read from: two may have the same
    /// bytes.
    counts: HashMap<String, SourceCounts>,
    dangling: DanglingRows,
    uncommitted: Option<UncommittedRows>,
}

/// Returns true if the grains of `source` as one of `kind` weren't all committed.
fn is_incomplete(ledger: &Ledger, source: &str, kind: &str) -> bool {
    let taken = ledger.entry(source);
    let of_this_kind = taken
        .and_then(|taken| taken.kind)
        .is_none_or(|taken| taken.name() == kind);
    of_this_kind && taken.is_none_or(|taken| taken.progress != ReadPosition::Complete)
}

impl SourceRegister {
    /// Returns the register of a run that begins `now`.
    pub(super) fn new(now: i64) -> SourceRegister {
        let run_id = ulid::Ulid::generate().to_string().to_ascii_lowercase();
        SourceRegister::of_run(run_id, now)
    }

    /// Returns the register of the run `run_id`, which began at `now`.
    pub(super) fn of_run(run_id: String, now: i64) -> SourceRegister {
        SourceRegister {
            run_id,
            now,
            counts: HashMap::new(),
            dangling: DanglingRows::new(),
            uncommitted: None,
        }
    }

    /// Returns the name of the run.
    pub(super) fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Finds rows of runs that were killed before the grains of their sources were committed.
    ///
    /// # Errors
    /// [`EngineError::File`], [`EngineError::Delta`].
    pub(super) async fn load(&mut self, lake: &Lake, ledger: &Ledger) -> Result<()> {
        let Some(sources) = &lake.sources else {
            return Ok(());
        };
        for batch in sources.read_columns(&CLAIM).await? {
            for row in 0..batch.num_rows() {
                let text = |name| text_of(&batch, name, row).unwrap_or_default();
                let Some(source) = claimed(&batch, row) else {
                    continue;
                };
                if is_incomplete(ledger, source, text("kind")) {
                    self.dangling
                        .insert((text("run_id").to_owned(), source.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Returns the row of a source that isn't read.
    pub(super) fn row(
        &self,
        info: SourceInfo,
        outcome: SourceOutcome,
        reason: Option<String>,
    ) -> SourceRow {
        self.counted(info, 0, SourceCounts::default(), outcome, reason)
    }

    fn counted(
        &self,
        info: SourceInfo,
        first: u64,
        tally: SourceCounts,
        outcome: SourceOutcome,
        reason: Option<String>,
    ) -> SourceRow {
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        SourceRow {
            run_id: self.run_id.clone(),
            source_id: info.id,
            source: Some(info.uri),
            kind: info.kind.map(|kind| kind.name().to_owned()),
            size: count(info.size),
            outcome,
            first_ordinal: count(first),
            grains: count(tally.outcomes.new),
            duplicates: count(tally.outcomes.duplicates),
            erased: count(tally.outcomes.erased),
            rejected: count(tally.rejected),
            reason,
            at: self.now,
        }
    }

    /// Returns what `batch` changes for its sources, whose grains have the `outcomes`. Sources that
    /// are `held` aren't complete yet, because some of their state is committed later. The register
    /// isn't changed before [`SourceRegister::committed`].
    pub(super) fn updates(
        &self,
        outcomes: &[SourceOutcomes],
        batch: &IngestBatch,
        held: &BTreeSet<&str>,
    ) -> SourceUpdates {
        let counts = self.count(outcomes, batch);
        let counts_of =
            |ended: &FinishedSource| counts.get(&ended.info.uri).copied().unwrap_or_default();
        let rows = batch
            .ended
            .iter()
            .map(|ended| self.ended_row(ended, counts_of(ended)))
            .collect();
        let ends: HashMap<&str, &FinishedSource> = batch
            .ended
            .iter()
            .map(|ended| (ended.id(), ended))
            .collect();
        let position_of = |reached: &SourceProgress| {
            let next = reached.next.map(ReadPosition::Next);
            match ends.get(reached.source_id.as_str()) {
                None => next,
                Some(ended) if ended.keeps_entry => None,
                Some(ended) if !counts_of(ended).counts_as_ingested(ended) => {
                    self.reset_position(ended)
                }
                Some(_) if held.contains(reached.source_id.as_str()) => next,
                Some(_) => Some(ReadPosition::Complete),
            }
        };
        let taken = batch.progress.iter().filter_map(|reached| {
            let entry = LedgerEntry {
                progress: position_of(reached)?,
                kind: reached.kind,
            };
            Some((reached.source_id.clone(), entry))
        });
        SourceUpdates {
            rows,
            new_entries: taken.collect(),
            counts,
        }
    }

    /// Returns the position of a source that isn't complete: the progress that an earlier batch
    /// recorded no longer counts.
    fn reset_position(&self, ended: &FinishedSource) -> Option<ReadPosition> {
        self.counts
            .contains_key(&ended.info.uri)
            .then_some(ReadPosition::Next(0))
    }

    /// Returns the counts of the sources of `batch`, including those of earlier batches.
    fn count(
        &self,
        outcomes: &[SourceOutcomes],
        batch: &IngestBatch,
    ) -> HashMap<String, SourceCounts> {
        let mut counts: HashMap<String, SourceCounts> = HashMap::new();
        let mut add = |uri: &str, add: &dyn Fn(&mut SourceCounts)| match counts.get_mut(uri) {
            Some(counts) => add(counts),
            None => {
                let mut fresh = self.counts.get(uri).copied().unwrap_or_default();
                add(&mut fresh);
                counts.insert(uri.to_owned(), fresh);
            }
        };
        for (uri, outcomes) in outcomes {
            add(uri, &|counts| counts.outcomes.add(*outcomes));
        }
        for reject in &batch.rejects {
            add(&reject.source, &|counts| counts.rejected += 1);
        }
        for ended in &batch.ended {
            add(&ended.info.uri, &|_| ());
        }
        counts
    }

    fn ended_row(&self, ended: &FinishedSource, tally: SourceCounts) -> SourceRow {
        let (outcome, reason) = match tally.counts_as_ingested(ended) && ended.reason.is_none() {
            true => (SourceOutcome::Ingested, None),
            false => {
                let reason = ended.reason.clone();
                let refused = || {
                    format!(
                        "no grain of it could be ingested; its {} rejects are in `rejects`",
                        tally.rejected
                    )
                };
                (
                    SourceOutcome::Rejected,
                    Some(reason.unwrap_or_else(refused)),
                )
            }
        };
        self.counted(ended.info.clone(), ended.first, tally, outcome, reason)
    }

    /// Commits `rows` to `sources`, and removes those that they replace, and those of the batch
    /// before if its grains weren't committed.
    ///
    /// # Errors
    /// [`EngineError::File`], [`EngineError::Delta`], [`EngineError::Conflict`].
    pub(super) async fn append(&mut self, lake: &mut Lake, rows: &[SourceRow]) -> Result<()> {
        if rows.is_empty() && self.uncommitted.is_none() {
            return Ok(());
        }
        let ids: HashSet<&str> = rows
            .iter()
            .filter_map(|row| row.source_id.as_deref())
            .collect();
        let replaced: DanglingRows = self
            .dangling
            .iter()
            .filter(|(_, source)| ids.contains(source.as_str()))
            .cloned()
            .collect();
        let uncommitted = self.uncommitted.take();
        for _ in 0..COMMIT_ATTEMPTS {
            // A commit that fails removes its files, so each attempt writes them.
            let file = match rows.is_empty() {
                true => None,
                false => Some(lake.write_sources(rows).await?),
            };
            let stale = StaleRows::new(&self.run_id, &replaced);
            let change = change_of(lake, file.as_ref(), uncommitted.as_ref(), stale).await?;
            if change.added.is_empty() && change.removed.is_empty() {
                return Ok(());
            }
            let retries = match change.removed.is_empty() {
                true => COMMIT_ATTEMPTS,
                false => 0,
            };
            let sources = lake.sources_to_write().await?;
            match sources.commit(change, "ingest", retries).await {
                Err(EngineError::Conflict(_)) => sources.refresh().await?,
                Err(error) => return Err(error),
                Ok(_) => {
                    self.dangling.retain(|name| !replaced.contains(name));
                    self.uncommitted = file.map(|file| UncommittedRows::new(file, rows));
                    return Ok(());
                }
            }
        }
        Err(overtaken())
    }

    /// Records that the batch of `updates` was committed.
    pub(super) fn committed(&mut self, updates: SourceUpdates, ended: &[FinishedSource]) {
        self.uncommitted = None;
        self.counts.extend(updates.counts);
        ended
            .iter()
            .for_each(|ended| _ = self.counts.remove(&ended.info.uri));
    }
}
