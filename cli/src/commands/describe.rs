//! `describe`: shows the lake's tables, segments, sources and sidecars, and counts references to
//! content.

use gristmill_engine::describe::{Description, describe};
use gristmill_engine::lake::Lake;
use gristmill_queries::content::{ContentRoot, ReferenceCounts, count_references};
use gristmill_queries::sql::lake_context;
use serde::Serialize;

use super::CommandContext;
use super::sql;
use crate::args::maintenance::DescribeArgs;
use crate::exit::{CommandOutcome, Failure};

/// Prints the description, also of a lake that has lost data files of `grains`, and returns that
/// damage then.
pub async fn run(
    context: &CommandContext,
    arguments: DescribeArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let (lake, damage) = Lake::open_despite_lost_segments(context.lake()).await?;
    let lake = context.unlock(lake)?;
    // References are in the rows of `grains`.
    let is_wanted = arguments.references || !arguments.content.is_empty();
    let content_references = match is_wanted && damage.is_none() {
        true => Some(references(context, &lake, &arguments.content).await?),
        false => None,
    };
    printer.record(&LakeDescription {
        description: describe(&lake).await?,
        content_references,
    })?;
    damage.map_or(Ok(CommandOutcome::Done), |damage| Err(damage.into()))
}

/// The description of a lake, with the counts of references if they were requested.
#[derive(Debug, Serialize)]
struct LakeDescription {
    #[serde(flatten)]
    description: Description,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_references: Option<ReferenceCounts>,
}

/// Counts the references of the grains of `lake`, and looks up their targets below `roots`.
async fn references(
    context: &CommandContext,
    lake: &Lake,
    roots: &[String],
) -> Result<ReferenceCounts, Failure> {
    let roots: Vec<ContentRoot> = roots
        .iter()
        .map(|root| ContentRoot::new(root))
        .collect::<Result<_, _>>()?;
    let failed = |error| sql::failure(error).within("can't read the references");
    let tables = lake_context(lake, &sql::options(context)?)
        .await
        .map_err(failed)?;
    count_references(&tables, &roots).await.map_err(failed)
}
