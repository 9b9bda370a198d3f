//! `repair`: rebuilds damaged derived data and lists what can't be repaired.

use gristmill_engine::repair::{RepairOptions, repair};

use super::CommandContext;
use crate::args::maintenance::RepairArgs;
use crate::exit::{CommandOutcome, Failure};

/// Repairs the lake; the data has problems if something can't be repaired.
pub async fn run(
    context: &CommandContext,
    arguments: RepairArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let options = RepairOptions {
        dry_run: arguments.dry_run,
        accept_logs: arguments.accept_logs,
        resolver: context.key_resolver()?,
        ..RepairOptions::default()
    };
    let mut lake = context.open_damaged_lake().await??;
    let (progress, shown) = context.track("repair");
    let report = repair(&mut lake, &options, progress).await;
    drop(shown);
    let report = report?;
    printer.record(&report)?;
    Ok(CommandOutcome::done_if(report.unrepaired == 0))
}
