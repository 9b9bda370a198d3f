//! Commands that write to a lake in an object store whose requests fail: after the command is run
//! again, nothing is lost, duplicated or half done.
//!
//! A run tries some faults; with the variable `GRISTMILL_ALL_FAULTS` it tries every `n` from 1 to
//! 50, more single faults, and more rounds of writers.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray};
use gristmill_connectors::source::discover;
use gristmill_engine::apply::{ApplyOptions, OperationOutcome, apply};
use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::erase::{ErasureOptions, SubjectRequest, erase};
use gristmill_engine::error::EngineError;
use gristmill_engine::gc::{GcOptions, collect_garbage};
use gristmill_engine::hold::{HoldRequest, HoldSelection, place};
use gristmill_engine::index::{IndexKinds, reindex};
use gristmill_engine::ingest::{IngestOptions, ingest};
use gristmill_engine::lake::{Change, DataFile, Lake, Table};
use gristmill_engine::progress::WorkProgress;
use gristmill_engine::verify::{VerifyOptions, VerifyScope, verify_lake};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::lifecycle::HoldTerms;
use gristmill_tests::erasures::erasure_options;
use gristmill_tests::grains::{belief, frames};
use gristmill_tests::hooked_store::{Bucket, BucketClient, Failing, Faults};
use object_store::{ObjectMeta, ObjectStoreExt};

/// A command that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Ingest,
    Apply,
    Compact,
    Erase,
    Reindex,
    Gc,
    Hold,
}

const JOBS: [Job; 7] = [
    Job::Ingest,
    Job::Apply,
    Job::Compact,
    Job::Erase,
    Job::Reindex,
    Job::Gc,
    Job::Hold,
];

/// A folder with what the commands read.
struct Inputs(tempfile::TempDir);

