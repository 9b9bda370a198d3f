//! Pages whose rows are found among few candidates, which an index orders: at first some, then
//! more, until no other row can be on the page.

use datafusion::prelude::DataFrame;

use super::error::Result;
use super::grain_reader::{GrainReader, ScoredAddress};
use crate::sql::{RowsByFile, keep_rows};

/// Factor by which the number of candidates grows if too few of them match.
const WIDENING_FACTOR: u64 = 8;

/// The first rows in the order of an index.
pub(super) struct Candidates {
    pub(super) rows: RowsByFile,
    /// The greatest score that a row can have that isn't a candidate; a match with a greater one
    /// comes before it.
    pub(super) beyond: f64,
}

/// Returns the rows of `page`, a plan of the first `limit` matches, among the candidates that
/// `first` returns, which is asked for about `count` at first; `None` if too few of them match, or
/// if `first` returns none.
///
/// # Errors
/// If the plan can't be rewritten or fails.
pub(super) async fn page_among<F>(
    reader: &GrainReader<'_>,
    page: &DataFrame,
    limit: u64,
    mut count: u64,
    first: impl Fn(u64) -> F,
) -> Result<Option<Vec<ScoredAddress>>>
where
    F: Future<Output = Option<Candidates>> + Send,
{
    while let Some(Candidates { rows, beyond }) = first(count).await {
        let (state, plan) = page.clone().into_parts();
        let Some(plan) = keep_rows(plan, rows)? else {
            return Ok(None);
        };
        let found = reader.scored_addresses(DataFrame::new(state, plan)).await?;
        let certain = found.iter().filter(|(_, score)| *score > beyond).count() as u64;
        if certain == limit {
            return Ok(Some(found));
        }
        if certain.saturating_mul(WIDENING_FACTOR) < limit {
            return Ok(None);
        }
        count = count.saturating_mul(WIDENING_FACTOR);
    }
    Ok(None)
}
