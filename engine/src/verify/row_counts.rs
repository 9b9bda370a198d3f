//! The numbers of rows in a segment that its log states, by which segments without such rows aren't
//! read.

use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field;
use parquet::errors::ParquetError;

use crate::lake::{disclosed_rows_in, superseding_rows_in};
use crate::segment::SegmentReader;

/// Rows of which the columns that are counted are read at a time.
const COUNTED_ROWS: usize = 1 << 14;

/// Returns how the numbers of rows that supersede others, and that are disclosed copies, differ
/// from those in the log.
pub(super) fn differing(
    counted: [u64; 2],
    logged: [Option<u64>; 2],
) -> impl Iterator<Item = String> {
    let names = ["supersede others", "are disclosed copies"];
    let pairs = counted.into_iter().zip(logged).zip(names);
    pairs.filter_map(|((found, logged), name)| {
        let logged = logged.filter(|logged| *logged != found)?;
        Some(format!("{found} of its rows {name}, its log says {logged}"))
    })
}

/// Counts the rows of an open segment that supersede others, and that are disclosed copies.
pub(super) fn row_counts(reader: &SegmentReader) -> std::result::Result<[u64; 2], ParquetError> {
    let columns = [SystemColumn::Supersedes.name(), Field::DisclosureOf.name()];
    let mut counts = [0; 2];
    for batch in reader.read(0..reader.row_groups(), Some(&columns), COUNTED_ROWS)? {
        let batch = batch?;
        let found = [superseding_rows_in(&batch), disclosed_rows_in(&batch)];
        for (count, found) in counts.iter_mut().zip(found) {
            *count += found.unwrap_or_default();
        }
    }
    Ok(counts)
}
