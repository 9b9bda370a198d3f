//! Waits for the engine from Python: without the interpreter's lock, with Ctrl-C, and with calls
//! of a progress function.
//!
//! Work runs on a thread of its own, because statements of the permitted depth need more stack than
//! a thread of Python has. The thread that calls the engine looks for Ctrl-C meanwhile.

use std::cell::Cell;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use gristmill_engine::progress::WorkProgress;
use gristmill_queries::sql::STACK_BYTES;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::failure::{PythonError, Result};

/// Interval of looking for Ctrl-C and of calling a progress function.
const TICK: Duration = Duration::from_millis(50);

thread_local! {
    /// True while this thread runs code of Python in the middle of a call: a progress function, or
    /// a handler of a signal.
    static IS_CALLING_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Returns the runtime that all lakes share.
///
/// # Errors
/// Threads can't be started, or belong to the process from which this one was forked.
pub fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: LazyLock<std::io::Result<(Runtime, u32)>> = LazyLock::new(|| {
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .thread_stack_size(STACK_BYTES)
            .build()?;
        Ok((runtime, std::process::id()))
    });
    match &*RUNTIME {
        Ok((runtime, process)) if *process == std::process::id() => Ok(runtime),
        Ok(_) => Err(PythonError::usage(
            "this process was forked from one that had used the engine, whose threads it lacks; \
             start processes with the method `spawn` or `forkserver` of multiprocessing",
        )),
        Err(error) => Err(no_threads(error)),
    }
}

/// Returns the builder of a thread whose stack holds statements of the permitted depth.
pub fn thread_builder() -> std::thread::Builder {
    let thread = std::thread::Builder::new().name("gristmill".to_owned());
    thread.stack_size(STACK_BYTES)
}

/// Returns the error of a thread that can't be started.
pub fn no_threads(error: &std::io::Error) -> PythonError {
    PythonError::usage(format!("can't start threads: {error}"))
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
    py.detach(|| run(start, None, || Python::attach(heed_signals)))
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
    let progress = Arc::new(WorkProgress::default());
    let tracked = Arc::clone(&progress);
    py.detach(|| {
        let tick = || tick(report, &progress);
        let done = run(move || start(tracked), Some(&progress), tick)?;
        tick()?;
        Ok(done)
    })
}

/// Runs the work that `start` returns on a thread of its own, and calls `tick` on this one
/// meanwhile. An exception of `tick` stops the work that has a `progress` at its next safe point,
/// and drops other work at its next pause; it is raised when the work has ended.
///
/// # Errors
/// The exception of `tick`, or the error of the work.
fn run<T, F>(
    start: impl FnOnce() -> F + Send,
    progress: Option<&WorkProgress>,
    tick: impl Fn() -> PyResult<()>,
) -> PyResult<T>
where
    T: Send,
    F: Future<Output = Result<T>>,
{
    if IS_CALLING_BACK.get() {
        return Err(PyErr::from(PythonError::usage(
            "a progress function or a handler of a signal can't use the engine: it runs in the \
             middle of another call",
        )));
    }
    let runtime = runtime()?;
    let (cancel, cancelled) = oneshot::channel::<()>();
    let (sender, outcome) = mpsc::channel();
    let work = move || {
        let done = runtime.block_on(async {
            let work = pin!(start());
            tokio::select! {
                done = work => done,
                _ = cancelled => Err(PythonError::usage("the call was interrupted")),
            }
        });
        // The receiver waits for it.
        let _ = sender.send(done);
    };
    std::thread::scope(|scope| {
        let thread = thread_builder().spawn_scoped(scope, work);
        let thread = thread.map_err(|error| no_threads(&error))?;
        let mut cancel = Some(cancel);
        let mut raised = None;
        let done = loop {
            match outcome.recv_timeout(TICK) {
                Ok(done) => break done,
                Err(RecvTimeoutError::Disconnected) => {
                    // Without this the scope panics, too.
                    let _ = thread.join();
                    break Err(PythonError::panicked());
                }
                Err(RecvTimeoutError::Timeout) if raised.is_none() => {
                    raised = tick().err();
                    match (&raised, progress) {
                        (None, _) => {}
                        (Some(_), Some(progress)) => progress.stop(),
                        (Some(_), None) => drop(cancel.take()),
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        match raised {
            Some(error) => Err(error),
            None => Ok(done?),
        }
    })
}

/// Looks for Ctrl-C and calls the progress function.
fn tick(report: Option<&Py<PyAny>>, progress: &WorkProgress) -> PyResult<()> {
    Python::attach(|py| {
        heed_signals(py)?;
        let Some(report) = report else {
            return Ok(());
        };
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = (
            read(&progress.bytes),
            read(&progress.total_bytes),
            read(&progress.grains),
            read(&progress.rejected),
        );
        let _calling = CallbackGuard::new();
        report.call1(py, counts).map(drop)
    })
}

/// Runs the handlers of signals that have arrived, such as Ctrl-C.
///
/// # Errors
/// Their exceptions.
pub fn heed_signals(py: Python<'_>) -> PyResult<()> {
    let _calling = CallbackGuard::new();
    py.check_signals()
}

/// Marks that this thread runs code of Python in the middle of a call, until it is dropped.
struct CallbackGuard {
    outer: bool,
}

impl CallbackGuard {
    fn new() -> CallbackGuard {
        let outer = IS_CALLING_BACK.replace(true);
        CallbackGuard { outer }
    }
}

impl Drop for CallbackGuard {
    fn drop(&mut self) {
        IS_CALLING_BACK.set(self.outer);
    }
}
