//! Listing damaged data files of the tables whose rows are in no other place: events, rejects,
//! sources and the audit log.

use super::report::{RepairReport, Unrepaired};
use crate::error::Result;
use crate::file_digest::FileDigest;
use crate::lake::{DataFile, FROM_BACKUP, Lake, Table};

/// Lists the data files that aren't what was written. Files without a digest are compared by size.
///
/// # Errors
/// Errors of reading a file that aren't damage.
pub(super) async fn list_damage(lake: &Lake, report: &mut RepairReport) -> Result<()> {
    let tables = [&lake.state, &lake.rejects, &lake.audit].into_iter();
    for table in tables.chain(lake.sources.as_ref()) {
        let Some(opened) = lake.opened(table).await? else {
            continue;
        };
        for file in opened.files()? {
            if let Some(reason) = damage(lake, &opened, &file).await? {
                let path = opened.path_of(&file.name).to_string();
                report.unrepaired(Unrepaired {
                    rows: Some(file.rows),
                    ..Unrepaired::file(opened.name(), path, reason, FROM_BACKUP)
                });
            }
        }
    }
    Ok(())
}

/// Returns how a data file differs from what was written.
async fn damage(lake: &Lake, table: &Table, file: &DataFile) -> Result<Option<String>> {
    let bytes = match lake.location().read(&table.path_of(&file.name)).await {
        Ok(bytes) => bytes,
        Err(error) if error.is_environment() => return Err(error),
        Err(error) => return Ok(Some(error.to_string())),
    };
    let is_sound = bytes.len() as u64 == file.size
        && file
            .digest
            .is_none_or(|digest| digest == FileDigest::of(&bytes));
    Ok((!is_sound).then(|| "it isn't what was written".to_owned()))
}
