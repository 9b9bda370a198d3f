//! Parts of documentation pages that tests generate.

use std::fs;

use crate::paths::workspace;

/// Asserts that the part of the page `path` (in the repository) between `<!-- generated: NAME -->`
/// and `<!-- end of generated -->` is `generated`. With `GRISTMILL_UPDATE_DOCS` in the environment
/// it writes the part first.
///
/// # Panics
/// If the part is missing or differs; `test` names the test that writes it.
pub fn assert_generated(path: &str, name: &str, generated: &str, test: &str) {
    let begin = format!("<!-- generated: {name} -->\n");
    let end = "<!-- end of generated -->\n";
    let file = workspace().join(path);
    let page = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let missing = || panic!("{path} has no part `{name}`");
    let (before, rest) = page.split_once(&begin).unwrap_or_else(missing);
    let (_, after) = rest.split_once(end).unwrap_or_else(missing);
    let whole = format!("{before}{begin}{generated}{end}{after}");
    if std::env::var_os("GRISTMILL_UPDATE_DOCS").is_some() {
        fs::write(&file, &whole).unwrap_or_else(|error| panic!("{path}: {error}"));
        return;
    }
    let remedy = format!("GRISTMILL_UPDATE_DOCS=1 cargo test --test integration {test}");
    assert!(whole == page, "{path} is out of date: run {remedy}");
}
