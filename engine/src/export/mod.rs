//! Exports grains from the lake, byte for byte as they were ingested.
//!
//! | module | contents |
//! |---|---|
//! | `rows` | the grains in a batch of rows, verified against their addresses |
//! | `container` | `.mg` files, sorted and split |
//! | `stream` | frames, JSON lines and Parquet, in one pass |
//! | `messages` | conversations as a SQLite database, or as exchanges with a provider |
//! | `output` | destinations |
//!
//! Rows are a stream from [`Lake::scan`] or from a query. Every blob is hashed again before it is
//! written; a grain that was delivered in an envelope is exported in it.

mod container;
mod messages;
mod output;
mod rows;
mod stream;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use futures::StreamExt;
use gristmill_connectors::wire::adapter::Adapter;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::container::Codec;
use gristmill_schemas::grain::{Field, Grain};
use gristmill_schemas::json::Json;
use gristmill_schemas::message::price::PriceTable;
use serde::Serialize;

use crate::error::{Context, EngineError, Result};
use crate::lake::{Lake, RowStream};
use crate::progress::WorkProgress;

pub(crate) use output::{Output, Target};
pub(crate) use rows::delivered_grains;
pub(crate) use stream::grain_lines;

/// Format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// `.mg` containers, the grain region compressed with this codec.
    Container(Codec),
    /// Length-prefixed frames.
    Frames,
    /// Grains as JSON, one per line, in the form that `grain encode` reads.
    JsonLines,
    /// The rows themselves.
    Parquet,
    /// A SQLite database of their messages.
    Sqlite,
    /// Their conversations as requests and responses, one branch per line.
    Exchanges,
}

impl ExportFormat {
    /// Returns the columns that rows must have for this format, in order; `None` for all columns of
    /// `grains`.
    pub fn columns(self) -> Option<&'static [&'static str]> {
        match self {
            ExportFormat::Parquet => None,
            _ => Some(&GRAIN_COLUMNS),
        }
    }

    /// Returns the name of the format.
    pub fn name(self) -> &'static str {
        match self {
            ExportFormat::Container(_) => "mg",
            ExportFormat::Frames => "frames",
            ExportFormat::JsonLines => "jsonl",
            ExportFormat::Parquet => "parquet",
            ExportFormat::Sqlite => "sqlite",
            ExportFormat::Exchanges => "exchanges",
        }
    }

    /// Returns whether the format loses the lifecycle state of grains. Only containers have a
    /// manifest for it.
    pub(crate) fn leaves_state_behind(self) -> bool {
        !matches!(self, ExportFormat::Container(_))
    }
}

/// The columns of a grain, in the order of the table.
pub(crate) const GRAIN_COLUMNS: [&str; 5] = [
    SystemColumn::ContentAddress.name(),
    SystemColumn::Encoding.name(),
    SystemColumn::Blob.name(),
    SystemColumn::Envelope.name(),
    Field::CreatedAt.name(),
];

/// Rewrites grains on their way out, such as to pseudonymise them.
pub trait GrainRewriter: std::fmt::Debug + Send + Sync {
    /// Returns what is written in place of an address.
    fn address(&self, address: &ContentAddress) -> String;

    /// Returns what is written in place of `grain`; `None` to leave it out.
    fn grain(&self, grain: &Grain<'_>) -> Option<Json<'static>>;
}

/// Options of an export.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// The output file; `-` for standard output, if the format is a stream.
    pub out: PathBuf,
    /// The format.
    pub format: ExportFormat,
    /// Whether to overwrite existing files.
    pub overwrite: bool,
    /// Size in bytes at which a container is continued in another file, if it is below the limit of
    /// its offsets.
    pub split: Option<u64>,
    /// Number of threads; 0 for one per core.
    pub threads: usize,
    /// Provider whose format exchanges have; `None` for the provider of the last response.
    pub provider: Option<&'static dyn Adapter>,
    /// Rewrites the grains of JSON lines; other formats ignore it.
    pub rewriter: Option<Arc<dyn GrainRewriter>>,
    /// Prices of tokens.
    pub prices: PriceTable,
}

