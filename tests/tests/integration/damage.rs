//! What `verify` and the opening of a lake find of damage to tables: data files, logs, heads, certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_engine::error::EngineError;
use gristmill_engine::lake::{Lake, LakeLocation, TABLES};
use gristmill_engine::progress::WorkProgress;
use gristmill_engine::verify::{Part, VerifyOptions, VerifyReport, verify_lake, verify_unopened};
use gristmill_tests::damage::{Damage, Lab, files_below};

/// Verifies the lake as the command does.
async fn verified(lake: &Path) -> VerifyReport {
    let uri = lake.display().to_string();
    let options = VerifyOptions { threads: 1, ..VerifyOptions::default() };
    match Lake::open_unchecked(&uri).await {
        Ok(lake) => verify_lake(&lake, Part::default(), &options, Arc::new(WorkProgress::default())).await.unwrap(),
        Err(cause) => {
            assert!(!cause.is_environment(), "{cause}");
            verify_unopened(&LakeLocation::new(&uri).unwrap(), Part::default(), &options, &cause).await.unwrap()
        }
    }
}

fn newest(folder: &Path, ending: &str) -> PathBuf {
    let files = files_below(folder).into_iter().filter(|path| path.to_string_lossy().ends_with(ending));
    files.max().unwrap_or_else(|| panic!("no {ending} below {}", folder.display()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_lake_verifies_and_every_table_is_covered() {
    let lab = Lab::plain().await;
    let report = verified(&lab.lake).await;
    assert_eq!(report.bad, 0, "{:?}", report.problems);
    let coverage = report.coverage.unwrap();
    assert_eq!(coverage.tables.iter().map(|table| table.table).collect::<Vec<_>>(), TABLES);
    for table in &coverage.tables {
        assert!(table.complete && table.log_entries > 1 && table.without_digest == 0, "{table:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_data_file_of_any_table_is_found_and_named() {
    let lab = Lab::plain().await;
    for table in TABLES {
        let file = newest(&lab.lake.join(table), ".parquet");
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let middle = std::fs::metadata(&file).unwrap().len() / 2;
        for damage in [Damage::Flip { byte: middle, bit: 3 }, Damage::Truncate { length: middle }, Damage::Delete] {
            let undo = damage.inflict(&file);
            let report = verified(&lab.lake).await;
            let named = |problem: &gristmill_engine::verify::Problem| {
                problem.table == Some(table) && problem.source.contains(&name) && problem.repair.is_some()
            };
            assert!(report.bad > 0 && report.problems.iter().any(named), "{table} {damage:?}: {:?}", report.problems);
            if !matches!(damage, Damage::Flip { .. }) {
                let opened = Lake::open(&lab.lake.display().to_string()).await;
                assert!(matches!(opened, Err(EngineError::Damaged { .. })), "{table} {damage:?}");
            }
            undo.undo();
        }
    }
    assert_eq!(verified(&lab.lake).await.bad, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lost_end_of_a_log_is_found_and_the_lake_isnt_opened() {
    let lab = Lab::plain().await;
    let last = |table: &str| newest(&lab.lake.join(table).join("_delta_log"), ".json");
    for table in TABLES {
        let undo = Damage::Delete.inflict(&last(table));
        let report = verified(&lab.lake).await;
        assert!(report.problems.iter().any(|problem| problem.table == Some(table)), "{table}: {:?}", report.problems);
        let error = Lake::open(&lab.lake.display().to_string()).await.unwrap_err();
        assert!(!error.is_environment() && error.to_string().contains(table), "{table}: {error}");
        let mut lake = Lake::open_unchecked(&lab.lake.display().to_string()).await.unwrap();
        assert!(lake.verify_audit().await.unwrap().bad > 0, "{table}");
        undo.undo();
    }
    let undone: Vec<_> = TABLES.iter().map(|table| Damage::Delete.inflict(&last(table))).collect();
    assert!(verified(&lab.lake).await.bad >= TABLES.len() as u64);
    undone.into_iter().for_each(gristmill_tests::damage::Undo::undo);
    assert!(Lake::open(&lab.lake.display().to_string()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_changed_entry_of_a_log_and_the_heads_are_found() {
    let lab = Lab::plain().await;
    let mut files: Vec<PathBuf> =
        TABLES.iter().flat_map(|table| files_below(&lab.lake.join(table).join("_delta_log"))).collect();
    files.push(lab.lake.join("heads.json"));
    assert!(files.iter().any(|file| file.to_string_lossy().ends_with("checkpoint.parquet")));
    for file in files {
        let length = std::fs::metadata(&file).unwrap().len();
        for byte in [1, length / 2, length - 1] {
            let undo = Damage::Flip { byte, bit: 0 }.inflict(&file);
            let report = verified(&lab.lake).await;
            assert!(report.bad > 0, "byte {byte} of {}", file.display());
            undo.undo();
        }
    }
    let undo = Damage::Delete.inflict(&lab.lake.join("heads.json"));
    assert!(verified(&lab.lake).await.bad > 0);
    let error = Lake::open(&lab.lake.display().to_string()).await.unwrap_err();
    assert!(error.to_string().contains("heads.json"), "{error}");
    undo.undo();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_ahead_of_its_head_is_sound_and_the_next_commit_catches_up() {
    let lab = Lab::plain().await;
    let heads = lab.lake.join("heads.json");
    let before = std::fs::read(&heads).unwrap();
    lab.ingest_one_more("after").await;
    std::fs::write(&heads, before).unwrap();
    assert_eq!(verified(&lab.lake).await.bad, 0);
    assert!(Lake::open(&lab.lake.display().to_string()).await.is_ok());
    lab.ingest_one_more("and after that").await;
    let report = verified(&lab.lake).await;
    assert_eq!(report.bad, 0, "{:?}", report.problems);
    let undo = Damage::Delete.inflict(&newest(&lab.lake.join("grains/_delta_log"), ".json"));
    assert!(verified(&lab.lake).await.bad > 0);
    undo.undo();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_taken_in_where_tombstones_were_changed() {
    let lab = Lab::plain().await;
    let file = newest(&lab.lake.join("erased"), ".parquet");
    let middle = std::fs::metadata(&file).unwrap().len() / 2;
    let undo = Damage::Flip { byte: middle, bit: 1 }.inflict(&file);
    let error = lab.try_ingest_erased().await.unwrap_err();
    assert!(matches!(error, EngineError::Damaged { .. }), "{error}");
    undo.undo();
    assert_eq!(lab.try_ingest_erased().await.unwrap(), 0);
}
