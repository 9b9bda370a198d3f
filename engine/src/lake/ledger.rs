//! The ledger: which sources the lake has ingested, and how far.
//!
//! Each commit to `grains` with grains of a source contains an application transaction named after
//! the source's BLAKE3. Delta keeps these through checkpoints and clean-ups of its log, so a source
//! is known for as long as the lake exists. `deltalake` looks up one name at a time and replays the
//! log for each; a run over many files needs all of them, so they are read here in one pass over
//! the newest checkpoint and the commits after it.

use std::collections::HashMap;

use arrow::array::{Array, AsArray, StructArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use bytes::Bytes;
use gristmill_connectors::source::SourceKind;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::file_prefixes::FilePrefixes;
use super::log::LogFile;
use super::table::Table;
use crate::decoder_panic::caught;
use crate::error::{BoxError, Context, EngineError, Result};

/// How far a source was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPosition {
    /// The next grain to read, by its number in the source.
    Next(u64),
    /// The source was read to its end.
    Complete,
}

/// The entry of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerEntry {
    /// How far it was read.
    pub progress: ReadPosition,
    /// The kind that it was read as. `None` if an earlier version of the program ingested it, which
    /// didn't record that.
    pub kind: Option<SourceKind>,
}

/// The low bits of a version contain an ordinal; all of them set mean the end of the source. The
/// code of the kind is above them.
const ORDINAL_BITS: u32 = 48;
const ORDINALS: i64 = (1 << ORDINAL_BITS) - 1;

impl LedgerEntry {
    /// Encodes the entry as the version of an application transaction.
    pub(crate) fn to_version(self) -> i64 {
        let ordinal = match self.progress {
            ReadPosition::Next(ordinal) => {
                i64::try_from(ordinal).unwrap_or(ORDINALS).min(ORDINALS - 1)
            }
            ReadPosition::Complete => ORDINALS,
        };
        i64::from(self.kind.map_or(0, SourceKind::code)) << ORDINAL_BITS | ordinal
    }

    fn from_version(version: i64) -> LedgerEntry {
        let version = version.max(0);
        let kind = u8::try_from(version >> ORDINAL_BITS)
            .ok()
            .and_then(SourceKind::from_code);
        let progress = match version & ORDINALS {
            ORDINALS => ReadPosition::Complete,
            ordinal => ReadPosition::Next(ordinal as u64),
        };
        LedgerEntry { progress, kind }
    }
}

/// Returns the name of a source's application transactions.
pub fn transaction_name(source_id: &str) -> String {
    format!("{NAME_PREFIX}{source_id}")
}

const NAME_PREFIX: &str = "gristmill:source:";

/// How often the log is read, if erasures remove it meanwhile.
const LOADS: usize = 3;

/// The entries of all sources.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    sources: HashMap<String, LedgerEntry>,
    /// What was read of files whose messages have the time of the file.
    file_prefixes: FilePrefixes,
}

impl Ledger {
    /// Reads the ledger of `grains` at the version of the handle, or at the newest one if an
    /// erasure has removed the log up to that version.
    ///
    /// # Errors
    /// [`EngineError::File`]; [`EngineError::Delta`]; [`EngineError::Conflict`] if erasures removed
    /// the log at all attempts.
    pub async fn load(grains: &Table) -> Result<Ledger> {
        let mut grains = grains.clone();
        for _ in 0..LOADS {
            match Ledger::of_version(&grains).await {
                Ok(None) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
                Ok(Some(ledger)) => return Ok(ledger),
            }
            grains.refresh().await?;
        }
        Err(EngineError::Conflict(format!(
            "the log of `{}` was removed {LOADS} times while it was read",
            grains.name()
        )))
    }

