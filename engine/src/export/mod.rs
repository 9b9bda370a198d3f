//! Export: grains out of the lake, as they came in.
//!
//! | module | what it answers |
//! |---|---|
//! | `rows` | which grains are in a batch of rows, and are they still what their addresses say? |
//! | `container` | how do rows become `.mg` files, sorted and split? |
//! | `stream` | how do they become frames, JSON lines or Parquet, in one pass? |
//! | `messages` | how do their conversations become a SQLite database, or exchanges with a provider? |
//! | `output` | where do they go? |
//!
//! Rows come as a stream, from [`Lake::scan`] or from a query. Every blob is hashed once more on
//! its way out; a grain that came in an envelope goes out in it.

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
use gristmill_schemas::columns::IdentityColumn;
use gristmill_schemas::container::Codec;
use gristmill_schemas::grain::Field;
use gristmill_schemas::message::price::PriceTable;
use serde::Serialize;

use crate::error::{Context, EngineError, Result};
use crate::lake::{Lake, RowStream};
use crate::progress::WorkProgress;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// `.mg` containers, the grain region compressed with this codec.
    Container(Codec),
    /// Length-prefixed frames.
    Frames,
    /// Grains as JSON, one a line, in the form that `grain encode` reads.
    JsonLines,
    /// The rows themselves.
    Parquet,
    /// A SQLite database of their messages.
    Sqlite,
    /// Their conversations as requests and responses, a branch a line.
    Exchanges,
}

impl ExportFormat {
    /// Returns the columns that rows must have for this format, in this order; `None` for all of
    /// `grains`.
    pub fn columns(self) -> Option<&'static [&'static str]> {
        match self {
            ExportFormat::Parquet => None,
            _ => Some(&GRAIN_COLUMNS),
        }
    }

    /// Returns whether grains go out in this format without what is known of their lifecycle, so
    /// that a lake which takes them in knows less. Only containers have a manifest for it.
    pub fn leaves_state_behind(self) -> bool {
        !matches!(self, ExportFormat::Container(_))
    }
}

/// What makes a grain: in the order of the table.
const GRAIN_COLUMNS: [&str; 5] = [
    IdentityColumn::ContentAddress.name(),
    IdentityColumn::Encoding.name(),
    IdentityColumn::Blob.name(),
    IdentityColumn::Envelope.name(),
    Field::CreatedAt.name(),
];

/// What a user can choose.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// The file to write; `-` for standard output, where the format is a stream.
    pub out: PathBuf,
    /// What to write.
    pub format: ExportFormat,
    /// Whether files that exist are written over.
    pub overwrite: bool,
    /// Bytes from which on a container is continued in another file, if less than its offsets
    /// reach.
    pub split: Option<u64>,
    /// Threads to work on; 0 for one per core.
    pub threads: usize,
    /// Whose form exchanges are written in; that of the provider who answered last if not named.
    pub provider: Option<&'static dyn Adapter>,
    /// What tokens cost.
    pub prices: PriceTable,
}

/// The result of an export.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExportReport {
    /// Grains that were written.
    pub grains: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Entries of index manifests.
    pub states: u64,
    /// Grains that belong into such an export and aren't in it: messages of conversations that no
    /// provider is known for.
    pub not_written: u64,
    /// Lifecycle events of the lake that the format can't carry: what was contradicted, verified,
    /// expired …
    pub events_left_behind: u64,
    /// Supersessions that only the rows of superseding grains know and that don't go along: the
    /// format has no place for them, or the superseding grain isn't exported.
    pub supersessions_left_behind: u64,
    /// Wall-clock time.
    pub seconds: f64,
    /// The files, in their order.
    pub files: Vec<ExportedFile>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportedFile {
    /// Where it is.
    pub path: String,
    /// Grains in it.
    pub grains: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Entries of its index manifest.
    pub states: u64,
}

/// Takes rows, bit by bit, and makes files of them.
trait Sink: Send {
    fn push(&mut self, rows: &RecordBatch) -> Result<()>;

    fn finish(self: Box<Self>) -> Result<SinkOutput>;
}

/// What became of the rows.
struct SinkOutput {
    files: Vec<ExportedFile>,
    not_written: u64,
    /// Supersessions in the rows that were written.
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

/// Writes `rows`, which have the format's [`columns`](ExportFormat::columns), as of the version of
/// `lake`.
///
/// # Errors
/// [`EngineError::File`] if a file can't be written or exists already, or a row isn't what its
/// address says; [`EngineError::OutputClosed`] if nobody reads a stream any more;
/// [`EngineError::Interrupted`]; whatever `rows` says. Files that were begun are then removed.
pub async fn export(
    lake: &Lake,
    mut rows: RowStream,
    options: &ExportOptions,
    progress: Arc<WorkProgress>,
) -> Result<ExportReport> {
    let started = Instant::now();
    let mut sink: Box<dyn Sink> = match options.format {
        ExportFormat::Container(codec) => {
            Box::new(container::ContainerSink::new(lake.clone(), codec, options)?)
        }
        ExportFormat::Frames => Box::new(stream::FrameSink::new(options)?),
        ExportFormat::JsonLines => Box::new(stream::JsonSink::new(options)?),
        ExportFormat::Parquet => Box::new(stream::ParquetSink::new(options)?),
        ExportFormat::Sqlite => Box::new(messages::SqliteSink::new(options)?),
        ExportFormat::Exchanges => Box::new(messages::ExchangeSink::new(options)?),
    };
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

async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(job).await.task("the export")?
}
