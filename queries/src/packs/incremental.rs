//! Which files an incremental scan reads, from the audit log and the log of `grains`.
//!
//! The log states for each file at which versions its rows were added, also after rows were merged
//! or an erasure has cleaned the log ([`RowVersions`](gristmill_engine::lake::RowVersions)). So a
//! scan leaves out the files whose rows are all older than the last scan. A repair can correct rows
//! that are older: after one, all files are read that the last scan didn't see.

use std::collections::HashSet;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use gristmill_engine::error::EngineError;
use gristmill_engine::lake::{ACCEPTED, DataFile, Lake};
use serde_json::Value;

use super::error::Result;
use super::pack::Pack;
use super::scan::{ACTION, LEFT_OUT, PROGRAM_VERSION, Since};
use crate::sql::DataFusionError;

/// The files that an incremental scan reads.
pub(super) struct NewFiles {
    since: u64,
    /// The version of `state` after which events are new; `None` if all are.
    events_since: Option<u64>,
    /// Names of the files of that version; `None` if the log no longer has it.
    old: Option<HashSet<String>>,
    /// Rows of older versions may have changed.
    is_repaired: bool,
}

impl NewFiles {
    /// Returns the files that a scan from `since` reads; `None` for all.
    ///
    /// # Errors
    /// [`EngineError::NoVersion`] for a version that the lake doesn't have yet; errors of reading
    /// its logs.
    pub(super) async fn of(
        lake: &Lake,
        context: &SessionContext,
        packs: &[Pack],
        since: Since,
    ) -> Result<Option<NewFiles>> {
        let since = match since {
            Since::Beginning => None,
            Since::Version(grains) => Some(ScannedVersions {
                grains,
                state: None,
            }),
            // After `repair --accept-logs` or the restoration of a copy, versions are used again.
            Since::Last => last_scan(context, packs)
                .await?
                .filter(|last| last.grains <= lake.grains.version()),
        };
        let Some(ScannedVersions {
            grains: since,
            state,
        }) = since
        else {
            return Ok(None);
        };
        let old = files_at(lake, since).await?;
        let is_repaired = is_repaired_after(context, since).await?;
        if is_repaired && old.is_none() {
            tracing::warn!(
                version = since,
                "rows were repaired, and the log no longer has the version of the last scan: \
                 scanning everything"
            );
            return Ok(None);
        }
        Ok(Some(NewFiles {
            since,
            events_since: state.filter(|state| *state <= lake.state.version()),
            old,
            is_repaired,
        }))
    }

    /// Returns the version after which rows are new.
    pub(super) fn since(&self) -> u64 {
        self.since
    }

    /// Returns true if the scan reads `file`.
    pub(super) fn contain(&self, file: &DataFile) -> bool {
        let is_old = |old: &HashSet<String>| old.contains(&file.name);
        let is_seen = self.old.as_ref().is_some_and(is_old);
        match &file.versions {
            Some(versions) if !self.is_repaired => versions.newest() > self.since,
            _ => !is_seen,
        }
    }

    /// Returns true if the events of `file`, one of `state`, are in the scope of the scan.
    pub(super) fn contain_events(&self, file: &DataFile) -> bool {
        match (self.events_since, &file.versions) {
            (Some(since), Some(versions)) if !self.is_repaired => versions.newest() > since,
            _ => true,
        }
    }
}

/// The versions of the tables that a scan has seen.
#[derive(Debug, Clone, Copy)]
struct ScannedVersions {
    grains: u64,
    /// `None` if it isn't recorded.
    state: Option<u64>,
}

/// Returns the names of the files that `grains` had at `version`; `None` if the log was cleaned up
/// since.
async fn files_at(lake: &Lake, version: u64) -> Result<Option<HashSet<String>>> {
    let files = lake
        .grains
        .at_version(version)
        .await
        .and_then(|table| table.files());
    match files {
        Ok(files) => Ok(Some(files.into_iter().map(|file| file.name).collect())),
        Err(EngineError::NoVersion { .. }) if version <= lake.grains.version() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the versions up to which this version of gristmill has scanned the lake with all rules
/// of `packs`, and perhaps others; `None` if it hasn't, or if the log of the lake was accepted with
/// losses since. A scan that began after the version that those before it had reached doesn't
/// count: what is between them wasn't scanned.
async fn last_scan(context: &SessionContext, packs: &[Pack]) -> Result<Option<ScannedVersions>> {
    let mut reached: Option<ScannedVersions> = None;
    for (action, details) in entries(context, &[ACTION, ACCEPTED]).await?.iter().rev() {
        if action == ACCEPTED {
            reached = None;
        } else if let Some(versions) = scanned_versions(details, packs) {
            let began = details["since"].as_u64();
            let is_continued = |began| reached.is_some_and(|reached| began <= reached.grains);
            if began.is_none_or(is_continued) {
                reached = Some(versions);
            }
        }
    }
    Ok(reached)
}

/// Returns the versions of a scan in the audit log, unless it lacked a rule of `packs`, left out
/// sealed data, or its functions and detectors were those of another version of gristmill.
fn scanned_versions(details: &Value, packs: &[Pack]) -> Option<ScannedVersions> {
    let scanned: HashSet<&str> = match &details["rules"] {
        Value::Array(ids) => ids.iter().filter_map(Value::as_str).collect(),
        _ => HashSet::new(),
    };
    let has_rules = |pack: &Pack| {
        let mut rules = pack.rules.iter();
        details["packs"][&pack.id] == pack.stamp()
            && rules.all(|rule| scanned.contains(rule.id.as_str()))
    };
    let is_program = details["gristmill"] == PROGRAM_VERSION;
    // An entry without the member is of a build that didn't record it.
    let is_whole = details[LEFT_OUT] == false;
    let grains = details["version"].as_u64();
    let grains = grains.filter(|_| is_program && is_whole && packs.iter().all(has_rules))?;
    Some(ScannedVersions {
        grains,
        state: details["state_version"].as_u64(),
    })
}

/// Returns true if `repair` has rewritten rows since `version` of `grains`.
async fn is_repaired_after(context: &SessionContext, version: u64) -> Result<bool> {
    let repairs = entries(context, &["repair"]).await?;
    Ok(repairs.iter().any(|(_, details)| {
        let is_later = details["version"].as_u64().is_none_or(|it| it > version);
        details["segments"].as_u64() != Some(0) && is_later
    }))
}

/// Returns the entries of the audit log with one of `actions`, newest first: the action and its
/// details.
async fn entries(context: &SessionContext, actions: &[&str]) -> Result<Vec<(String, Value)>> {
    let actions = actions.join("', '");
    let query = format!(
        "SELECT action, details FROM audit WHERE action IN ('{actions}') ORDER BY sequence DESC"
    );
    let mut entries = Vec::new();
    for batch in context.sql(&query).await?.collect().await? {
        let text = |column| cast(batch.column(column), &DataType::Utf8);
        let (actions, details) = (text(0), text(1));
        let actions = actions.map_err(DataFusionError::from)?;
        let details = details.map_err(DataFusionError::from)?;
        let texts = details.as_string::<i32>().iter();
        for (action, text) in actions.as_string::<i32>().iter().zip(texts) {
            let details = text.and_then(|text| serde_json::from_str(text).ok());
            entries.extend(action.map(str::to_owned).zip(details));
        }
    }
    Ok(entries)
}
