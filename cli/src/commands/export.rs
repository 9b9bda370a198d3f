//! `export`: writes grains of the lake to files.

use futures::TryStreamExt;
use gristmill_engine::error::EngineError;
use gristmill_engine::export::{ExportFormat, ExportOptions, ExportReport, GrainRewriter, export};
use gristmill_engine::lake::{Lake, RowStream};
use gristmill_queries::sql::{FileAccess, SessionContext, SqlOptions, lake_context, select_grains};
use gristmill_schemas::container::Codec;
use std::path::Path;
use std::sync::Arc;

use super::convert::adapter_of;
use super::export_gate::ExportGate;
use super::pseudonyms;
use super::sql::{failure, options};
use super::{CommandContext, changes};
use crate::args::ResultArgs;
use crate::args::transfer::{Compression, ExportArgs, ExportKind};
use crate::exit::{CommandOutcome, Failure};
use crate::human_readable::counted;
use crate::log::note;
use crate::output::is_stdout;

/// Writes all grains, or those that match a condition; the outcome is `Problems` if the format
/// can't represent some of them.
pub async fn run(
    context: &CommandContext,
    arguments: ExportArgs,
) -> Result<CommandOutcome, Failure> {
    if let Some(since) = arguments.changes.since {
        return changes::export(context, arguments, since).await;
    }
    let printer = context.printer(ResultArgs::default());
    let format = format_of(&arguments)?;
    let gate = ExportGate::new(&arguments)?;
    let lake = context.open_lake().await?;
    let session = session_of(context, &lake).await?;
    let rows = match &arguments.condition {
        Some(condition) => picked(&session, format, condition).await?,
        None => lake.scan(format.columns())?,
    };
    gate.pass(&lake, session, format).await?;
    let to_stdout = is_stdout(Some(&arguments.out));
    let rewriter = pseudonyms::rewriter(&lake, context, &arguments).await?;
    let options = options_of(context, arguments, format, rewriter)?;
    let (progress, shown) = context.track("export");
    let report = export(&lake, rows, &options, progress).await;
    drop(shown);
    let report = match report {
        // The reader closed the output.
        Err(EngineError::OutputClosed) => return Ok(CommandOutcome::Done),
        report => report?,
    };
    gate.record_end(&lake, &report).await?;
    // Grains and result must not be mixed on standard output.
    match to_stdout {
        true => printer.print_requests(),
        false => printer.record(&report)?,
    }
    if !context.common.quiet {
        warn_of_state(&report);
    }
    Ok(CommandOutcome::done_if(report.not_written == 0))
}

fn options_of(
    context: &CommandContext,
    arguments: ExportArgs,
    format: ExportFormat,
    rewriter: Option<Arc<dyn GrainRewriter>>,
) -> Result<ExportOptions, Failure> {
    Ok(ExportOptions {
        provider: arguments.provider.as_deref().map(adapter_of).transpose()?,
        out: arguments.out,
        format,
        overwrite: arguments.force,
        split: arguments.split.map(|size| size.0),
        threads: context.row_group_threads(),
        rewriter,
        prices: context.prices()?,
    })
}

/// Warns about lifecycle state that the exported file doesn't contain.
fn warn_of_state(report: &ExportReport) {
    let (events, supersessions) = (report.events_left_behind, report.supersessions_left_behind);
    if events + supersessions > 0 {
        note(format_args!(
            "the export doesn't contain the lake's lifecycle state: {} (contradicted, verified \
             …) and {} recorded in superseding grains. A lake that ingests it treats superseded and \
             contradicted grains as current; use `--format mg` to include the state",
            counted(events, "event", "events"),
            counted(supersessions, "supersession", "supersessions"),
        ));
    }
}

/// Returns the SQL context of conditions and rules, at the version of `lake`.
pub(super) async fn session_of(
    context: &CommandContext,
    lake: &Lake,
) -> Result<SessionContext, Failure> {
    let options = SqlOptions {
        files: FileAccess::Read,
        ..options(context)?
    };
    lake_context(lake, &options).await.map_err(failure)
}

async fn picked(
    session: &SessionContext,
    format: ExportFormat,
    condition: &str,
) -> Result<RowStream, Failure> {
    let rows = select_grains(session, format.columns(), condition)
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
    let kind = arguments
        .kind
        .or_else(|| kind_of(&arguments.out))
        .ok_or_else(|| {
            let out = arguments.out.display();
            Failure::usage(format!(
                "can't derive the format from `{out}`; use the extension .mg, .frames, .jsonl, \
             .parquet, .sqlite or .db, or set --format"
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

/// Refuses options that don't apply to the format, rather than ignoring them.
fn refuse_unfit(arguments: &ExportArgs, format: ExportFormat) -> Result<(), Failure> {
    if is_stdout(Some(&arguments.out))
        && matches!(format, ExportFormat::Container(_) | ExportFormat::Sqlite)
    {
        let message = "containers and databases can't be written to standard output; use frames, \
                       jsonl or exchanges";
        return Err(Failure::usage(message));
    }
    if arguments.provider.is_some() && format != ExportFormat::Exchanges {
        return Err(Failure::usage("--provider needs --format exchanges"));
    }
    let is_container = matches!(format, ExportFormat::Container(_));
    if arguments.compression != Compression::None && !is_container {
        return Err(Failure::usage("--compression needs --format mg"));
    }
    if arguments.pseudonymize {
        refuse_unfit_pseudonyms(arguments, format)?;
    }
    if arguments.split.is_some() && !is_container {
        return Err(Failure::usage("--split needs --format mg"));
    }
    Ok(())
}

/// Refuses pseudonyms in a format that has none, and those without a key.
fn refuse_unfit_pseudonyms(arguments: &ExportArgs, format: ExportFormat) -> Result<(), Failure> {
    if format != ExportFormat::JsonLines {
        return Err(Failure::usage("--pseudonymize needs --format jsonl"));
    }
    // A configuration file can set the flag alone, which must not write the names.
    if arguments.pseudonym_key.is_none() {
        return Err(Failure::usage("--pseudonymize needs --pseudonym-key"));
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
