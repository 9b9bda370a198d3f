//! Waits for the engine from Python: without the interpreter's lock, with Ctrl-C, and with calls
//! of a progress function.

use std::pin::pin;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gristmill_engine::progress::WorkProgress;
use gristmill_queries::sql::STACK_BYTES;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

use crate::failure::{PythonError, Result};

/// Interval of looking for Ctrl-C and of calling a progress function.
const TICK: Duration = Duration::from_millis(50);

/// Returns the runtime that all lakes share.
pub fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
        Builder::new_multi_thread()
            .enable_all()
            .thread_stack_size(STACK_BYTES)
            .build()
    });
    RUNTIME
        .as_ref()
        .map_err(|error| PythonError::usage(format!("can't start threads: {error}")))
}

/// Waits for the work that `start` returns. Ctrl-C drops it and raises `KeyboardInterrupt`.
///
/// # Errors
/// The error of the work, or `KeyboardInterrupt`.
pub fn wait<T, F>(py: Python<'_>, start: impl FnOnce() -> F + Send) -> PyResult<T>
where
    T: Send,
    F: Future<Output = Result<T>>,
{
    let runtime = runtime()?;
    py.detach(|| {
        runtime.block_on(async {
            let mut work = pin!(start());
            loop {
                tokio::select! {
                    done = &mut work => return Ok(done?),
                    () = tokio::time::sleep(TICK) => Python::attach(|py| py.check_signals())?,
                }
            }
        })
    })
}

/// Waits for an operation with progress. `report`, if given, is called with bytes, total bytes,
/// grains and rejects. Ctrl-C, and an exception of `report`, stop the operation at its next safe
/// point; the exception is raised after that.
///
/// # Errors
/// The error of the work, `KeyboardInterrupt`, or the exception of `report`.
pub fn wait_with_progress<T, F>(
    py: Python<'_>,
    report: Option<&Py<PyAny>>,
    start: impl FnOnce(Arc<WorkProgress>) -> F + Send,
) -> PyResult<T>
where
    T: Send,
    F: Future<Output = Result<T>>,
{
    let runtime = runtime()?;
    let progress = Arc::new(WorkProgress::default());
    py.detach(|| {
        runtime.block_on(async {
            let mut work = pin!(start(Arc::clone(&progress)));
            let mut raised = None;
            let done = loop {
                tokio::select! {
                    done = &mut work => break done,
                    () = tokio::time::sleep(TICK), if raised.is_none() => {
                        if let Err(error) = tick(report, &progress) {
                            progress.stop();
                            raised = Some(error);
                        }
                    }
                }
            };
            if let Some(error) = raised {
                return Err(error);
            }
            let done = done?;
            tick(report, &progress)?;
            Ok(done)
        })
    })
}

/// Looks for Ctrl-C and calls the progress function.
fn tick(report: Option<&Py<PyAny>>, progress: &WorkProgress) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        if let Some(report) = report {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            report.call1(
                py,
                (
                    read(&progress.bytes),
                    read(&progress.total_bytes),
                    read(&progress.grains),
                    read(&progress.rejected),
                ),
            )?;
        }
        Ok(())
    })
}
