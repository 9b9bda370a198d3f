//! `conformance [--pin] FILE…`: runs conformance files against the libraries and prints which cases
//! fail. With `--pin` it also records the outcomes of the cases that leave a choice, next to each
//! file.
//!
//! Exit codes: 0 if no case failed, 2 if one did, 1 if a file can't be read or has an unknown
//! shape.

// The input includes files that weren't written for this runner.
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable
)]

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use gristmill_tests::conformance::pins::write_pins;
use gristmill_tests::conformance::{Report, run_file};

fn main() -> ExitCode {
    let (options, files): (Vec<OsString>, Vec<OsString>) = std::env::args_os()
        .skip(1)
        .partition(|argument| argument == "--pin");
    if files.is_empty() {
        eprintln!(
            "usage: conformance [--pin] FILE…   (JSON files in the format of the conformance cases)"
        );
        return ExitCode::from(1);
    }
    let mut report = Report::default();
    let mut has_error = false;
    for file in &files {
        let path = Path::new(file);
        let mut result = run_file(path, &mut report);
        if !options.is_empty() {
            result = result.and_then(|()| write_pins(path, report.choices()));
        }
        if let Err(message) = result {
            eprintln!("{message}");
            has_error = true;
        }
    }
    print!("{}", report.render());
    match (has_error, report.failed()) {
        (true, _) => ExitCode::from(1),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::from(2),
    }
}
