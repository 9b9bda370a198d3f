//! `report-subject`: reports all data about the data subjects.

use gristmill_engine::erase::{Disclosed, ErasurePlan, disclose, plan_disclosure};

use super::CommandContext;
use super::keys::keyring;
use super::subject_selector::request_of;
use crate::args::governance::ReportSubjectArgs;
use crate::exit::{CommandOutcome, Failure};
use crate::json_lines::JsonLinesWriter;
use crate::output::{begin_file, finish_file};

/// Writes all data about the data subjects.
pub async fn run(
    context: &CommandContext,
    arguments: ReportSubjectArgs,
) -> Result<CommandOutcome, Failure> {
    if arguments.out.is_none() {
        context.require_json_lines(arguments.results)?;
    }
    let request = request_of(&arguments.selector)?;
    let mut lake = context.open_lake().await?;
    let (plan, survey) = plan_disclosure(&mut lake, &request, context.row_group_threads()).await?;
    // Without a keyring the audit entry records the disclosure without the pseudonym of the data
    // subject.
    let key = keyring(&context.common.keys)
        .ok()
        .map(|keyring| keyring.derive("gristmill/erasure/pseudonyms"))
        .transpose()?;
    let mut file = match arguments.out.as_deref() {
        Some(path) => Some((path, begin_file(path)?)),
        None => None,
    };
    let mut lines = match &mut file {
        Some((path, file)) => JsonLinesWriter::to(path, file),
        None => JsonLinesWriter::to_stdout(),
    };
    let mut write = |held: &Disclosed| lines.write(held);
    let count = disclose(&mut lake, &request, &survey, key.as_ref(), &mut write).await?;
    lines.finish()?;
    if let Some((path, file)) = file {
        finish_file(path, file)?;
        let printer = context.printer(arguments.results);
        printer.record(&summary_of(&plan, count))?;
    }
    Ok(CommandOutcome::Done)
}

fn summary_of(plan: &ErasurePlan, disclosed: u64) -> serde_json::Value {
    serde_json::json!({
        "disclosed": disclosed,
        "selected": plan.selected,
        "excluded": plan.excluded,
        "variations": plan.variations,
        "variations_off": plan.variations_off,
        "too_short_for_text": plan.too_short_for_text,
        "unsearchable": plan.unsearchable,
        "grains_read": plan.grains_read,
    })
}
