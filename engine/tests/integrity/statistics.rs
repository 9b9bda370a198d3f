//! Verification compares the statistics and the page index of data files with their rows: readers
//! pass over rows that minima and maxima exclude, and find rows by the places of pages.

use std::path::Path;

use gristmill_engine::verify::{Problem, VerifyReport};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};

use crate::lab::Lab;

/// Replaces the maximum of the column `subject` by a lower text in the page index, or in the
/// footer, of the Parquet file `path`.
fn lower_maximum(path: &Path, in_footer: bool) {
    let mut file = std::fs::read(path).unwrap();
    let metadata = ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Required)
        .parse_and_finish(&bytes::Bytes::from(file.clone()))
        .unwrap();
    let columns = metadata.row_group(0).columns();
    let subject = columns
        .iter()
        .find(|column| column.column_path().string() == "subject")
        .unwrap();
    let maximum = subject.statistics().unwrap().max_bytes_opt().unwrap();
    let length: [u8; 4] = file[file.len() - 8..][..4].try_into().unwrap();
    let footer = file.len() - 8 - u32::from_le_bytes(length) as usize;
    let indexes = columns
        .iter()
        .filter_map(|column| column.column_index_offset());
    let index = indexes.min().unwrap() as usize;
    let place = match in_footer {
        true => footer..file.len(),
        false => index..footer,
    };
    let mut found = 0;
    for at in place.start..=place.end - maximum.len() {
        if file[at..].starts_with(maximum) {
            file[at..at + maximum.len()].fill(b'!');
            found += 1;
        }
    }
    assert!(found > 0, "{maximum:?}");
    std::fs::write(path, file).unwrap();
}

/// Returns the problem with the statistics of the column `field` in `place`.
fn problem<'r>(report: &'r VerifyReport, field: &str, place: &str) -> &'r Problem {
    let mut problems = report.problems.iter();
    let found = problems.find(|problem| {
        problem.field.as_deref() == Some(field)
            && problem.message.contains("excludes values")
            && problem.message.contains(place)
    });
    found.unwrap_or_else(|| panic!("{:#?}", report.problems))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maximum_below_values_of_the_rows_is_reported() {
    for (in_footer, place) in [(false, "its page index"), (true, "its footer")] {
        let lab = Lab::new(1, 60, false).await;
        assert_eq!(lab.verify().await.bad, 0);
        let path = lab.segments().await.remove(0);
        lower_maximum(&path, in_footer);
        let report = lab.verify().await;
        let found = problem(&report, "subject", place);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(found.source, format!("grains/{name}"));
        assert_eq!(found.code, "ERR_INTEGRITY");
        let repair = found.repair.as_deref();
        assert_eq!(repair, Some("restore the file from a backup of the lake"));
    }
}

/// Adds one to the first row of the first page of the column `blob` in the page index of the
/// Parquet file `path`.
fn move_first_page(path: &Path) {
    // The type of the field, the first row 0, and the end of the page's location.
    const FIRST_ROW: [u8; 3] = [0x16, 0, 0];
    let mut file = std::fs::read(path).unwrap();
    let metadata = ParquetMetaDataReader::new()
        .parse_and_finish(&bytes::Bytes::from(file.clone()))
        .unwrap();
    let mut columns = metadata.row_group(0).columns().iter();
    let blob = columns
        .find(|column| column.column_path().string() == "blob")
        .unwrap();
    let start = blob.offset_index_offset().unwrap() as usize;
    let end = start + blob.offset_index_length().unwrap() as usize;
    let place = (start..end).find(|at| file[*at..end].starts_with(&FIRST_ROW));
    // Numbers are doubled.
    file[place.unwrap() + 1] = 2;
    std::fs::write(path, file).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_index_that_states_other_rows_of_a_page_is_reported() {
    const WRONG: &str = "its page index is wrong";
    let lab = Lab::new(1, 60, false).await;
    let report = lab.verify().await;
    assert_eq!(report.bad, 0, "{:#?}", report.problems);
    let path = lab.segments().await.remove(0);
    move_first_page(&path);
    let report = lab.verify().await;
    let mut problems = report.problems.iter();
    let found = problems.find(|problem| problem.message.contains(WRONG));
    let found = found.unwrap_or_else(|| panic!("{:#?}", report.problems));
    let name = path.file_name().unwrap().to_str().unwrap();
    assert_eq!(found.source, format!("grains/{name}"));
    assert_eq!((found.ordinal, found.rows), (0, Some(60)));
    assert!(found.message.contains("`blob`"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_in_the_log_that_exclude_rows_are_reported() {
    let lab = Lab::new(1, 60, false).await;
    for (highest, is_wrong) in [(255, false), (-1, true)] {
        let stated = serde_json::json!({
            "numRecords": 60,
            "minValues": { "type_byte": -2 },
            "maxValues": { "type_byte": highest },
            "nullCount": { "type_byte": 0 },
        });
        state_in_log(&lab, &stated);
        let report = lab.verify().await;
        let excluded = report
            .problems
            .iter()
            .any(|problem| problem.message.contains("excludes values"));
        assert_eq!(excluded, is_wrong, "{:#?}", report.problems);
        if is_wrong {
            let found = problem(&report, "type_byte", "its log");
            assert_eq!((found.ordinal, found.rows), (0, Some(60)));
        }
    }
}

/// Replaces the statistics of all data files of `grains` in the log.
fn state_in_log(lab: &Lab, statistics: &serde_json::Value) {
    for entry in std::fs::read_dir(lab.path("grains/_delta_log")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let edited = |line: &str| {
            let mut action: serde_json::Value = serde_json::from_str(line).unwrap();
            if let Some(stats) = action.pointer_mut("/add/stats") {
                *stats = statistics.to_string().into();
            }
            action.to_string()
        };
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<String> = text.lines().map(edited).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
    }
}
