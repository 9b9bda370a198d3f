//! A small lake in a temporary folder, and ways to damage it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchReader};
use arrow::compute::concat;
use gristmill_connectors::generate::Corpus;
use gristmill_connectors::source::discover;
use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::ingest::{IngestOptions, IngestProgress, ingest};
use gristmill_engine::keys::{FileKeys, Keyring};
use gristmill_engine::lake::{Change, DataFile, Lake};
use gristmill_engine::progress::WorkProgress;
use gristmill_engine::repair::{RepairOptions, RepairReport, repair};
use gristmill_engine::segment::SegmentId;
use gristmill_engine::verify::{VerifyOptions, VerifyReport, VerifyScope, verify_lake};
use gristmill_schemas::container::write_frame;
use gristmill_schemas::grain::DecodeMode;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

/// A lake, its keyring if it is encrypted, and the sources that were ingested.
pub struct Lab {
    folder: tempfile::TempDir,
    sealed: bool,
}

impl Lab {
    /// Creates a lake of `segments` segments with `rows` rows each.
    pub async fn new(segments: u64, rows: usize, sealed: bool) -> Lab {
        let lab = Lab {
            folder: tempfile::tempdir().unwrap(),
            sealed,
        };
        for number in 0..segments {
            lab.ingest(&format!("{number}.frames"), &lab.blobs(number, rows))
                .await;
        }
        lab
    }

    /// Returns the blobs of the segment `number`.
    pub fn blobs(&self, number: u64, rows: usize) -> Vec<Vec<u8>> {
        let grains = Corpus::new(11, 9).block(number).unwrap().grains;
        grains
            .into_iter()
            .take(rows)
            .map(|grain| grain.blob)
            .collect()
    }

    /// Merges all segments into one.
    pub async fn compact(&self) {
        let options = CompactOptions {
            target_rows: 1_000,
            ..CompactOptions::default()
        };
        let merged = compact(&mut self.lake().await, &options, Arc::default()).await;
        merged.unwrap();
    }

    /// Ingests `blobs` as one source.
    pub async fn ingest(&self, name: &str, blobs: &[Vec<u8>]) {
        self.ingest_as(name, blobs, DecodeMode::StrictAliased).await;
    }

    /// Ingests `blobs` as one source, read in `mode`.
    pub async fn ingest_as(&self, name: &str, blobs: &[Vec<u8>], mode: DecodeMode) {
        let mut frames = Vec::new();
        blobs
            .iter()
            .for_each(|blob| write_frame(blob, &mut frames).unwrap());
        let path = self.folder.path().join(name);
        std::fs::write(&path, frames).unwrap();
        let sources = discover(&[path.display().to_string()]).await.unwrap();
        let options = IngestOptions {
            mode,
            threads: 2,
            ..IngestOptions::default()
        };
        ingest(
            &mut self.lake().await,
            sources,
            &options,
            Arc::new(IngestProgress::default()),
        )
        .await
        .unwrap();
    }

    /// Returns a new handle with empty caches.
    pub async fn lake(&self) -> Lake {
        let mut lake = Lake::open_or_create(&self.path("").display().to_string())
            .await
            .unwrap();
        if self.sealed {
            lake.enable_encryption(Box::new(self.keys())).await.unwrap();
        }
        lake
    }

    /// Returns the keys of the lake's keyring, which is created if it doesn't exist.
    pub fn keys(&self) -> FileKeys {
        let keyring =
            Keyring::open_or_create(&self.folder.path().join("keyring.json"), "for tests").unwrap();
        FileKeys::next_to(keyring).unwrap()
    }

