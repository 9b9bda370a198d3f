//! Whether the Bloom filters of a row group have the values of its rows: queries for a value pass
//! over the row groups whose filters don't have it.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use gristmill_schemas::error::{ErrorCode, GrainError};
use parquet::bloom_filter::Sbbf;

use super::compare::texts_of;
use super::report::{Findings, Problem};
use crate::lake::FROM_BACKUP;
use crate::segment::SegmentReader;

/// The Bloom filters of a row group, by the names of their columns.
pub(super) struct ValueFilters(Vec<(String, Sbbf)>);

/// Values that the filters of a row group lack.
#[derive(Debug, Default)]
pub(super) struct LackingValues {
    /// The first row and the number of rows, by the names of the columns.
    columns: BTreeMap<String, (u64, u64)>,
    /// Why the filters can't be read.
    unreadable: Option<String>,
}

impl ValueFilters {
    /// Reads the filters of row group `number`. Notes in `found` if they can't be read.
    pub(super) fn read(
        reader: &SegmentReader,
        number: usize,
        found: &mut LackingValues,
    ) -> ValueFilters {
        ValueFilters(reader.bloom_filters(number).unwrap_or_else(|error| {
            found.unreadable = Some(error.to_string());
            Vec::new()
        }))
    }

    /// Notes the values of `batch` in `found` that their filters lack. The batch begins at row
    /// `first` of the file.
    pub(super) fn check(&self, first: u64, batch: &RecordBatch, found: &mut LackingValues) {
        for (name, filter) in &self.0 {
            let cells = texts_of(batch, name).into_iter().flatten();
            for (row, cell) in cells.enumerate() {
                if cell.is_some_and(|cell| !filter.check(cell)) {
                    let row = first + row as u64;
                    let lacking = found.columns.entry(name.clone()).or_insert((row, 0));
                    lacking.1 += 1;
                }
            }
        }
    }
}

impl LackingValues {
    /// Adds the problems of a row group of the data file `name` to `findings`. The group begins at
    /// row `begin`.
    pub(super) fn report(&self, name: &str, begin: u64, findings: &mut Findings, limit: usize) {
        if let Some(error) = &self.unreadable {
            let cause = format!("the Bloom filters of its row group can't be read: {error}");
            findings.bad(problem(name, begin, cause), limit);
        }
        for (column, (first, rows)) in &self.columns {
            let cause = "its Bloom filter lacks values of the rows, so queries for them pass over \
                         the row group";
            let found = problem(name, *first, cause.to_owned()).spanning(*rows);
            findings.bad(found.of_columns(&[column]), limit);
        }
    }
}

/// Returns a problem of the data file `name` from its row `row` on.
fn problem(name: &str, row: u64, cause: String) -> Problem {
    let error = GrainError::new(ErrorCode::Integrity, cause);
    Problem {
        repair: Some(FROM_BACKUP.into()),
        ..Problem::new(name, row as i64, &error).of_grains()
    }
}
