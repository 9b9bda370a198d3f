//! Repair restores derived data, and lists other damage without changing it.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use gristmill_engine::error::EngineError;
use gristmill_engine::lake::Lake;
use gristmill_engine::progress::WorkProgress;
use gristmill_engine::repair::{RepairOptions, repair};
use gristmill_schemas::columns::grains_schema;

use crate::lab::{Lab, read};
use crate::rows::{changed, kept};

/// Rewrites the first segment with a changed cell in each column that can be repaired and in the
/// columns `also`, each in a row of its own.
async fn damage(lab: &Lab, also: &[&str]) {
    let path = lab.segments().await.remove(0);
    let rows = read(&path).unwrap();
    let fields = rows.schema();
    let damaged = |(row, column): (usize, &arrow::array::ArrayRef)| {
        let name = fields.field(row).name().as_str();
        let is_origin = ["content_address", "blob", "envelope"].contains(&name);
        match (kept().contains(&name) || is_origin) && !also.contains(&name) {
            true => column.clone(),
            false => changed(column, row, fields.field(row).is_nullable()),
        }
    };
    let columns = rows.columns().iter().enumerate().map(damaged).collect();
    lab.replace(
        &path,
        &RecordBatch::try_new(rows.schema(), columns).unwrap(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_cells_are_recomputed_and_every_row_is_restored() {
    for sealed in [false, true] {
        let lab = Lab::new(2, 220, sealed).await;
        let before = lab.rows().await;
        damage(&lab, &[]).await;
        assert!(lab.verify().await.bad > 150);
        let plan = lab.repair(true).await;
        assert!(
            plan.dry_run && plan.unrepaired == 0 && plan.segments_rewritten == 1,
            "{:#?}",
            plan.problems
        );
        assert!(lab.verify().await.bad > 150, "a dry run changes nothing");
        let report = lab.repair(false).await;
        assert_eq!(
            (report.unrepaired, report.segments_rewritten),
            (0, 1),
            "{:#?}",
            report.problems
        );
        let columns = grains_schema().fields().len() - kept().len() - 3;
        assert_eq!(report.columns.len(), columns, "{:?}", report.columns);
        assert_eq!(lab.rows().await, before);
        let verified = lab.verify().await;
        assert_eq!(
            (verified.bad, verified.ok),
            (0, 440),
            "{:#?}",
            verified.problems
        );
        assert_eq!(verified.marks.get("sidecar_missing"), None);
        let again = lab.repair(false).await;
        assert_eq!((again.repaired, again.unrepaired), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_with_a_damaged_blob_is_listed_with_its_source_and_kept() {
    let lab = Lab::new(1, 220, false).await;
    let before = lab.rows().await;
    damage(&lab, &["blob"]).await;
    let report = lab.repair(false).await;
    assert_eq!(report.unrepaired, 1, "{:#?}", report.problems);
    let problem = &report.problems[0];
    let row = grains_schema().index_of("blob").unwrap();
    assert_eq!(problem.row, Some(row as u64));
    let address = problem.content_address.as_deref().unwrap();
    let cell = |row: &RecordBatch, name: &str| {
        row.column_by_name(name)
            .unwrap()
            .as_string::<i32>()
            .value(0)
            .to_owned()
    };
    let original = before
        .iter()
        .find(|row| cell(row, "content_address") == address)
        .unwrap();
    assert_eq!(
        problem.source_id.as_deref(),
        Some(cell(original, "source_id").as_str())
    );
    assert!(
        problem.reason.contains("hashes to") && problem.remedy.contains("backup"),
        "{problem:?}"
    );
    let after = lab.rows().await;
    assert_eq!(after.len(), before.len());
    let differing: Vec<_> = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| before != after)
        .collect();
    assert_eq!(differing.len(), 1);
    let verified = lab.verify().await;
    assert_eq!(
        (verified.bad, verified.ok),
        (1, 219),
        "{:#?}",
        verified.problems
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_column_is_recomputed_if_it_follows_from_blobs() {
    for name in ["subject", "created_at", "marks", "source_id"] {
        let lab = Lab::new(1, 200, false).await;
        let before = lab.rows().await;
        let path = lab.segments().await.remove(0);
        let bytes = std::fs::read(&path).unwrap();
        let (start, length) = gristmill_engine::segment::SegmentReader::open(bytes.clone().into())
            .unwrap()
            .column_range(
                0,
                if name == "marks" {
                    "marks.list.element"
                } else {
                    name
                },
            )
            .unwrap();
        let mut damaged = bytes;
        damaged[start as usize..(start + length) as usize].fill(0xff);
        std::fs::write(&path, damaged).unwrap();
        let report = lab.verify().await;
        assert!(
            report
                .problems
                .iter()
                .any(|problem| problem.field.as_deref() == Some(name)),
            "{:#?}",
            report.problems
        );
        let report = lab.repair(false).await;
        if name == "source_id" {
            assert_eq!((report.repaired, report.unrepaired), (0, 1), "{report:#?}");
            assert!(
                report.problems[0].reason.contains("source_id"),
                "{report:#?}"
            );
            continue;
        }
        assert_eq!(
            (report.unrepaired, report.rows),
            (0, 200),
            "{name}: {report:#?}"
        );
        assert_eq!(lab.rows().await, before, "{name}");
        assert_eq!(lab.verify().await.bad, 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_address_is_restored_by_the_address_index() {
    let lab = Lab::new(1, 200, false).await;
    let before = lab.rows().await;
    let path = lab.segments().await.remove(0);
    let bytes = std::fs::read(&path).unwrap();
    let reader = gristmill_engine::segment::SegmentReader::open(bytes.clone().into()).unwrap();
    let (start, length) = reader.column_range(0, "content_address").unwrap();
    let addresses = |rows: &RecordBatch| rows.column_by_name("content_address").unwrap().clone();
    let original = addresses(&read(&path).unwrap());
    let is_damaged = (start..start + length).step_by(97).any(|at| {
        let mut damaged = bytes.clone();
        damaged[at as usize] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        read(&path).is_ok_and(|rows| *addresses(&rows) != *original)
    });
    assert!(is_damaged, "no flip changes an address and nothing else");
    assert!(lab.verify().await.bad > 0);
    let report = lab.repair(false).await;
    assert_eq!(report.unrepaired, 0, "{report:#?}");
    assert_eq!(
        report.columns.keys().collect::<Vec<_>>(),
        ["content_address"]
    );
    assert_eq!(lab.rows().await, before);
    assert_eq!(lab.verify().await.bad, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_repair_is_completed_by_the_next_run() {
    let lab = Lab::new(3, 210, false).await;
    let before = lab.rows().await;
    for path in lab.segments().await {
        let rows = read(&path).unwrap();
        let place = rows.schema().index_of("namespace").unwrap();
        let mut columns = rows.columns().to_vec();
        columns[place] = changed(&columns[place], 7, true);
        lab.replace(
            &path,
            &RecordBatch::try_new(rows.schema(), columns).unwrap(),
        )
        .await;
    }
    let progress = Arc::new(WorkProgress::default());
    let watched = Arc::clone(&progress);
    // Stops as soon as the first segment has been checked.
    let stop = tokio::spawn(async move {
        while watched.grains.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        watched.stop();
    });
    let stopped = repair(&mut lab.lake().await, &RepairOptions::default(), progress).await;
    stop.await.unwrap();
    assert!(matches!(stopped, Err(EngineError::Interrupted)));
    let report = lab.repair(false).await;
    assert!((1..=2).contains(&report.segments_rewritten), "{report:#?}");
    assert_eq!(lab.rows().await, before);
    assert_eq!(lab.verify().await.bad, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_damaged_and_swapped_sidecars_are_rebuilt() {
    let lab = Lab::new(2, 80, false).await;
    let segments = lab.lake().await.segments().unwrap();
    let file = |number: usize, name: &str| {
        lab.path("index")
            .join(segments[number].id.as_str())
            .join(name)
    };
    std::fs::remove_file(file(0, "words.bin")).unwrap();
    let mut bytes = std::fs::read(file(0, "fulltext.bin")).unwrap();
    bytes[100] ^= 1;
    std::fs::write(file(0, "fulltext.bin"), bytes).unwrap();
    std::fs::copy(file(0, "hexastore.bin"), file(1, "hexastore.bin")).unwrap();
    assert_eq!(lab.verify().await.bad, 2);
    let report = lab.repair(false).await;
    assert_eq!(
        (report.sidecars, report.repaired, report.unrepaired),
        (3, 3, 0),
        "{report:#?}"
    );
    let verified = lab.verify().await;
    assert_eq!(
        (verified.bad, verified.marks.get("sidecar_missing")),
        (0, None),
        "{:#?}",
        verified.problems
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_segment_is_listed_without_its_sidecars_also_by_a_dry_run() {
    let lab = Lab::new(2, 80, false).await;
    std::fs::remove_file(lab.segments().await.remove(0)).unwrap();
    for dry_run in [true, false] {
        let lake = lab.path("").display().to_string();
        let options = RepairOptions {
            dry_run,
            ..RepairOptions::default()
        };
        let report = repair(
            &mut Lake::open_unchecked(&lake).await.unwrap(),
            &options,
            Arc::new(WorkProgress::default()),
        )
        .await
        .unwrap();
        // Its addresses, statements, full text and words may be sound.
        assert_eq!(
            (report.repaired, report.sidecars, report.unrepaired),
            (0, 0, 1),
            "{report:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_another_digest_is_restored_only_if_its_rows_encode_to_the_digest_in_the_log() {
    let lab = Lab::new(1, 120, false).await;
    let before = lab.rows().await;
    let path = lab.segments().await.remove(0);
    let bytes = std::fs::read(&path).unwrap();
    let reader = gristmill_engine::segment::SegmentReader::open(bytes.clone().into()).unwrap();
    let (start, length) = reader.column_range(0, "source_id").unwrap();
    // The source's dictionary: a changed letter changes all cells, and nothing else in the lake
    // contains the original.
    let sources = |rows: &RecordBatch| rows.column_by_name("source_id").unwrap().clone();
    let original = sources(&read(&path).unwrap());
    let is_changed = (start..start + length).any(|at| {
        let mut damaged = bytes.clone();
        damaged[at as usize] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        read(&path).is_ok_and(|rows| *sources(&rows) != *original)
    });
    assert!(is_changed);
    let report = lab.repair(false).await;
    assert_eq!((report.repaired, report.unrepaired), (0, 1), "{report:#?}");
    assert!(report.problems[0].reason.contains("digest"), "{report:#?}");
    // A byte after the pages that belongs to no row: filters and indexes are between the pages and
    // the footer.
    let length =
        u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
    let mut damaged = bytes.clone();
    damaged[bytes.len() - 8 - length - 9] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    assert!(lab.verify().await.bad > 0);
    let report = lab.repair(false).await;
    // The lifecycle mask was built before the segment was replaced, so it is rebuilt too.
    let files = report.repairs.iter().map(|repair| repair.file.as_str());
    let data = files.filter(|file| file.starts_with("grains/")).count();
    assert_eq!((data, report.unrepaired), (1, 0), "{report:#?}");
    assert_eq!(
        std::fs::read(lab.segments().await.remove(0)).unwrap(),
        bytes
    );
    assert_eq!(lab.rows().await, before);
    assert_eq!(lab.verify().await.bad, 0);
}
