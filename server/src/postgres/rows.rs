//! Rows of a running query as messages, sent while it runs. A query that fails or is cancelled ends
//! with an error, never with the message of a complete answer.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Field, FieldRef};
use arrow::error::ArrowError;
use bytes::BytesMut;
use futures::channel::oneshot;
use futures::{Stream, TryStreamExt, stream};
use gristmill_queries::sql::DataFusionError;
use pgwire::api::results::FieldFormat;
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::data::DataRow;

use super::failure::{counted_as, query_error, refused};
use super::types::Column;
use super::values::Values;
use crate::http::{LimitedRows, Server};

/// An answer in the figures of the server. It is counted when it is dropped, which is when its last
/// row or its error is sent: a query may fail after some of its rows.
pub(super) struct CountedAnswer {
    server: Arc<Server>,
    /// Time until the answer began.
    duration: Duration,
    status: u16,
}

impl CountedAnswer {
    pub(super) fn new(server: &Arc<Server>, duration: Duration) -> CountedAnswer {
        CountedAnswer {
            server: Arc::clone(server),
            duration,
            status: 200,
        }
    }

    /// Returns `result`, and notes its error.
    pub(super) fn checked<T>(&mut self, result: PgWireResult<T>) -> PgWireResult<T> {
        result.inspect_err(|error| self.status = counted_as(error))
    }
}

impl Drop for CountedAnswer {
    fn drop(&mut self) {
        self.server
            .count_request("postgres", self.status, self.duration);
    }
}

/// The rows of a running query.
pub(super) struct RunningQuery {
    pub(super) rows: LimitedRows,
    pub(super) writer: RowWriter,
    pub(super) answer: CountedAnswer,
    /// Ready when the client cancels the query.
    pub(super) cancelled: oneshot::Receiver<()>,
    /// Marks the session while rows are left.
    pub(super) _unfinished: Arc<()>,
}

impl RunningQuery {
    /// Waits for the next rows; `None` at the end.
    async fn next(&mut self) -> PgWireResult<Option<Vec<DataRow>>> {
        let batch = tokio::select! {
            batch = self.rows.next() => batch.map_err(|refusal| refused(&refusal))?,
            // It is dropped, without a value, when the session begins another query.
            Ok(()) = &mut self.cancelled => return Err(PgWireError::QueryCanceled),
        };
        match batch {
            Some(batch) => {
                let rows = self.writer.rows(&batch);
                rows.map(Some)
                    .map_err(|error| query_error(DataFusionError::from(error)))
            }
            None => {
                self.rows.count().await;
                Ok(None)
            }
        }
    }

    /// Returns the messages of the rows.
    pub(super) fn into_stream(self) -> impl Stream<Item = PgWireResult<DataRow>> {
        stream::try_unfold(self, |mut query| async move {
            let rows = query.next().await;
            let rows = query.answer.checked(rows)?;
            PgWireResult::Ok(rows.map(|rows| (stream::iter(rows.into_iter().map(Ok)), query)))
        })
        .try_flatten()
    }
}

/// Writes rows in the formats that the client has requested.
pub(super) struct RowWriter {
    columns: Vec<(Column, FieldFormat, FieldRef)>,
}

impl RowWriter {
    pub(super) fn new(columns: Vec<(Column, FieldFormat)>) -> RowWriter {
        let with_field = |(column, format): (Column, FieldFormat)| {
            let field = Arc::new(Field::new(&column.name, column.written.clone(), true));
            (column, format, field)
        };
        RowWriter {
            columns: columns.into_iter().map(with_field).collect(),
        }
    }

    /// Writes the rows of a batch.
    ///
    /// # Errors
    /// A value that its type of PostgreSQL can't have: NULL in its place would be another answer.
    fn rows(&self, batch: &RecordBatch) -> Result<Vec<DataRow>, ArrowError> {
        let strict = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let arrays = batch.columns().iter().zip(&self.columns);
        let arrays = arrays
            .map(|(array, (column, ..))| cast_with_options(array, &column.written, &strict))
            .collect::<Result<Vec<_>, _>>()?;
        let mut values = arrays
            .iter()
            .zip(&self.columns)
            .map(|(array, (_, format, field))| Ok((Values::new(field, array)?, *format)))
            .collect::<Result<Vec<_>, ArrowError>>()?;
        let width = i16::try_from(values.len())
            .map_err(|_| ArrowError::InvalidArgumentError("too many columns".to_owned()))?;
        (0..batch.num_rows())
            .map(|row| {
                let mut data = BytesMut::new();
                for (values, format) in &mut values {
                    values.write_field(row, *format, &mut data)?;
                }
                Ok(DataRow::new(data, width))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Decimal256Array, TimestampSecondArray};
    use arrow::datatypes::i256;

    use super::super::types::columns;
    use super::*;

    /// Returns the rows of a column as text.
    fn written(column: ArrayRef) -> Result<Vec<DataRow>, ArrowError> {
        let batch = RecordBatch::try_from_iter_with_nullable([("a", column, true)])?;
        let columns = columns(&batch.schema()).into_iter();
        let columns = columns.map(|column| (column, FieldFormat::Text));
        RowWriter::new(columns.collect()).rows(&batch)
    }

    #[test]
    fn a_value_beyond_its_type_is_an_error_and_not_null() {
        let decimal = |value: Option<i256>| -> ArrayRef {
            let values = Decimal256Array::from(vec![value]);
            Arc::new(values.with_precision_and_scale(60, 2).unwrap())
        };
        let small = written(decimal(Some(i256::from_i128(150)))).unwrap();
        assert_eq!(&small[0].data[..], b"\0\0\0\x041.50");
        let null = written(decimal(None)).unwrap();
        assert_eq!(&null[0].data[..], b"\xff\xff\xff\xff");
        let large = i256::from_i128(10_i128.pow(38)).checked_mul(i256::from_i128(10));
        assert!(written(decimal(large)).is_err());
        let late = TimestampSecondArray::from(vec![i64::MAX]);
        assert!(written(Arc::new(late)).is_err());
    }
}
