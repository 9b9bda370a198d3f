//! What a commit in the log of a table states: which program wrote it, which format the lake has,
//! and whether rows are gone after it that its writer doesn't remove.
//!
//! Another engine may add rows to a table, and merge files. Rows that it removes or replaces are a
//! loss: no entry of the audit log has them. Of this program's own commands few remove rows, and
//! none removes entries of the audit log.

use std::collections::{BTreeMap, HashMap};

use gristmill_schemas::columns::{GRAINS, STATE};
use serde::Deserialize;
use serde_json::Value;

use super::commit::SEALED;
use super::stated_versions::{OTHER_TABLES, StatedVersion};
use super::table::FORMAT_VERSION_KEY;
use super::upgrade::UPGRADE;
use super::{AUDIT, ERASED};
use crate::file_digest::FileDigest;

/// The key of a commit's information with the name of the work that it is of.
pub(super) const OPERATION: &str = "gristmill";

/// What a commit states.
#[derive(Debug, Default)]
pub(crate) struct CommitFacts {
    /// The digests of commits before it, by their versions.
    pub(crate) sealed: BTreeMap<u64, FileDigest>,
    /// The newest commits of other tables when it was made.
    pub(super) other_tables: BTreeMap<String, StatedVersion>,
    /// The version of the lake's format in the metadata, if it has some; 0 if they lack it.
    pub(crate) format: Option<u32>,
    /// When it was written, in milliseconds since 1970.
    pub(crate) at: i64,
    /// The work that it is of; `None` if another program wrote it.
    operation: Option<String>,
    /// The files that it adds, with their rows.
    added: Vec<(String, Option<u64>)>,
    /// The files that it removes.
    removed: Vec<String>,
    /// Whether it doesn't only move rows to other files.
    changes_rows: bool,
}

/// A line of a commit.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CommitLine {
    commit_info: Option<BTreeMap<String, Value>>,
    meta_data: Option<Value>,
    add: Option<AddedFile>,
    remove: Option<RemovedFile>,
}

