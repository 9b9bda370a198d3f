//! One Delta table of the lake: opening and creating it, its versions and live files.
//!
//! Data files are written by the engine before, and become part of
//! the table when a commit references them.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use deltalake::kernel::engine::arrow_conversion::TryIntoKernel;
use deltalake::kernel::transaction::CommitProperties;
use deltalake::kernel::{StructField, StructType};
use deltalake::logstore::{LogStoreRef, StorageConfig, default_logstore, logstore_with};
use deltalake::operations::create::CreateBuilder;
use deltalake::protocol::SaveMode;
use deltalake::{DeltaTable, DeltaTableBuilder, DeltaTableError};
use futures::TryStreamExt;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::column_statistics::stated_span;
use super::commit_cache::CommitCache;
use super::file_actions::FileTags;
use super::location::LakeLocation;
use super::log::LogFile;
use super::row_versions::RowVersions;
use crate::decoder_panic::caught_read;
use crate::error::{Context, EngineError, Result};
use crate::file_digest::{CreatedSpan, FileDigest, WrittenFile};
use crate::segment::CreationSeconds;

/// A data file of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFile {
    /// Its name in the table's folder.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its number of rows.
    pub rows: u64,
    /// The digest of its bytes. `None` for files of lakes of format 1 and of other engines.
    pub digest: Option<FileDigest>,
    /// The creation seconds of the grains in it. `None` for other tables, for encrypted rows, and
    /// for files of earlier releases and of other engines.
    pub seconds: Option<CreationSeconds>,
    /// When the grains in it were created. `None` for other tables, for encrypted rows, and for
    /// files of earlier releases.
    pub created: Option<CreatedSpan>,
    /// The digest of its Parquet footer, to which the sidecars of a segment are bound. `None` for
    /// other tables, and for files of earlier releases and of other engines.
    pub footer: Option<FileDigest>,
    /// The number of its rows that supersede others. `None` for other tables, for encrypted rows,
    /// and for files of earlier releases and of other engines.
    pub superseding: Option<u64>,
    /// The number of its rows that are disclosed copies of other grains. `None` for other tables,
    /// for encrypted rows of which it isn't known, and for files of earlier releases and of other
    /// engines.
    pub disclosed: Option<u64>,
    /// Since which versions of the table its rows are in it. `None` until the file is committed,
    /// and for files of earlier releases and of other engines.
    #[serde(skip)]
    pub versions: Option<RowVersions>,
}

impl DataFile {
    /// Returns the file `name` that was just written.
    pub(crate) fn new(name: String, written: WrittenFile) -> DataFile {
        DataFile {
            digest: Some(written.digest),
            created: written.created,
            ..DataFile::untagged(name, written.size, written.rows)
        }
    }

