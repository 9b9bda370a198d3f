//! `audit`: verifies the audit log.

use gristmill_engine::lake::AuditVerdict;

use super::CommandContext;
use crate::args::governance::AuditCommand;
use crate::exit::{CommandOutcome, Failure};

/// Verifies the audit log.
pub async fn run(
    context: &CommandContext,
    arguments: AuditCommand,
) -> Result<CommandOutcome, Failure> {
    let AuditCommand::Verify { results } = arguments;
    let verdict = match context.open_damaged_lake().await? {
        // The damage prevents the lake from being opened and is the result.
        Err(error) => AuditVerdict::of_unreadable(&error),
        Ok(mut lake) => lake.verify_audit().await?,
    };
    context.printer(results).record(&verdict)?;
    Ok(CommandOutcome::done_if(verdict.bad == 0))
}