    /// Reads the ledger of `grains` at the version of the handle. Returns `None` if the log doesn't
    /// contain all of it any more.
    async fn of_version(grains: &Table) -> Result<Option<Ledger>> {
        let mut ledger = Ledger::default();
        let mut entries = LogFile::list(grains.location(), grains.name()).await?;
        entries.retain(|entry| entry.version <= grains.version());
        let checkpoint = entries
            .iter()
            .filter(|entry| entry.is_checkpoint)
            .map(|entry| entry.version)
            .max();
        let newest = entries.iter().map(|entry| entry.version).max();
        let is_begun = checkpoint.is_some() || entries.iter().any(|entry| entry.version == 0);
        if !is_begun || newest != Some(grains.version()) {
            return Ok(None);
        }
        for entry in &entries {
            match checkpoint {
                Some(version) if entry.is_checkpoint && entry.version == version => {
                    ledger.read_checkpoint(grains, &entry.path).await?;
                }
                Some(version) if entry.is_checkpoint || entry.version <= version => {}
                None if entry.is_checkpoint => {}
                _ => ledger.read_commit(grains, &entry.path).await?,
            }
        }
        Ok(Some(ledger))
    }

    /// Returns how far `source_id` was read, or `None` if it has no entry.
    pub fn progress(&self, source_id: &str) -> Option<ReadPosition> {
        self.entry(source_id).map(|entry| entry.progress)
    }

    /// Returns the entry of `source_id`.
    pub fn entry(&self, source_id: &str) -> Option<LedgerEntry> {
        self.sources.get(source_id).copied()
    }

    /// Returns what was read of files whose messages have the time of the file.
    pub(crate) fn file_prefixes(&self) -> &FilePrefixes {
        &self.file_prefixes
    }

    /// Returns the sources and how far each was read, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, ReadPosition)> {
        self.sources
            .iter()
            .map(|(source, taken)| (&**source, taken.progress))
    }

    /// Adds an application transaction, which was `updated` so many milliseconds after 1970.
    fn note(&mut self, name: &str, version: i64, updated: Option<i64>) {
        if let Some(source) = name.strip_prefix(NAME_PREFIX) {
            self.sources
                .insert(source.to_owned(), LedgerEntry::from_version(version));
        } else {
            self.file_prefixes.note(name, version, updated);
        }
    }

    async fn read_commit(&mut self, grains: &Table, path: &Path) -> Result<()> {
        let bytes = read(grains, path).await?;
        for line in bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let action: LogLine =
                serde_json::from_slice(line).file("can't read the commit", path.to_string())?;
            if let Some(transaction) = action.txn {
                let LogTransaction {
                    app_id,
                    version,
                    last_updated,
                } = transaction;
                self.note(&app_id, version, last_updated);
            }
        }
        Ok(())
    }

    async fn read_checkpoint(&mut self, grains: &Table, path: &Path) -> Result<()> {
        let bytes = read(grains, path).await?;
        let damaged = || Err("its bytes can't be decoded".into());
        caught(|| self.note_checkpoint(bytes))
            .unwrap_or_else(damaged)
            .file("can't read the checkpoint", path)
    }

    fn note_checkpoint(&mut self, bytes: Bytes) -> Result<(), BoxError> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
        let mask = ProjectionMask::columns(builder.parquet_schema(), ["txn"]);
        for batch in builder.with_projection(mask).build()? {
            let batch = batch?;
            let transactions = batch.column_by_name("txn");
            if let Some(transactions) = transactions.and_then(|column| column.as_struct_opt()) {
                self.read_transactions(transactions)?;
            }
        }
        Ok(())
    }

    fn read_transactions(
        &mut self,
        transactions: &StructArray,
    ) -> Result<(), arrow::error::ArrowError> {
        let (Some(names), Some(versions)) = (
            transactions.column_by_name("appId"),
            transactions.column_by_name("version"),
        ) else {
            return Ok(());
        };
        // The writer of the checkpoint chose the Arrow types.
        let names = cast(names, &DataType::Utf8)?;
        let versions = cast(versions, &DataType::Int64)?;
        let updated = match transactions.column_by_name("lastUpdated") {
            Some(updated) => cast(updated, &DataType::Int64)?,
            None => new_null_array(&DataType::Int64, transactions.len()),
        };
        let entries = names
            .as_string::<i32>()
            .iter()
            .zip(versions.as_primitive::<Int64Type>())
            .zip(updated.as_primitive::<Int64Type>());
        for (row, ((name, version), updated)) in entries.enumerate() {
            if let (Some(name), Some(version)) =
                (name.filter(|_| transactions.is_valid(row)), version)
            {
                self.note(name, version, updated);
            }
        }
        Ok(())
    }
}

