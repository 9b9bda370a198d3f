//! Checking one row group: every blob, and every cell that follows from it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use gristmill_connectors::source::SourceBytes;
use gristmill_schemas::columns::{PROJECTION_VERSION, SystemColumn};
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::Marks;

use super::compare::{AbsentColumn, CellDifference, StoredVerdicts, differences, texts_of};
use super::report::{Findings, Problem};
use super::stated::{Contradictions, SegmentStatement};
use super::value_bounds::{ValueBounds, WrongBounds};
use super::value_filters::{LackingValues, ValueFilters};
use crate::decoder_panic::caught;
use crate::ingest::device_profile::ProfileCounts;
use crate::ingest::prove::ProofOptions;
use crate::keys::LakeKeys;
use crate::lake::{FROM_BACKUP, Segment};
use crate::reproject::{ORIGINS, Reprojected, Reprojector, RowState};
use crate::segment::SegmentReader;

/// Rows that are read at a time.
const BATCH_ROWS: usize = 8_192;

/// The count of rows that differ from their blobs because another version of the projection wrote
/// them.
const OTHER_PROJECTION: &str = "other_projection";

/// A segment, and the keys to its rows if they are encrypted.
#[derive(Clone)]
pub(crate) struct OpenSegment {
    pub(crate) reader: SegmentReader,
    pub(crate) keys: Option<Arc<LakeKeys>>,
    /// The data file, from the lake's root.
    pub(crate) name: Arc<str>,
    /// Which stored results of signature checks count as equal.
    pub(crate) verdicts: StoredVerdicts,
    /// What the lake states about its rows.
    pub(crate) stated: SegmentStatement,
}

/// The result of checking a row group. Rows are counted from the start of the file.
#[derive(Debug, Default)]
pub(crate) struct RowGroupCheck {
    /// The rows of the group.
    pub(crate) rows: Range<u64>,
    /// Rows whose cells differ from the projection of their blobs, with the columns.
    pub(crate) differing: Vec<(Range<u64>, Vec<String>)>,
    /// Rows whose blob isn't the grain of their address.
    pub(crate) failed: Vec<FailedRow>,
    /// Rows whose keys were destroyed.
    pub(crate) erased: Vec<u64>,
    /// Columns that can't be decoded, and the error of the first of them. Without columns, it isn't
    /// known which they are.
    pub(crate) undecodable: Option<(Vec<String>, String)>,
    good: u64,
    blob_bytes: u64,
    marks: BTreeMap<&'static str, u64>,
    beyond_profile: ProfileCounts,
    contradictions: Contradictions,
    lacking: LackingValues,
    wrong_bounds: WrongBounds,
    /// What is wrong with the places of pages in the page index.
    misplaced: Option<String>,
}

/// A row whose blob isn't the grain of its address.
#[derive(Debug)]
pub(crate) struct FailedRow {
    pub(crate) row: u64,
    pub(crate) content_address: Option<String>,
    pub(crate) error: GrainError,
}

impl OpenSegment {
    /// Checks all rows of row group `number`. Columns that can't be decoded are reported, and the
    /// others are checked without them if possible.
    pub(crate) fn check(&self, number: usize, proof_options: ProofOptions<'_>) -> RowGroupCheck {
        let check = match self.check_columns(number, None, proof_options) {
            Ok(check) => RowGroupCheck {
                misplaced: self.misplaced(number),
                ..check
            },
            Err(cause) => self.check_decodable(number, cause, proof_options),
        };
        self.reader.release(number);
        check
    }

    /// Returns what is wrong with the places of pages in the page index of row group `number`. All
    /// columns can be decoded, which doesn't depend on them.
    fn misplaced(&self, number: usize) -> Option<String> {
        match caught(|| self.reader.check_page_places(number)) {
            Some(checked) => checked.err().map(|error| error.to_string()),
            None => Some("its bytes can't be decoded".to_owned()),
        }
    }

    /// Returns the rows of row group `number`, counted from the start of the file.
    pub(crate) fn rows_of(&self, number: usize) -> Range<u64> {
        let first = self.reader.rows_before(number);
        first..first + self.reader.row_group_rows(number)
    }

    fn check_decodable(
        &self,
        number: usize,
        cause: String,
        proof_options: ProofOptions<'_>,
    ) -> RowGroupCheck {
        let is_decodable = |column: &&str| is_decodable(&self.reader, number, column);
        let (decodable, damaged): (Vec<&str>, Vec<&str>) = self
            .reader
            .column_names()
            .into_iter()
            .partition(is_decodable);
        let checked = match has_origins(&decodable) && !damaged.is_empty() {
            true => self
                .check_columns(number, Some(&decodable), proof_options)
                .ok(),
            false => None,
        };
        let damaged = damaged.into_iter().map(str::to_owned).collect();
        RowGroupCheck {
            rows: self.rows_of(number),
            undecodable: Some((damaged, cause)),
            ..checked.unwrap_or_default()
        }
    }

