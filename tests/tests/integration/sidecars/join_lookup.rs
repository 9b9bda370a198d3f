//! Joins on addresses: the keys of the small side are looked up, and the answers are those of joins
//! that read everything.

use std::collections::HashMap;
use std::sync::OnceLock;

use gristmill_queries::sql::{Confinement, SessionContext, confined_context};
use proptest::prelude::*;
use tokio::runtime::Runtime;

use super::*;

/// The number of keys of a partition beyond which nothing is looked up.
const MAX_KEYS: usize = 4_096;

/// Joins of `keys`, which have an address and a number, with grains.
const JOINS: [&str; 12] = [
    "SELECT k.n, g.type, g.subject FROM keys k JOIN grains g ON k.a = g.content_address",
    "SELECT k.n, g.type FROM keys k JOIN grains g ON k.a = g.content_address AND g.type = 'event'",
    "SELECT k.n, g.type FROM keys k LEFT JOIN grains g ON k.a = g.content_address",
    "SELECT k.n, g.content_address FROM keys k RIGHT JOIN grains g ON k.a = g.content_address",
    "SELECT k.n, g.content_address FROM keys k FULL JOIN grains g ON k.a = g.content_address",
    "SELECT k.n FROM keys k LEFT SEMI JOIN grains g ON k.a = g.content_address",
    "SELECT k.n FROM keys k LEFT ANTI JOIN grains g ON k.a = g.content_address",
    "SELECT g.content_address FROM keys k RIGHT SEMI JOIN grains g ON k.a = g.content_address",
    "SELECT g.content_address FROM keys k RIGHT ANTI JOIN grains g ON k.a = g.content_address",
    "SELECT k.n FROM keys k WHERE NOT EXISTS
        (SELECT 1 FROM grains g WHERE g.content_address = k.a AND g.type <> 'belief')",
    "SELECT k.n FROM keys k WHERE k.a NOT IN (SELECT content_address FROM grains)",
    "SELECT k.n, g.type FROM keys k JOIN grains g ON k.a IS NOT DISTINCT FROM g.content_address",
];

/// A session over `lake` with two partitions.
async fn session(lake: &Lake, memory: Option<usize>) -> SessionContext {
    let options = SqlOptions {
        threads: 2,
        memory,
        ..SqlOptions::default()
    };
    lake_context(lake, &options).await.unwrap()
}

/// The same without look-ups.
async fn plain_session(lake: &Lake) -> SessionContext {
    let context = session(lake, None).await;
    let state = context.state_ref();
    let mut state = state.write();
    let options = state.config_mut().options_mut();
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    drop(state);
    context
}

/// Returns the rows of `query` as sorted text.
async fn answer(context: &SessionContext, query: &str) -> Vec<String> {
    let batches = context.sql(query).await.unwrap().collect().await;
    let batches = batches.unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let columns = batch.columns().iter();
            let cells = columns.map(|column| array_value_to_string(column, row).unwrap());
            rows.push(cells.collect::<Vec<_>>().join(" | "));
        }
    }
    rows.sort_unstable();
    rows
}

/// Returns `query` over these keys.
fn over(keys: &[Option<String>], query: &str) -> String {
    let rows: Vec<String> = keys
        .iter()
        .enumerate()
        .map(|(number, key)| match key {
            Some(key) => format!("('{key}', {number})"),
            None => format!("(NULL, {number})"),
        })
        .collect();
    let rows = rows.join(", ");
    let keys = format!("SELECT arrow_cast(a, 'Utf8') AS a, n FROM (VALUES {rows}) AS k(a, n)");
    format!("WITH keys AS ({keys}) {query}")
}

/// Returns the addresses of all grains of each segment, by the time of the run that wrote it.
async fn addresses(lake: &Lake) -> HashMap<String, Vec<String>> {
    let mut found = HashMap::new();
    let all = rows(
        lake,
        "SELECT content_address, ingested_at FROM grains ORDER BY 1",
    )
    .await;
    for row in all {
        let (address, run) = row.split_once(" | ").unwrap();
        let of_run: &mut Vec<String> = found.entry(run.to_owned()).or_default();
        of_run.push(address.to_owned());
    }
    found
}

/// A lake of three segments that the cases share, and the addresses of its grains.
struct Shared {
    runtime: Runtime,
    lake: Lake,
    addresses: Vec<String>,
    /// The answers of the plain session come from here.
    plain: SessionContext,
    sessions: Vec<SessionContext>,
    _folder: tempfile::TempDir,
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let runtime = Runtime::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (lake, addresses, plain, sessions) = runtime.block_on(async {
            let lake = lake(folder.path()).await;
            let addresses = addresses(&lake).await.into_values();
            let addresses: Vec<String> = addresses.flatten().collect();
            let plain = plain_session(&lake).await;
            let sessions = vec![
                session(&lake, None).await,
                session(&lake, Some(64 << 20)).await,
            ];
            (lake, addresses, plain, sessions)
        });
        Shared {
            runtime,
            lake,
            addresses,
            plain,
            sessions,
            _folder: folder,
        }
    })
}

/// A key: one of a grain, one of no grain, a text that is no address, or NULL.
fn key() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        8 => any::<prop::sample::Index>()
            .prop_map(|index| Some(index.get(&shared().addresses).clone())),
        2 => any::<u128>().prop_map(|number| Some(format!("{number:064x}"))),
        1 => Just(Some("no address".to_owned())),
        1 => Just(None),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 16, ..ProptestConfig::with_cases(6) })]

    #[test]
    fn joins_of_every_kind_answer_as_without_look_ups(
        keys in proptest::collection::vec(key(), 1..40),
        repeated in 0..3_usize,
    ) {
        let shared = shared();
        let mut all = keys.clone();
        for _ in 0..repeated {
            all.extend_from_slice(&keys);
        }
        for join in JOINS {
            for grains in ["grains g", "current g"] {
                let query = over(&all, &join.replace("grains g", grains));
                let expected = shared.runtime.block_on(answer(&shared.plain, &query));
                for session in &shared.sessions {
                    let found = shared.runtime.block_on(answer(session, &query));
                    prop_assert_eq!(&found, &expected, "{}", query);
                }
            }
        }
    }
}

