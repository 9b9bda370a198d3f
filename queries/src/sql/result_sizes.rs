//! Upper bounds of the sizes of what functions make, by the sizes of their arguments.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use super::wide_rows::value_bytes;

/// Largest size of a character in bytes.
const CHARACTER_BYTES: i64 = 4;

/// Digits of a byte in hexadecimal form, the longest one of `encode`.
const HEX_DIGITS: i64 = 2;

/// Bytes of a time for each byte of its format, at most: `%+` makes 35.
const TIME_BYTES: i64 = 18;

/// Approximate size of an item of a list in bytes, in addition to its text.
const ITEM_BYTES: i64 = 8;

/// Approximate size of an item of a set of items in bytes, in addition to its value.
const SET_ITEM_BYTES: i64 = 128;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Days of the shortest month.
const SHORTEST_MONTH: i64 = 28;

/// Returns the lengths of an argument's texts in bytes; one of them stands for all rows if all
/// arguments are constants.
pub(super) fn text_lengths(arguments: &ScalarFunctionArgs, at: usize) -> Result<Vec<i64>> {
    CallArguments::of(arguments).lengths(at)
}

/// The arguments of a call.
struct CallArguments<'a> {
    values: &'a [ColumnarValue],
    /// One if all are constants, whose value is that of all rows.
    rows: usize,
}

/// Returns whether the result of a call is the same in all rows.
pub(super) fn are_constants(arguments: &ScalarFunctionArgs) -> bool {
    let mut values = arguments.args.iter();
    values.all(|value| matches!(value, ColumnarValue::Scalar(_)))
}

/// Returns an upper bound of the size of the result of each row, or of all rows as one element.
pub(super) fn row_bytes(name: &str, arguments: &ScalarFunctionArgs) -> Result<Vec<i64>> {
    let arguments = CallArguments::of(arguments);
    match name {
        "repeat" => arguments.repeated(Some(0), 0),
        "lpad" | "rpad" => arguments.repeated(None, CHARACTER_BYTES),
        "array_resize" => arguments.repeated(Some(2), ITEM_BYTES),
        "array_to_string" => arguments.joined(),
        "range" | "generate_series" => arguments.counted(),
        "replace" => arguments.replaced(),
        "regexp_replace" => arguments.replaced_by_pattern(),
        "encode" => arguments.grown(HEX_DIGITS),
        "translate" => arguments.grown(CHARACTER_BYTES),
        "string_to_array" => arguments.split(),
        "concat" | "overlay" | "textcat" => arguments.together(0),
        "concat_ws" => arguments.together(arguments.values.len() as i64),
        "to_char" => arguments.formatted(),
        "array_concat" | "array_append" | "array_prepend" => arguments.listed(1, 0),
        "array_union" | "array_intersect" | "array_except" | "array_distinct" => {
            arguments.listed(2, SET_ITEM_BYTES)
        }
        "make_array" => arguments.gathered(),
        "array_replace" | "array_replace_n" | "array_replace_all" => arguments.items_replaced(),
        _ => arguments.repeated(Some(0), ITEM_BYTES),
    }
}

