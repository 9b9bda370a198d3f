//! A lake with random lifecycle histories, and what they amount to by the fold of `schemas`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gristmill_engine::apply::{ApplyOptions, apply};
use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::index::lifecycle_mask::{LIFECYCLE_FILE, refresh_masks};
use gristmill_engine::index::{SidecarCondition, SidecarState, sidecar_states};
use gristmill_engine::lake::{Lake, Segment};
use gristmill_engine::progress::WorkProgress;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, StateRow};
use gristmill_schemas::lifecycle::LifecycleState;
use gristmill_tests::grains::grain;
use gristmill_tests::lake::TestLake;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

use super::{MADE, belief};

/// Creation of the disclosed copies: before all events, because a manifest's milliseconds could put
/// an event at the instant of a copy.
const COPIED: i64 = MADE - 1;

/// Grains with a random history, each of several events.
const GRAINS: usize = 120;

/// Instants of events: few, for many ties, and not whole milliseconds.
pub(super) const INSTANTS: [i64; 6] = [0, 400, 1_000, 1_500, 2_000, 60_000_000];

/// A lake whose grains have random histories, and these histories.
pub(super) struct Histories {
    pub(super) lake: TestLake,
    /// Grains with their creation in microseconds.
    pub(super) grains: Vec<(ContentAddress, i64)>,
    events: Vec<(ContentAddress, LifecycleEvent, Option<String>, i64)>,
    /// Disclosed copies and their originals.
    copies: Vec<(ContentAddress, ContentAddress)>,
}

impl Histories {
    pub(super) async fn new(seed: u64) -> Histories {
        let mut random = StdRng::seed_from_u64(seed);
        let mut histories = Histories {
            lake: TestLake::new().await,
            grains: Vec::new(),
            events: Vec::new(),
            copies: Vec::new(),
        };
        histories.apply(&mut random).await;
        histories.add_events(&mut random).await;
        histories
    }

