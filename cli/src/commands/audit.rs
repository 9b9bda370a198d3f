//! `audit`: verifies the audit log.

use gristmill_engine::lake::{AuditHead, AuditVerdict};

use super::CommandContext;
use crate::args::governance::AuditCommand;
use crate::audit_heads::{self, KnownHeads};
use crate::exit::{CommandOutcome, Failure};

/// Verifies the audit log.
pub async fn run(
    context: &CommandContext,
    arguments: AuditCommand,
) -> Result<CommandOutcome, Failure> {
    let AuditCommand::Verify { results, heads } = arguments;
    let known = match &heads {
        Some(path) => audit_heads::read(path, context.lake())?,
        None => KnownHeads::default(),
    };
    let verdict = match context.open_damaged_lake().await? {
        // The damage prevents the lake from being opened and is the result.
        Err(error) => AuditVerdict::of_unreadable(&error),
        Ok(mut lake) => lake.verify_audit(&known.heads).await?,
    };
    context.printer(results).record(&verdict)?;
    if let (Some(path), Some(head)) = (heads, AuditHead::of(&verdict))
        && known.heads.last().is_none_or(|last| last.head != head.head)
    {
        known.append(&path, &head)?;
    }
    Ok(CommandOutcome::done_if(verdict.bad == 0))
}
