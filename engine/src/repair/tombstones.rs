//! Restoring tombstones that the table `erased` has lost, from the copies next to the certificates.

use std::collections::{HashMap, HashSet};

use super::report::{RepairReport, Repaired, Unrepaired};
use crate::erase::{tombstones_from_bytes, tombstones_path};
use crate::error::{EngineError, Result};
use crate::file_digest::FileDigest;
use crate::keys::Tombstone;
use crate::lake::{DataFile, ERASED, ERASURES, FROM_BACKUP, Lake};
use crate::verify::tombstone_digests;

/// Restores tombstones that are in a copy but in no sound data file of `erased`. Damaged data files
/// are removed from the table in the same commit if exactly as many tombstones as they contained
/// are restored; otherwise they stay, nothing is restored, and they are listed.
///
/// # Errors
/// [`EngineError::Conflict`]; errors of reading a file that aren't damage.
pub(super) async fn repair(
    lake: &mut Lake,
    dry_run: bool,
    report: &mut RepairReport,
) -> Result<()> {
    let (mut sound, mut damaged) = (HashSet::new(), Vec::new());
    for file in lake.erased.files()? {
        match lake.tombstones_in(&file).await {
            Ok(rows) => sound.extend(rows),
            Err(error) if error.is_environment() => return Err(error),
            Err(_) => damaged.push(file),
        }
    }
    let lost = lost(lake, &mut sound, report).await?;
    let restored: u64 = lost
        .iter()
        .map(|(_, tombstones)| tombstones.len() as u64)
        .sum();
    if damaged.iter().map(|file| file.rows).sum::<u64>() != restored {
        for file in std::mem::take(&mut damaged) {
            let reason =
                "it isn't what was written, and not all of its tombstones are in copies".to_owned();
            report.unrepaired(unrepaired(lake, &file, reason));
        }
    }
    if lost.is_empty() && damaged.is_empty() {
        return Ok(());
    }
    report.repaired(Repaired {
        table: ERASED,
        file: ERASED.to_owned(),
        row: None,
        rows: Some(restored),
        columns: Vec::new(),
        what: "tombstones were restored from the copies next to the certificates",
    });
    match dry_run {
        true => Ok(()),
        false => lake.restore_tombstones(lost, damaged).await,
    }
}

/// Returns the tombstones of copies that aren't among the `sound` ones, by their erasures, and adds
/// them to `sound`. A copy that differs from its digest in the audit log is listed instead, and so
/// is one with lost tombstones that has no digest there.
async fn lost(
    lake: &Lake,
    sound: &mut HashSet<Tombstone>,
    report: &mut RepairReport,
) -> Result<Vec<(String, Vec<Tombstone>)>> {
    let mut lost = Vec::new();
    let digests = match lake.audit_entries().await {
        Ok(entries) => Some(tombstone_digests(&entries)),
        Err(error) if error.is_environment() => return Err(error),
        // A damaged log is listed with its own file, and states no digest.
        Err(_) => None,
    };
    let no_digests = HashMap::new();
    for id in erasures(lake).await? {
        let path = tombstones_path(&id);
        let Some(bytes) = lake.location().read_small(&path).await? else {
            continue;
        };
        let of_log = digests.as_ref().unwrap_or(&no_digests);
        let known = of_log.get(&id).map(Vec::as_slice).unwrap_or_default();
        if !known.is_empty() && !known.contains(&FileDigest::of(&bytes)) {
            let cause = "its bytes don't have the digest in the audit log".to_owned();
            let path = path.to_string();
            report.unrepaired(Unrepaired::file(ERASED, path, cause, FROM_BACKUP));
            continue;
        }
        match tombstones_from_bytes(&bytes, &path) {
            // An erasure that was killed at its end has no entry yet, and its tombstones are there.
            Ok(copied)
                if digests.is_some()
                    && known.is_empty()
                    && copied.iter().any(|it| !sound.contains(it)) =>
            {
                let cause = "the audit log has no digest of this copy".to_owned();
                let path = path.to_string();
                report.unrepaired(Unrepaired::file(ERASED, path, cause, FROM_BACKUP));
            }
            Ok(mut copied) => {
                copied.retain(|tombstone| sound.insert(*tombstone));
                lost.extend((!copied.is_empty()).then_some((id, copied)));
            }
            Err(EngineError::Damaged { cause, .. }) => {
                report.unrepaired(Unrepaired::file(
                    ERASED,
                    path.to_string(),
                    cause,
                    FROM_BACKUP,
                ));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(lost)
}

fn unrepaired(lake: &Lake, file: &DataFile, reason: String) -> Unrepaired {
    let path = lake.erased.path_of(&file.name).to_string();
    Unrepaired {
        rows: Some(file.rows),
        ..Unrepaired::file(ERASED, path, reason, FROM_BACKUP)
    }
}

/// Returns the names of the erasures with a certificate.
async fn erasures(lake: &Lake) -> Result<Vec<String>> {
    let files = lake.location().list(ERASURES).await?;
    let names = files.iter().filter_map(|file| file.location.filename());
    Ok(names
        .filter_map(|name| name.strip_suffix(".cose").map(str::to_owned))
        .collect())
}
