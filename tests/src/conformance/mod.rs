//! Runs conformance files against the real code.
//!
//! A file is dispatched on its own fields, never on its name or on particular cases: each family of
//! files (`oms`, `cal`, …) says whether it knows the shape. What lives here: the frame and the
//! report. What doesn't: any implementation; a family module only translates a case into calls of
//! the public libraries.

// It is pointed at files that nobody here has seen.
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable
)]

mod cal;
mod cal_exec;
mod canonical;
mod cmf;
mod oms;
mod report;

use std::fs;
use std::path::Path;

use gristmill_schemas::json::Json;

pub use report::{Outcome, Report};

/// A case file, parsed, with the folder that its cases may refer to.
pub struct CaseFile<'a> {
    /// The whole file.
    pub json: &'a Json<'a>,
    /// The folder that the file lies in.
    pub folder: &'a Path,
}

/// Runs the cases of one family, if the file is one of it; answers whether it was.
type Family = fn(&CaseFile, &mut Report) -> bool;

const FAMILIES: &[Family] = &[oms::run, cmf::run, cal::run, cal_exec::run, canonical::run];

/// Runs every case of the file at `path`.
///
/// # Errors
/// A sentence for people if the file can't be read, isn't JSON, or has a shape that no family
/// knows.
pub fn run_file(path: &Path, report: &mut Report) -> Result<(), String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let json = Json::parse(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    let file = CaseFile {
        json: &json,
        folder: path.parent().unwrap_or(Path::new(".")),
    };
    if FAMILIES.iter().any(|family| family(&file, report)) {
        return Ok(());
    }
    Err(format!(
        "{}: the file's fields are those of no known family of cases",
        path.display()
    ))
}
