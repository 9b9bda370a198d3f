//! The commits of a batch, in an order that survives a kill between any two of them.
//!
//! `rejects`, `state` and `sources` are committed first and `grains` last, with how far each source
//! was read. The exception are late claims ([`StateSplit::late`]), which are committed after
//! `grains`.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{RejectRow, SourceRow, StateRow};

use super::batch::IngestBatch;
use super::batch_grains::BatchGrains;
use super::claims;
use super::plan::SourceOutcomes;
use super::retry::add_rejects_of;
use super::run::{COMMIT_ATTEMPTS, IngestRun, overtaken};
use super::sources::SourceUpdates;
use crate::error::{Context, EngineError, Result};
use crate::lake::{
    AddressCatalog, Change, FilePrefix, KnownAddresses, LedgerEntry, ReadPosition, Segment,
    transaction_name,
};
use crate::segment::{AddressIndex, WrittenSegment};

/// The result of a commit.
pub(super) struct CommitResult {
    /// Grains that were written.
    pub(super) grains: u64,
    /// The version of `grains` that contains them.
    pub(super) version: u64,
}

/// A segment whose files are being published.
pub(super) struct SegmentUpload {
    /// The segment, with its address index.
    published: BoxFuture<'static, Result<(Segment, Arc<AddressIndex>)>>,
    /// True if the files stay when the commit is refused.
    is_kept: bool,
}

impl SegmentUpload {
    /// Returns an `index`ed segment whose files are published. They stay when the commit is
    /// refused.
    pub(super) fn published(segment: Segment, index: Arc<AddressIndex>) -> SegmentUpload {
        SegmentUpload {
            published: std::future::ready(Ok((segment, index))).boxed(),
            is_kept: true,
        }
    }

    /// Returns the segment, with its address index, once its files are published.
    pub(super) async fn finish(self) -> Result<(Segment, Arc<AddressIndex>)> {
        self.published.await
    }
}

/// The lifecycle state of a batch, by when it is committed.
pub(super) struct StateSplit<'b> {
    /// Committed before `grains`.
    early: Vec<&'b StateRow>,
    /// Claims that close a grain of the lake by a successor that comes with the batch, committed
    /// after `grains`. If they were committed before, a kill in between would leave a grain closed
    /// by a successor that doesn't exist.
    pub(super) late: Vec<&'b StateRow>,
    /// The sources of the late claims, which aren't complete before these are committed.
    held: BTreeSet<&'b str>,
}

impl<'b> StateSplit<'b> {
    /// Splits the state of `batch`, which has these `grains`.
    ///
    /// # Errors
    /// As [`AddressCatalog::all`].
    pub(super) async fn of(
        catalog: &AddressCatalog,
        batch: &'b IngestBatch,
        grains: &dyn BatchGrains,
    ) -> Result<StateSplit<'b>> {
        let mut successors = batch.states.iter().filter_map(claims::successor_of);
        // Claims name grains without their creation seconds.
        let known = match successors.any(|new| grains.contains(&new)) {
            true => catalog.all().await?,
            false => KnownAddresses::default(),
        };
        let is_late = |row: &&StateRow| {
            let is_old = || {
                row.content_address
                    .parse()
                    .is_ok_and(|old| known.find(&old).is_some())
            };
            let is_new = |new: &ContentAddress| grains.contains(new) && known.find(new).is_none();
            claims::successor_of(row).is_some_and(|new| is_new(&new)) && is_old()
        };
        let (late, early): (Vec<_>, Vec<_>) = batch.states.iter().partition(is_late);
        let held = held_by(&late);
        Ok(StateSplit { early, late, held })
    }
}

fn held_by<'r>(late: &[&'r StateRow]) -> BTreeSet<&'r str> {
    late.iter()
        .filter_map(|row| row.source_id.as_deref())
        .collect()
}

