//! The checks of every opening of a lake, so that no query reads a table that lost its end.
//!
//! Versions and lists of files are compared with `heads.json`, and, if the lake is a folder, the
//! sizes of data files with the log. Content digests are checked by `verify` only.

use gristmill_schemas::columns::GRAINS;
use object_store::path::Path;

use super::encryption::ENCRYPTION;
use super::heads::{ACCEPT, HEADS, Heads, TableHead, digest_of_files};
use super::location::LakeLocation;
use super::log::LogFile;
use super::table::Table;
use super::{ERASED, FIRST_WITH_HEADS, Lake, TABLES};
use crate::error::{EngineError, Result};
use crate::file_digest::FileDigest;

/// How often the files of a table that was just read are checked again: an erasure removes files
/// that this handle still lists.
const ATTEMPTS: usize = 3;

/// What is wrong with a table, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableDamage {
    /// What was found and what was expected.
    pub(crate) cause: String,
    /// What the user can do.
    pub(crate) remedy: &'static str,
}

impl TableDamage {
    pub(crate) fn error(self, table: &str) -> EngineError {
        EngineError::Damaged {
            what: format!("the table `{table}`"),
            cause: self.cause,
            remedy: self.remedy,
        }
    }
}

/// Compares the version of `table`, and its list of files, with `head`. Returns `None` if it is
/// sound.
///
/// # Errors
/// [`EngineError::Delta`].
pub(crate) fn head_damage(table: &Table, head: &TableHead) -> Result<Option<TableDamage>> {
    let fault = |cause| {
        Ok(Some(TableDamage {
            cause,
            remedy: ACCEPT,
        }))
    };
    if table.version() < head.version {
        let (found, expected) = (table.version(), head.version);
        return fault(format!(
            "its log ends at version {found}, and `{HEADS}` has version {expected}: entries are \
             missing"
        ));
    }
    if table.version() == head.version && digest_of_files(&table.files()?) != head.files {
        let version = head.version;
        return fault(format!(
            "its log names other files in version {version} than `{HEADS}`: an entry or a \
             checkpoint was changed"
        ));
    }
    Ok(None)
}

/// As [`head_damage`], for a head that was read after `table`: another process may have committed
/// in between, so a table that differs is read again before.
///
/// # Errors
/// [`EngineError::Delta`]; errors of the environment.
pub(crate) async fn damage_to_head(table: &Table, head: &TableHead) -> Result<Option<TableDamage>> {
    if head_damage(table, head)?.is_none() {
        return Ok(None);
    }
    let mut newest = table.clone();
    match newest.refresh().await {
        Err(error) if error.is_environment() => Err(error),
        _ => head_damage(&newest, head),
    }
}

/// Checks that a lake whose `grains` were opened has heads.
///
/// # Errors
/// [`EngineError::Damaged`] if its format requires them and they are missing;
/// [`EngineError::File`].
pub(super) async fn check_presence(
    location: &LakeLocation,
    grains: &Table,
    heads: Option<&Heads>,
) -> Result<()> {
    let is_missing = heads.is_none() && grains.format_version() >= FIRST_WITH_HEADS;
    match is_missing && !is_begun(location, grains).await? {
        true => Err(EngineError::Damaged {
            what: format!("the lake at `{}`", location.name()),
            cause: format!("`{HEADS}` is missing"),
            remedy: ACCEPT,
        }),
        false => Ok(()),
    }
}

/// Returns true if the lake contains only an empty table `grains`, which a process leaves that is
/// killed while it creates a lake.
async fn is_begun(location: &LakeLocation, grains: &Table) -> Result<bool> {
    for name in TABLES.into_iter().filter(|name| *name != GRAINS) {
        if !LogFile::list(location, name).await?.is_empty() {
            return Ok(false);
        }
    }
    Ok(grains.version() == 0)
}

/// Compares `encryption.json` with its digest in `heads`.
///
/// # Errors
/// [`EngineError::Damaged`] if it is missing or differs; [`EngineError::File`].
pub(super) async fn check_encryption(location: &LakeLocation, heads: &Heads) -> Result<()> {
    let Some(expected) = heads.encryption else {
        return Ok(());
    };
    let found = location.read_small(&Path::from(ENCRYPTION)).await?;
    let cause = match found.map(|bytes| FileDigest::of(&bytes) == expected) {
        Some(true) => return Ok(()),
        Some(false) => "its content isn't what was written",
        None => MARKER_LOST,
    };
    Err(damaged_marker(location, cause))
}

/// What is wrong with `encryption.json` if an encrypted lake has none.
pub(super) const MARKER_LOST: &str = "it is missing, and the lake is encrypted";

/// Returns the error of a lake whose `encryption.json` is missing or differs.
pub(super) fn damaged_marker(location: &LakeLocation, cause: &str) -> EngineError {
    EngineError::Damaged {
        what: format!("`{}/{ENCRYPTION}`", location.name()),
        cause: cause.to_owned(),
        remedy: "restore the file from a backup of the lake: without it encrypted rows can't be \
                 read",
    }
}

