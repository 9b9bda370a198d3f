//! Checking one row group: every blob, and every cell that follows from it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use gristmill_schemas::columns::PROJECTION_VERSION;

use super::VerifyOptions;
use super::compare::{Difference, Lacking, differences, texts_of};
use super::report::{Findings, Problem};
use crate::keys::LakeKeys;
use crate::reproject::{ORIGINS, Reprojected, Reprojector, RowState};
use crate::segment::SegmentReader;

/// Rows that are read at a time.
const BATCH_ROWS: usize = 8_192;

/// Counted for a row that differs from its blob because another version of the projection made it.
const OTHER_PROJECTION: &str = "other_projection";

/// A segment, and what opens its rows if they are sealed.
#[derive(Clone)]
pub(super) struct OpenSegment {
    pub(super) reader: SegmentReader,
    pub(super) keys: Option<Arc<LakeKeys>>,
    /// The data file, from the lake's root.
    pub(super) name: Arc<str>,
}

impl OpenSegment {
    /// Checks all rows of row group `number`. Columns that can't be decoded are named, and the others are checked as far as they go
    /// without them.
    pub(super) fn check(&self, number: usize, options: &VerifyOptions) -> Findings {
        let findings = match self.check_columns(number, None, options) {
            Ok(findings) => findings,
            Err(cause) => self.check_readable(number, &cause, options),
        };
        self.reader.release(number);
        findings
    }

    fn check_readable(&self, number: usize, cause: &str, options: &VerifyOptions) -> Findings {
        let first = self.reader.rows_before(number);
        let (readable, damaged): (Vec<&str>, Vec<&str>) =
            self.reader.column_names().into_iter().partition(|column| is_readable(&self.reader, number, column));
        let has_origins = ORIGINS.iter().all(|name| readable.contains(name));
        let checked = match has_origins && !damaged.is_empty() {
            true => self.check_columns(number, Some(&readable), options).ok(),
            false => None,
        };
        let mut findings = checked.unwrap_or_default();
        let problem =
            Problem::unreadable(&self.name, first as i64, &cause).spanning(self.reader.row_group_rows(number));
        let problem = if damaged.is_empty() { problem } else { problem.of_columns(&damaged) };
        findings.bad(problem, options.problems);
        findings
    }

    /// Checks the rows by `columns`; all if none are named. A damaged file must not end the check of the others, whatever it does
    /// to the reader.
    fn check_columns(
        &self,
        number: usize,
        columns: Option<&[&str]>,
        options: &VerifyOptions,
    ) -> Result<Findings, String> {
        let check = || -> Result<Findings, ArrowError> {
            let mut findings = Findings::default();
            let mut first = self.reader.rows_before(number);
            let mut reprojector = Reprojector::new(options.judgement(), self.keys.as_deref());
            let lacking = if columns.is_some() { Lacking::Unread } else { Lacking::Null };
            for batch in self.reader.read(number..number + 1, columns, BATCH_ROWS)? {
                let batch = batch?;
                let made = reprojector.reproject(&batch);
                let made = made.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
                let differing = differences(&batch, &made, lacking)?;
                self.report(first, &batch, &made, differing, options, &mut findings);
                first += batch.num_rows() as u64;
            }
            let expected = self.reader.rows_before(number) + self.reader.row_group_rows(number);
            match first == expected {
                true => Ok(findings),
                false => Err(ArrowError::ParquetError(format!("it ends at row {first}, not at {expected}"))),
            }
        };
        match catch_unwind(AssertUnwindSafe(check)) {
            Ok(checked) => checked.map_err(|error| error.to_string()),
            Err(_) => Err("its bytes can't be decoded".to_owned()),
        }
    }

    /// Counts the rows of `batch`, the first of which is row `first` of the file.
    fn report(
        &self,
        first: u64,
        batch: &RecordBatch,
        made: &Reprojected,
        differing: Vec<Difference>,
        options: &VerifyOptions,
        findings: &mut Findings,
    ) {
        findings.bytes += made.blob_bytes;
        let is_current = self.reader.projection_version() == PROJECTION_VERSION;
        let mut differs = vec![false; batch.num_rows()];
        for Difference { rows, columns } in differing {
            differs.get_mut(rows.clone()).into_iter().for_each(|rows| rows.fill(true));
            if is_current {
                let problem = Problem::differs(&self.name, (first + rows.start as u64) as i64, &columns);
                let count = rows.len() as u64;
                findings.bad_rows(problem.spanning(count), count, options.problems);
            } else {
                findings.mark(OTHER_PROJECTION, rows.len() as u64);
                findings.ok += rows.len() as u64;
            }
        }
        let addresses = texts_of(batch, ORIGINS[0]);
        for (row, (state, differs)) in made.states.iter().zip(differs).enumerate() {
            match state {
                RowState::Derived { marks, .. } if !differs => findings.good(*marks),
                RowState::Derived { .. } | RowState::Erased => {}
                RowState::Failed(error) => {
                    let problem = Problem::new(&self.name, (first + row as u64) as i64, error).of_grains();
                    let content_address = addresses.map(|addresses| addresses.value(row).to_owned());
                    findings.bad(Problem { content_address, ..problem }, options.problems);
                }
            }
        }
    }
}

/// True if the column `name` of row group `number` can be decoded to its end.
fn is_readable(reader: &SegmentReader, number: usize, name: &str) -> bool {
    let read = || -> Result<u64, ArrowError> {
        let batches = reader.read(number..number + 1, Some(&[name]), BATCH_ROWS)?;
        batches.map(|batch| Ok(batch?.num_rows() as u64)).sum()
    };
    let rows = reader.row_group_rows(number);
    matches!(catch_unwind(AssertUnwindSafe(read)), Ok(Ok(read)) if read == rows)
}