async fn read(grains: &Table, path: &Path) -> Result<Bytes> {
    grains
        .location()
        .store()
        .get(path)
        .await
        .file("can't read", path)?
        .bytes()
        .await
        .file("can't read", path)
}

/// The one action that is parsed; all others are skipped.
#[derive(serde::Deserialize)]
struct LogLine {
    txn: Option<LogTransaction>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogTransaction {
    app_id: String,
    version: i64,
    last_updated: Option<i64>,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array, LargeStringArray, StringViewArray};

    use super::*;
    use crate::lake::{Change, Lake};

    #[tokio::test(flavor = "multi_thread")]
    async fn sources_are_known_to_a_handle_whose_log_an_erasure_has_removed() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display().to_string();
        let mut lake = Lake::open_or_create(&place).await.unwrap();
        let read = |source: &str| Change {
            transactions: vec![(transaction_name(source), 7)],
            ..Change::default()
        };
        lake.grains.commit(read("a"), "test", 0).await.unwrap();
        let before = lake.grains.clone();
        lake.grains.commit(read("b"), "test", 0).await.unwrap();
        lake.grains.purge(true).await.unwrap();
        let ledger = Ledger::load(&before).await.unwrap();
        assert_eq!(ledger.progress("a"), Some(ReadPosition::Next(7)));
    }

    #[test]
    fn ledger_entries_round_trip_and_those_of_earlier_versions_are_read() {
        for kind in SourceKind::all().map(Some).chain([None]) {
            for progress in [
                ReadPosition::Next(0),
                ReadPosition::Next(7),
                ReadPosition::Complete,
            ] {
                let taken = LedgerEntry { progress, kind };
                assert_eq!(LedgerEntry::from_version(taken.to_version()), taken);
            }
        }
        let before = |progress| LedgerEntry {
            progress,
            kind: None,
        };
        assert_eq!(
            LedgerEntry::from_version(i64::MAX),
            before(ReadPosition::Complete)
        );
        assert_eq!(LedgerEntry::from_version(9), before(ReadPosition::Next(9)));
        assert_eq!(LedgerEntry::from_version(-1), before(ReadPosition::Next(0)));
    }

    #[test]
    fn transactions_of_a_checkpoint_are_read_with_any_arrow_types() {
        let names = ["gristmill:source:a", "someone else's"];
        let texts: [ArrayRef; 2] = [
            Arc::new(LargeStringArray::from(names.to_vec())),
            Arc::new(StringViewArray::from(names.to_vec())),
        ];
        for names in texts {
            let versions: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None]));
            let transactions =
                StructArray::try_from(vec![("appId", names), ("version", versions)]).unwrap();
            let mut ledger = Ledger::default();
            ledger.read_transactions(&transactions).unwrap();
            assert_eq!(
                ledger.iter().collect::<Vec<_>>(),
                [("a", ReadPosition::Next(7))]
            );
        }
        let versions: ArrayRef = Arc::new(LargeStringArray::from(vec!["no number"]));
        let names: ArrayRef = Arc::new(LargeStringArray::from(vec!["gristmill:source:a"]));
        let transactions =
            StructArray::try_from(vec![("appId", names), ("version", versions)]).unwrap();
        let mut ledger = Ledger::default();
        ledger.read_transactions(&transactions).unwrap();
        assert_eq!(ledger.progress("a"), None);
    }
}
