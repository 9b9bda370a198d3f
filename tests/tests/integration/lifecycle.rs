//! Lifecycle: the fold of `schemas`, the views of SQL, CAL, and a copy by `export` and `ingest`
//! agree on every history.
//!
//! Above 500 lines: random histories and their checks share one generator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gristmill_engine::apply::{ApplyOptions, apply};
use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::export::{ExportFormat, ExportOptions, export};
use gristmill_engine::index::lifecycle_mask::{LIFECYCLE_FILE, refresh_masks};
use gristmill_engine::index::{SidecarCondition, SidecarState, sidecar_states};
use gristmill_engine::lake::{Change, Lake, Segment};
use gristmill_engine::progress::WorkProgress;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::Executor;
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, StateRow, state_batch};
use gristmill_schemas::container::Codec;
use gristmill_schemas::json::Json;
use gristmill_schemas::lifecycle::LifecycleState;
use gristmill_schemas::message::price::PriceTable;
use gristmill_tests::grains::grain;
use gristmill_tests::lake::{TestLake, patient_session};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

/// Creation of the first grain, in milliseconds since 1970.
const MADE: i64 = 1_767_225_600_000;

/// Creation of the disclosed copies: before all events, because a manifest's milliseconds could put
/// an event at the instant of a copy.
const COPIED: i64 = MADE - 1;

/// Grains with a random history, each of several events.
const GRAINS: usize = 120;

/// Instants of events: few, for many ties, and not whole milliseconds.
const INSTANTS: [i64; 6] = [0, 400, 1_000, 1_500, 2_000, 60_000_000];

fn belief(number: usize, made: i64, more: &str) -> String {
    format!(
        r#"{{"type": "belief", "subject": "s{number}", "relation": "r", "object": "o", "confidence": 1.0, "created_at": {made}{more}}}"#
    )
}

/// A lake whose grains have random histories, and these histories.
struct Histories {
    lake: TestLake,
    /// Grains with their creation in microseconds.
    grains: Vec<(ContentAddress, i64)>,
    events: Vec<(ContentAddress, LifecycleEvent, Option<String>, i64)>,
    /// Disclosed copies and their originals.
    copies: Vec<(ContentAddress, ContentAddress)>,
}

