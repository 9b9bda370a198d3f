//! `gc`: removes unreferenced files.

use gristmill_engine::gc::{GcOptions, collect_garbage};

use super::CommandContext;
use crate::args::maintenance::GcArgs;
use crate::duration_arg::parse_duration;
use crate::exit::{CommandOutcome, Failure};

/// Removes unreferenced files, or lists them.
pub async fn run(context: &CommandContext, arguments: GcArgs) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let options = GcOptions {
        older_than: parse_duration("--older-than", &arguments.older_than)?,
        retention: parse_duration("--retention", &arguments.retention)?,
        dry_run: arguments.dry_run,
    };
    let mut lake = context.open_lake().await?;
    printer.record(&collect_garbage(&mut lake, &options).await?)?;
    Ok(CommandOutcome::Done)
}
