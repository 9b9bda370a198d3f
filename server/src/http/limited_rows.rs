//! The rows of a running query within the limits of a server: time, number, and the audit log.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use gristmill_queries::sql::{DataFusionError, SendableRecordBatchStream};
use hyper::StatusCode;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, timeout_at};

use super::Server;
use super::admission::too_long;
use super::query_workers::QueryTask;
use super::refusal::{Refusal, Result};
use super::tokens::Authority;

/// The client and its query, for the audit log.
#[derive(Debug, Clone)]
pub(crate) struct AuditedQuery {
    /// Name of the token.
    pub(crate) token: String,
    /// SHA-256 of the query's text, in hexadecimal digits.
    pub(crate) sha256: String,
}

impl AuditedQuery {
    pub(crate) fn new(authority: &Authority, query: &str) -> AuditedQuery {
        AuditedQuery {
            token: authority.name.clone(),
            sha256: hex::encode(Sha256::digest(query.as_bytes())),
        }
    }
}

/// The rows of a running query, which its threads compute. When this is dropped, the query ends at
/// its next pause, and its slot is free again.
pub(crate) struct LimitedRows {
    server: Arc<Server>,
    schema: SchemaRef,
    batches: mpsc::Receiver<RowResult>,
    _query: Option<QueryTask<()>>,
    deadline: Instant,
    sent: u64,
    is_counted: bool,
    audited: AuditedQuery,
}

type RowResult = std::result::Result<RecordBatch, DataFusionError>;

/// Computes rows, at most two batches ahead of those that were taken. At `deadline` the query ends
/// and its slot is free, also if nobody takes the rows. The channel stays open then, so that what
/// was sent doesn't look like all rows.
async fn compute(
    mut rows: SendableRecordBatchStream,
    sender: mpsc::Sender<RowResult>,
    permit: OwnedSemaphorePermit,
    deadline: Instant,
) {
    let all_sent = timeout_at(deadline, async {
        while let Some(batch) = rows.next().await {
            if sender.send(batch).await.is_err() {
                break;
            }
        }
    });
    let in_time = all_sent.await.is_ok();
    drop((rows, permit));
    if !in_time {
        sender.closed().await;
    }
}

impl LimitedRows {
    pub(crate) fn new(
        server: Arc<Server>,
        rows: SendableRecordBatchStream,
        audited: AuditedQuery,
        permit: OwnedSemaphorePermit,
        deadline: Instant,
    ) -> LimitedRows {
        let schema = rows.schema();
        let (sender, batches) = mpsc::channel(1);
        let query = server
            .workers
            .spawn(compute(rows, sender, permit, deadline));
        LimitedRows {
            server,
            schema,
            batches,
            _query: query,
            deadline,
            sent: 0,
            is_counted: false,
            audited,
        }
    }

    /// Returns the schema of the rows.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Waits for the next batch; `None` at the end.
    ///
    /// # Errors
    /// `TIME_LIMIT` and `ROW_LIMIT`, and the errors of the query.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let limits = &self.server.options.limits;
        let batch = timeout_at(self.deadline, self.batches.recv())
            .await
            .map_err(|_| too_long(limits.time))?;
        let Some(batch) = batch.transpose()? else {
            return Ok(None);
        };
        self.sent += batch.num_rows() as u64;
        if self.sent > limits.rows {
            return Err(Refusal::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "ROW_LIMIT",
                format!("the answer has more than {} rows", limits.rows),
                "Aggregate or add a LIMIT; the operator can raise --max-rows.",
            ));
        }
        Ok(Some(batch))
    }

    /// Has a task of its own read the rows, so that a client that doesn't take them occupies the
    /// query's slot until the deadline at most.
    pub(crate) fn into_task(self) -> RowQueue {
        let (sender, batches) = mpsc::channel(1);
        let (schema, time) = (self.schema(), self.server.options.limits.time);
        tokio::spawn(self.hand_over(sender));
        RowQueue {
            schema,
            batches,
            time,
            is_ended: false,
        }
    }

    /// Hands over all batches, or those that are taken until the deadline. The rows are counted
    /// before the end of the answer is handed over.
    async fn hand_over(mut self, sender: mpsc::Sender<Result<Option<RecordBatch>>>) {
        loop {
            let next = tokio::select! {
                next = self.next() => next,
                // Nobody waits for the rows any more.
                () = sender.closed() => break,
            };
            let is_last = !matches!(next, Ok(Some(_)));
            if is_last {
                self.count().await;
            }
            let taken = timeout_at(self.deadline, sender.send(next)).await;
            if is_last || !matches!(taken, Ok(Ok(()))) {
                break;
            }
        }
        self.count().await;
    }

    /// Counts the rows, and records many of them in the audit log.
    pub(crate) async fn count(&mut self) {
        if !std::mem::replace(&mut self.is_counted, true) {
            self.server.count_rows(self.sent, &self.audited).await;
        }
    }
}

/// The rows of a running query, which a task of its own reads.
pub(crate) struct RowQueue {
    schema: SchemaRef,
    batches: mpsc::Receiver<Result<Option<RecordBatch>>>,
    /// Time of the query.
    time: Duration,
    is_ended: bool,
}

impl RowQueue {
    /// Returns the schema of the rows.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Waits for the next batch; `None` at the end.
    ///
    /// # Errors
    /// Like [`LimitedRows::next`]. `TIME_LIMIT` also if the rows weren't taken in time.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.is_ended {
            return Ok(None);
        }
        let next = self.batches.recv().await;
        let next = next.unwrap_or_else(|| Err(too_long(self.time)));
        self.is_ended = !matches!(next, Ok(Some(_)));
        next
    }
}

/// Rows that were sent are counted, although the client didn't wait for the end.
impl Drop for LimitedRows {
    fn drop(&mut self) {
        if self.sent > 0 && !self.is_counted {
            self.server.count_dropped_rows(self.sent, &self.audited);
        }
    }
}
