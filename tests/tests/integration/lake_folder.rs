//! A temporary folder with a generated corpus and lakes, used through the command line. For tests
//! of `verify`, `export` and maintenance.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use arrow::array::{AsArray, RecordBatch};
use futures::TryStreamExt;
use gristmill_engine::lake::Lake;
use gristmill_tests::binary::gristmill;
use serde_json::Value;

/// A temporary folder with a corpus and lakes.
pub(crate) struct LakeFolder {
    folder: tempfile::TempDir,
}

impl LakeFolder {
    /// An empty one.
    pub(crate) fn new() -> LakeFolder {
        LakeFolder {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates `grains` generated grains in files of `file_grains`.
    pub(crate) fn with_corpus(grains: u64, file_grains: u64) -> LakeFolder {
        let folder = LakeFolder::new();
        let (grains, file_grains) = (grains.to_string(), file_grains.to_string());
        let corpus = folder.text("corpus");
        folder.ok(&[
            "generate",
            &corpus,
            "--grains",
            &grains,
            "--file-grains",
            &file_grains,
            "--people",
            "50",
        ]);
        folder
    }

    /// The path of `name` in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The path of `name` as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// [`LakeFolder::run_on`] with the lake `lake`.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, Value) {
        self.run_on("lake", arguments)
    }

    /// Runs a command over the lake `lake`; returns its exit code and its result.
    pub(crate) fn run_on(&self, lake: &str, arguments: &[&str]) -> (i32, Value) {
        let mut command = gristmill();
        command
            .args(["--lake", &self.text(lake), "--quiet", "--format", "json"])
            .args(arguments);
        let output = command.output().unwrap();
        let code = output.status.code().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
        let result = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| Value::String(stderr.into_owned()));
        (code, result)
    }

    /// Runs a command that must succeed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> Value {
        let (code, result) = self.run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {result}");
        result
    }

    /// Ingests each file of the corpus by a separate run, so that each becomes a segment.
    pub(crate) fn ingest_file_by_file(&self) {
        for file in files(&self.path("corpus"), "mg") {
            self.ok(&["ingest", &file.display().to_string()]);
        }
    }

    /// Returns every row of `grains` by address, each column as text.
    pub(crate) fn rows(&self, lake: &str) -> BTreeMap<String, String> {
        let uri = self.text(lake);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let batches: Vec<RecordBatch> = runtime.block_on(async {
            Lake::open(&uri)
                .await
                .unwrap()
                .scan(None)
                .unwrap()
                .try_collect()
                .await
                .unwrap()
        });
        let mut rows = BTreeMap::new();
        for batch in &batches {
            let mut lines = arrow::json::LineDelimitedWriter::new(Vec::new());
            lines.write(&hex_blobs(batch)).unwrap();
            lines.finish().unwrap();
            let text = String::from_utf8(lines.into_inner()).unwrap();
            let addresses = batch
                .column_by_name("content_address")
                .unwrap()
                .as_string::<i32>();
            for (address, line) in addresses.iter().zip(text.lines()) {
                assert!(
                    rows.insert(address.unwrap().to_owned(), line.to_owned())
                        .is_none(),
                    "{address:?} twice"
                );
            }
        }
        rows
    }

    /// Returns the addresses of the grains, ascending.
    pub(crate) fn addresses(&self, lake: &str) -> Vec<String> {
        self.rows(lake).into_keys().collect()
    }
}

/// Returns the batch with binary columns as hex, for JSON.
fn hex_blobs(batch: &RecordBatch) -> RecordBatch {
    let columns = batch
        .schema_ref()
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| {
            let column = match column.as_binary_opt::<i32>() {
                Some(bytes) => std::sync::Arc::new(arrow::array::StringArray::from_iter(
                    bytes.iter().map(|bytes| bytes.map(hex::encode)),
                )) as arrow::array::ArrayRef,
                None => std::sync::Arc::clone(column),
            };
            (field.name().clone(), column, true)
        });
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Returns the files of `folder` with this ending, sorted by name.
pub(crate) fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    found.sort();
    found
}

/// Flips the lowest bit of the byte at `at`.
pub(crate) fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Returns the number in the member `member` of a result.
pub(crate) fn number(result: &Value, member: &str) -> u64 {
    result[member]
        .as_u64()
        .unwrap_or_else(|| panic!("no `{member}` in {result}"))
}
