//! Shares a budget among sources and computes what a grain costs (digest of CAL 1.0, section 8).

use crate::cal::ast::{Assemble, Budget};
use crate::cal::limits;
use crate::cal::vocabulary::BudgetUnit;

/// Returns the estimated tokens of a rendered grain: a quarter of its characters, rounded up, at
/// least one.
pub fn token_cost(element: &str) -> u64 {
    (element.chars().count() as u64).div_ceil(4).max(1)
}

/// Returns the budget of an ASSEMBLE, or the default if it has none.
pub fn budget_of(assemble: &Assemble) -> Budget {
    assemble.budget.unwrap_or(Budget {
        amount: limits::DEFAULT_BUDGET_TOKENS,
        unit: BudgetUnit::Tokens,
    })
}

/// Returns the indexes of the sources by priority: those named by PRIORITY, then the others in the
/// order of FROM.
pub fn priority_order(assemble: &Assemble) -> Vec<usize> {
    let position = |label: &String| {
        assemble
            .sources
            .iter()
            .position(|source| source.label.as_ref() == Some(label))
    };
    let mut order: Vec<usize> = assemble.priority.iter().filter_map(position).collect();
    for at in 0..assemble.sources.len() {
        if !order.contains(&at) {
            order.push(at);
        }
    }
    order
}

/// Returns the weights of `sources` sources, highest priority first, as integers.
fn weights(sources: usize) -> Vec<u64> {
    match sources {
        0 => Vec::new(),
        1 => vec![1],
        2 => vec![65, 35],
        3 => vec![50, 30, 20],
        4 => vec![40, 28, 20, 12],
        // 0.6 to the power of the rank, multiplied by a common power of five to make it an integer.
        many => (0..many)
            .map(|rank| 3u64.pow(rank as u32) * 5u64.pow((many - 1 - rank) as u32))
            .collect(),
    }
}

/// Returns the share of each of `sources` sources in `total`, highest priority first. The rounding
/// remainder goes to the first.
pub fn allocate(total: u64, sources: usize) -> Vec<u64> {
    let weights = weights(sources);
    let sum: u64 = weights.iter().sum();
    let mut shares: Vec<u64> = weights
        .iter()
        .map(|weight| total * weight / sum.max(1))
        .collect();
    let given: u64 = shares.iter().sum();
    if let Some(first) = shares.first_mut() {
        *first += total - given;
    }
    shares
}

/// Allocation and use of the budget by one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceAllocation {
    /// Initial share.
    pub allocated: u64,
    /// Number of its grains that fit, counted from the front.
    pub included: usize,
    /// Cost of these grains.
    pub used: u64,
}

/// Takes grains from the front of each source while they fit: first within its own share, then from
/// what the other sources left. `costs` contains the costs of the grains of each source, highest
/// priority first.
pub fn fill(total: u64, costs: &[Vec<u64>]) -> Vec<SourceAllocation> {
    let mut filled: Vec<SourceAllocation> = allocate(total, costs.len())
        .into_iter()
        .zip(costs)
        .map(|(allocated, costs)| {
            take(
                SourceAllocation {
                    allocated,
                    ..SourceAllocation::default()
                },
                costs,
                allocated,
            )
        })
        .collect();
    let mut left = total - filled.iter().map(|source| source.used).sum::<u64>();
    for (source, costs) in filled.iter_mut().zip(costs) {
        let before = source.used;
        *source = take(*source, costs, source.used + left);
        left -= source.used - before;
    }
    filled
}

fn take(mut source: SourceAllocation, costs: &[u64], most: u64) -> SourceAllocation {
    for cost in costs.iter().skip(source.included) {
        if source.used + cost > most {
            break;
        }
        source.used += cost;
        source.included += 1;
    }
    source
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn included(total: u64, costs: &[Vec<u64>]) -> Vec<usize> {
        fill(total, costs)
            .iter()
            .map(|source| source.included)
            .collect()
    }

    #[test]
    fn shares_follow_the_weights_and_the_remainder_goes_to_the_first() {
        assert_eq!(allocate(10, 1), [10]);
        assert_eq!(allocate(10, 2), [7, 3]);
        assert_eq!(allocate(100, 3), [50, 30, 20]);
        assert_eq!(allocate(7, 4), [5, 1, 1, 0]);
        assert_eq!(allocate(1000, 5), [435, 260, 156, 93, 56]);
        assert_eq!(allocate(0, 2), [0, 0]);
    }

    #[test]
    fn unused_shares_go_to_sources_that_were_cut() {
        assert_eq!(included(10, &[vec![1; 20], vec![1; 20]]), [7, 3]);
        assert_eq!(included(20, &[vec![1; 50], vec![1; 4]]), [16, 4]);
        assert_eq!(included(20, &[vec![1; 2], vec![1; 50]]), [2, 18]);
    }

    #[test]
    fn a_source_stops_at_the_first_grain_that_does_not_fit() {
        assert_eq!(included(10, &[vec![4, 100, 1]]), [1]);
        assert_eq!(included(1, &[vec![5], vec![5]]), [0, 0]);
    }

    #[test]
    fn a_grain_costs_a_quarter_of_its_characters_and_at_least_one() {
        for (text, cost) in [("", 1), ("a", 1), ("abcd", 1), ("abcde", 2), ("ééééé", 2)] {
            assert_eq!(token_cost(text), cost);
        }
    }

    proptest! {
        #[test]
        fn a_budget_is_never_exceeded_and_never_left_if_the_next_grain_fits(
            total in 0u64..500,
            costs in proptest::collection::vec(proptest::collection::vec(1u64..40, 0..12), 1..9),
        ) {
            let filled = fill(total, &costs);
            let used: u64 = filled.iter().map(|source| source.used).sum();
            prop_assert!(used <= total);
            prop_assert_eq!(filled.iter().map(|source| source.allocated).sum::<u64>(), total);
            for (source, costs) in filled.iter().zip(&costs) {
                prop_assert_eq!(source.used, costs[..source.included].iter().sum::<u64>());
                if let Some(next) = costs.get(source.included) {
                    prop_assert!(used + next > total, "{} left, {} would fit", total - used, next);
                }
            }
        }
    }
}
