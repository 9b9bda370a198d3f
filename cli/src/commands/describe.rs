//! `describe`: shows the lake's tables, segments, sources and sidecars.

use gristmill_engine::describe::describe;

use super::CommandContext;
use crate::args::maintenance::DescribeArgs;
use crate::exit::{CommandOutcome, Failure};

/// Prints the description.
pub async fn run(
    context: &CommandContext,
    arguments: DescribeArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let lake = context.open_lake().await?;
    printer.record(&describe(&lake).await?)?;
    Ok(CommandOutcome::Done)
}
