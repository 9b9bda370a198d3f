//! The published case files: no case fails, and every case that leaves a choice has a pinned
//! outcome.

use std::fs;
use std::path::{Path, PathBuf};

use gristmill_tests::conformance::pins::PinnedOutcomes;
use gristmill_tests::conformance::{Report, run_file};
use gristmill_tests::paths::workspace;

/// Returns the files in `tests/cases/FOLDER` that the runner recognises.
fn case_files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace().join("tests/cases").join(folder)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "json")
    });
    // The grains of the execution cases are data, not cases.
    files.retain(|file| !file.ends_with("cal-data.json"));
    files.sort();
    files
}

fn check_pins(file: &Path) -> usize {
    let mut report = Report::default();
    run_file(file, &mut report).unwrap();
    assert_eq!(report.failed(), 0, "{}", report.render());
    let pins = PinnedOutcomes::load(file).unwrap();
    for (id, outcome) in report.choices() {
        assert_eq!(pins.get(id), Some(outcome.as_str()), "{id} isn't pinned");
    }
    assert_eq!(
        pins.ids().count(),
        report.choices().len(),
        "{}: outcomes are pinned of cases that are gone",
        file.display()
    );
    report.choices().len()
}

#[test]
fn every_choice_in_the_published_cases_is_pinned() {
    let files = ["oms", "cal", "canonical", "cmf"].map(case_files).concat();
    let choices: usize = files.iter().map(|file| check_pins(file)).sum();
    assert!(choices > 100, "{choices} cases leave a choice");
}
