//! `compact`: merges small segments into large ones.

use gristmill_engine::compact::{CompactOptions, compact};

use super::CommandContext;
use crate::args::maintenance::CompactArgs;
use crate::exit::{CommandOutcome, Failure};

/// Merges small segments. The merged ones are as large as the memory permits.
pub async fn run(
    context: &CommandContext,
    arguments: CompactArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let mut lake = context.open_lake().await?;
    let options = options_of(context, arguments.erased);
    let (progress, shown) = context.track("compact");
    #[cfg(feature = "cluster")]
    let on_cluster =
        super::cluster::compact(context, &arguments.cluster, &mut lake, &options, &progress).await;
    #[cfg(not(feature = "cluster"))]
    let on_cluster = None;
    let report = match on_cluster {
        Some(report) => report,
        None => compact(&mut lake, &options, progress)
            .await
            .map_err(Failure::from),
    };
    drop(shown);
    printer.record(&report?)?;
    Ok(CommandOutcome::Done)
}

/// Returns options with the threads and the memory of `context`, and whether `erased` rows are
/// dropped everywhere.
fn options_of(context: &CommandContext, erased: bool) -> CompactOptions {
    CompactOptions {
        threads: context.row_group_threads(),
        erased,
        ..CompactOptions::with_memory(context.memory() as u64)
    }
}
