//! Rows of a query for Python: an Arrow C stream that runs the query while it is read.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
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
use tokio::sync::oneshot;

use crate::failure::{PANICKED, PythonError, Result};
use crate::runtime::{heed_signals, no_threads, runtime, thread_builder, wait};

/// The rows of a query. Each read runs the query again, on the version of the lake at which it was
/// made.
#[pyclass(frozen)]
pub struct NativeResult {
    frame: DataFrame,
    interrupt: Interrupt,
}

/// The exception of a handler of a signal, such as Ctrl-C, that ended a stream. The reader has only
/// its text: an error of Arrow has no room for it.
type Interrupt = Arc<Mutex<Option<PyErr>>>;

impl NativeResult {
    pub fn new(frame: DataFrame) -> NativeResult {
        NativeResult {
            frame,
            interrupt: Interrupt::default(),
        }
    }

    fn take_interrupt(&self) -> Option<PyErr> {
        let interrupt = self.interrupt.lock();
        interrupt.unwrap_or_else(PoisonError::into_inner).take()
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
        // It belongs to another stream.
        drop(self.take_interrupt());
        let schema = Arc::new(self.frame.schema().as_arrow().clone());
        let rows = wait(py, || started(self.frame.clone()))?;
        let rows = BlockingRows::start(rows, schema, Arc::clone(&self.interrupt))?;
        let stream = FFI_ArrowArrayStream::new(Box::new(rows));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Raises the exception of a handler of a signal that ended a stream of these rows, if one did.
    fn raise_interrupt(&self) -> PyResult<()> {
        self.take_interrupt().map_or(Ok(()), Err)
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
        wait(py, || async {
            let frame = match limit {
                Some(_) => self.frame.clone().limit(0, limit)?,
                None => self.frame.clone(),
            };
            json_of(&frame.collect().await?)
        })
    }

    /// Returns the number of rows.
    fn count(&self, py: Python<'_>) -> PyResult<usize> {
        wait(py, || async { Ok(self.frame.clone().count().await?) })
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

/// What a stream hands over: the next batch, an error, or `None` at its end.
type NextBatch = Option<std::result::Result<RecordBatch, ArrowError>>;

/// A stream that a thread of its own computes and that is waited for on the thread that reads it.
/// The query ends when this is dropped.
struct BlockingRows {
    batches: mpsc::Receiver<NextBatch>,
    schema: SchemaRef,
    /// The thread that made the stream; on it, Ctrl-C ends the stream with an error. Other threads
    /// may belong to a reader that holds the interpreter's lock while it waits for them.
    creator: ThreadId,
    interrupt: Interrupt,
    is_ended: bool,
    /// The query ends when it is dropped.
    _running: oneshot::Sender<()>,
}

impl BlockingRows {
    /// Starts the thread, which is one batch ahead of the reader.
    ///
    /// # Errors
    /// Those of a thread that can't be started.
    fn start(
        rows: SendableRecordBatchStream,
        schema: SchemaRef,
        interrupt: Interrupt,
    ) -> Result<BlockingRows> {
        let runtime = runtime()?;
        let (sender, batches) = mpsc::sync_channel(0);
        let (running, dropped) = oneshot::channel();
        thread_builder()
            .spawn(move || runtime.block_on(hand_over(rows, sender, dropped)))
            .map_err(|error| no_threads(&error))?;
        Ok(BlockingRows {
            batches,
            schema,
            creator: std::thread::current().id(),
            interrupt,
            is_ended: false,
            _running: running,
        })
    }

    /// Waits for the next batch, with Ctrl-C and without the interpreter's lock on the thread that
    /// made the stream.
    fn received(&mut self) -> NextBatch {
        if std::thread::current().id() == self.creator
            && let Some(next) = Python::try_attach(|py| self.received_attached(py))
        {
            return next;
        }
        let next = self.batches.recv();
        next.unwrap_or_else(|_| Some(Err(panicked())))
    }

    fn received_attached(&mut self, py: Python<'_>) -> NextBatch {
        loop {
            match py.detach(|| self.received_in_time()) {
                Ok(next) => return next,
                Err(RecvTimeoutError::Disconnected) => return Some(Err(panicked())),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(raised) = heed_signals(py) {
                        let shown = ArrowError::ExternalError(raised.to_string().into());
                        let interrupt = self.interrupt.lock();
                        *interrupt.unwrap_or_else(PoisonError::into_inner) = Some(raised);
                        return Some(Err(shown));
                    }
                }
            }
        }
    }

    fn received_in_time(&mut self) -> std::result::Result<NextBatch, RecvTimeoutError> {
        self.batches.recv_timeout(INTERVAL)
    }
}

/// Hands over the rows of a query until their end, an error, or `dropped`.
async fn hand_over(
    mut rows: SendableRecordBatchStream,
    sender: mpsc::SyncSender<NextBatch>,
    mut dropped: oneshot::Receiver<()>,
) {
    loop {
        let next = tokio::select! {
            next = rows.next() => next,
            _ = &mut dropped => return,
        };
        let is_last = !matches!(next, Some(Ok(_)));
        // This blocks a thread on which nothing else runs.
        let sent = sender.send(next.map(|batch| batch.map_err(failure)));
        if is_last || sent.is_err() {
            return;
        }
    }
}

impl Iterator for BlockingRows {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_ended {
            return None;
        }
        let next = self.received();
        self.is_ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Interval of looking for Ctrl-C.
const INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);

fn panicked() -> ArrowError {
    ArrowError::ComputeError(PANICKED.to_owned())
}

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
