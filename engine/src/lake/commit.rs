//! Commits to a Delta table, and the record of them in `heads.json`.
//!
//! ```text
//! write data files ─▶ publish them ─▶ commit to `_delta_log` ─▶ merge the new version into heads.json
//! ```
//!
//! A commit contains the digests of the commits before it, and of the newest commits of the other
//! tables. A process that is killed between the commit and the last step leaves a log that is ahead
//! of its head, which is sound.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};

use chrono::Utc;
use deltalake::DeltaTableError;
use deltalake::checkpoints::create_checkpoint;
use deltalake::kernel::transaction::{CommitBuilder, CommitProperties, TransactionError};
use deltalake::kernel::{Action, Transaction};
use deltalake::protocol::{DeltaOperation, SaveMode};
use gristmill_schemas::columns::GRAINS;
use serde_json::Value;

use super::commit_facts::{CommitFacts, OPERATION};
use super::file_actions::{add_action, remove_action};
use super::heads::{CheckpointHead, HEADS, Heads, TableHead, digest_of_files};
use super::log::{checkpoint_path, commit_path, hint_path};
use super::row_versions::RowVersions;
use super::stated_versions::OTHER_TABLES;
use super::table::{CHECKPOINT_INTERVAL, Change, DataFile, Table, delta_error, read_log};
use crate::error::{EngineError, Result};
use crate::file_digest::FileDigest;
use crate::segment::SegmentId;

/// The key of a commit's information with digests of the commits before it, by their versions.
pub(super) const SEALED: &str = "gristmill.sealed";

/// The number of commits between two checkpoints of a table in an object store that has few files.
const REMOTE_CHECKPOINT_INTERVAL: u64 = 4;

/// The number of files above which a table in an object store has no more checkpoints than others:
/// each lists all of them.
const REMOTE_CHECKPOINT_FILES: usize = 1_000;

/// How many earlier commits a commit contains the digests of. More than one, because concurrent
/// writers don't see each other's commits.
const EARLIER_COMMITS: usize = 4;

impl Table {
    /// Commits `change` under the name `operation`, and updates the handle. It is retried after
    /// other writers' commits up to `retries` times. If they prevent it, the files that `change`
    /// adds are removed unless it keeps them: they could contain what an erasure has removed
    /// meanwhile.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if another writer has removed a file that `change` removes or
    /// adds, or if all attempts met other writers: then nothing was committed.
    /// [`EngineError::Key`] if the lake was encrypted meanwhile and `change` adds rows in plain
    /// text; [`EngineError::Delta`].
    pub async fn commit(&mut self, change: Change, operation: &str, retries: usize) -> Result<u64> {
        let committed = self.commit_with_retries(&change, operation, retries).await;
        if let Err(EngineError::Conflict(_) | EngineError::Key(_)) = committed {
            self.remove_uncommitted(&change).await;
            self.check_plain_text(&change).await?;
        }
        committed
    }

    async fn commit_with_retries(
        &mut self,
        change: &Change,
        operation: &str,
        retries: usize,
    ) -> Result<u64> {
        // In an object store this is a request, which is made only if there was another writer.
        if !self.location().is_remote() {
            self.check_plain_text(change).await?;
        }
        // Retried here and not by the library: it can't rebase a commit on an erasure, which
        // removes the log that it would read; added files state the version of their commit; and it
        // lets two compactions remove the same files, which would double their rows.
        for _ in 0..retries {
            self.check_files(change).await?;
            match self.attempt_commit(change, operation).await {
                Err(EngineError::Conflict(_)) => {
                    self.refresh().await?;
                    self.check_plain_text(change).await?;
                }
                committed => return committed,
            }
        }
        self.check_files(change).await?;
        self.attempt_commit(change, operation).await
    }

    /// Tries to commit `change` once. After a lost response, an object store reports this process's
    /// own commit as another's: then the files that `change` adds were committed, and the commit
    /// counts as one. Other commits may have followed it.
    async fn attempt_commit(&mut self, change: &Change, operation: &str) -> Result<u64> {
        let version = self.version() + 1;
        match self.write_commit(change, operation).await {
            Err(EngineError::Conflict(cause)) => match self.with_all_added(change).await? {
                Some(newest) => {
                    *self = newest;
                    self.record_commit(version).await?;
                    Ok(version)
                }
                None => Err(EngineError::Conflict(cause)),
            },
            committed => committed,
        }
    }

