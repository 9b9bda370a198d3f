//! How many requests the commands make on a lake of 100 segments in an object store, each in a
//! process that has nothing cached, and that the model of `docs/scale.md` holds. The store is in
//! memory; requests are counted as for any other.
//!
//! The environment variable `GRISTMILL_SEGMENTS` sets another number of segments, such as 1000.

use std::io::Cursor;
use std::sync::Arc;

use gristmill_connectors::source::discover;
use gristmill_connectors::storage::RequestCounts;
use gristmill_engine::apply::{ApplyOptions, apply};
use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::ingest::{IngestOptions, ingest};
use gristmill_engine::lake::Lake;
use gristmill_engine::progress::WorkProgress;
use gristmill_engine::verify::{Subset, VerifyOptions, VerifyScope, verify_lake};
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::{Executor, Session};
use gristmill_queries::sql::{
    SearchFilter, SearchMode, SearchRequest, SqlOptions, lake_context, search,
};
use gristmill_schemas::address::ContentAddress;
use gristmill_tests::grains::{belief, frames};
use gristmill_tests::hooked_store::{Bucket, BucketClient};
use object_store::ObjectStoreExt;
use object_store::path::Path;

/// Grains of each segment.
const GRAINS: usize = 50;

/// Returns the number of segments of the lake.
fn segments() -> usize {
    std::env::var("GRISTMILL_SEGMENTS")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(100)
}