    /// Checks the rows by `columns`, or by all. A damaged file must not end the check of the
    /// others, whatever it causes in the reader.
    fn check_columns(
        &self,
        number: usize,
        columns: Option<&[&str]>,
        proof_options: ProofOptions<'_>,
    ) -> Result<RowGroupCheck, String> {
        let check = || self.check_batches(number, columns, proof_options);
        match caught(check) {
            Some(checked) => checked.map_err(|error| error.to_string()),
            None => Err("its bytes can't be decoded".to_owned()),
        }
    }

    fn check_batches(
        &self,
        number: usize,
        columns: Option<&[&str]>,
        proof_options: ProofOptions<'_>,
    ) -> Result<RowGroupCheck, ArrowError> {
        let rows = self.rows_of(number);
        let mut check = RowGroupCheck {
            rows: rows.clone(),
            ..RowGroupCheck::default()
        };
        let filters = ValueFilters::read(&self.reader, number, &mut check.lacking);
        let (of_file, wrong) = (self.stated.bounds(), &mut check.wrong_bounds);
        let mut bounds = ValueBounds::read(&self.reader, number, of_file, wrong);
        let mut next = rows.start;
        let mut reprojector = Reprojector::new(proof_options, self.keys.as_deref());
        let lacking = match columns {
            Some(_) => AbsentColumn::Unread,
            None => AbsentColumn::Null,
        };
        let batches: Box<dyn Iterator<Item = _>> = match columns {
            None => Box::new(self.reader.read_row_group(number, BATCH_ROWS)?),
            columns => Box::new(self.reader.read(number..number + 1, columns, BATCH_ROWS)?),
        };
        for batch in batches {
            let batch = batch?;
            let first = next;
            next += batch.num_rows() as u64;
            let contradictions = &mut check.contradictions;
            self.stated.check(first, &batch, contradictions);
            filters.check(first, &batch, &mut check.lacking);
            bounds.check(first, &batch, &mut check.wrong_bounds);
            if let Some(equal) = reprojector.all_equal(&batch) {
                check.blob_bytes += equal.blob_bytes;
                check.beyond_profile.merge(equal.beyond_profile);
                let marks = equal.marks.into_iter();
                marks.for_each(|marks| check.add_good(marks));
                continue;
            }
            let made = reprojector.reproject(&batch);
            let made = made.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
            let differing = differences(&batch, &made, lacking, self.verdicts)?;
            check.add(first, &batch, &made, differing);
        }
        bounds.finish(&mut check.wrong_bounds);
        match next == rows.end {
            true => Ok(check),
            false => Err(ArrowError::ParquetError(format!(
                "it ends at row {next}, not at {}",
                rows.end
            ))),
        }
    }
}

impl RowGroupCheck {
    /// Adds the rows of `batch`, which begins at row `first` of the file.
    fn add(
        &mut self,
        first: u64,
        batch: &RecordBatch,
        made: &Reprojected,
        differing: Vec<CellDifference>,
    ) {
        self.blob_bytes += made.blob_bytes;
        self.beyond_profile.merge(made.beyond_profile);
        let mut differs = vec![false; batch.num_rows()];
        for CellDifference { rows, columns } in differing {
            differs
                .get_mut(rows.clone())
                .into_iter()
                .for_each(|rows| rows.fill(true));
            self.differing
                .push((first + rows.start as u64..first + rows.end as u64, columns));
        }
        let addresses = texts_of(batch, ORIGINS[0]);
        for (row, (state, differs)) in made.states.iter().zip(differs).enumerate() {
            match state {
                RowState::Derived { marks, .. } if !differs => self.add_good(*marks),
                RowState::Derived { .. } => {}
                RowState::Erased => self.erased.push(first + row as u64),
                RowState::Failed(error) => self.failed.push(FailedRow {
                    row: first + row as u64,
                    content_address: addresses.map(|addresses| addresses.value(row).to_owned()),
                    error: error.clone(),
                }),
            }
        }
    }

    fn add_good(&mut self, marks: Marks) {
        self.good += 1;
        marks
            .iter()
            .for_each(|mark| *self.marks.entry(mark.name()).or_default() += 1);
    }

