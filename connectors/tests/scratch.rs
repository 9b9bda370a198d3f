#![allow(missing_docs, dead_code, unused)]
extern crate self as gristmill_tests;
#[path = "/work/wt/canon/tests/src/paths.rs"]
pub mod paths;
#[path = "/work/wt/canon/tests/tests/exchanges_round_trip.rs"]
mod exchanges_round_trip;
#[path = "/work/wt/canon/tests/tests/canonical_conformance.rs"]
mod canonical_conformance;
#[path = "/work/wt/canon/tests/src/conformance/"]
pub mod conformance {
    pub mod report;
    mod canonical;
    use gristmill_schemas::json::Json;
    use std::path::Path;
    pub use report::{Outcome, Report};
    pub struct CaseFile<'a> { pub json: &'a Json<'a>, pub folder: &'a Path }
    pub fn run_file(path: &Path, report: &mut Report) -> Result<(), String> {
        let bytes = std::fs::read(path).unwrap();
        let json = Json::parse(&bytes).unwrap();
        let file = CaseFile { json: &json, folder: path.parent().unwrap() };
        if canonical::run(&file, report) { Ok(()) } else { Err(format!("{path:?}")) }
    }
}
