//! Rows as the body of a response, sent while the query runs.
//!
//! A body that ends early never looks complete: JSON Lines end with an `error` line, and in every
//! format the connection is closed without the end of the body.

use std::io;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::json::LineDelimitedWriter;
use bytes::Bytes;
use futures::{TryStreamExt, stream};
use gristmill_queries::sql::{json_writer, repeated_column};
use http_body_util::{BodyExt, StreamBody};
use hyper::StatusCode;
use hyper::body::Frame;

use super::limited_rows::{LimitedRows, RowQueue};
use super::refusal::{Body, Refusal, Result};

/// Time that the last line of a body that is cut has to reach the client.
const LAST_LINE: Duration = Duration::from_millis(50);

/// Form of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowFormat {
    /// One JSON object per line.
    JsonLines,
    /// An Arrow IPC stream.
    Arrow,
}

/// The rows of a running query, whose first part was waited for.
pub(super) struct RowBody {
    rows: RowQueue,
    writer: BatchWriter,
    first: Option<Vec<u8>>,
}

/// State of a body that is being sent.
enum BodyState {
    Rows(RowBody),
    /// Cut after its last line; nothing follows.
    Cut,
    /// Complete; nothing follows.
    End,
}

enum BatchWriter {
    JsonLines,
    Arrow(Box<StreamWriter<Vec<u8>>>),
}

impl BatchWriter {
    fn new(format: RowFormat, rows: &RowQueue) -> Result<BatchWriter> {
        Ok(match format {
            RowFormat::JsonLines => {
                check_names(&rows.schema())?;
                BatchWriter::JsonLines
            }
            RowFormat::Arrow => {
                let writer = StreamWriter::try_new(Vec::new(), &rows.schema());
                BatchWriter::Arrow(Box::new(writer.map_err(|error| unwritable(&error))?))
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> std::result::Result<Vec<u8>, ArrowError> {
        match self {
            BatchWriter::JsonLines => {
                let mut lines: LineDelimitedWriter<Vec<u8>> = json_writer().build(Vec::new());
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

/// Refuses columns of one name.
fn check_names(schema: &Schema) -> Result<()> {
    match repeated_column(schema) {
        None => Ok(()),
        Some(name) => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "FORMAT",
            format!("several columns are named `{name}`"),
            "Give them names with AS, or ask for another format.",
        )),
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
    /// Waits for the first part of a query's rows, which decides about the status.
    ///
    /// # Errors
    /// Those of [`LimitedRows::next`] before the first rows.
    pub(super) async fn start(rows: LimitedRows, format: RowFormat) -> Result<RowBody> {
        let rows = rows.into_task();
        let mut body = RowBody {
            writer: BatchWriter::new(format, &rows)?,
            rows,
            first: None,
        };
        body.first = body.next_part().await?;
        Ok(body)
    }

    /// Returns the body, which fails where the query does.
    pub(super) fn into_body(self) -> Body {
        let parts = stream::try_unfold(BodyState::Rows(self), BodyState::part);
        let frames = parts.map_ok(|part| Frame::data(Bytes::from(part)));
        StreamBody::new(frames).boxed_unsync()
    }

    /// Waits for the next part; `None` at the end.
    async fn next_part(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let Some(batch) = self.rows.next().await? else {
            return Ok(None);
        };
        let part = self.writer.write(&batch);
        part.map(Some).map_err(|error| unwritable(&error))
    }
}

impl BodyState {
    /// Waits for the next part; `None` at the end.
    async fn part(self) -> io::Result<Option<(Vec<u8>, BodyState)>> {
        let cut = || io::Error::other("the query failed while its rows were sent");
        let mut body = match self {
            BodyState::Rows(body) => body,
            BodyState::Cut => {
                // Lets the line reach the client before the connection is closed.
                tokio::time::sleep(LAST_LINE).await;
                return Err(cut());
            }
            BodyState::End => return Ok(None),
        };
        Ok(Some(match (body.next_part().await, &body.writer) {
            (Ok(Some(part)), _) => (part, BodyState::Rows(body)),
            (Ok(None), _) => (body.writer.finish().map_err(|_| cut())?, BodyState::End),
            (Err(refusal), BatchWriter::JsonLines) => {
                let line = format!("{}\n", refusal.to_json());
                (line.into_bytes(), BodyState::Cut)
            }
            (Err(_), BatchWriter::Arrow(_)) => return Err(cut()),
        }))
    }
}