    /// Converts the check to findings of a verification of `segment`.
    pub(super) fn into_findings(self, segment: &OpenSegment, limit: usize) -> Findings {
        let mut findings = Findings::default();
        findings.ok = self.good;
        findings.bytes = self.blob_bytes;
        for (&mark, &count) in &self.marks {
            findings.mark(mark, count);
        }
        for (name, count) in self.beyond_profile.named() {
            findings.mark(name, count);
        }
        if segment.reader.projection_version() != PROJECTION_VERSION {
            for (rows, _) in &self.differing {
                let count = rows.end - rows.start;
                findings.mark(OTHER_PROJECTION, count);
                findings.ok += count;
            }
        }
        let (stated, found) = (&segment.stated, &self.contradictions);
        stated.report(found, &segment.name, &mut findings, limit);
        let (lacking, begin) = (&self.lacking, self.rows.start);
        lacking.report(&segment.name, begin, &mut findings, limit);
        let wrong = &self.wrong_bounds;
        wrong.report(&segment.name, begin, &mut findings, limit);
        if let Some(cause) = &self.misplaced {
            findings.bad(misplaced_problem(segment, &self.rows, cause), limit);
        }
        let mut problems = self.into_problems(segment);
        problems.sort_by_key(|(problem, _)| problem.ordinal);
        for (problem, count) in problems {
            findings.bad_rows(problem, count, limit);
        }
        findings
    }

    /// Returns the problems of the check, each with the number of rows that count as bad.
    fn into_problems(self, segment: &OpenSegment) -> Vec<(Problem, u64)> {
        let is_current = segment.reader.projection_version() == PROJECTION_VERSION;
        let mut problems = Vec::new();
        for (rows, columns) in self.differing.into_iter().filter(|_| is_current) {
            let count = rows.end - rows.start;
            let problem = Problem::differs(&segment.name, rows.start as i64, &columns);
            problems.push((problem.spanning(count), count));
        }
        for failed in self.failed {
            problems.push((failed.into_problem(segment), 1));
        }
        if let Some((columns, cause)) = &self.undecodable {
            let problem = undecodable_problem(segment, &self.rows, columns, cause);
            problems.push((problem, 1));
        }
        problems
    }
}

impl FailedRow {
    fn into_problem(self, segment: &OpenSegment) -> Problem {
        let problem = Problem::new(&segment.name, self.row as i64, &self.error).of_grains();
        Problem {
            content_address: self.content_address,
            repair: Some(FROM_BACKUP.into()),
            ..problem
        }
    }
}

/// Returns the problem of `rows`, whose page index is wrong because of `cause`.
fn misplaced_problem(segment: &OpenSegment, rows: &Range<u64>, cause: &str) -> Problem {
    let cause = format!("its page index is wrong, so queries for few rows read others: {cause}");
    let error = GrainError::new(ErrorCode::Integrity, cause);
    let problem = Problem::new(&segment.name, rows.start as i64, &error).of_grains();
    Problem {
        repair: Some(FROM_BACKUP.into()),
        ..problem.spanning(rows.end - rows.start)
    }
}

/// Returns the problem of `rows`, of which `columns` can't be decoded. Without the blob nothing
/// else can be computed.
fn undecodable_problem(
    segment: &OpenSegment,
    rows: &Range<u64>,
    columns: &[String],
    cause: &str,
) -> Problem {
    let problem = Problem::unreadable(&segment.name, rows.start as i64, &cause)
        .spanning(rows.end - rows.start);
    let problem = match columns.is_empty() {
        true => problem,
        false => problem.of_columns(columns),
    };
    match columns
        .iter()
        .any(|column| *column == SystemColumn::Blob.name())
    {
        true => Problem {
            repair: Some(FROM_BACKUP.into()),
            ..problem
        },
        false => problem,
    }
}

/// Returns true if the column `name` of row group `number` can be decoded to its end.
fn is_decodable(reader: &SegmentReader, number: usize, name: &str) -> bool {
    let read = || -> Result<u64, ArrowError> {
        let batches = reader.read(number..number + 1, Some(&[name]), BATCH_ROWS)?;
        batches.map(|batch| Ok(batch?.num_rows() as u64)).sum()
    };
    let rows = reader.row_group_rows(number);
    matches!(caught(read), Some(Ok(read)) if read == rows)
}

/// Returns whether grains can be read from `columns`.
fn has_origins(columns: &[&str]) -> bool {
    // Without marks, grains are read by the strict rules first.
    let needed = |name: &&&str| **name != SystemColumn::Marks.name();
    ORIGINS
        .iter()
        .filter(needed)
        .all(|name| columns.contains(name))
}

/// Opens the data file of `segment`, which must have the size and the number of rows in its table's
/// log.
pub(crate) fn open_segment(
    bytes: SourceBytes,
    segment: &Segment,
) -> std::result::Result<SegmentReader, String> {
    let file = &segment.file;
    if bytes.len() as u64 != file.size {
        return Err(format!(
            "it has {} bytes, its log says {}",
            bytes.len(),
            file.size
        ));
    }
    let reader = SegmentReader::open(bytes).map_err(|error| error.to_string())?;
    match reader.rows() == file.rows {
        true => Ok(reader),
        false => Err(format!(
            "it has {} rows, its log says {}",
            reader.rows(),
            file.rows
        )),
    }
}
