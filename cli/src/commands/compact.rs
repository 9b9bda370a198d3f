//! `compact`: many small segments become few large ones.

use std::sync::Arc;

use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::progress::WorkProgress;

use super::Context;
use super::ingest::{position, stop_on_interrupt};
use crate::args::Compact;
use crate::exit::{Failure, Outcome};
use crate::progress::Progress;

/// Merges what is small.
pub async fn run(context: &Context, arguments: Compact) -> Result<Outcome, Failure> {
    let printer = context.printer(arguments.results);
    let mut lake = context.open_lake().await?;
    let options = CompactOptions {
        threads: context.threads(),
        ..CompactOptions::default()
    };
    let progress = Arc::new(WorkProgress::default());
    stop_on_interrupt(Arc::clone(&progress));
    let watched = Arc::clone(&progress);
    let shown = Progress::show(&context.common, "compact", move || position(&watched));
    let report = compact(&mut lake, &options, progress).await;
    drop(shown);
    printer.record(&report?)?;
    Ok(Outcome::Done)
}
