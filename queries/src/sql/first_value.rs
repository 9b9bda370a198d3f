//! The first value of a query in a session without a lake, for the tests of limits.

use arrow::util::display::array_value_to_string;
use datafusion::prelude::SessionContext;

use super::{SqlOptions, bare_context};

/// Returns the first value of `query` as text.
///
/// # Errors
/// The message of a query that fails.
pub(super) async fn first_value(query: &str) -> Result<String, String> {
    first_value_with(query, &SqlOptions::default()).await
}

/// Does the same in a session with other options.
pub(super) async fn first_value_with(query: &str, options: &SqlOptions) -> Result<String, String> {
    let context = bare_context(options).map_err(|error| error.to_string())?;
    first_value_in(&context, query).await
}

/// Does the same in an existing session.
pub(super) async fn first_value_in(
    context: &SessionContext,
    query: &str,
) -> Result<String, String> {
    let answer = async { context.sql(query).await?.collect().await };
    let batches = answer.await.map_err(|error| error.to_string())?;
    let column = batches.first().ok_or("no rows")?.column(0);
    array_value_to_string(column, 0).map_err(|error| error.to_string())
}
