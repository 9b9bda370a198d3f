//! Maintenance at the command line: `compact`, `gc`, the audit log's operators, missing lakes.

use std::fs;

use arrow::array::{AsArray, RecordBatch};
use futures::TryStreamExt;
use gristmill_engine::lake::Lake;
use gristmill_tests::binary::gristmill;

use crate::lake_folder::{LakeFolder, files, number};

#[test]
fn compaction_keeps_every_row_byte_for_byte_in_the_order_of_a_segment() {
    let place = LakeFolder::with_corpus(9_000, 1_000);
    place.ingest_file_by_file();
    let before = place.rows("lake");
    let report = place.ok(&["compact"]);
    assert_eq!(
        (
            number(&report, "segments_before"),
            number(&report, "segments_after")
        ),
        (9, 1),
        "{report}"
    );
    assert_eq!(number(&report, "rows"), 9_000);
    assert_eq!(number(&report["tables"], "audit"), 9, "{report}");
    assert_eq!(place.rows("lake"), before);
    // One segment, equal to that of a single ingest of everything.
    place.run_on("at once", &["ingest", &place.text("corpus")]);
    assert_eq!(
        in_order(&place.text("lake")),
        in_order(&place.text("at once"))
    );
    let shown = place.ok(&["describe"]);
    for (name, sidecar) in shown["sidecars"].as_object().unwrap() {
        assert_eq!(
            (number(sidecar, "fresh"), number(sidecar, "missing")),
            (1, 0),
            "{name}: {shown}"
        );
    }
    assert_eq!(number(&place.ok(&["verify"]), "ok"), 9_000);
    // The sources and their grains are still known.
    assert_eq!(
        number(&place.ok(&["ingest", &place.text("corpus")]), "known"),
        9
    );
    let out = place.text("again.frames");
    place.ok(&["export", &out]);
    let again = place.ok(&["ingest", &out]);
    assert_eq!(
        (
            number(&again, "duplicates"),
            number(&again, "grains_written")
        ),
        (9_000, 0)
    );
    assert_eq!(number(&place.ok(&["compact"]), "rows"), 0);
}

#[test]
fn the_audit_log_distinguishes_operators_by_pseudonym() {
    let place = LakeFolder::with_corpus(300, 100);
    for (file, operator) in files(&place.path("corpus"), "mg")
        .iter()
        .zip(["olga", "otto", "olga"])
    {
        let mut command = gristmill();
        command
            .env("GRISTMILL_OPERATOR", operator)
            .args(["--lake", &place.text("lake"), "--quiet", "ingest"])
            .arg(file);
        command.assert().success();
    }
    let rows = place.ok(&["sql", "SELECT actor FROM audit ORDER BY sequence"]);
    let actors: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["actor"].as_str().unwrap())
        .collect();
    assert!(
        actors[0] == actors[2] && actors[0] != actors[1],
        "{actors:?}"
    );
    assert!(
        actors
            .iter()
            .all(|actor| !actor.contains("olga") && !actor.contains("otto")),
        "{actors:?}"
    );
    assert_eq!(place.ok(&["audit", "verify"])["bad"], 0);
}

/// Returns the addresses of a lake in row order.
fn in_order(lake: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let batches: Vec<RecordBatch> = runtime.block_on(async {
        let lake = Lake::open(lake).await.unwrap();
        lake.scan(Some(&["content_address"]))
            .unwrap()
            .try_collect()
            .await
            .unwrap()
    });
    let texts = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten());
    texts.map(str::to_owned).collect()
}

#[test]
fn compaction_keeps_earlier_versions_readable_until_gc() {
    let place = LakeFolder::with_corpus(3_000, 1_000);
    place.ingest_file_by_file();
    let version = number(&place.ok(&["describe"])["tables"]["grains"], "version");
    place.ok(&["compact"]);
    let report = place.ok(&["gc", "--older-than", "0s"]);
    assert_eq!(
        (
            number(&report, "removed_files"),
            number(&report, "kept_for_versions")
        ),
        (0, 3),
        "{report}"
    );
    let earlier_rows = || {
        let uri = place.text("lake");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut lake = Lake::open(&uri).await.unwrap();
            lake.grains = lake.grains.at_version(version).await.unwrap();
            let batches: Vec<RecordBatch> = lake
                .scan(Some(&["content_address"]))
                .unwrap()
                .try_collect()
                .await
                .ok()?;
            Some(batches.iter().map(RecordBatch::num_rows).sum::<usize>())
        })
    };
    assert_eq!(earlier_rows(), Some(3_000));
    let report = place.ok(&["gc", "--older-than", "0s", "--retention", "0s"]);
    assert_eq!(number(&report, "data_files"), 3, "{report}");
    assert!(number(&report, "sidecar_files") >= 3, "{report}");
    assert_eq!(earlier_rows(), None);
    assert_eq!(number(&place.ok(&["verify"]), "ok"), 3_000);
}

