//! `export`: grains out of the lake.

use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use gristmill_engine::error::EngineError;
use gristmill_engine::export::{ExportFormat, ExportOptions, export};
use gristmill_engine::lake::RowStream;
use gristmill_engine::progress::WorkProgress;
use gristmill_queries::sql::select_grains;
use gristmill_schemas::container::Codec;

use super::Context;
use super::convert::adapter_of;
use super::ingest::{position, stop_on_interrupt};
use super::sql::{failure, session};
use crate::args::{Compression, Export, ExportKind, Results};
use crate::exit::{Failure, Outcome};
use crate::progress::Progress;

/// Writes all grains, or those that a condition picks.
pub async fn run(context: &Context, arguments: Export) -> Result<Outcome, Failure> {
    let printer = context.printer(Results::default());
    let format = format_of(&arguments)?;
    let lake = context.open_lake().await?;
    let rows = match &arguments.condition {
        Some(condition) => picked(context, format, condition).await?,
        None => lake.scan(format.columns())?,
    };
    let to_stdout = arguments.out.as_os_str() == "-";
    let options = ExportOptions {
        out: arguments.out,
        format,
        overwrite: arguments.force,
        split: arguments.split.map(|size| size.0),
        threads: context.threads(),
        provider: arguments.provider.as_deref().map(adapter_of).transpose()?,
        prices: context.prices()?,
    };
    let progress = Arc::new(WorkProgress::default());
    stop_on_interrupt(Arc::clone(&progress));
    let watched = Arc::clone(&progress);
    let shown = Progress::show(&context.common, "export", move || position(&watched));
    let report = export(&lake, rows, &options, progress).await;
    drop(shown);
    let report = report?;
    // The result must not follow the grains.
    if !to_stdout {
        printer.record(&report)?;
    }
    Ok(Outcome::Done)
}

async fn picked(context: &Context, format: ExportFormat, condition: &str) -> Result<RowStream, Failure> {
    let session = session(context).await?;
    let rows = select_grains(&session, format.columns(), condition).await.map_err(failure)?;
    let fault = |cause| EngineError::File { what: "can't read", path: "grains".to_owned(), cause: Box::new(cause) };
    Ok(Box::pin(rows.map_err(fault)))
}

fn format_of(arguments: &Export) -> Result<ExportFormat, Failure> {
    let kind = arguments.kind.or_else(|| kind_of(&arguments.out)).ok_or_else(|| {
        let out = arguments.out.display();
        Failure::usage(format!(
            "`{out}` doesn't say what to write; .mg, .frames, .jsonl, .parquet, .sqlite and .db do, or --format"
        ))
    })?;
    let format = match (kind, arguments.compression) {
        (ExportKind::Mg, Compression::None) => ExportFormat::Container(Codec::None),
        (ExportKind::Mg, Compression::Zstd) => ExportFormat::Container(Codec::Zstd),
        (ExportKind::Mg, Compression::Lz4) => ExportFormat::Container(Codec::Lz4),
        (ExportKind::Frames, _) => ExportFormat::Frames,
        (ExportKind::Jsonl, _) => ExportFormat::JsonLines,
        (ExportKind::Parquet, _) => ExportFormat::Parquet,
        (ExportKind::Sqlite, _) => ExportFormat::Sqlite,
        (ExportKind::Exchanges, _) => ExportFormat::Exchanges,
    };
    if arguments.out.as_os_str() == "-" && matches!(format, ExportFormat::Container(_) | ExportFormat::Sqlite) {
        let message = "containers and databases can't be written to standard output; frames, jsonl and exchanges can";
        return Err(Failure::usage(message));
    }
    if arguments.provider.is_some() && format != ExportFormat::Exchanges {
        return Err(Failure::usage("--provider says in whose form exchanges are written; it needs --format exchanges"));
    }
    Ok(format)
}

fn kind_of(out: &Path) -> Option<ExportKind> {
    match out.extension()?.to_str()? {
        "mg" => Some(ExportKind::Mg),
        "frames" => Some(ExportKind::Frames),
        "jsonl" | "ndjson" => Some(ExportKind::Jsonl),
        "parquet" => Some(ExportKind::Parquet),
        "sqlite" | "sqlite3" | "db" => Some(ExportKind::Sqlite),
        _ => None,
    }
}
