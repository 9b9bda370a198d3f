//! The cache of Parquet footers and page indexes, which the contexts of several versions of a lake
//! share. Stored files are immutable and their names are never used again, so an entry is right in
//! every version; the cache has a limit in bytes, beyond which the oldest entries go.

use std::collections::HashSet;

use datafusion::error::Result;
use datafusion::execution::runtime_env::RuntimeEnv;
use gristmill_engine::lake::Lake;

use super::external;

/// Removes the entries of files that `lake` doesn't reference: those that a compaction or an
/// erasure has replaced. Footers may contain values of the rows. A query of an earlier version
/// reads such a footer again.
///
/// # Errors
/// [`DataFusionError::External`](super::DataFusionError::External) if a log can't be read.
pub(super) fn forget_removed_files(lake: &Lake, runtime: &RuntimeEnv) -> Result<()> {
    let footers = runtime.cache_manager.get_file_metadata_cache();
    if footers.is_empty() {
        return Ok(());
    }
    let tables = lake.tables().into_iter().filter(|table| table.is_opened());
    let (mut live, mut folders) = (HashSet::new(), Vec::new());
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
