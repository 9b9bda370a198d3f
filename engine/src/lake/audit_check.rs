//! Checking the audit log: the hash chain of its entries, and what the lake must have entries of.

mod audit_head;

use std::collections::{BTreeMap, HashSet};

use gristmill_schemas::columns::AuditRow;

use super::accept::{ACCEPTED, accepted_versions};
use super::commit_facts::{CommitFacts, RowsOfLog};
use super::heads::{HEADS, Heads, digest_of_files};
use super::log::LogFile;
use super::open_checks::damage_to_head;
use super::stated_versions::StatedVersions;
use super::{AUDIT, ERASURES, FIRST_WITH_HEADS, Lake, Segment, TABLES, Table};
use crate::error::{EngineError, Result};
use crate::file_digest::FileDigest;

pub use audit_head::AuditHead;

impl Lake {
    /// Verifies the chain of the audit log: every entry must exist once, and contain its own hash
    /// and that of the one before. The rest of a chain that was truncated is consistent, so the log
    /// is also compared with the lake: every certificate has its entry, and a log without entries
    /// isn't younger than the grains. It must have each of the heads `known` from earlier times.
    ///
    /// # Errors
    /// Errors of reading the rest of the lake. A broken chain or an unreadable log isn't an error
    /// but a finding.
    pub async fn verify_audit(&mut self, known: &[AuditHead]) -> Result<AuditVerdict> {
        self.audit.refresh().await?;
        let entries = match self.audit_entries().await {
            Err(
                error @ (EngineError::File { .. }
                | EngineError::Delta { .. }
                | EngineError::Connector(_)),
            ) if !error.is_environment() => {
                return Ok(AuditVerdict::of_unreadable(&error));
            }
            entries => entries?,
        };
        let mut verdict = AuditVerdict::of(&entries);
        verdict.add_problems(known.iter().filter_map(|head| head.difference(&entries)));
        verdict.add_problems(self.unrecorded(&entries).await?);
        verdict.add_problems(self.damaged_tables(&entries).await?);
        Ok(verdict)
    }

    /// Returns how the tables differ from `heads.json`, from the last of `entries`, and from what
    /// commits to other tables state.
    async fn damaged_tables(&self, entries: &[AuditRow]) -> Result<Vec<String>> {
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
        for table in self.tables() {
            let heads = heads.as_ref();
            if let Some(head) = heads.and_then(|heads| heads.tables.get(table.name()))
                && let Some(damage) = damage_to_head(table, head).await?
            {
                problems.push(format!("the table `{}`: {}", table.name(), damage.cause));
            }
        }
        problems.extend(self.removed_entries(entries).await?);
        let stated = StatedVersions::read(&self.location).await?;
        let put_back = stated.differences(&self.location, entries).await?;
        let rolled_back = self.rolled_back_tables(entries).await?;
        let differing = put_back.into_iter().chain(rolled_back);
        problems.extend(differing.map(|(_, cause)| cause));
        Ok(problems)
    }

    /// Returns the commits that remove entries of the audit log, which no command does, unless that
    /// was accepted since.
    async fn removed_entries(&self, entries: &[AuditRow]) -> Result<Vec<String>> {
        let (mut rows, mut problems) = (RowsOfLog::default(), Vec::new());
        let log = LogFile::list(&self.location, AUDIT).await?;
        for file in log.iter().filter(|file| !file.is_checkpoint) {
            let Some(bytes) = self.location.read_small(&file.path).await? else {
                continue;
            };
            // `verify` reports a commit that can't be read.
            let commit = CommitFacts::parse(&bytes).unwrap_or_default();
            let lost = rows.lost_by(AUDIT, file.version, commit);
            let lost = lost.filter(|lost| !is_accepted(entries, AUDIT, lost.version, lost.at));
            problems.extend(lost.map(|lost| lost.cause(AUDIT)));
        }
        Ok(problems)
    }

