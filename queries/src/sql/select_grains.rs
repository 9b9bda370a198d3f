//! The grains for which a condition holds, as a stream of rows.

use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use gristmill_schemas::columns::GRAINS;

/// The rows of `grains` for which `condition` holds, with just `columns` (all if none are named),
/// in no order. The condition is what may stand behind WHERE, and sees all tables, views and
/// functions of `context`.
///
/// # Errors
/// [`DataFusionError`](super::DataFusionError) if the condition can't be understood.
pub async fn select_grains(
    context: &SessionContext,
    columns: Option<&[&str]>,
    condition: &str,
) -> Result<SendableRecordBatchStream> {
    let columns = columns.map_or_else(
        || "*".to_owned(),
        |columns| format!("\"{}\"", columns.join("\", \"")),
    );
    // On a line of its own, a comment at the condition's end can't swallow the parenthesis.
    let text = format!("SELECT {columns} FROM {GRAINS} WHERE (\n{condition}\n)");
    context.sql(&text).await?.execute_stream().await
}
