//! Accepting a lake as it is now: new heads, computed from the logs.

use std::collections::BTreeMap;

use super::Lake;
use super::heads::Heads;
use super::table::Table;
use crate::error::Result;

/// The action in the audit log under which it is recorded that a log with losses was accepted.
pub const ACCEPTED: &str = "accept-logs";

/// The member of the entry's details with the versions of the tables that were accepted.
const VERSIONS: &str = "versions";

/// Returns the versions of the tables in the details of an entry; `None` if it has none.
pub(super) fn accepted_versions(details: &str) -> Option<BTreeMap<String, u64>> {
    let mut details: serde_json::Value = serde_json::from_str(details).ok()?;
    serde_json::from_value(details.get_mut(VERSIONS)?.take()).ok()
}

impl Lake {
    /// Recreates `heads.json` from the current logs, and records that in the audit log. What the
    /// logs have lost stays lost, and isn't reported as damage any more. Changed entries of a log
    /// stay damage until they are cleaned up.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File),
    /// [`EngineError::Delta`](crate::error::EngineError::Delta).
    pub async fn accept_logs(&mut self) -> Result<()> {
        // An erasure shortens logs and records them in the heads.
        let _lock = self.location().lock_erasures().await?;
        let before = Heads::load(self.location()).await.ok().flatten();
        let mut heads = Heads::default();
        let (mut lost, mut versions) = (serde_json::Map::new(), BTreeMap::new());
        for table in self.tables_mut() {
            table.refresh().await?;
            versions.insert(Table::name(table), table.version());
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
        let details = serde_json::json!({ "lost_versions": lost, VERSIONS: versions });
        self.record(ACCEPTED, details).await
    }
}
