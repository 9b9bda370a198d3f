//! Accepting a lake as it is now: new heads, computed from the logs.

use super::Lake;
use super::heads::Heads;
use super::table::Table;
use crate::error::Result;

/// The action in the audit log under which it is recorded that a log with losses was accepted.
pub const ACCEPTED: &str = "accept-logs";

impl Lake {
    /// Recreates `heads.json` from the current logs, and records that in the audit log. What the
    /// logs have lost stays lost, and isn't reported as damage any more. Changed entries of a log
    /// stay damage until they are cleaned up.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File),
    /// [`EngineError::Delta`](crate::error::EngineError::Delta).
    pub async fn accept_logs(&mut self) -> Result<()> {
        let before = Heads::load(self.location()).await.ok().flatten();
        let mut heads = Heads::default();
        let mut lost = serde_json::Map::new();
        for table in self.tables() {
            let head = table
                .head(table.version().saturating_sub(super::heads::ENTRIES as u64))
                .await?;
            let expected = before
                .as_ref()
                .and_then(|before| before.tables.get(table.name()));
            if let Some(expected) = expected.filter(|expected| expected.version > head.version) {
                lost.insert(
                    Table::name(table).to_owned(),
                    (expected.version - head.version).into(),
                );
            }
            heads.merge(table.name(), head);
        }
        Heads::replace(self.location(), heads).await?;
        self.record_encryption().await?;
        self.record(ACCEPTED, serde_json::json!({ "lost_versions": lost }))
            .await
    }
}
