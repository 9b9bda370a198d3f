//! Pages of a RECALL whose matches have equal scores, so that those with the least addresses are
//! returned.
//!
//! Addresses are hashes: a small part of the rows, those below a bound, has about the same part of
//! the matches, and the address indexes have the rows in this order. If enough of them match, no
//! other row can be on the page, and the addresses of the lake aren't read.

use datafusion::prelude::DataFrame;

use super::error::Result;
use super::grain_reader::{GrainReader, ScoredAddress};
use crate::sql::keep_rows;

/// Rows that are read first for each row of a page, and for any page: some don't match.
const FIRST_ROWS: (u64, u64) = (4, 16);

/// Factor by which the number of rows grows if too few of them match.
const WIDENING_FACTOR: u64 = 8;

/// At most one row in so many is chosen: beyond that all are read, in the order of the segments.
const CHOSEN_SHARE: u64 = 64;

/// Returns the rows of `page`, a plan of `limit` matches by address; `None` if too few of the rows
/// with the least addresses match, or if they aren't known.
///
/// # Errors
/// If the plan can't be rewritten or fails.
pub(super) async fn page_of_least(
    reader: &GrainReader<'_>,
    page: &DataFrame,
    limit: u64,
) -> Result<Option<Vec<ScoredAddress>>> {
    let Some(table) = reader.lake_table().await? else {
        return Ok(None);
    };
    let all = table.rows();
    let (per_row, least) = FIRST_ROWS;
    let mut count = limit.saturating_mul(per_row).saturating_add(least);
    while let Some(bound) = bound_of(count, all) {
        let Some(rows) = table.rows_below(bound).await else {
            return Ok(None);
        };
        let (state, plan) = page.clone().into_parts();
        let Some(plan) = keep_rows(plan, rows)? else {
            return Ok(None);
        };
        let found = reader.scored_addresses(DataFrame::new(state, plan)).await?;
        let matched = found.len() as u64;
        if matched == limit {
            return Ok(Some(found));
        }
        if matched.saturating_mul(WIDENING_FACTOR) < limit {
            return Ok(None);
        }
        count = count.saturating_mul(WIDENING_FACTOR);
    }
    Ok(None)
}

/// Returns the first 8 bytes of the address below which about `count` of `all` addresses are;
/// `None` if that is too large a part.
fn bound_of(count: u64, all: u64) -> Option<u64> {
    let is_small = |least: u64| least <= all;
    let is_small = count.checked_mul(CHOSEN_SHARE).is_some_and(is_small);
    is_small.then(|| (u64::MAX / all.max(1)).saturating_mul(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_part_of_the_addresses_is_below_the_bound() {
        for (count, all) in [(36, 2_304), (36, 30_000_000), (1, 64)] {
            let bound = bound_of(count, all).unwrap();
            let part = bound as f64 / u64::MAX as f64;
            assert!(
                (part * all as f64 / count as f64 - 1.0).abs() < 0.01,
                "{count} of {all}"
            );
        }
        for (count, all) in [(36, 2_303), (1, 0), (u64::MAX, u64::MAX)] {
            assert_eq!(bound_of(count, all), None, "{count} of {all}");
        }
    }
}
