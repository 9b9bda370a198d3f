//! The `gristmill` program.

use std::process::ExitCode;

/// The workload allocates many small, short-lived values on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(gristmill::run(std::env::args_os().collect()))
}