impl Inputs {
    fn new() -> Inputs {
        Inputs(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file of the grains with these numbers.
    fn night(&self, numbers: std::ops::Range<usize>) -> String {
        let path = self.folder().join(format!("{}.mgs", numbers.start));
        let blobs: Vec<_> = numbers.map(belief).collect();
        std::fs::write(&path, frames(&blobs)).unwrap();
        path.display().to_string()
    }

    fn erasure(&self) -> ErasureOptions {
        erasure_options(&self.folder().join("keyring.json"))
    }
}

fn person(name: &str) -> SubjectRequest {
    SubjectRequest::of_person([name])
}

/// A lake of three segments, one of which has a superseding grain.
async fn base(inputs: &Inputs) -> Bucket {
    let bucket = Bucket::default();
    for first in [1, 41] {
        let night = inputs.night(first..first + 40);
        ingest_path(&bucket.client(), &night).await.unwrap();
    }
    let operation = operation_line(2);
    run_operations(&bucket.client(), &[operation])
        .await
        .unwrap();
    bucket
}

async fn ingest_path(client: &BucketClient, path: &str) -> Result<(), EngineError> {
    let mut lake = Lake::open_or_create_at(client.lake()).await?;
    let sources = discover(&[path.to_owned()]).await.unwrap();
    let options = IngestOptions::default();
    ingest(&mut lake, sources, &options, Arc::default())
        .await
        .map(drop)
}

/// Returns the operation that supersedes the grain `number` by another.
fn operation_line(number: usize) -> String {
    let old = ContentAddress::of(&belief(number));
    let new = format!(
        r#"{{"type":"belief","subject":"subject {number}","relation":"is","object":"seen again","confidence":0.5,"created_at":{number}}}"#
    );
    format!(r#"{{"op":"supersede","address":"{old}","grain":{new}}}"#)
}

async fn run_operations(client: &BucketClient, lines: &[String]) -> Result<(), EngineError> {
    let mut lake = Lake::open_at(client.lake()).await?;
    let mut text = Cursor::new(lines.join("\n"));
    let mut keep = |_: &OperationOutcome| Ok(());
    let report = apply(&mut lake, &mut text, &ApplyOptions::default(), &mut keep).await?;
    assert_eq!(report.failed + report.denied, 0, "{report:?}");
    Ok(())
}

async fn run(job: Job, client: &BucketClient, inputs: &Inputs) -> Result<(), EngineError> {
    match job {
        Job::Ingest => ingest_path(client, &inputs.night(81..121)).await,
        Job::Apply => run_operations(client, &[operation_line(5), operation_line(50)]).await,
        Job::Compact => {
            let mut lake = Lake::open_at(client.lake()).await?;
            let options = CompactOptions::default();
            compact(&mut lake, &options, Arc::new(WorkProgress::default()))
                .await
                .map(drop)
        }
        Job::Erase => {
            let mut lake = Lake::open_at(client.lake()).await?;
            let erased = erase(&mut lake, &person("subject 7"), &inputs.erasure()).await?;
            assert!(erased.proven, "{:?}", erased.proofs);
            Ok(())
        }
        Job::Reindex => {
            let lake = Lake::open_at(client.lake()).await?;
            reindex(&lake, IndexKinds::ALL, true).await.map(drop)
        }
        Job::Gc => {
            let mut lake = Lake::open_at(client.lake()).await?;
            let options = GcOptions {
                older_than: Duration::ZERO,
                retention: Duration::ZERO,
                dry_run: false,
            };
            collect_garbage(&mut lake, &options).await.map(drop)
        }
        Job::Hold => {
            let mut lake = Lake::open_at(client.lake()).await?;
            let hold = HoldRequest {
                terms: HoldTerms {
                    name: "case-1".parse().unwrap(),
                    until: None,
                },
                authority: "court".to_owned(),
                reason: "a case".to_owned(),
                selection: HoldSelection {
                    request: person("subject 9"),
                    namespaces: Vec::new(),
                },
            };
            place(&mut lake, &hold, &ApplyOptions::default(), 2)
                .await
                .map(drop)
        }
    }
}

/// What a lake contains: the rows that people see, each with how often it is there.
#[derive(Debug)]
struct Content {
    grains: BTreeMap<String, usize>,
    events: BTreeMap<String, usize>,
    sources: BTreeMap<String, usize>,
}

impl Content {
    /// Checks that this equals `expected`, and shows the difference if it doesn't.
    fn check(&self, expected: &Content, what: &str) {
        for (found, expected) in [
            (&self.grains, &expected.grains),
            (&self.events, &expected.events),
            (&self.sources, &expected.sources),
        ] {
            let more = found
                .iter()
                .filter(|(row, count)| expected.get(*row) != Some(count));
            let less = expected
                .iter()
                .filter(|(row, count)| found.get(*row) != Some(count));
            let (more, less): (Vec<_>, Vec<_>) = (more.collect(), less.collect());
            assert!(
                more.is_empty() && less.is_empty(),
                "{what}: {more:?} instead of {less:?}"
            );
        }
    }
}

async fn counted(table: &Table, columns: &[&str]) -> BTreeMap<String, usize> {
    let mut rows = BTreeMap::new();
    for batch in table.read_columns(columns).await.unwrap() {
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayRef| {
                let text = column.as_string::<i32>();
                text.is_valid(row).then(|| text.value(row).to_owned())
            };
            let cells: Vec<_> = batch.columns().iter().map(cell).collect();
            *rows.entry(format!("{cells:?}")).or_default() += 1;
        }
    }
    rows
}

/// Reads and verifies the lake in `bucket`.
async fn content(bucket: &Bucket, what: &str) -> Content {
    let lake = Lake::open_at(bucket.client().lake()).await.unwrap();
    let (scope, options) = (VerifyScope::default(), VerifyOptions::default());
    let verified = verify_lake(&lake, scope, &options, Arc::default())
        .await
        .unwrap();
    assert_eq!(verified.bad, 0, "{what}: {:?}", verified.problems);
    let mut sources = counted(lake.sources.as_ref().unwrap(), &["source_id", "outcome"]).await;
    // A run that is repeated after its commits records that the lake has its sources.
    sources.retain(|source, _| !source.contains("known"));
    Content {
        grains: counted(&lake.grains, &["content_address"]).await,
        events: counted(&lake.state, &["content_address", "event", "value"]).await,
        sources,
    }
}

fn tries_all() -> bool {
    std::env::var_os("GRISTMILL_ALL_FAULTS").is_some()
}

/// Returns the faults to try on a job that makes `requests` requests.
fn faults(requests: u64) -> Vec<Faults> {
    let every: Vec<u64> = match tries_all() {
        true => (1..=50).collect(),
        false => vec![1, 3, 10, 50],
    };
    let single = if tries_all() { 60 } else { 8 };
    let periodic = every.into_iter().map(|every| (every, every));
    let once = (1..=single).map(|number| (requests * number / single, u64::MAX));
    let both = periodic.chain(once).filter(|(first, _)| *first > 0);
    both.flat_map(|(first, every)| {
        [Failing::Before, Failing::After].map(|when| Faults { first, every, when })
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_failed_anywhere_is_completed_by_running_it_again() {
    let inputs = Inputs::new();
    let base = base(&inputs).await;
    for job in JOBS {
        let sound = base.fork();
        let client = sound.client();
        run(job, &client, &inputs).await.unwrap();
        let expected = content(&sound, "without faults").await;
        let requests = client.calls().len() as u64;
        let (mut failed, mut tried) = (0, 0);
        for faults in faults(requests) {
            let what = format!("{job:?} with {faults:?} of {requests}");
            let bucket = base.fork();
            if let Err(error) = run(job, &bucket.failing(faults), &inputs).await {
                failed += 1;
                let again = run(job, &bucket.client(), &inputs).await;
                assert!(again.is_ok(), "{what}: {error}; again: {again:?}");
            }
            content(&bucket, &what).await.check(&expected, &what);
            tried += 1;
        }
        eprintln!("{job:?}: {requests} requests, {failed} of {tried} runs failed");
        assert!(failed > 0, "{job:?}");
    }
}

/// Ingests `path` as a process of its own would, and again if the lake is busy.
fn write(client: &BucketClient, path: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for _ in 0..20 {
        match runtime.block_on(ingest_path(client, path)) {
            Ok(()) => return,
            Err(error) => assert!(matches!(error, EngineError::Conflict(_)), "{error}"),
        }
    }
    panic!("the lake was busy 20 times");
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_writers_of_one_bucket_lose_and_duplicate_nothing() {
    let rounds = if tries_all() { 50 } else { 2 };
    let (inputs, bucket) = (Inputs::new(), Bucket::default());
    let first = inputs.night(1..2);
    ingest_path(&bucket.client(), &first).await.unwrap();
    for round in 0..rounds {
        let files: Vec<String> = (0..16)
            .map(|writer| 2 + (round * 16 + writer) * 3)
            .map(|first| inputs.night(first..first + 3))
            .collect();
        std::thread::scope(|threads| {
            for path in &files {
                let client = bucket.client();
                threads.spawn(move || write(&client, path));
            }
        });
    }
    let found = content(&bucket, "writers").await;
    assert_eq!(found.grains.len(), 1 + rounds * 16 * 3);
    assert!(found.grains.values().all(|count| *count == 1));
    assert_eq!(found.sources.len(), 1 + rounds * 16);
}

/// Runs `job` as a process of its own would.
fn run_apart(job: Job, bucket: &Bucket, inputs: &Inputs) -> Result<(), EngineError> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(run(job, &bucket.client(), inputs))
    };
    std::thread::scope(|threads| threads.spawn(run).join().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_erasure_run_twice_at_once_is_certified_and_verified_wherever_the_two_meet() {
    let inputs = Arc::new(Inputs::new());
    let base = base(&inputs).await;
    let (alone, mut requests) = (base.fork(), 0);
    let client = alone.client();
    run(Job::Erase, &client, &inputs).await.unwrap();
    for call in client.calls() {
        requests += u64::from(!call.starts_with("LIST"));
    }
    let expected = content(&alone, "alone").await;
    let tries = if tries_all() { requests } else { 10 };
    for (at, is_killed) in (1..=tries).flat_map(|step| {
        let at = requests * step / tries;
        [(at, false), (at, true)]
    }) {
        let what = format!("at request {at} of {requests}, killed: {is_killed}");
        let bucket = base.fork();
        let (second, files, calls) = (bucket.clone(), Arc::clone(&inputs), AtomicU64::new(0));
        // The second process runs from start to end between two requests of the first.
        let first = bucket.reacting(move |_, path| {
            let number = calls.fetch_add(1, Ordering::Relaxed) + 1;
            if number == at {
                run_apart(Job::Erase, &second, &files).unwrap();
            }
            (is_killed && number >= at).then(|| object_store::Error::Generic {
                store: "hooked",
                source: format!("killed before {path}").into(),
            })
        });
        let ended = run(Job::Erase, &first, &inputs).await;
        content(&bucket, &what).await.check(&expected, &what);
        let again = run(Job::Erase, &bucket.client(), &inputs).await;
        assert!(again.is_ok(), "{what}: {ended:?}; again: {again:?}");
        content(&bucket, &what).await.check(&expected, &what);
        let mut lake = Lake::open_at(bucket.client().lake()).await.unwrap();
        let audit = lake.verify_audit(&[]).await.unwrap();
        assert_eq!(audit.bad, 0, "{what}: {audit:?}");
        let left = lake.location().list("erasures").await.unwrap();
        let is_journal = |file: &ObjectMeta| file.location.as_ref().ends_with(".journal");
        assert!(!left.iter().any(is_journal), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_version_an_erasure_took_and_removed_meanwhile_is_made_again() {
    let inputs = Arc::new(Inputs::new());
    let base = base(&inputs).await;
    let in_turn = base.fork();
    for job in [Job::Compact, Job::Erase, Job::Ingest] {
        run(job, &in_turn.client(), &inputs).await.unwrap();
    }
    let expected = content(&in_turn, "in turn").await;
    let bucket = base.fork();
    let (other, files, is_over) = (bucket.clone(), Arc::clone(&inputs), AtomicBool::new(false));
    // The library has listed the log and found this version free.
    let suspended = bucket.reacting(move |kind, path| {
        let is_commit = path.contains("/grains/_delta_log/") && path.ends_with(".json");
        if kind == "PUT" && is_commit && !is_over.swap(true, Ordering::Relaxed) {
            run_apart(Job::Compact, &other, &files).unwrap();
            run_apart(Job::Erase, &other, &files).unwrap();
        }
        None
    });
    run(Job::Ingest, &suspended, &inputs).await.unwrap();
    let found = content(&bucket, "suspended").await;
    found.check(&expected, "suspended");
    let lake = Lake::open_at(bucket.client().lake()).await.unwrap();
    let (scope, options) = (VerifyScope::default(), VerifyOptions::default());
    let report = verify_lake(&lake, scope, &options, Arc::default())
        .await
        .unwrap();
    assert_eq!(report.bad, 0, "{:?}", report.problems);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_happened_is_no_conflict_if_the_heads_are_busy() {
    let inputs = Inputs::new();
    let bucket = base(&inputs).await;
    let busy = bucket.reacting(|kind, path| {
        let is_update = kind == "PUT" && path.ends_with("heads.json");
        is_update.then(|| object_store::Error::Precondition {
            path: path.to_owned(),
            source: "another writer was faster".into(),
        })
    });
    let before = content(&bucket, "before").await;
    ingest_path(&busy, &inputs.night(81..121)).await.unwrap();
    let after = content(&bucket, "after").await;
    assert_eq!(after.grains.len(), before.grains.len() + 40);
    assert!(after.grains.values().all(|count| *count == 1));
    let lake = Lake::open_at(bucket.client().lake()).await.unwrap();
    let entries = counted(&lake.audit, &["action"]).await;
    assert_eq!(entries.get(r#"[Some("ingest")]"#), Some(&3), "{entries:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_a_data_file_that_no_row_depends_on_are_verified_in_an_object_store() {
    let bucket = base(&Inputs::new()).await;
    let lake = Lake::open_at(bucket.client().lake()).await.unwrap();
    let file = lake.segments().unwrap().remove(0).file;
    let path = lake.grains.path_of(&file.name);
    let store = lake.location().store();
    let mut bytes = store
        .get(&path)
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap()
        .to_vec();
    // The magic number at the beginning, which readers don't need.
    bytes[0] ^= 1;
    store.put(&path, bytes.into()).await.unwrap();
    let lake = Lake::open_at(bucket.client().lake()).await.unwrap();
    let (scope, options) = (VerifyScope::default(), VerifyOptions::default());
    let verified = verify_lake(&lake, scope, &options, Arc::default());
    let problems = verified.await.unwrap().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].message.contains("digest"), "{problems:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_which_it_is_unknown_whether_it_happened_is_no_conflict() {
    let bucket = base(&Inputs::new()).await;
    let mut other = Lake::open_at(bucket.client().lake()).await.unwrap();
    let next = other.rejects.version() + 1;
    let next = format!("/rejects/_delta_log/{next:020}.json");
    let is_lost = Arc::new(AtomicBool::new(false));
    let lost = Arc::clone(&is_lost);
    let client = bucket.reacting(move |kind, path| {
        let fails = kind == "GET" && path.ends_with(&next) && lost.load(Ordering::Relaxed);
        fails.then(|| object_store::Error::Generic {
            store: "hooked",
            source: "the answer is lost".into(),
        })
    });
    let mut late = Lake::open_at(client.lake()).await.unwrap();
    let adding = |name: &str| Change {
        added: vec![DataFile::untagged(name, 1, 1)],
        changes_rows: true,
        ..Change::default()
    };
    let first = adding("part-1.parquet");
    other.rejects.commit(first, "ingest", 0).await.unwrap();
    is_lost.store(true, Ordering::Relaxed);
    let second = adding("part-2.parquet");
    let error = late.rejects.commit(second, "ingest", 0).await.unwrap_err();
    assert!(matches!(error, EngineError::Delta { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_entries_an_erasure_removes_while_they_are_read_is_read_again() {
    let (inputs, bucket) = (Inputs::new(), Bucket::default());
    for first in [1, 41] {
        ingest_path(&bucket.client(), &inputs.night(first..first + 40))
            .await
            .unwrap();
    }
    let (other, entries) = (bucket.clone(), AtomicU64::new(0));
    let reader = bucket.reacting(move |kind, path| {
        let is_entry = path.contains("/grains/_delta_log/") && path.ends_with(".json");
        if kind == "GET" && is_entry && entries.fetch_add(1, Ordering::Relaxed) == 0 {
            purge_apart(&other);
        }
        None
    });
    let lake = Lake::open_at(reader.lake()).await.unwrap();
    let newest = Lake::open_at(bucket.client().lake()).await.unwrap();
    assert_eq!(lake.grains.files().unwrap(), newest.grains.files().unwrap());
    let store = bucket.client().lake().store();
    let first = object_store::path::Path::from("grains/_delta_log/00000000000000000000.json");
    assert!(store.head(&first).await.is_err(), "the purge removed it");
    let calls = reader.calls();
    let lists = |call: &&String| *call == "LIST lakes/one/grains/_delta_log";
    assert_eq!(calls.iter().filter(lists).count(), 2, "{calls:?}");
}

/// Purges the lake in `bucket` as a process of its own would.
fn purge_apart(bucket: &Bucket) {
    let purge = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut lake = Lake::open_at(bucket.client().lake()).await.unwrap();
            lake.purge(true).await.unwrap();
        });
    };
    std::thread::scope(|threads| threads.spawn(purge).join().unwrap());
}