impl Lake {
    /// Compares `encryption.json` with its digest in the heads, if they contain one.
    ///
    /// # Errors
    /// [`EngineError::Damaged`], also if the heads are; [`EngineError::File`].
    pub(crate) async fn check_encryption(&self) -> Result<()> {
        match Heads::load(self.location()).await {
            Ok(Some(heads)) => check_encryption(self.location(), &heads).await,
            // Damaged heads are found by the comparison with the tables.
            Ok(None) | Err(EngineError::Damaged { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Compares the logs of all tables with the lake's heads.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] names the first table that differs, or states that the heads are
    /// damaged or missing; [`EngineError::Delta`].
    pub(crate) async fn check_heads(&self) -> Result<()> {
        let heads = Heads::load(self.location()).await?;
        check_presence(self.location(), &self.grains, heads.as_ref()).await?;
        for table in self.tables() {
            let head = heads
                .as_ref()
                .and_then(|heads| heads.tables.get(table.name()));
            if let Some(head) = head
                && let Some(fault) = damage_to_head(table, head).await?
            {
                return Err(fault.error(table.name()));
            }
        }
        Ok(())
    }

    /// Compares all tables with `heads`, and their data files with the log. Returns the damage if
    /// only data files of `grains` are lost.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] names the first other table that differs; [`EngineError::Delta`].
    pub(super) async fn check_tables(
        &mut self,
        heads: Option<&Heads>,
    ) -> Result<Option<EngineError>> {
        let mut lost = None;
        for table in self.tables_mut() {
            check_head(table, heads)?;
            let checked = check_files(table).await;
            match checked {
                Err(damage @ EngineError::Damaged { .. }) if table.name() == GRAINS => {
                    lost = Some(damage);
                }
                checked => checked?,
            }
        }
        Ok(lost)
    }
}

/// Compares `table` with its head in `heads`, and its data files with the log.
///
/// # Errors
/// [`EngineError::Damaged`] if it differs; [`EngineError::Delta`].
pub(super) async fn check_table(table: &mut Table, heads: Option<&Heads>) -> Result<()> {
    check_head(table, heads)?;
    check_files(table).await
}

/// Compares `table` with its head in `heads`, if it has one.
fn check_head(table: &Table, heads: Option<&Heads>) -> Result<()> {
    let head = heads.and_then(|heads| heads.tables.get(table.name()));
    let fault = head.map(|head| head_damage(table, head)).transpose()?;
    match fault.flatten() {
        Some(fault) => Err(fault.error(table.name())),
        None => Ok(()),
    }
}

/// Compares the sizes of the data files of `table` with its log, if the lake is a folder.
async fn check_files(table: &mut Table) -> Result<()> {
    let mut attempt = 0;
    while let Some((name, cause)) = first_wrong_size(table)? {
        attempt += 1;
        if attempt == ATTEMPTS {
            let what = format!("`{}`", table.path_of(&name));
            return Err(EngineError::Damaged {
                what,
                cause,
                remedy: remedy_of_lost_file(table.name()),
            });
        }
        table.refresh().await?;
    }
    Ok(())
}

/// The remedy for damage to what follows from nothing else in the lake.
pub(crate) const FROM_BACKUP: &str = "restore the file from a backup of the lake";

/// The remedy for a damaged data file whose rows, or copies of them, may still be read.
pub(crate) const REMEDY_OF_FILES: &str = "`gristmill repair` rebuilds it if the rest allows that, \
                                          otherwise restore it from a backup of the lake; \
                                          `gristmill verify` lists all that is damaged";

/// The remedy for a data file of `grains` of which no row can be read: `repair` computes columns
/// from blobs, and the blobs are in this file only.
const LOST_SEGMENT: &str = "restore it from a backup of the lake (`cp \
                            BACKUP/grains/part-….parquet LAKE/grains/`); without a backup, ingest \
                            the sources into a new lake; `gristmill verify` lists all that is \
                            damaged";

/// The same for a table whose rows are in no other place.
const LOST_ROWS: &str = "restore it from a backup of the lake; `gristmill verify` lists all that \
                         is damaged";

/// Returns the remedy for a data file of `table` that is missing, or whose rows can't be read.
pub(crate) fn remedy_of_lost_file(table: &str) -> &'static str {
    match table {
        GRAINS => LOST_SEGMENT,
        // `repair` has the copies of tombstones that are stored with the certificates.
        ERASED => REMEDY_OF_FILES,
        _ => LOST_ROWS,
    }
}

/// Returns the remedy for a data file of `table` with other bytes than were written.
pub(crate) fn remedy_of_changed_file(table: &str) -> &'static str {
    match table {
        GRAINS => REMEDY_OF_FILES,
        other => remedy_of_lost_file(other),
    }
}

fn first_wrong_size(table: &Table) -> Result<Option<(String, String)>> {
    for file in table.files()? {
        let Some(path) = table.location().local_path(&table.path_of(&file.name)) else {
            return Ok(None);
        };
        let cause = match std::fs::metadata(path) {
            Ok(found) if found.len() == file.size => continue,
            Ok(found) => format!("it has {} bytes, its log says {}", found.len(), file.size),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                "it is missing".to_owned()
            }
            // Permissions and similar problems are reported by the reader of the file.
            Err(_) => continue,
        };
        return Ok(Some((file.name, cause)));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_commit_between_reading_the_tables_and_the_heads_is_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("lake").display().to_string();
        let early = Lake::open_or_create(&place).await.unwrap();
        let mut late = Lake::open_or_create(&place).await.unwrap();
        late.record("test", serde_json::json!({})).await.unwrap();
        early.check_heads().await.unwrap();
        let log = folder.path().join("lake/audit/_delta_log");
        std::fs::remove_file(log.join("00000000000000000001.json")).unwrap();
        assert!(early.check_heads().await.is_err());
    }
}
