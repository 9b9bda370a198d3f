//! The rows of a running query within the limits of a server: time, number, bytes, and the audit
//! log.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use gristmill_queries::sql::{CountedBatch, CountedRows};
use hyper::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::Server;
use super::admission::too_long;
use super::audited_query::AuditedQuery;
use super::query_workers::{QueryTask, unfinished};
use super::refusal::{Refusal, Result};

/// The rows of a running query, which its threads compute. When this is dropped, the query ends at
/// its next pause, and its slot is free again.
pub(crate) struct LimitedRows {
    server: Arc<Server>,
    schema: SchemaRef,
    batches: mpsc::Receiver<Result<CountedBatch>>,
    _query: Option<QueryTask<()>>,
    deadline: Instant,
    /// Rows that were taken.
    sent: u64,
    /// Bytes of their values.
    sent_bytes: u64,
    /// The rows that were taken last: their memory counts until the next ones are requested.
    sending: Option<CountedBatch>,
    is_counted: bool,
    audited: AuditedQuery,
}

/// Computes rows, a few batches ahead of those that were taken. At `deadline` the query ends and
/// its slot is free, also if the rows aren't taken. The channel stays open then, so that what was
/// sent doesn't look like all rows.
async fn compute(
    rows: CountedRows,
    sender: mpsc::Sender<Result<CountedBatch>>,
    permit: OwnedSemaphorePermit,
    deadline: Instant,
) {
    let mut partitions = JoinSet::new();
    let permit = Arc::new(permit);
    for mut rows in rows.into_partitions() {
        let (sender, permit) = (sender.clone(), Arc::clone(&permit));
        partitions.spawn(async move {
            // The slot is free when the last partition has really ended.
            let _permit = permit;
            while let Some(batch) = rows.next().await {
                if sender.send(batch.map_err(Refusal::from)).await.is_err() {
                    break;
                }
            }
        });
    }
    let all_sent = timeout_at(deadline, async {
        while let Some(ended) = partitions.join_next().await {
            if ended.is_err() {
                // What was sent before a panic doesn't look like all rows either.
                let _ = sender.send(Err(unfinished())).await;
            }
        }
    });
    let in_time = all_sent.await.is_ok();
    partitions.shutdown().await;
    drop(permit);
    if !in_time {
        sender.closed().await;
    }
}

impl LimitedRows {
    pub(crate) fn new(
        server: Arc<Server>,
        rows: CountedRows,
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
            sent_bytes: 0,
            sending: None,
            is_counted: false,
            audited,
        }
    }

    /// Returns the schema of the rows.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Waits for the next batch; `None` at the end. The memory of the batch before counts until
    /// then.
    ///
    /// # Errors
    /// `TIME_LIMIT`, `ROW_LIMIT` and `BYTE_LIMIT`, and the errors of the query.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.sending = None;
        self.sending = self.next_counted().await?;
        Ok(self.sending.as_ref().map(|rows| rows.batch.clone()))
    }

    async fn next_counted(&mut self) -> Result<Option<CountedBatch>> {
        let limits = &self.server.options.limits;
        let rows = timeout_at(self.deadline, self.batches.recv())
            .await
            .map_err(|_| too_long(limits.time))?;
        let Some(rows) = rows.transpose()? else {
            return Ok(None);
        };
        self.sent += rows.batch.num_rows() as u64;
        self.sent_bytes = self.sent_bytes.saturating_add(rows.bytes as u64);
        if self.sent > limits.rows {
            return Err(Refusal::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "ROW_LIMIT",
                format!("the answer has more than {} rows", limits.rows),
                "Aggregate or add a LIMIT; the operator can raise --max-rows.",
            ));
        }
        if self.sent_bytes > limits.bytes {
            return Err(Refusal::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "BYTE_LIMIT",
                format!("the answer has more than {} bytes", limits.bytes),
                "Select fewer columns or rows; the operator can raise --max-bytes.",
            ));
        }
        Ok(Some(rows))
    }

    /// Has a task of its own read the rows, so that a client that doesn't take them occupies the
    /// query's slot until the deadline at most.
    pub(crate) fn into_task(self) -> RowQueue {
        let (sender, batches) = mpsc::channel(1);
        let (schema, time) = (self.schema(), self.server.options.limits.time);
        let server = Arc::clone(&self.server);
        server.spawn_recorded(self.hand_over(sender));
        RowQueue {
            schema,
            batches,
            time,
            sending: None,
            is_ended: false,
        }
    }

    /// Sends all batches, or those that are taken until the deadline. The rows are counted before
    /// the end of the answer is sent.
    async fn hand_over(mut self, sender: mpsc::Sender<Result<Option<CountedBatch>>>) {
        loop {
            let next = tokio::select! {
                next = self.next_counted() => next,
                // The receiver has been dropped.
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
            self.server.record_rows(self.sent, &self.audited).await;
        }
    }
}

/// The rows of a running query, which a task of its own reads.
pub(crate) struct RowQueue {
    schema: SchemaRef,
    batches: mpsc::Receiver<Result<Option<CountedBatch>>>,
    /// Time of the query.
    time: Duration,
    /// The rows that were taken last: their memory counts until the next ones are requested.
    sending: Option<CountedBatch>,
    is_ended: bool,
}

impl RowQueue {
    /// Returns the schema of the rows.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Waits for the next batch; `None` at the end. The memory of the batch before counts until
    /// then.
    ///
    /// # Errors
    /// Like [`LimitedRows::next`]. `TIME_LIMIT` also if the rows weren't taken in time.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.sending = None;
        if self.is_ended {
            return Ok(None);
        }
        let next = self.batches.recv().await;
        let next = next.unwrap_or_else(|| Err(too_long(self.time)));
        self.is_ended = !matches!(next, Ok(Some(_)));
        self.sending = next?;
        Ok(self.sending.as_ref().map(|rows| rows.batch.clone()))
    }
}

/// Rows that were sent are counted, although the client didn't wait for the end.
impl Drop for LimitedRows {
    fn drop(&mut self) {
        if self.sent > 0 && !self.is_counted {
            drop(self.server.count_rows(self.sent, &self.audited));
        }
    }
}