#[test]
fn gc_removes_only_unreferenced_files() {
    let place = LakeFolder::with_corpus(2_000, 1_000);
    place.ingest_file_by_file();
    place.ok(&["verify", "--subset", "1%"]);
    let orphans = [
        "lake/grains/part-00000000000000000000000000.parquet",
        "lake/state/part-00000000000000000000000001.parquet",
        "lake/index/00000000000000000000000002/addresses.bin",
        "lake/_scratch/gristmill-abcdef",
    ];
    let keepers = [
        "lake/grains/_delta_log/note.parquet",
        "lake/index/verify-cursor.json",
        "lake/grains/readme.txt",
    ];
    for name in orphans
        .iter()
        .chain(&keepers)
        .filter(|name| !place.path(name).exists())
    {
        fs::create_dir_all(place.path(name).parent().unwrap()).unwrap();
        fs::write(place.path(name), b"x").unwrap();
    }
    let young = place.ok(&["gc"]);
    assert_eq!(
        (
            number(&young, "removed_files"),
            number(&young, "kept_young")
        ),
        (0, 4),
        "{young}"
    );
    let shown = place.ok(&["gc", "--older-than", "0s", "--dry-run"]);
    assert_eq!(shown["files"].as_array().unwrap().len(), 4, "{shown}");
    assert!(orphans.iter().all(|name| place.path(name).exists()));
    let report = place.ok(&["gc", "--older-than", "0s"]);
    assert_eq!(number(&report, "removed_files"), 4, "{report}");
    assert!(orphans.iter().all(|name| !place.path(name).exists()));
    assert!(keepers.iter().all(|name| place.path(name).exists()));
    assert!(!place.path("lake/index/00000000000000000000000002").exists());
    assert_eq!(number(&place.ok(&["verify"]), "ok"), 2_000);
    assert_eq!(
        number(&place.ok(&["describe"])["sidecars"]["addresses"], "fresh"),
        2
    );
}

#[test]
fn commands_report_a_missing_lake_and_create_none() {
    let place = LakeFolder::new();
    for command in [
        &["verify"][..],
        &["compact"],
        &["gc"],
        &["describe"],
        &["export", "out.mg"],
    ] {
        let (code, message) = place.run(command);
        assert_eq!(code, 1, "{command:?}: {message}");
        assert!(
            message.as_str().unwrap().contains("no lake at"),
            "{command:?}: {message}"
        );
    }
    let uri = format!("file://{}", place.text("lake"));
    let by_uri = gristmill().args(["--lake", &uri, "describe"]).output();
    assert_eq!(by_uri.unwrap().status.code(), Some(1));
    assert!(!place.path("lake").exists());
    assert_eq!(place.run(&["verify", "no-such-file.mg"]).0, 1);
    for part in ["200%", "0%", "0G"] {
        let (code, message) = place.run(&["verify", "--subset", part]);
        assert_eq!(code, 1, "{part}: {message}");
        assert!(
            message.as_str().unwrap().contains("invalid part"),
            "{part}: {message}"
        );
    }
}

#[test]
fn ingest_builds_the_listed_indexes_and_reindex_the_others() {
    let place = LakeFolder::with_corpus(300, 300);
    let corpus = place.text("corpus");
    place.ok(&["ingest", &corpus, "--indexes", "hexastore,words"]);
    let missing = || -> Vec<String> {
        let shown = place.ok(&["describe"]);
        let sidecars = shown["sidecars"].as_object().unwrap().iter();
        let missing = sidecars.filter(|(_, sidecar)| number(sidecar, "fresh") == 0);
        missing.map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(missing(), ["fields", "fulltext"]);
    let report = place.ok(&["reindex", "--indexes", "hexastore"]);
    assert_eq!((number(&report, "rebuilt"), missing().len()), (0, 2));
    place.ok(&["reindex", "--indexes", "fulltext"]);
    assert_eq!(missing(), ["fields"]);
    place.ok(&["reindex"]);
    assert!(missing().is_empty());
    let (code, message) = place.run(&["ingest", &corpus, "--indexes", "fulltext,phrases"]);
    assert_eq!(code, 1, "{message}");
    for name in ["phrases", "hexastore", "fulltext", "words", "fields"] {
        assert!(message.as_str().unwrap().contains(name), "{message}");
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_the_system_does_not_open_is_no_absent_lake() {
    let place = LakeFolder::new();
    std::os::unix::fs::symlink("cycle", place.path("cycle")).unwrap();
    for command in [
        &["describe"][..],
        &["verify"],
        &["sql", "SELECT * FROM grains"],
    ] {
        let (code, message) = place.run_on("cycle", command);
        let message = message.as_str().unwrap();
        assert_eq!(code, 1, "{command:?}: {message}");
        assert!(
            message.contains("can't open `") && !message.contains("no lake at"),
            "{command:?}: {message}"
        );
    }
}
