//! Damaged checkpoints of a table's log.

use std::fs::File;
use std::path::{Path, PathBuf};

use gristmill_engine::lake::Table;
use gristmill_schemas::columns::GRAINS;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::lab::Lab;

/// Bytes from the start of a page that are damaged: most of its header.
const HEADER: u64 = 20;

/// The bit that turns a page's encoding from `PLAIN` into one that needs a dictionary, which pages
/// of checkpoints don't have.
const BIT: u8 = 0x10;

/// Returns the checkpoint of `grains` in `lake`.
fn checkpoint(lake: &Path) -> PathBuf {
    let files = std::fs::read_dir(lake.join("grains/_delta_log")).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    files
        .find(|file| file.to_string_lossy().ends_with(".checkpoint.parquet"))
        .unwrap()
}

/// Returns the offset of the first data page of each column.
fn pages(file: &Path) -> Vec<u64> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file).unwrap()).unwrap();
    let columns = reader.metadata().row_group(0).columns();
    let page = columns
        .iter()
        .map(|column| column.data_page_offset() as u64);
    page.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_page_of_a_checkpoint_is_an_error_and_no_panic() {
    let lab = Lab::new(2, 5, false).await;
    let mut lake = lab.lake().await;
    lake.purge(true).await.unwrap();
    let file = checkpoint(&lab.path(""));
    let bytes = std::fs::read(&file).unwrap();
    for at in pages(&file).iter().flat_map(|page| *page..page + HEADER) {
        let mut damaged = bytes.clone();
        damaged[at as usize] ^= BIT;
        std::fs::write(&file, &damaged).unwrap();
        let location = lake.location().clone();
        // Another task, so that a panic is its result.
        let opened = tokio::spawn(async move { Table::open(&location, GRAINS).await.map(drop) });
        let opened = opened.await;
        assert!(opened.is_ok(), "the byte {at}: {opened:?}");
        let message = opened.unwrap().err().map(|error| error.to_string());
        if message.is_some_and(|text| text.contains("can't be decoded")) {
            // A panic of the reader became an error.
            return;
        }
    }
    panic!("no damage caused a panic in the reader: the test is obsolete");
}
