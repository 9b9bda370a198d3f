//! What becomes of each source of a run: the rows of `sources`, and when a source counts as taken
//! in.
//!
//! A row is committed before the grains of the batch in which its source ends. If the process is
//! killed in between, the row claims what isn't so: the next run that takes the source in replaces
//! it. A source that brings nothing although something of it was refused isn't taken in: it stays
//! open, for another kind or a later version.

use std::collections::{BTreeSet, HashMap, HashSet};

use gristmill_connectors::source::SourceKind;
use gristmill_schemas::columns::{SourceOutcome, SourceRow};

use super::batch::{Batch, SourceProgress};
use super::morsel::AdmittedSource;
use super::plan::OutcomeCounts;
use super::proven_batch::ProvenBatch;
use super::run::COMMIT_ATTEMPTS;
use crate::error::{Context, EngineError, Result};
use crate::lake::{
    Change, DataFile, Lake, Ledger, Progress, Taken, drop_rows, edit_file, read_file, text_of,
};

/// What is known of a source whether it is taken in or not.
#[derive(Debug, Clone)]
pub(crate) struct SourceInfo {
    /// Where it was read from.
    pub(crate) uri: String,
    /// BLAKE3 of its bytes, in hex, if they could be read.
    pub(crate) id: Option<String>,
    /// The kind that it is read as, if one is known.
    pub(crate) kind: Option<SourceKind>,
    /// Bytes, as far as they are known.
    pub(crate) size: u64,
}

impl SourceInfo {
    /// That of a file of which nothing but its name matters.
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
#[derive(Debug)]
pub(super) struct FinishedSource {
    info: SourceInfo,
    first: u64,
    /// Its reader has_messages it, although another source may have brought its grains.
    has_messages: bool,
    /// Its entry in the ledger stays as it is.
    pub(super) keeps_entry: bool,
    /// Why it as a whole is refused, if it is.
    reason: Option<String>,
}

impl FinishedSource {
    /// The end of `source`, which was read from its grain `first` on.
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

    /// The end of a source that as a whole is refused.
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

/// Grains and reject_keys of a source so far.
#[derive(Debug, Clone, Copy, Default)]
struct SourceCounts {
    outcomes: OutcomeCounts,
    rejected: u64,
}

impl SourceCounts {
    fn is_taken(&self, ended: &FinishedSource) -> bool {
        let found = self.outcomes.new + self.outcomes.duplicates + self.outcomes.erased;
        ended.has_messages || ended.first > 0 || found > 0 || self.rejected == 0
    }
}

/// What a batch means for its sources.
pub(super) struct SourceUpdates {
    /// The rows for `sources`.
    pub(super) rows: Vec<SourceRow>,
    /// How far each source is read then.
    pub(super) taken: Vec<(String, Taken)>,
    /// By where each source was read from.
    tallies: HashMap<String, SourceCounts>,
}

/// The names of rows that claim what the ledger doesn't: run and source.
type DanglingRows = HashSet<(String, String)>;

/// The sources of a run.
#[derive(Debug)]
pub(super) struct SourceRegister {
    run_id: String,
    /// When the run began, in microseconds since 1970.
    now: i64,
    /// Of sources that were begun and haven't ended, by where each was read from: two may have the
    /// same bytes.
    tallies: HashMap<String, SourceCounts>,
    dangling: DanglingRows,
    /// The file of rows whose grains another writer's commit kept from being committed.
    withdrawn: Option<DataFile>,
}

impl SourceRegister {
    /// The register of a run that begins `now`.
    pub(super) fn new(now: i64) -> SourceRegister {
        SourceRegister {
            run_id: ulid::Ulid::generate().to_string().to_ascii_lowercase(),
            now,
            tallies: HashMap::new(),
            dangling: DanglingRows::new(),
            withdrawn: None,
        }
    }

