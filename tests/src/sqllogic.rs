//! Runs sqllogictest files against a lake.

use futures::TryStreamExt;
use gristmill_queries::sql::{DataFusionError, SessionContext, execute, statements};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType};

/// The sqllogictest driver over a lake's context.
pub struct LakeSession {
    context: SessionContext,
}

impl LakeSession {
    /// Runs statements in `context`.
    pub fn new(context: SessionContext) -> LakeSession {
        LakeSession { context }
    }
}

#[async_trait::async_trait]
impl AsyncDB for LakeSession {
    type Error = DataFusionError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, DataFusionError> {
        let mut output = DBOutput::StatementComplete(0);
        for statement in statements(sql)? {
            let stream = execute(&self.context, statement).await?;
            let types = vec![DefaultColumnType::Any; stream.schema().fields().len()];
            let batches: Vec<_> = stream.try_collect().await?;
            let rows = batches
                .iter()
                .map(rows_of)
                .collect::<Result<Vec<_>, _>>()?
                .concat();
            output = if types.is_empty() {
                DBOutput::StatementComplete(0)
            } else {
                DBOutput::Rows { types, rows }
            };
        }
        Ok(output)
    }

    async fn shutdown(&mut self) {}
}

fn rows_of(
    batch: &arrow::array::RecordBatch,
) -> Result<Vec<Vec<String>>, arrow::error::ArrowError> {
    use arrow::util::display::{ArrayFormatter, FormatOptions};
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options))
        .collect::<Result<_, _>>()?;
    let cell = |text: String| {
        if text.is_empty() {
            "(empty)".to_owned()
        } else {
            text
        }
    };
    Ok((0..batch.num_rows())
        .map(|row| {
            columns
                .iter()
                .map(|column| cell(column.value(row).to_string()))
                .collect()
        })
        .collect())
}
