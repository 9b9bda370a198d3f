//! `conformance FILE…`: runs conformance files against the real code and says which cases fail.

// It is pointed at files that nobody here has seen.
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable
)]

use std::path::Path;
use std::process::ExitCode;

use gristmill_tests::conformance::{Report, run_file};

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: conformance FILE…   (JSON files in the format of the conformance cases)");
        return ExitCode::from(1);
    }
    let mut report = Report::default();
    let mut unreadable = false;
    for file in &files {
        if let Err(message) = run_file(Path::new(file), &mut report) {
            eprintln!("{message}");
            unreadable = true;
        }
    }
    print!("{}", report.render());
    match (unreadable, report.failed()) {
        (true, _) => ExitCode::from(1),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::from(2),
    }
}
