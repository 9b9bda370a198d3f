//! Comparing stored rows with recomputed ones.
//!
//! Columns are compared as arrays. Rows are compared one by one only where two arrays differ.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray, new_null_array,
};
use arrow::compute::{cast, filter};
use arrow::error::ArrowError;
use gristmill_schemas::columns::{SignatureColumn, SystemColumn};
use gristmill_schemas::grain::Mark;

use crate::reproject::{Reprojected, RowState};

/// Adjacent rows of a batch in which the same cells differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CellDifference {
    /// The rows of the batch.
    pub(crate) rows: Range<usize>,
    /// The columns whose cells differ, in the order of the table.
    pub(crate) columns: Vec<String>,
}

/// The meaning of a column that `stored` lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AbsentColumn {
    /// The file doesn't contain it: readers see nulls.
    Null,
    /// It wasn't read.
    Unread,
}

/// Returns where `stored` differs from the rows that were recomputed. Rows that couldn't be
/// recomputed are skipped.
///
/// # Errors
/// [`ArrowError`] if a column has a type that can't be compared.
pub(crate) fn differences(
    stored: &RecordBatch,
    made: &Reprojected,
    lacking: AbsentColumn,
    verdicts: StoredVerdicts,
) -> Result<Vec<CellDifference>, ArrowError> {
    let is_known = |state: &RowState| matches!(state, RowState::Derived { .. });
    let known = match made.states.iter().all(is_known) {
        true => None,
        false => Some(made.states.iter().map(is_known).map(Some).collect()),
    };
    let schema = made.batch.schema();
    let columns = schema.fields().iter().zip(made.batch.columns()).enumerate();
    let mut cells: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (place, (field, expected)) in columns.filter(|(_, (field, _))| is_compared(field.name())) {
        let name = field.name();
        let found = match (column_of(stored, name, place, expected)?, lacking) {
            (Some(found), _) => found,
            (None, AbsentColumn::Null) => new_null_array(expected.data_type(), expected.len()),
            (None, AbsentColumn::Unread) => continue,
        };
        if are_equal(&found, expected, known.as_ref())? {
            continue;
        }
        let allowed = AllowedVerdicts { made, verdicts };
        let is_verdict = name == SystemColumn::Signature.name();
        let is_marks = name == SystemColumn::Marks.name();
        let is_recomputed = |row: &usize| made.states.get(*row).is_some_and(is_known);
        for row in (0..stored.num_rows()).filter(is_recomputed) {
            if found.slice(row, 1) != expected.slice(row, 1)
                && !(is_verdict && allowed.allows(&found, expected, row))
                && !(is_marks && lacks_later_marks(&found, expected, row))
            {
                cells.entry(row).or_default().push(name.clone());
            }
        }
    }
    Ok(grouped(cells))
}

/// Returns true if cells of the column `name` are compared: they follow from the blob, and aren't
/// the blob itself, whose hash is checked.
fn is_compared(name: &str) -> bool {
    let column = SystemColumn::ALL
        .iter()
        .find(|column| column.name() == name);
    column.is_none_or(|column| column.is_derived() && *column != SystemColumn::Blob)
}

/// Returns the column `name` of `stored`, which is probably its column number `place`, with the
/// type of `expected`, or `None` if it is missing.
///
/// # Errors
/// [`ArrowError`] if one type can't be cast to the other.
pub(crate) fn column_of(
    stored: &RecordBatch,
    name: &str,
    place: usize,
    expected: &ArrayRef,
) -> Result<Option<ArrayRef>, ArrowError> {
    let schema = stored.schema_ref();
    // Nearly always the file has all columns of the table.
    let at_place = schema
        .fields()
        .get(place)
        .filter(|field| field.name() == name)
        .map(|_| stored.column(place));
    let Some(found) = at_place.or_else(|| stored.column_by_name(name)) else {
        return Ok(None);
    };
    match found.data_type() == expected.data_type() {
        true => Ok(Some(found.clone())),
        false if found.null_count() == found.len() => {
            Ok(Some(new_null_array(expected.data_type(), found.len())))
        }
        // The names of list items and the nullability are a writer's choice.
        false => cast(found, expected.data_type()).map(Some),
    }
}

