//! One Delta table of the lake: its live files, and commits to it.
//!
//! Commits go through `deltalake`. Data files are written by the engine before, and become part of
//! the table when a commit references them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use chrono::Utc;
use deltalake::kernel::engine::arrow_conversion::TryIntoKernel;
use deltalake::kernel::transaction::{CommitBuilder, CommitProperties, TransactionError};
use deltalake::kernel::{Action, Add, LogicalFileView, StructField, StructType, Transaction};
use deltalake::logstore::{LogStoreRef, StorageConfig, default_logstore};
use deltalake::operations::create::CreateBuilder;
use deltalake::protocol::{DeltaOperation, SaveMode};
use deltalake::{DeltaTable, DeltaTableBuilder, DeltaTableError};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use serde_json::Value;

use super::heads::{CheckpointHead, Heads, TableHead, digest_of_files};
use super::location::LakeLocation;
use super::log::{LogFile, checkpoint_path, commit_path, hint_path};
use crate::error::{EngineError, Result};
use crate::file_digest::{FileDigest, WrittenFile};

/// A data file of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// Its name in the table's folder.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its number of rows.
    pub rows: u64,
    /// The digest of its bytes. `None` for files of lakes of format 1 and of other engines.
    pub digest: Option<FileDigest>,
}

impl DataFile {
    /// Returns the file `name` that was just written.
    pub(crate) fn new(name: String, written: WrittenFile) -> DataFile {
        DataFile {
            name,
            size: written.size,
            rows: written.rows,
            digest: Some(written.digest),
        }
    }
}

/// A change of a table that is committed atomically.
#[derive(Debug, Default)]
pub struct Change {
    /// Files that are added to the table.
    pub added: Vec<DataFile>,
    /// Files that are removed from it.
    pub removed: Vec<DataFile>,
    /// False if the added files contain the same rows as the removed ones.
    pub changes_rows: bool,
    /// How far each source was read: `(source id, progress)`, stored as application transactions.
    pub progress: Vec<(String, i64)>,
    /// Additional information of the commit.
    pub info: serde_json::Map<String, Value>,
}

/// A handle of a Delta table at one version.
#[derive(Debug, Clone)]
pub struct Table {
    name: &'static str,
    location: LakeLocation,
    delta: DeltaTable,
}

/// The table property with the columns that have statistics. Delta keeps them in its log, where
/// they would survive an erasure, so only columns that can't contain personal data have them.
const STATISTICS_COLUMNS: &str = "delta.dataSkippingStatsColumns";

/// The table property with the version of the lake's format.
pub(super) const FORMAT_VERSION_KEY: &str = "gristmill.formatVersion";

/// The table property with the number of commits between two checkpoints of the log.
const CHECKPOINT_INTERVAL: (&str, &str) = ("delta.checkpointInterval", "20");

impl Table {
    /// Opens the table `name`, or returns `None` if the lake has none.
    ///
    /// # Errors
    /// [`EngineError::Delta`].
    pub async fn open(location: &LakeLocation, name: &'static str) -> Result<Option<Table>> {
        let fault = delta_error("can't read the log", name);
        let mut delta = DeltaTable::new(log_store(location, name).map_err(&fault)?);
        match delta.load().await {
            Ok(()) => Ok(Some(Table {
                name,
                location: location.clone(),
                delta,
            })),
            Err(DeltaTableError::NotATable(_)) => Ok(None),
            Err(error) => Err(fault(error)),
        }
    }

