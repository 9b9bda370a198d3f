//! `search`: the best matches of a text, as the standard response or as a table.

use std::sync::Arc;

use gristmill_queries::sql::{
    SearchFilter, SearchMode, SearchRequest, lake_context, search, search_rows,
};

use super::CommandContext;
use super::sql::{failure, options};
use crate::args::search::{SearchArgs, SearchFilterArgs};
use crate::exit::{CommandOutcome, Failure};
use crate::instant_arg::parse_instant;

/// Columns of the table.
const COLUMNS: &str = "round(score, 3) AS score, type, snippet, matched_fields, content_address";

/// Message of a search by words that finds nothing.
const NO_MATCH: &str = "no grain has these words; `--mode hybrid` also searches by meaning, by the \
                        vectors of `gristmill reindex --embed`";

/// The same for a search with conditions, which others may match.
const NO_FILTERED_MATCH: &str = "no grain that --type, --user, --session and --since select has \
                                 these words; without these options there may be some";

/// The same for a text such as `""`.
const NO_WORDS: &str = "the text has no words to search for";

/// Prints the standard response as JSON; in other formats one row per grain.
pub async fn run(
    context: &CommandContext,
    arguments: SearchArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let lake = context.open_lake_for_queries().await?;
    let mode = match arguments.mode {
        Some(mode) => mode.into(),
        None if context.common.embedder.is_some() => SearchMode::Hybrid,
        None => SearchMode::Text,
    };
    let text = arguments.text.join(" ");
    let filter = filter(&arguments.filter)?;
    let request = SearchRequest {
        text: &text,
        limit: arguments.limit,
        mode,
        filter: &filter,
    };
    let session = lake_context(&lake, &options(context)?)
        .await
        .map_err(failure)?;
    if printer.is_json() {
        let found = search(&session, &lake, request).await.map_err(failure)?;
        printer.record(&found)?;
    } else {
        let found = search_rows(&session, COLUMNS, request)
            .await
            .map_err(failure)?;
        let schema = Arc::clone(found.schema().inner());
        let batches = found.collect().await.map_err(failure)?;
        let is_empty = batches.iter().all(|batch| batch.num_rows() == 0);
        printer.batches(schema, batches)?;
        let is_by_words = mode == SearchMode::Text;
        if is_empty && is_by_words && printer.is_for_people() {
            context.hint(no_match(&text, &filter));
        }
    }
    Ok(CommandOutcome::Done)
}

/// Returns the message for a search by words that finds nothing.
fn no_match(text: &str, filter: &SearchFilter) -> &'static str {
    if !text.contains(char::is_alphanumeric) {
        NO_WORDS
    } else if *filter == SearchFilter::default() {
        NO_MATCH
    } else {
        NO_FILTERED_MATCH
    }
}

/// Returns the conditions that the arguments state.
fn filter(arguments: &SearchFilterArgs) -> Result<SearchFilter, Failure> {
    let since = arguments.since.as_deref();
    Ok(SearchFilter {
        types: arguments.types.iter().map(|kind| kind.0).collect(),
        user: arguments.user.clone(),
        session: arguments.session.clone(),
        since_ms: since
            .map(|since| parse_instant("--since", since))
            .transpose()?,
    })
}
