//! `mg_file(path)`: the grains of a container, a stream of frames or a single blob as rows of
//! `grains`, without a lake; and `transcript_file(path [, kind])`: those of recorded conversations.
//!
//! The file is verified as by ingest, on all cores. Refused grains have no row; their number and
//! the first reason are logged as a warning.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::prelude::SessionContext;
use futures::{StreamExt, stream};
use gristmill_connectors::source::{SourceKind, discover};
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_engine::ingest::FileScan;
use gristmill_schemas::columns::grains_schema;
use gristmill_schemas::grain::DecodeMode;

use super::allowlist::{FileAccess, StatementError};
use super::external;

/// Names of the functions.
const MG_FILE: &str = "mg_file";
const TRANSCRIPT_FILE: &str = "transcript_file";

/// Registers both functions; if `files` are refused, the functions return an error.
pub(super) fn register(context: &SessionContext, files: FileAccess) {
    if files == FileAccess::Refused {
        for name in [MG_FILE, TRANSCRIPT_FILE] {
            context.register_udtf(name, Arc::new(RefusedFile(name)));
        }
        return;
    }
    context.register_udtf(MG_FILE, Arc::new(MgFile));
    context.register_udtf(TRANSCRIPT_FILE, Arc::new(TranscriptFile));
}

/// A file function in a session without file access.
#[derive(Debug)]
struct RefusedFile(&'static str);

impl TableFunctionImpl for RefusedFile {
    fn call_with_args(&self, _: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        Err(external(StatementError::FileFunction { function: self.0 }))
    }
}

/// `mg_file`.
#[derive(Debug)]
struct MgFile;

impl TableFunctionImpl for MgFile {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        match texts(args.exprs()).as_deref() {
            Some([path]) => Ok(Arc::new(FileTable::new(path, None))),
            _ => plan_err!("{MG_FILE} takes one argument: a path, pattern or URI as a text"),
        }
    }
}

/// `transcript_file`.
#[derive(Debug)]
struct TranscriptFile;

impl TableFunctionImpl for TranscriptFile {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let named = texts(args.exprs());
        let (path, kind) = match named.as_deref() {
            Some([path]) => (path, None),
            Some([path, kind]) => (path, Some(*kind)),
            _ => {
                return plan_err!(
                    "{TRANSCRIPT_FILE} takes a path, pattern or URI, and an optional kind"
                );
            }
        };
        let kind = kind.map(transcript_kind).transpose()?;
        Ok(Arc::new(FileTable::new(path, kind)))
    }
}

/// Returns the kind of transcript with this name.
fn transcript_kind(name: &str) -> Result<SourceKind> {
    match TranscriptKind::from_name(name) {
        Some(kind) => Ok(SourceKind::Transcript(kind)),
        None => {
            let known: Vec<_> = TranscriptKind::ALL.iter().map(|kind| kind.name()).collect();
            plan_err!(
                "unknown kind of transcript `{name}`; known kinds: {}",
                known.join(", ")
            )
        }
    }
}

/// Returns the arguments if all of them are texts.
fn texts(arguments: &[Expr]) -> Option<Vec<&str>> {
    arguments.iter().map(text).collect()
}

fn text(argument: &Expr) -> Option<&str> {
    match argument {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => {
            Some(text)
        }
        _ => None,
    }
}

/// The files that match one path or pattern, as a table.
struct FileTable {
    path: String,
    /// The kind of the files; `None` to detect it.
    kind: Option<SourceKind>,
    opened: Mutex<Option<Arc<Vec<FileScan>>>>,
}

impl fmt::Debug for FileTable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "FileTable({})", self.path)
    }
}

impl FileTable {
    fn new(path: &str, kind: Option<SourceKind>) -> FileTable {
        FileTable {
            path: path.to_owned(),
            kind,
            opened: Mutex::default(),
        }
    }

    /// Returns the files, opened once for all scans of a statement.
    async fn open(&self) -> Result<Arc<Vec<FileScan>>> {
        let opened = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(files) = opened().as_ref() {
            return Ok(Arc::clone(files));
        }
        let mut files = Vec::new();
        for source in discover(std::slice::from_ref(&self.path))
            .await
            .map_err(external)?
        {
            let file = FileScan::open(source, self.kind, DecodeMode::StrictAliased)
                .await
                .map_err(external)?;
            if let Some(damage) = file.damage() {
                tracing::warn!(file = file.uri(), %damage, "the rest of the file can't be read");
            }
            files.push(file);
        }
        let files = Arc::new(files);
        *opened() = Some(Arc::clone(&files));
        Ok(files)
    }
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        grains_schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.open().await?;
        let parts: Vec<(usize, usize)> = files
            .iter()
            .enumerate()
            .flat_map(|(file, scan)| (0..scan.parts()).map(move |part| (file, part)))
            .collect();
        let count = state
            .config_options()
            .execution
            .target_partitions
            .clamp(1, parts.len().max(1));
        let per_partition = parts.len().div_ceil(count).max(1);
        let partition = |parts: &[(usize, usize)]| -> Arc<dyn PartitionStream> {
            Arc::new(FilePartition {
                files: Arc::clone(&files),
                parts: parts.to_vec(),
                schema: grains_schema(),
            })
        };
        let mut partitions: Vec<_> = parts.chunks(per_partition).map(partition).collect();
        if partitions.is_empty() {
            partitions.push(partition(&[]));
        }
        let scan =
            StreamingTableExec::try_new(grains_schema(), partitions, projection, [], false, limit)?;
        Ok(Arc::new(scan))
    }
}

/// The file parts that one partition reads.
struct FilePartition {
    files: Arc<Vec<FileScan>>,
    /// Index of the file and of its part.
    parts: Vec<(usize, usize)>,
    schema: SchemaRef,
}

impl fmt::Debug for FilePartition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} parts", self.parts.len())
    }
}

impl PartitionStream for FilePartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let files = Arc::clone(&self.files);
        let batches = stream::iter(self.parts.clone()).then(move |(file, part)| {
            let files = Arc::clone(&files);
            async move {
                // Verification is CPU-bound, so it runs outside the async runtime's threads.
                let read = tokio::task::spawn_blocking(move || {
                    files
                        .get(file)
                        .map_or(Ok(None), |file| read_part(file, part))
                });
                read.await.map_err(external)?
            }
        });
        let batches = batches.filter_map(|batch| std::future::ready(batch.transpose()));
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches,
        ))
    }
}

/// Reads one part of a file and logs refused grains; `None` if the part has no rows.
fn read_part(file: &FileScan, part: usize) -> Result<Option<RecordBatch>> {
    let Some(scanned) = file.part(part).map_err(external)? else {
        return Ok(None);
    };
    if let Some(error) = &scanned.first_refusal {
        tracing::warn!(
            file = file.uri(),
            refused = scanned.refused,
            first = %error,
            "grains refused"
        );
    }
    Ok(Some(scanned.rows))
}
