//! Cells that don't follow from blobs, or that are read to judge a damaged row.

use std::collections::BTreeSet;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::concat;
use arrow::error::ArrowError;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;

use crate::segment::AddressIndex;
use crate::verify::row_group::OpenSegment;

/// Rows that are read at a time.
const BATCH_ROWS: usize = 8_192;

const ADDRESS: &str = SystemColumn::ContentAddress.name();
const BLOB: &str = SystemColumn::Blob.name();
const SOURCE: &str = SystemColumn::SourceId.name();

/// Returns the sources of the rows of row group `number` as they are stored, or `None` if they
/// can't be read.
pub(super) fn sources_of(segment: &OpenSegment, number: usize) -> Option<StringArray> {
    let batches = segment
        .reader
        .read(number..number + 1, Some(&[SOURCE]), BATCH_ROWS)
        .ok()?;
    let columns: Vec<ArrayRef> = batches
        .map(|batch| Some(batch.ok()?.column(0).clone()))
        .collect::<Option<_>>()?;
    let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    concat(&columns).ok()?.as_string_opt::<i32>().cloned()
}

/// Returns those of `rows` of row group `number` to which the hash of their blob leads in `index`.
pub(super) fn proven_rows(
    segment: &OpenSegment,
    number: usize,
    index: &AddressIndex,
    rows: &BTreeSet<u64>,
) -> BTreeSet<u64> {
    let mut proven = BTreeSet::new();
    let mut first = segment.rows_of(number).start;
    let Ok(batches) = segment
        .reader
        .read(number..number + 1, Some(&[BLOB]), BATCH_ROWS)
    else {
        return proven;
    };
    for batch in batches.map_while(Result::ok) {
        let end = first + batch.num_rows() as u64;
        if let Some(blobs) = batch.column(0).as_binary_opt::<i32>() {
            let leads_to = |row: &u64| leads_to(index, blobs.value((row - first) as usize), *row);
            proven.extend(rows.range(first..end).copied().filter(leads_to));
        }
        first = end;
    }
    proven
}

/// Returns `batch`, which begins at row `first` of the segment, with the address of every row whose
/// blob `index` has at this row.
pub(super) fn with_proven_addresses(
    batch: &RecordBatch,
    first: u64,
    index: &AddressIndex,
) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let place = schema.index_of(ADDRESS)?;
    let blobs = batch
        .column_by_name(BLOB)
        .and_then(|column| column.as_binary_opt::<i32>());
    let blobs = blobs.ok_or_else(|| ArrowError::SchemaError("no blobs".to_owned()))?;
    let stored = batch.column(place).as_string::<i32>();
    let address = |(row, (stored, blob)): (usize, (Option<&str>, Option<&[u8]>))| {
        let blob = blob.unwrap_or_default();
        match leads_to(index, blob, first + row as u64) {
            true => Some(ContentAddress::of(blob).to_string()),
            false => stored.map(str::to_owned),
        }
    };
    let addresses: StringArray = stored.iter().zip(blobs).enumerate().map(address).collect();
    let mut columns = batch.columns().to_vec();
    if let Some(column) = columns.get_mut(place) {
        *column = std::sync::Arc::new(addresses);
    }
    RecordBatch::try_new(schema, columns)
}

fn leads_to(index: &AddressIndex, blob: &[u8], row: u64) -> bool {
    index
        .row_of(&ContentAddress::of(blob))
        .is_some_and(|found| u64::from(found) == row)
}
