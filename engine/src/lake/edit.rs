//! Rewriting data files of the small tables.

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use super::Lake;
use super::lake_file::LakeFile;
use super::row_versions::RowVersions;
use super::table::{Change, DataFile, Table};
use crate::error::{Context, Result};
use crate::segment::{RecordWriter, SegmentId};

/// Rewrites the file `data` of a small table with the result of `edit` for each batch (and the
/// number of its first row). Adds the exchange of the files to `change`. Rows that stay are as old
/// as they were: what an erasure blanks in them changes no state of a grain.
pub(crate) async fn edit_file(
    lake: &Lake,
    table: &Table,
    data: &DataFile,
    change: &mut Change,
    edit: impl Fn(u32, RecordBatch) -> Result<RecordBatch>,
) -> Result<()> {
    let path = table.path_of(&data.name);
    let file = LakeFile::open(lake, &path).await?;
    let id = SegmentId::new_sealed(file.is_sealed());
    let scratch = lake.location().scratch_file()?;
    let mut writer = RecordWriter::create(&scratch, file.schema()).file("can't write", &path)?;
    let mut at = 0;
    for batch in file.stored_rows(None)? {
        let batch = batch.file("can't read", &path)?;
        let first = at;
        at += batch.num_rows() as u32;
        let kept = edit(first, batch)?;
        writer.write(&kept).file("can't write", &path)?;
    }
    let written = writer.finish().file("can't write", &path)?;
    change.removed.push(data.clone());
    change.changes_rows = true;
    if written.rows > 0 {
        let name = id.file_name();
        lake.location()
            .publish(scratch, &table.path_of(&name))
            .await?;
        let versions = data.versions.clone();
        let versions = versions.unwrap_or_else(|| RowVersions::added(None, table.version()));
        change.added.push(DataFile {
            versions: Some(versions),
            ..DataFile::new(name, written)
        });
    }
    Ok(())
}

/// Returns `batch` without the rows for whose numbers in the file `gone` is true.
pub(crate) fn drop_rows(
    first: u32,
    batch: &RecordBatch,
    gone: impl Fn(u32) -> bool,
) -> Result<RecordBatch> {
    let mask: BooleanArray = (first..first + batch.num_rows() as u32)
        .map(|row| Some(!gone(row)))
        .collect();
    filter_record_batch(batch, &mask).file("can't filter", "a table")
}
