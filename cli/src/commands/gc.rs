//! `gc`: removes unreferenced files.

use gristmill_connectors::storage::RemovedVersions;
use gristmill_engine::gc::{GcOptions, GcReport, collect_garbage};
use serde::Serialize;

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
    let removed = collect_garbage(&mut lake, &options).await?;
    let removed_versions = match arguments.purge_versions {
        true => Some(lake.location().remove_earlier_versions().await?),
        false => None,
    };
    printer.record(&GcOutcome {
        removed,
        removed_versions,
    })?;
    Ok(CommandOutcome::Done)
}

/// The report, with the earlier versions of objects that were removed.
#[derive(Debug, Serialize)]
struct GcOutcome {
    #[serde(flatten)]
    removed: GcReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed_versions: Option<RemovedVersions>,
}