#[derive(Deserialize)]
struct AddedFile {
    path: String,
    stats: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemovedFile {
    path: String,
    data_change: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileStats {
    num_records: u64,
}

impl CommitFacts {
    /// Returns what the commit `bytes` states.
    ///
    /// # Errors
    /// Those of a line that isn't the JSON of an action.
    pub(crate) fn parse(bytes: &[u8]) -> Result<CommitFacts, serde_json::Error> {
        let mut facts = CommitFacts::default();
        let lines = bytes.split(|byte| *byte == b'\n');
        for line in lines.filter(|line| !line.is_empty()) {
            facts.add(serde_json::from_slice(line)?)?;
        }
        Ok(facts)
    }

    fn add(&mut self, line: CommitLine) -> Result<(), serde_json::Error> {
        if let Some(mut info) = line.commit_info {
            let operation = info.remove(OPERATION);
            self.operation = operation.and_then(|name| Some(name.as_str()?.to_owned()));
            self.at = info.get("timestamp").and_then(Value::as_i64).unwrap_or(0);
            if let Some(sealed) = info.remove(SEALED) {
                let sealed: BTreeMap<u64, FileDigest> = serde_json::from_value(sealed)?;
                self.sealed.extend(sealed);
            }
            if let Some(stated) = info.remove(OTHER_TABLES) {
                self.other_tables = serde_json::from_value(stated)?;
            }
        }
        if let Some(metadata) = line.meta_data {
            let configuration = metadata.get("configuration");
            let format = configuration.and_then(|keys| keys.get(FORMAT_VERSION_KEY)?.as_str());
            self.format = Some(format.and_then(|format| format.parse().ok()).unwrap_or(0));
        }
        if let Some(file) = line.add {
            let stats = file.stats.as_deref().map(serde_json::from_str::<FileStats>);
            let rows = stats.and_then(|stats| Some(stats.ok()?.num_records));
            self.added.push((file.path, rows));
        }
        if let Some(file) = line.remove {
            self.changes_rows |= file.data_change.unwrap_or(true);
            self.removed.push(file.path);
        }
        Ok(())
    }

    /// Returns whether it is a commit of a lake that has heads: one that has digests of commits
    /// before it, and isn't of an upgrade.
    pub(super) fn is_after_upgrade(&self) -> bool {
        !self.sealed.is_empty() && self.operation.as_deref() != Some(UPGRADE)
    }

    /// Returns whether it may remove rows of `table` without others in their place.
    fn may_remove_rows(&self, table: &str) -> bool {
        let Some(operation) = self.operation.as_deref() else {
            return false;
        };
        match table {
            AUDIT => false,
            GRAINS => ["erase", "repair", "compact", "seal"].contains(&operation),
            STATE => operation == "erase",
            ERASED => operation == "repair",
            _ => true,
        }
    }
}

/// Rows that are gone after a commit whose writer may not remove them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostRows {
    /// The version after the commit.
    pub(crate) version: u64,
    /// When it was written, in milliseconds since 1970.
    pub(crate) at: i64,
    /// The number of rows; `None` if others are in their place, or if the part of the log that
    /// states it was cleaned up.
    pub(crate) rows: Option<u64>,
}

impl LostRows {
    /// Returns what is wrong with the table `table`.
    pub(crate) fn cause(&self, table: &str) -> String {
        let version = self.version;
        let rows = match self.rows {
            Some(1) => "1 row".to_owned(),
            Some(rows) => format!("{rows} rows"),
            None => "or replaces rows".to_owned(),
        };
        format!(
            "version {version} of `{table}` removes {rows} that no command of this program removed"
        )
    }
}

/// The rows of the files that the commits of one log add, by the names of the files.
#[derive(Debug, Default)]
pub(crate) struct RowsOfLog {
    rows: HashMap<String, Option<u64>>,
}

impl RowsOfLog {
    /// Returns the rows that are lost by `commit`, the next one in the log of `table`, after which
    /// this has `version`. Rows that another program replaces count as lost, and so does whatever
    /// is replaced in the audit log, unless the commit only moves rows to other files.
    pub(crate) fn lost_by(
        &mut self,
        table: &str,
        version: u64,
        commit: CommitFacts,
    ) -> Option<LostRows> {
        let known = |name: &String| self.rows.get(name).copied().flatten();
        let removed: Option<u64> = commit.removed.iter().map(known).sum();
        let added: Option<u64> = commit.added.iter().map(|(_, rows)| *rows).sum();
        let is_suspect = !commit.removed.is_empty() && !commit.may_remove_rows(table);
        let is_foreign = commit.operation.is_none() || table == AUDIT;
        self.rows.extend(commit.added);
        let lost = |rows| LostRows {
            version,
            at: commit.at,
            rows,
        };
        match removed.zip(added) {
            _ if !is_suspect => None,
            Some((removed, added)) if removed > added => {
                Some(lost(Some(removed.saturating_sub(added))))
            }
            _ => (is_foreign && commit.changes_rows).then(|| lost(None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDED: &str = r#"{"add":{"path":"a","stats":"{\"numRecords\":5}"}}"#;

    fn removal(info: &str, rest: &str) -> String {
        let remove = r#"{"remove":{"path":"a","dataChange":true}}"#;
        format!("{{\"commitInfo\":{{\"timestamp\":7{info}}}}}\n{remove}\n{rest}\n")
    }

    fn lost(table: &str, log: &[&str]) -> Option<LostRows> {
        let (mut rows, mut found) = (RowsOfLog::default(), None);
        for (version, commit) in (0..).zip(log) {
            let commit = CommitFacts::parse(commit.as_bytes()).unwrap();
            found = found.or(rows.lost_by(table, version, commit));
        }
        found
    }

    #[test]
    fn rows_that_another_program_removes_are_lost() {
        let expected = |rows| LostRows {
            version: 1,
            at: 7,
            rows,
        };
        for table in [GRAINS, STATE, AUDIT, ERASED, "rejects"] {
            let found = lost(table, &[ADDED, &removal("", "")]);
            assert_eq!(found, Some(expected(Some(5))), "{table}");
            let fewer = r#"{"add":{"path":"b","stats":"{\"numRecords\":3}"}}"#;
            let found = lost(table, &[ADDED, &removal("", fewer)]);
            assert_eq!(found, Some(expected(Some(2))), "{table}");
            // The log before was cleaned up.
            let found = lost(table, &["", &removal("", "")]);
            assert_eq!(found, Some(expected(None)), "{table}");
            let as_many = r#"{"add":{"path":"b","stats":"{\"numRecords\":5}"}}"#;
            let found = lost(table, &[ADDED, &removal("", as_many)]);
            assert_eq!(found, Some(expected(None)), "{table}");
            let moved = removal("", as_many).replace("true", "false");
            assert_eq!(lost(table, &[ADDED, &moved]), None, "{table}");
        }
    }

    #[test]
    fn only_some_commands_remove_rows() {
        let is_loss = |table, operation: &str| {
            let info = format!(r#","gristmill":"{operation}""#);
            lost(table, &[ADDED, &removal(&info, "")]).is_some()
        };
        assert!(!is_loss(GRAINS, "erase") && !is_loss(STATE, "erase"));
        assert!(!is_loss(GRAINS, "repair") && !is_loss("rejects", "ingest"));
        assert!(is_loss(GRAINS, "ingest") && is_loss(STATE, "compact"));
        assert!(is_loss(AUDIT, "erase") && is_loss(AUDIT, "compact"));
    }

    #[test]
    fn the_format_of_the_lake_is_that_of_the_metadata() {
        let line = r#"{"metaData":{"id":"x","configuration":{"gristmill.formatVersion":"2"}}}"#;
        assert_eq!(CommitFacts::parse(line.as_bytes()).unwrap().format, Some(2));
        let line = r#"{"metaData":{"id":"x","configuration":{}}}"#;
        assert_eq!(CommitFacts::parse(line.as_bytes()).unwrap().format, Some(0));
        assert_eq!(CommitFacts::parse(ADDED.as_bytes()).unwrap().format, None);
        assert!(CommitFacts::parse(b"{").is_err());
    }
}
