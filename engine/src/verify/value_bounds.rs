//! Whether statistics are those of the rows: readers pass over files, row groups and pages whose
//! minima, maxima and counts of nulls exclude what they look for.
//!
//! A minimum or maximum may be wider than the values, as those of long texts are. It is wrong if a
//! value is outside. Zeros of both signs are equal, and values that are no numbers are outside of
//! no bounds, as in Parquet's rules for writers.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Float64Type, Int16Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use gristmill_schemas::error::{ErrorCode, GrainError};

use super::report::{Findings, Problem};
use crate::lake::{FROM_BACKUP, REMEDY_OF_FILES};
use crate::segment::{BoundValue, SegmentReader, StatedBounds, StatisticsOf};

/// The statistics of a row group, and what was counted in the rows so far.
pub(super) struct ValueBounds(Vec<ComparedBounds>);

/// Statistics, and what was counted in their rows so far.
struct ComparedBounds {
    stated: StatedBounds,
    rows: u64,
    nulls: u64,
}

/// What is wrong with statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum BoundFault {
    /// Values are outside of minimum and maximum.
    Values,
    /// The rows have another number of nulls.
    Nulls,
}

/// Statistics of a row group that aren't those of its rows.
#[derive(Debug, Default)]
pub(super) struct WrongBounds {
    /// The first row and the number of rows, by the column.
    columns: BTreeMap<(String, StatisticsOf, BoundFault), (u64, u64)>,
    /// Why the statistics can't be read.
    unreadable: Option<String>,
}

impl ValueBounds {
    /// Reads the statistics of row group `number`, and adds those `of_file` in the log. Notes in
    /// `found` if they can't be read.
    pub(super) fn read(
        reader: &SegmentReader,
        number: usize,
        of_file: &[StatedBounds],
        found: &mut WrongBounds,
    ) -> ValueBounds {
        let of_group = reader.value_bounds(number).unwrap_or_else(|error| {
            found.unreadable = Some(error.to_string());
            Vec::new()
        });
        let all = of_group.into_iter().chain(of_file.iter().cloned());
        let compared = all.map(|stated| ComparedBounds {
            stated,
            rows: 0,
            nulls: 0,
        });
        ValueBounds(compared.collect())
    }

    /// Notes the values of `batch` in `found` that are outside of the statistics. The batch begins
    /// at row `first` of the file.
    pub(super) fn check(&mut self, first: u64, batch: &RecordBatch, found: &mut WrongBounds) {
        let rows = first..first + batch.num_rows() as u64;
        for compared in &mut self.0 {
            if let Some(cells) = batch.column_by_name(&compared.stated.column) {
                compared.check(&rows, cells, found);
            }
        }
    }

    /// Notes in `found` which statistics have another number of nulls than the rows, of which all
    /// were checked.
    pub(super) fn finish(&self, found: &mut WrongBounds) {
        for ComparedBounds {
            stated,
            rows,
            nulls,
        } in &self.0
        {
            let Some(stated_nulls) = stated.nulls else {
                continue;
            };
            // Of a file, the rows of one row group were counted.
            let values = (stated.rows.end - stated.rows.start).saturating_sub(stated_nulls);
            if *nulls > stated_nulls || rows - nulls > values {
                found.add(stated, BoundFault::Nulls, stated.rows.start, *rows);
            }
        }
    }
}

impl ComparedBounds {
    /// Compares `cells`, which are those of `rows` of the file.
    fn check(&mut self, rows: &Range<u64>, cells: &ArrayRef, found: &mut WrongBounds) {
        let start = rows.start.max(self.stated.rows.start);
        let end = rows.end.min(self.stated.rows.end);
        if start >= end {
            return;
        }
        let part = cells.slice((start - rows.start) as usize, (end - start) as usize);
        self.rows += end - start;
        self.nulls += part.null_count() as u64;
        if part.null_count() == part.len() {
            return;
        }
        if let Some((first, count)) = outside(&part, &self.stated) {
            found.add(&self.stated, BoundFault::Values, start + first, count);
        }
    }
}

