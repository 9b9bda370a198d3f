//! The audit log: a chain of entries, each holding the hash of the one before.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use chrono::Utc;
use gristmill_schemas::columns::{AuditRow, audit_batch};

use super::Lake;
use super::table::Change;
use crate::error::{Context, EngineError, Result};

/// The table of what the engine did.
pub const AUDIT: &str = "audit";

/// How often an entry is put behind those of other writers before it is given up.
const ATTEMPTS: usize = 20;

impl Lake {
    /// Appends what was done to the audit log: the action and its counts, never personal data.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if other writers were faster every time; [`EngineError::File`], [`EngineError::Delta`].
    pub async fn record(&mut self, action: &str, details: serde_json::Value) -> Result<()> {
        for _ in 0..ATTEMPTS {
            self.audit.refresh().await?;
            let entry = self.next_entry(action, &details).await?;
            let batch = audit_batch(&[entry]).file("can't write", AUDIT)?;
            let file = self.audit.write_file(&batch).await?;
            let path = self.audit.path_of(&file.name);
            let change = Change { added: vec![file], changes_rows: true, ..Change::default() };
            match self.audit.commit(change, action, 0).await {
                // The chain has a new end: the entry must follow that one.
                Err(EngineError::Conflict(_)) => self.location.delete(&path).await?,
                committed => return committed.map(|_| ()),
            }
        }
        Err(EngineError::Conflict(format!("the audit log was busy {ATTEMPTS} times")))
    }

    async fn next_entry(&self, action: &str, details: &serde_json::Value) -> Result<AuditRow> {
        let last = self.last_entry().await?;
        let (sequence, previous) = last.map_or_else(|| (0, "0".repeat(64)), |(sequence, hash)| (sequence + 1, hash));
        let mut entry = AuditRow {
            sequence,
            at: Utc::now().timestamp_micros(),
            action: action.to_owned(),
            actor: None,
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
            let (sequences, hashes) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string::<i32>());
            for (sequence, hash) in sequences.values().iter().zip(hashes.iter()) {
                if last.as_ref().is_none_or(|(highest, _)| sequence > highest) {
                    last = Some((*sequence, hash.unwrap_or_default().to_owned()));
                }
            }
        }
        Ok(last)
    }
}
