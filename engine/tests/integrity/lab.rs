//! A small lake in a temporary folder, and ways to damage it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow::compute::concat;
use gristmill_connectors::generate::Corpus;
use gristmill_connectors::source::discover;
use gristmill_engine::ingest::{IngestOptions, IngestProgress, ingest};
use gristmill_engine::keys::{FileKeys, Keyring};
use gristmill_engine::lake::Lake;
use gristmill_engine::progress::WorkProgress;
use gristmill_engine::verify::{Part, VerifyOptions, VerifyReport, verify_lake};
use gristmill_schemas::container::write_frame;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

/// A lake, its keyring if it is encrypted, and the sources that were ingested.
pub struct Lab {
    folder: tempfile::TempDir,
    sealed: bool,
}

impl Lab {
    /// A lake of `segments` segments of `rows` rows each.
    pub async fn new(segments: u64, rows: usize, sealed: bool) -> Lab {
        let lab = Lab { folder: tempfile::tempdir().unwrap(), sealed };
        for number in 0..segments {
            lab.ingest(&format!("{number}.frames"), &lab.blobs(number, rows)).await;
        }
        lab
    }

    /// The blobs of the segment `number`.
    pub fn blobs(&self, number: u64, rows: usize) -> Vec<Vec<u8>> {
        let grains = Corpus { seed: 11, people: 9 }.block(number).unwrap().grains;
        grains.into_iter().take(rows).map(|grain| grain.blob).collect()
    }

    /// Ingests `blobs` as one source.
    pub async fn ingest(&self, name: &str, blobs: &[Vec<u8>]) {
        let mut frames = Vec::new();
        blobs.iter().for_each(|blob| write_frame(blob, &mut frames).unwrap());
        let path = self.folder.path().join(name);
        std::fs::write(&path, frames).unwrap();
        let sources = discover(&[path.display().to_string()]).await.unwrap();
        let options = IngestOptions { threads: 2, ..IngestOptions::default() };
        ingest(&mut self.lake().await, sources, &options, Arc::new(IngestProgress::default())).await.unwrap();
    }

    /// A fresh handle, which has nothing open.
    pub async fn lake(&self) -> Lake {
        let mut lake = Lake::open_or_create(&self.path("").display().to_string()).await.unwrap();
        if self.sealed {
            lake.seal_from_now_on(Box::new(self.keys())).await.unwrap();
        }
        lake
    }

    fn keys(&self) -> FileKeys {
        let keyring = Keyring::open_or_create(&self.folder.path().join("keyring.json"), "for tests").unwrap();
        FileKeys::beside(keyring).unwrap()
    }

    /// The file or folder `name` of the lake.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("lake").join(name)
    }

    /// The data files of `grains`, in the order of their names.
    pub async fn segments(&self) -> Vec<PathBuf> {
        let segments = self.lake().await.segments().unwrap();
        segments.iter().map(|segment| self.path("grains").join(&segment.file.name)).collect()
    }

    /// Checks the lake, listing up to 10,000 problems.
    pub async fn verify(&self) -> VerifyReport {
        let options = VerifyOptions { threads: 2, problems: 10_000, ..VerifyOptions::default() };
        verify_lake(&self.lake().await, Part::default(), &options, Arc::new(WorkProgress::default())).await.unwrap()
    }

    /// Writes `rows` as the data file `path` with Arrow's own writer, and makes the log of `grains` name its size.
    pub fn replace(&self, path: &Path, rows: &RecordBatch) {
        let before = std::fs::metadata(path).unwrap().len();
        let mut writer = ArrowWriter::try_new(std::fs::File::create(path).unwrap(), rows.schema(), None).unwrap();
        writer.write(rows).unwrap();
        writer.close().unwrap();
        self.set_size(path, before, std::fs::metadata(path).unwrap().len());
    }

    /// Makes the log say that the data file `path` has `after` bytes, not `before`.
    fn set_size(&self, path: &Path, before: u64, after: u64) {
        let name = path.file_name().unwrap().to_str().unwrap();
        for entry in std::fs::read_dir(self.path("grains/_delta_log")).unwrap() {
            let log = entry.unwrap().path();
            if log.extension().is_some_and(|ending| ending == "json") {
                let text = std::fs::read_to_string(&log).unwrap();
                let fix = |line: &str| match line.contains(name) {
                    true => line.replace(&format!("\"size\":{before}"), &format!("\"size\":{after}")),
                    false => line.to_owned(),
                };
                std::fs::write(&log, text.lines().map(fix).collect::<Vec<_>>().join("\n")).unwrap();
            }
        }
    }
}

/// The rows of the Parquet file `path`.
pub fn read(path: &Path) -> Result<RecordBatch, ParquetError> {
    let bytes = std::fs::read(path).unwrap();
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes))?.with_batch_size(1 << 20).build()?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    Ok(arrow::compute::concat_batches(&schema, &batches)?)
}

/// `column` with `cell`, a column of one row, in the place of row `row`.
pub fn with_cell(column: &ArrayRef, row: usize, cell: &ArrayRef) -> ArrayRef {
    let (before, after) = (column.slice(0, row), column.slice(row + 1, column.len() - row - 1));
    concat(&[&before, cell, &after]).unwrap()
}
