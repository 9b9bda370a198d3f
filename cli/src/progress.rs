//! Shows progress on standard error: a bar for people, JSON lines for scripts.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gristmill_engine::progress::{WorkPhase, WorkProgress};
use indicatif::{ProgressBar, ProgressStyle as BarStyle};

use crate::args::{CommonArgs, ProgressStyle};
use crate::human_readable::with_separators;
use crate::log::note;
use crate::termination;

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
    /// Tasks of a cluster, and how many of them are done.
    pub total_tasks: u64,
    pub tasks: u64,
    pub phase: WorkPhase,
}

impl From<&WorkProgress> for ProgressSnapshot {
    fn from(progress: &WorkProgress) -> ProgressSnapshot {
        ProgressSnapshot {
            bytes: progress.bytes.load(Ordering::Relaxed),
            total: progress.total_bytes.load(Ordering::Relaxed),
            grains: progress.grains.load(Ordering::Relaxed),
            rejected: progress.rejected.load(Ordering::Relaxed),
            total_tasks: progress.total_tasks.load(Ordering::Relaxed),
            tasks: progress.tasks.load(Ordering::Relaxed),
            phase: progress.phase(),
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

/// Template of the bar while input is read.
const READING: &str = "{prefix} {wide_bar} {percent:>3}%  {bytes}/{total_bytes}  {msg}  \
                       {binary_bytes_per_sec}  {eta} left";

/// Template before and after that, when bytes don't indicate how much is left.
const READ: &str = "{prefix} {spinner} {msg}  {elapsed}";

fn bar(work: &str, position: &impl Fn() -> ProgressSnapshot, done: &AtomicBool) {
    let style =
        |template| BarStyle::with_template(template).unwrap_or_else(|_| BarStyle::default_bar());
    let bar = ProgressBar::new(0)
        .with_style(style(READ))
        .with_prefix(work.to_owned());
    let mut is_reading = true;
    let mut shown = READ;
    while !done.load(Ordering::Relaxed) {
        let now = position();
        is_reading &= now.phase == WorkPhase::Reading;
        let length = now.total.max(now.bytes);
        bar.set_length(length);
        bar.set_position(now.bytes);
        // A bar of length 0 would be full.
        let template = if is_reading && length > 0 {
            READING
        } else {
            READ
        };
        if template != shown {
            shown = template;
            bar.set_style(style(template));
        }
        bar.set_message(message(&now));
        if template == READ {
            bar.tick();
        }
        std::thread::park_timeout(BAR_INTERVAL);
    }
    bar.finish_and_clear();
}

/// Returns the text of the bar: the counts, and the phase after reading.
fn message(now: &ProgressSnapshot) -> String {
    let mut message = format!("{} grains", with_separators(now.grains));
    if now.total_tasks > 0 {
        message.push_str(&format!(", {} of {} tasks", now.tasks, now.total_tasks));
    }
    if now.rejected > 0 {
        message.push_str(&format!(", {} refused", with_separators(now.rejected)));
    }
    if now.phase != WorkPhase::Reading {
        message.push_str(&format!(", {}", now.phase.name()));
    }
    message
}

fn lines(work: &str, position: &impl Fn() -> ProgressSnapshot, done: &AtomicBool) {
    let started = Instant::now();
    loop {
        let ended = done.load(Ordering::Relaxed);
        let now = position();
        let mut line = serde_json::json!({
            "work": work,
            "phase": now.phase.name(),
            "bytes": now.bytes,
            "total_bytes": now.total,
            "grains": now.grains,
            "rejected": now.rejected,
            "seconds": started.elapsed().as_secs_f64(),
            "done": ended,
        });
        if now.total_tasks > 0 {
            line["tasks"] = now.tasks.into();
            line["total_tasks"] = now.total_tasks.into();
        }
        note(&line);
        if ended {
            return;
        }
        std::thread::park_timeout(LINE_INTERVAL);
    }
}

/// Stops the operation after the current batch on the first interrupt, and the process on the
/// second.
pub fn stop_on_interrupt(progress: Arc<WorkProgress>) {
    termination::handles_interrupts();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            note("stopping after the current batch; interrupt again to stop immediately");
            progress.stop();
            if tokio::signal::ctrl_c().await.is_ok() {
                termination::end(termination::INTERRUPTED);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_names_tasks_of_a_cluster_and_the_phase_after_reading() {
        let mut now = ProgressSnapshot {
            grains: 1_500,
            ..ProgressSnapshot::default()
        };
        assert_eq!(message(&now), "1,500 grains");
        (now.tasks, now.total_tasks) = (3, 16);
        assert_eq!(message(&now), "1,500 grains, 3 of 16 tasks");
        now.total_tasks = 0;
        now.phase = WorkPhase::WritingSegments;
        now.rejected = 2;
        assert_eq!(message(&now), "1,500 grains, 2 refused, writing segments");
    }
}
