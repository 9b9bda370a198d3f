//! Shows progress on standard error: a bar for people, JSON lines for scripts.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gristmill_engine::progress::WorkProgress;
use indicatif::{ProgressBar, ProgressStyle as BarStyle};

use crate::args::{CommonArgs, ProgressStyle};

/// State of an operation.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProgressSnapshot {
    /// Processed bytes.
    pub bytes: u64,
    /// Total bytes known so far.
    pub total: u64,
    /// Processed grains.
    pub grains: u64,
    /// Refused grains.
    pub rejected: u64,
}

impl From<&WorkProgress> for ProgressSnapshot {
    fn from(progress: &WorkProgress) -> ProgressSnapshot {
        ProgressSnapshot {
            bytes: progress.bytes.load(Ordering::Relaxed),
            total: progress.total_bytes.load(Ordering::Relaxed),
            grains: progress.grains.load(Ordering::Relaxed),
            rejected: progress.rejected.load(Ordering::Relaxed),
        }
    }
}

/// Shows progress on a thread until it is dropped.
pub struct ProgressDisplay {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Refresh interval of the bar.
const BAR_INTERVAL: Duration = Duration::from_millis(100);

/// Interval between JSON lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

impl ProgressDisplay {
    /// Shows `position` under the name `work`, in the style selected on the command line.
    pub fn start(
        common: &CommonArgs,
        work: &'static str,
        position: impl Fn() -> ProgressSnapshot + Send + 'static,
    ) -> ProgressDisplay {
        let fitting = if std::io::stderr().is_terminal() {
            ProgressStyle::Bar
        } else {
            ProgressStyle::None
        };
        let style = if common.quiet {
            ProgressStyle::None
        } else {
            common.progress.unwrap_or(fitting)
        };
        let done = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&done);
        let thread = match style {
            ProgressStyle::None => None,
            ProgressStyle::Bar => started(move || bar(work, &position, &watched)),
            ProgressStyle::Json => started(move || lines(work, &position, &watched)),
        };
        ProgressDisplay { done, thread }
    }
}

/// Starts the display thread; a failure to start it is ignored.
fn started(show: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    std::thread::Builder::new().spawn(show).ok()
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A failed progress bar must not fail the command.
            let _ = thread.join();
        }
    }
}

fn bar(work: &str, position: &impl Fn() -> ProgressSnapshot, done: &AtomicBool) {
    let template = "{prefix} {wide_bar} {percent:>3}%  {bytes}/{total_bytes}  {msg}  \
                    {binary_bytes_per_sec}  {eta} left";
    let style = BarStyle::with_template(template).unwrap_or_else(|_| BarStyle::default_bar());
    let bar = ProgressBar::new(0)
        .with_style(style)
        .with_prefix(work.to_owned());
    while !done.load(Ordering::Relaxed) {
        let now = position();
        bar.set_length(now.total.max(now.bytes));
        bar.set_position(now.bytes);
        let refused = if now.rejected > 0 {
            format!(", {} refused", now.rejected)
        } else {
            String::new()
        };
        bar.set_message(format!(
            "{} grains{refused}",
            crate::human_readable::with_separators(now.grains)
        ));
        std::thread::park_timeout(BAR_INTERVAL);
    }
    bar.finish_and_clear();
}

fn lines(work: &str, position: &impl Fn() -> ProgressSnapshot, done: &AtomicBool) {
    let started = Instant::now();
    loop {
        let ended = done.load(Ordering::Relaxed);
        let now = position();
        let line = serde_json::json!({
            "work": work,
            "bytes": now.bytes,
            "total_bytes": now.total,
            "grains": now.grains,
            "rejected": now.rejected,
            "seconds": started.elapsed().as_secs_f64(),
            "done": ended,
        });
        eprintln!("{line}");
        if ended {
            return;
        }
        std::thread::park_timeout(LINE_INTERVAL);
    }
}

/// Stops the operation after the current batch on the first interrupt, and the process on the
/// second.
pub fn stop_on_interrupt(progress: Arc<WorkProgress>) {
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            eprintln!("stopping after the current batch; interrupt again to stop immediately");
            progress.stop();
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(130);
            }
        }
    });
}
