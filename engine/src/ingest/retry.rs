//! Sources that are read once more, because something of them was refused: a newer version, or a
//! lenient reader, may take it.
//!
//! What the lake has of them already is a duplicate, and what is refused again stands in `rejects`
//! already. What isn't refused any more leaves `rejects` when all is read; if the run is killed
//! before, the next such run does it.

use std::collections::{HashMap, HashSet};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use gristmill_schemas::columns::RejectRow;

use super::run::COMMIT_ATTEMPTS;
use crate::error::{Context, EngineError, Result};
use crate::lake::{Change, Lake, Ledger, Progress, drop_rows, edit_file, read_file};

/// The columns of `rejects` that tell reject_keys apart.
const REJECT_KEY: [&str; 2] = ["source_id", "ordinal"];

/// The keys of rows of `rejects`: the id of the source and the ordinal.
pub(super) type RejectKeys = HashSet<(String, i64)>;

/// What is known of the sources that are read once more.
#[derive(Debug, Default)]
pub(super) struct RetriedSources {
    /// Each with whether the ledger's entry of it stays as it is.
    sources: HashMap<String, bool>,
    /// What was refused of them again.
    refused: RejectKeys,
}

impl RetriedSources {
    /// Notes that `source` is read once more. The ledger's entry of it stays as it is if
    /// `keeps_entry` says so: if the run is killed, it is as if there hadn't been one.
    pub(super) fn begin(&mut self, source: &str, keeps_entry: bool) {
        self.sources.insert(source.to_owned(), keeps_entry);
    }

    /// True if the ledger's entry of `source` stays as it is.
    pub(super) fn keeps_entry(&self, source: &str) -> bool {
        self.sources.get(source) == Some(&true)
    }

    /// True if `source` is read once more.
    pub(super) fn contains(&self, source: &str) -> bool {
        self.sources.contains_key(source)
    }

    /// Notes `reject`, which stays refused if it is of such a source.
    pub(super) fn note(&mut self, reject: &RejectRow) {
        if self.contains(&reject.source_id) {
            self.refused
                .insert((reject.source_id.clone(), reject.ordinal));
        }
    }

    /// Takes out of `rejects` what isn't refused any more, now that all sources are read to their
    /// ends and committed; answers how much that was.
    ///
    /// # Errors
    /// [`EngineError::File`], [`EngineError::Delta`], [`EngineError::Conflict`].
    pub(super) async fn resolve(self, lake: &mut Lake) -> Result<u64> {
        if self.sources.is_empty() {
            return Ok(0);
        }
        for _ in 0..COMMIT_ATTEMPTS {
            let (mut change, mut resolved) = (Change::default(), 0);
            for file in lake.rejects.files()? {
                let path = lake.rejects.path_of(&file.name);
                let bytes = lake.location().read(&path).await?;
                let rows = read_file(bytes, &REJECT_KEY).file("can't read", &path)?;
                let rows: Vec<(&str, i64)> = rows.iter().flat_map(reject_keys).collect();
                let gone: HashSet<u32> = (0..)
                    .zip(rows)
                    .filter(|(_, row)| self.is_resolved(*row))
                    .map(|(at, _)| at)
                    .collect();
                if !gone.is_empty() {
                    resolved += gone.len() as u64;
                    let edit = |first, batch| drop_rows(first, &batch, |row| gone.contains(&row));
                    edit_file(lake, &lake.rejects, &file, &mut change, edit).await?;
                }
            }
            if resolved == 0 {
                return Ok(0);
            }
            match lake.rejects.commit(change, "ingest", 0).await {
                Err(EngineError::Conflict(_)) => lake.rejects.refresh().await?,
                committed => return committed.map(|_| resolved),
            }
        }
        Err(EngineError::Conflict(format!(
            "other writers were faster {COMMIT_ATTEMPTS} times"
        )))
    }

    fn is_resolved(&self, (source, ordinal): (&str, i64)) -> bool {
        self.contains(source) && !self.refused.contains(&(source.to_owned(), ordinal))
    }
}

/// The source and the ordinal of each row of a batch of [`REJECT_KEY`].
fn reject_keys(batch: &RecordBatch) -> impl Iterator<Item = (&str, i64)> {
    let (sources, ordinals) = (
        batch.column(0).as_string::<i32>(),
        batch.column(1).as_primitive::<Int64Type>(),
    );
    sources
        .iter()
        .zip(ordinals.values())
        .map(|(source, ordinal)| (source.unwrap_or_default(), *ordinal))
}

/// Returns the keys of rejects that may come up again, and the sources of those that are retried.
///
/// These are the rejects of sources that aren't complete, which a run left that was killed between
/// its commits, and, with `retries`, all others.
pub(super) async fn known_rejects(
    lake: &Lake,
    ledger: &Ledger,
    retries: bool,
) -> Result<(RejectKeys, HashSet<String>)> {
    let (mut keys, mut sources) = (RejectKeys::new(), HashSet::new());
    for batch in lake.rejects.read_columns(&REJECT_KEY).await? {
        for (source, ordinal) in reject_keys(&batch) {
            let is_complete = ledger.progress(source) == Some(Progress::Complete);
            if is_complete && retries && !sources.contains(source) {
                sources.insert(source.to_owned());
            }
            if !is_complete || retries {
                keys.insert((source.to_owned(), ordinal));
            }
        }
    }
    Ok((keys, sources))
}
