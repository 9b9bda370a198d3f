//! `search`: the best matches of a text, as the standard response or as a table.

use std::sync::Arc;

use gristmill_queries::sql::{SearchMode, lake_context, search, search_rows};

use super::CommandContext;
use super::sql::{failure, options};
use crate::args::query::{SearchArgs, SearchModeArg};
use crate::exit::{CommandOutcome, Failure};

/// Columns of the table.
const COLUMNS: &str = "round(score, 3) AS score, type, snippet, matched_fields, content_address";

/// Prints the standard response as JSON; in other formats one row per grain.
pub async fn run(
    context: &CommandContext,
    arguments: SearchArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let lake = context.open_lake().await?;
    let mode = match arguments.mode {
        Some(SearchModeArg::Text) => SearchMode::Text,
        Some(SearchModeArg::Vector) => SearchMode::Vector,
        Some(SearchModeArg::Hybrid) => SearchMode::Hybrid,
        None if context.common.embedder.is_some() => SearchMode::Hybrid,
        None => SearchMode::Text,
    };
    let session = lake_context(&lake, &options(context)?)
        .await
        .map_err(failure)?;
    let text = arguments.text.join(" ");
    if printer.is_json() {
        let found = search(&session, &lake, &text, arguments.limit, mode)
            .await
            .map_err(failure)?;
        printer.record(&found)?;
    } else {
        let found = search_rows(&session, COLUMNS, &text, arguments.limit, mode)
            .await
            .map_err(failure)?;
        let schema = Arc::clone(found.schema().inner());
        printer.batches(schema, found.collect().await.map_err(failure)?)?;
    }
    Ok(CommandOutcome::Done)
}
