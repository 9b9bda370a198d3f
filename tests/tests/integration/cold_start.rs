//! A process that answers one look-up opens only what the look-up needs: here everything else is
//! unreadable, and the answer is the same.

use std::path::{Path, PathBuf};

use gristmill_engine::index::{IndexKinds, reindex};
use gristmill_engine::lake::{Lake, Segment};
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::Executor;
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_schemas::address::ContentAddress;
use gristmill_tests::damage::files_below;
use gristmill_tests::grains::{belief, frames};
use gristmill_tests::lake::{TestLake, patient_session};

/// Segments of the lake. Each has grains of its own subjects.
const SEGMENTS: usize = 6;

/// The number of the segment with the grains that are looked up.
const ASKED: usize = 2;

/// The grain of segment [`ASKED`] that isn't superseded.
const STATEMENT: &str = "RECALL WHERE subject = \"subject 20\"";

/// Makes a lake of several segments, with events in `state` and fresh masks.
async fn lake() -> TestLake {
    let mut lake = TestLake::new().await;
    for number in 0..SEGMENTS {
        let blobs: Vec<_> = (0..4).map(|grain| belief(10 * number + grain)).collect();
        let name = format!("{number}.frames");
        lake.ingest(&[(&name, &frames(&blobs))]).await;
    }
    let address = |number| ContentAddress::of(&belief(number));
    lake.supersede(&[(address(21), address(22)), (address(31), address(32))])
        .await;
    reindex(&lake.lake, IndexKinds::ALL, true).await.unwrap();
    lake
}

async fn reopened(lake: &TestLake) -> Lake {
    let uri = lake.folder().join("lake").display().to_string();
    Lake::open_for_queries(&uri).await.unwrap()
}

/// Returns the answer to `statement` of a new handle of the lake.
async fn answer(lake: &TestLake, statement: &str) -> Result<String, String> {
    let tables = lake_context(&reopened(lake).await, &SqlOptions::default()).await;
    let executor = Executor::new(tables.unwrap(), patient_session(1_800_000_000_000));
    let answer = executor
        .run_text(statement.as_bytes(), &Bindings::new(), Options::default())
        .await;
    answer
        .map(|answer| format!("{:?}", answer.answer))
        .map_err(|error| error.to_string())
}

/// Overwrites a file. Its size stays, which is compared with the log when the lake is opened.
fn overwrite(path: &Path) {
    let size = std::fs::metadata(path).unwrap().len();
    std::fs::write(path, vec![0; size as usize]).unwrap();
}

fn data_file(lake: &TestLake, segment: &Segment) -> PathBuf {
    lake.folder().join("lake/grains").join(&segment.file.name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_opens_nothing_of_excluded_segments_but_two_sidecars() {
    let lake = lake().await;
    let expected = answer(&lake, STATEMENT).await.unwrap();
    assert!(expected.contains("subject 20"), "{expected}");
    let segments = reopened(&lake).await.segments().unwrap();
    assert_eq!(segments.len(), SEGMENTS);
    for (number, segment) in segments.iter().enumerate() {
        let folder = lake.folder().join("lake/index").join(segment.id.as_str());
        for file in files_below(&folder) {
            let name = file.file_name().unwrap().to_str().unwrap();
            let is_needed = match number == ASKED {
                true => ["hexastore.bin", "lifecycle.bin", "addresses.bin"].contains(&name),
                false => ["hexastore.bin", "lifecycle.bin"].contains(&name),
            };
            if !is_needed {
                std::fs::remove_file(&file).unwrap();
            }
        }
        if number != ASKED {
            overwrite(&data_file(&lake, segment));
        }
    }
    for table in ["rejects", "sources", "audit", "erased"] {
        std::fs::remove_dir_all(lake.folder().join("lake").join(table)).unwrap();
    }
    // All masks have all events.
    for file in reopened(&lake).await.state.files().unwrap() {
        overwrite(&lake.folder().join("lake/state").join(file.name));
    }
    assert_eq!(answer(&lake, STATEMENT).await, Ok(expected));
}

/// Changes a letter in the footer of a data file, which remains readable.
fn change_footer(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let name = b"content_address";
    let at = bytes.windows(name.len()).rposition(|part| part == name);
    let created = b"parquet-rs";
    let at = bytes
        .windows(created.len())
        .rposition(|part| part == created)
        .or(at)
        .unwrap();
    bytes[at] ^= 0x20;
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_sidecars_select_are_read_only_of_the_file_to_which_they_are_bound() {
    let lake = lake().await;
    let other = STATEMENT.replace("20", "40");
    let expected = answer(&lake, &other).await.unwrap();
    assert!(answer(&lake, STATEMENT).await.is_ok());
    let segments = reopened(&lake).await.segments().unwrap();
    change_footer(&data_file(&lake, &segments[ASKED]));
    let refused = answer(&lake, STATEMENT).await.unwrap_err();
    assert!(refused.contains("its footer has the digest"), "{refused}");
    assert_eq!(answer(&lake, &other).await, Ok(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_footer_in_the_log_makes_a_look_up_slower_and_not_wrong() {
    let lake = lake().await;
    let expected = answer(&lake, STATEMENT).await.unwrap();
    for path in files_below(&lake.folder().join("lake/grains/_delta_log")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let tag = "\"gristmill.footer\":\"";
        if let Some(at) = text.find(tag).map(|at| at + tag.len()) {
            let wrong = format!("{}{}{}", &text[..at], "0".repeat(64), &text[at + 64..]);
            std::fs::write(&path, wrong).unwrap();
        }
    }
    assert_eq!(answer(&lake, STATEMENT).await, Ok(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_are_opened_late_are_compared_with_the_heads_when_they_are_read() {
    let lake = lake().await;
    let count = async |table: &str| {
        let tables = lake_context(&reopened(&lake).await, &SqlOptions::default()).await;
        let query = format!("SELECT count(*) FROM {table}");
        let frame = tables.unwrap().sql(&query).await.unwrap();
        let counted = frame.to_string().await;
        counted.map_err(|error| error.to_string())
    };
    let sources = count("sources").await.unwrap();
    assert!(sources.contains(&SEGMENTS.to_string()), "{sources}");
    assert!(count("audit").await.is_ok() && count("rejects").await.is_ok());
    let log = files_below(&lake.folder().join("lake/sources/_delta_log"));
    let last = log
        .iter()
        .rfind(|path| path.extension().is_some_and(|end| end == "json"));
    std::fs::remove_file(last.unwrap()).unwrap();
    let refused = count("sources").await.unwrap_err();
    assert!(refused.contains("entries are missing"), "{refused}");
    assert!(count("audit").await.is_ok());
    std::fs::remove_dir_all(lake.folder().join("lake/audit/_delta_log")).unwrap();
    let refused = count("audit").await.unwrap_err();
    assert!(refused.contains("has lost its table `audit`"), "{refused}");
}
