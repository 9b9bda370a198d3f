//! What the commits of each table state about the other tables: their newest commits in
//! `heads.json` when the commit was made.
//!
//! `heads.json` agrees with a table that is put back together with it from a backup, and so do the
//! entries of an audit log that is put back with both. The commits of the tables that stay state
//! which versions these tables had.

use std::collections::{BTreeMap, HashMap};

use futures::{StreamExt, stream};
use gristmill_schemas::columns::AuditRow;
use serde::{Deserialize, Serialize};

use super::audit_check::is_accepted;
use super::commit_facts::CommitFacts;
use super::heads::{ACCEPT, Heads};
use super::location::LakeLocation;
use super::log::LogFile;
use super::open_checks::TableDamage;
use super::{AUDIT, FIRST_WITH_HEADS, Lake, TABLES};
use crate::error::Result;
use crate::file_digest::FileDigest;

/// The key of a commit's information with the newest commits of the other tables.
pub(super) const OTHER_TABLES: &str = "gristmill.tables";

/// Maximal number of entries of a log that are read at the same time. An object store takes a
/// request for each.
const ENTRIES_AT_ONCE: usize = 16;

/// The newest commit of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct StatedVersion {
    /// The version of the table after it.
    version: u64,
    /// The digest of the commit.
    commit: FileDigest,
}

impl Heads {
    /// Returns the newest commits of all tables but `table`, for a commit to `table` to state.
    pub(super) fn newest_commits_besides(&self, table: &str) -> BTreeMap<&str, StatedVersion> {
        let others = self.tables.iter().filter(|(name, _)| *name != table);
        let newest = others.filter_map(|(name, head)| {
            let (version, commit) = (head.version, *head.entries.get(&head.version)?);
            Some((name.as_str(), StatedVersion { version, commit }))
        });
        newest.collect()
    }
}

/// A commit that states something of another table.
#[derive(Debug)]
struct Witness {
    table: &'static str,
    version: u64,
    /// When it was written, in milliseconds since 1970.
    at: i64,
}

/// What the logs of a lake contain, and what they state about each other.
#[derive(Debug, Default)]
pub(crate) struct StatedVersions {
    /// The digests of the commits of each log, by their versions.
    commits: HashMap<&'static str, BTreeMap<u64, FileDigest>>,
    /// What is stated of each table, with the first commit that states it.
    stated: BTreeMap<&'static str, BTreeMap<StatedVersion, Witness>>,
    /// The least format of a lake with such commits; 0 if nothing tells.
    least_format: u32,
}

impl StatedVersions {
    /// Reads all logs of the lake at `location`. What can't be parsed states nothing.
    ///
    /// # Errors
    /// Those of reading the logs.
    pub(super) async fn read(location: &LakeLocation) -> Result<StatedVersions> {
        let mut found = StatedVersions::default();
        for table in TABLES {
            let mut log = LogFile::list(location, table).await?;
            log.retain(|file| !file.is_checkpoint);
            let read = log
                .iter()
                .map(async |file| (file.version, location.read_small(&file.path).await));
            let mut read = stream::iter(read).buffered(ENTRIES_AT_ONCE);
            while let Some((version, bytes)) = read.next().await {
                // It may have been removed since it was listed.
                if let Some(bytes) = bytes? {
                    let commit = CommitFacts::parse(&bytes).unwrap_or_default();
                    found.add(table, version, FileDigest::of(&bytes), &commit);
                }
            }
        }
        Ok(found)
    }

    /// Adds the commit of `version` of `table`, which has the digest `digest`.
    pub(crate) fn add(
        &mut self,
        table: &'static str,
        version: u64,
        digest: FileDigest,
        commit: &CommitFacts,
    ) {
        self.commits
            .entry(table)
            .or_default()
            .insert(version, digest);
        for (name, stated) in &commit.other_tables {
            // Later versions of this program may have other tables.
            let Some(other) = TABLES.into_iter().find(|known| known == name) else {
                continue;
            };
            let witness = Witness {
                table,
                version,
                at: commit.at,
            };
            let of_other = self.stated.entry(other).or_default();
            of_other.entry(*stated).or_insert(witness);
        }
        // Entries of the audit log are written after the upgrade of a lake.
        if table == AUDIT && commit.is_after_upgrade() {
            self.least_format = FIRST_WITH_HEADS;
        }
    }

    /// Returns the least format that the lake can have.
    pub(crate) fn least_format(&self) -> u32 {
        self.least_format
    }

    /// Returns the tables in the lake at `location` that aren't what commits of others state, each
    /// with one of the differences, unless `entries` of the audit log accept them. Removed commits
    /// differ in nothing.
    ///
    /// # Errors
    /// Those of listing a log.
    pub(crate) async fn differences(
        &self,
        location: &LakeLocation,
        entries: &[AuditRow],
    ) -> Result<Vec<(&'static str, String)>> {
        let mut found = Vec::new();
        for (table, stated) in &self.stated {
            let known = self.commits.get(table);
            let mut newest = known.and_then(|commits| Some(*commits.last_key_value()?.0));
            // The witness may be of a time after this log was read.
            if stated.keys().any(|stated| Some(stated.version) > newest) {
                let log = LogFile::list(location, table).await?;
                newest = newest.max(log.iter().map(|file| file.version).max());
            }
            let digest = |version: u64| known.and_then(|commits| commits.get(&version));
            let differing = stated.iter().rev().find_map(|(stated, witness)| {
                let is_missing = Some(stated.version) > newest;
                let differs = |digest: &FileDigest| *digest != stated.commit;
                let is_other = digest(stated.version).is_some_and(differs);
                let is_accepted =
                    || is_accepted(entries, witness.table, witness.version, witness.at);
                let is_wrong = (is_missing || is_other) && !is_accepted();
                is_wrong.then(|| witness.cause(table, stated.version, newest, is_missing))
            });
            found.extend(differing.map(|cause| (*table, cause)));
        }
        Ok(found)
    }
}

impl Lake {
    /// Checks that no table contradicts what commits to others state. What ends with
    /// [`Lake::purge`], which removes such commits, must not begin otherwise.
    ///
    /// # Errors
    /// [`EngineError::Damaged`](crate::error::EngineError::Damaged) names the first table that
    /// does; those of reading the logs.
    pub(crate) async fn check_stated_versions(&self) -> Result<()> {
        let stated = StatedVersions::read(&self.location).await?;
        let entries = self.newest_audit_entries().await?;
        let differences = stated.differences(&self.location, &entries).await?;
        match differences.into_iter().next() {
            Some((table, cause)) => {
                let remedy = ACCEPT;
                Err(TableDamage { cause, remedy }.error(table))
            }
            None => Ok(()),
        }
    }
}

impl Witness {
    /// Returns what is wrong with the log of `table`, which ends at `newest` and had `expected`.
    fn cause(&self, table: &str, expected: u64, newest: Option<u64>, is_missing: bool) -> String {
        let Witness {
            table: other,
            version,
            ..
        } = self;
        let since = format!("when version {version} of `{other}` was committed");
        match newest {
            _ if !is_missing => {
                format!("`{table}` has another commit of version {expected} than {since}")
            }
            Some(newest) => format!(
                "the log of `{table}` ends at version {newest}, and it had version {expected} {since}"
            ),
            None => format!("`{table}` has no log, and it had version {expected} {since}"),
        }
    }
}