    /// Puts grains; a third of them are superseded by one or two others, recorded in the rows of
    /// these, and a quarter have a disclosed copy.
    async fn apply(&mut self, random: &mut StdRng) {
        let mut lines = String::new();
        for number in 0..GRAINS {
            // Each part becomes a segment.
            if number > 0 && number % (GRAINS / 4) == 0 {
                self.put(std::mem::take(&mut lines)).await;
            }
            let old = belief(number, MADE, "");
            let old_address = grain(&old).address;
            self.grains.push((old_address, MADE * 1_000));
            lines += &format!("{{\"op\": \"put\", \"grain\": {old}}}\n");
            // A copy of this grain, or of one that follows later.
            if number % 8 < 2 {
                let original = match number % 8 {
                    0 => old_address,
                    _ => grain(&belief((number + 30) % GRAINS, MADE, "")).address,
                };
                let more = format!(r#", "_disclosure_of": "{original}", "_elided": {{}}"#);
                let copy = belief(number, COPIED, &more);
                let address = grain(&copy).address;
                lines += &format!("{{\"op\": \"put\", \"grain\": {copy}}}\n");
                self.grains.push((address, COPIED * 1_000));
                self.copies.push((address, original));
            }
            for version in 0..[0, 0, 0, 1, 2].choose(random).copied().unwrap() {
                let made = MADE + random.random_range(0..3);
                let derived =
                    format!(r#", "derived_from": ["{old_address}"], "importance": 0.{version}"#);
                let new = belief(number, made, &derived);
                let address = grain(&new).address;
                lines += &format!(
                    "{{\"op\": \"supersede\", \"address\": \"{old_address}\", \"grain\": {new}}}\n"
                );
                self.grains.push((address, made * 1_000));
                let superseded = LifecycleEvent::Superseded;
                self.events.push((
                    old_address,
                    superseded,
                    Some(address.to_string()),
                    made * 1_000,
                ));
            }
        }
        self.put(lines).await;
    }

    /// Applies `lines`.
    async fn put(&mut self, lines: String) {
        let mut lines = std::io::Cursor::new(lines);
        let mut check = |answer: &gristmill_engine::apply::OperationOutcome| {
            assert!(answer.ok, "{answer:?}");
            Ok(())
        };
        apply(
            &mut self.lake.lake,
            &mut lines,
            &ApplyOptions::default(),
            &mut check,
        )
        .await
        .unwrap();
    }

    /// Commits random events in files of random order.
    async fn add_events(&mut self, random: &mut StdRng) {
        let mut rows = Vec::new();
        for _ in 0..GRAINS * 4 {
            let (address, _) = *self.grains.choose(random).unwrap();
            let event = *LifecycleEvent::ALL.choose(random).unwrap();
            let value = self.value(event, random);
            let at = MADE * 1_000 + INSTANTS.choose(random).unwrap();
            self.events.push((address, event, value.clone(), at));
            rows.push(StateRow {
                content_address: address.to_string(),
                event,
                value,
                at,
                actor: None,
                reason: None,
                source_id: None,
            });
        }
        rows.shuffle(random);
        for part in rows.chunks(rows.len() / 4) {
            self.lake.add_events(part).await;
        }
    }

    /// Returns a valid or an invalid value of such an event.
    fn value(&self, event: LifecycleEvent, random: &mut StdRng) -> Option<String> {
        let odd = [
            None,
            Some(""),
            Some("perhaps"),
            Some("TRUE"),
            Some("ABCDEF"),
            Some("é"),
        ];
        if random.random_range(0..6) == 0 {
            return odd.choose(random).unwrap().map(str::to_owned);
        }
        let word =
            |words: &[&str], random: &mut StdRng| Some((*words.choose(random).unwrap()).to_owned());
        match event {
            LifecycleEvent::Superseded | LifecycleEvent::Noted => {
                let there = self.grains.choose(random).unwrap().0.to_string();
                let absent = ContentAddress::of(&[random.random_range(0..3)]).to_string();
                Some(
                    [there.clone(), absent, there.to_uppercase()]
                        .choose(random)
                        .unwrap()
                        .clone(),
                )
            }
            LifecycleEvent::Contradicted => word(&["true", "false"], random),
            LifecycleEvent::Verification => word(
                &["unverified", "verified", "contested", "retracted"],
                random,
            ),
            LifecycleEvent::Expired => None,
            LifecycleEvent::Accessed => word(&["3", "7", "12"], random),
            LifecycleEvent::Held | LifecycleEvent::Released => word(&["case", "stated"], random),
        }
    }

    /// Returns the fold of each grain's events up to `until`, with what follows for copies.
    pub(super) fn folds(&self, until: i64) -> BTreeMap<ContentAddress, LifecycleState> {
        let mut folds = self.recorded_folds(until);
        for (copy, original) in self.copies.iter().filter(|_| COPIED * 1_000 <= until) {
            let value = original.to_string();
            let (event, at) = (LifecycleEvent::Superseded, COPIED * 1_000);
            folds.entry(*copy).or_default().add(event, Some(&value), at);
        }
        folds
    }

    /// Returns the fold of each grain's events up to `until`.
    pub(super) fn recorded_folds(&self, until: i64) -> BTreeMap<ContentAddress, LifecycleState> {
        let mut folds: BTreeMap<ContentAddress, LifecycleState> = BTreeMap::new();
        for (address, event, value, at) in self.events.iter().filter(|(.., at)| *at <= until) {
            folds
                .entry(*address)
                .or_default()
                .add(*event, value.as_deref(), *at);
        }
        folds
    }

    /// Returns the grains that are current by these folds.
    pub(super) fn current(
        &self,
        folds: &BTreeMap<ContentAddress, LifecycleState>,
        until: i64,
    ) -> BTreeSet<String> {
        let is_current = |address: &ContentAddress| {
            folds
                .get(address)
                .is_none_or(gristmill_schemas::lifecycle::LifecycleState::is_current)
        };
        let made = self.grains.iter().filter(|(_, made)| *made <= until);
        made.map(|(address, _)| address)
            .filter(|address| is_current(address))
            .map(ToString::to_string)
            .collect()
    }
}

/// Which lifecycle masks a lake has.
#[derive(Debug, Clone, Copy)]
pub(super) enum Masks {
    /// Masks of before the events in `state`, which are their tail.
    WithTail,
    /// Masks of all events.
    Complete,
    None,
    /// Half of the masks are of files that aren't in the lake any more.
    HalfStale,
}

impl Histories {
    /// Returns the path of the mask of each segment.
    fn mask_files(&self) -> Vec<std::path::PathBuf> {
        let segments = self.lake.lake.segments().unwrap();
        let path = |segment: &Segment| segment.id.sidecar(LIFECYCLE_FILE).to_string();
        let folder = self.lake.folder().join("lake");
        segments
            .iter()
            .map(|segment| folder.join(path(segment)))
            .collect()
    }

    /// Brings the masks into the given condition, and opens the lake again.
    pub(super) async fn set_masks(&mut self, masks: Masks) {
        let files = self.mask_files();
        match masks {
            Masks::WithTail => {}
            Masks::Complete => {
                let built = refresh_masks(&self.lake.lake, true).await.unwrap();
                assert_eq!(built.segments.len(), files.len());
            }
            Masks::None => files
                .iter()
                .for_each(|file| std::fs::remove_file(file).unwrap()),
            Masks::HalfStale => {
                refresh_masks(&self.lake.lake, true).await.unwrap();
                let read = |file| std::fs::read(file).unwrap();
                let before: Vec<_> = files.iter().map(read).collect();
                let options = CompactOptions {
                    table_files: 2,
                    target_rows: 1,
                    ..CompactOptions::default()
                };
                let progress = Arc::new(WorkProgress::default());
                compact(&mut self.lake.lake, &options, progress)
                    .await
                    .unwrap();
                for (file, bytes) in files.iter().zip(before).step_by(2) {
                    assert_ne!(
                        std::fs::read(file).unwrap(),
                        bytes,
                        "state files were merged"
                    );
                    std::fs::write(file, bytes).unwrap();
                }
            }
        }
        let uri = self.lake.folder().join("lake").display().to_string();
        self.lake.lake = Lake::open(&uri).await.unwrap();
        let found = sidecar_states(&self.lake.lake).await.unwrap();
        let count = |condition| {
            let is =
                |state: &&SidecarState| state.index == "lifecycle" && state.condition == condition;
            found.iter().filter(is).count()
        };
        let all = files.len();
        let expected = match masks {
            Masks::WithTail | Masks::Complete => (all, 0, 0),
            Masks::None => (0, 0, all),
            Masks::HalfStale => (all / 2, all - all / 2, 0),
        };
        let [fresh, stale, missing] = [
            SidecarCondition::Fresh,
            SidecarCondition::Stale,
            SidecarCondition::Missing,
        ]
        .map(count);
        assert_eq!((fresh, stale, missing), expected, "{masks:?}");
    }
}
