//! Disclosed copies (§10.4): where the original is in the lake, they aren't current, whichever came
//! first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use chrono::{SecondsFormat, Utc};
use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::index::lifecycle_mask::{LIFECYCLE_FILE, refresh_masks};
use gristmill_engine::keys::{FileKeys, Keyring};
use gristmill_engine::lake::{Lake, Segment};
use gristmill_engine::progress::WorkProgress;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::Session;
use gristmill_queries::sql::{Confinement, SqlOptions, confined_context, lake_context};
use gristmill_schemas::grain::{EncodeOptions, EncodedGrain, Field, elide};
use gristmill_schemas::json::Json;
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::lake::{TestLake, patient_session};
use gristmill_tests::sandbox::Sandbox;

/// An instant after all grains were created.
const AFTER: &str = "2026-06-01T00:00:00Z";

/// A grain, and its disclosed copy without the person.
struct Pair {
    original: EncodedGrain,
    copy: EncodedGrain,
}

impl Pair {
    fn new(subject: &str) -> Pair {
        let text = format!(
            r#"{{"type": "belief", "subject": "{subject}", "relation": "works_at", "object": "acme",
                "confidence": 0.9, "created_at": 1767225600000, "user_id": "kim-4004"}}"#
        );
        let original = grain(&text);
        let json = Json::parse(text.as_bytes()).unwrap();
        let options = EncodeOptions::default();
        let copy = elide(&json, &original.address, &[Field::UserId], options).unwrap();
        Pair { original, copy }
    }

    fn addresses(&self) -> [String; 2] {
        [&self.original, &self.copy].map(|grain| grain.address.to_string())
    }

    /// Checks that the original is current and the copy isn't, by every command.
    async fn check(&self, lake: &TestLake, case: &str) {
        let [original, copy] = self.addresses();
        let now = Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true);
        let as_of = format!("as_of('{AFTER}')");
        for relation in ["current", as_of.as_str(), &format!("known_at('{now}')")] {
            let found = addresses_in(lake, relation).await;
            assert!(found.contains(&original), "{case}: {relation}");
            assert!(!found.contains(&copy), "{case}: {relation}");
        }
        let closed = format!(
            "SELECT superseded_by FROM lifecycle WHERE content_address = '{copy}'
             AND system_valid_to = '2026-01-01T00:00:00Z'"
        );
        assert_eq!(lake.value(&closed).await, original, "{case}");
        let folded = lake.lake.lifecycles(|_| true).await.unwrap();
        assert_eq!(
            folded[&self.copy.address].superseded_by(),
            Some(self.original.address),
            "{case}"
        );
        assert!(!folded.contains_key(&self.original.address), "{case}");
        let recalled = recalled(lake).await;
        assert!(recalled.contains(&original), "{case}");
        assert!(!recalled.contains(&copy), "{case}");
    }

    /// Checks that the copy is current.
    async fn check_alone(&self, lake: &TestLake) {
        let [_, copy] = self.addresses();
        assert!(addresses_in(lake, "current").await.contains(&copy));
        assert!(recalled(lake).await.contains(&copy));
        let folded = lake.lake.lifecycles(|_| true).await.unwrap();
        assert!(!folded.contains_key(&self.copy.address));
    }
}

async fn addresses_in(lake: &TestLake, relation: &str) -> BTreeSet<String> {
    let query = format!("SELECT content_address FROM {relation}");
    lake.rows(&query).await.into_iter().flatten().collect()
}

/// Returns the answer of CAL with all beliefs.
async fn recalled(lake: &TestLake) -> String {
    recalled_in(lake, None).await
}

/// Returns the answer of CAL with all beliefs of `namespace`, or of the lake.
async fn recalled_in(lake: &TestLake, namespace: Option<&str>) -> String {
    let session = Session {
        namespace: namespace.map(str::to_owned),
        ..patient_session(1_800_000_000_000)
    };
    let executor = lake.executor(session).await;
    let (bindings, options) = (Bindings::new(), Options::default());
    let response = executor.run_text(b"RECALL beliefs LIMIT 100", &bindings, options);
    response.await.unwrap().to_json().to_string()
}

async fn new_lake(encrypted: bool) -> TestLake {
    let mut lake = TestLake::new().await;
    if encrypted {
        let path = lake.folder().join("keyring.json");
        let keyring = Keyring::open_or_create(&path, "a passphrase for tests").unwrap();
        let keys = Box::new(FileKeys::next_to(keyring).unwrap());
        lake.lake.enable_encryption(keys).await.unwrap();
    }
    lake
}

async fn ingest(lake: &mut TestLake, name: &str, grains: &[&EncodedGrain]) {
    let blobs: Vec<Vec<u8>> = grains.iter().map(|grain| grain.blob.clone()).collect();
    let report = lake.ingest(&[(name, &frames(&blobs))]).await;
    assert_eq!(
        (report.grains_written, report.rejected),
        (grains.len() as u64, 0)
    );
}

