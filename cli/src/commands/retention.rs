//! `retention`: plans and erases what has expired by the rules of a file.

use gristmill_engine::policy::RetentionRules;
use gristmill_engine::retention::{ROUND_ROWS, RetentionOptions, plan, run as run_rounds};

use super::CommandContext;
use super::erase::erasure_options;
use super::subject_selector::text;
use crate::args::retention::{
    RetentionCommand, RetentionPlanArgs, RetentionRuleArgs, RetentionRunArgs,
};
use crate::exit::{CommandOutcome, Failure};
use crate::log::note;

/// Plans what has expired, or erases it.
pub async fn run(
    context: &CommandContext,
    command: RetentionCommand,
) -> Result<CommandOutcome, Failure> {
    match command {
        RetentionCommand::Plan(arguments) => plan_retention(context, arguments).await,
        RetentionCommand::Run(arguments) => run_retention(context, arguments).await,
    }
}

async fn plan_retention(
    context: &CommandContext,
    arguments: RetentionPlanArgs,
) -> Result<CommandOutcome, Failure> {
    let options = options_of(context, &arguments.rules)?;
    let mut lake = context.open_lake().await?;
    let planned = plan(&mut lake, &options).await?;
    context.printer(arguments.results).record(&planned)?;
    Ok(CommandOutcome::Done)
}

async fn run_retention(
    context: &CommandContext,
    arguments: RetentionRunArgs,
) -> Result<CommandOutcome, Failure> {
    let options = options_of(context, &arguments.rules)?;
    let names = options.rules.policies.iter().map(|it| it.name.as_str());
    let ground = format!("retention: {}", names.collect::<Vec<_>>().join(", "));
    let erasure = erasure_options(context, arguments.run, Some(ground), false)?;
    let mut lake = context.open_lake().await?;
    let report = run_rounds(&mut lake, &options, &erasure).await?;
    context.printer(arguments.results).record(&report)?;
    if !report.proven {
        note(format_args!(
            "the grains were erased, but an erasure is not proven: its certificate names what \
             remains. Unreferenced files may belong to a running writer; use --exclusive to remove \
             them at once"
        ));
    }
    Ok(CommandOutcome::done_if(report.proven))
}

/// Reads the rules.
fn options_of(
    context: &CommandContext,
    arguments: &RetentionRuleArgs,
) -> Result<RetentionOptions, Failure> {
    let shown = arguments.rules.display();
    let fault = |error: &dyn std::fmt::Display| Failure::usage(format!("`{shown}`: {error}"));
    let rules: RetentionRules =
        toml::from_str(&text(&arguments.rules)?).map_err(|error| fault(&error))?;
    rules.check().map_err(|error| fault(&error))?;
    Ok(RetentionOptions {
        rules,
        approvals: arguments.approve.clone(),
        threads: context.row_group_threads(),
        round_rows: arguments.round_rows.unwrap_or(ROUND_ROWS).max(1),
    })
}
