//! `export`: grains out of the lake.

use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use gristmill_engine::error::EngineError;
use gristmill_engine::export::{ExportFormat, ExportOptions, ExportReport, export};
use gristmill_engine::lake::RowStream;
use gristmill_engine::progress::WorkProgress;
use gristmill_queries::sql::{FileAccess, select_grains};
use gristmill_schemas::container::Codec;

use super::CommandContext;
use super::convert::adapter_of;
use super::ingest::{snapshot, stop_on_interrupt};
use super::sql::{failure, session};
use crate::args::{Compression, ExportArgs, ExportKind, ResultArgs};
use crate::exit::{CommandOutcome, Failure};
use crate::progress::ProgressDisplay;

/// Writes all grains, or those that a condition picks; the data has problems if some of them have
/// no place in what was asked for.
pub async fn run(
    context: &CommandContext,
    arguments: ExportArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(ResultArgs::default());
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
    let shown = ProgressDisplay::start(&context.common, "export", move || snapshot(&watched));
    let report = export(&lake, rows, &options, progress).await;
    drop(shown);
    let report = match report {
        // The reader of our output has seen enough.
        Err(EngineError::OutputClosed) => return Ok(CommandOutcome::Done),
        report => report?,
    };
    // The result must not follow the grains.
    if !to_stdout {
        printer.record(&report)?;
    }
    if !context.common.quiet {
        warn_of_state(&report);
    }
    Ok(if report.not_written == 0 {
        CommandOutcome::Done
    } else {
        CommandOutcome::Problems
    })
}

/// Says what a lake that takes the export in won't know.
fn warn_of_state(report: &ExportReport) {
    let (events, supersessions) = (report.events_left_behind, report.supersessions_left_behind);
    if events + supersessions > 0 {
        eprintln!(
            "the lake's lifecycle state stays behind: {events} events (what was contradicted, \
             verified …) and {supersessions} supersessions that superseding grains know; where \
             this is taken in, superseded and contradicted grains are current again. `--format mg` \
             takes it along"
        );
    }
}

async fn picked(
    context: &CommandContext,
    format: ExportFormat,
    condition: &str,
) -> Result<RowStream, Failure> {
    let session = session(context, FileAccess::Read).await?;
    let rows = select_grains(&session, format.columns(), condition)
        .await
        .map_err(failure)?;
    let fault = |cause| EngineError::File {
        what: "can't read",
        path: "grains".to_owned(),
        cause: Box::new(cause),
    };
    Ok(Box::pin(rows.map_err(fault)))
}

fn format_of(arguments: &ExportArgs) -> Result<ExportFormat, Failure> {
    let kind = arguments.kind.or_else(|| kind_of(&arguments.out)).ok_or_else(|| {
        let out = arguments.out.display();
        Failure::usage(format!(
            "`{out}` doesn't say what to write; .mg, .frames, .jsonl, .parquet, .sqlite and .db \
             do, or --format"
        ))
    })?;
    let format = match kind {
        ExportKind::Mg => ExportFormat::Container(codec_of(arguments.compression)),
        ExportKind::Frames => ExportFormat::Frames,
        ExportKind::Jsonl => ExportFormat::JsonLines,
        ExportKind::Parquet => ExportFormat::Parquet,
        ExportKind::Sqlite => ExportFormat::Sqlite,
        ExportKind::Exchanges => ExportFormat::Exchanges,
    };
    refuse_unfit(arguments, format)?;
    Ok(format)
}

fn codec_of(compression: Compression) -> Codec {
    match compression {
        Compression::None => Codec::None,
        Compression::Zstd => Codec::Zstd,
        Compression::Lz4 => Codec::Lz4,
    }
}

/// Options that mean nothing for a format aren't passed over: whoever gave them expects something
/// of them.
fn refuse_unfit(arguments: &ExportArgs, format: ExportFormat) -> Result<(), Failure> {
    if arguments.out.as_os_str() == "-"
        && matches!(format, ExportFormat::Container(_) | ExportFormat::Sqlite)
    {
        let message = "containers and databases can't be written to standard output; frames, jsonl \
                       and exchanges can";
        return Err(Failure::usage(message));
    }
    if arguments.provider.is_some() && format != ExportFormat::Exchanges {
        return Err(Failure::usage(
            "--provider says in whose form exchanges are written; it needs --format exchanges",
        ));
    }
    let is_container = matches!(format, ExportFormat::Container(_));
    if arguments.compression != Compression::None && !is_container {
        return Err(Failure::usage(
            "--compression is about the grain region of containers; it needs --format mg",
        ));
    }
    if arguments.split.is_some() && !is_container {
        return Err(Failure::usage(
            "--split says where a container ends; it needs --format mg",
        ));
    }
    Ok(())
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