/// Removes the lifecycle masks, and opens the lake again.
async fn remove_masks(lake: &mut TestLake) {
    let folder = lake.folder().join("lake");
    let mask = |segment: &Segment| folder.join(segment.id.sidecar(LIFECYCLE_FILE).to_string());
    for segment in lake.lake.segments().unwrap() {
        std::fs::remove_file(mask(&segment)).unwrap();
    }
    lake.lake = Lake::open(&folder.display().to_string()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_with_its_original_is_not_current_in_either_order() {
    let [first, second, third] = ["ada", "bob", "cyd"].map(Pair::new);
    for encrypted in [false, true] {
        let mut lake = new_lake(encrypted).await;
        ingest(&mut lake, "a.frames", &[&first.original, &second.copy]).await;
        second.check_alone(&lake).await;
        ingest(&mut lake, "b.frames", &[&first.copy, &second.original]).await;
        ingest(&mut lake, "c.frames", &[&third.copy, &third.original]).await;
        let pairs = [&first, &second, &third];
        for pair in pairs {
            pair.check(&lake, "masks with a tail").await;
        }
        if !encrypted {
            refresh_masks(&lake.lake, true).await.unwrap();
            for pair in pairs {
                pair.check(&lake, "complete masks").await;
            }
            remove_masks(&mut lake).await;
        }
        for pair in pairs {
            pair.check(&lake, "no masks").await;
        }
        let options = CompactOptions {
            target_rows: 1_000,
            ..CompactOptions::default()
        };
        let progress = Arc::new(WorkProgress::default());
        compact(&mut lake.lake, &options, progress).await.unwrap();
        assert_eq!(lake.lake.segments().unwrap().len(), 1);
        for pair in pairs {
            pair.check(&lake, "compacted").await;
        }
    }
}

/// Returns the current grains of a session of SQL that sees one namespace.
async fn current_in(lake: &TestLake, namespace: &str) -> BTreeSet<String> {
    let options = SqlOptions::default();
    let whole = lake_context(&lake.lake, &options).await.unwrap();
    let confinement = Confinement {
        namespace: Some(namespace.to_owned()),
        user: None,
    };
    let session = confined_context(&whole, &options, &confinement);
    let current = session.await.unwrap().table("current").await.unwrap();
    let addresses = current.select_columns(&["content_address"]).unwrap();
    let batches = addresses.collect().await.unwrap();
    let columns = batches.iter().map(|batch| batch.column(0).clone());
    let texts = columns.map(|column| arrow::compute::cast(&column, &DataType::Utf8).unwrap());
    texts
        .flat_map(|texts| {
            let texts = texts.as_string::<i32>().iter().flatten();
            texts.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// Returns a belief in `namespace`, and a disclosed copy of it that states to be in another.
fn copy_in_another_namespace(namespace: &str, other: &str) -> Pair {
    let text = |namespace: &str| {
        format!(
            r#"{{"type": "belief", "subject": "dan", "relation": "works_at", "object": "acme", "confidence": 0.9,
                "created_at": 1767225600000, "user_id": "kim-4004", "namespace": "{namespace}"}}"#
        )
    };
    let (original, moved) = (grain(&text(namespace)), text(other));
    let json = Json::parse(moved.as_bytes()).unwrap();
    let options = EncodeOptions::default();
    let copy = elide(&json, &original.address, &[Field::UserId], options).unwrap();
    Pair { original, copy }
}

/// Returns a belief in a namespace, and its disclosed copy without the fields `hidden`.
fn copy_hiding(hidden: &[Field]) -> Pair {
    let text = r#"{"type": "belief", "subject": "eve", "relation": "works_at", "object": "acme", "confidence": 0.9,
        "created_at": 1767225600000, "user_id": "kim-4004", "namespace": "hr"}"#;
    let original = grain(text);
    let json = Json::parse(text.as_bytes()).unwrap();
    let options = EncodeOptions::default();
    let copy = elide(&json, &original.address, hidden, options).unwrap();
    Pair { original, copy }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_original_in_another_namespace_closes_no_copy_in_sql_or_cal() {
    let apart = copy_in_another_namespace("hr", "sales");
    let [original, copy] = apart.addresses();
    let same_namespace = [
        copy_hiding(&[Field::UserId]),
        copy_hiding(&[Field::Namespace]),
    ];
    for encrypted in [false, true] {
        for copies_first in [false, true] {
            let mut lake = new_lake(encrypted).await;
            // Both pairs of `same_namespace` have the same original.
            let originals = [&apart.original, &same_namespace[0].original];
            let copies = [
                &apart.copy,
                &same_namespace[0].copy,
                &same_namespace[1].copy,
            ];
            let (first, second) = match copies_first {
                true => (&copies[..], &originals[..]),
                false => (&originals[..], &copies[..]),
            };
            ingest(&mut lake, "a.frames", first).await;
            ingest(&mut lake, "b.frames", second).await;
            for masks in ["masks with a tail", "complete masks", "no masks"] {
                match masks {
                    "complete masks" if !encrypted => {
                        refresh_masks(&lake.lake, true).await.unwrap();
                    }
                    "no masks" if !encrypted => remove_masks(&mut lake).await,
                    _ => (),
                }
                apart.check_alone(&lake).await;
                assert_eq!(
                    current_in(&lake, "sales").await,
                    BTreeSet::from([copy.clone()])
                );
                assert!(recalled_in(&lake, Some("sales")).await.contains(&copy));
                for pair in &same_namespace {
                    pair.check(&lake, masks).await;
                }
                let [known, hidden] = same_namespace.each_ref().map(Pair::addresses);
                let expected = BTreeSet::from([original.clone(), known[0].clone()]);
                assert_eq!(current_in(&lake, "hr").await, expected);
                let recalled = recalled_in(&lake, Some("hr")).await;
                assert!(recalled.contains(&original) && recalled.contains(&known[0]));
                assert!(!recalled.contains(&known[1]) && !recalled.contains(&hidden[1]));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lake_knew_a_copy_as_current_until_its_original_came() {
    for encrypted in [false, true] {
        let mut lake = new_lake(encrypted).await;
        let pair = Pair::new("ada");
        ingest(&mut lake, "a.frames", &[&pair.copy]).await;
        std::thread::sleep(Duration::from_millis(5));
        let between = Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true);
        std::thread::sleep(Duration::from_millis(5));
        ingest(&mut lake, "b.frames", &[&pair.original]).await;
        let [_, copy] = pair.addresses();
        let known = addresses_in(&lake, &format!("known_at('{between}')")).await;
        assert_eq!(known, BTreeSet::from([copy]));
        pair.check(&lake, "both").await;
    }
}

/// Writes `grains` to the file `name` and ingests it into `lake`.
fn ingest_file(sandbox: &Sandbox, lake: &str, name: &str, grains: &[&EncodedGrain]) {
    let blobs: Vec<Vec<u8>> = grains.iter().map(|grain| grain.blob.clone()).collect();
    std::fs::write(sandbox.path(name), frames(&blobs)).unwrap();
    sandbox.run(lake, 0, &["ingest", name]);
}

/// Returns the addresses in `current`.
fn current(sandbox: &Sandbox, lake: &str) -> BTreeSet<String> {
    sandbox.addresses(
        lake,
        "content_address IN (SELECT content_address FROM current)",
    )
}

/// Exports grains of the lake to `name`.
fn export(sandbox: &Sandbox, name: &str, options: &[&str]) {
    let output = sandbox.output("lake", &[&["export", name], options].concat());
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_copy_that_is_exported_alone_is_current_elsewhere() {
    let sandbox = Sandbox::new();
    let pair = Pair::new("ada");
    let [original, copy] = pair.addresses();
    ingest_file(&sandbox, "lake", "a.frames", &[&pair.original, &pair.copy]);
    let alone = ["--where", "_disclosure_of IS NOT NULL"];
    for name in ["copy.mg", "copy.jsonl"] {
        export(&sandbox, name, &alone);
        let lake = format!("from-{name}");
        sandbox.run(&lake, 0, &["ingest", name]);
        assert_eq!(current(&sandbox, &lake), BTreeSet::from([copy.clone()]));
        ingest_file(&sandbox, &lake, "b.frames", &[&pair.original]);
        assert_eq!(current(&sandbox, &lake), BTreeSet::from([original.clone()]));
    }
    let current_only = "content_address IN (SELECT content_address FROM current)";
    export(&sandbox, "current.mg", &["--where", current_only]);
    sandbox.run("other", 0, &["ingest", "current.mg"]);
    assert_eq!(
        sandbox.addresses("other", "true"),
        BTreeSet::from([original])
    );
}

#[test]
fn a_copy_of_an_erased_original_is_erased_with_it_or_stays_closed() {
    let pair = copy_hiding(&[Field::UserId]);
    let [original, copy] = pair.addresses();
    for (encrypted, derived) in [(false, false), (false, true), (true, false)] {
        let sandbox = Sandbox::new();
        sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
        ingest_file(&sandbox, "lake", "a.frames", &[&pair.original, &pair.copy]);
        if encrypted {
            sandbox.run("lake", 0, &["keys", "encrypt", "--exclusive"]);
        }
        let mut erase = vec!["erase", "--user", "kim-4004", "--execute", "--exclusive"];
        erase.extend(derived.then_some("--derived"));
        sandbox.run("lake", 0, &erase);
        let left = sandbox.addresses("lake", "true");
        let expected = if derived {
            BTreeSet::new()
        } else {
            BTreeSet::from([copy.clone()])
        };
        assert_eq!(left, expected);
        assert!(!left.contains(&original));
        assert_eq!(current(&sandbox, "lake"), BTreeSet::new());
        sandbox.run("lake", 0, &["verify", "--sidecars"]);
    }
}