    /// The name of the run.
    pub(super) fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Looks for rows of runs that were killed before the grains of their sources were committed.
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
                let taken = ledger.taken(source);
                let of_this_kind = taken
                    .and_then(|taken| taken.kind)
                    .is_none_or(|kind| kind.name() == text("kind"));
                if of_this_kind && taken.is_none_or(|taken| taken.progress != Progress::Complete) {
                    self.dangling
                        .insert((text("run_id").to_owned(), source.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// The row of a source that isn't read.
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

    /// What `batch` means for its sources: `outcomes` are those of the grains of each of its morsels.
    /// Sources that are `held` aren't complete yet, because some of their state is committed later.
    /// Nothing is kept before [`SourceRegister::committed`].
    pub(super) fn updates(
        &self,
        (proven, outcomes): (&ProvenBatch, &[OutcomeCounts]),
        batch: &Batch,
        held: &BTreeSet<&str>,
    ) -> SourceUpdates {
        let mut tallies: HashMap<String, SourceCounts> = HashMap::new();
        let mut tally = |uri: &str, add: &dyn Fn(&mut SourceCounts)| match tallies.get_mut(uri) {
            Some(tally) => add(tally),
            None => {
                let mut tally = self.tallies.get(uri).copied().unwrap_or_default();
                add(&mut tally);
                tallies.insert(uri.to_owned(), tally);
            }
        };
        for (morsel, outcomes) in proven.morsels().iter().zip(outcomes) {
            tally(&morsel.morsel.source.uri, &|tally| {
                tally.outcomes.add(*outcomes)
            });
        }
        batch
            .rejects
            .iter()
            .for_each(|reject| tally(&reject.source, &|tally| tally.rejected += 1));
        batch
            .ended
            .iter()
            .for_each(|ended| tally(&ended.info.uri, &|_| ()));
        let of = |ended: &FinishedSource| tallies.get(&ended.info.uri).copied().unwrap_or_default();
        let rows = batch
            .ended
            .iter()
            .map(|ended| self.ended_row(ended, of(ended)))
            .collect();
        let ends: HashMap<&str, &FinishedSource> = batch
            .ended
            .iter()
            .map(|ended| (ended.id(), ended))
            .collect();
        let progress_of = |reached: &SourceProgress| {
            let next = reached.next.map(Progress::Next);
            match ends.get(reached.source_id.as_str()) {
                None => next,
                Some(ended) if ended.keeps_entry => None,
                Some(ended) if of(ended).is_taken(ended) => {
                    if held.contains(reached.source_id.as_str()) {
                        next
                    } else {
                        Some(Progress::Complete)
                    }
                }
                // It stays open. What an earlier batch noted of it is withdrawn.
                Some(ended) => self
                    .tallies
                    .contains_key(&ended.info.uri)
                    .then_some(Progress::Next(0)),
            }
        };
        let taken = batch.progress.iter().filter_map(|reached| {
            let taken = Taken {
                progress: progress_of(reached)?,
                kind: reached.kind,
            };
            Some((reached.source_id.clone(), taken))
        });
        let taken = taken.collect();
        SourceUpdates {
            rows,
            taken,
            tallies,
        }
    }

    fn ended_row(&self, ended: &FinishedSource, tally: SourceCounts) -> SourceRow {
        let (outcome, reason) = match tally.is_taken(ended) && ended.reason.is_none() {
            true => (SourceOutcome::Ingested, None),
            false => {
                let reason = ended.reason.clone();
                let refused = || {
                    format!(
                        "nothing of it could be taken in; the {} reject_keys are in `rejects`",
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

    /// Commits `rows` to `sources`, and takes out those that they replace.
    ///
    /// # Errors
    /// [`EngineError::File`], [`EngineError::Delta`], [`EngineError::Conflict`].
    pub(super) async fn append(&mut self, lake: &mut Lake, rows: &[SourceRow]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let file = lake.write_sources(rows).await?;
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
        let withdrawn = self.withdrawn.take();
        for _ in 0..COMMIT_ATTEMPTS {
            let mut change = Change {
                added: vec![file.clone()],
                changes_rows: true,
                ..Change::default()
            };
            let sources = lake.sources_to_write().await?.clone();
            let live = sources.files()?;
            change
                .removed
                .extend(withdrawn.iter().filter(|file| live.contains(file)).cloned());
            if !replaced.is_empty() {
                let gone = change.removed.clone();
                for data in live.iter().filter(|data| !gone.contains(data)) {
                    replace(lake, data, &replaced, &mut change).await?;
                }
            }
            let retries = if change.removed.is_empty() {
                COMMIT_ATTEMPTS
            } else {
                0
            };
            let sources = lake.sources_to_write().await?;
            match sources.commit(change, "ingest", retries).await {
                Err(EngineError::Conflict(_)) => sources.refresh().await?,
                Err(error) => return Err(error),
                Ok(_) => {
                    self.dangling.retain(|name| !replaced.contains(name));
                    self.withdrawn = Some(file);
                    return Ok(());
                }
            }
        }
        Err(EngineError::Conflict(format!(
            "other writers were faster {COMMIT_ATTEMPTS} times"
        )))
    }

    /// The batch of `account` is committed.
    pub(super) fn committed(&mut self, account: SourceUpdates, ended: &[FinishedSource]) {
        self.withdrawn = None;
        self.tallies.extend(account.tallies);
        ended
            .iter()
            .for_each(|ended| _ = self.tallies.remove(&ended.info.uri));
    }
}

/// The columns of a row's claim that a source was taken in.
const CLAIM: [&str; 4] = ["run_id", "source_id", "kind", "outcome"];

/// The source that row `row` claims to be taken in, if it does.
fn claimed(batch: &arrow::array::RecordBatch, row: usize) -> Option<&str> {
    let ingested = text_of(batch, "outcome", row) == Some(SourceOutcome::Ingested.name());
    text_of(batch, "source_id", row).filter(|_| ingested)
}

/// Writes `data`, a file of `sources`, again without the rows `replaced`, if it has any.
async fn replace(
    lake: &Lake,
    data: &DataFile,
    replaced: &DanglingRows,
    change: &mut Change,
) -> Result<()> {
    let Some(sources) = &lake.sources else {
        return Ok(());
    };
    let path = sources.path_of(&data.name);
    let bytes = lake.location().read(&path).await?;
    let mut gone: HashSet<u32> = HashSet::new();
    let mut at = 0;
    for batch in read_file(bytes, &CLAIM).file("can't read", &path)? {
        for row in 0..batch.num_rows() {
            let run = text_of(&batch, "run_id", row).unwrap_or_default();
            if claimed(&batch, row)
                .is_some_and(|source| replaced.contains(&(run.to_owned(), source.to_owned())))
            {
                gone.insert(at + row as u32);
            }
        }
        at += batch.num_rows() as u32;
    }
    if gone.is_empty() {
        return Ok(());
    }
    let edit = |first, batch| drop_rows(first, &batch, |row| gone.contains(&row));
    edit_file(lake, sources, data, change, edit).await
}
