//! Pages and totals of a search whose words are indexed in all segments.
//!
//! The index has the rows that match, so a total needs no text. It has upper bounds of their
//! scores, so a page of the best needs the texts of few: of those with the greatest bounds, if
//! their scores exceed the bounds of all others. The scores are computed from the texts, as
//! without an index.

use datafusion::prelude::DataFrame;
use gristmill_engine::text::{Scorer, Terms};

use super::candidates::{Candidates, page_among};
use super::error::Result;
use super::grain_reader::{GrainReader, ScoredAddress};
use crate::cal::ast::{Stage, StageKind};
use crate::sql::{TextMatches, keep_rows};

/// Rows that are read first for each row of a page, and for any page: some don't pass the other
/// conditions.
const FIRST_ROWS: (u64, u64) = (3, 16);

/// The rows that match a search, and a plan that counts them.
pub(super) struct IndexedSearch {
    matches: TextMatches,
    /// The matches that pass the other conditions, without their scores.
    pub(super) matched: DataFrame,
}

impl IndexedSearch {
    /// Returns the matches of a search among `grains`, a plan of the grains that pass all other
    /// conditions; `None` if the texts of all candidates must be read.
    ///
    /// # Errors
    /// If the table of grains is missing, or the plan can't be rewritten.
    pub(super) async fn of(
        reader: &GrainReader<'_>,
        terms: &Terms,
        scorer: &Scorer,
        grains: DataFrame,
    ) -> Result<Option<IndexedSearch>> {
        let Some(table) = reader.lake_table().await? else {
            return Ok(None);
        };
        let state = reader.context.state();
        let namespace = reader.session.namespace.as_deref();
        let matches = table.text_matches(&state, terms, scorer, namespace).await;
        let Some(matches) = matches else {
            return Ok(None);
        };
        let (state, plan) = grains.into_parts();
        let matched = keep_rows(plan, matches.all())?;
        Ok(matched.map(|plan| IndexedSearch {
            matches,
            matched: DataFrame::new(state, plan),
        }))
    }

    /// Returns the rows of `page`, a plan of the `limit` best matches; `None` if too few of those
    /// with the greatest bounds pass the other conditions.
    ///
    /// # Errors
    /// If the plan can't be rewritten or fails.
    pub(super) async fn page(
        &self,
        reader: &GrainReader<'_>,
        page: &DataFrame,
        limit: u64,
    ) -> Result<Option<Vec<ScoredAddress>>> {
        let first = |count| {
            let best = usize::try_from(count)
                .ok()
                .and_then(|count| self.matches.best(count));
            std::future::ready(best.map(|(rows, beyond)| Candidates { rows, beyond }))
        };
        let (per_row, least) = FIRST_ROWS;
        let count = limit.saturating_mul(per_row).saturating_add(least);
        page_among(reader, page, limit, count, first).await
    }
}

/// Returns true if `stages` return the best matches, without an order of their own.
pub(super) fn are_of_best(stages: &[Stage]) -> bool {
    matches!(
        without_fields(stages).as_slice(),
        [] | [StageKind::Limit(_)] | [StageKind::First]
    )
}

/// Returns true if `stages` only count the matches.
pub(super) fn are_of_count(stages: &[Stage]) -> bool {
    matches!(without_fields(stages).as_slice(), [StageKind::Count])
}

/// Returns the kinds of `stages` without those that select the fields of grains.
fn without_fields(stages: &[Stage]) -> Vec<&StageKind> {
    let kinds = stages.iter().map(|stage| &stage.kind);
    kinds
        .filter(|kind| !matches!(kind, StageKind::Select(_) | StageKind::Project(_)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::testing::recall;

    #[test]
    fn selected_fields_do_not_change_a_count() {
        let of_count = |text: &str| are_of_count(&recall(&format!("RECALL {text}")).stages);
        for (stages, expected) in [
            ("| COUNT", true),
            ("| SELECT subject | COUNT", true),
            ("| LIMIT 3 | COUNT", false),
            ("", false),
        ] {
            assert_eq!(of_count(stages), expected, "{stages}");
        }
    }

    #[test]
    fn only_one_limit_in_the_default_order_returns_the_best() {
        let of_best = |text: &str| are_of_best(&recall(&format!("RECALL {text}")).stages);
        for stages in ["", "| LIMIT 3", "| FIRST", "| SELECT subject | LIMIT 3"] {
            assert!(of_best(stages), "{stages}");
        }
        for stages in [
            "| ORDER BY time DESC | LIMIT 3",
            "| LIMIT 3 | LIMIT 2",
            "| LIMIT 3 | ORDER BY time DESC",
            "| OFFSET 1 | LIMIT 3",
            "| COUNT",
            "| GROUP BY subject",
            "| HASHES",
        ] {
            assert!(!of_best(stages), "{stages}");
        }
    }
}