    /// Returns the file `name` without tags, as the log of another engine has it.
    pub fn untagged(name: impl Into<String>, size: u64, rows: u64) -> DataFile {
        DataFile {
            name: name.into(),
            size,
            rows,
            digest: None,
            seconds: None,
            created: None,
            footer: None,
            superseding: None,
            disclosed: None,
            versions: None,
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
    /// True if the added files stay when the commit is refused, because it is tried again.
    pub keeps_files: bool,
    /// When the run began that adds grains, as in their column `ingested_at`. `None` if other rows
    /// are added.
    pub ingested_at: Option<i64>,
    /// Changes of the ledger, as names and versions of application transactions.
    pub transactions: Vec<(String, i64)>,
    /// Additional information of the commit.
    pub info: serde_json::Map<String, Value>,
}

/// A handle of a Delta table at one version.
#[derive(Debug, Clone)]
pub struct Table {
    name: &'static str,
    location: LakeLocation,
    delta: DeltaTable,
    commits: CommitCache,
}

/// Returns the result of `read`, which reads the log. The reader of a damaged checkpoint can panic,
/// which becomes an error.
pub(super) async fn read_log<T>(
    read: impl Future<Output = Result<T, DeltaTableError>>,
) -> Result<T, DeltaTableError> {
    caught_read(read).await.unwrap_or_else(|| {
        let cause = "a checkpoint can't be decoded; `gristmill verify` checks it";
        Err(DeltaTableError::Generic(cause.to_owned()))
    })
}

/// The table property with the columns that have statistics. Delta keeps them in its log, where
/// they would survive an erasure, so only columns that can't contain personal data have them.
const STATISTICS_COLUMNS: &str = "delta.dataSkippingStatsColumns";

/// The table property with the version of the lake's format.
pub(super) const FORMAT_VERSION_KEY: &str = "gristmill.formatVersion";

/// The table property with the number of commits between two checkpoints of the log.
const CHECKPOINT_INTERVAL_KEY: &str = "delta.checkpointInterval";

/// The number of commits between two checkpoints of the log.
pub(super) const CHECKPOINT_INTERVAL: u64 = 20;

/// How often a log is read from its newest checkpoint before it counts as unreadable.
const LOADS: usize = 3;

impl Table {
    /// Opens the table `name`, or returns `None`, and creates nothing, if the lake has none. A log
    /// that can't be read is read again from its newest checkpoint, up to twice: an erasure may
    /// have removed entries in between.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if an entry of its log is missing or damaged;
    /// [`EngineError::Delta`].
    pub async fn open(location: &LakeLocation, name: &'static str) -> Result<Option<Table>> {
        if !location.may_have(name) {
            return Ok(None);
        }
        for _ in 1..LOADS {
            match Table::open_once(location, name).await {
                Err(error) if !error.is_environment() => {}
                opened => return opened,
            }
        }
        match Table::open_once(location, name).await {
            Err(error) if !error.is_environment() => {
                Err(LogFile::damage(location, name).await.unwrap_or(error))
            }
            opened => opened,
        }
    }

    async fn open_once(location: &LakeLocation, name: &'static str) -> Result<Option<Table>> {
        let mut table = Table::unopened(location, name)?;
        let load = table.commits.load();
        let loaded = read_log(table.delta.load()).await;
        drop(load);
        match loaded {
            Ok(()) => Ok(Some(table)),
            Err(DeltaTableError::NotATable(_)) => Ok(None),
            Err(error) => Err(delta_error("can't read the log", name)(error)),
        }
    }

    /// Returns a handle of the table `name` without reading its log: it has no version and no
    /// files.
    ///
    /// # Errors
    /// [`EngineError::Delta`] if the log's store can't be used.
    pub(super) fn unopened(location: &LakeLocation, name: &'static str) -> Result<Table> {
        let commits = CommitCache::default();
        let store = log_store(location, name, &commits);
        Ok(Table {
            name,
            location: location.clone(),
            delta: DeltaTable::new(store.map_err(delta_error("can't read the log", name))?),
            commits,
        })
    }

    /// Returns true if the log has been read.
    pub fn is_opened(&self) -> bool {
        self.delta.version().is_some()
    }

    /// Creates the table `name`. If another process creates it at the same time, that one is
    /// opened.
    ///
    /// # Errors
    /// [`EngineError::File`] if its folder can't be made; [`EngineError::Delta`].
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
        if let Some(folder) = location.local_path(&Path::from(name)) {
            std::fs::create_dir_all(&folder).file("can't make the folder", folder.display())?;
        }
        let commits = CommitCache::default();
        let made = CreateBuilder::new()
            .with_log_store(log_store(location, name, &commits).map_err(&fault)?)
            .with_table_name(name)
            .with_columns(columns.fields().cloned().collect::<Vec<StructField>>())
            .with_configuration([
                (
                    FORMAT_VERSION_KEY.to_owned(),
                    Some(super::FORMAT_VERSION.to_string()),
                ),
                (STATISTICS_COLUMNS.to_owned(), Some(statistics.to_owned())),
                (
                    CHECKPOINT_INTERVAL_KEY.to_owned(),
                    Some(CHECKPOINT_INTERVAL.to_string()),
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
                commits,
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
    pub fn created_at(&self) -> Option<u64> {
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
        let _load = self.commits.load();
        let mut updated = read_log(self.delta.update_state()).await;
        // An erasure may have removed the part of the log on which this handle is based, or removes
        // entries while they are read.
        for _ in 0..LOADS {
            if updated.is_ok() {
                break;
            }
            let mut delta = DeltaTable::new(self.delta.log_store());
            updated = read_log(delta.load()).await;
            if updated.is_ok() {
                self.delta = delta;
            }
        }
        updated.map_err(delta_error("can't read the log", self.name))
    }

    /// Returns the table as it was at `version`.
    ///
    /// # Errors
    /// [`EngineError::NoVersion`] if the log doesn't contain it, or not any more;
    /// [`EngineError::Delta`].
    pub async fn at_version(&self, version: u64) -> Result<Table> {
        let mut table = self.clone();
        let _load = self.commits.load();
        match read_log(table.delta.load_version(version)).await {
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
            .map(|file| {
                let FileTags {
                    digest,
                    seconds,
                    footer,
                    superseding,
                    disclosed,
                    versions,
                } = FileTags::of(&file);
                DataFile {
                    name: file.path().into_owned(),
                    size: file.size().max(0) as u64,
                    rows: file.num_records().unwrap_or_default() as u64,
                    digest,
                    seconds,
                    created: stated_span(&file),
                    footer,
                    superseding,
                    disclosed,
                    versions,
                }
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
        let tombstones = state.all_tombstones(&*log_store).try_collect();
        let tombstones: Vec<_> = read_log(tombstones).await.map_err(&fault)?;
        // A removal without a time counts as the youngest.
        let instant = |removed: Option<i64>| removed.unwrap_or(i64::MAX);
        Ok(tombstones
            .iter()
            .map(|file| (file.path().into_owned(), instant(file.deletion_timestamp())))
            .collect())
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
fn log_store(
    location: &LakeLocation,
    name: &str,
    commits: &CommitCache,
) -> Result<LogStoreRef, DeltaTableError> {
    let url = location.table_url(name);
    match location.root_store() {
        // A network share (Windows), for which the library makes the store.
        None if url.has_host() => DeltaTableBuilder::from_url(url)?.build_storage(),
        None => {
            let root = commits.over(Arc::new(LocalFileSystem::new()));
            logstore_with(root, &url, StorageConfig::default())
        }
        Some(root) => {
            let root = commits.over(root);
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

/// Returns the columns of `grains` that may have statistics in Delta's log: none that could contain
/// personal data.
pub(super) fn statistics_columns() -> String {
    [
        SystemColumn::TypeByte.name(),
        Field::CreatedAt.name(),
        SystemColumn::IngestedAt.name(),
    ]
    .join(",")
}
