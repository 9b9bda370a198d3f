//! Pages of a RECALL whose matches have equal scores, so that those with the least addresses are
//! returned.
//!
//! Addresses are hashes: a small part of the rows, those below a bound, has about the same part of
//! the matches, and the address indexes have the rows in this order. If enough of them match, no
//! other row can be on the page, and the addresses of the lake aren't read.

use datafusion::prelude::DataFrame;

use super::candidates::{Candidates, page_among};
use super::error::Result;
use super::grain_reader::{GrainReader, ScoredAddress};

/// At most one row in so many is chosen: beyond that all are read, in the order of the segments.
const CHOSEN_SHARE: u64 = 64;

/// Returns the rows of `page`, a plan of `limit` of `total` matches by address; `None` if they are
/// too large a part of the matches, or if the addresses aren't known.
///
/// # Errors
/// If the plan can't be rewritten or fails.
pub(super) async fn page_of_least(
    reader: &GrainReader<'_>,
    page: &DataFrame,
    limit: u64,
    total: u64,
) -> Result<Option<Vec<ScoredAddress>>> {
    let Some(table) = reader.lake_table().await? else {
        return Ok(None);
    };
    let all = table.rows();
    let first = |count| {
        let table = &table;
        async move {
            Some(Candidates {
                rows: table.rows_below(bound_of(count, all)?).await?,
                beyond: f64::NEG_INFINITY,
            })
        }
    };
    page_among(reader, page, limit, candidates_of(limit, total, all), first).await
}

/// Returns about how many of `all` rows have `limit` of the `total` matches, with a margin of four
/// standard deviations.
fn candidates_of(limit: u64, total: u64, all: u64) -> u64 {
    let matches = limit as f64 + 4.0 * (limit as f64).sqrt() + 8.0;
    // Beyond the range of the type it is its end.
    (matches * all as f64 / total.max(1) as f64) as u64
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
    fn a_page_of_a_rare_type_has_more_candidates() {
        for (limit, total, all, count) in [
            (1, 30, 30, 13),
            (100, 1_000, 1_000, 148),
            (100, 10, 1_000, 14_800),
            (5, 0, 1_000, 21_944),
            (u64::MAX, 1, u64::MAX, u64::MAX),
        ] {
            assert_eq!(
                candidates_of(limit, total, all),
                count,
                "{limit} of {total} of {all}"
            );
        }
    }

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
