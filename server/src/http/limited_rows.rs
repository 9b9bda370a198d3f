//! The rows of a running query within the limits of a server: time, number, and the audit log.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use gristmill_queries::sql::SendableRecordBatchStream;
use hyper::StatusCode;
use sha2::{Digest, Sha256};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::Server;
use super::admission::too_long;
use super::refusal::{Refusal, Result};
use super::tokens::Authority;

/// Who asked what, for the audit log.
#[derive(Debug, Clone)]
pub(crate) struct AskedQuery {
    /// Name of the token.
    pub(crate) token: String,
    /// SHA-256 of the query's text, in hexadecimal digits.
    pub(crate) sha256: String,
}

impl AskedQuery {
    pub(crate) fn new(authority: &Authority, query: &str) -> AskedQuery {
        AskedQuery {
            token: authority.name.clone(),
            sha256: hex::encode(Sha256::digest(query.as_bytes())),
        }
    }
}

/// The rows of a running query. Its slot is free again when it is dropped.
pub(crate) struct LimitedRows {
    server: Arc<Server>,
    rows: SendableRecordBatchStream,
    deadline: Instant,
    sent: u64,
    is_counted: bool,
    asked: AskedQuery,
    _permit: OwnedSemaphorePermit,
}

impl LimitedRows {
    pub(crate) fn new(
        server: Arc<Server>,
        rows: SendableRecordBatchStream,
        asked: AskedQuery,
        permit: OwnedSemaphorePermit,
        deadline: Instant,
    ) -> LimitedRows {
        LimitedRows {
            server,
            rows,
            deadline,
            sent: 0,
            is_counted: false,
            asked,
            _permit: permit,
        }
    }

    /// Returns the time at which the last row must be handed over.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the schema of the rows.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// Waits for the next batch; `None` at the end.
    ///
    /// # Errors
    /// `TIME_LIMIT` and `ROW_LIMIT`, and the errors of the query.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let limits = &self.server.options.limits;
        let batch = timeout_at(self.deadline, self.rows.next())
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

    /// Counts the rows, and records many of them in the audit log.
    pub(crate) async fn count(&mut self) {
        if !std::mem::replace(&mut self.is_counted, true) {
            self.server.count_rows(self.sent, &self.asked).await;
        }
    }
}

/// Rows that were sent are counted, although the client didn't wait for the end.
impl Drop for LimitedRows {
    fn drop(&mut self) {
        if self.sent > 0 && !self.is_counted {
            self.server.count_dropped_rows(self.sent, &self.asked);
        }
    }
}
