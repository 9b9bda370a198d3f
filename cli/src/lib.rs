//! The `gristmill` command as a function: parses the command line, runs one command, and returns
//! one of the documented exit codes. The program and the Python package call it.
//!
//! | module | question |
//! |---|---|
//! | `args` | which commands and options are there? |
//! | `duration_arg`, `instant_arg` | how are durations and points in time on the command line parsed? |
//! | `configuration` | which values do options have without the command line? |
//! | `commands` | what does each command do? |
//! | `shell` | how do the shells of SQL and CAL read statements? |
//! | `exit`, `diagnostic` | which exit code and message does an error have? |
//! | `termination` | what remains of a command that a signal ends? |
//! | `log`, `progress` | what is written to standard error while a command runs? |
//! | `output`, `json_lines` | how are results written to standard output or to a file? |
//! | `table`, `human_readable` | what are results for people? |
//! | `audit_heads` | which heads did the audit log have at earlier times? |
//! | `cell_text`, `csv_injection` | how are cells converted to text and to safe CSV? |
//! | `requests` | how many requests did a command make to object stores? |

// Input must never panic: fallible operations return errors.
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod args;
mod audit_heads;
mod cell_text;
mod commands;
mod configuration;
mod csv_injection;
mod diagnostic;
mod duration_arg;
mod exit;
mod human_readable;
mod instant_arg;
mod json_lines;
mod log;
mod output;
mod progress;
mod requests;
mod shell;
mod table;
mod termination;

use std::ffi::OsString;

use configuration::ParseFailure;
use exit::CommandOutcome;
use gristmill_queries::sql::STACK_BYTES;

/// Runs `work` on a thread with the stack that statements of the permitted depth need.
fn on_own_stack<T: Send>(work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("gristmill".to_owned());
        let thread = thread.stack_size(STACK_BYTES).spawn_scoped(scope, work)?;
        match thread.join() {
            Ok(outcome) => Ok(outcome),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Runs the command line `words`, whose first is the name of the program, and returns the exit
/// code. Blocks the thread until the command ends.
pub fn run(words: Vec<OsString>) -> u8 {
    let arguments = match configuration::parse(&words) {
        Ok(arguments) => arguments,
        Err(ParseFailure::CommandLine(error)) => return exit::usage(&error, &words),
        Err(ParseFailure::Configuration(failure)) => return exit::report(Err(failure)),
    };
    log::start_log(&arguments.common);
    #[cfg(not(feature = "cluster"))]
    if std::env::var_os("GRISTMILL_CLUSTER").is_some_and(|value| !value.is_empty()) {
        tracing::warn!("GRISTMILL_CLUSTER is ignored: this program was built without clusters");
    }
    gristmill_engine::decoder_panic::hide_caught_panics();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            return exit::report(Err(exit::Failure::environment("can't start", &error)));
        }
    };
    {
        let _context = runtime.enter();
        termination::prepare(&arguments.command);
    }
    let outcome = on_own_stack(|| runtime.block_on(commands::run(arguments)));
    let outcome: Result<CommandOutcome, _> = match outcome {
        Ok(outcome) => outcome,
        Err(error) => Err(exit::Failure::environment("can't start", &error)),
    };
    // Threads that block on input must not delay the exit.
    runtime.shutdown_background();
    exit::report(outcome)
}