/// Returns the first of `cells` with a value outside of the bounds that are `stated`, and their
/// number.
fn outside(cells: &ArrayRef, stated: &StatedBounds) -> Option<(u64, u64)> {
    let (min, max) = (stated.min.as_ref(), stated.max.as_ref());
    if min.is_none() && max.is_none() {
        return None;
    }
    match cells.data_type() {
        DataType::Utf8 => {
            let texts = cells.as_string::<i32>().iter();
            let bytes = texts.map(|cell| cell.map(str::as_bytes));
            found_in(
                bytes,
                min.and_then(bytes_of),
                max.and_then(bytes_of),
                |left, right| left < right,
            )
        }
        DataType::Binary => {
            let bytes = cells.as_binary::<i32>().iter();
            found_in(
                bytes,
                min.and_then(bytes_of),
                max.and_then(bytes_of),
                |left, right| left < right,
            )
        }
        DataType::Boolean => {
            let of = |bound: &BoundValue| match bound {
                BoundValue::Boolean(value) => Some(*value),
                _ => None,
            };
            let values = cells.as_boolean().iter();
            found_in(values, min.and_then(of), max.and_then(of), |left, right| {
                !left && right
            })
        }
        DataType::Float64 => {
            let of = |bound: &BoundValue| match bound {
                BoundValue::Double(value) => Some(*value),
                _ => None,
            };
            let values = cells.as_primitive::<Float64Type>().iter();
            let numbers = values.map(|cell| cell.filter(|value| !value.is_nan()));
            found_in(numbers, min.and_then(of), max.and_then(of), is_below)
        }
        _ => {
            let (min, max) = (min.and_then(integer_of), max.and_then(integer_of));
            outside_integers(cells, min, max)
        }
    }
}

/// Does the same for columns of integers and times. Returns `None` for columns of other types.
fn outside_integers(cells: &ArrayRef, min: Option<i64>, max: Option<i64>) -> Option<(u64, u64)> {
    let is_below = |left: i64, right: i64| left < right;
    match cells.data_type() {
        DataType::Int16 => {
            let values = cells.as_primitive::<Int16Type>().iter();
            found_in(values.map(|cell| cell.map(i64::from)), min, max, is_below)
        }
        DataType::Int64 => {
            let values = cells.as_primitive::<Int64Type>().iter();
            found_in(values, min, max, is_below)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let values = cells.as_primitive::<TimestampMicrosecondType>().iter();
            found_in(values, min, max, is_below)
        }
        _ => None,
    }
}

