//! The audit log: a chain of entries, each holding the hash of the one before.

use std::collections::{BTreeMap, HashSet};

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use chrono::Utc;
use gristmill_schemas::columns::{AuditRow, audit_batch};
use serde_json::json;

use super::heads::{HEADS, Heads, digest_of_files};
use super::records::text;
use super::soundness::fault_of;
use super::table::Change;
use super::{ERASURES, FIRST_WITH_HEADS, Lake, Segment};
use crate::error::{Context, EngineError, Result};
use crate::file_digest::FileDigest;

/// The table of what the engine did.
pub const AUDIT: &str = "audit";

/// How often an entry is put behind those of other writers before it is given up.
const ATTEMPTS: usize = 20;

/// What stands for the operator `name` in the log of the lake whose audit table is `lake`: the same
/// for the same name, so that what one person did can be told from what others did, and no name.
pub(super) fn pseudonym(lake: &str, name: &str) -> String {
    let hash = blake3::Hasher::new_derive_key("gristmill audit actor")
        .update(lake.as_bytes())
        .update(&[0])
        .update(name.as_bytes())
        .finalize();
    format!(
        "operator:{}",
        hex::encode(hash.as_bytes().get(..8).unwrap_or_default())
    )
}

impl Lake {
    /// Appends what was done to the audit log: the action and its counts, never personal data.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if other writers were faster every time; [`EngineError::File`],
    /// [`EngineError::Delta`].
    pub async fn record(&mut self, action: &str, mut details: serde_json::Value) -> Result<()> {
        self.upgrade().await?;
        if let Some(details) = details.as_object_mut() {
            details.insert("tables".to_owned(), self.versions().await?);
        }
        for _ in 0..ATTEMPTS {
            self.audit.refresh().await?;
            let entry = self.next_entry(action, &details).await?;
            let batch = audit_batch(&[entry]).file("can't write", AUDIT)?;
            let file = self.audit.write_file(&batch).await?;
            let path = self.audit.path_of(&file.name);
            let change = Change {
                added: vec![file],
                changes_rows: true,
                ..Change::default()
            };
            match self.audit.commit(change, action, 0).await {
                // The chain has a new end: the entry must follow that one.
                Err(EngineError::Conflict(_)) => self.location.delete(&path).await?,
                committed => return committed.map(|_| ()),
            }
        }
        Err(EngineError::Conflict(format!(
            "the audit log was busy {ATTEMPTS} times"
        )))
    }

    /// Returns the version of every other table with the digest over its list of files, for the
    /// audit log: later, a table whose log ends before that version was cut off.
    async fn versions(&mut self) -> Result<serde_json::Value> {
        let mut versions = serde_json::Map::new();
        for table in self
            .tables_mut()
            .into_iter()
            .filter(|table| table.name() != AUDIT)
        {
            table.refresh().await?;
            let files = digest_of_files(&table.files()?);
            versions.insert(
                table.name().to_owned(),
                json!({ "version": table.version(), "files": files }),
            );
        }
        Ok(versions.into())
    }