/// Returns a join of grains with this many keys, of which `known` is one.
fn join_of(count: usize, known: &str) -> String {
    format!(
        "WITH keys AS (SELECT CASE value WHEN 1 THEN '{known}' ELSE lpad(to_hex(value), 64, '0') END
                              AS a FROM generate_series(1, {count}))
         SELECT keys.a FROM keys LEFT SEMI JOIN grains g ON keys.a = g.content_address"
    )
}

#[test]
fn explain_shows_look_ups_up_to_the_bound_of_keys() {
    let shared = shared();
    let known = &shared.addresses[0];
    // With one partition, it has all keys.
    let one = SqlOptions {
        threads: 1,
        ..SqlOptions::default()
    };
    shared.runtime.block_on(async {
        let context = lake_context(&shared.lake, &one).await.unwrap();
        for (count, expected) in [
            (MAX_KEYS, ["segments_looked_up=3", "rows_looked_up=1"]),
            (MAX_KEYS + 1, ["segments_looked_up=0", "rows_looked_up=0"]),
        ] {
            let query = join_of(count, known);
            let plan = answer(&context, &format!("EXPLAIN {query}"))
                .await
                .join("\n");
            assert!(plan.contains("lookup=addresses"), "{plan}");
            let ran = answer(&context, &format!("EXPLAIN ANALYZE {query}")).await;
            for count in expected {
                assert!(ran.join("\n").contains(count), "{count}: {ran:?}");
            }
            assert_eq!(answer(&context, &query).await, std::slice::from_ref(known));
        }
    });
}

#[test]
fn a_confined_session_shows_no_look_ups() {
    let shared = shared();
    let options = SqlOptions::default();
    let confinement = Confinement {
        namespace: Some("nowhere".to_owned()),
        user: None,
    };
    shared.runtime.block_on(async {
        let whole = &shared.sessions[0];
        let confined = confined_context(whole, &options, &confinement);
        let confined = confined.await.unwrap();
        let query = over(&[Some(shared.addresses[0].clone())], JOINS[0]);
        for explain in ["EXPLAIN", "EXPLAIN ANALYZE"] {
            let plan = answer(&confined, &format!("{explain} {query}"))
                .await
                .join("\n");
            assert!(plan.contains("ConfinedScanExec"), "{plan}");
            assert!(
                !plan.contains("lookup=") && !plan.contains("looked_up"),
                "{plan}"
            );
        }
        assert!(answer(&confined, &query).await.is_empty());
    });
}

/// Returns a join with one key, of which no plan can say how many rows its small side has: with a
/// memory limit it may run twice.
fn join_of_one(key: &str) -> String {
    format!(
        "SELECT g.content_address FROM (SELECT unnest(make_array('{key}', NULL)) AS a) k
         JOIN grains g ON k.a = g.content_address"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_without_keys_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let addresses = addresses(&lake(folder.path()).await).await;
    assert_eq!(addresses.len(), 3);
    let known = addresses.values().min().unwrap();
    // Of the data files, only that of the segment with the key stays readable.
    let look_up = format!(
        "SELECT run_id FROM grains WHERE content_address = '{}'",
        known[0]
    );
    let mut left = 0;
    for segment in reopened(folder.path()).await.segments().unwrap() {
        let path = folder.path().join("lake/grains").join(&segment.file.name);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, vec![0; bytes.len()]).unwrap();
        let reader = session(&reopened(folder.path()).await, None).await;
        if reader.sql(&look_up).await.unwrap().collect().await.is_err() {
            std::fs::write(&path, bytes).unwrap();
            left += 1;
        }
    }
    assert_eq!(left, 1);
    let lake = reopened(folder.path()).await;
    for memory in [None, Some(64 << 20)] {
        let context = session(&lake, memory).await;
        let frame = context.sql(&join_of_one(&known[0])).await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        assert_eq!(plan.name() == "RetriedJoinsExec", memory.is_some());
        let found = answer(&context, &join_of_one(&known[0])).await;
        assert_eq!(found, [known[0].clone()], "{memory:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_without_a_usable_address_index_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let addresses = addresses(&lake(folder.path()).await).await;
    let keys: Vec<_> = addresses.values().map(|all| Some(all[0].clone())).collect();
    let files = super::sidecars(folder.path(), "addresses.bin");
    assert_eq!((files.len(), keys.len()), (3, 3));
    std::fs::remove_file(&files[0]).unwrap();
    let mut bytes = std::fs::read(&files[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&files[1], bytes).unwrap();
    let lake = reopened(folder.path()).await;
    let (looked_up, plain) = (session(&lake, None).await, plain_session(&lake).await);
    for join in JOINS {
        let query = over(&keys, join);
        let expected = answer(&plain, &query).await;
        assert_eq!(answer(&looked_up, &query).await, expected, "{join}");
    }
    let ran = format!("EXPLAIN ANALYZE {}", over(&keys, JOINS[0]));
    let ran = answer(&looked_up, &ran).await.join("\n");
    for count in ["segments_looked_up=1", "rows_looked_up=1"] {
        assert!(ran.contains(count), "{ran}");
    }
}