fn bytes_of(bound: &BoundValue) -> Option<&[u8]> {
    match bound {
        BoundValue::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn integer_of(bound: &BoundValue) -> Option<i64> {
    match bound {
        BoundValue::Integer(value) => Some(*value),
        _ => None,
    }
}

/// Returns true if `left` is less than `right`. A bound that is no number is less or greater than
/// all numbers, as readers that don't ignore it take it.
fn is_below(left: f64, right: f64) -> bool {
    match left.is_nan() || right.is_nan() {
        true => left.total_cmp(&right).is_lt(),
        false => left < right,
    }
}

/// Returns the first of `cells` below `min` or above `max`, and their number.
fn found_in<T: Copy>(
    cells: impl Iterator<Item = Option<T>>,
    min: Option<T>,
    max: Option<T>,
    is_below: impl Fn(T, T) -> bool,
) -> Option<(u64, u64)> {
    let mut found: Option<(u64, u64)> = None;
    for (row, cell) in (0..).zip(cells) {
        let Some(cell) = cell else {
            continue;
        };
        let is_outside = min.is_some_and(|min| is_below(cell, min))
            || max.is_some_and(|max| is_below(max, cell));
        if is_outside {
            found.get_or_insert((row, 0)).1 += 1;
        }
    }
    found
}

impl WrongBounds {
    fn add(&mut self, stated: &StatedBounds, fault: BoundFault, first: u64, rows: u64) {
        let key = (stated.column.clone(), stated.of, fault);
        self.columns.entry(key).or_insert((first, 0)).1 += rows;
    }

    /// Adds the problems of a row group of the data file `name` to `findings`. The group begins at
    /// row `begin`.
    pub(super) fn report(&self, name: &str, begin: u64, findings: &mut Findings, limit: usize) {
        if let Some(error) = &self.unreadable {
            let cause = format!("the statistics of its row group can't be read: {error}");
            findings.bad(problem(name, begin, cause, FROM_BACKUP), limit);
        }
        for ((column, of, fault), (first, rows)) in &self.columns {
            let (place, passed, remedy) = match of {
                StatisticsOf::File => ("its log", "the file", REMEDY_OF_FILES),
                StatisticsOf::RowGroup => ("its footer", "the row group", FROM_BACKUP),
                StatisticsOf::Page => ("its page index", "pages", FROM_BACKUP),
            };
            let cause = match fault {
                BoundFault::Values => format!(
                    "a minimum or maximum in {place} excludes values of the rows, so queries for \
                     them pass over {passed}"
                ),
                BoundFault::Nulls => format!(
                    "a count of nulls in {place} isn't that of the rows, so queries pass over \
                     {passed}"
                ),
            };
            let found = problem(name, *first, cause, remedy).spanning(*rows);
            findings.bad(found.of_columns(&[column]), limit);
        }
    }
}

/// Returns a problem of the data file `name` from its row `row` on.
fn problem(name: &str, row: u64, cause: String, remedy: &'static str) -> Problem {
    let error = GrainError::new(ErrorCode::Integrity, cause);
    Problem {
        repair: Some(remedy.into()),
        ..Problem::new(name, row as i64, &error).of_grains()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, StringArray};

    use super::*;

    fn bounds(min: BoundValue, max: BoundValue, nulls: u64) -> StatedBounds {
        StatedBounds {
            of: StatisticsOf::RowGroup,
            column: "column".to_owned(),
            rows: 10..13,
            min: Some(min),
            max: Some(max),
            nulls: Some(nulls),
        }
    }

    /// Returns what is found in `cells`, which are rows from 10 on, in two batches.
    fn found(cells: ArrayRef, stated: StatedBounds) -> Vec<(BoundFault, (u64, u64))> {
        let batch = RecordBatch::try_from_iter([("column", cells)]).unwrap();
        let mut compared = ValueBounds(vec![ComparedBounds {
            stated,
            rows: 0,
            nulls: 0,
        }]);
        let mut found = WrongBounds::default();
        compared.check(10, &batch.slice(0, 1), &mut found);
        compared.check(11, &batch.slice(1, batch.num_rows() - 1), &mut found);
        compared.finish(&mut found);
        let faults = found.columns.into_iter();
        faults.map(|((_, _, fault), rows)| (fault, rows)).collect()
    }

    #[test]
    fn bounds_of_numbers_allow_zeros_of_both_signs_and_what_is_no_number() {
        let of = |min, max| bounds(BoundValue::Double(min), BoundValue::Double(max), 0);
        let cells = |cells: [f64; 3]| -> ArrayRef { Arc::new(Float64Array::from(cells.to_vec())) };
        assert!(found(cells([f64::NAN, -0.0, 1.0]), of(0.0, 1.0)).is_empty());
        assert!(found(cells([0.0, 0.0, -1.0]), of(-1.0, -0.0)).is_empty());
        let wrong = |first, rows| vec![(BoundFault::Values, (first, rows))];
        assert_eq!(found(cells([0.5, 2.0, 3.0]), of(0.0, 1.0)), wrong(11, 2));
        // Readers that compare it take it for more than every number.
        assert_eq!(
            found(cells([0.5, 0.5, 1.0]), of(f64::NAN, 1.0)),
            wrong(10, 3)
        );
    }

    #[test]
    fn bounds_of_texts_may_be_wider_than_the_texts_and_counts_of_nulls_are_exact() {
        let of = |min: &str, max: &str, nulls| {
            let [min, max] = [min, max].map(|text| BoundValue::Bytes(text.as_bytes().to_vec()));
            bounds(min, max, nulls)
        };
        let cells =
            |last| -> ArrayRef { Arc::new(StringArray::from(vec![Some("long"), None, last])) };
        assert!(found(cells(Some("text")), of("lo", "tf", 1)).is_empty());
        let values: (BoundFault, (u64, u64)) = (BoundFault::Values, (12, 1));
        assert_eq!(found(cells(Some("text")), of("lo", "te", 1)), [values]);
        for nulls in [0, 2, 3] {
            let wrong: (BoundFault, (u64, u64)) = (BoundFault::Nulls, (10, 3));
            assert_eq!(found(cells(Some("text")), of("lo", "tf", nulls)), [wrong]);
        }
        assert!(found(cells(None), of("lo", "tf", 2)).is_empty());
    }

    #[test]
    fn a_row_group_is_compared_with_the_count_of_nulls_of_its_file() {
        let cells: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, None]));
        let of = |nulls| StatedBounds {
            rows: 0..20,
            min: None,
            max: None,
            ..bounds(BoundValue::Integer(0), BoundValue::Integer(0), nulls)
        };
        for nulls in [2, 19] {
            assert!(found(Arc::clone(&cells), of(nulls)).is_empty());
        }
        for nulls in [0, 1, 20] {
            assert_eq!(found(Arc::clone(&cells), of(nulls)).len(), 1, "{nulls}");
        }
    }
}
