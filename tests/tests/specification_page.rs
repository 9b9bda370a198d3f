//! Checks the table of `docs/conformance.md` over the sections of the grain specification: it is
//! complete, and every test that it names exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Number of sections in the table of contents, before the appendices.
const SECTIONS: usize = 28;

/// The appendices in the table of contents.
const APPENDICES: [&str; 7] = ["A", "B", "C", "D", "E", "F", "G"];

/// Folders whose sources contain tests.
const SOURCES: [&str; 6] = ["schemas", "connectors", "engine", "queries", "cli", "tests"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The rows of the tables on the page between the headings `from` and `to`, split into cells.
fn rows(from: &str, to: &str) -> Vec<Vec<String>> {
    let page = fs::read_to_string(workspace().join("docs/conformance.md")).unwrap();
    let start = page.find(from).unwrap();
    let end = start + page[start..].find(to).unwrap();
    let lines = page[start..end]
        .lines()
        .filter(|line| line.starts_with('|'));
    let cells = |line: &str| -> Vec<String> {
        let inner = line.trim_matches('|');
        inner
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    let rows = lines.map(cells);
    rows.filter(|row| !row[0].starts_with("---")).collect()
}

/// Adds the names of the test functions in the sources below `folder`.
fn add_tests(folder: &Path, tests: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            add_tests(&path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                let function = line
                    .split_once("fn ")
                    .and_then(|(_, rest)| rest.split_once('('));
                match function {
                    Some((name, _)) if is_test => {
                        tests.insert(name.to_owned());
                        is_test = false;
                    }
                    _ => is_test |= line == "#[test]" || line.starts_with("#[tokio::test"),
                }
            }
        }
    }
}

/// The texts in backticks in `cell`.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_section_and_appendix_has_one_row_in_order() {
    let rows = rows("## Open Memory Specification 1.3, section", "### Level 3");
    let listed: Vec<&str> = rows.iter().skip(1).map(|row| row[0].as_str()).collect();
    let sections: Vec<String> = (1..=SECTIONS).map(|number| number.to_string()).collect();
    let expected: Vec<&str> = sections
        .iter()
        .map(String::as_str)
        .chain(APPENDICES)
        .collect();
    assert_eq!(listed, expected);
    for row in rows.iter().skip(1) {
        assert_eq!(row.len(), 5, "§{}", row[0]);
        assert!(
            ["yes", "partly", "text"].contains(&row[2].as_str()),
            "§{}: {}",
            row[0],
            row[2]
        );
    }
}

#[test]
fn every_test_that_the_page_names_exists() {
    let mut tests = BTreeSet::new();
    for folder in SOURCES {
        add_tests(&workspace().join(folder), &mut tests);
    }
    let mut named = rows("## Open Memory Specification 1.3, section", "### Level 3");
    named.extend(rows("### Level 3", "### Appendix D"));
    let cells = named.iter().filter_map(|row| row.last());
    let missing: Vec<&str> = cells
        .flat_map(|cell| quoted(cell))
        .filter(|name| !tests.contains(*name))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_file_and_rule_that_the_page_names_exists() {
    let rows = rows(
        "## Open Memory Specification 1.3, section",
        "## Canonical message format",
    );
    let mut missing = Vec::new();
    for name in rows.iter().flatten().flat_map(|cell| quoted(cell)) {
        let exists = match name.split_once('/') {
            Some((folder, _)) if SOURCES.contains(&folder) => workspace().join(name).exists(),
            Some((pack, rule)) if !rule.contains('/') && !rule.contains('.') => {
                let pack = workspace().join(format!("queries/packs/{pack}.toml"));
                let rules = fs::read_to_string(pack).unwrap_or_default();
                rules.contains(&format!("id = \"{rule}\""))
            }
            _ => true,
        };
        missing.extend((!exists).then_some(name));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
