#![allow(missing_docs, dead_code, unused)]
extern crate self as gristmill_tests;
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
        for case in json.get("cases").unwrap().as_array().unwrap() {
            let one = Json::Object([("cases", Json::Array(vec![case.reborrow()]))].into_iter().collect());
            let file = CaseFile { json: &one, folder: path.parent().unwrap() };
            let mut r = Report::default();
            canonical::run(&file, &mut r);
            if r.failed() == 0 && !r.render().contains("out of scope") { println!("VACUOUS {} {}", path.file_name().unwrap().display(), case.get("id").unwrap()); }
        }
        Ok(())
    }
}
#[test]
fn run() {
    for e in std::fs::read_dir("/tmp/mut").unwrap() { conformance::run_file(&e.unwrap().path(), &mut Default::default()).unwrap(); }
}
