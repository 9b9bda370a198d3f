//! Statements of the same process, answered as those of a listener: with the session, the limits
//! and the audit log of a token, without a connection.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use gristmill_queries::cal::Bindings;
use gristmill_queries::sql::ParamValues;

use super::endpoints::{cal_response, started};
use super::refusal::Refusal;
use super::{Scope, Server};

/// The rows of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct AnsweredRows {
    /// Their columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

/// Reason why a statement has no answer, as clients get it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct AnswerError {
    /// The code, such as `QUERY` or that of an error of CAL.
    pub code: String,
    /// The message.
    pub message: String,
}

impl From<Refusal> for AnswerError {
    fn from(refusal: Refusal) -> AnswerError {
        AnswerError {
            code: refusal.text("code").to_owned(),
            message: refusal.text("message").to_owned(),
        }
    }
}

impl Server {
    /// Answers a query in SQL for a token; without tokens `token` has no effect.
    ///
    /// # Errors
    /// [`AnswerError`] for another token, a limit, and errors of the query.
    pub async fn answer_sql(
        self: &Arc<Self>,
        token: Option<&str>,
        text: &str,
    ) -> Result<AnsweredRows, AnswerError> {
        let authority = self.authority_of(token, Scope::Read)?;
        let deadline = self.admission.deadline();
        let none = ParamValues::List(Vec::new());
        let mut rows = started(self, &authority, text, none, deadline).await?;
        let (schema, mut batches) = (rows.schema(), Vec::new());
        while let Some(batch) = rows.next().await? {
            batches.push(batch);
        }
        rows.count().await;
        Ok(AnsweredRows { schema, batches })
    }

    /// Answers a statement of CAL for a token with its response as JSON; without tokens `token` has
    /// no effect.
    ///
    /// # Errors
    /// As [`Server::answer_sql`].
    pub async fn answer_cal(
        self: &Arc<Self>,
        token: Option<&str>,
        statement: &str,
    ) -> Result<String, AnswerError> {
        let authority = self.authority_of(token, Scope::Read)?;
        Ok(cal_response(self, &authority, statement, &Bindings::new()).await?)
    }
}
