//! The best rows of a search that pass the filters of a query.
//!
//! A filter never makes the result shorter than it has to be. The search first returns more rows
//! than requested; often enough of them pass. Otherwise a filter on columns of `grains` becomes a
//! set of rows of each segment, which costs a pass over these columns, and the indexes are searched
//! within the sets. A filter on the score, the snippet or the matched fields is known only for
//! found rows: the search runs with increasing limits.

use arrow::array::AsArray;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use gristmill_engine::index::fulltext::SearchTerms;

use super::search_results::{
    GrainSource, RowSets, ScoredRow, SearchRows, own_columns, search_schema,
};

/// Factor by which the search limit grows when too few rows pass.
const WIDENING_FACTOR: usize = 8;

/// Returns which filters are applied before the best rows are chosen: all that depend on nothing
/// but the row.
pub(super) fn filter_pushdown(filters: &[&Expr]) -> Vec<TableProviderFilterPushDown> {
    let of_row = |filter: &Expr| {
        let is_row_independent = filter.exists(|part| {
            Ok(matches!(
                part,
                Expr::ScalarSubquery(_)
                    | Expr::InSubquery(_)
                    | Expr::Exists(_)
                    | Expr::SetComparison(_)
                    | Expr::OuterReferenceColumn(..)
                    | Expr::Placeholder(_)
            ))
        });
        matches!(is_row_independent, Ok(false)) && !filter.is_volatile()
    };
    let verdict = |filter: &&Expr| match of_row(filter) {
        true => TableProviderFilterPushDown::Exact,
        false => TableProviderFilterPushDown::Unsupported,
    };
    filters.iter().map(verdict).collect()
}

/// A search with ranked results.
#[async_trait]
pub(super) trait RankedSearch: Sync {
    /// Returns the `limit` best rows among `within` (`None`: all rows), best first, and the search
    /// terms. The result is shorter if there are no more rows, or if several hits refer to one row.
    async fn top(
        &self,
        limit: usize,
        within: Option<RowSets>,
    ) -> Result<(SearchTerms, Vec<ScoredRow>)>;
}

/// Returns the `limit` best rows that pass all `filters`, best first, and the search terms.
///
/// # Errors
/// [`DataFusionError`](datafusion::error::DataFusionError) of the search, of reading rows, or of
/// evaluating the filters.
pub(super) async fn top_matching(
    source: &GrainSource,
    state: &dyn Session,
    filters: &[Expr],
    limit: usize,
    search: &dyn RankedSearch,
) -> Result<(SearchTerms, Vec<ScoredRow>)> {
    let Some(condition) = conjunction(filters.iter().cloned()).filter(|_| limit > 0) else {
        return search.top(limit, None).await;
    };
    let schema = search_schema();
    let columns = columns_of(&condition, &schema);
    let condition =
        state.create_physical_expr(condition, &DFSchema::try_from(schema.project(&columns)?)?)?;
    let is_of_grains = columns.first().is_some_and(|first| *first >= own_columns());
    let (mut depth, mut before) = (limit, 0);
    loop {
        let (terms, found) = search.top(depth, None).await?;
        let is_all = found.len() == before;
        before = found.len();
        let rows = source.rows(state, &found, &terms, Some(&columns)).await?;
        let mut passed = matching(&rows, &*condition)?;
        drop(rows);
        passed.truncate(limit);
        if is_all || passed.len() == limit {
            return Ok((terms, passed));
        }
        if is_of_grains && depth > limit {
            let within = source.rows_where(state, &condition, &columns).await?;
            let (terms, found) = search.top(depth, Some(within)).await?;
            // Among rows of equal score the order is that of addresses, as without a filter.
            let no_columns = Some(&Vec::new());
            let mut best = source.rows(state, &found, &terms, no_columns).await?.found;
            best.truncate(limit);
            return Ok((terms, best));
        }
        depth = depth.saturating_mul(WIDENING_FACTOR);
    }
}

/// Returns the positions in `schema` of the columns that `condition` reads, ascending.
fn columns_of(condition: &Expr, schema: &SchemaRef) -> Vec<usize> {
    let mut columns: Vec<usize> = condition
        .column_refs()
        .iter()
        .filter_map(|column| schema.index_of(column.name()).ok())
        .collect();
    columns.sort_unstable();
    columns
}

/// Returns where the rows are that satisfy `condition`.
fn matching(rows: &SearchRows, condition: &dyn PhysicalExpr) -> Result<Vec<ScoredRow>> {
    let batch = &rows.batch;
    let verdicts = condition.evaluate(batch)?.into_array(batch.num_rows())?;
    let verdicts = verdicts.as_boolean().iter();
    let passed = rows
        .found
        .iter()
        .zip(verdicts)
        .filter(|(_, verdict)| *verdict == Some(true));
    Ok(passed.map(|(found, _)| *found).collect())
}
