//! Rows of `sources` that a commit replaces: those of killed runs, and those of this run whose
//! grains weren't committed because another writer was faster.

use std::collections::{HashMap, HashSet};

use arrow::array::RecordBatch;
use gristmill_schemas::columns::{SourceOutcome, SourceRow};

use crate::error::{Context, Result};
use crate::lake::{Change, DataFile, Lake, drop_rows, edit_file, read_file, text_of};

/// Keys (run, source) of rows that a killed run wrote as ingested before their grains were
/// committed.
pub(super) type DanglingRows = HashSet<(String, String)>;

/// Rows of this run that were committed, and whose grains weren't because another writer was
/// faster.
#[derive(Debug)]
pub(super) struct UncommittedRows {
    file: DataFile,
    keys: Vec<RowKey>,
}

/// The path, the id and the outcome of a source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RowKey([Option<String>; 3]);

impl RowKey {
    fn of(row: &SourceRow) -> RowKey {
        let outcome = Some(row.outcome.name().to_owned());
        RowKey([row.source.clone(), row.source_id.clone(), outcome])
    }

    /// Returns the key of row `row` of `batch`.
    fn at(batch: &RecordBatch, row: usize) -> RowKey {
        let text = |name| text_of(batch, name, row).map(str::to_owned);
        RowKey(["source", "source_id", "outcome"].map(text))
    }
}

impl UncommittedRows {
    /// Returns `rows`, which were committed as `file`.
    pub(super) fn new(file: DataFile, rows: &[SourceRow]) -> UncommittedRows {
        let keys = rows.iter().map(RowKey::of).collect();
        UncommittedRows { file, keys }
    }
}

/// Rows of `sources` that a commit replaces.
pub(super) struct StaleRows<'r> {
    dangling: &'r DanglingRows,
    run_id: &'r str,
    /// Uncommitted rows of this run that a compaction has moved to another file, and how many have
    /// the same key.
    moved: HashMap<RowKey, usize>,
}

impl<'r> StaleRows<'r> {
    /// Returns the rows `dangling`, for the run `run_id`.
    pub(super) fn new(run_id: &'r str, dangling: &'r DanglingRows) -> StaleRows<'r> {
        StaleRows {
            dangling,
            run_id,
            moved: HashMap::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.dangling.is_empty() && self.moved.is_empty()
    }

    /// Returns true if row `row` of `batch` is replaced. A moved row is found once.
    fn take(&mut self, batch: &RecordBatch, row: usize) -> bool {
        let run = text_of(batch, "run_id", row).unwrap_or_default();
        let is_dangling =
            |source: &str| self.dangling.contains(&(run.to_owned(), source.to_owned()));
        if claimed(batch, row).is_some_and(is_dangling) {
            return true;
        }
        if run != self.run_id || self.moved.is_empty() {
            return false;
        }
        match self.moved.get_mut(&RowKey::at(batch, row)) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

/// Returns the change that adds `file` to `sources`, and removes the rows `uncommitted` and
/// `stale`.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File),
/// [`EngineError::Delta`](crate::error::EngineError::Delta),
/// [`EngineError::Key`](crate::error::EngineError::Key).
pub(super) async fn change_of(
    lake: &mut Lake,
    file: Option<&DataFile>,
    uncommitted: Option<&UncommittedRows>,
    mut stale: StaleRows<'_>,
) -> Result<Change> {
    let mut change = Change {
        added: file.cloned().into_iter().collect(),
        changes_rows: true,
        ..Change::default()
    };
    let live = lake.sources_to_write().await?.files()?;
    if let Some(uncommitted) = uncommitted {
        // Its versions were stated when it was committed.
        match live.iter().find(|file| file.name == uncommitted.file.name) {
            Some(own) => change.removed.push(own.clone()),
            None => uncommitted
                .keys
                .iter()
                .for_each(|key| *stale.moved.entry(key.clone()).or_default() += 1),
        }
    }
    if !stale.is_empty() {
        let gone = change.removed.clone();
        for data in live.iter().filter(|data| !gone.contains(data)) {
            replace(lake, data, &mut stale, &mut change).await?;
        }
    }
    Ok(change)
}

/// The columns of a row's claim that a source was ingested.
pub(super) const CLAIM: [&str; 4] = ["run_id", "source_id", "kind", "outcome"];

/// The columns by which replaced rows are found.
const REPLACED: [&str; 4] = ["run_id", "source_id", "source", "outcome"];

/// Returns the source that row `row` claims to be ingested.
pub(super) fn claimed(batch: &RecordBatch, row: usize) -> Option<&str> {
    let ingested = text_of(batch, "outcome", row) == Some(SourceOutcome::Ingested.name());
    text_of(batch, "source_id", row).filter(|_| ingested)
}

/// Rewrites `data`, a file of `sources`, without the rows `stale`, if it contains any.
async fn replace(
    lake: &Lake,
    data: &DataFile,
    stale: &mut StaleRows<'_>,
    change: &mut Change,
) -> Result<()> {
    let Some(sources) = &lake.sources else {
        return Ok(());
    };
    let path = sources.path_of(&data.name);
    let bytes = lake.location().read(&path).await?;
    let keys = lake.keys_to_read(&data.name)?;
    let mut gone: HashSet<u32> = HashSet::new();
    let mut at = 0;
    for batch in read_file(bytes, &REPLACED).file("can't read", &path)? {
        let batch = match &keys {
            Some(keys) => keys.open_cells(&batch)?,
            None => batch,
        };
        let rows = 0..batch.num_rows();
        gone.extend(
            rows.filter(|row| stale.take(&batch, *row))
                .map(|row| at + row as u32),
        );
        at += batch.num_rows() as u32;
    }
    if gone.is_empty() {
        return Ok(());
    }
    let edit = |first, batch| drop_rows(first, &batch, |row| gone.contains(&row));
    edit_file(lake, sources, data, change, edit).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::sources::{SourceInfo, SourceRegister};

    #[tokio::test(flavor = "multi_thread")]
    async fn uncommitted_rows_that_a_compaction_has_moved_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display().to_string();
        let mut lake = Lake::open_or_create(&place).await.unwrap();
        let skipped = |register: &SourceRegister, uri: &str| {
            register.row(
                SourceInfo::of_file(uri.to_owned()),
                SourceOutcome::Skipped,
                None,
            )
        };
        let mut other = SourceRegister::new(0);
        let others = skipped(&other, "a.mg");
        other
            .append(&mut lake, std::slice::from_ref(&others))
            .await
            .unwrap();
        let mut register = SourceRegister::new(1);
        let rows = ["a.mg", "b.mg"].map(|uri| skipped(&register, uri));
        register.append(&mut lake, &rows).await.unwrap();
        // Its grains met another writer, and a compaction merges the files before it tries again.
        let merged = [others, rows[0].clone(), rows[1].clone()];
        let change = Change {
            added: vec![lake.write_sources(&merged).await.unwrap()],
            removed: lake.sources.as_ref().unwrap().files().unwrap(),
            ..Change::default()
        };
        let sources = lake.sources.as_mut().unwrap();
        sources.commit(change, "compact", 0).await.unwrap();
        register.append(&mut lake, &rows).await.unwrap();
        let files = lake.sources.as_ref().unwrap().files().unwrap();
        assert_eq!(files.iter().map(|file| file.rows).sum::<u64>(), 3);
    }
}
