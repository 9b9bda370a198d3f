//! Merging the files of a small table.

use std::collections::VecDeque;

use parquet::arrow::ArrowWriter;
use tempfile::NamedTempFile;

use super::COMMIT_ATTEMPTS;
use crate::error::{Context, Result};
use crate::lake::{Change, DataFile, Table, is_sealed_file};
use crate::segment::{SegmentId, SegmentReader, records_properties};

/// Rows that are copied at a time.
const BATCH_ROWS: usize = 1_024;

/// Bytes of an encoded row group from which on it is closed.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// Makes one file of those of `table`, if there are at least `least`; answers how many there were.
pub(super) async fn merge(table: &mut Table, least: usize) -> Result<Option<u64>> {
    let mut removed = table.files()?;
    // What is sealed doesn't stand beside what isn't.
    let sealed = removed.iter().filter(|file| is_sealed_file(&file.name)).count();
    let most_are_sealed = 2 * sealed > removed.len();
    removed.retain(|file| is_sealed_file(&file.name) == most_are_sealed);
    if removed.len() < least.max(2) {
        return Ok(None);
    }
    let files = removed.len() as u64;
    let mut readers = VecDeque::with_capacity(removed.len());
    for file in &removed {
        let path = table.path_of(&file.name);
        readers.push_back(SegmentReader::open(table.location().read(&path).await?).file("can't read", &path)?);
    }
    let name = SegmentId::new_sealed(most_are_sealed).file_name();
    let path = table.path_of(&name);
    let scratch = table.location().scratch_file()?;
    let written = tokio::task::spawn_blocking(move || copy(readers, &scratch).map(|rows| (scratch, rows)));
    let (scratch, rows) = written.await.file("can't write", &path)?.file("can't write", &path)?;
    let size = scratch.as_file().metadata().file("can't write", &path)?.len();
    table.location().publish(scratch, &path).await?;
    let change = Change { added: vec![DataFile { name, size, rows }], removed, ..Change::default() };
    table.commit(change, "compact", COMMIT_ATTEMPTS).await?;
    Ok(Some(files))
}

/// Copies all rows, in the order of the files; answers how many there are.
fn copy(
    readers: VecDeque<SegmentReader>,
    file: &NamedTempFile,
) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let mut writer: Option<ArrowWriter<std::fs::File>> = None;
    let mut rows = 0;
    for reader in readers {
        for batch in reader.read(0..reader.row_groups(), None, BATCH_ROWS)? {
            let batch = batch?;
            let writer = match &mut writer {
                Some(writer) => writer,
                empty => {
                    empty.insert(ArrowWriter::try_new(file.reopen()?, batch.schema(), Some(records_properties()))?)
                }
            };
            writer.write(&batch)?;
            rows += batch.num_rows() as u64;
            if writer.in_progress_size() > ROW_GROUP_BYTES {
                writer.flush()?;
            }
        }
    }
    match writer {
        Some(writer) => writer.close().map(|_| rows).map_err(Into::into),
        None => Err("the files hold no rows".into()),
    }
}