    /// Returns the path of the file or folder `name` of the lake.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("lake").join(name)
    }

    /// Returns the data files of `grains`, in the order of their names.
    pub async fn segments(&self) -> Vec<PathBuf> {
        let segments = self.lake().await.segments().unwrap();
        segments
            .iter()
            .map(|segment| self.path("grains").join(&segment.file.name))
            .collect()
    }

    /// Verifies the lake, listing up to 10,000 problems.
    pub async fn verify(&self) -> VerifyReport {
        self.verify_with(false).await
    }

    /// Verifies as [`Lab::verify`] does, and also rebuilds sidecars with `sidecars`.
    pub async fn verify_with(&self, sidecars: bool) -> VerifyReport {
        self.verify_scope(VerifyScope::default(), sidecars).await
    }

    /// Verifies `scope` as [`Lab::verify_with`] does.
    pub async fn verify_scope(&self, scope: VerifyScope, sidecars: bool) -> VerifyReport {
        let options = VerifyOptions {
            threads: 2,
            problems: 10_000,
            sidecars,
            ..VerifyOptions::default()
        };
        let progress = Arc::new(WorkProgress::default());
        verify_lake(&self.lake().await, scope, &options, progress)
            .await
            .unwrap()
    }

    /// Repairs the lake.
    pub async fn repair(&self, dry_run: bool) -> RepairReport {
        let options = RepairOptions {
            dry_run,
            ..RepairOptions::default()
        };
        repair(
            &mut self.lake().await,
            &options,
            Arc::new(WorkProgress::default()),
        )
        .await
        .unwrap()
    }

    /// Returns all rows of the lake by their addresses, to compare lakes with different files.
    pub async fn rows(&self) -> Vec<RecordBatch> {
        let mut rows: Vec<RecordBatch> = Vec::new();
        for path in self.segments().await {
            let batch = read(&path).unwrap();
            rows.extend((0..batch.num_rows()).map(|row| batch.slice(row, 1)));
        }
        rows.sort_by_key(|row| row.column(0).as_string::<i32>().value(0).to_owned());
        rows
    }

    /// Replaces the data file `path` by `rows`, written by Arrow's own writer and committed, as
    /// another engine would.
    pub async fn replace(&self, path: &Path, rows: &RecordBatch) {
        let mut lake = self.lake().await;
        let name = path.file_name().unwrap().to_str().unwrap();
        let removed = lake
            .grains
            .files()
            .unwrap()
            .into_iter()
            .find(|file| file.name == name)
            .unwrap();
        let name = name.replacen("part-", "part-0", 1);
        let path = path.with_file_name(&name);
        let mut writer =
            ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), rows.schema(), None)
                .unwrap();
        writer.write(rows).unwrap();
        writer.close().unwrap();
        let size = std::fs::metadata(&path).unwrap().len();
        let added = DataFile::untagged(name, size, rows.num_rows() as u64);
        let change = Change {
            added: vec![added],
            removed: vec![removed],
            changes_rows: true,
            ..Change::default()
        };
        lake.grains
            .commit(change, "another engine", 0)
            .await
            .unwrap();
    }
}

impl Lab {
    /// Adds the rows of the data file `path` to the table once more, in a segment without sidecars,
    /// as two compactions at the same time once did. Returns the new data file.
    pub async fn double(&self, path: &Path) -> PathBuf {
        let mut lake = self.lake().await;
        let name = path.file_name().unwrap().to_str().unwrap();
        let file = lake.grains.files().unwrap();
        let file = file.into_iter().find(|file| file.name == name).unwrap();
        let copy = SegmentId::new_sealed(self.sealed).file_name();
        let target = path.with_file_name(&copy);
        std::fs::copy(path, &target).unwrap();
        let change = Change {
            added: vec![DataFile {
                name: copy,
                versions: None,
                ..file
            }],
            changes_rows: true,
            ..Change::default()
        };
        lake.grains.commit(change, "compact", 0).await.unwrap();
        target
    }
}

/// Returns the rows of the Parquet file `path`.
pub fn read(path: &Path) -> Result<RecordBatch, ParquetError> {
    let bytes = std::fs::read(path).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes))?
        .with_batch_size(1 << 20)
        .build()?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    Ok(arrow::compute::concat_batches(&schema, &batches)?)
}

/// Returns `column` with `cell`, a column of one row, in row `row`.
pub fn with_cell(column: &ArrayRef, row: usize, cell: &ArrayRef) -> ArrayRef {
    let (before, after) = (
        column.slice(0, row),
        column.slice(row + 1, column.len() - row - 1),
    );
    concat(&[&before, cell, &after]).unwrap()
}

/// Changes the tags of the segments in the log.
pub fn edit_tags(lab: &Lab, edit: impl Fn(&mut serde_json::Map<String, serde_json::Value>)) {
    for entry in std::fs::read_dir(lab.path("grains/_delta_log")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let edited = |line: &str| {
            let mut action: serde_json::Value = serde_json::from_str(line).unwrap();
            if let Some(tags) = action.pointer_mut("/add/tags") {
                edit(tags.as_object_mut().unwrap());
            }
            action.to_string()
        };
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<String> = text.lines().map(edited).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
    }
}

/// Verifies the lake, and returns how many problems have `part` in their messages.
pub async fn problems_with(lab: &Lab, part: &str) -> usize {
    let report = lab.verify().await;
    let problems = report.problems.iter();
    problems
        .filter(|problem| problem.message.contains(part))
        .count()
}