/// Returns true if two columns are equal in the rows `known`, or in all rows.
fn are_equal(
    found: &ArrayRef,
    expected: &ArrayRef,
    known: Option<&BooleanArray>,
) -> Result<bool, ArrowError> {
    let all_null = |column: &ArrayRef| column.null_count() == column.len();
    if all_null(found) && all_null(expected) {
        return Ok(true);
    }
    match known {
        None => Ok(found == expected),
        Some(known) => Ok(filter(found, known)? == filter(expected, known)?),
    }
}

/// The marks that earlier programs set in fewer cases or not at all: for values outside of
/// registries, for odd references, malformed hashes of hidden fields and malformed DIDs, and for
/// fields of domain profiles.
const EXTENDED_MARKS: [Mark; 4] = [
    Mark::Vocabulary,
    Mark::FieldKind,
    Mark::Identifier,
    Mark::ProfileFields,
];

/// Returns true if the stored marks of `row` are the recomputed ones without some of
/// [`EXTENDED_MARKS`].
fn lacks_later_marks(found: &ArrayRef, expected: &ArrayRef, row: usize) -> bool {
    let (Some(found), Some(expected)) = (marks_at(found, row), marks_at(expected, row)) else {
        return false;
    };
    let is_extended = |mark: &String| EXTENDED_MARKS.iter().any(|later| later.name() == mark);
    found.iter().all(|mark| expected.contains(mark))
        && expected
            .iter()
            .all(|mark| found.contains(mark) || is_extended(mark))
}

/// Returns the marks of `row`; `None` if `column` isn't one of lists of texts.
fn marks_at(column: &ArrayRef, row: usize) -> Option<Vec<String>> {
    let lists = column.as_list_opt::<i32>()?;
    if lists.is_null(row) {
        return Some(Vec::new());
    }
    let names = lists.value(row);
    let names = names.as_string_opt::<i32>()?;
    Some(names.iter().flatten().map(str::to_owned).collect())
}

/// The stored results of signature checks that count as equal to the recomputed ones. They depend
/// on the keys that were known at the time, unless the signer's name is the key itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredVerdicts {
    /// `valid` and `unverifiable` count as equal.
    Kept,
    /// The same, but where the key is known now, a stored `unverifiable` is replaced.
    Completed,
}

/// Decides which stored results of signature checks are legitimate.
pub(crate) struct AllowedVerdicts<'m> {
    pub(crate) made: &'m Reprojected,
    pub(crate) verdicts: StoredVerdicts,
}

impl AllowedVerdicts<'_> {
    /// Returns true if the cell of the column `signature` in `row` may differ from the recomputed
    /// one.
    pub(crate) fn allows(&self, found: &ArrayRef, expected: &ArrayRef, row: usize) -> bool {
        let verdict = |column: &ArrayRef| {
            let column = column.as_string_opt::<i32>()?;
            column.is_valid(row).then(|| column.value(row).to_owned())
        };
        let (Some(found), Some(expected)) = (verdict(found), verdict(expected)) else {
            return false;
        };
        let is_key = matches!(
            self.made.states.get(row),
            Some(RowState::Derived {
                signer_is_key: true,
                ..
            })
        );
        let [valid, unverifiable] =
            [SignatureColumn::Valid, SignatureColumn::Unverifiable].map(SignatureColumn::name);
        !is_key
            && match self.verdicts {
                StoredVerdicts::Kept => {
                    [valid, unverifiable].contains(&found.as_str())
                        && [valid, unverifiable].contains(&expected.as_str())
                }
                StoredVerdicts::Completed => found == valid && expected == unverifiable,
            }
    }
}

/// Returns the column `name`, if it is one of texts.
pub(super) fn texts_of<'b>(batch: &'b RecordBatch, name: &str) -> Option<&'b StringArray> {
    batch.column_by_name(name)?.as_string_opt::<i32>()
}

fn grouped(cells: BTreeMap<usize, Vec<String>>) -> Vec<CellDifference> {
    let mut differences: Vec<CellDifference> = Vec::new();
    for (row, columns) in cells {
        match differences
            .last_mut()
            .filter(|last| last.rows.end == row && last.columns == columns)
        {
            Some(last) => last.rows.end += 1,
            None => differences.push(CellDifference {
                rows: row..row + 1,
                columns,
            }),
        }
    }
    differences
}
