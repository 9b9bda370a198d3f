//! Merging the files of a small table.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use object_store::path::Path;
use tempfile::NamedTempFile;

use super::COMMIT_ATTEMPTS;
use crate::error::{BoxError, Context, Result};
use crate::file_digest::WrittenFile;
use crate::lake::{Change, DataFile, Table, is_sealed_file};
use crate::segment::{RecordWriter, SegmentId, SegmentReader};

/// Rows that are copied at a time.
const BATCH_ROWS: usize = 1_024;

/// Merges the files of `table`, if there are at least `least`. Returns how many there were.
pub(super) async fn merge(table: &mut Table, least: usize) -> Result<Option<u64>> {
    let (removed, are_sealed) = mergeable_files(table)?;
    if removed.len() < least.max(2) {
        return Ok(None);
    }
    let files = removed.len() as u64;
    let mut readers = VecDeque::with_capacity(removed.len());
    for file in &removed {
        let path = table.path_of(&file.name);
        let bytes = table.location().read(&path).await?;
        let reader = SegmentReader::open(bytes).file("can't read", &path)?;
        readers.push_back((path, reader));
    }
    let name = SegmentId::new_sealed(are_sealed).file_name();
    let path = table.path_of(&name);
    let scratch = table.location().scratch_file()?;
    let target = path.clone();
    let written = tokio::task::spawn_blocking(move || {
        copy(readers, &scratch, &target).map(|written| (scratch, written))
    });
    let (scratch, written) = written.await.file("can't write", &path)??;
    table.location().publish(scratch, &path).await?;
    let change = Change {
        added: vec![DataFile::new(name, written)],
        removed,
        ..Change::default()
    };
    table.commit(change, "compact", COMMIT_ATTEMPTS).await?;
    Ok(Some(files))
}

/// Returns the encrypted or the plain files of `table`, whichever are more, and whether they are
/// encrypted: the two aren't merged with each other.
fn mergeable_files(table: &Table) -> Result<(Vec<DataFile>, bool)> {
    let mut files = table.files()?;
    let sealed = files
        .iter()
        .filter(|file| is_sealed_file(&file.name))
        .count();
    let most_are_sealed = 2 * sealed > files.len();
    files.retain(|file| is_sealed_file(&file.name) == most_are_sealed);
    Ok((files, most_are_sealed))
}

/// Copies all rows, in the order of the files, to `file`, which will be the file `target`.
fn copy(
    readers: VecDeque<(Path, SegmentReader)>,
    file: &NamedTempFile,
    target: &Path,
) -> Result<WrittenFile> {
    let mut writer: Option<RecordWriter> = None;
    for (path, reader) in readers {
        let batches = reader.read(0..reader.row_groups(), None, BATCH_ROWS);
        for batch in batches.file("can't read", &path)? {
            append(&mut writer, &batch.file("can't read", &path)?, file)
                .file("can't write", target)?;
        }
    }
    let written: Result<WrittenFile, BoxError> = match writer {
        Some(writer) => writer.finish().map_err(Into::into),
        None => Err("the files hold no rows".into()),
    };
    written.file("can't write", target)
}

/// Writes `batch` to `file` with `writer`, which the first batch creates.
fn append(
    writer: &mut Option<RecordWriter>,
    batch: &RecordBatch,
    file: &NamedTempFile,
) -> Result<(), BoxError> {
    let writer = match writer {
        Some(writer) => writer,
        empty => empty.insert(RecordWriter::create(file, batch.schema())?),
    };
    Ok(writer.write(batch)?)
}
