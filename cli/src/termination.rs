//! Signals that end the process: it leaves no unfinished files of output, which may have grains.

use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, mpsc};

use gristmill_engine::destination::remove_unfinished;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Command;

/// Exit code of an interrupted command.
pub const INTERRUPTED: u8 = 130;

/// Exit code of a terminated command.
const TERMINATED: u8 = 143;

/// True once the command handles interrupts by itself.
static HANDLES_INTERRUPTS: AtomicBool = AtomicBool::new(false);

/// Prepares for the signals that `command` doesn't handle. Must be called in the context of a
/// runtime.
pub fn prepare(command: &Command) {
    outlive_limit_of_file_sizes();
    if !is_server(command) {
        end_at(SignalKind::terminate(), TERMINATED, || false);
    }
}

/// Returns true for commands that write no files of output and run until they are ended: they
/// handle signals by themselves, or leave them to the system.
fn is_server(command: &Command) -> bool {
    #[cfg(feature = "cluster")]
    if matches!(command, Command::Cluster(_)) {
        return true;
    }
    matches!(command, Command::Serve(_) | Command::Mcp(_))
}

/// Has a write beyond the limit of file sizes (`ulimit -f`) fail with an error. Without a handler
/// the signal ends the process without a message. Started programs get the system's handling.
fn outlive_limit_of_file_sizes() {
    // The handler stays when the stream is dropped.
    let _handled = signal(SignalKind::from_raw(libc::SIGXFSZ));
}

/// Notes that the command handles interrupts by itself.
pub fn handles_interrupts() {
    HANDLES_INTERRUPTS.store(true, Ordering::Relaxed);
}

/// From now on an interrupt removes unfinished files, and ends the process, unless the command
/// handles interrupts by itself.
pub fn end_at_interrupt() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        end_at(SignalKind::interrupt(), INTERRUPTED, || {
            HANDLES_INTERRUPTS.load(Ordering::Relaxed)
        });
    });
}

/// Ends the process with `code` without leaving unfinished files.
pub fn end(code: u8) {
    remove_unfinished(|| exit(i32::from(code)));
}

/// From now on the signal `kind` ends the process with `code`, unless it `is_handled` otherwise. It
/// is awaited on a thread of its own, because those of the command may be busy. Without that
/// thread, the signal has the effect that it had.
fn end_at(kind: SignalKind, code: u8, is_handled: fn() -> bool) {
    let (registered, registration) = mpsc::channel::<()>();
    let wait = move || {
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
            return;
        };
        runtime.block_on(async move {
            let Ok(mut signals) = signal(kind) else {
                return;
            };
            drop(registered);
            while signals.recv().await.is_some() {
                if !is_handled() {
                    end(code);
                }
            }
        });
    };
    let name = "signals".to_owned();
    let _thread = std::thread::Builder::new().name(name).spawn(wait);
    // Until the sender is dropped.
    let _registered = registration.recv();
}
