//! Sources that are read again because parts of them were rejected: a newer version of the program,
//! or a lenient reader, may accept them. How a killed run continues is in `admit` and `commit`.
//!
//! Grains that the lake contains already are duplicates, and rejects that occur again have rows
//! already. When all sources have been read, the rows of rejects that didn't occur again are
//! removed. If the run is killed before, the next such run removes them.

use std::collections::{HashMap, HashSet};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use gristmill_schemas::columns::RejectRow;
use roaring::RoaringTreemap;

use super::run::{COMMIT_ATTEMPTS, overtaken};
use crate::error::{Context, EngineError, Result};
use crate::lake::{Change, DataFile, Lake, Ledger, ReadPosition, drop_rows, edit_file, read_file};

/// The columns of `rejects` that identify a row.
const REJECT_KEY: [&str; 3] = ["source_id", "ordinal", "offset"];

/// Which part of a source was rejected. The lines of a transcript and the grains that were made of
/// it are counted each by themselves, and only lines have a place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RejectedPart(u64);

impl RejectedPart {
    fn new(ordinal: i64, has_offset: bool) -> RejectedPart {
        RejectedPart(ordinal.cast_unsigned() << 1 | u64::from(has_offset))
    }

    fn of(reject: &RejectRow) -> RejectedPart {
        RejectedPart::new(reject.ordinal, reject.offset.is_some())
    }
}

/// The keys of rows of `rejects`: the parts of each source, by its id. A bitmap takes less than
/// two bytes for each of many parts.
#[derive(Debug, Clone, Default)]
pub(super) struct RejectKeys(HashMap<String, RoaringTreemap>);

impl RejectKeys {
    /// Adds the key of a row.
    pub(super) fn insert(&mut self, reject: &RejectRow) {
        self.insert_part(&reject.source_id, RejectedPart::of(reject));
    }

    fn insert_part(&mut self, source: &str, part: RejectedPart) {
        if let Some(parts) = self.0.get_mut(source) {
            parts.insert(part.0);
        } else {
            self.0
                .insert(source.to_owned(), RoaringTreemap::from([part.0]));
        }
    }

    /// Returns true if there is a row with the key of `reject`.
    pub(super) fn contains(&self, reject: &RejectRow) -> bool {
        self.contains_part(&reject.source_id, RejectedPart::of(reject))
    }

    fn contains_part(&self, source: &str, part: RejectedPart) -> bool {
        let parts = self.0.get(source);
        parts.is_some_and(|parts| parts.contains(part.0))
    }

