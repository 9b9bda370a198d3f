//! Point look-ups: rows of a stored file whose positions are known, read from the pages that
//! contain them.
//!
//! Planning a scan over all columns of `grains` for every segment costs more than reading twenty
//! rows, so a look-up bypasses the planner. Not in this module: which rows are read, and how sealed
//! ones are opened.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use futures::TryStreamExt;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection};
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};

use super::file_errors::with_file;

/// Reader of single rows with a cache of footers by path. Stored files are immutable, so an
/// entry never becomes stale.
#[derive(Debug, Default)]
pub(super) struct PointReader(Mutex<HashMap<String, ArrowReaderMetadata>>);

impl PointReader {
    /// Reads the rows that `selection` picks of the file at `path` through `reader`, with the
    /// columns of `schema`. A column that the file doesn't have is NULL.
    ///
    /// # Errors
    /// If the file can't be read, or a column can't be cast to the type in `schema`.
    pub(super) async fn read(
        self: Arc<Self>,
        path: String,
        reader: Box<dyn AsyncFileReader>,
        selection: RowSelection,
        schema: SchemaRef,
    ) -> Result<Vec<RecordBatch>> {
        let rows = self.rows(&path, reader, selection, schema).await;
        rows.map_err(|error| with_file(error, &path))
    }

    async fn rows(
        &self,
        path: &str,
        mut reader: Box<dyn AsyncFileReader>,
        selection: RowSelection,
        schema: SchemaRef,
    ) -> Result<Vec<RecordBatch>> {
        let footer = self.footer(path, &mut reader).await?;
        let mask = columns_of_schema(&footer, &schema);
        let rows = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, footer)
            .with_projection(mask)
            .with_row_selection(selection)
            .build()?;
        let batches: Vec<RecordBatch> = rows.try_collect().await?;
        batches
            .iter()
            .map(|batch| with_schema(batch, &schema))
            .collect()
    }

    async fn footer(
        &self,
        path: &str,
        reader: &mut Box<dyn AsyncFileReader>,
    ) -> Result<ArrowReaderMetadata> {
        // The lock guards a map whose operations don't panic, so a poisoned lock is still valid.
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(footer) = known().get(path) {
            return Ok(footer.clone());
        }
        let footer = ArrowReaderMetadata::try_new(
            reader.get_metadata(None).await?,
            ArrowReaderOptions::new(),
        )?;
        known().insert(path.to_owned(), footer.clone());
        Ok(footer)
    }
}

/// Returns the columns of a file that `schema` contains.
fn columns_of_schema(footer: &ArrowReaderMetadata, schema: &SchemaRef) -> ProjectionMask {
    let own = footer.schema().fields().iter().enumerate();
    let wanted = own
        .filter(|(_, field)| schema.index_of(field.name()).is_ok())
        .map(|(place, _)| place);
    ProjectionMask::roots(footer.parquet_schema(), wanted)
}

/// Returns `batch` with the columns of `schema`, in their order; missing columns are NULL.
fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = schema
        .fields()
        .iter()
        .map(|field| match batch.column_by_name(field.name()) {
            Some(column) => cast(column, field.data_type()),
            None => Ok(new_null_array(field.data_type(), batch.num_rows())),
        });
    let columns = columns.collect::<Result<_, _>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &rows,
    )?)
}
