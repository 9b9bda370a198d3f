//! What became of each case, and how it is told.

use std::fmt::Write as _;

use gristmill_schemas::json::Json;

/// What became of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The code does what the case says.
    Passed,
    /// The code does something else on purpose, and nothing else differs: by which rule.
    Deviates(String),
    /// The code does something else: what was expected and what came.
    Failed(String),
    /// The case asks for something that is out of scope by design: what.
    OutOfScope(String),
}

/// The outcomes of a run.
#[derive(Debug, Default)]
pub struct Report {
    passed: usize,
    failed: usize,
    lines: Vec<String>,
}

impl Report {
    /// Takes down the outcome of `case`, whose own fields say whether a failure counts: a case that
    /// is `contested`, or whose `strictness` is not `must`, is printed but not counted as failed.
    pub fn record(&mut self, case: &Json, outcome: Outcome) {
        let id = case
            .get("id")
            .and_then(Json::as_str)
            .or(case.get("file").and_then(Json::as_str))
            .unwrap_or("?");
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Deviates(rule) => {
                self.passed += 1;
                self.lines
                    .push(format!("passed with a deliberate difference {id}: {rule}"));
            }
            Outcome::OutOfScope(what) => self.lines.push(format!("out of scope {id}: {what}")),
            Outcome::Failed(why) => match excuse(case) {
                Some(excuse) => self.lines.push(format!("{excuse} {id}: {why}")),
                None => {
                    self.failed += 1;
                    self.lines.push(format!("FAILED {id}: {why}"));
                }
            },
        }
    }

    /// How many cases passed.
    pub fn passed(&self) -> usize {
        self.passed
    }

    /// How many cases failed.
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// One line per case that didn't pass, then `N passed, N failed`.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for line in &self.lines {
            let _ = writeln!(out, "{}", line.replace('\n', " "));
        }
        let _ = writeln!(out, "{} passed, {} failed", self.passed, self.failed);
        out
    }
}

/// Why a failure of `case` doesn't count, if it doesn't.
fn excuse(case: &Json) -> Option<String> {
    if case
        .get("contested")
        .is_some_and(|value| !value.is_null() && value.as_bool() != Some(false))
    {
        return Some("contested".to_owned());
    }
    match case.get("strictness").and_then(Json::as_str) {
        Some("must") | None => None,
        Some(strictness) => Some(strictness.to_owned()),
    }
}
