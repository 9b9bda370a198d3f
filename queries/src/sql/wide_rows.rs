//! How many bytes rows have when they are sent, and batches that are cut by it.

use arrow::array::{AnyDictionaryArray, Array, AsArray, OffsetSizeTrait, RecordBatch, make_array};
use arrow::datatypes::DataType;

/// Bytes of a part of wide rows. A part of one row may have more.
pub(super) const PART_BYTES: usize = 2 << 20;

/// Returns the bytes of the values of a batch as they are sent: values that share memory, such as
/// those of a dictionary, count each time. Costs a few steps a column, and one for each value of
/// dictionaries and views.
pub(super) fn batch_bytes(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    columns.fold(0_usize, |sum, column| {
        sum.saturating_add(value_bytes(column.as_ref()))
    })
}

/// Returns the parts of a batch with their bytes, in its order: each has at most [`PART_BYTES`] or
/// one row. They share the memory of the batch.
pub(super) fn parts_of(batch: RecordBatch) -> Vec<(RecordBatch, usize)> {
    let (mut parts, mut rest) = (Vec::new(), vec![batch]);
    while let Some(batch) = rest.pop() {
        let (bytes, rows) = (batch_bytes(&batch), batch.num_rows());
        if bytes <= PART_BYTES || rows < 2 {
            parts.push((batch, bytes));
        } else {
            let half = rows / 2;
            rest.push(batch.slice(half, rows - half));
            rest.push(batch.slice(0, half));
        }
    }
    parts
}

/// Returns the bytes of values, and one for each of them: also NULL is sent.
pub(super) fn value_bytes(values: &dyn Array) -> usize {
    let rows = values.len();
    let bytes = match values.data_type() {
        DataType::Utf8 => span(values.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => span(values.as_string::<i64>().value_offsets()),
        DataType::Binary => span(values.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => span(values.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => sum(values.as_string_view().lengths()),
        DataType::BinaryView => sum(values.as_binary_view().lengths()),
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            item_bytes(lists.values().as_ref(), lists.value_offsets())
        }
        DataType::LargeList(_) => {
            let lists = values.as_list::<i64>();
            item_bytes(lists.values().as_ref(), lists.value_offsets())
        }
        DataType::Map(..) => {
            let maps = values.as_map();
            item_bytes(maps.entries(), maps.value_offsets())
        }
        DataType::FixedSizeList(..) => value_bytes(values.as_fixed_size_list().values().as_ref()),
        DataType::Struct(_) => {
            let fields = values.as_struct().columns().iter();
            fields.fold(0_usize, |sum, field| {
                sum.saturating_add(value_bytes(field.as_ref()))
            })
        }
        DataType::Dictionary(..) => dictionary_bytes(values.as_any_dictionary()),
        DataType::RunEndEncoded(..) => run_bytes(values),
        other => match other.primitive_width() {
            Some(width) => rows.saturating_mul(width),
            None => values.to_data().get_slice_memory_size().unwrap_or_default(),
        },
    };
    bytes.saturating_add(rows)
}

fn sum(lengths: impl Iterator<Item = u32>) -> usize {
    lengths.fold(0_usize, |sum, length| sum.saturating_add(length as usize))
}

/// Returns the first of the items of `offsets` and their number.
fn bounds<O: OffsetSizeTrait>(offsets: &[O]) -> (usize, usize) {
    match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => {
            let first = first.as_usize();
            (first, last.as_usize().saturating_sub(first))
        }
        _ => (0, 0),
    }
}

fn span<O: OffsetSizeTrait>(offsets: &[O]) -> usize {
    bounds(offsets).1
}

/// Returns the bytes of the items of lists.
fn item_bytes<O: OffsetSizeTrait>(items: &dyn Array, offsets: &[O]) -> usize {
    let (first, count) = bounds(offsets);
    value_bytes(items.slice(first, count).as_ref())
}

/// Returns the bytes of a dictionary's values, each as often as it is referred to.
fn dictionary_bytes(dictionary: &dyn AnyDictionaryArray) -> usize {
    let values = dictionary.values();
    if values.is_empty() {
        return 0;
    }
    let bytes: Vec<usize> = (0..values.len())
        .map(|at| value_bytes(values.slice(at, 1).as_ref()))
        .collect();
    let keys = dictionary.normalized_keys().into_iter();
    keys.filter_map(|key| bytes.get(key))
        .fold(0_usize, |sum, bytes| sum.saturating_add(*bytes))
}

/// Returns an upper bound of the bytes of runs: all their values in each row.
fn run_bytes(runs: &dyn Array) -> usize {
    let data = runs.to_data();
    let values = data.child_data().last().cloned().map(make_array);
    let bytes = values.map_or(0, |values| value_bytes(values.as_ref()));
    bytes.saturating_mul(runs.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use arrow::compute::cast;

    use super::*;

    fn batch(column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("a", column)]).unwrap()
    }

    fn texts(count: usize, length: usize) -> ArrayRef {
        Arc::new(StringArray::from(vec!["x".repeat(length); count]))
    }

    #[test]
    fn the_bytes_of_rows_are_those_that_are_sent() {
        let text = texts(100, 50);
        let dictionary = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
        for column in [
            Arc::clone(&text),
            cast(&text, &DataType::LargeUtf8).unwrap(),
            cast(&text, &DataType::Utf8View).unwrap(),
            cast(&text, &DataType::Binary).unwrap(),
            cast(&text, &dictionary).unwrap(),
        ] {
            let bytes = batch_bytes(&batch(Arc::clone(&column)));
            assert!((5_000..5_300).contains(&bytes), "{column:?}: {bytes}");
            let tenth = batch_bytes(&batch(column).slice(50, 10));
            assert!((500..530).contains(&tenth), "{tenth}");
        }
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1; 10]));
        assert_eq!(batch_bytes(&batch(numbers)), 90);
    }

    #[test]
    fn lists_count_with_the_items_of_their_rows() {
        let lists = cast(&texts(8, 1_000), &DataType::new_list(DataType::Utf8, true));
        let lists = batch(lists.unwrap());
        let (all, half) = (batch_bytes(&lists), batch_bytes(&lists.slice(4, 4)));
        assert!((8_000..8_100).contains(&all), "{all}");
        assert_eq!(half * 2, all);
    }

    #[test]
    fn parts_are_small_or_of_one_row_and_have_all_rows_in_order() {
        let mut values = vec!["y".repeat(10); 1_000];
        values[500] = "z".repeat(3 * PART_BYTES);
        let whole = batch(Arc::new(StringArray::from(values)));
        let parts = parts_of(whole.clone());
        assert!(
            parts
                .iter()
                .all(|(part, bytes)| *bytes <= PART_BYTES || part.num_rows() == 1)
        );
        let parts: Vec<RecordBatch> = parts.into_iter().map(|(part, _)| part).collect();
        let joined = arrow::compute::concat_batches(&whole.schema(), &parts).unwrap();
        assert_eq!(joined, whole);
        assert_eq!(parts_of(batch(texts(10, 10))).len(), 1);
    }
}