/// Ingests `GRAINS` grains that no other night has.
async fn ingest_night(client: &BucketClient, night: usize) {
    let mut lake = Lake::open_or_create_at(client.lake()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let numbers = night * GRAINS + 1..=(night + 1) * GRAINS;
    let blobs: Vec<_> = numbers.map(belief).collect();
    let path = folder.path().join("grains.mgs");
    std::fs::write(&path, frames(&blobs)).unwrap();
    let sources = discover(&[path.display().to_string()]).await.unwrap();
    let options = IngestOptions::default();
    ingest(&mut lake, sources, &options, Arc::default())
        .await
        .unwrap();
}

async fn bucket_of(nights: usize) -> Bucket {
    let bucket = Bucket::default();
    for night in 0..nights {
        ingest_night(&bucket.client(), night).await;
    }
    bucket
}

fn shown(client: &BucketClient, work: &str) -> RequestCounts {
    if std::env::var_os("GRISTMILL_SHOW_REQUESTS").is_some() {
        client.calls().iter().for_each(|call| eprintln!("  {call}"));
    }
    let counts = client.counts();
    eprintln!("{work}: {} requests, {counts:?}", counts.total());
    counts
}

async fn recall(bucket: &Bucket, subject: &str) -> RequestCounts {
    let client = bucket.client();
    let lake = Lake::open_for_queries_at(client.lake()).await.unwrap();
    shown(&client, "open for queries");
    let context = lake_context(&lake, &SqlOptions::default()).await.unwrap();
    let executor = Executor::new(context, Session::at(1_800_000_000_000));
    let statement = format!("RECALL beliefs WHERE subject = \"{subject}\"");
    let options = Options::default();
    let answered = executor
        .run_text(statement.as_bytes(), &Bindings::new(), options)
        .await
        .unwrap();
    assert_eq!(answered.answer.results.len(), 1, "{subject}");
    shown(&client, "RECALL by subject")
}

async fn sql_count(bucket: &Bucket) -> RequestCounts {
    let client = bucket.client();
    let lake = Lake::open_for_queries_at(client.lake()).await.unwrap();
    let context = lake_context(&lake, &SqlOptions::default()).await.unwrap();
    let counted = context.sql("SELECT count(*) FROM grains").await.unwrap();
    counted.collect().await.unwrap();
    shown(&client, "SQL count")
}

async fn search_text(bucket: &Bucket) -> RequestCounts {
    let client = bucket.client();
    let lake = Lake::open_for_queries_at(client.lake()).await.unwrap();
    let context = lake_context(&lake, &SqlOptions::default()).await.unwrap();
    let request = SearchRequest {
        text: "99",
        limit: 10,
        mode: SearchMode::Text,
        filter: &SearchFilter::default(),
    };
    search(&context, &lake, request).await.unwrap();
    shown(&client, "search")
}

async fn ingest_one(bucket: &Bucket, night: usize) -> RequestCounts {
    let client = bucket.client();
    ingest_night(&client, night).await;
    shown(&client, "ingest")
}

async fn verify_all(bucket: &Bucket) -> RequestCounts {
    let client = bucket.client();
    let lake = Lake::open_at(client.lake()).await.unwrap();
    let (scope, options) = (VerifyScope::default(), VerifyOptions::default());
    verify_lake(&lake, scope, &options, Arc::default())
        .await
        .unwrap();
    shown(&client, "verify")
}

async fn compact_all(bucket: &Bucket) -> RequestCounts {
    let client = bucket.client();
    let mut lake = Lake::open_at(client.lake()).await.unwrap();
    let options = CompactOptions::default();
    compact(&mut lake, &options, Arc::new(WorkProgress::default()))
        .await
        .unwrap();
    shown(&client, "compact")
}

/// Supersedes the grain `number` by another.
async fn supersede(bucket: &Bucket, number: usize) {
    let old = ContentAddress::of(&belief(number));
    let line = format!(
        r#"{{"op":"supersede","address":"{old}","grain":{{"type":"belief","subject":"subject {number}","relation":"is","object":"gone","confidence":0.5,"created_at":{number}}}}}"#
    );
    let client = bucket.client();
    let mut lake = Lake::open_at(client.lake()).await.unwrap();
    let (mut text, options) = (Cursor::new(line), ApplyOptions::default());
    let report = apply(&mut lake, &mut text, &options, &mut |_| Ok(())).await;
    assert_eq!(report.unwrap().done, 1);
    shown(&client, "apply");
}

/// Requests of a command by the number of segments: a line, as `docs/scale.md` states it.
struct Model {
    command: &'static str,
    least: f64,
    per_segment: f64,
}

const SEARCH: Model = Model {
    command: "search",
    least: 12.0,
    per_segment: 1.0,
};

const VERIFY: Model = Model {
    command: "verify",
    least: 74.0,
    per_segment: 15.9,
};

const COMPACT: Model = Model {
    command: "compact",
    least: 151.0,
    per_segment: 4.4,
};

/// With the files that a checkpoint every few commits adds.
const INGEST: Model = Model {
    command: "ingest",
    least: 200.0,
    per_segment: 0.85,
};

impl Model {
    /// Checks that a command made at most a tenth more requests than on the line.
    fn check(&self, counts: &RequestCounts, segments: usize) {
        let expected = self.least + self.per_segment * segments as f64;
        let made = counts.total() as f64;
        assert!(
            made <= expected * 1.1,
            "{}: {made} requests for {segments} segments, expected {expected}",
            self.command
        );
    }
}

/// Requests of a RECALL by subject that has nothing cached, at most: `heads.json`,
/// `encryption.json`, the logs of two tables (hint, listing, checkpoint, up to three commits), the
/// subject filter, and lifecycle, hexastore, addresses and rows of one segment or two. Of a
/// thousand segments the filter may name one too many, which costs four more.
fn most_recall_requests(segments: usize) -> u64 {
    20 + segments as u64 / 250
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recall_by_subject_makes_few_requests_whatever_the_number_of_segments() {
    let segments = segments();
    let bucket = bucket_of(segments).await;
    sql_count(&bucket).await;
    SEARCH.check(&search_text(&bucket).await, segments);
    VERIFY.check(&verify_all(&bucket).await, segments);
    // The log has none to three commits after its checkpoint.
    for night in segments..segments + 4 {
        INGEST.check(&ingest_one(&bucket, night).await, night);
        for number in [night, night * GRAINS + 1] {
            let counts = recall(&bucket, &format!("subject {number}")).await;
            let most = most_recall_requests(segments);
            assert!(counts.total() <= most, "night {night}: {counts:?}");
        }
    }
    let superseded = segments * GRAINS / 2;
    supersede(&bucket, superseded).await;
    for number in [superseded, 99] {
        let counts = recall(&bucket, &format!("subject {number}")).await;
        let most = most_recall_requests(segments);
        assert!(counts.total() <= most, "with events: {counts:?}");
    }
    COMPACT.check(&compact_all(&bucket).await, segments + 4);
    recall(&bucket, "subject 99").await;
}

/// Checks one row group from where the last check ended. Returns the number of requests, and the
/// files with problems.
async fn check_one_row_group(bucket: &Bucket) -> (u64, Vec<String>) {
    let client = bucket.client();
    let lake = Lake::open_at(client.lake()).await.unwrap();
    let scope = VerifyScope {
        subset: Some(Subset::Bytes(1)),
        max_duration: None,
    };
    let options = VerifyOptions::default();
    let report = verify_lake(&lake, scope, &options, Arc::default())
        .await
        .unwrap();
    assert_eq!(report.coverage.unwrap().row_groups, 1);
    let requests = shown(&client, "verify of a row group").total();
    let problems = report.problems.into_iter();
    (requests, problems.map(|problem| problem.source).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_notes_an_object_that_no_log_names() {
    let bucket = bucket_of(2).await;
    let lake = Lake::open_at(bucket.client().lake()).await.unwrap();
    let path = Path::from("state/part-left.parquet");
    let store = lake.location().store();
    store.put(&path, "rows".into()).await.unwrap();
    let (scope, options) = (VerifyScope::default(), VerifyOptions::default());
    let verified = verify_lake(&lake, scope, &options, Arc::default()).await;
    let report = verified.unwrap();
    let noted = report.unreferenced.unwrap();
    assert_eq!((report.bad, noted.files, noted.bytes), (0, 1, 4));
    assert_eq!(noted.first, [path.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_of_any_part_finds_a_truncated_object_of_another_part() {
    let bucket = bucket_of(5).await;
    let (requests, problems) = check_one_row_group(&bucket).await;
    assert_eq!(problems, [""; 0]);
    let lake = Lake::open_at(bucket.client().lake()).await.unwrap();
    let last = lake.segments().unwrap().pop().unwrap().file.name;
    let (store, path) = (
        lake.location().store(),
        Path::from(format!("grains/{last}")),
    );
    let bytes = store.get(&path).await.unwrap().bytes().await.unwrap();
    let half = bytes.slice(..bytes.len() / 2);
    store.put(&path, half.into()).await.unwrap();
    let (again, problems) = check_one_row_group(&bucket).await;
    assert_eq!(problems, [format!("grains/{last}")]);
    assert!(again <= requests + 2, "{again} requests, {requests} before");
    store.delete(&path).await.unwrap();
    assert_eq!(
        check_one_row_group(&bucket).await.1,
        [format!("grains/{last}")]
    );
}