impl Histories {
    async fn new(seed: u64) -> Histories {
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
            let state = &mut self.lake.lake.state;
            let file = state.write_file(&state_batch(part).unwrap()).await.unwrap();
            let change = Change {
                added: vec![file],
                changes_rows: true,
                ..Change::default()
            };
            state.commit(change, "test", 1).await.unwrap();
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
    fn folds(&self, until: i64) -> BTreeMap<ContentAddress, LifecycleState> {
        let mut folds = self.recorded_folds(until);
        for (copy, original) in self.copies.iter().filter(|_| COPIED * 1_000 <= until) {
            let value = original.to_string();
            let (event, at) = (LifecycleEvent::Superseded, COPIED * 1_000);
            folds.entry(*copy).or_default().add(event, Some(&value), at);
        }
        folds
    }

    /// Returns the fold of each grain's events up to `until`.
    fn recorded_folds(&self, until: i64) -> BTreeMap<ContentAddress, LifecycleState> {
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
    fn current(
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
enum Masks {
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
    async fn set_masks(&mut self, masks: Masks) {
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

/// The fold as a row of text.
fn row_of(address: &ContentAddress, fold: &LifecycleState) -> Vec<String> {
    fn text(value: Option<impl ToString>) -> String {
        value.map_or("NULL".to_owned(), |value| value.to_string())
    }
    vec![
        address.to_string(),
        text(fold.superseded_by()),
        text(fold.system_valid_to()),
        fold.is_contradicted().to_string(),
        text(
            fold.verification()
                .map(gristmill_schemas::container::VerificationStatus::name),
        ),
        text(fold.access_count()),
        text(fold.last_accessed_at()),
    ]
}

const LIFECYCLE: &str =
    "SELECT content_address, superseded_by, CAST(system_valid_to AS BIGINT), contradicted, verification_status,
        access_count, CAST(last_accessed_at AS BIGINT) FROM lifecycle ORDER BY 1";

async fn addresses(lake: &TestLake, query: &str) -> BTreeSet<String> {
    lake.rows(query).await.into_iter().flatten().collect()
}

/// Returns the number of grains that CAL finds.
async fn counted(lake: &TestLake, statement: &str) -> u64 {
    let tables = lake_context(&lake.lake, &SqlOptions::default())
        .await
        .unwrap();
    let executor = Executor::new(tables, patient_session(1_800_000_000_000));
    let response = executor
        .run_text(statement.as_bytes(), &Bindings::new(), Options::default())
        .await
        .unwrap();
    response
        .to_json()
        .get("total")
        .and_then(Json::as_u64)
        .unwrap()
}

/// Exports all of `from` to a container and ingests it into a new lake.
async fn copied(from: &TestLake) -> TestLake {
    let out = from.folder().join("copy.mg");
    let format = ExportFormat::Container(Codec::None);
    let options = ExportOptions {
        rewriter: None,
        out: out.clone(),
        format,
        overwrite: true,
        split: None,
        threads: 0,
        provider: None,
        prices: PriceTable::builtin(),
    };
    let rows = from.lake.scan(format.columns()).unwrap();
    export(
        &from.lake,
        rows,
        &options,
        Arc::new(WorkProgress::default()),
    )
    .await
    .unwrap();
    let mut copy = TestLake::new().await;
    let report = copy
        .ingest(&[("copy.mg", &std::fs::read(out).unwrap())])
        .await;
    assert_eq!(report.rejected, 0, "{report:?}");
    copy
}

#[tokio::test(flavor = "multi_thread")]
async fn fold_sql_cal_and_an_exported_copy_agree_on_random_histories() {
    let all = [
        (1, Masks::WithTail),
        (2, Masks::Complete),
        (3, Masks::None),
        (4, Masks::HalfStale),
    ];
    for (seed, masks) in all {
        let mut histories = Histories::new(seed).await;
        histories.set_masks(masks).await;
        let lake = &histories.lake;
        let folds = histories.folds(i64::MAX);
        // The engine's fold, for the gate, `apply` and exports.
        let folded = lake.lake.lifecycles(|_| true).await.unwrap();
        assert_eq!(folded, folds, "seed {seed}");
        // SQL.
        let rows: Vec<_> = folds
            .iter()
            .map(|(address, fold)| row_of(address, fold))
            .collect();
        assert_eq!(lake.rows(LIFECYCLE).await, rows, "seed {seed}");
        let current = histories.current(&folds, i64::MAX);
        assert_eq!(
            addresses(lake, "SELECT content_address FROM current").await,
            current,
            "seed {seed}"
        );
        for instant in INSTANTS {
            let until = MADE * 1_000 + instant;
            let expected = histories.current(&histories.folds(until), until);
            let instant = chrono::DateTime::from_timestamp_micros(until)
                .unwrap()
                .to_rfc3339();
            let query = format!("SELECT content_address FROM as_of('{instant}')");
            assert_eq!(
                addresses(lake, &query).await,
                expected,
                "seed {seed}, as of {instant}"
            );
        }
        // CAL omits ended grains and marks contradicted ones.
        let ended = |address: &ContentAddress| {
            folds
                .get(address)
                .is_some_and(|fold| fold.ended().is_some())
        };
        let contradicted = |address: &ContentAddress| {
            folds
                .get(address)
                .is_some_and(LifecycleState::is_contradicted)
        };
        let left: Vec<_> = histories
            .grains
            .iter()
            .map(|(address, _)| address)
            .filter(|address| !ended(address))
            .collect();
        assert_eq!(
            counted(lake, "RECALL beliefs").await,
            left.len() as u64,
            "seed {seed}"
        );
        let marked = left.iter().filter(|address| contradicted(address)).count() as u64;
        assert_eq!(
            counted(lake, "RECALL beliefs WHERE contradicted = TRUE").await,
            marked,
            "seed {seed}"
        );
        assert!(
            marked > 0 && current.len() > 10,
            "a history in which little happens shows little"
        );
        // A copy has milliseconds, like manifests.
        let copy = copied(lake).await;
        let recorded = histories.recorded_folds(i64::MAX);
        let portable: BTreeMap<_, _> = recorded
            .iter()
            .filter_map(|(address, fold)| Some((*address, fold.to_index_state()?)))
            .collect();
        assert_eq!(
            copy.lake.portable_states(|_| true).await.unwrap(),
            portable,
            "seed {seed}"
        );
        assert_eq!(
            addresses(&copy, "SELECT content_address FROM current").await,
            current,
            "seed {seed}"
        );
        let in_milliseconds = |row: &Vec<String>| {
            let until = row[2].parse().map_or("NULL".to_owned(), |at: i64| {
                (at.div_euclid(1_000) * 1_000).to_string()
            });
            [
                row[0].clone(),
                row[1].clone(),
                until,
                row[3].clone(),
                row[4].clone(),
            ]
        };
        let says_something = |row: &[String; 5]| row[1..] != ["NULL", "NULL", "false", "NULL"];
        let expected: Vec<_> = rows
            .iter()
            .map(in_milliseconds)
            .filter(says_something)
            .collect();
        let found: Vec<_> = copy
            .rows(LIFECYCLE)
            .await
            .iter()
            .map(in_milliseconds)
            .filter(says_something)
            .collect();
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_contradiction_holds_until_it_is_withdrawn() {
    let mut lake = TestLake::new().await;
    let wrong = belief(1, MADE, "");
    let address = grain(&wrong).address;
    let run = async |lake: &mut TestLake, lines: String| {
        let mut lines = std::io::Cursor::new(lines);
        let mut check = |answer: &gristmill_engine::apply::OperationOutcome| {
            assert!(answer.ok && !answer.already, "{answer:?}");
            Ok(())
        };
        apply(
            &mut lake.lake,
            &mut lines,
            &ApplyOptions::default(),
            &mut check,
        )
        .await
        .unwrap();
    };
    let contradict = |value: bool| {
        format!("{{\"op\": \"contradict\", \"address\": \"{address}\", \"value\": {value}}}\n")
    };
    run(
        &mut lake,
        format!(
            "{{\"op\": \"put\", \"grain\": {wrong}}}\n{}",
            contradict(true)
        ),
    )
    .await;
    let ended = "SELECT count(*) FROM lifecycle WHERE contradicted AND system_valid_to IS NOT NULL";
    let mut copy = copied(&lake).await;
    for lake in [&lake, &copy] {
        assert_eq!(lake.value("SELECT count(*) FROM current").await, "0");
        assert_eq!(lake.value(ended).await, "1");
    }
    run(&mut copy, contradict(false)).await;
    assert_eq!(copy.value("SELECT count(*) FROM current").await, "1");
    assert_eq!(copy.value(ended).await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_supersession_of_a_soft_locked_grain_is_applied() {
    let mut lake = TestLake::new().await;
    let soft = belief(
        1,
        MADE,
        r#", "invalidation_policy": {"mode": "soft_locked"}"#,
    );
    let address = grain(&soft).address;
    let new = belief(2, MADE, "");
    let lines = format!(
        "{{\"op\": \"put\", \"grain\": {soft}}}\n{{\"op\": \"supersede\", \"address\": \
         \"{address}\", \"reason\": \"a typo\", \"grain\": {new}}}\n"
    );
    let mut lines = std::io::Cursor::new(lines);
    let mut check = |answer: &gristmill_engine::apply::OperationOutcome| {
        assert!(answer.ok, "{answer:?}");
        Ok(())
    };
    apply(
        &mut lake.lake,
        &mut lines,
        &ApplyOptions::default(),
        &mut check,
    )
    .await
    .unwrap();
    let copy = copied(&lake).await;
    assert_eq!(
        copy.value("SELECT object || count(*) FROM current GROUP BY object")
            .await,
        "o1"
    );
    assert_eq!(
        copy.value("SELECT supersession_justification FROM current")
            .await,
        "a typo",
        "the reason travels in the grain"
    );
}

/// Makes the publication of segments fail, like a full disk: after the commit to `state`, before
/// that to `grains`.
struct BrokenIndex(std::path::PathBuf);

impl BrokenIndex {
    fn of(lake: &TestLake) -> BrokenIndex {
        let index = lake.folder().join("lake/index");
        std::fs::rename(&index, index.with_extension("aside")).unwrap();
        std::fs::write(&index, "no folder").unwrap();
        BrokenIndex(index)
    }
}

impl Drop for BrokenIndex {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
        std::fs::rename(self.0.with_extension("aside"), &self.0).unwrap();
    }
}

/// Grains that are closed by a grain that isn't in the lake.
const CLOSED_BY_ABSENT: &str = "SELECT count(*) FROM supersessions s LEFT ANTI JOIN grains g ON \
                                s.superseded_by = g.content_address";

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_commit_leaves_no_grain_closed_by_an_absent_successor() {
    let mut lake = TestLake::new().await;
    let [old, other] = [1, 2].map(|number| grain(&belief(number, MADE, "")));
    lake.ingest(&[(
        "old.frames",
        &gristmill_tests::grains::frames(&[old.blob.clone(), other.blob.clone()]),
    )])
    .await;
    let derived = |from: ContentAddress| format!(r#", "derived_from": ["{from}"]"#);
    let new = grain(&belief(3, MADE, &derived(old.address)));
    let newer = grain(&belief(4, MADE, &derived(other.address)));
    // An operation with a reason that isn't part of the grain.
    let line = format!(
        r#"{{"op": "supersede", "address": "{}", "reason": "a typo", "blob_hex": "{}"}}"#,
        old.address,
        hex::encode(&new.blob)
    );
    let run = async |lake: &mut TestLake| {
        let mut lines = std::io::Cursor::new(line.clone());
        apply(
            &mut lake.lake,
            &mut lines,
            &ApplyOptions::default(),
            &mut |_| Ok(()),
        )
        .await
    };
    // A manifest that closes one grain of the lake by a grain of its container, and another by a
    // known grain.
    let state = |superseded_by, status| gristmill_schemas::container::IndexState {
        superseded_by,
        verification_status: status,
        ..Default::default()
    };
    let verified = Some(gristmill_schemas::container::VerificationStatus::Verified);
    let entries = [
        (other.address, state(Some(newer.address), None)),
        (newer.address, state(None, verified)),
    ];
    let manifest = gristmill_schemas::container::Manifest {
        entries: entries.into(),
    };
    let container = gristmill_tests::grains::container(
        std::slice::from_ref(&newer.blob),
        Default::default(),
        Some(&manifest),
    );
    let files: [(&str, &[u8]); 1] = [("claims.mg", &container)];

    let broken = BrokenIndex::of(&lake);
    assert!(run(&mut lake).await.is_err());
    assert!(lake.try_ingest(&files, &Default::default()).await.is_err());
    drop(broken);
    lake.lake.refresh().await.unwrap();
    let events = lake
        .rows("SELECT event FROM state ORDER BY 1")
        .await
        .concat();
    assert_eq!(
        events,
        ["noted", "verification"],
        "state is committed first"
    );
    assert_eq!(lake.value(CLOSED_BY_ABSENT).await, "0");
    assert_eq!(lake.value("SELECT count(*) FROM current").await, "2");

    run(&mut lake).await.unwrap();
    lake.ingest(&files).await;
    assert_eq!(lake.value(CLOSED_BY_ABSENT).await, "0");
    let current = addresses(&lake, "SELECT content_address FROM current").await;
    assert_eq!(
        current,
        [new.address.to_string(), newer.address.to_string()].into()
    );
    assert_eq!(
        lake.value("SELECT count(*) FROM lifecycle WHERE verification_status = 'verified'")
            .await,
        "1"
    );
    // Each event is committed once, and the source is known.
    let events = lake
        .rows("SELECT event FROM state ORDER BY 1")
        .await
        .concat();
    assert_eq!(events, ["noted", "superseded", "verification"]);
    assert_eq!(lake.ingest(&files).await.known, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn current_is_a_row_selection_of_the_scan_and_its_count_needs_no_scan() {
    for masks in [Masks::WithTail, Masks::None] {
        let mut histories = Histories::new(5).await;
        histories.set_masks(masks).await;
        let folds = histories.folds(i64::MAX);
        let current = histories.current(&folds, i64::MAX).len();
        let lake = &histories.lake;
        let explain = async |query: &str| {
            let rows = lake.rows(&format!("EXPLAIN {query}")).await;
            rows.concat().join("\n")
        };
        let plan = explain("SELECT type, count(*) FROM current GROUP BY 1").await;
        assert!(
            plan.contains("lifecycle=mask") && !plan.contains("Join"),
            "{plan}"
        );
        let plan = explain("SELECT count(*) FROM current").await;
        assert!(!plan.contains("DataSourceExec"), "{plan}");
        let count = "SELECT count(*) FROM current";
        assert_eq!(lake.value(count).await, current.to_string(), "{masks:?}");
        let filtered = "SELECT count(*) FROM current WHERE subject = 's7'";
        let expected = "SELECT count(*) FROM grains WHERE subject = 's7' AND content_address IN \
                        (SELECT content_address FROM current)";
        assert_eq!(lake.value(filtered).await, lake.value(expected).await);
    }
}