impl<'a> CallArguments<'a> {
    fn of(arguments: &'a ScalarFunctionArgs) -> CallArguments<'a> {
        let rows = match are_constants(arguments) {
            true => 1,
            false => arguments.number_rows,
        };
        let values = arguments.args.as_slice();
        CallArguments { values, rows }
    }

    /// Returns what `measure` returns of each value of an argument; 0 for one that isn't there or
    /// has no type. Constants aren't repeated for that.
    fn measured(
        &self,
        at: usize,
        measure: impl Fn(&ArrayRef) -> Result<Vec<i64>>,
    ) -> Result<Vec<i64>> {
        let value = self.values.get(at);
        Ok(match value.filter(|value| !value.data_type().is_null()) {
            None => vec![0; self.rows],
            Some(ColumnarValue::Array(array)) => measure(array)?,
            Some(constant) => {
                let measured = measure(&constant.to_array(1)?)?;
                vec![measured.first().copied().unwrap_or_default(); self.rows]
            }
        })
    }

    /// Returns an argument as numbers.
    fn numbers(&self, at: usize) -> Result<Vec<i64>> {
        self.measured(at, numbers_of)
    }

    /// Returns the lengths of an argument's texts in bytes; 0 for other values.
    fn lengths(&self, at: usize) -> Result<Vec<i64>> {
        self.measured(at, |array| match text_bytes(array)? {
            Some(lengths) => numbers_of(&lengths),
            None => Ok(vec![0; array.len()]),
        })
    }

    /// Returns the sizes of an argument's values in bytes; 0 for those of a fixed width.
    fn value_sizes(&self, at: usize) -> Result<Vec<i64>> {
        self.measured(at, |array| match text_bytes(array)? {
            Some(lengths) => numbers_of(&lengths),
            None if array.data_type().is_primitive() => Ok(vec![0; array.len()]),
            None => {
                let rows = (0..array.len()).map(|row| array.slice(row, 1));
                let sizes = rows.map(|value| i64::try_from(value_bytes(value.as_ref())));
                Ok(sizes.map(|size| size.unwrap_or(i64::MAX)).collect())
            }
        })
    }

    /// The second argument is the number of repetitions, each of `bytes` and the argument `value`.
    fn repeated(&self, value: Option<usize>, bytes: i64) -> Result<Vec<i64>> {
        let sizes = match value {
            Some(value) => self.value_sizes(value)?,
            None => vec![0; self.rows],
        };
        let times = self.numbers(1)?.into_iter().zip(sizes);
        let sizes = times.map(|(times, size)| {
            let each = size.saturating_add(bytes);
            times.max(0).saturating_mul(each)
        });
        Ok(sizes.collect())
    }

    /// Each occurrence of the second text is replaced by the third. An empty one occurs before each
    /// character, and at the end.
    fn replaced(&self) -> Result<Vec<i64>> {
        let (from, to) = (self.lengths(1)?, self.lengths(2)?);
        let texts = self.lengths(0)?.into_iter().zip(from.into_iter().zip(to));
        let sizes = texts.map(|(text, (from, to))| {
            let times = text / from.max(1) + 1;
            text.saturating_add(times.saturating_mul(to))
        });
        Ok(sizes.collect())
    }

    /// Each match is replaced by the third text, in which two bytes may stand for the whole match.
    fn replaced_by_pattern(&self) -> Result<Vec<i64>> {
        let texts = self.lengths(0)?.into_iter().zip(self.lengths(2)?);
        let sizes = texts.map(|(text, to)| {
            let matched = text.saturating_mul(to / 2);
            let added = (text + 1).saturating_mul(to);
            text.saturating_add(matched).saturating_add(added)
        });
        Ok(sizes.collect())
    }

    /// Each byte of the first argument becomes `times` bytes at most.
    fn grown(&self, times: i64) -> Result<Vec<i64>> {
        let sizes = self.value_sizes(0)?.into_iter();
        Ok(sizes.map(|size| size.saturating_mul(times)).collect())
    }

    /// The texts of all arguments, the first of them `times` more.
    fn together(&self, times: i64) -> Result<Vec<i64>> {
        let more = self.lengths(0)?.into_iter();
        let mut sums: Vec<i64> = more.map(|bytes| bytes.saturating_mul(times)).collect();
        for at in 0..self.values.len() {
            for (sum, bytes) in sums.iter_mut().zip(self.lengths(at)?) {
                *sum = sum.saturating_add(bytes);
            }
        }
        Ok(sums)
    }

    /// The values of all arguments `times`, and `item` bytes for each item of those that are lists.
    fn listed(&self, times: i64, item: i64) -> Result<Vec<i64>> {
        let mut sums = vec![0_i64; self.rows];
        for at in 0..self.values.len() {
            let items = self.measured(at, list_lengths)?;
            for ((sum, bytes), items) in sums.iter_mut().zip(self.value_sizes(at)?).zip(items) {
                let values = bytes.saturating_mul(times);
                *sum = sum.saturating_add(values.saturating_add(items.saturating_mul(item)));
            }
        }
        Ok(sums)
    }

    /// Each argument is an item.
    fn gathered(&self) -> Result<Vec<i64>> {
        let items = i64::try_from(self.values.len()).unwrap_or(i64::MAX);
        let mut sums = vec![items.saturating_mul(ITEM_BYTES); self.rows];
        for at in 0..self.values.len() {
            for (sum, bytes) in sums.iter_mut().zip(self.value_sizes(at)?) {
                *sum = sum.saturating_add(bytes);
            }
        }
        Ok(sums)
    }

    /// Each item of a list may be replaced by the third argument.
    fn items_replaced(&self) -> Result<Vec<i64>> {
        let (lists, to) = (self.value_sizes(0)?, self.value_sizes(2)?);
        let items = self.measured(0, list_lengths)?.into_iter();
        let sizes = items.zip(lists.into_iter().zip(to));
        let sizes = sizes.map(|(items, (list, to))| {
            let replaced = items.saturating_mul(to.saturating_add(ITEM_BYTES));
            list.saturating_add(replaced)
        });
        Ok(sizes.collect())
    }

    /// The second argument is the format of a time.
    fn formatted(&self) -> Result<Vec<i64>> {
        let formats = self.lengths(1)?.into_iter();
        Ok(formats
            .map(|bytes| bytes.saturating_mul(TIME_BYTES))
            .collect())
    }

    /// An item ends at each occurrence of the second text, or at each character if that is NULL.
    fn split(&self) -> Result<Vec<i64>> {
        let texts = self.lengths(0)?.into_iter().zip(self.lengths(1)?);
        let sizes = texts.map(|(text, separator)| {
            let items = text / separator.max(1) + 1;
            text.saturating_add(items.saturating_mul(ITEM_BYTES))
        });
        Ok(sizes.collect())
    }

    /// The items of a list, with the second text between them and the third one for NULL.
    fn joined(&self) -> Result<Vec<i64>> {
        let most = |lengths: Vec<i64>| lengths.into_iter().max().unwrap_or_default();
        let added = most(self.lengths(1)?).saturating_add(most(self.lengths(2)?));
        let items = match self.values.first() {
            Some(ColumnarValue::Array(lists)) => items(&lists.to_data()),
            Some(list) => items(&list.to_array(1)?.to_data()).saturating_mul(self.rows),
            None => 0,
        };
        let items = i64::try_from(items).unwrap_or(i64::MAX);
        Ok(vec![items.saturating_mul(added)])
    }

    /// The numbers, days or instants from the first argument to the second, by the third. One
    /// argument is the end.
    fn counted(&self) -> Result<Vec<i64>> {
        let kind = self.values.first().map(ColumnarValue::data_type);
        let (starts, stops, steps) = match kind {
            Some(DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)) => (
                self.measured(0, instants_of)?,
                self.measured(1, instants_of)?,
                self.measured(2, intervals_of)?,
            ),
            _ if self.values.len() == 1 => (vec![0; self.rows], self.numbers(0)?, Vec::new()),
            _ => (self.numbers(0)?, self.numbers(1)?, self.numbers(2)?),
        };
        let steps = steps.into_iter().chain(std::iter::repeat(1));
        let ranges = starts.into_iter().zip(stops).zip(steps);
        let sizes = ranges.map(|((start, stop), step)| {
            let span = i128::from(stop) - i128::from(start);
            let count = span.unsigned_abs() / u128::from(step.unsigned_abs().max(1)) + 1;
            i64::try_from(count)
                .unwrap_or(i64::MAX)
                .saturating_mul(ITEM_BYTES)
        });
        Ok(sizes.collect())
    }
}

