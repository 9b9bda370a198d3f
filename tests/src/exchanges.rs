//! Invented exchanges with providers, from `tests/cases/wire` and `datasets/exchanges.jsonl`: at
//! least one of each provider dialect.

use std::fs;
use std::path::PathBuf;

use gristmill_schemas::json::Json;

use crate::paths::workspace;

/// Returns the exchanges, one line of JSON each.
///
/// # Panics
/// If a file can't be read or isn't JSON.
pub fn own_exchanges() -> Vec<String> {
    let recorded = fs::read_to_string(workspace().join("datasets/exchanges.jsonl"))
        .expect("`datasets/exchanges.jsonl` can be read");
    let mut lines: Vec<String> = recorded.lines().map(str::to_owned).collect();
    for file in case_files() {
        let bytes = fs::read(&file).expect("a case file can be read");
        let json =
            Json::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let cases = json
            .get("cases")
            .and_then(Json::as_array)
            .or(json.as_array())
            .unwrap_or_default();
        lines.extend(
            cases
                .iter()
                .filter_map(|case| Some(case.get("line")?.to_string())),
        );
    }
    lines
}

fn case_files() -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace().join("tests/cases/wire"))
        .expect("`tests/cases/wire` can be listed");
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}