    /// True if the audit log has an entry of `action` whose details have `value` under `key`.
    ///
    /// # Errors
    /// [`EngineError::File`], [`EngineError::Delta`].
    pub(crate) async fn has_recorded(
        &mut self,
        action: &str,
        key: &str,
        value: &str,
    ) -> Result<bool> {
        self.audit.refresh().await?;
        for batch in self.audit.read_columns(&["action", "details"]).await? {
            let (actions, details) = (
                batch.column(0).as_string::<i32>(),
                batch.column(1).as_string::<i32>(),
            );
            let same = |details: &str| {
                serde_json::from_str::<serde_json::Value>(details)
                    .is_ok_and(|details| details.get(key) == Some(&value.into()))
            };
            if actions
                .iter()
                .zip(details)
                .any(|(own, details)| own == Some(action) && details.is_some_and(same))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Walks the chain of the audit log: every entry must be there once, hold its own hash, and
    /// that of the one before. A chain that was cut off at its end is whole in itself, so it is
    /// held against what else is in the lake: every certificate has its entry, and a log without
    /// entries isn't younger than the grains.
    ///
    /// # Errors
    /// What reading the rest of the lake says. A broken chain is no error but a finding, and so is
    /// a log that can't be read.
    pub async fn verify_audit(&mut self) -> Result<AuditVerdict> {
        self.audit.refresh().await?;
        let entries = match self.audit_entries().await {
            Err(
                error @ (EngineError::File { .. }
                | EngineError::Delta { .. }
                | EngineError::Connector(_)),
            ) => {
                return Ok(AuditVerdict::of_unreadable(&error));
            }
            entries => entries?,
        };
        let mut verdict = AuditVerdict::of(&entries);
        verdict.find(self.unrecorded(&entries).await?);
        verdict.find(self.faults_of_tables(&entries).await?);
        Ok(verdict)
    }

    /// What `heads.json` and the last of `entries` say of the tables that isn't so.
    async fn faults_of_tables(&self, entries: &[AuditRow]) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let heads = match Heads::load(&self.location).await {
            Ok(heads) => heads,
            Err(error @ EngineError::Damaged { .. }) => {
                problems.push(error.to_string());
                None
            }
            Err(error) => return Err(error),
        };
        if heads.is_none()
            && problems.is_empty()
            && self.grains.format_version() >= FIRST_WITH_HEADS
        {
            problems.push(format!("`{HEADS}` is missing"));
        }
        let recorded = entries
            .iter()
            .rev()
            .find_map(|entry| recorded_versions(&entry.details));
        for table in self.tables() {
            let head = heads
                .as_ref()
                .and_then(|heads| heads.tables.get(table.name()));
            if let Some(fault) = head
                .map(|head| fault_of(table, head))
                .transpose()?
                .flatten()
            {
                problems.push(format!("the table `{}`: {}", table.name(), fault.cause));
            }
            let Some(recorded) = recorded
                .as_ref()
                .and_then(|tables| tables.get(table.name()))
            else {
                continue;
            };
            let (found, expected) = (table.version(), recorded.version);
            if found < expected {
                let name = table.name();
                problems.push(format!(
                    "the log of `{name}` ends at version {found}, the audit log has seen version \
                     {expected}"
                ));
            } else if found == expected && digest_of_files(&table.files()?) != recorded.files {
                problems.push(format!(
                    "the log of `{}` names other files than the audit log has seen",
                    table.name()
                ));
            }
        }
        Ok(problems)
    }

    /// What the lake holds that `entries` should tell of and don't.
    pub(crate) async fn unrecorded(&self, entries: &[AuditRow]) -> Result<Vec<String>> {
        let id_of = |entry: &AuditRow| {
            let details: serde_json::Value = serde_json::from_str(&entry.details).ok()?;
            details.get("id")?.as_str().map(str::to_owned)
        };
        let erasures = entries.iter().filter(|entry| entry.action == "erase");
        let recorded: HashSet<String> = erasures.filter_map(id_of).collect();
        let files = self.location.list(ERASURES).await?;
        let names: Vec<&str> = files
            .iter()
            .filter_map(|file| file.location.filename())
            .collect();
        // An erasure that was killed has its journal and, at the very end, its certificate, and no
        // entry yet.
        let unfinished = names
            .iter()
            .filter(|name| name.ends_with(".journal"))
            .count();
        let certified = names.iter().filter_map(|name| name.strip_suffix(".cose"));
        let unknown: Vec<&str> = certified.filter(|id| !recorded.contains(*id)).collect();
        let mut problems = Vec::new();
        if unknown.len() > unfinished {
            problems.extend(
                unknown
                    .iter()
                    .map(|id| format!("the erasure {id} has a certificate and no entry")),
            );
        }
        // A lake's tables are made together, before its first segment. A first command that was
        // killed leaves no entry either.
        let made = self.audit.made_at();
        let older = |segment: &Segment| {
            segment
                .id
                .made_at()
                .zip(made)
                .is_some_and(|(segment, log)| segment < log)
        };
        if entries.is_empty() && self.segments()?.iter().any(older) {
            problems.push(
                "the log has no entry and is younger than grains of the lake: it was made anew"
                    .to_owned(),
            );
        }
        Ok(problems)
    }

    /// Returns the entries in the order of their numbers.
    ///
    /// # Errors
    /// [`EngineError::File`], [`EngineError::Delta`].
    pub(crate) async fn audit_entries(&self) -> Result<Vec<AuditRow>> {
        let mut entries = Vec::new();
        let columns = [
            "sequence", "at", "action", "actor", "details", "previous", "hash",
        ];
        for batch in self.audit.read_columns(&columns).await? {
            let sequences = batch.column(0).as_primitive::<Int64Type>();
            let instants = batch.column(1).as_primitive::<TimestampMicrosecondType>();
            for row in 0..batch.num_rows() {
                let cell = |name| text(&batch, name, row).map(str::to_owned);
                entries.push(AuditRow {
                    sequence: sequences.value(row),
                    at: instants.value(row),
                    action: cell("action").unwrap_or_default(),
                    actor: cell("actor"),
                    details: cell("details").unwrap_or_default(),
                    previous: cell("previous").unwrap_or_default(),
                    hash: cell("hash").unwrap_or_default(),
                });
            }
        }
        entries.sort_by_key(|entry| entry.sequence);
        Ok(entries)
    }

    async fn next_entry(&self, action: &str, details: &serde_json::Value) -> Result<AuditRow> {
        let last = self.last_entry().await?;
        let (sequence, previous) = last.map_or_else(
            || (0, "0".repeat(64)),
            |(sequence, hash)| (sequence + 1, hash),
        );
        let mut entry = AuditRow {
            sequence,
            at: Utc::now().timestamp_micros(),
            action: action.to_owned(),
            actor: self.operator.clone(),
            details: details.to_string(),
            previous,
            hash: String::new(),
        };
        entry.hash = entry.computed_hash();
        Ok(entry)
    }

    async fn last_entry(&self) -> Result<Option<(i64, String)>> {
        let mut last: Option<(i64, String)> = None;
        for batch in self.audit.read_columns(&["sequence", "hash"]).await? {
            let (sequences, hashes) = (
                batch.column(0).as_primitive::<Int64Type>(),
                batch.column(1).as_string::<i32>(),
            );
            for (sequence, hash) in sequences.values().iter().zip(hashes.iter()) {
                if last.as_ref().is_none_or(|(highest, _)| sequence > highest) {
                    last = Some((*sequence, hash.unwrap_or_default().to_owned()));
                }
            }
        }
        Ok(last)
    }
}

/// The version of a table that an entry has seen.
#[derive(serde::Deserialize)]
struct RecordedVersion {
    version: u64,
    files: FileDigest,
}

fn recorded_versions(details: &str) -> Option<BTreeMap<String, RecordedVersion>> {
    let mut details: serde_json::Value = serde_json::from_str(details).ok()?;
    serde_json::from_value(details.get_mut("tables")?.take()).ok()
}

/// What a walk over the audit log found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AuditVerdict {
    /// Entries.
    pub entries: u64,
    /// Entries that are what and where they should be.
    pub ok: u64,
    /// The others, and what else is wrong: entries that are missing, a log that can't be read.
    pub bad: u64,
    /// What is wrong first of all.
    pub first_problem: Option<String>,
    /// The hash of the last entry: whoever keeps it can tell later that nothing before it was
    /// changed.
    pub head: Option<String>,
}