impl IngestRun<'_> {
    /// Starts to publish the files of `segment`. Nothing references them before the last commit of
    /// the batch.
    pub(super) fn publish(&self, segment: WrittenSegment) -> SegmentUpload {
        let id = segment.id.clone();
        let published = tokio::spawn(self.lake.publish_segment_files(segment));
        let published = async move {
            let (file, index) = published.await.task("a batch")??;
            Ok::<_, EngineError>((Segment { id, file }, Arc::new(index)))
        };
        SegmentUpload {
            published: published.boxed(),
            is_kept: false,
        }
    }

    /// Commits a batch: rejects, early state and sources first, `grains` last. Its grains have the
    /// `outcomes`; the new ones are in `segment`.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if another writer committed to `grains`.
    pub(super) async fn commit(
        &mut self,
        batch: &IngestBatch,
        outcomes: &[SourceOutcomes],
        segment: Option<SegmentUpload>,
        states: &StateSplit<'_>,
    ) -> Result<CommitResult> {
        let updates = self.register.updates(outcomes, batch, &states.held);
        let preceding = self.commit_before_grains(batch, states, &updates).await;
        let mut change = Change {
            changes_rows: true,
            ingested_at: Some(self.now),
            transactions: self.transactions(batch, &updates),
            ..Change::default()
        };
        let (mut grains, mut added) = (0, None);
        if let Some(upload) = segment {
            change.keeps_files = upload.is_kept;
            let (segment, index) = upload.finish().await?;
            grains = segment.file.rows;
            change.added.push(segment.file.clone());
            added = Some((segment, index));
        }
        if let Err(error) = preceding {
            self.lake.grains.remove_uncommitted(&change).await;
            return Err(error);
        }
        let version = match change.added.is_empty() && change.transactions.is_empty() {
            true => self.lake.grains.version(),
            false => self.lake.grains.commit(change, "ingest", 0).await?,
        };
        if let Some((segment, index)) = added {
            self.known.add(segment, index);
        }
        for reject in &batch.rejects {
            self.retried.note(reject);
        }
        self.register.committed(updates, &batch.ended);
        Ok(CommitResult { grains, version })
    }

    /// Commits what is committed before `grains`: rejects, lifecycle events and sources.
    async fn commit_before_grains(
        &mut self,
        batch: &IngestBatch,
        states: &StateSplit<'_>,
        updates: &SourceUpdates,
    ) -> Result<()> {
        self.append_rejects(batch).await?;
        self.append_states(&states.early).await?;
        let rows: Vec<SourceRow> = batch.listed.iter().chain(&updates.rows).cloned().collect();
        self.register.append(self.lake, &rows).await
    }

    /// Returns what the commit of `batch` changes in the ledger, as application transactions. The
    /// ledger keeps its entry of a source that is read again, so that a killed run doesn't make a
    /// complete source incomplete.
    fn transactions(&self, batch: &IngestBatch, updates: &SourceUpdates) -> Vec<(String, i64)> {
        let entries = updates
            .new_entries
            .iter()
            .filter(|(id, _)| !self.retried.keeps_entry(id))
            .map(|(id, entry)| (transaction_name(id), entry.to_version()));
        let reached = batch.progress.iter();
        let prefixes = reached.flat_map(|reached| &reached.file_prefixes);
        entries
            .chain(prefixes.map(FilePrefix::transaction))
            .collect()
    }

    /// Commits `late` claims, whose successors are in `grains` since `version`, and then that their
    /// sources are complete: after a kill before that, the next run reads the ends of these sources
    /// again, and the claims with them. Returns the version of `grains` after it.
    pub(super) async fn commit_late(
        &mut self,
        batch: &IngestBatch,
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
            .filter(|reached| held.contains(reached.source_id.as_str()))
            .filter(|reached| !self.retried.keeps_entry(&reached.source_id));
        let complete = |kind| {
            LedgerEntry {
                progress: ReadPosition::Complete,
                kind,
            }
            .to_version()
        };
        let transactions = reached
            .map(|reached| (transaction_name(&reached.source_id), complete(reached.kind)))
            .collect();
        let change = Change {
            transactions,
            ..Change::default()
        };
        let committed = self
            .lake
            .grains
            .commit(change, "ingest", COMMIT_ATTEMPTS)
            .await?;
        // Versions in between are of other writers.
        Ok(if committed == version + 1 {
            committed
        } else {
            version
        })
    }

    /// Returns the rejects of `batch` that aren't in the lake in any form.
    ///
    /// # Errors
    /// As [`AddressCatalog::contains_part`].
    async fn new_rejects<'b>(&self, batch: &'b IngestBatch) -> Result<Vec<&'b RejectRow>> {
        let mut new = Vec::new();
        for reject in &batch.rejects {
            if self.known_rejects.contains(reject) || self.known.is_erased_part(&reject.bytes) {
                continue;
            }
            // A stricter reader doesn't undo what a more lenient one accepted.
            let is_retried = self.retried.contains(&reject.source_id);
            if is_retried && self.known.contains_part(&reject.bytes).await? {
                continue;
            }
            new.push(reject);
        }
        Ok(new)
    }

    /// Commits the rejects of `batch`. Another run may read the same sources at the same time, so
    /// those that it has committed are left out at each attempt.
    async fn append_rejects(&mut self, batch: &IngestBatch) -> Result<()> {
        if batch.rejects.is_empty() {
            return Ok(());
        }
        for _ in 0..COMMIT_ATTEMPTS {
            self.refresh_erased().await?;
            self.read_rejects_of_others().await?;
            let rows = self.new_rejects(batch).await?;
            if rows.is_empty() {
                return Ok(());
            }
            let file = self.lake.write_rejects(&rows).await?;
            self.reject_files.insert(file.name.clone());
            let change = Change::of_new_rows(file);
            match self.lake.rejects.commit(change, "ingest", 0).await {
                Err(EngineError::Conflict(_)) => self.lake.rejects.refresh().await?,
                Err(error) => return Err(error),
                Ok(_) => {
                    // If the commit to `grains` must be repeated, these rows are in the table
                    // already.
                    rows.into_iter()
                        .for_each(|row| self.known_rejects.insert(row));
                    return Ok(());
                }
            }
        }
        Err(overtaken())
    }

    /// Reads what was erased since the run began. An erasure commits to `state` and `rejects` after
    /// its tombstones, so that a commit there after this is a conflict. The handle of `grains`
    /// stays at its version, so that a commit to it is one if it was changed.
    async fn refresh_erased(&mut self) -> Result<()> {
        let before = self.lake.erased.version();
        self.lake.erased.refresh().await?;
        match self.lake.erased.version() == before {
            true => Ok(()),
            false => self.known.refresh_erased(self.lake).await,
        }
    }

    /// Adds the rejects that other runs have committed since the last ones were read.
    async fn read_rejects_of_others(&mut self) -> Result<()> {
        for file in self.lake.rejects.files()? {
            if !self.reject_files.contains(&file.name) {
                add_rejects_of(self.lake, &file, &mut self.known_rejects).await?;
                self.reject_files.insert(file.name);
            }
        }
        Ok(())
    }

    /// Commits those of `rows` that `state` doesn't contain yet, in whatever run they were added.
    async fn append_states(&mut self, rows: &[&StateRow]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        for _ in 0..COMMIT_ATTEMPTS {
            self.refresh_erased().await?;
            // First, because the values of rows in the lake are blanked, too.
            let permitted = rows
                .iter()
                .filter_map(|row| self.known.permitted((*row).clone()));
            let permitted = permitted.collect();
            let fresh = self.known_states.new_rows(self.lake, permitted).await?;
            if fresh.is_empty() {
                return Ok(());
            }
            let file = self.lake.write_events(&fresh).await?;
            let change = Change::of_new_rows(file);
            match self.lake.state.commit(change, "ingest", 0).await {
                Err(EngineError::Conflict(_)) => self.lake.state.refresh().await?,
                committed => return committed.map(drop),
            }
        }
        Err(overtaken())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use gristmill_connectors::generate::Corpus;
    use gristmill_connectors::source::discover;
    use gristmill_schemas::container::write_frame;

    use super::*;
    use crate::ingest::options::IngestOptions;
    use crate::lake::Lake;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_erased_while_a_run_reads_it_is_not_recorded_as_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("lake").display().to_string();
        let mut lake = Lake::open_or_create(&place).await.unwrap();
        let mut other = Lake::open_or_create(&place).await.unwrap();
        let corpus = Corpus::new(11, 9);
        let grains = corpus.block(0).unwrap().grains.into_iter().take(2);
        let [intact, mut cut]: [Vec<u8>; 2] = grains
            .map(|grain| grain.blob)
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        cut.pop();
        let mut frames = Vec::new();
        for blob in [&intact, &cut] {
            write_frame(blob, &mut frames).unwrap();
        }
        let path = folder.path().join("a.frames");
        std::fs::write(&path, frames).unwrap();
        let sources = discover(&[path.display().to_string()]).await.unwrap();
        let options = IngestOptions::default();
        let run = IngestRun::begin(&mut lake, &options, Arc::default()).await;
        let mut run = run.unwrap();
        let erased = [ContentAddress::of(&cut)];
        other.add_tombstones(&erased, "erasure", 0).await.unwrap();
        let (admitter, sources) = run.arranged(sources).await.unwrap();
        run.read_all(&admitter, sources).await.unwrap();
        assert_eq!(run.end().await.unwrap().grains_written, 1);
        for batch in lake.rejects.read_columns(&["bytes"]).await.unwrap() {
            let mut refused = batch.column(0).as_binary::<i32>().iter().flatten();
            assert!(refused.all(|bytes| bytes != cut.as_slice()));
        }
    }
}