    /// Returns the tables that aren't what the last of `entries` recorded, each with what differs.
    pub(crate) async fn rolled_back_tables(
        &self,
        entries: &[AuditRow],
    ) -> Result<Vec<(&'static str, String)>> {
        let mut found = Vec::new();
        let recorded = last_recorded(entries);
        for table in self.tables() {
            let Some(recorded) = recorded.get(table.name()) else {
                continue;
            };
            if recorded.difference(table).await?.is_none() {
                continue;
            }
            // The entry may be of a commit since the table was read.
            let mut newest = table.clone();
            match newest.refresh().await {
                Err(error) if error.is_environment() => return Err(error),
                _ => {}
            }
            let cause = recorded.difference(&newest).await?;
            found.extend(cause.map(|cause| (table.name(), cause)));
        }
        for name in TABLES {
            let has_table = self.tables().iter().any(|table| table.name() == name);
            let Some(recorded) = recorded.get(name).filter(|_| !has_table) else {
                continue;
            };
            // Another process may have created it since this handle was opened.
            if LogFile::list(&self.location, name).await?.is_empty() {
                let version = recorded.version;
                found.push((
                    name,
                    format!("`{name}` is missing, the audit log recorded version {version} of it"),
                ));
            }
        }
        Ok(found)
    }

    /// Returns what the lake contains for which `entries` are missing.
    pub(crate) async fn unrecorded(&self, entries: &[AuditRow]) -> Result<Vec<String>> {
        let mut problems = self.unrecorded_erasures(entries).await?;
        // The tables of a lake are created together, before its first segment. A first command that
        // was killed leaves no entry either.
        let made = self.audit.created_at();
        let is_older = |segment: &Segment| {
            segment
                .id
                .created_at()
                .zip(made)
                .is_some_and(|(segment, log)| segment < log)
        };
        if entries.is_empty() && self.segments()?.iter().any(is_older) {
            problems.push(
                "the log has no entry and is younger than grains of the lake: it was recreated"
                    .to_owned(),
            );
        }
        Ok(problems)
    }

    /// Returns the certificates of erasures without an entry.
    async fn unrecorded_erasures(&self, entries: &[AuditRow]) -> Result<Vec<String>> {
        let files = self.location.list(ERASURES).await?;
        let names: Vec<&str> = files
            .iter()
            .filter_map(|file| file.location.filename())
            .collect();
        // An erasure that was killed has its journal and, at the very end, its certificate, but no
        // entry yet.
        let unfinished = names
            .iter()
            .filter(|name| name.ends_with(".journal"))
            .count();
        let certified = names.iter().filter_map(|name| name.strip_suffix(".cose"));
        let certified: Vec<&str> = certified.collect();
        let mut unknown = without_entry(&certified, entries);
        if unknown.len() > unfinished {
            // Erasures may have ended since the entries were read. Damage is found with the table.
            match self.newest_audit_entries().await {
                Ok(newest) => unknown = without_entry(&certified, &newest),
                Err(error) if error.is_environment() => return Err(error),
                Err(_) => {}
            }
        }
        if unknown.len() <= unfinished {
            return Ok(Vec::new());
        }
        Ok(unknown
            .iter()
            .map(|id| format!("the erasure {id} has a certificate and no entry"))
            .collect())
    }
}

/// Returns those of the erasures `certified` of which `entries` have none.
fn without_entry<'c>(certified: &[&'c str], entries: &[AuditRow]) -> Vec<&'c str> {
    let erasures = entries.iter().filter(|entry| entry.action == "erase");
    let details =
        erasures.filter_map(|entry| serde_json::from_str::<ErasureIds>(&entry.details).ok());
    let recorded: HashSet<String> = details
        .flat_map(|ids| ids.resumed.into_iter().chain([ids.id]))
        .collect();
    let unknown = certified.iter().filter(|id| !recorded.contains(**id));
    unknown.copied().collect()
}

/// The identifiers in the details of an erasure's entry.
#[derive(serde::Deserialize)]
struct ErasureIds {
    id: String,
    /// Earlier runs whose journals the erasure took over. One that still ran may have written a
    /// certificate of its own, of which it was killed before it recorded it.
    #[serde(default)]
    resumed: Vec<String>,
}

/// The version of a table at the time of an entry.
#[derive(serde::Deserialize)]
struct RecordedVersion {
    version: u64,
    files: FileDigest,
    /// The table's id. Absent in entries of earlier releases.
    #[serde(default)]
    id: Option<String>,
}

impl RecordedVersion {
    /// Returns how `table` differs from this version, if it was truncated, changed or replaced.
    async fn difference(&self, table: &Table) -> Result<Option<String>> {
        let (name, found, expected) = (table.name(), table.version(), self.version);
        if found < expected {
            return Ok(Some(format!(
                "the log of `{name}` ends at version {found}, the audit log recorded version \
                 {expected}"
            )));
        }
        if self.id.as_deref().is_some_and(|id| id != table.id()) {
            return Ok(Some(format!(
                "the log of `{name}` is that of another table than the audit log recorded"
            )));
        }
        let is_changed = match found == expected {
            true => digest_of_files(&table.files()?) != self.files,
            false => match table.at_version(expected).await {
                Ok(earlier) => digest_of_files(&earlier.files()?) != self.files,
                Err(error) if error.is_environment() => return Err(error),
                // Erasures remove the log of earlier versions.
                Err(_) => false,
            },
        };
        Ok(is_changed
            .then(|| format!("the log of `{name}` lists other files than the audit log recorded")))
    }
}

