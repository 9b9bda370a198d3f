//! Pinned outcomes: what this implementation does with the cases that leave a choice.
//!
//! A case leaves a choice if it is contested, if its strictness isn't `must`, or if it also accepts
//! other answers. Such a case can't fail, so its outcome is recorded in a file next to the case
//! file (`name.outcomes.tsv` for `name.json`) and compared on each run. A case file without such a
//! file is run as it is.
//!
//! The file has one line for each case, in the order of the cases: the case's id, a tab, and the
//! outcome as [`Outcome::pin`](super::Outcome::pin) writes it. Lines that begin with `#` are
//! comments.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

const HEADER: &str = "\
# What gristmill does with the cases that leave a choice: contested, not `must`, or with `also_accept`.
# Compared on each run of `conformance`. After an intended change: `conformance --pin FILE…`.
";

/// The pinned outcomes of one case file, by case id.
#[derive(Debug, Default)]
pub struct PinnedOutcomes(BTreeMap<String, String>);

impl PinnedOutcomes {
    /// Loads the outcomes of the case file at `case_file`. There are none if the file is absent.
    ///
    /// # Errors
    /// A message if the file can't be read or a line has no tab.
    pub fn load(case_file: &Path) -> Result<PinnedOutcomes, String> {
        let path = pins_path(case_file);
        match fs::read_to_string(&path) {
            Ok(text) => {
                PinnedOutcomes::parse(&text).map_err(|line| format!("{}:{line}", path.display()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(PinnedOutcomes::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn parse(text: &str) -> Result<PinnedOutcomes, String> {
        let mut pins = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (id, outcome) = line
                .split_once('\t')
                .ok_or_else(|| format!("{}: no tab after the case's id", number + 1))?;
            pins.insert(id.to_owned(), outcome.to_owned());
        }
        Ok(PinnedOutcomes(pins))
    }

    /// Returns the pinned outcome of a case.
    pub fn get(&self, id: &str) -> Option<&str> {
        self.0.get(id).map(String::as_str)
    }

    /// Returns true if no outcome is pinned.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the ids of all pinned cases.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Writes the outcomes of the case file at `case_file`, or removes the file if there are none.
///
/// # Errors
/// A message if the file can't be written.
pub fn write_pins(case_file: &Path, outcomes: &[(String, String)]) -> Result<(), String> {
    let path = pins_path(case_file);
    let written = match outcomes {
        [] if !path.exists() => Ok(()),
        [] => fs::remove_file(&path),
        _ => fs::write(&path, render(outcomes)),
    };
    written.map_err(|error| format!("{}: {error}", path.display()))
}

fn render(outcomes: &[(String, String)]) -> String {
    let mut text = HEADER.to_owned();
    for (id, outcome) in outcomes {
        text.push_str(&format!("{id}\t{outcome}\n"));
    }
    text
}

fn pins_path(case_file: &Path) -> PathBuf {
    case_file.with_extension("outcomes.tsv")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_outcomes_are_read_back() {
        let outcomes = [
            ("a-1".to_owned(), "as expected".to_owned()),
            ("a-2".to_owned(), "also accepted: ERR_CORRUPT".to_owned()),
        ];
        let pins = PinnedOutcomes::parse(&render(&outcomes)).unwrap();
        assert_eq!(pins.get("a-1"), Some("as expected"));
        assert_eq!(pins.get("a-2"), Some("also accepted: ERR_CORRUPT"));
        assert_eq!(pins.get("a-3"), None);
    }

    #[test]
    fn a_line_without_tab_is_an_error_with_its_number() {
        let error = PinnedOutcomes::parse("# comment\nbroken\n").unwrap_err();
        assert!(error.starts_with("2: "), "{error}");
    }

    #[test]
    fn outcomes_are_in_the_folder_of_their_case_file() {
        assert_eq!(
            pins_path(Path::new("cases/oms/oms-mg.json")),
            Path::new("cases/oms/oms-mg.outcomes.tsv")
        );
    }
}
