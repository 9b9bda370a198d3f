//! Incremental scans find what new lifecycle events make a finding, also about grains that are old,
//! and nothing that a scan of everything doesn't find.

use std::collections::BTreeSet;
use std::sync::Arc;

use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::lake::Lake;
use gristmill_queries::packs::{
    Finding, Pack, Rule, Scan, ScanOptions, Since, select_rules, shipped,
};
use gristmill_schemas::columns::{LifecycleEvent, StateRow};
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::lake::TestLake;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// Rules that read what changed.
const RULES: [&str; 7] = [
    "gdpr/accuracy",
    "gdpr/contested-restricted",
    "integrity/protected-replaced",
    "integrity/replaced-without-reason",
    "integrity/supersession-cycle",
    "integrity/supersession-fork",
    "sox/disputed-record",
];

const ROUNDS: usize = 12;

/// A grain with a finding, and the rule.
pub(super) type Found = BTreeSet<(String, Option<String>)>;

/// Returns what a scan of `lake` finds; one since the last is recorded.
pub(super) async fn found_in(lake: &mut Lake, packs: Vec<Pack>, since: Since) -> Found {
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

fn packs() -> Vec<Pack> {
    let packs = ["gdpr", "integrity", "sox"].map(|name| shipped(name).unwrap());
    select_rules(packs.into(), &RULES.map(str::to_owned)).unwrap()
}

/// A lake with random grains and random events on them.
struct ChangingLake {
    lake: TestLake,
    addresses: Vec<String>,
    random: StdRng,
    round: usize,
}

impl ChangingLake {
    async fn new(seed: u64) -> ChangingLake {
        ChangingLake {
            lake: TestLake::new().await,
            addresses: Vec::new(),
            random: StdRng::seed_from_u64(seed),
            round: 0,
        }
    }

    /// Ingests some grains, commits some events, and merges files in some rounds.
    async fn change(&mut self) {
        self.round += 1;
        if self.round == 1 || self.random.random_range(0..3) > 0 {
            self.add_grains().await;
        }
        let count = self.random.random_range(0..8);
        let events: Vec<StateRow> = (0..count).map(|_| self.event()).collect();
        if !events.is_empty() {
            self.lake.add_events(&events).await;
        }
        if self.random.random_range(0..3) == 0 {
            let options = CompactOptions::default();
            compact(&mut self.lake.lake, &options, Arc::default())
                .await
                .unwrap();
        }
    }

    async fn add_grains(&mut self) {
        let first = self.addresses.len();
        let count = self.random.random_range(1..8);
        let grains = (first..first + count).map(|number| {
            let policy = ["open", "locked", "soft_locked", "hold"];
            let policy = policy.choose(&mut self.random).unwrap();
            let tag = ["reg:sox", "other"].choose(&mut self.random).unwrap();
            grain(&format!(
                r#"{{"type": "belief", "subject": "s{number}", "relation": "is", "object": "o", "confidence": 0.5,
                    "user_id": "ada", "structural_tags": ["{tag}"], "created_at": {},
                    "invalidation_policy": {{"mode": "{policy}"}}}}"#,
                1_735_689_600_000 + number
            ))
        });
        let grains: Vec<_> = grains.collect();
        self.addresses
            .extend(grains.iter().map(|grain| grain.address.to_string()));
        let blobs: Vec<_> = grains.into_iter().map(|grain| grain.blob).collect();
        let name = format!("{}.frames", self.round);
        self.lake.ingest(&[(&name, &frames(&blobs))]).await;
    }

    fn event(&mut self) -> StateRow {
        let random = &mut self.random;
        let (event, value) = match random.random_range(0..4) {
            0 | 1 => {
                let successor = self.addresses.choose(random).unwrap();
                (LifecycleEvent::Superseded, successor.clone())
            }
            2 => {
                let value = ["true", "false"].choose(random).unwrap();
                (LifecycleEvent::Contradicted, (*value).to_owned())
            }
            _ => {
                let value = ["contested", "retracted", "verified"].choose(random);
                (LifecycleEvent::Verification, (*value.unwrap()).to_owned())
            }
        };
        let reasons = [None, Some("it was wrong".to_owned())];
        StateRow {
            content_address: self.addresses.choose(random).unwrap().clone(),
            event,
            value: Some(value),
            at: 1_735_689_700_000_000 + self.round as i64,
            actor: None,
            reason: reasons.choose(random).unwrap().clone(),
            source_id: None,
        }
    }

    async fn scan(&mut self, since: Since) -> Found {
        found_in(&mut self.lake.lake, packs(), since).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_new_finding_about_lifecycle_is_found_since_the_last_scan() {
    let (mut new, mut repeated) = (BTreeSet::new(), 0);
    for seed in 0..4 {
        let mut lake = ChangingLake::new(seed).await;
        let mut before = Found::new();
        for round in 0..ROUNDS {
            lake.change().await;
            let all = lake.scan(Since::Beginning).await;
            let found = lake.scan(Since::Last).await;
            let missed: Vec<_> = all.difference(&before).collect();
            let missed: Vec<_> = missed
                .into_iter()
                .filter(|it| !found.contains(it))
                .collect();
            assert!(missed.is_empty(), "seed {seed}, round {round}: {missed:?}");
            assert!(found.is_subset(&all), "seed {seed}, round {round}");
            new.extend(all.iter().map(|(rule, _)| rule.clone()));
            repeated += all.len() - found.len();
            before = all;
        }
        assert_eq!(lake.scan(Since::Last).await, Found::new(), "nothing is new");
    }
    assert_eq!(new, RULES.map(str::to_owned).into(), "all rules find some");
    assert!(repeated > 0, "old findings aren't repeated");
}
