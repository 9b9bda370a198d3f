//! The cache of Parquet footers and page indexes, which the contexts of several versions of a lake
//! share. Stored files are immutable and their names are never used again, so an entry is right in
//! every version; the cache has a limit in bytes, beyond which the oldest entries go.
//!
//! Footers may contain values of the rows, so those of files that a compaction or an erasure has
//! replaced are removed. Queries of an earlier version that still run read them again, but don't
//! bring them back.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use datafusion::catalog::Session;
use datafusion::common::{HashMap, TableReference};
use datafusion::error::Result;
use datafusion::execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadataCache};
use datafusion::execution::cache::{Cache, CacheEntryInfo};
use datafusion::object_store::path::Path;
use datafusion::prelude::SessionContext;
use gristmill_engine::lake::Lake;

use super::external;

/// Whether a context reads the newest version of its lake, an extension of its configuration.
#[derive(Debug)]
pub(super) struct NewestVersion(RwLock<bool>);

impl Default for NewestVersion {
    fn default() -> NewestVersion {
        NewestVersion(RwLock::new(true))
    }
}

impl NewestVersion {
    /// Returns that of a context, which contexts share that read the same version.
    pub(super) fn of(context: &SessionContext) -> Arc<NewestVersion> {
        let version = context.copied_config().get_extension::<NewestVersion>();
        version.unwrap_or_default()
    }
}

/// Returns the cache for the readers of a session.
pub(super) fn of_session(session: &dyn Session) -> Arc<FileMetadataCache> {
    let footers = session
        .runtime_env()
        .cache_manager
        .get_file_metadata_cache();
    match session.config().get_extension::<NewestVersion>() {
        Some(version) => Arc::new(VersionedCache { footers, version }),
        None => footers,
    }
}

/// Removes the entries of files that `lake` doesn't reference, which is a newer version of the lake
/// of `earlier`. Queries of `earlier` add no entries from now on.
///
/// # Errors
/// [`DataFusionError::External`](super::DataFusionError::External) if a log can't be read.
pub(super) fn forget_removed_files(lake: &Lake, earlier: &SessionContext) -> Result<()> {
    let version = NewestVersion::of(earlier);
    *version.0.write().unwrap_or_else(PoisonError::into_inner) = false;
    let runtime = earlier.runtime_env();
    let footers = runtime.cache_manager.get_file_metadata_cache();
    if footers.is_empty() {
        return Ok(());
    }
    let (mut live, mut folders) = (HashSet::new(), Vec::new());
    let tables = lake.tables().into_iter().filter(|table| table.is_opened());
    for table in tables {
        let files = table.files().map_err(external)?;
        let paths = files.iter().map(|file| table.path_of(&file.name));
        live.extend(paths.map(|path| path.to_string()));
        folders.push(format!("{}/", table.name()));
    }
    for path in footers.list_entries().into_keys() {
        let text = path.to_string();
        let is_of_table = folders.iter().any(|folder| text.starts_with(folder));
        if is_of_table && !live.contains(&text) {
            footers.remove(&path);
        }
    }
    Ok(())
}

/// The cache as a session uses it: it gets no entries when there is a newer version of the lake.
struct VersionedCache {
    footers: Arc<FileMetadataCache>,
    version: Arc<NewestVersion>,
}

impl Cache<Path, CachedFileMetadataEntry> for VersionedCache {
    fn get(&self, path: &Path) -> Option<CachedFileMetadataEntry> {
        self.footers.get(path)
    }

    fn put(&self, path: &Path, entry: CachedFileMetadataEntry) -> Option<CachedFileMetadataEntry> {
        // Held until the entry is in the cache, so that it is there when entries are removed.
        let is_newest = self.version.0.read();
        let is_newest = is_newest.unwrap_or_else(PoisonError::into_inner);
        match *is_newest {
            true => self.footers.put(path, entry),
            false => None,
        }
    }

    fn remove(&self, path: &Path) -> Option<CachedFileMetadataEntry> {
        self.footers.remove(path)
    }

    fn contains_key(&self, path: &Path) -> bool {
        self.footers.contains_key(path)
    }

    fn len(&self) -> usize {
        self.footers.len()
    }

    fn clear(&self) {
        self.footers.clear();
    }

    fn name(&self) -> String {
        self.footers.name()
    }

    fn cache_limit(&self) -> usize {
        self.footers.cache_limit()
    }

    fn update_cache_limit(&self, limit: usize) {
        self.footers.update_cache_limit(limit);
    }

    fn cache_ttl(&self) -> Option<Duration> {
        self.footers.cache_ttl()
    }

    fn update_cache_ttl(&self, time: Option<Duration>) {
        self.footers.update_cache_ttl(time);
    }

    fn drop_table_entries(&self, table: &TableReference) -> Result<()> {
        self.footers.drop_table_entries(table)
    }

    fn list_entries(&self) -> HashMap<Path, CacheEntryInfo<CachedFileMetadataEntry>> {
        self.footers.list_entries()
    }
}
