//! Rows of a query for Python: an Arrow C stream that runs the query while it is read.

use std::sync::Arc;
use std::thread::ThreadId;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use arrow::json::ArrayWriter;
use futures::StreamExt;
use gristmill_queries::sql::{
    DataFrame, DataFusionError, FileAccess, ParamValues, SendableRecordBatchStream, SqlOptions,
    context_without_lake, json_writer, query, user_message,
};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failure::{PythonError, Result};
use crate::runtime::{runtime, wait};

/// The rows of a query. Each read runs the query again, on the version of the lake at which it was
/// made.
#[pyclass(frozen)]
pub struct NativeResult {
    frame: DataFrame,
}

impl NativeResult {
    pub fn new(frame: DataFrame) -> NativeResult {
        NativeResult { frame }
    }
}

#[pymethods]
impl NativeResult {
    /// Returns the schema as a PyCapsule of the Arrow C data interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.frame.schema().as_arrow())
            .map_err(|error| PythonError::usage(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Starts the query and returns its rows as a PyCapsule of the Arrow C stream interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer casts the rows itself if it needs another schema; the interface permits that.
        drop(requested_schema);
        let schema = Arc::new(self.frame.schema().as_arrow().clone());
        let rows = BlockingRows {
            stream: wait(py, || started(self.frame.clone()))?,
            schema,
            creator: std::thread::current().id(),
        };
        let stream = FFI_ArrowArrayStream::new(Box::new(rows));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Returns names and types of the columns.
    fn columns(&self) -> Vec<(String, String)> {
        let fields = self.frame.schema().as_arrow().fields().iter();
        fields
            .map(|field| (field.name().clone(), field.data_type().to_string()))
            .collect()
    }

    /// Returns the first `limit` rows, or all, as a JSON array. Binary values are hexadecimal.
    #[pyo3(signature = (limit=None))]
    fn json(&self, py: Python<'_>, limit: Option<usize>) -> PyResult<String> {
        let frame = self.frame.clone();
        wait(py, || async move {
            let frame = match limit {
                Some(_) => frame.limit(0, limit)?,
                None => frame,
            };
            json_of(&frame.collect().await?)
        })
    }

    /// Returns the number of rows.
    fn count(&self, py: Python<'_>) -> PyResult<usize> {
        let frame = self.frame.clone();
        wait(py, || async move { Ok(frame.count().await?) })
    }
}

fn json_of(batches: &[RecordBatch]) -> Result<String> {
    let failed = |error: ArrowError| PythonError::usage(error.to_string());
    let mut writer: ArrayWriter<Vec<u8>> = json_writer().build(Vec::new());
    for batch in batches {
        writer.write(batch).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    match String::from_utf8(writer.into_inner()) {
        Ok(text) if text.is_empty() => Ok("[]".to_owned()),
        Ok(text) => Ok(text),
        Err(error) => Err(PythonError::usage(error.to_string())),
    }
}

async fn started(frame: DataFrame) -> Result<SendableRecordBatchStream> {
    Ok(frame.execute_stream().await?)
}

/// A stream whose batches are waited for on the thread that reads them.
struct BlockingRows {
    stream: SendableRecordBatchStream,
    schema: SchemaRef,
    /// The thread that made the stream; on it, Ctrl-C ends the stream with an error. Other threads
    /// may belong to a reader that holds the interpreter's lock while it waits for them.
    creator: ThreadId,
}

impl Iterator for BlockingRows {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(error) => return Some(Err(ArrowError::ExternalError(PyErr::from(error).into()))),
        };
        let heeds_signals = std::thread::current().id() == self.creator;
        runtime.block_on(async {
            loop {
                tokio::select! {
                    batch = self.stream.next() => return batch.map(|batch| batch.map_err(failure)),
                    () = tokio::time::sleep(INTERVAL), if heeds_signals => {
                        if let Err(error) = Python::attach(|py| py.check_signals()) {
                            return Some(Err(ArrowError::ExternalError(error.into())));
                        }
                    }
                }
            }
        })
    }
}

/// Interval of looking for Ctrl-C.
const INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);

fn failure(error: DataFusionError) -> ArrowError {
    ArrowError::ComputeError(user_message(&error))
}

impl RecordBatchReader for BlockingRows {
    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema)
    }
}

/// Runs a query over files, without a lake.
#[pyfunction]
pub fn query_files(py: Python<'_>, text: String) -> PyResult<NativeResult> {
    wait(py, || async move {
        let options = SqlOptions {
            files: FileAccess::Read,
            ..SqlOptions::default()
        };
        let context = context_without_lake("(none)", &options)?;
        Ok(NativeResult::new(
            query(&context, &text, ParamValues::List(Vec::new())).await?,
        ))
    })
}
