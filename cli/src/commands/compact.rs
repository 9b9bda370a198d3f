//! `compact`: merges small segments into large ones.

use std::sync::Arc;

use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::progress::WorkProgress;

use super::CommandContext;
use super::ingest::{snapshot, stop_on_interrupt};
use crate::args::CompactArgs;
use crate::exit::{CommandOutcome, Failure};
use crate::progress::ProgressDisplay;

/// Merges small segments.
pub async fn run(
    context: &CommandContext,
    arguments: CompactArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let mut lake = context.open_lake().await?;
    let options = CompactOptions {
        threads: context.threads(),
        ..CompactOptions::default()
    };
    let progress = Arc::new(WorkProgress::default());
    stop_on_interrupt(Arc::clone(&progress));
    let watched = Arc::clone(&progress);
    let shown = ProgressDisplay::start(&context.common, "compact", move || snapshot(&watched));
    let report = compact(&mut lake, &options, progress).await;
    drop(shown);
    printer.record(&report?)?;
    Ok(CommandOutcome::Done)
}