fn recorded_versions(details: &str) -> Option<BTreeMap<String, RecordedVersion>> {
    let mut details: serde_json::Value = serde_json::from_str(details).ok()?;
    serde_json::from_value(details.get_mut("tables")?.take()).ok()
}

/// Returns the versions of all tables but `audit` that the last of `entries` with some recorded.
fn last_recorded(entries: &[AuditRow]) -> BTreeMap<String, RecordedVersion> {
    let recorded = |entry: &AuditRow| recorded_versions(&entry.details);
    entries.iter().rev().find_map(recorded).unwrap_or_default()
}

/// Returns the version of `table` that the last of `entries` with some recorded.
pub(crate) fn recorded_version(entries: &[AuditRow], table: &str) -> Option<u64> {
    let recorded = last_recorded(entries);
    recorded.get(table).map(|recorded| recorded.version)
}

/// Returns whether the last run of `repair --accept-logs` among `entries` accepts what the log of
/// `table` had up to `version`, a commit of the time `at`, in milliseconds since 1970. Earlier runs
/// accepted versions that a table may have had twice since, because it was put back. Entries of
/// earlier releases don't state versions: then their time counts.
pub(crate) fn is_accepted(entries: &[AuditRow], table: &str, version: u64, at: i64) -> bool {
    let mut newest_first = entries.iter().rev();
    let accepted = newest_first.find(|entry| entry.action == ACCEPTED);
    accepted.is_some_and(|entry| match accepted_versions(&entry.details) {
        Some(versions) => versions.get(table).is_some_and(|known| *known >= version),
        None => entry.at >= at.saturating_mul(1_000),
    })
}

/// The result of verifying the audit log.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AuditVerdict {
    /// The number of entries.
    pub entries: u64,
    /// Entries without a problem.
    pub ok: u64,
    /// The other entries, and other problems: missing entries, an unreadable log.
    pub bad: u64,
    /// The first problem.
    pub first_problem: Option<String>,
    /// The hash of the last entry. A stored copy of it proves later that no entry before it was
    /// changed.
    pub head: Option<String>,
}

impl AuditVerdict {
    /// Returns the verdict on a log that can't be read because of `error`.
    pub fn of_unreadable(error: &EngineError) -> AuditVerdict {
        let mut verdict = AuditVerdict::of(&[]);
        verdict.add_problems([format!("the log can't be read: {error}")]);
        verdict
    }

    /// Adds problems that aren't of a single entry.
    fn add_problems(&mut self, problems: impl IntoIterator<Item = String>) {
        for problem in problems {
            self.bad += 1;
            self.first_problem.get_or_insert(problem);
        }
    }

    /// Checks `entries`, which are in the order of their numbers.
    pub(crate) fn of(entries: &[AuditRow]) -> AuditVerdict {
        let mut previous = "0".repeat(64);
        let mut problems = Vec::new();
        for (expected, entry) in (0..).zip(entries) {
            problems.extend(problem_of(entry, expected, &previous));
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

/// Returns what is wrong with `entry`, whose number must be `expected`, after the entry with the
/// hash `previous`.
fn problem_of(entry: &AuditRow, expected: i64, previous: &str) -> Option<String> {
    if entry.sequence != expected {
        Some(format!(
            "entry {expected} is missing or duplicated; {} follows",
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
    fn only_the_last_acceptance_counts() {
        let mut entries = chain(2);
        for (entry, version) in entries.iter_mut().zip([50, 30]) {
            entry.action = ACCEPTED.to_owned();
            entry.details = format!(r#"{{"versions":{{"state":{version}}}}}"#);
        }
        // The table was put back after the first one.
        assert!(is_accepted(&entries[..1], "state", 40, 0));
        assert!(!is_accepted(&entries, "state", 40, 0));
        assert!(is_accepted(&entries, "state", 30, 0));
        assert!(!is_accepted(&[], "state", 30, 0));
    }

    #[test]
    fn an_intact_chain_verifies_and_every_change_is_detected() {
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
