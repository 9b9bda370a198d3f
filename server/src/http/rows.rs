//! Rows as the body of a response, sent while the query runs.
//!
//! A body that ends early never looks complete: JSON Lines end with an `error` line, and in every
//! format the connection is closed without the end of the body.

use std::io;
use std::task::{Poll, ready};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::json::LineDelimitedWriter;
use hyper::{Body, StatusCode};
use tokio::sync::mpsc;
use tokio::time::timeout_at;

use super::limited_rows::LimitedRows;
use super::refusal::{Refusal, Result};

/// Time for the last line of a body that is cut.
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
    rows: RowParts,
    first: Option<Vec<u8>>,
}

/// The rows of a running query as parts of a body.
struct RowParts {
    rows: LimitedRows,
    writer: BatchWriter,
}

/// What a connection gets from the task that sends rows.
enum Message {
    Part(Vec<u8>),
    /// The body is complete. A body without it is cut.
    End,
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
    /// Waits for the first part of a query's rows, which decides about the status.
    ///
    /// # Errors
    /// Those of [`LimitedRows::next`] before the first rows.
    pub(super) async fn start(rows: LimitedRows, format: RowFormat) -> Result<RowBody> {
        let mut rows = RowParts {
            writer: BatchWriter::new(format, &rows)?,
            rows,
        };
        let first = rows.next().await?;
        Ok(RowBody { rows, first })
    }

    /// Returns the body. A task of its own sends it, so that a client that doesn't read occupies
    /// the query's slot until the deadline at most; its connection is cut then.
    pub(super) fn into_body(self) -> Body {
        let (sender, mut receiver) = mpsc::channel(1);
        tokio::spawn(self.rows.send(self.first, sender));
        let mut ended = false;
        Body::wrap_stream(futures::stream::poll_fn(move |context| {
            if ended {
                return Poll::Ready(None);
            }
            let message = ready!(receiver.poll_recv(context));
            ended = !matches!(message, Some(Message::Part(_)));
            Poll::Ready(match message {
                Some(Message::Part(part)) => Some(Ok(part)),
                Some(Message::End) => None,
                None => Some(Err(io::Error::other("the query failed while it was sent"))),
            })
        }))
    }
}

impl RowParts {
    /// Waits for the next part; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(batch) = self.rows.next().await? else {
            return Ok(None);
        };
        let part = self.writer.write(&batch);
        part.map(Some).map_err(|error| unwritable(&error))
    }

    /// Sends all parts, and counts the rows that were handed over, also of a body that is cut.
    async fn send(mut self, first: Option<Vec<u8>>, sender: mpsc::Sender<Message>) {
        let complete = self.send_parts(first, &sender).await;
        self.rows.count().await;
        if complete {
            self.hand_over(&sender, Message::End).await;
        }
    }

    /// Sends parts until the last one, and returns whether the body is complete.
    async fn send_parts(&mut self, first: Option<Vec<u8>>, sender: &mpsc::Sender<Message>) -> bool {
        let mut next = Ok(first);
        loop {
            match next {
                Ok(Some(part)) => {
                    if !self.hand_over(sender, Message::Part(part)).await {
                        return false;
                    }
                }
                Ok(None) => {
                    let Ok(end) = self.writer.finish() else {
                        return false;
                    };
                    return end.is_empty() || self.hand_over(sender, Message::Part(end)).await;
                }
                Err(refusal) => {
                    self.hand_over_refusal(sender, &refusal).await;
                    return false;
                }
            }
            next = tokio::select! {
                next = self.next() => next,
                // The connection is gone.
                () = sender.closed() => return false,
            };
        }
    }

    /// Waits until the connection has taken `message`; returns whether it did in time.
    async fn hand_over(&mut self, sender: &mpsc::Sender<Message>, message: Message) -> bool {
        let taken = timeout_at(self.rows.deadline(), sender.send(message)).await;
        matches!(taken, Ok(Ok(())))
    }

    /// Sends the line that tells why a body is cut, in formats that have lines.
    async fn hand_over_refusal(&mut self, sender: &mpsc::Sender<Message>, refusal: &Refusal) {
        if let BatchWriter::JsonLines = self.writer {
            let line = format!("{}\n", refusal.to_json()).into_bytes();
            let _ = tokio::time::timeout(LAST_LINE, sender.send(Message::Part(line))).await;
            // Lets the line reach the client before the connection is closed.
            tokio::time::sleep(LAST_LINE).await;
        }
    }
}
