//! The audit log: a hash chain of entries, each with the hash of the one before.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use chrono::Utc;
use gristmill_schemas::columns::{AuditRow, audit_batch};
use serde_json::json;

use super::Lake;
use super::heads::digest_of_files;
use super::records::text;
use super::table::{Change, Table};
use crate::error::{Context, EngineError, Result};

/// The name of the table of the engine's actions.
pub const AUDIT: &str = "audit";

/// The key in the details of an erasure's entry of the earlier runs whose journals it took over.
pub(crate) const RESUMED: &str = "resumed";

/// How often an entry is appended again because other writers were faster.
const ATTEMPTS: usize = 20;

/// Returns the pseudonym of the operator `name` in the log of the lake whose audit table is `lake`.
/// It is the same for the same name, so that actions of different persons can be distinguished, but
/// doesn't reveal the name.
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
    /// Appends an action with its counts to the audit log. `details` must not contain personal
    /// data.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if other writers were faster every time; [`EngineError::File`],
    /// [`EngineError::Delta`].
    pub async fn record(&mut self, action: &str, details: serde_json::Value) -> Result<()> {
        self.append(action, vec![details], None).await
    }

    /// Appends an entry of `action` for each of `details`, in one commit.
    ///
    /// # Errors
    /// As [`Lake::record`].
    pub async fn record_all(
        &mut self,
        action: &str,
        details: Vec<serde_json::Value>,
    ) -> Result<()> {
        match details.is_empty() {
            true => Ok(()),
            false => self.append(action, details, None).await,
        }
    }

    /// Appends as [`Lake::record`] does, unless the log has an entry of `action` with the same `id`
    /// in its details.
    ///
    /// # Errors
    /// As [`Lake::record`].
    pub(crate) async fn record_unless_present(
        &mut self,
        action: &str,
        details: serde_json::Value,
    ) -> Result<()> {
        let id = details.get("id").and_then(serde_json::Value::as_str);
        let id = id.map(str::to_owned);
        self.append(action, vec![details], id.as_deref()).await
    }

    /// Appends entries, unless the log has one of `action` with the `unique_id`.
    async fn append(
        &mut self,
        action: &str,
        mut details: Vec<serde_json::Value>,
        unique_id: Option<&str>,
    ) -> Result<()> {
        self.upgrade().await?;
        let versions = self.versions().await?;
        let objects = details.iter_mut().filter_map(|own| own.as_object_mut());
        objects.for_each(|own| _ = own.insert("tables".to_owned(), versions.clone()));
        for _ in 0..ATTEMPTS {
            self.audit.refresh().await?;
            if let Some(id) = unique_id
                && self.has_recorded(action, "id", id).await?
            {
                return Ok(());
            }
            let entries = self.next_entries(action, &details).await?;
            let batch = audit_batch(&entries).file("can't write", AUDIT)?;
            let file = self.audit.write_file(&batch).await?;
            let change = Change::of_new_rows(file);
            match self.audit.commit(change, action, 0).await {
                // The chain has a new end, which the entries must follow.
                Err(EngineError::Conflict(_)) => {}
                committed => return committed.map(|_| ()),
            }
        }
        Err(EngineError::Conflict(format!(
            "the audit log was busy {ATTEMPTS} times"
        )))
    }

    /// Returns the version of every other table with the digest over its list of files, and its id.
    /// A table whose log ends before that version was truncated.
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
                json!({ "version": table.version(), "files": files, "id": table.id() }),
            );
        }
        Ok(versions.into())
    }

    /// Returns true if the audit log has an entry of `action` whose details contain `value` under
    /// `key`.
    ///
    /// # Errors
    /// [`EngineError::File`], [`EngineError::Delta`].
    pub(crate) async fn has_recorded(
        &mut self,
        action: &str,
        key: &str,
        value: &str,
    ) -> Result<bool> {
        let recorded = self.recorded(action).await?;
        let same = |details: &serde_json::Value| details.get(key) == Some(&value.into());
        Ok(recorded.iter().any(same))
    }

    /// Returns the details of all entries of `action`, in no particular order.
    ///
    /// # Errors
    /// [`EngineError::File`], [`EngineError::Delta`].
    pub(crate) async fn recorded(&mut self, action: &str) -> Result<Vec<serde_json::Value>> {
        self.audit.refresh().await?;
        let mut recorded = Vec::new();
        for batch in self.audit.read_columns(&["action", "details"]).await? {
            let [actions, details] = [0, 1].map(|at| batch.column(at).as_string::<i32>());
            let own = actions
                .iter()
                .zip(details)
                .filter(|(own, _)| *own == Some(action));
            recorded.extend(own.filter_map(|(_, details)| serde_json::from_str(details?).ok()));
        }
        Ok(recorded)
    }

    /// Returns the entries in the order of their numbers.
    ///
    /// # Errors
    /// [`EngineError::File`], [`EngineError::Delta`].
    pub(crate) async fn audit_entries(&self) -> Result<Vec<AuditRow>> {
        entries_of(&self.audit).await
    }

    /// Returns the same of the newest version.
    ///
    /// # Errors
    /// As [`Lake::audit_entries`].
    pub(super) async fn newest_audit_entries(&self) -> Result<Vec<AuditRow>> {
        let mut newest = self.audit.clone();
        newest.refresh().await?;
        entries_of(&newest).await
    }

    /// Returns entries with `details` that follow the last one of the log.
    async fn next_entries(
        &self,
        action: &str,
        details: &[serde_json::Value],
    ) -> Result<Vec<AuditRow>> {
        let last = self.last_entry().await?;
        let (mut sequence, mut previous) = last.map_or_else(
            || (0, "0".repeat(64)),
            |(sequence, hash)| (sequence + 1, hash),
        );
        let entries = details.iter().map(|details| {
            let mut entry = AuditRow {
                sequence,
                at: Utc::now().timestamp_micros(),
                action: action.to_owned(),
                actor: self.operator.clone(),
                details: details.to_string(),
                previous: previous.clone(),
                hash: String::new(),
            };
            entry.hash = entry.computed_hash();
            previous.clone_from(&entry.hash);
            sequence += 1;
            entry
        });
        Ok(entries.collect())
    }

    /// Returns the number and the hash of the last entry. Each commit appends entries that follow
    /// those before it, so the file of the newest commit has it.
    async fn last_entry(&self) -> Result<Option<(i64, String)>> {
        let mut last: Option<(i64, String)> = None;
        for batch in self.audit.read_newest(&["sequence", "hash"]).await? {
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

/// Returns the entries of the table `audit` in the order of their numbers.
async fn entries_of(audit: &Table) -> Result<Vec<AuditRow>> {
    let mut entries = Vec::new();
    let columns = [
        "sequence", "at", "action", "actor", "details", "previous", "hash",
    ];
    for batch in audit.read_columns(&columns).await? {
        entries.extend((0..batch.num_rows()).map(|row| entry_at(&batch, row)));
    }
    entries.sort_by_key(|entry| entry.sequence);
    Ok(entries)
}

/// Returns the entry in a row of `batch`, whose first columns are the number and the time.
fn entry_at(batch: &RecordBatch, row: usize) -> AuditRow {
    let sequences = batch.column(0).as_primitive::<Int64Type>();
    let instants = batch.column(1).as_primitive::<TimestampMicrosecondType>();
    let cell = |name| text(batch, name, row).map(str::to_owned);
    AuditRow {
        sequence: sequences.value(row),
        at: instants.value(row),
        action: cell("action").unwrap_or_default(),
        actor: cell("actor"),
        details: cell("details").unwrap_or_default(),
        previous: cell("previous").unwrap_or_default(),
        hash: cell("hash").unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudonyms_distinguish_operators_without_their_names() {
        let alice = pseudonym("lake", "alice");
        assert_eq!(alice, pseudonym("lake", "alice"));
        assert_ne!(alice, pseudonym("lake", "bob"));
        assert_ne!(alice, pseudonym("other lake", "alice"));
        assert!(!alice.contains("alice") && alice.starts_with("operator:"));
    }
}
