//! Incremental scans find what new consents and withdrawals, and new events about these, make a
//! finding, also about grains that are old, and nothing that a scan of everything doesn't find.

use std::collections::BTreeSet;

use datafusion::physical_plan::displayable;
use gristmill_engine::lake::Lake;
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_schemas::columns::{LifecycleEvent, StateRow};
use gristmill_schemas::grain::EncodedGrain;
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::lake::TestLake;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

use super::rounds::{ChangingLake, SeenRules, check_rounds, packs_of};

/// Rules that compare grains with withdrawals, and don't depend on the time of the scan.
const RULES: [&str; 3] = [
    "ccpa/deletion-left-over",
    "gdpr/withdrawn-consent",
    "hipaa/revoked-authorization",
];

const PEOPLE: usize = 4;

/// Returns a random instant in milliseconds, one of few.
fn instant(random: &mut StdRng) -> i64 {
    1_735_689_600_000 + random.random_range(0..20)
}

/// Returns a consent of `person`, or with `prior` a withdrawal of that one.
fn consent(random: &mut StdRng, person: usize, prior: Option<&str>) -> EncodedGrain {
    let scopes = [r#""store""#, r#""share""#, r#""share", "store""#];
    let scope = scopes.choose(random).unwrap();
    let grantee = random.random_range(0..2);
    let created_at = instant(random);
    let kind = match prior {
        Some(prior) => format!(r#""is_withdrawal": true, "prior_consent": "{prior}""#),
        None => r#""is_withdrawal": false"#.to_owned(),
    };
    grain(&format!(
        r#"{{"type": "consent", "subject_did": "did:web:p{person}.example", "user_id": "u{person}",
            "grantee_did": "did:web:a{grantee}.example", "scope": [{scope}],
            "jurisdiction": "us_ccpa", "created_at": {created_at}, {kind}}}"#
    ))
}

/// Returns a grain of `person` that rests on `consent`.
fn resting(random: &mut StdRng, number: usize, person: usize, consent: &str) -> EncodedGrain {
    let created_at = instant(random);
    grain(&format!(
        r#"{{"type": "belief", "subject": "s{number}", "relation": "is", "object": "o",
            "confidence": 0.5, "user_id": "u{person}", "processing_basis": "{consent}",
            "structural_tags": ["phi:diet"], "created_at": {created_at}}}"#
    ))
}

/// Returns consents, withdrawals and grains that rest on the consents, in a random order.
fn random_grains(random: &mut StdRng) -> Vec<EncodedGrain> {
    let mut grains = Vec::new();
    for number in 0..12 {
        let person = random.random_range(0..PEOPLE);
        let given = consent(random, person, None);
        let address = given.address.to_string();
        for _ in 0..random.random_range(0..3) {
            let is_foreign = random.random_range(0..8) == 0;
            let by = (person + usize::from(is_foreign)) % PEOPLE;
            grains.push(consent(random, by, Some(&address)));
        }
        for copy in 0..3 {
            grains.push(resting(random, 3 * number + copy, person, &address));
        }
        grains.push(given);
    }
    grains.shuffle(random);
    grains
}

/// A lake into which grains come step by step, and events about them.
struct ConsentLake {
    lake: TestLake,
    /// What isn't in the lake yet.
    grains: Vec<EncodedGrain>,
    addresses: Vec<String>,
    random: StdRng,
    round: usize,
}

impl ConsentLake {
    async fn new(seed: u64) -> ConsentLake {
        let mut random = StdRng::seed_from_u64(seed);
        ConsentLake {
            lake: TestLake::new().await,
            grains: random_grains(&mut random),
            addresses: Vec::new(),
            random,
            round: 0,
        }
    }

    /// Returns an event by which a grain isn't current any more, or is so again.
    fn event(&mut self) -> StateRow {
        let random = &mut self.random;
        let events = [
            (LifecycleEvent::Contradicted, "true"),
            (LifecycleEvent::Contradicted, "false"),
            (LifecycleEvent::Verification, "retracted"),
            (LifecycleEvent::Verification, "verified"),
        ];
        let (event, value) = *events.choose(random).unwrap();
        StateRow {
            content_address: self.addresses.choose(random).unwrap().clone(),
            event,
            value: Some(value.to_owned()),
            at: 1_735_689_700_000_000 + self.round as i64,
            actor: None,
            reason: None,
            source_id: None,
        }
    }
}

impl ChangingLake for ConsentLake {
    /// Ingests some grains, commits some events, and merges files in some rounds.
    async fn change(&mut self) {
        self.round += 1;
        let count = self.random.random_range(1..10).min(self.grains.len());
        let grains: Vec<_> = self.grains.drain(..count).collect();
        if !grains.is_empty() {
            let addresses = grains.iter().map(|grain| grain.address.to_string());
            self.addresses.extend(addresses);
            let blobs: Vec<_> = grains.into_iter().map(|grain| grain.blob).collect();
            let name = format!("{}.frames", self.round);
            let report = self.lake.ingest(&[(&name, &frames(&blobs))]).await;
            assert_eq!(report.rejected, 0);
        }
        let count = self.random.random_range(0..3);
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
async fn each_new_finding_about_consents_is_found_since_the_last_scan() {
    let packs = packs_of(&["ccpa", "gdpr", "hipaa"], &RULES);
    let mut seen = SeenRules::default();
    for seed in 0..2 {
        let mut lake = ConsentLake::new(seed).await;
        check_rounds(&mut lake, seed, &packs, &mut seen).await;
    }
    let all: BTreeSet<String> = RULES.map(str::to_owned).into();
    assert_eq!(seen.found, all, "all rules find some");
    assert_eq!(seen.left_out, all, "no rule repeats all old findings");
}

/// A hash join holds one of its sides. Most consents aren't withdrawn.
#[tokio::test(flavor = "multi_thread")]
async fn what_isnt_withdrawn_is_found_by_joins_that_hold_the_withdrawals() {
    let mut lake = ConsentLake::new(0).await;
    while !lake.grains.is_empty() {
        lake.change().await;
    }
    let options = SqlOptions::default();
    let context = lake_context(&lake.lake.lake, &options).await.unwrap();
    for view in ["consent_state", "withdrawn_consents"] {
        let query = format!("SELECT * FROM {view}");
        let frame = context.sql(&query).await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        let plan = displayable(plan.as_ref()).indent(false).to_string();
        assert!(plan.contains("join_type=RightAnti, on=[(prior"), "{plan}");
        assert!(!plan.contains("join_type=LeftAnti"), "{plan}");
    }
}
