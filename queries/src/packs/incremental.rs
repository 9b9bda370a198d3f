//! The starting point of an incremental scan, from the audit log and the history of `grains`.

use std::collections::HashSet;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use gristmill_engine::error::EngineError;
use gristmill_engine::lake::{DataFile, Lake};

use super::error::Result;
use super::pack::Pack;
use super::scan::{ACTION, Since};
use crate::sql::DataFusionError;

/// Returns the version at which an incremental scan starts, and the files that existed then.
pub(super) async fn files_before(
    lake: &Lake,
    context: &SessionContext,
    packs: &[Pack],
    since: Since,
) -> Result<(Option<u64>, HashSet<String>)> {
    let version = match since {
        Since::Beginning => None,
        Since::Version(version) => Some(version),
        Since::Last => last_scan(context, packs).await?,
    };
    let Some(version) = version else {
        return Ok((None, HashSet::new()));
    };
    let names = |files: Vec<DataFile>| files.into_iter().map(|file| file.name).collect();
    match lake
        .grains
        .at_version(version)
        .await
        .and_then(|table| table.files())
    {
        Ok(files) => Ok((Some(version), names(files))),
        // The log was cleaned up, as an erasure does, so the state at that version is unknown and
        // everything is scanned.
        Err(EngineError::NoVersion { .. }) if since == Since::Last => {
            tracing::warn!(
                version,
                "the version of the last scan is no longer in the log: scanning everything"
            );
            Ok((None, HashSet::new()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns true if `file` may have rows that were added after the version `since`, whose files were
/// `old`. Rows that were merged into a new file, or rewritten, keep their versions.
pub(super) fn may_have_new_rows(
    file: &DataFile,
    since: Option<u64>,
    old: &HashSet<String>,
) -> bool {
    let Some(since) = since else {
        return true;
    };
    let versions = file.versions.as_ref();
    !old.contains(&file.name) && versions.is_none_or(|versions| versions.newest() > since)
}

/// Returns the version that was last scanned with exactly the rules of `packs`.
async fn last_scan(context: &SessionContext, packs: &[Pack]) -> Result<Option<u64>> {
    let query =
        format!("SELECT details FROM audit WHERE action = '{ACTION}' ORDER BY sequence DESC");
    let batches = context.sql(&query).await?.collect().await?;
    for batch in batches {
        let details = cast(batch.column(0), &DataType::Utf8).map_err(DataFusionError::from)?;
        for text in details.as_string::<i32>().iter().flatten() {
            if let Some(version) = scanned_version(text, packs) {
                return Ok(Some(version));
            }
        }
    }
    Ok(None)
}

/// Returns the version of a scan in the audit log, unless its rules weren't those of `packs`.
fn scanned_version(details: &str, packs: &[Pack]) -> Option<u64> {
    let entry: serde_json::Value = serde_json::from_str(details).ok()?;
    let same = |pack: &Pack| entry["packs"][&pack.id] == pack.stamp();
    let is_same = packs.iter().all(same);
    entry["version"].as_u64().filter(|_| is_same)
}
