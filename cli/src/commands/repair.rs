//! `repair`: rebuilds damaged derived data and lists what can't be repaired.

use std::sync::Arc;

use gristmill_engine::progress::WorkProgress;
use gristmill_engine::repair::{RepairOptions, repair};

use super::CommandContext;
use super::ingest::{snapshot, stop_on_interrupt};
use crate::args::RepairArgs;
use crate::exit::{CommandOutcome, Failure};
use crate::progress::ProgressDisplay;

/// Repairs the lake; the data has problems if something can't be repaired.
pub async fn run(
    context: &CommandContext,
    arguments: RepairArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let options = RepairOptions {
        dry_run: arguments.dry_run,
        accept_logs: arguments.accept_logs,
        ..RepairOptions::default()
    };
    let mut lake = context.open_damaged_lake().await??;
    let progress = Arc::new(WorkProgress::default());
    stop_on_interrupt(Arc::clone(&progress));
    let watched = Arc::clone(&progress);
    let shown = ProgressDisplay::start(&context.common, "repair", move || snapshot(&watched));
    let report = repair(&mut lake, &options, progress).await;
    drop(shown);
    let report = report?;
    printer.record(&report)?;
    Ok(if report.unrepaired == 0 {
        CommandOutcome::Done
    } else {
        CommandOutcome::Problems
    })
}
