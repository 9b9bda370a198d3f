//! Data files that are missing or truncated: the remedies that are named, and what of the lake can
//! still be read.

use std::path::{Path, PathBuf};

use gristmill_engine::error::EngineError;
use gristmill_engine::lake::{ERASED, Lake, TABLES};
use gristmill_tests::binary::{Ended, ended, gristmill, patient};
use gristmill_tests::damage::{Damage, SampleLake, files_below};

/// Returns the data file of `table` that was written last.
fn data_file(sample: &SampleLake, table: &str) -> PathBuf {
    let files = files_below(&sample.lake.join(table)).into_iter();
    let is_data = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("part-") && name.ends_with(".parquet"))
    };
    files.filter(is_data).max().unwrap()
}

/// Returns ways in which a data file is lost.
fn losses(file: &Path) -> [Damage; 2] {
    let length = std::fs::metadata(file).unwrap().len() / 2;
    [Damage::Truncate { length }, Damage::Delete]
}

#[tokio::test(flavor = "multi_thread")]
async fn repair_is_named_for_a_lost_file_only_if_there_are_copies_of_its_rows() {
    let sample = SampleLake::plain().await;
    for table in TABLES {
        let file = data_file(&sample, table);
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        for damage in losses(&file) {
            let undo = damage.inflict(&file);
            let opened = Lake::open(&sample.lake.display().to_string()).await;
            let Err(error @ EngineError::Damaged { .. }) = opened else {
                panic!("{table} {damage:?}: the damage is not found");
            };
            let problems = sample.verify().await.unwrap().problems;
            let found = problems
                .into_iter()
                .filter(|problem| problem.source.contains(&name));
            let remedies: Vec<String> = found
                .filter_map(|problem| problem.repair)
                .map(|remedy| remedy.into_owned())
                .chain([error.to_string()])
                .collect();
            assert!(remedies.len() > 1, "{table} {damage:?}");
            for remedy in remedies {
                assert!(
                    remedy.contains("from a backup"),
                    "{table} {damage:?}: {remedy}"
                );
                assert_eq!(
                    remedy.contains("gristmill repair"),
                    table == ERASED,
                    "{table} {damage:?}: {remedy}"
                );
            }
            undo.undo();
        }
    }
}

