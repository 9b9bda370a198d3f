//! `DESCRIBE table` with the meaning of each column.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use futures::StreamExt;

use super::reference::sql_reference;

/// Column of DataFusion's answer with the names of the columns.
const COLUMN_NAME: &str = "column_name";

/// Column that is added.
const DESCRIPTION: &str = "description";

/// Returns the name of the table that `statement` describes, without catalog and schema; `None` for
/// another statement.
pub(super) fn described_table(statement: &Statement) -> Option<String> {
    let Statement::Statement(statement) = statement else {
        return None;
    };
    let SqlStatement::ExplainTable { table_name, .. } = &**statement else {
        return None;
    };
    let name = table_name.0.last()?.as_ident()?;
    Some(match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    })
}

/// Adds a column to the rows of DESCRIBE: what each column of `table` means, NULL for a column that
/// the reference doesn't have.
pub(super) fn with_descriptions(
    rows: SendableRecordBatchStream,
    table: String,
) -> SendableRecordBatchStream {
    let mut fields = rows.schema().fields().to_vec();
    fields.push(Arc::new(Field::new(DESCRIPTION, DataType::Utf8, true)));
    let schema = Arc::new(Schema::new(fields));
    let output = Arc::clone(&schema);
    let rows = rows.map(move |batch| describe_rows(&batch?, &table, &output));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

fn describe_rows(batch: &RecordBatch, table: &str, schema: &SchemaRef) -> Result<RecordBatch> {
    let reference = sql_reference();
    let descriptions: StringArray = match batch.column_by_name(COLUMN_NAME) {
        Some(names) => cast(names, &DataType::Utf8)?
            .as_string::<i32>()
            .iter()
            .map(|name| reference.column(table, name?))
            .collect(),
        None => StringArray::new_null(batch.num_rows()),
    };
    let columns = batch.columns().iter().cloned();
    let columns = columns
        .chain([Arc::new(descriptions) as ArrayRef])
        .collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