    /// Returns the newest version of the table if all files that `change` adds were committed.
    ///
    /// # Errors
    /// Those of reading the log. It then isn't known whether they were, so that no caller may count
    /// that as a conflict: it would commit the rows again.
    async fn with_all_added(&self, change: &Change) -> Result<Option<Table>> {
        if change.added.is_empty() || change.adds_again() {
            return Ok(None);
        }
        let mut newest = self.clone();
        newest.refresh().await?;
        let live = newest.files()?.into_iter().map(|file| file.name);
        let mut committed: HashSet<String> = live.collect();
        let has_all = |committed: &HashSet<String>| {
            let mut added = change.added.iter();
            added.all(|file| committed.contains(&file.name))
        };
        // Another writer may have replaced them already. A folder loses no response.
        if !has_all(&committed) && self.location().is_remote() {
            committed = newest.committed_files().await?;
        }
        Ok(has_all(&committed).then_some(newest))
    }

    /// Removes the files that `change` would have added, unless it keeps them, with the sidecars
    /// of segments. Files that a version of the table has, or had, stay. A failure is a warning:
    /// `gc` removes these files later.
    pub(crate) async fn remove_uncommitted(&mut self, change: &Change) {
        if change.added.is_empty() || change.keeps_files || change.adds_again() {
            return;
        }
        if let Err(error) = self.try_remove_uncommitted(change).await {
            let table = self.name();
            tracing::warn!(table, %error, "files of a refused commit are left; `gc` removes them");
        }
    }

    async fn try_remove_uncommitted(&mut self, change: &Change) -> Result<()> {
        self.refresh().await?;
        // Earlier versions have files that were committed, by a later attempt or by one whose
        // response was lost, and have been replaced since.
        let committed = self.committed_files().await?;
        for file in &change.added {
            if committed.contains(&file.name) {
                continue;
            }
            self.location().delete(&self.path_of(&file.name)).await?;
            if self.name() == GRAINS {
                self.remove_sidecars_of(file).await?;
            }
        }
        Ok(())
    }

    /// Returns the names of the files of this version, and of those that earlier versions have.
    async fn committed_files(&self) -> Result<HashSet<String>> {
        let live = self.files()?.into_iter().map(|file| file.name);
        let replaced = self.tombstones().await?.into_iter().map(|(name, _)| name);
        Ok(live.chain(replaced).collect())
    }

    /// Removes the sidecars of the segment with the data file `file`.
    async fn remove_sidecars_of(&self, file: &DataFile) -> Result<()> {
        let Some(segment) = SegmentId::of_file(&file.name) else {
            return Ok(());
        };
        for sidecar in self.location().list(segment.folder().as_ref()).await? {
            self.location().delete(&sidecar.location).await?;
            self.location().remove_empty_folder(&sidecar.location);
        }
        Ok(())
    }

    /// Returns the versions of the rows in the files that `change` adds; `None` if they are stated
    /// already. Rows that are only moved to other files keep theirs, and those of `grains` never
    /// change otherwise.
    fn versions_of_added(&self, change: &Change) -> Option<RowVersions> {
        match change.removed.is_empty() {
            true => change
                .changes_rows
                .then(|| RowVersions::added(change.ingested_at, self.version() + 1)),
            false if !change.changes_rows || self.name() == GRAINS => {
                let moved = change.removed.iter().map(|file| {
                    let versions = file.versions.clone();
                    versions.unwrap_or_else(|| RowVersions::added(None, self.version()))
                });
                Some(RowVersions::union(moved))
            }
            false => Some(RowVersions::added(None, self.version() + 1)),
        }
    }

    async fn write_commit(&mut self, change: &Change, operation: &str) -> Result<u64> {
        let now = Utc::now().timestamp_millis();
        let removed = change
            .removed
            .iter()
            .map(|file| Action::Remove(remove_action(file, change.changes_rows, now)));
        let versions = self.versions_of_added(change);
        let added = change.added.iter().map(|file| {
            let versions = file.versions.as_ref().or(versions.as_ref());
            Action::Add(add_action(file, versions, change.changes_rows, now))
        });
        let actions = removed.chain(added).collect();
        let transaction = |(source, version): &(String, i64)| {
            Transaction::new_with_last_update(source.clone(), *version, Some(now))
        };
        let transactions = change.transactions.iter().map(transaction).collect();
        let mut info = change.info.clone();
        info.insert(OPERATION.to_owned(), Value::from(operation));
        let heads = Heads::load(self.location()).await?.unwrap_or_default();
        let others = heads.newest_commits_besides(self.name());
        info.insert(OTHER_TABLES.to_owned(), serde_json::json!(others));
        info.insert(
            SEALED.to_owned(),
            self.earlier_commit_digests(&heads).await?,
        );
        let properties = CommitProperties::default()
            .with_application_transactions(transactions)
            .with_metadata(info)
            .with_max_retries(0);
        let state = self
            .delta()
            .snapshot()
            .map_err(delta_error("can't read the log", self.name()))?;
        let operation = delta_operation(change);
        let to_conflict = |error| commit_error(self.name(), error);
        let prepared = CommitBuilder::from(properties)
            .with_actions(actions)
            .build(Some(state), self.delta().log_store(), operation)
            .into_prepared_commit_future()
            .await
            .map_err(to_conflict)?;
        let committed = prepared.await.map_err(to_conflict)?;
        let version = committed.version;
        self.refresh().await?;
        self.check_is_in_log(version, change).await?;
        // Writes a checkpoint if one is due, and removes expired entries.
        if let Err(error) = committed.await {
            let table = self.name();
            tracing::warn!(table, %error, "no checkpoint was written; readers read the commits");
        }
        if self.location().is_remote() {
            self.write_early_checkpoint().await?;
        }
        self.record_commit(version).await?;
        Ok(version)
    }

