//! Checks whether a new lake may be created at a location: only if it is empty, or contains what a
//! process left that was killed while it created a lake.

use gristmill_schemas::columns::{GRAINS, STATE};

use super::heads::{HEADS, LOCK};
use super::location::{LakeLocation, SCRATCH};
use super::{AUDIT, ERASED};
use crate::error::{EngineError, Result};

/// Names that file systems and desktops create in folders.
const OF_THE_SYSTEM: [&str; 2] = ["lost+found", ".DS_Store"];

/// What a new lake contains before its first table.
const OF_A_LAKE: [&str; 4] = [GRAINS, HEADS, LOCK, SCRATCH];

/// How many names a message lists.
const LISTED: usize = 3;

/// Fails if there is anything at `location` except the beginning of the table `grains`, which is
/// the first of a new lake. It is called if that table can't be opened, and creates nothing.
///
/// # Errors
/// [`EngineError::NotALake`]; [`EngineError::TableLost`] if the other tables of a lake are there;
/// [`EngineError::File`] if the location can't be listed.
pub(super) async fn check(location: &LakeLocation) -> Result<()> {
    let names = location.names().await?;
    let has = |name: &str| names.iter().any(|found| found == name);
    if [STATE, AUDIT, ERASED].into_iter().all(has) {
        return Err(EngineError::TableLost {
            uri: location.name(),
            table: GRAINS,
        });
    }
    let known = |name: &str| OF_A_LAKE.contains(&name) || OF_THE_SYSTEM.contains(&name);
    let mut foreign: Vec<String> = names.iter().filter(|name| !known(name)).cloned().collect();
    if has(GRAINS) {
        let log = format!("{GRAINS}/_delta_log/");
        let files = location
            .list(GRAINS)
            .await?
            .into_iter()
            .map(|file| file.location.to_string());
        foreign.extend(files.filter(|path| !path.starts_with(&log)));
    }
    match foreign.is_empty() {
        true => Ok(()),
        false => Err(EngineError::NotALake {
            uri: location.name(),
            holds: listed(&foreign),
        }),
    }
}

fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(LISTED)
        .map(|name| format!("`{}`", name.escape_debug()))
        .collect();
    match names.len().saturating_sub(LISTED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
