//! WITH diversity: maximal marginal relevance (MMR), which reorders a page, and a distance
//! threshold, which drops near-duplicates.
//!
//! The similarity of two grains is the Jaccard index of their words. Both algorithms compare all
//! pairs, which is bounded by the largest page.

use std::collections::BTreeSet;

use gristmill_engine::text::words;
use gristmill_schemas::json::Json;

use super::answer::Hit;
use super::error::Result;
use crate::cal::ast::{Diversity, WithOption};
use crate::render::{self, RenderStyle};

/// Weight of relevance against novelty, where MMR has no parameter.
const DEFAULT_LAMBDA: f64 = 0.5;

type Words = BTreeSet<String>;

/// Returns the first `WITH diversity` of `options`.
pub(super) fn diversity_of(options: &[WithOption]) -> Option<&Diversity> {
    options.iter().find_map(|option| match option {
        WithOption::Diversity(diversity) => Some(diversity),
        _ => None,
    })
}

/// Applies the first `WITH diversity` of `options`, if there is one.
pub(super) fn diversify(hits: Vec<Hit>, options: &[WithOption]) -> Result<Vec<Hit>> {
    Ok(match diversity_of(options) {
        None => hits,
        Some(Diversity::Threshold(distance)) => drop_similar(hits, distance.as_f64()),
        Some(Diversity::Mmr(lambda)) => {
            let lambda = lambda.as_ref().map(|lambda| lambda.as_f64());
            reorder_by_mmr(
                hits,
                lambda.map_or(DEFAULT_LAMBDA, |lambda| lambda.clamp(0.0, 1.0)),
            )
        }
    })
}

/// Drops every grain whose distance (1 − similarity) to a kept grain before it is below
/// `min_distance`.
fn drop_similar(hits: Vec<Hit>, min_distance: f64) -> Vec<Hit> {
    let mut kept: Vec<(Hit, Words)> = Vec::new();
    for hit in hits {
        let words = word_set(&hit);
        if kept
            .iter()
            .all(|(_, other)| 1.0 - similarity(&words, other) >= min_distance)
        {
            kept.push((hit, words));
        }
    }
    kept.into_iter().map(|(hit, _)| hit).collect()
}

/// A grain that MMR hasn't chosen yet.
struct Candidate {
    hit: Hit,
    words: Words,
    /// Greatest similarity to a chosen grain.
    max_similarity: f64,
}

fn reorder_by_mmr(hits: Vec<Hit>, lambda: f64) -> Vec<Hit> {
    let mut candidates: Vec<Candidate> = hits
        .into_iter()
        .map(|hit| Candidate {
            words: word_set(&hit),
            hit,
            max_similarity: 0.0,
        })
        .collect();

    let mut chosen = Vec::with_capacity(candidates.len());
    while !candidates.is_empty() {
        let Candidate { hit, words, .. } = candidates.remove(most_relevant(&candidates, lambda));
        for candidate in &mut candidates {
            candidate.max_similarity = candidate
                .max_similarity
                .max(similarity(&words, &candidate.words));
        }
        chosen.push(hit);
    }
    chosen
}

/// Returns the index of the candidate with the greatest marginal relevance. The first of equals
/// wins, which keeps the order of the page.
fn most_relevant(candidates: &[Candidate], lambda: f64) -> usize {
    let marginal_relevance = |candidate: &Candidate| {
        lambda * candidate.hit.score - (1.0 - lambda) * candidate.max_similarity
    };
    (1..candidates.len()).fold(0, |best, at| {
        match marginal_relevance(&candidates[at]) > marginal_relevance(&candidates[best]) {
            true => at,
            false => best,
        }
    })
}

/// Returns the words of a grain's rendered content and of its subject.
fn word_set(hit: &Hit) -> Words {
    let style = RenderStyle::new(0, &[], None);
    let entry = render::GrainEntry::new(hit, None, &style);
    let subject = hit.view.payload.get("subject").and_then(Json::as_str);
    words(entry.projected.content())
        .chain(subject.into_iter().flat_map(words))
        .collect()
}

/// Returns the Jaccard index of two sets; 1 for two empty ones.
fn similarity(left: &Words, right: &Words) -> f64 {
    let shared = left.intersection(right).count();
    let all = left.len() + right.len() - shared;
    if all == 0 {
        1.0
    } else {
        shared as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::testing::{hit, recall};

    /// Three beliefs: two that differ in one word, one about something else.
    fn page() -> Vec<Hit> {
        let belief = |address: &str, object: &str, score: f64| {
            let payload =
                format!(r#"{{"subject":"alice","relation":"likes","object":"{object}"}}"#);
            Hit {
                score,
                ..hit(address, &payload)
            }
        };
        vec![
            belief("01", "green tea in the morning", 0.9),
            belief("02", "green tea in the evening", 0.8),
            belief("03", "mountains", 0.7),
        ]
    }

    fn addresses(hits: &[Hit]) -> Vec<&str> {
        hits.iter().map(Hit::address).collect()
    }

    fn diversified(option: &str) -> Vec<Hit> {
        let recall = recall(&format!("RECALL beliefs WITH {option}"));
        diversify(page(), &recall.options).unwrap()
    }

    #[test]
    fn mmr_puts_a_different_grain_before_a_near_duplicate() {
        assert_eq!(
            addresses(&diversified("diversity(mmr)")),
            ["01", "03", "02"]
        );
    }

    #[test]
    fn mmr_with_full_weight_on_relevance_keeps_the_order() {
        assert_eq!(addresses(&reorder_by_mmr(page(), 1.0)), ["01", "02", "03"]);
    }

    #[test]
    fn mmr_keeps_the_order_of_equals() {
        let hits = page().into_iter().map(|hit| Hit { score: 1.0, ..hit });
        let same: Vec<Hit> = hits.collect();
        assert_eq!(addresses(&reorder_by_mmr(same, 1.0)), ["01", "02", "03"]);
    }

    #[test]
    fn a_threshold_drops_near_duplicates_of_better_grains() {
        assert_eq!(addresses(&drop_similar(page(), 0.5)), ["01", "03"]);
        assert_eq!(addresses(&drop_similar(page(), 0.0)), ["01", "02", "03"]);
        assert_eq!(addresses(&drop_similar(page(), 1.1)), ["01"]);
    }

    #[test]
    fn similarity_is_the_share_of_common_words() {
        let set = |text: &str| -> Words { text.split(' ').map(str::to_owned).collect() };
        assert_eq!(similarity(&set("a b c"), &set("b c d")), 0.5);
        assert_eq!(similarity(&set("a"), &set("b")), 0.0);
        assert_eq!(similarity(&Words::new(), &Words::new()), 1.0);
    }
}