    /// Checks that the log has the commit of `version` with `change`, which was just written. While
    /// a writer is suspended, an erasure may commit that version and remove the entry again: then
    /// the name is free, and the entry that was written is part of no version. It is removed.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if it isn't in the log; [`EngineError::File`].
    async fn check_is_in_log(&self, version: u64, change: &Change) -> Result<()> {
        if self.version() == version {
            return Ok(());
        }
        let path = commit_path(self.name(), version);
        let written = self.location().read_small(&path).await?;
        let next = commit_path(self.name(), version + 1);
        let next = self.location().read_small(&next).await?;
        let is_in_log = match (&written, next) {
            // `verify` reports a commit that can't be read.
            (Some(written), Some(next)) => {
                let next = CommitFacts::parse(&next).unwrap_or_default();
                let sealed = next.sealed.get(&version);
                sealed.is_none_or(|digest| *digest == FileDigest::of(written))
            }
            // The erasure was before, unless it removes both entries right now.
            (Some(_), None) if self.location().read_small(&path).await?.is_some() => false,
            // Both were removed, by an erasure since.
            _ => {
                let committed = self.committed_files().await?;
                let mut added = change.added.iter();
                added.all(|file| committed.contains(&file.name))
            }
        };
        if is_in_log {
            return Ok(());
        }
        if written.is_some() {
            self.location().delete(&path).await?;
        }
        let (table, newest) = (self.name(), self.version());
        Err(EngineError::Conflict(format!(
            "an erasure has shortened the log of `{table}` meanwhile, which is at version {newest}"
        )))
    }

    /// Records a commit that has happened in the lake's heads, with the commits from `first` on. A
    /// conflict is a warning, because a caller that gets one commits again: the log is ahead of its
    /// head until the next commit, which is sound.
    async fn record_commit(&self, first: u64) -> Result<()> {
        match self.record_head(first).await {
            Err(EngineError::Conflict(cause)) => {
                let table = self.name();
                tracing::warn!(table, "`{HEADS}` doesn't have the last commit yet: {cause}");
                Ok(())
            }
            recorded => recorded,
        }
    }

    /// Writes a checkpoint of this version if it is due in an object store, where opening the table
    /// takes a request for each commit after the newest checkpoint. Nothing depends on it, so a
    /// failure is a warning.
    async fn write_early_checkpoint(&self) -> Result<()> {
        let commits = self.version() + 1;
        let is_due = commits.is_multiple_of(REMOTE_CHECKPOINT_INTERVAL)
            // The library has written that one.
            && !commits.is_multiple_of(CHECKPOINT_INTERVAL);
        if !is_due || self.files()?.len() > REMOTE_CHECKPOINT_FILES {
            return Ok(());
        }
        if let Err(error) = read_log(create_checkpoint(self.delta(), None)).await {
            let table = self.name();
            tracing::warn!(table, %error, "no checkpoint was written; readers read the commits");
        }
        Ok(())
    }

    /// Returns the digests of the newest commits that this handle sees, for the next commit to
    /// contain. This chain lets `verify` detect a changed entry of the log.
    async fn earlier_commit_digests(&self, heads: &Heads) -> Result<Value> {
        let head = heads.tables.get(self.name());
        let seen = head
            .into_iter()
            .flat_map(|head| head.entries.range(..=self.version()));
        let mut entries: BTreeMap<u64, FileDigest> =
            seen.map(|(version, digest)| (*version, *digest)).collect();
        self.digest_entry(self.version(), &mut entries).await?;
        while entries.len() > EARLIER_COMMITS {
            entries.pop_first();
        }
        Ok(serde_json::json!(entries))
    }

