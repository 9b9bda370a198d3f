//! The best rows of a search that pass the conditions of a query.
//!
//! The search is asked for as many rows as are wanted, then for ever more, until so many of them
//! pass or there are no more: a condition never leaves fewer rows than there are.

use arrow::array::{Array, AsArray};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use gristmill_engine::index::fulltext::SearchTerms;

use super::search::{GrainSource, ScoredRow, search_schema};

/// How many times as many rows are asked for when too few pass.
const WIDENING_FACTOR: usize = 8;

/// Which conditions are applied before the best rows are chosen: all that look at nothing but the
/// row.
pub(super) fn filter_pushdown(filters: &[&Expr]) -> Vec<TableProviderFilterPushDown> {
    let of_row = |filter: &Expr| {
        let looks_elsewhere = filter.exists(|part| {
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
        matches!(looks_elsewhere, Ok(false)) && !filter.is_volatile()
    };
    let verdict = |filter: &&Expr| match of_row(filter) {
        true => TableProviderFilterPushDown::Exact,
        false => TableProviderFilterPushDown::Unsupported,
    };
    filters.iter().map(verdict).collect()
}

/// Something that is searched for.
#[async_trait]
pub(super) trait RankedSearch: Sync {
    /// The `limit` rows that fit best, best first, and the words that were looked for. Fewer if
    /// there are no more, or if some of them stand for one row.
    async fn top(&self, limit: usize) -> Result<(SearchTerms, Vec<ScoredRow>)>;
}

/// The `limit` best rows that pass all `filters`, best first, with the words that were looked for.
///
/// # Errors
/// What the search, reading, and evaluating the filters say.
pub(super) async fn top_matching(
    source: &GrainSource,
    state: &dyn Session,
    filters: &[Expr],
    limit: usize,
    search: &dyn RankedSearch,
) -> Result<(SearchTerms, Vec<ScoredRow>)> {
    let Some(condition) = conjunction(filters.iter().cloned()).filter(|_| limit > 0) else {
        return search.top(limit).await;
    };
    let schema = search_schema();
    let mut columns: Vec<usize> = condition
        .column_refs()
        .iter()
        .filter_map(|column| schema.index_of(column.name()).ok())
        .collect();
    columns.sort_unstable();
    let condition =
        state.create_physical_expr(condition, &DFSchema::try_from(schema.project(&columns)?)?)?;
    let (mut depth, mut before) = (limit, 0);
    loop {
        let (terms, found) = search.top(depth).await?;
        let is_all = found.len() == before;
        before = found.len();
        let (found, rows) = source
            .ordered_rows(state, &found, &terms, Some(&columns))
            .await?;
        let holds = condition.evaluate(&rows)?.into_array(rows.num_rows())?;
        let holds = holds.as_boolean();
        let passed: Vec<ScoredRow> = found
            .into_iter()
            .enumerate()
            .filter(|(row, _)| holds.is_valid(*row) && holds.value(*row))
            .map(|(_, found)| found)
            .take(limit)
            .collect();
        if is_all || passed.len() == limit {
            return Ok((terms, passed));
        }
        depth = depth.saturating_mul(WIDENING_FACTOR);
    }
}
