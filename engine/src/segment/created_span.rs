//! When the grains of a data file were created, by the statistics of its row groups.

use gristmill_schemas::grain::Field;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

use crate::file_digest::CreatedSpan;

/// Returns the span of the column `created_at` in all of `groups`. `None` if they have no such
/// column, no statistics of it, or rows without a value.
pub(super) fn created_span_of<'g>(
    groups: impl IntoIterator<Item = &'g RowGroupMetaData>,
) -> Option<CreatedSpan> {
    let mut whole: Option<CreatedSpan> = None;
    for group in groups {
        let mut columns = group.columns().iter();
        let column =
            columns.find(|column| column.column_path().string() == Field::CreatedAt.name())?;
        let statistics = column.statistics()?;
        if statistics.null_count_opt() != Some(0) {
            return None;
        }
        let Statistics::Int64(values) = statistics else {
            return None;
        };
        let (&first, &last) = values.min_opt().zip(values.max_opt())?;
        whole = Some(match whole {
            Some(span) => CreatedSpan {
                first: span.first.min(first),
                last: span.last.max(last),
            },
            None => CreatedSpan { first, last },
        });
    }
    whole
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};

    use super::*;
    use crate::segment::{SegmentWriter, grains_properties};

    fn span_of(groups: &[&[Option<i64>]], name: &str) -> Option<CreatedSpan> {
        let batch = |times: &[Option<i64>]| {
            let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"; times.len()]));
            let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(times.to_vec()));
            RecordBatch::try_from_iter_with_nullable([("t", texts, true), (name, times, true)])
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let schema = batch(&[]).unwrap().schema();
        let writer = SegmentWriter::create(&file, schema, grains_properties()).unwrap();
        for (number, times) in groups.iter().enumerate() {
            writer
                .write_row_group(number, &[batch(times).unwrap()])
                .unwrap();
        }
        writer.finish().unwrap().created
    }

    #[test]
    fn the_span_covers_the_values_of_all_row_groups() {
        let span = |first, last| Some(CreatedSpan { first, last });
        let groups: [&[Option<i64>]; 2] = [&[Some(5), Some(-7)], &[Some(4)]];
        assert_eq!(span_of(&groups, "created_at"), span(-7, 5));
        assert_eq!(
            span_of(&[&[Some(i64::MAX)]], "created_at"),
            span(i64::MAX, i64::MAX)
        );
        assert_eq!(span_of(&[&[Some(1)], &[Some(2), None]], "created_at"), None);
        assert_eq!(span_of(&groups, "ingested_at"), None);
        assert_eq!(span_of(&[], "created_at"), None);
    }
}
