//! `inspect`: shows the contents of a file.

use gristmill_connectors::source::discover;
use gristmill_engine::inspect::inspect;

use super::CommandContext;
use crate::args::maintenance::InspectArgs;
use crate::exit::{CommandOutcome, Failure};

/// Shows one file; the outcome is `Problems` if a part of it is unreadable.
pub async fn run(
    context: &CommandContext,
    arguments: InspectArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let mut sources = discover(std::slice::from_ref(&arguments.file)).await?;
    let (Some(source), true) = (sources.pop(), sources.is_empty()) else {
        return Err(Failure::usage(format!(
            "`{}` matches several files; inspect takes one",
            arguments.file
        )));
    };
    let found = inspect(source, arguments.sample).await?;
    printer.record(&found)?;
    let footer_differs = found
        .container
        .as_ref()
        .is_some_and(|container| container.footer != "valid");
    let is_whole = found.damage.is_none() && found.unreadable.is_empty() && !footer_differs;
    Ok(CommandOutcome::done_if(is_whole))
}
