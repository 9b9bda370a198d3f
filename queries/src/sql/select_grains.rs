//! Selects the grains that match a condition, as a stream of rows.

use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use gristmill_schemas::columns::GRAINS;

use super::script::plan_query;

/// Returns the rows of `grains` that match `condition`, with `columns` (all if `None`), in no
/// order. The condition is a WHERE expression; it may use all tables, views and functions of
/// `context`.
///
/// # Errors
/// [`DataFusionError`](super::DataFusionError) if the condition can't be planned.
pub async fn select_grains(
    context: &SessionContext,
    columns: Option<&[&str]>,
    condition: &str,
) -> Result<SendableRecordBatchStream> {
    let columns = columns.map_or_else(
        || "*".to_owned(),
        |columns| format!("\"{}\"", columns.join("\", \"")),
    );
    // The condition is on a line of its own, so that a trailing comment doesn't hide the
    // parenthesis.
    let text = format!("SELECT {columns} FROM {GRAINS} WHERE (\n{condition}\n)");
    plan_query(context, &text).await?.execute_stream().await
}
