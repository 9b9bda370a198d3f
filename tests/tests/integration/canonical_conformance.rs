//! The canonical message's conformance cases, where they are at hand.

use std::fs;

use gristmill_tests::conformance::{Report, run_file};
use gristmill_tests::paths::shared_or_skip;

#[test]
fn every_case_of_the_canonical_message_passes() {
    let Some(folder) = shared_or_skip("cases/canonical") else {
        return;
    };
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut report = Report::default();
    for file in &files {
        run_file(file, &mut report).unwrap();
    }
    println!("{}", report.render());
    assert!(report.passed() > 0);
    assert_eq!(report.failed(), 0, "{}", report.render());
}
