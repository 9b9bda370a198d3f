//! The lifecycle events of sources that `state` contains already, because a run was killed between
//! its commits or a source is read again.
//!
//! Each data file is opened once in a run for the sources of its rows. Its events are read only if
//! a batch has events of one of these sources, which is the exception.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use gristmill_schemas::columns::StateRow;

use crate::error::{Context, Result};
use crate::lake::{DataFile, Lake, read_file};

/// The columns that identify an event of a source. The value is one of them: a source may name
/// several successors of a grain, which are committed at different times.
const EVENT_KEY: [&str; 4] = ["content_address", "event", "value", "source_id"];

/// The cells of [`EVENT_KEY`] of an event.
type KnownEventKey = [Option<String>; 4];

/// The sources with events in each data file of `state` that was opened.
#[derive(Debug, Default)]
pub(super) struct KnownStates {
    /// Hashes of the sources' ids, by the names of the files.
    sources: HashMap<String, HashSet<u64>>,
}

impl KnownStates {
    /// Returns those of `rows` that `state` doesn't contain from the same source.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File),
    /// [`EngineError::Delta`](crate::error::EngineError::Delta).
    pub(super) async fn new_rows(
        &mut self,
        lake: &Lake,
        mut rows: Vec<StateRow>,
    ) -> Result<Vec<StateRow>> {
        if rows.is_empty() {
            return Ok(rows);
        }
        let sources: HashSet<&str> = rows.iter().map(source_of).collect();
        let known = self.events_of(lake, &sources).await?;
        rows.retain(|row| !known.contains(&key_of(row)));
        Ok(rows)
    }

    /// Returns the keys of the events of `sources` in `state`.
    async fn events_of(
        &mut self,
        lake: &Lake,
        sources: &HashSet<&str>,
    ) -> Result<HashSet<KnownEventKey>> {
        let hashes: HashSet<u64> = sources.iter().map(|source| hash_of(source)).collect();
        let mut known = HashSet::new();
        for file in lake.state.files()? {
            let own = self.sources_in(lake, &file).await?;
            if own.is_disjoint(&hashes) {
                continue;
            }
            // Rows of other sources aren't held: `state` may be larger than memory.
            for batch in read(lake, &file, &EVENT_KEY).await? {
                let columns = [0, 1, 2, 3].map(|at| batch.column(at).as_string::<i32>());
                let cell = |column: &StringArray, row| {
                    column.is_valid(row).then(|| column.value(row).to_owned())
                };
                let is_wanted = |row: &usize| sources.contains(columns[3].value(*row));
                known.extend(
                    (0..batch.num_rows())
                        .filter(is_wanted)
                        .map(|row| columns.map(|column| cell(column, row))),
                );
            }
        }
        Ok(known)
    }

    /// Returns the hashes of the sources with events in `file`.
    async fn sources_in(&mut self, lake: &Lake, file: &DataFile) -> Result<&HashSet<u64>> {
        if !self.sources.contains_key(&file.name) {
            let mut sources = HashSet::new();
            for batch in read(lake, file, &EVENT_KEY[3..]).await? {
                let ids = batch.column(0).as_string::<i32>();
                sources.extend((0..batch.num_rows()).map(|row| hash_of(ids.value(row))));
            }
            self.sources.insert(file.name.clone(), sources);
        }
        Ok(self.sources.entry(file.name.clone()).or_default())
    }
}

async fn read(lake: &Lake, file: &DataFile, columns: &[&str]) -> Result<Vec<RecordBatch>> {
    let path = lake.state.path_of(&file.name);
    let bytes = lake.location().read(&path).await?;
    read_file(bytes, columns).file("can't read", path.to_string())
}

fn key_of(row: &StateRow) -> KnownEventKey {
    [
        Some(row.content_address.clone()),
        Some(row.event.name().to_owned()),
        row.value.clone(),
        Some(source_of(row).to_owned()),
    ]
}

fn source_of(row: &StateRow) -> &str {
    row.source_id.as_deref().unwrap_or_default()
}

/// Returns a hash of the id of a source. Equal hashes of different sources only cost a read.
fn hash_of(source: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::columns::LifecycleEvent;

    use super::*;
    use crate::lake::Change;

    fn row(address: &str, source: &str) -> StateRow {
        StateRow {
            content_address: address.to_owned(),
            event: LifecycleEvent::Expired,
            value: None,
            at: 0,
            actor: None,
            reason: None,
            source_id: Some(source.to_owned()),
        }
    }

    #[tokio::test]
    async fn known_events_are_found_and_each_file_is_opened_once_for_other_sources() {
        let folder = tempfile::tempdir().unwrap();
        let mut lake = Lake::open_or_create(&folder.path().display().to_string())
            .await
            .unwrap();
        let mut known = KnownStates::default();
        for source in ["one", "two"] {
            let file = lake.write_events(&[row("a", source)]).await.unwrap();
            let change = Change::of_new_rows(file);
            lake.state.commit(change, "test", 0).await.unwrap();
            let other_value = StateRow {
                value: Some("b".to_owned()),
                ..row("a", source)
            };
            let rows = vec![
                row("a", source),
                row("b", source),
                row("a", "new"),
                other_value,
            ];
            let new = known.new_rows(&lake, rows.clone()).await.unwrap();
            assert_eq!(new, rows[1..]);
        }
        for file in lake.state.files().unwrap() {
            std::fs::remove_file(folder.path().join("state").join(file.name)).unwrap();
        }
        let rows = vec![row("a", "new")];
        let new = known.new_rows(&lake, rows.clone()).await.unwrap();
        assert_eq!(new, rows);
        let rows = vec![row("a", "one")];
        assert!(known.new_rows(&lake, rows).await.is_err());
    }
}