    /// Adds the digest of the commit of `version`, unless it is there already or the log doesn't
    /// contain it any more.
    async fn digest_entry(
        &self,
        version: u64,
        entries: &mut BTreeMap<u64, FileDigest>,
    ) -> Result<()> {
        if let Entry::Vacant(entry) = entries.entry(version)
            && let Some(bytes) = self
                .location()
                .read_small(&commit_path(self.name(), version))
                .await?
        {
            entry.insert(FileDigest::of(&bytes));
        }
        Ok(())
    }

    /// Merges the version of this handle into the lake's heads, with the commits from `first` on.
    ///
    /// # Errors
    /// As [`Heads::update`].
    pub(super) async fn record_head(&self, first: u64) -> Result<()> {
        let (name, head) = (self.name(), self.head(first).await?);
        Heads::update(self.location(), move |heads| {
            heads.merge(name, head.clone())
        })
        .await
    }

    /// Returns the head of the log, with the commits from `first` on.
    ///
    /// # Errors
    /// [`EngineError::File`], [`EngineError::Delta`].
    pub(super) async fn head(&self, first: u64) -> Result<TableHead> {
        let mut entries = BTreeMap::new();
        // More than the newest few would be dropped.
        let version = self.version();
        for version in first.max(version.saturating_sub(EARLIER_COMMITS as u64))..=version {
            self.digest_entry(version, &mut entries).await?;
        }
        let files = digest_of_files(&self.files()?);
        let checkpoint = self.newest_checkpoint().await?;
        Ok(TableHead {
            version,
            files,
            entries,
            checkpoint,
        })
    }

    /// Returns the checkpoint that the log's hint names, or `None` if there is none or it consists
    /// of several files.
    async fn newest_checkpoint(&self) -> Result<Option<CheckpointHead>> {
        #[derive(serde::Deserialize)]
        struct Hint {
            version: u64,
        }
        let Some(hint) = self.location().read_small(&hint_path(self.name())).await? else {
            return Ok(None);
        };
        // An unreadable hint is reported by `verify`: the library doesn't need it.
        let Ok(Hint { version }) = serde_json::from_slice(&hint) else {
            return Ok(None);
        };
        let found = self
            .location()
            .read_small(&checkpoint_path(self.name(), version))
            .await?;
        let hint = FileDigest::of(&hint);
        Ok(found.map(|bytes| CheckpointHead {
            version,
            file: FileDigest::of(&bytes),
            hint,
        }))
    }
}

impl Change {
    /// Returns the change that adds `file`, whose rows are new.
    pub(crate) fn of_new_rows(file: DataFile) -> Change {
        Change {
            added: vec![file],
            changes_rows: true,
            ..Change::default()
        }
    }

    /// Returns true if the added files are files of the table already: nothing is removed, and no
    /// row changes.
    pub(super) fn adds_again(&self) -> bool {
        self.removed.is_empty() && !self.changes_rows
    }
}

/// Returns the operation of Delta's log for `change`.
fn delta_operation(change: &Change) -> DeltaOperation {
    match (change.removed.is_empty(), change.changes_rows) {
        (true, _) => DeltaOperation::Write {
            mode: SaveMode::Append,
            partition_by: None,
            predicate: None,
        },
        (false, true) => DeltaOperation::Delete { predicate: None },
        (false, false) => DeltaOperation::Optimize {
            predicate: None,
            target_size: 0,
        },
    }
}

fn commit_error(table: &str, error: DeltaTableError) -> EngineError {
    match &error {
        DeltaTableError::Transaction {
            source:
                conflict @ (TransactionError::CommitConflict(_)
                | TransactionError::VersionAlreadyExists(_)
                | TransactionError::MaxCommitAttempts(_)),
        } => EngineError::Conflict(conflict.to_string()),
        // Or an erasure was, and removed the part of the log on which this handle is based.
        DeltaTableError::VersionAlreadyExists(_) | DeltaTableError::InvalidVersion(_) => {
            EngineError::Conflict(error.to_string())
        }
        // The kernel passes on no more than the text.
        DeltaTableError::KernelError(cause) if is_lost_entry(&cause.to_string()) => {
            EngineError::Conflict(error.to_string())
        }
        _ => delta_error("can't commit to the log", table)(error),
    }
}

/// Returns true if `message` is about an entry of a log, or a version, that isn't there any more.
fn is_lost_entry(message: &str) -> bool {
    let is_lost_version =
        message.contains("Requested snapshot version") && message.contains("not available");
    is_lost_version || (message.contains("not found") && message.contains("/_delta_log/"))
}
