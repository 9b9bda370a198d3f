//! Rounds of changes to a lake, each followed by a scan of everything and one since the last: the
//! latter finds all that is new, and nothing that the former doesn't find.

use std::collections::BTreeSet;

use gristmill_engine::lake::Lake;
use gristmill_queries::packs::{
    Finding, Pack, Rule, Scan, ScanOptions, Since, select_rules, shipped,
};

/// Number of rounds, in which each rule finds something and leaves something out.
const ROUNDS: usize = 12;

/// A grain with a finding, and the rule.
type Found = BTreeSet<(String, Option<String>)>;

/// A lake that is changed in rounds.
pub(super) trait ChangingLake {
    /// Makes the changes of a round.
    async fn change(&mut self);

    /// Returns the lake after the last change.
    fn lake(&mut self) -> &mut Lake;
}

/// The rules that scans evaluated, as they were seen in all rounds of a test.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SeenRules {
    /// Rules that a scan of everything found something by.
    pub(super) found: BTreeSet<String>,
    /// Rules that a scan since the last one left old findings out of.
    pub(super) left_out: BTreeSet<String>,
}

/// Returns the packs `names` with the `rules` alone.
pub(super) fn packs_of(names: &[&str], rules: &[&str]) -> Vec<Pack> {
    let packs = names.iter().map(|name| shipped(name).unwrap()).collect();
    let rules: Vec<String> = rules.iter().copied().map(str::to_owned).collect();
    select_rules(packs, &rules).unwrap()
}

/// Changes `lake`, which was made from `seed`, in rounds and scans it by `packs`; adds what was
/// seen to `seen`.
///
/// # Panics
/// If a scan since the last one misses a new finding, or has one that a scan of everything hasn't.
pub(super) async fn check_rounds(
    lake: &mut impl ChangingLake,
    seed: u64,
    packs: &[Pack],
    seen: &mut SeenRules,
) {
    let mut before = Found::new();
    for round in 0..ROUNDS {
        lake.change().await;
        let all = found_in(lake.lake(), packs.to_vec(), Since::Beginning).await;
        let found = found_in(lake.lake(), packs.to_vec(), Since::Last).await;
        let new = all.difference(&before);
        let missed: Vec<_> = new.filter(|it| !found.contains(*it)).collect();
        assert!(missed.is_empty(), "seed {seed}, round {round}: {missed:?}");
        assert!(found.is_subset(&all), "seed {seed}, round {round}");
        seen.found.extend(all.iter().map(|(rule, _)| rule.clone()));
        let left_out = all.difference(&found);
        seen.left_out.extend(left_out.map(|(rule, _)| rule.clone()));
        before = all;
    }
    let again = found_in(lake.lake(), packs.to_vec(), Since::Last).await;
    assert_eq!(again, Found::new(), "nothing is new");
}

/// Returns what a scan of `lake` finds; one since the last is recorded.
async fn found_in(lake: &mut Lake, packs: Vec<Pack>, since: Since) -> Found {
    let options = ScanOptions {
        since,
        ..ScanOptions::default()
    };
    let scan = Scan::prepare(lake, packs, &options).await.unwrap();
    let mut found = Found::new();
    let take = |rule: &Rule, finding: &Finding| {
        found.insert((rule.id.clone(), finding.address.clone()));
        Ok(())
    };
    let summary = scan.run(take).await.unwrap();
    if since == Since::Last {
        scan.record(lake, &summary).await.unwrap();
    }
    found
}