    /// Returns the ids of the sources.
    pub(super) fn sources(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

/// The sources that are read again, and their rejects.
#[derive(Debug, Clone, Default)]
pub(super) struct RetriedSources {
    /// For each source, whether its entry in the ledger isn't changed.
    sources: HashMap<String, bool>,
    /// The rejects that occurred again.
    refused: RejectKeys,
}

impl RetriedSources {
    /// Records that `source` is read again. With `keeps_entry` its entry in the ledger isn't
    /// changed, so that a killed run has no effect.
    pub(super) fn begin(&mut self, source: &str, keeps_entry: bool) {
        self.sources.insert(source.to_owned(), keeps_entry);
    }

    /// Returns the sources that are read again, each with whether its entry isn't changed.
    pub(super) fn into_sources(self) -> impl Iterator<Item = (String, bool)> {
        self.sources.into_iter()
    }

    /// Returns true if the entry of `source` in the ledger isn't changed.
    pub(super) fn keeps_entry(&self, source: &str) -> bool {
        self.sources.get(source) == Some(&true)
    }

    /// Returns true if `source` is read again.
    pub(super) fn contains(&self, source: &str) -> bool {
        self.sources.contains_key(source)
    }

    /// Records `reject`, so that its row stays if it is of such a source.
    pub(super) fn note(&mut self, reject: &RejectRow) {
        if self.contains(&reject.source_id) {
            self.refused.insert(reject);
        }
    }

    /// Removes the rows of rejects that didn't occur again, when all sources have been read to
    /// their ends and committed. Returns how many there were.
    ///
    /// # Errors
    /// [`EngineError::File`], [`EngineError::Delta`], [`EngineError::Conflict`].
    pub(super) async fn resolve(self, lake: &mut Lake) -> Result<u64> {
        if self.sources.is_empty() {
            return Ok(0);
        }
        for _ in 0..COMMIT_ATTEMPTS {
            let (change, resolved) = self.change_of(lake).await?;
            if resolved == 0 {
                return Ok(0);
            }
            match lake.rejects.commit(change, "ingest", 0).await {
                Err(EngineError::Conflict(_)) => lake.rejects.refresh().await?,
                committed => return committed.map(|_| resolved),
            }
        }
        Err(overtaken())
    }

    /// Returns the change of `rejects` without resolved rows, and how many these are.
    async fn change_of(&self, lake: &Lake) -> Result<(Change, u64)> {
        let (mut change, mut resolved) = (Change::default(), 0);
        for file in lake.rejects.files()? {
            let path = lake.rejects.path_of(&file.name);
            let bytes = lake.location().read(&path).await?;
            let rows = read_file(bytes, &REJECT_KEY).file("can't read", &path)?;
            let rows: Vec<(&str, RejectedPart)> = rows.iter().flat_map(reject_keys).collect();
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
        Ok((change, resolved))
    }

    fn is_resolved(&self, (source, part): (&str, RejectedPart)) -> bool {
        self.contains(source) && !self.refused.contains_part(source, part)
    }
}

/// Returns the source and the part of each row of a batch of [`REJECT_KEY`].
fn reject_keys(batch: &RecordBatch) -> impl Iterator<Item = (&str, RejectedPart)> {
    let (sources, ordinals, offsets) = (
        batch.column(0).as_string::<i32>(),
        batch.column(1).as_primitive::<Int64Type>(),
        batch.column(2).as_primitive::<Int64Type>(),
    );
    let parts = ordinals.values().iter().zip(offsets);
    let parts = parts.map(|(ordinal, offset)| RejectedPart::new(*ordinal, offset.is_some()));
    sources
        .iter()
        .zip(parts)
        .map(|(source, part)| (source.unwrap_or_default(), part))
}

/// Adds the keys of the rows of `file`, a file of `rejects`, to `keys`.
pub(super) async fn add_rejects_of(
    lake: &Lake,
    file: &DataFile,
    keys: &mut RejectKeys,
) -> Result<()> {
    let path = lake.rejects.path_of(&file.name);
    let bytes = lake.location().read(&path).await?;
    let rows = read_file(bytes, &REJECT_KEY).file("can't read", &path)?;
    rows.iter()
        .flat_map(reject_keys)
        .for_each(|(source, part)| keys.insert_part(source, part));
    Ok(())
}

/// Returns the keys of rejects that may occur again, and the sources of those that are retried.
///
/// These are the rejects of sources that aren't complete, which a run left that was killed between
/// its commits, and, with `retries`, all others.
pub(super) async fn known_rejects(
    lake: &Lake,
    ledger: &Ledger,
    retries: bool,
) -> Result<(RejectKeys, HashSet<String>)> {
    let (mut keys, mut sources) = (RejectKeys::default(), HashSet::new());
    let note = |batch: RecordBatch| {
        for (source, part) in reject_keys(&batch) {
            let is_complete = ledger.progress(source) == Some(ReadPosition::Complete);
            if is_complete && retries && !sources.contains(source) {
                sources.insert(source.to_owned());
            }
            if !is_complete || retries {
                keys.insert_part(source, part);
            }
        }
    };
    lake.rejects.each_batch(&REJECT_KEY, note).await?;
    Ok((keys, sources))
}
