//! Rows as the body of a response, sent while the query runs.
//!
//! A body that ends early never looks complete: JSON Lines end with an `error` line, and in every
//! format the connection is closed without the end of the body.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::json::LineDelimitedWriter;
use futures::Stream;
use hyper::StatusCode;

use super::limited_rows::LimitedRows;
use super::refusal::{Refusal, Result};

/// Form of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowFormat {
    /// One JSON object per line.
    JsonLines,
    /// An Arrow IPC stream.
    Arrow,
}

/// The rows of a running query, in their form.
pub(super) struct RowBody {
    rows: LimitedRows,
    writer: BatchWriter,
}

enum BatchWriter {
    JsonLines,
    Arrow(Box<StreamWriter<Vec<u8>>>),
}

impl BatchWriter {
    fn new(format: RowFormat, rows: &LimitedRows) -> Result<BatchWriter> {
        Ok(match format {
            RowFormat::JsonLines => BatchWriter::JsonLines,
            RowFormat::Arrow => {
                let writer = StreamWriter::try_new(Vec::new(), &rows.schema());
                BatchWriter::Arrow(Box::new(writer.map_err(|error| unwritable(&error))?))
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> std::result::Result<Vec<u8>, ArrowError> {
        match self {
            BatchWriter::JsonLines => {
                let mut lines = LineDelimitedWriter::new(Vec::new());
                lines.write(batch)?;
                lines.finish()?;
                Ok(lines.into_inner())
            }
            BatchWriter::Arrow(writer) => {
                writer.write(batch)?;
                Ok(std::mem::take(writer.get_mut()))
            }
        }
    }

    /// Returns the end of the body.
    fn finish(&mut self) -> std::result::Result<Vec<u8>, ArrowError> {
        match self {
            BatchWriter::JsonLines => Ok(Vec::new()),
            BatchWriter::Arrow(writer) => {
                writer.finish()?;
                Ok(std::mem::take(writer.get_mut()))
            }
        }
    }
}

fn unwritable(error: &ArrowError) -> Refusal {
    Refusal::new(
        StatusCode::BAD_REQUEST,
        "FORMAT",
        format!("the rows can't be written: {error}"),
        "Convert the column in the query, or ask for another format.",
    )
}

impl RowBody {
    pub(super) fn new(rows: LimitedRows, format: RowFormat) -> Result<RowBody> {
        Ok(RowBody {
            writer: BatchWriter::new(format, &rows)?,
            rows,
        })
    }

    /// Waits for the next part; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(batch) = self.rows.next().await? else {
            return Ok(None);
        };
        let part = self.writer.write(&batch);
        part.map(Some).map_err(|error| unwritable(&error))
    }

    /// Returns the whole body after its first part, which was waited for already.
    pub(super) fn into_stream(
        self,
        first: Option<Vec<u8>>,
    ) -> impl Stream<Item = std::io::Result<Vec<u8>>> {
        let state = match first {
            Some(part) => BodyState::Part(self, part),
            None => BodyState::End(self),
        };
        futures::stream::unfold(state, BodyState::advance)
    }
}

/// What of a body comes next.
enum BodyState {
    /// A part that was waited for.
    Part(RowBody, Vec<u8>),
    /// The next part, which isn't there yet.
    Waiting(RowBody),
    /// The end of the format.
    End(RowBody),
    /// The connection is closed without the end of the body.
    Abort,
    Done,
}

impl BodyState {
    async fn advance(self) -> Option<(std::io::Result<Vec<u8>>, BodyState)> {
        match self {
            BodyState::Part(body, part) => Some((Ok(part), BodyState::Waiting(body))),
            BodyState::Waiting(mut body) => match body.next().await {
                Ok(Some(part)) => Some((Ok(part), BodyState::Waiting(body))),
                Ok(None) => body.end().await,
                Err(refusal) => {
                    let line = match body.writer {
                        BatchWriter::JsonLines => format!("{}\n", refusal.to_json()).into_bytes(),
                        BatchWriter::Arrow(_) => Vec::new(),
                    };
                    Some((Ok(line), BodyState::Abort))
                }
            },
            BodyState::End(body) => body.end().await,
            BodyState::Abort => {
                // Lets the last line reach the client before the connection is closed.
                tokio::time::sleep(Duration::from_millis(50)).await;
                let error = std::io::Error::other("the query failed while it was sent");
                Some((Err(error), BodyState::Done))
            }
            BodyState::Done => None,
        }
    }
}

impl RowBody {
    async fn end(mut self) -> Option<(std::io::Result<Vec<u8>>, BodyState)> {
        self.rows.count().await;
        match self.writer.finish() {
            Ok(end) => Some((Ok(end), BodyState::Done)),
            Err(error) => Some((Err(std::io::Error::other(error)), BodyState::Done)),
        }
    }
}
