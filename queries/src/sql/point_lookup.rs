//! Single rows of a stored file, read from the pages in which they stand.
//!
//! A look-up of twenty grains is no scan: to plan one over all columns of `grains` for every
//! segment costs more than to read the rows. What doesn't live here: which rows are wanted, and how
//! sealed ones are opened.

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

/// The footers of files whose rows were asked for, by the files' names: a stored file never
/// changes.
#[derive(Debug, Default)]
pub(super) struct PointReader(Mutex<HashMap<String, ArrowReaderMetadata>>);

impl PointReader {
    /// The rows that `selection` picks of the file `name`, which `reader` reads, with the columns
    /// of `schema`. A column that the file doesn't have is NULL.
    ///
    /// # Errors
    /// What reading says, and if a column is of a type that can't become that of `schema`.
    pub(super) async fn read(
        self: Arc<Self>,
        name: String,
        mut reader: Box<dyn AsyncFileReader>,
        selection: RowSelection,
        schema: SchemaRef,
    ) -> Result<Vec<RecordBatch>> {
        let footer = self.footer(name, &mut reader).await?;
        let own = footer.schema().fields().iter().enumerate();
        let wanted = own
            .filter(|(_, field)| schema.index_of(field.name()).is_ok())
            .map(|(place, _)| place);
        let mask = ProjectionMask::roots(footer.parquet_schema(), wanted);
        let rows = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, footer)
            .with_projection(mask)
            .with_row_selection(selection)
            .build()?;
        let batches: Vec<RecordBatch> = rows.try_collect().await?;
        batches.iter().map(|batch| shaped(batch, &schema)).collect()
    }

    async fn footer(
        &self,
        name: String,
        reader: &mut Box<dyn AsyncFileReader>,
    ) -> Result<ArrowReaderMetadata> {
        // Nothing that can panic happens while it is held.
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(footer) = known().get(&name) {
            return Ok(footer.clone());
        }
        let footer = ArrowReaderMetadata::try_new(
            reader.get_metadata(None).await?,
            ArrowReaderOptions::new(),
        )?;
        known().insert(name, footer.clone());
        Ok(footer)
    }
}

/// `batch` with the columns of `schema`, in their order.
fn shaped(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
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