    /// Creates the table `name`. If another process creates it at the same time, that one is
    /// opened.
    ///
    /// # Errors
    /// [`EngineError::Delta`].
    pub async fn create(
        location: &LakeLocation,
        name: &'static str,
        schema: SchemaRef,
        statistics: &str,
    ) -> Result<Table> {
        let fault = delta_error("can't create the log", name);
        let columns: StructType =
            schema
                .as_ref()
                .try_into_kernel()
                .map_err(|error: arrow::error::ArrowError| {
                    fault(DeltaTableError::Arrow { source: error })
                })?;
        let made = CreateBuilder::new()
            .with_log_store(log_store(location, name).map_err(&fault)?)
            .with_table_name(name)
            .with_columns(columns.fields().cloned().collect::<Vec<StructField>>())
            .with_configuration([
                (
                    FORMAT_VERSION_KEY.to_owned(),
                    Some(super::FORMAT_VERSION.to_string()),
                ),
                (STATISTICS_COLUMNS.to_owned(), Some(statistics.to_owned())),
                (
                    CHECKPOINT_INTERVAL.0.to_owned(),
                    Some(CHECKPOINT_INTERVAL.1.to_owned()),
                ),
            ])
            .with_raise_if_key_not_exists(false)
            .with_save_mode(SaveMode::Ignore)
            // With retries, the library would commit the table's metadata once more after the first
            // version of a faster process.
            .with_commit_properties(CommitProperties::default().with_max_retries(0))
            .await;
        let table = match made {
            Ok(delta) => Table {
                name,
                location: location.clone(),
                delta,
            },
            // Another process was faster.
            Err(error) => Table::open(location, name)
                .await?
                .ok_or_else(|| fault(error))?,
        };
        table.record_head(0).await?;
        Ok(table)
    }

    /// Returns the table's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the version of this handle.
    pub fn version(&self) -> u64 {
        self.delta.version().unwrap_or_default()
    }

    /// Returns the version of the lake's format with which the table was created.
    pub fn format_version(&self) -> u32 {
        let metadata = self
            .delta
            .snapshot()
            .map(|state| state.metadata().configuration().clone())
            .unwrap_or_default();
        metadata
            .get(FORMAT_VERSION_KEY)
            .and_then(|version| version.parse().ok())
            .unwrap_or_default()
    }

    /// Returns the table's unique id, or an empty text if its log has none.
    pub fn id(&self) -> String {
        self.delta
            .snapshot()
            .map(|state| state.metadata().id().to_owned())
            .unwrap_or_default()
    }

    /// Returns when the table was created, in milliseconds since 1970, if its log states it.
    pub fn made_at(&self) -> Option<u64> {
        let state = self.delta.snapshot().ok()?;
        state
            .metadata()
            .created_time()
            .and_then(|made| made.try_into().ok())
    }

    /// Updates the handle to the newest version.
    ///
    /// # Errors
    /// [`EngineError::Delta`].
    pub async fn refresh(&mut self) -> Result<()> {
        if self.delta.update_state().await.is_err() {
            // An erasure may have removed the part of the log on which this handle is based.
            let mut delta = DeltaTable::new(self.delta.log_store());
            delta
                .load()
                .await
                .map_err(delta_error("can't read the log", self.name))?;
            self.delta = delta;
        }
        Ok(())
    }

    /// Returns the table as it was at `version`.
    ///
    /// # Errors
    /// [`EngineError::NoVersion`] if the log doesn't contain it, or not any more;
    /// [`EngineError::Delta`].
    pub async fn at_version(&self, version: u64) -> Result<Table> {
        let mut table = self.clone();
        match table.delta.load_version(version).await {
            Ok(()) => Ok(table),
            Err(error) => Err(
                match LogFile::reaches(&self.location, self.name, version).await? {
                    true => delta_error("can't read an earlier version", self.name)(error),
                    false => EngineError::NoVersion {
                        table: self.name,
                        version,
                    },
                },
            ),
        }
    }

