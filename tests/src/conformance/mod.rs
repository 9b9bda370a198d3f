//! Runs conformance files against the libraries.
//!
//! A file is dispatched on its own fields, never on its name or on particular cases: each family of
//! files (`oms`, `cal`, …) recognises its own. This folder contains the dispatch and the report. It
//! contains no implementation: a family module only translates cases into calls of the public
//! libraries.
//!
//! Cases that leave a choice have pinned outcomes, see [`pins`].

// The input includes files that weren't written for this runner.
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable
)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cal;
mod cal_exec;
mod canonical;
mod cmf;
mod oms;
pub mod pins;
mod report;

use std::fs;
use std::path::Path;

use gristmill_schemas::json::{Json, Object};

use pins::PinnedOutcomes;
pub use report::{Outcome, Report, judge_alternatives};

/// A parsed case file and its folder, which cases may refer to.
pub struct CaseFile<'a> {
    /// The whole file.
    pub json: &'a Json<'a>,
    /// The folder of the file.
    pub folder: &'a Path,
}

/// Runs the cases of a file if it is one of the family. Returns whether it is.
type Family = fn(&CaseFile, &mut Report) -> bool;

const FAMILIES: &[Family] = &[oms::run, cmf::run, cal::run, cal_exec::run, canonical::run];

/// The maximum nesting of a case file. Input that is refused as too deep is deeper than what
/// [`Json::parse`] reads.
const DEPTH_LIMIT: usize = 512;

/// Members of an expectation in prose: the wording of an error, and notes.
const PROSE: &[&str] = &["error", "msg", "detail", "note"];

/// Succeeds if all members that a case expects are among those that its operation compares, so that
/// no case passes by what isn't looked at.
fn check_members(expected: &Json, compared: &[&str]) -> Result<(), String> {
    for (key, value) in expected.as_object().into_iter().flat_map(Object::iter) {
        if !compared.contains(&key) && !PROSE.contains(&key) {
            return Err(format!("the case expects `{key}`, which isn't compared"));
        }
        if key == "ok" && value.as_bool().is_none() {
            return Err(format!("`ok` is neither true nor false: {value}"));
        }
    }
    Ok(())
}

/// Returns the content of a file without a byte-order mark, which some editors write before it.
fn without_mark(content: &[u8]) -> &[u8] {
    content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content)
}

/// Runs every case of the file at `path`, and compares the outcomes with the pinned ones.
///
/// # Errors
/// A message if the file or its pinned outcomes can't be read, if it isn't JSON, if no family
/// recognises it, or if it has no case.
pub fn run_file(path: &Path, report: &mut Report) -> Result<(), String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let json = Json::parse_with_depth(without_mark(&bytes), DEPTH_LIMIT)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    report.start_file(PinnedOutcomes::load(path)?);
    let file = CaseFile {
        json: &json,
        folder: path.parent().unwrap_or(Path::new(".")),
    };
    if !FAMILIES.iter().any(|family| family(&file, report)) {
        return Err(format!(
            "{}: no family of cases has the fields of this file",
            path.display()
        ));
    }
    match report.end_file() {
        0 => Err(format!("{}: the file has no case", path.display())),
        _ => Ok(()),
    }
}
