//! Grains that several rows of a lake have: verification finds them, and repair keeps one row.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, RecordBatch, StringBuilder};
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;
use gristmill_engine::index::{IndexKinds, reindex};
use gristmill_engine::verify::{Problem, Subset, VerifyReport, VerifyScope};

use crate::lab::{Lab, read, with_cell};
use crate::rows::changed;

/// Returns the problems of rows with the addresses of others.
fn doubled(report: &VerifyReport) -> Vec<&Problem> {
    let problems = report.problems.iter();
    problems
        .filter(|problem| problem.message.contains("have addresses that"))
        .collect()
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

async fn count(lab: &Lab) -> u64 {
    let segments = lab.lake().await.segments().unwrap();
    segments.iter().map(|segment| segment.file.rows).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubled_segment_is_found_and_its_copy_is_removed() {
    for (sealed, indexed) in [(false, false), (false, true), (true, false)] {
        let lab = Lab::new(2, 120, sealed).await;
        let before = lab.rows().await;
        let verified = lab.verify().await;
        let coverage = verified.coverage.unwrap();
        assert_eq!((verified.bad, coverage.address_parts), (0, 256));
        let first = lab.segments().await.remove(0);
        let copy = lab.double(&first).await;
        if indexed {
            let lake = lab.lake().await;
            reindex(&lake, IndexKinds::ALL, false).await.unwrap();
        }
        assert_eq!(count(&lab).await, 360);
        let verified = lab.verify().await;
        let found = doubled(&verified);
        let [problem] = &*found else {
            panic!("{:#?}", verified.problems)
        };
        assert_eq!((verified.bad, verified.ok), (1, 360));
        assert_eq!((problem.rows, &*problem.code), (Some(120), "ERR_INTEGRITY"));
        assert!(problem.source.ends_with(name(&copy)), "{problem:?}");
        assert!(problem.message.contains(name(&first)), "{problem:?}");
        assert_eq!(problem.repair.as_deref(), Some("gristmill repair"));
        let plan = lab.repair(true).await;
        assert_eq!((plan.surplus_rows, plan.unrepaired), (120, 0), "{plan:#?}");
        assert_eq!(count(&lab).await, 360, "a dry run changes nothing");
        let report = lab.repair(false).await;
        assert_eq!((report.surplus_rows, report.unrepaired), (120, 0));
        assert_eq!(lab.rows().await, before);
        let verified = lab.verify_with(!sealed).await;
        assert_eq!((verified.bad, verified.ok), (0, 240), "{verified:#?}");
        let again = lab.repair(false).await;
        assert_eq!((again.repaired, again.unrepaired), (0, 0), "{again:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn some_rows_of_a_segment_are_removed_and_the_others_stay() {
    for sealed in [false, true] {
        let lab = Lab::new(2, 120, sealed).await;
        let before = lab.rows().await;
        let [first, second] = &*lab.segments().await else {
            panic!("two segments")
        };
        let (rows, others) = (read(first).unwrap(), read(second).unwrap());
        // Forty rows of the first segment, and five of its own once more.
        let parts = [rows.slice(30, 40), others.clone(), others.slice(7, 5)];
        let all = concat_batches(&others.schema(), &parts).unwrap();
        lab.replace(second, &all).await;
        let verified = lab.verify().await;
        let rows: Vec<_> = doubled(&verified).iter().map(|it| it.rows).collect();
        assert_eq!((rows.len(), verified.bad), (2, 2), "{verified:#?}");
        assert!(
            rows.contains(&Some(40)) && rows.contains(&Some(5)),
            "{rows:?}"
        );
        let report = lab.repair(false).await;
        assert_eq!((report.surplus_rows, report.unrepaired), (45, 0));
        assert_eq!(lab.rows().await, before);
        let verified = lab.verify_with(!sealed).await;
        assert_eq!((verified.bad, verified.ok), (0, 240), "{verified:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_row_that_supersedes_another_grain_stays() {
    let lab = Lab::new(1, 40, false).await;
    let rows = read(&lab.segments().await.remove(0)).unwrap();
    let place = rows.schema().index_of("supersedes").unwrap();
    let mut columns = rows.columns().to_vec();
    let DataType::List(item) = columns[place].data_type() else {
        panic!("a list")
    };
    let old = rows.column(0).as_string::<i32>().value(3);
    let mut list = ListBuilder::new(StringBuilder::new()).with_field(Arc::clone(item));
    list.append_value([Some(old)]);
    let cell: ArrayRef = Arc::new(list.finish());
    columns[place] = with_cell(&columns[place], 7, &cell);
    let superseding = RecordBatch::try_new(rows.schema(), columns).unwrap();
    // The copy supersedes the grain, and the first file doesn't.
    lab.replace(&lab.segments().await.remove(0), &superseding)
        .await;
    let first = lab.segments().await.remove(0);
    lab.double(&first).await;
    lab.replace(&first, &rows).await;
    let report = lab.repair(false).await;
    assert_eq!((report.surplus_rows, report.unrepaired), (40, 0));
    let kept = lab.rows().await;
    let supersedes = |row: &&RecordBatch| row.column(place).is_valid(0);
    assert_eq!(
        (kept.len(), kept.iter().filter(supersedes).count()),
        (40, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intact_row_stays_and_a_damaged_one_with_its_address_is_removed() {
    let lab = Lab::new(1, 120, false).await;
    let before = lab.rows().await;
    let first = lab.segments().await.remove(0);
    let rows = read(&first).unwrap();
    lab.double(&first).await;
    let place = rows.schema().index_of("blob").unwrap();
    let mut columns = rows.columns().to_vec();
    columns[place] = changed(&columns[place], 50, false);
    let damaged = RecordBatch::try_new(rows.schema(), columns).unwrap();
    lab.replace(&first, &damaged).await;
    let report = lab.repair(false).await;
    assert_eq!(report.surplus_rows, 120, "{report:#?}");
    assert_eq!(lab.rows().await, before);
    let verified = lab.verify().await;
    assert_eq!((verified.bad, verified.ok), (0, 120), "{verified:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_an_intact_one_are_listed_and_stay() {
    let lab = Lab::new(1, 60, false).await;
    let first = lab.segments().await.remove(0);
    let rows = read(&first).unwrap();
    let place = rows.schema().index_of("blob").unwrap();
    let mut columns = rows.columns().to_vec();
    columns[place] = changed(&columns[place], 20, false);
    let damaged = RecordBatch::try_new(rows.schema(), columns).unwrap();
    lab.replace(&first, &damaged).await;
    let first = lab.segments().await.remove(0);
    lab.double(&first).await;
    let report = lab.repair(false).await;
    // The blob of either row, and that both have one address.
    assert_eq!(
        (report.surplus_rows, report.unrepaired),
        (59, 4),
        "{report:#?}"
    );
    assert_eq!(count(&lab).await, 61);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_the_lake_together_find_every_doubled_row() {
    let lab = Lab::new(2, 120, false).await;
    let first = lab.segments().await.remove(0);
    lab.double(&first).await;
    let mut found = (0, 0);
    for number in 1..=3 {
        let scope = VerifyScope {
            subset: Some(Subset::Group { number, of: 3 }),
            max_duration: None,
        };
        let report = lab.verify_scope(scope, false).await;
        let rows: u64 = doubled(&report).iter().map(|it| it.rows.unwrap_or(1)).sum();
        assert!(rows < 120, "{report:#?}");
        let parts = report.coverage.unwrap().address_parts;
        found = (found.0 + rows, found.1 + parts);
    }
    assert_eq!(found, (120, 256));
    // Each continues where the one before ended.
    let mut found = (0, 0);
    while found.1 < 256 {
        let scope = VerifyScope {
            subset: Some(Subset::Share(0.25)),
            max_duration: None,
        };
        let report = lab.verify_scope(scope, false).await;
        let rows: u64 = doubled(&report).iter().map(|it| it.rows.unwrap_or(1)).sum();
        let parts = report.coverage.unwrap().address_parts;
        assert!((64..=65).contains(&parts), "{parts}");
        found = (found.0 + rows, found.1 + parts);
    }
    assert!(found.0 >= 120, "{found:?}");
}
