//! Incremental scans find what new lifecycle events make a finding, also about grains that are old,
//! and nothing that a scan of everything doesn't find.

use std::collections::BTreeSet;

use gristmill_engine::lake::Lake;
use gristmill_schemas::columns::{LifecycleEvent, StateRow};
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::lake::TestLake;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::rounds::{ChangingLake, SeenRules, check_rounds, packs_of};

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

/// A lake with random grains and random events on them.
struct EventLake {
    lake: TestLake,
    addresses: Vec<String>,
    random: StdRng,
    round: usize,
}

impl EventLake {
    async fn new(seed: u64) -> EventLake {
        EventLake {
            lake: TestLake::new().await,
            addresses: Vec::new(),
            random: StdRng::seed_from_u64(seed),
            round: 0,
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
}

impl ChangingLake for EventLake {
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
            self.lake.compact().await;
        }
    }

    fn lake(&mut self) -> &mut Lake {
        &mut self.lake.lake
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_new_finding_about_lifecycle_is_found_since_the_last_scan() {
    let packs = packs_of(&["gdpr", "integrity", "sox"], &RULES);
    let mut seen = SeenRules::default();
    for seed in 0..4 {
        let mut lake = EventLake::new(seed).await;
        check_rounds(&mut lake, seed, &packs, &mut seen).await;
    }
    let all: BTreeSet<String> = RULES.map(str::to_owned).into();
    assert_eq!(seen.found, all, "all rules find some");
    assert!(!seen.left_out.is_empty(), "old findings aren't repeated");
}
