//! The cases of the Common Message Format, read where they lie.

use gristmill_tests::conformance::{Report, run_file};
use gristmill_tests::paths::shared_or_skip;

/// Cases that fail, with the reason why the case and not the code is wrong.
const EXPECTED_FAILURES: &[(&str, &str, &str)] = &[(
    "tier_validate.json",
    "delegation-append",
    "a hop added with append_delegation is what the monotonic tier allows (§3.1), and merging \
     accepts it; the case calls the refusal a gap of the implementation that it was taken from",
)];

#[test]
fn every_case_of_the_common_message_format_passes() {
    let Some(folder) = shared_or_skip("cases/cmf") else {
        return;
    };
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let mut passed = 0;
    for file in files {
        let mut report = Report::default();
        run_file(&file, &mut report).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let expected: Vec<_> = EXPECTED_FAILURES
            .iter()
            .filter(|(file, ..)| *file == name)
            .collect();
        assert_eq!(
            report.failed(),
            expected.len(),
            "{name}: {}",
            report.render()
        );
        for (_, case, _) in expected {
            assert!(
                report.render().contains(&format!("FAILED {case}:")),
                "{name}: {case} passes now"
            );
        }
        passed += report.passed();
    }
    assert!(passed > 0);
}
