//! Lifecycle: the fold of `schemas`, the views of SQL, CAL, and a copy by `export` and `ingest`
//! agree on every history.

mod exported_copies;
mod failed_commit;
mod histories;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gristmill_engine::export::{ExportFormat, ExportOptions, export};
use gristmill_engine::progress::WorkProgress;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::Executor;
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::Codec;
use gristmill_schemas::json::Json;
use gristmill_schemas::lifecycle::LifecycleState;
use gristmill_schemas::message::price::PriceTable;
use gristmill_tests::lake::{TestLake, patient_session};

use histories::{Histories, INSTANTS, Masks};

/// Creation of the first grain, in milliseconds since 1970.
const MADE: i64 = 1_767_225_600_000;

fn belief(number: usize, made: i64, more: &str) -> String {
    format!(
        r#"{{"type": "belief", "subject": "s{number}", "relation": "r", "object": "o", "confidence": 1.0, "created_at": {made}{more}}}"#
    )
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