    /// Returns the path of the file `name`, from the lake's root.
    pub fn path_of(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.name))
    }

    /// Returns the live files, in the order of their names.
    ///
    /// # Errors
    /// [`EngineError::Delta`].
    pub fn files(&self) -> Result<Vec<DataFile>> {
        let state = self
            .delta
            .snapshot()
            .map_err(delta_error("can't read the log", self.name))?;
        let mut files: Vec<_> = state
            .log_data()
            .iter()
            .map(|file| DataFile {
                name: file.path().into_owned(),
                size: file.size().max(0) as u64,
                rows: file.num_records().unwrap_or_default() as u64,
                digest: digest_tag(&file),
            })
            .collect();
        files.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(files)
    }

    /// Returns the removed files that the log still lists, and when they were removed, in
    /// milliseconds since 1970. Earlier versions need them.
    ///
    /// # Errors
    /// [`EngineError::Delta`].
    pub async fn tombstones(&self) -> Result<Vec<(String, i64)>> {
        let fault = delta_error("can't read the log", self.name);
        let state = self.delta.snapshot().map_err(&fault)?;
        let log_store = self.delta.log_store();
        let tombstones: Vec<_> = state
            .all_tombstones(&*log_store)
            .try_collect()
            .await
            .map_err(&fault)?;
        // A removal without a time counts as the youngest.
        let instant = |removed: Option<i64>| removed.unwrap_or(i64::MAX);
        Ok(tombstones
            .iter()
            .map(|file| (file.path().into_owned(), instant(file.deletion_timestamp())))
            .collect())
    }

    /// Commits `change` under the name `operation`, and updates the handle. Appends are retried
    /// after other writers' commits up to `retries` times.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if another writer made a change that can't be combined with this
    /// one; [`EngineError::Delta`].
    pub async fn commit(&mut self, change: Change, operation: &str, retries: usize) -> Result<u64> {
        let only_adds = change.removed.is_empty() && retries > 0;
        match self.try_commit(&change, operation, retries).await {
            // The library can't rebase a commit on an erasure, which removes the log that it would
            // read.
            Err(EngineError::Conflict(_)) if only_adds => {
                self.refresh().await?;
                self.try_commit(&change, operation, retries).await
            }
            committed => committed,
        }
    }

    async fn try_commit(
        &mut self,
        change: &Change,
        operation: &str,
        retries: usize,
    ) -> Result<u64> {
        let now = Utc::now().timestamp_millis();
        let removed = change
            .removed
            .iter()
            .map(|file| Action::Remove(remove_action(file, change.changes_rows, now)));
        let added = change
            .added
            .iter()
            .map(|file| Action::Add(add_action(file, change.changes_rows, now)));
        let actions = removed.chain(added).collect();
        let transaction = |(source, version): &(String, i64)| {
            Transaction::new_with_last_update(source.clone(), *version, Some(now))
        };
        let transactions = change.progress.iter().map(transaction).collect();
        let mut info = change.info.clone();
        info.insert("gristmill".to_owned(), Value::from(operation));
        info.insert(SEALED.to_owned(), self.sealed_entries().await?);
        let properties = CommitProperties::default()
            .with_application_transactions(transactions)
            .with_metadata(info)
            .with_max_retries(retries);
        let state = self
            .delta
            .snapshot()
            .map_err(delta_error("can't read the log", self.name))?;
        let operation = match (change.removed.is_empty(), change.changes_rows) {
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
        };
        let committed = CommitBuilder::from(properties)
            .with_actions(actions)
            .build(Some(state), self.delta.log_store(), operation)
            .await
            .map_err(|error| commit_error(self.name, error))?;
        self.refresh().await?;
        self.record_head(committed.version()).await?;
        Ok(committed.version())
    }

    /// Returns the digests of the newest commits that this handle sees, for the next commit to
    /// contain. This chain lets `verify` detect a changed entry of the log.
    async fn sealed_entries(&self) -> Result<Value> {
        let heads = Heads::load(&self.location).await?;
        let head = heads.as_ref().and_then(|heads| heads.tables.get(self.name));
        let seen = head
            .into_iter()
            .flat_map(|head| head.entries.range(..=self.version()));
        let mut entries: BTreeMap<u64, FileDigest> =
            seen.map(|(version, digest)| (*version, *digest)).collect();
        self.digest_entry(self.version(), &mut entries).await?;
        while entries.len() > SEALED_ENTRIES {
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
                .location
                .read_small(&commit_path(self.name, version))
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
        let (name, head) = (self.name, self.head(first).await?);
        Heads::update(&self.location, move |heads| heads.merge(name, head.clone())).await
    }

    /// Returns the head of the log, with the commits from `first` on.
    ///
    /// # Errors
    /// [`EngineError::File`], [`EngineError::Delta`].
    pub(super) async fn head(&self, first: u64) -> Result<TableHead> {
        let mut entries = BTreeMap::new();
        // More than the newest few would be dropped.
        let version = self.version();
        for version in first.max(version.saturating_sub(SEALED_ENTRIES as u64))..=version {
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
        let Some(hint) = self.location.read_small(&hint_path(self.name)).await? else {
            return Ok(None);
        };
        // An unreadable hint is reported by `verify`: the library doesn't need it.
        let Ok(Hint { version }) = serde_json::from_slice(&hint) else {
            return Ok(None);
        };
        let found = self
            .location
            .read_small(&checkpoint_path(self.name, version))
            .await?;
        let hint = FileDigest::of(&hint);
        Ok(found.map(|bytes| CheckpointHead {
            version,
            file: FileDigest::of(&bytes),
            hint,
        }))
    }

    /// Returns the information of the newest commits, newest first, at most `limit`.
    ///
    /// # Errors
    /// [`EngineError::Delta`].
    pub async fn history(&self, limit: usize) -> Result<Vec<serde_json::Map<String, Value>>> {
        let commits: Vec<_> = self
            .delta
            .history(Some(limit))
            .try_collect()
            .await
            .map_err(delta_error("can't read the history", self.name))?;
        let object = |commit| match serde_json::to_value(commit) {
            Ok(Value::Object(object)) => object,
            _ => serde_json::Map::new(),
        };
        Ok(commits.into_iter().map(object).collect())
    }

    /// Returns the table of the library.
    pub(super) fn delta(&self) -> &DeltaTable {
        &self.delta
    }

    /// Returns the location of the lake.
    pub fn location(&self) -> &LakeLocation {
        &self.location
    }
}

/// Returns the log of the table `name`. In object stores a commit is a conditional put, which all
/// of them support. The library supports only the schemes of stores that it was built with, so our
/// stores come from the connectors.
fn log_store(location: &LakeLocation, name: &str) -> Result<LogStoreRef, DeltaTableError> {
    let url = location.table_url(name);
    if let Ok(path) = url.to_file_path() {
        std::fs::create_dir_all(path)?;
    }
    match location.root_store() {
        None => DeltaTableBuilder::from_url(url)?.build_storage(),
        Some(root) => {
            let store = Arc::new(PrefixStore::new(
                Arc::clone(&root),
                location.path_in_store(name),
            ));
            Ok(default_logstore(
                store,
                root,
                &url,
                &StorageConfig::default(),
            ))
        }
    }
}

pub(super) fn delta_error(
    what: &'static str,
    table: &str,
) -> impl Fn(DeltaTableError) -> EngineError {
    let table = table.to_owned();
    move |cause| EngineError::Delta {
        what,
        table: table.clone(),
        cause: Box::new(cause),
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
        _ => delta_error("can't commit to the log", table)(error),
    }
}

/// The tag of an `add` action with the digest of the data file.
const DIGEST_TAG: &str = "gristmill.blake3";

/// The key of a commit's information with digests of the commits before it, by their versions.
pub(crate) const SEALED: &str = "gristmill.sealed";

/// How many earlier commits a commit contains the digests of. More than one, because concurrent
/// writers don't see each other's commits.
const SEALED_ENTRIES: usize = 4;

fn digest_tag(file: &LogicalFileView) -> Option<FileDigest> {
    // The library has no other access to the tags of a file.
    #[expect(deprecated)]
    let tags = file.add_action().tags;
    tags?.remove(DIGEST_TAG)??.parse().ok()
}

fn add_action(file: &DataFile, changes_rows: bool, now: i64) -> Add {
    Add {
        path: file.name.clone(),
        size: file.size as i64,
        modification_time: now,
        data_change: changes_rows,
        stats: Some(serde_json::json!({ "numRecords": file.rows }).to_string()),
        partition_values: HashMap::new(),
        tags: file
            .digest
            .map(|digest| HashMap::from([(DIGEST_TAG.to_owned(), Some(digest.to_string()))])),
        deletion_vector: None,
        base_row_id: None,
        default_row_commit_version: None,
        clustering_provider: None,
    }
}

fn remove_action(file: &DataFile, changes_rows: bool, now: i64) -> deltalake::kernel::Remove {
    deltalake::kernel::Remove {
        path: file.name.clone(),
        data_change: changes_rows,
        deletion_timestamp: Some(now),
        extended_file_metadata: Some(true),
        partition_values: Some(HashMap::new()),
        size: Some(file.size as i64),
        ..Default::default()
    }
}