/// Returns dates and timestamps in microseconds; 0 for NULL.
fn instants_of(array: &ArrayRef) -> Result<Vec<i64>> {
    if let DataType::Timestamp(..) = array.data_type() {
        let instants = DataType::Timestamp(TimeUnit::Microsecond, None);
        return numbers_of(&cast(array, &instants)?);
    }
    let days = cast(&cast(array, &DataType::Date32)?, &DataType::Int32)?;
    let days = numbers_of(&days)?.into_iter();
    Ok(days.map(|days| days.saturating_mul(DAY)).collect())
}

/// Returns intervals in microseconds, with the shortest months; 0 for NULL.
fn intervals_of(array: &ArrayRef) -> Result<Vec<i64>> {
    let intervals = cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
    let micros = intervals.map(|interval| {
        let interval = interval.unwrap_or_default();
        let days = i64::from(interval.months) * SHORTEST_MONTH + i64::from(interval.days);
        days.saturating_mul(DAY)
            .saturating_add(interval.nanoseconds / 1_000)
    });
    Ok(micros.collect())
}

/// Returns the values of an array as numbers; 0 for NULL.
fn numbers_of(array: &ArrayRef) -> Result<Vec<i64>> {
    let numbers = cast(array, &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>().iter();
    Ok(numbers.map(Option::unwrap_or_default).collect())
}

/// Returns the numbers of items of lists; 0 for NULL and other values.
fn list_lengths(array: &ArrayRef) -> Result<Vec<i64>> {
    match array.data_type() {
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            numbers_of(&length(array)?)
        }
        _ => Ok(vec![0; array.len()]),
    }
}

/// Returns the number of items of lists, of the innermost ones if they are nested.
fn items(data: &ArrayData) -> usize {
    match data.child_data() {
        [] => data.len(),
        inner => inner.iter().map(items).sum(),
    }
}

/// Returns the lengths of texts and byte strings in bytes; `None` for other values.
fn text_bytes(values: &ArrayRef) -> Result<Option<ArrayRef>> {
    let texts = match values.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
            Arc::clone(values)
        }
        DataType::Utf8View => cast(values, &DataType::LargeUtf8)?,
        DataType::BinaryView => cast(values, &DataType::LargeBinary)?,
        _ => return Ok(None),
    };
    Ok(Some(length(&texts)?))
}