impl AuditVerdict {
    /// Of a log that can't be read, because of `error`.
    pub fn of_unreadable(error: &EngineError) -> AuditVerdict {
        let mut verdict = AuditVerdict::of(&[]);
        verdict.find([format!("the log can't be read: {error}")]);
        verdict
    }

    /// Adds problems that no single entry shows.
    fn find(&mut self, problems: impl IntoIterator<Item = String>) {
        for problem in problems {
            self.bad += 1;
            self.first_problem.get_or_insert(problem);
        }
    }

    /// Judges `entries`, which are in the order of their numbers.
    pub(crate) fn of(entries: &[AuditRow]) -> AuditVerdict {
        let mut previous = "0".repeat(64);
        let mut problems = Vec::new();
        for (expected, entry) in (0..).zip(entries) {
            let problem = if entry.sequence != expected {
                Some(format!(
                    "entry {expected} is missing or there twice; {} follows",
                    entry.sequence
                ))
            } else if entry.hash != entry.computed_hash() {
                Some(format!(
                    "entry {expected} was changed: its hash isn't that of its content"
                ))
            } else if entry.previous != previous {
                Some(format!("entry {expected} doesn't follow the one before it"))
            } else {
                None
            };
            problems.extend(problem);
            previous.clone_from(&entry.hash);
        }
        let bad = problems.len() as u64;
        AuditVerdict {
            entries: entries.len() as u64,
            ok: entries.len() as u64 - bad,
            bad,
            first_problem: problems.into_iter().next(),
            head: entries.last().map(|entry| entry.hash.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(count: i64) -> Vec<AuditRow> {
        let mut previous = "0".repeat(64);
        (0..count)
            .map(|sequence| {
                let mut entry = AuditRow {
                    sequence,
                    at: 1_000 * sequence,
                    action: "ingest".to_owned(),
                    actor: None,
                    details: "{}".to_owned(),
                    previous: previous.clone(),
                    hash: String::new(),
                };
                entry.hash = entry.computed_hash();
                previous.clone_from(&entry.hash);
                entry
            })
            .collect()
    }

    #[test]
    fn operators_are_told_apart_without_being_named() {
        let alice = pseudonym("lake", "alice");
        assert_eq!(alice, pseudonym("lake", "alice"));
        assert_ne!(alice, pseudonym("lake", "bob"));
        assert_ne!(alice, pseudonym("other lake", "alice"));
        assert!(!alice.contains("alice") && alice.starts_with("operator:"));
    }

    #[test]
    fn a_whole_chain_verifies_and_every_tampering_shows() {
        assert_eq!(AuditVerdict::of(&chain(5)).bad, 0);
        assert_eq!(AuditVerdict::of(&[]).head, None);
        let mut changed = chain(5);
        changed[2].details = "{\"grains\":0}".to_owned();
        assert!(
            AuditVerdict::of(&changed)
                .first_problem
                .unwrap()
                .contains("entry 2 was changed")
        );
        changed[2].hash = changed[2].computed_hash();
        assert!(
            AuditVerdict::of(&changed)
                .first_problem
                .unwrap()
                .contains("entry 3 doesn't follow")
        );
        let mut missing = chain(5);
        missing.remove(1);
        assert!(
            AuditVerdict::of(&missing)
                .first_problem
                .unwrap()
                .contains("entry 1 is missing")
        );
    }
}
