//! `export --since` and `ingest --changes`: carrying changes from one lake to another.

use gristmill_connectors::source::discover;
use gristmill_engine::changes::{ChangeOptions, LakePosition, apply_changes, export_changes};
use gristmill_engine::erase::{ErasureOptions, RequestOrigin};
use gristmill_engine::error::EngineError;
use gristmill_engine::export::ExportFormat;
use gristmill_engine::ingest::IngestOptions;

use super::CommandContext;
use super::export::session_of;
use super::export_gate::ExportGate;
use super::keys::keyring;
use crate::args::ResultArgs;
use crate::args::changes::ApplyChangesArgs;
use crate::args::ingest::IngestArgs;
use crate::args::transfer::ExportArgs;
use crate::exit::{CommandOutcome, Failure};
use crate::output::is_stdout;

/// Writes what was added to the lake, closed and erased since `since`. The rules of the packs are
/// those of every export.
pub async fn export(
    context: &CommandContext,
    arguments: ExportArgs,
    since: LakePosition,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(ResultArgs::default());
    let gate = ExportGate::new(&arguments)?;
    let lake = context.open_lake().await?;
    let session = session_of(context, &lake).await?;
    gate.pass(&lake, session, ExportFormat::JsonLines).await?;
    let to_stdout = is_stdout(Some(&arguments.out));
    let (progress, shown) = context.track("export");
    let target = (arguments.out, arguments.force);
    let exported = export_changes(&lake, since, target, context.threads(), &progress).await;
    drop(shown);
    let report = match exported {
        // The reader closed the output.
        Err(EngineError::OutputClosed) => return Ok(CommandOutcome::Done),
        exported => exported?,
    };
    gate.record_end(&lake, &report.as_export()).await?;
    // Changes and result must not be mixed on standard output.
    match to_stdout {
        true => printer.print_requests(),
        false => printer.record(&report)?,
    }
    Ok(CommandOutcome::Done)
}

/// Applies bundles of changes, in the given order.
pub async fn apply(
    context: &CommandContext,
    arguments: IngestArgs,
    ingest: IngestOptions,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let sources = discover(&arguments.sources).await?;
    let mut lake = match arguments.encrypt {
        true => context.encrypted_lake().await?,
        false => context.open_or_create_lake().await?,
    };
    let options = ChangeOptions {
        ingest,
        erasure: erasure_options(context, &arguments.changes)?,
    };
    let mut reports = Vec::new();
    for source in sources {
        let (progress, shown) = context.track("ingest");
        let applied = apply_changes(&mut lake, source, &options, progress).await;
        drop(shown);
        reports.push(applied?);
    }
    // One is shown like every report; several are rows.
    match reports.as_slice() {
        [report] if printer.is_for_people() => printer.record(report)?,
        reports => printer.records(reports)?,
    }
    Ok(CommandOutcome::Done)
}

fn erasure_options(
    context: &CommandContext,
    arguments: &ApplyChangesArgs,
) -> Result<Option<ErasureOptions>, Failure> {
    let Some(signing_key) = arguments.signing_key.clone() else {
        return Ok(None);
    };
    Ok(Some(ErasureOptions {
        origin: RequestOrigin::default(),
        keyring: keyring(&context.common.keys)?,
        signing_key,
        exclusive: arguments.exclusive,
        destroy_keys: false,
        purge_versions: false,
        threads: context.row_group_threads(),
    }))
}