/// Runs the program over the lake of `sample`.
fn run(sample: &SampleLake, words: &[&str]) -> Ended {
    let mut command = gristmill();
    ended(command.arg("--lake").arg(&sample.lake).args(patient(words)))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_reads_no_grains_works_over_a_lake_that_has_lost_a_segment() {
    let sample = SampleLake::plain().await;
    let queries = [
        "SELECT 1 AS one",
        "SELECT source, outcome FROM sources ORDER BY source, outcome",
        "SELECT error_code FROM rejects ORDER BY error_code",
        "SELECT action FROM audit ORDER BY action",
        "SELECT count(*) FROM state",
        "SELECT segment, rows FROM segments ORDER BY segment",
        "SELECT source_id, complete FROM source_progress ORDER BY source_id",
    ];
    let answers: [Ended; 7] = queries.map(|query| run(&sample, &["sql", query]));
    let file = data_file(&sample, "grains");
    for damage in losses(&file) {
        let undo = damage.inflict(&file);
        for (query, answer) in queries.into_iter().zip(&answers) {
            assert_eq!(answer.0, 0, "{query}: {answer:?}");
            assert_eq!(
                &run(&sample, &["sql", query]),
                answer,
                "{damage:?}: {query}"
            );
        }
        for words in [
            ["sql", "SELECT count(*) FROM grains"],
            ["sql", "SELECT * FROM current"],
            ["sql", "SELECT * FROM usage"],
            ["sql", "SELECT * FROM search('tea')"],
            ["cal", "RECALL beliefs"],
        ] {
            let (code, out, err) = run(&sample, &words);
            assert_eq!((code, out.as_str()), (2, ""), "{damage:?} {words:?}: {err}");
            assert!(err.contains("is damaged"), "{damage:?} {words:?}: {err}");
        }
        let (code, out, err) = run(&sample, &["describe"]);
        assert_eq!(code, 2, "{damage:?}: {err}");
        assert!(out.contains("\"segments\""), "{damage:?}: {out}");
        assert!(err.contains("is damaged"), "{damage:?}: {err}");
        // If another table is damaged, too, nothing is answered.
        let other = Damage::Delete.inflict(&data_file(&sample, "state"));
        let (code, out, err) = run(&sample, &["sql", queries[0]]);
        assert_eq!((code, out.as_str()), (2, ""), "{damage:?}: {err}");
        other.undo();
        undo.undo();
    }
}

/// Returns the report of a repair over the lake of `sample`, which must end with `code`.
fn repair(sample: &SampleLake, code: i32, options: &[&str]) -> serde_json::Value {
    let words = [&["--format", "json", "repair"][..], options].concat();
    let (ended, out, err) = run(sample, &words);
    assert_eq!(ended, code, "{out}{err}");
    serde_json::from_str(&out).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn repair_lists_a_lost_segment_and_not_its_sound_sidecars() {
    let sample = SampleLake::plain().await;
    assert_eq!(repair(&sample, 0, &[])["unrepaired"], 0);
    let file = data_file(&sample, "grains");
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    for damage in losses(&file) {
        let undo = damage.inflict(&file);
        for options in [&["--dry-run"][..], &[]] {
            let report = repair(&sample, 2, options);
            assert_eq!(report["unrepaired"], 1, "{damage:?}: {report:#}");
            assert_eq!(report["repaired"], 0, "{damage:?}: {report:#}");
            let problem = &report["problems"][0];
            let text = |field: &str| problem[field].as_str().unwrap().to_owned();
            assert_eq!(text("file"), format!("grains/{name}"), "{damage:?}");
            assert!(text("reason").contains("sidecars"), "{damage:?}");
            assert!(text("remedy").contains("from a backup"), "{damage:?}");
        }
        undo.undo();
    }
    assert_eq!(repair(&sample, 0, &[])["repaired"], 0);
    assert_eq!(sample.verify().await.unwrap().bad, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_that_has_lost_its_grains_is_damaged_and_not_absent() {
    let sample = SampleLake::plain().await;
    let grains = sample.lake.join("grains");
    for is_kept_as_folder in [true, false] {
        std::fs::remove_dir_all(&grains).unwrap();
        if is_kept_as_folder {
            std::fs::create_dir(&grains).unwrap();
        }
        for words in [
            &["describe"][..],
            &["sql", "SELECT count(*) FROM grains"],
            &["repair"],
            &["audit", "verify"],
            &["verify"],
        ] {
            let (code, out, err) = run(&sample, words);
            assert_eq!(code, 2, "{words:?}: {out}{err}");
            assert!(
                !format!("{out}{err}").contains("no lake at"),
                "{words:?}: {out}{err}"
            );
        }
        let (_, report, _) = run(&sample, &["verify"]);
        assert!(report.contains("the table is missing"), "{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_reads_does_not_create_the_folder_of_a_lost_table() {
    let sample = SampleLake::plain().await;
    for table in TABLES {
        let (folder, aside) = (sample.lake.join(table), sample.lake.with_extension("aside"));
        std::fs::rename(&folder, &aside).unwrap();
        for words in [
            &["verify"][..],
            &["audit"],
            &["describe"],
            &["sql", "SELECT count(*) FROM grains"],
        ] {
            let (_, _, err) = run(&sample, words);
            assert!(!folder.exists(), "{table} {words:?}: {err}");
        }
        assert_eq!(run(&sample, &["verify"]).0, 2, "{table}");
        std::fs::rename(&aside, &folder).unwrap();
    }
}
