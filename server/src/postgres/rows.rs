//! Rows of a running query as messages, sent while it runs. A query that fails or is cancelled ends
//! with an error, never with the message of a complete answer.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::compute::cast;
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

    fn rows(&self, batch: &RecordBatch) -> Result<Vec<DataRow>, ArrowError> {
        let arrays = batch.columns().iter().zip(&self.columns);
        let arrays = arrays
            .map(|(array, (column, ..))| cast(array, &column.written))
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