/// The result of an export.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExportReport {
    /// Number of grains that were written.
    pub grains: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Number of entries of index manifests.
    pub states: u64,
    /// Number of grains that the format should contain but doesn't: messages of conversations
    /// without a known provider, and grains that can't be pseudonymised.
    pub not_written: u64,
    /// Number of lifecycle events of the lake that the format can't represent: contradicted,
    /// verified, expired …
    pub events_left_behind: u64,
    /// Number of supersessions that are recorded only in rows of superseding grains and are lost,
    /// because the format can't represent them or the superseding grain isn't exported.
    pub supersessions_left_behind: u64,
    /// Wall-clock time in seconds.
    pub seconds: f64,
    /// The files, in order.
    pub files: Vec<ExportedFile>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportedFile {
    /// Its path.
    pub path: String,
    /// Number of grains in it.
    pub grains: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Number of entries of its index manifest.
    pub states: u64,
}

/// Writes batches of rows to files.
trait Sink: Send {
    fn push(&mut self, rows: &RecordBatch) -> Result<()>;

    fn finish(self: Box<Self>) -> Result<SinkOutput>;
}

/// Result of a sink.
struct SinkOutput {
    files: Vec<ExportedFile>,
    not_written: u64,
    /// Number of supersessions in the rows that were written.
    supersessions: u64,
}

impl From<Vec<ExportedFile>> for SinkOutput {
    /// All rows were written.
    fn from(files: Vec<ExportedFile>) -> SinkOutput {
        SinkOutput {
            files,
            not_written: 0,
            supersessions: 0,
        }
    }
}

/// Exports `rows`, which have the format's [`columns`](ExportFormat::columns), as of the version of
/// `lake`.
///
/// # Errors
/// [`EngineError::File`] if a file can't be written or exists, or a blob doesn't match its address;
/// [`EngineError::OutputClosed`] if the reader of a stream closed it; [`EngineError::Interrupted`];
/// errors of `rows`. Unfinished files are removed.
pub async fn export(
    lake: &Lake,
    mut rows: RowStream,
    options: &ExportOptions,
    progress: Arc<WorkProgress>,
) -> Result<ExportReport> {
    let started = Instant::now();
    let mut sink = open_sink(lake, options)?;
    while let Some(batch) = rows.next().await {
        if progress.is_stopped() {
            return Err(EngineError::Interrupted);
        }
        let batch = batch?;
        WorkProgress::add(&progress.grains, batch.num_rows() as u64);
        WorkProgress::add(&progress.bytes, batch.get_array_memory_size() as u64);
        sink = blocking(move || sink.push(&batch).map(|()| sink)).await?;
    }
    let SinkOutput {
        files,
        not_written,
        supersessions,
    } = blocking(move || sink.finish()).await?;
    let (events, links) = match options.format.leaves_state_behind() {
        true => (
            lake.state.files()?.iter().map(|file| file.rows).sum(),
            lake.count_supersessions().await?,
        ),
        false => (0, 0),
    };
    Ok(ExportReport {
        grains: files.iter().map(|file| file.grains).sum(),
        bytes: files.iter().map(|file| file.bytes).sum(),
        states: files.iter().map(|file| file.states).sum(),
        not_written,
        events_left_behind: events,
        supersessions_left_behind: links.saturating_sub(supersessions),
        seconds: started.elapsed().as_secs_f64(),
        files,
    })
}

fn open_sink(lake: &Lake, options: &ExportOptions) -> Result<Box<dyn Sink>> {
    Ok(match options.format {
        ExportFormat::Container(codec) => {
            Box::new(container::ContainerSink::new(lake.clone(), codec, options)?)
        }
        ExportFormat::Frames => Box::new(stream::FrameSink::new(options)?),
        ExportFormat::JsonLines => Box::new(stream::JsonSink::new(options)?),
        ExportFormat::Parquet => Box::new(stream::ParquetSink::new(options)?),
        ExportFormat::Sqlite => Box::new(messages::SqliteSink::new(options)?),
        ExportFormat::Exchanges => Box::new(messages::ExchangeSink::new(options)?),
    })
}

async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(job).await.task("the export")?
}
