//! The `gristmill` command: parses the command line, runs one command, and ends with one of the
//! documented exit codes.

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
mod cell_text;
mod commands;
mod configuration;
mod csv_injection;
mod diagnostic;
mod duration_arg;
mod exit;
mod human_readable;
mod json_lines;
mod log;
mod output;
mod progress;
mod shell;
mod table;

use std::process::ExitCode;

use clap::Parser;

use args::Arguments;
use exit::CommandOutcome;

/// The workload allocates many small, short-lived values on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    let arguments = match configuration::apply(arguments) {
        Ok(arguments) => arguments,
        Err(failure) => return exit::report(Err(failure)),
    };
    log::start_log(&arguments.common);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            return exit::report(Err(exit::Failure::environment("can't start", &error)));
        }
    };
    let outcome: Result<CommandOutcome, _> = runtime.block_on(commands::run(arguments));
    // Threads that block on input must not delay the exit.
    runtime.shutdown_background();
    exit::report(outcome)
}
