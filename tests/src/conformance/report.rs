//! Outcomes of cases, and the report of a run.

use std::fmt::Write as _;

use gristmill_schemas::json::{Json, Object};

use super::pins::PinnedOutcomes;

/// The outcome of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is the expected one.
    Passed,
    /// The answer is one that the case also accepts: which.
    AlsoAccepted(String),
    /// The answer differs deliberately, in nothing else than a documented rule: which.
    Deviates(String),
    /// The answer differs: the expected and the actual one.
    Failed(String),
    /// The case is about something out of scope: what.
    OutOfScope(String),
}

impl Outcome {
    /// Returns the outcome as one line of a file of pinned outcomes.
    pub fn pin(&self) -> String {
        let text = match self {
            Outcome::Passed => "as expected".to_owned(),
            Outcome::AlsoAccepted(answer) => format!("also accepted: {answer}"),
            Outcome::Deviates(rule) => format!("deviates: {rule}"),
            Outcome::Failed(why) => format!("differs: {why}"),
            Outcome::OutOfScope(what) => format!("out of scope: {what}"),
        };
        text.replace(['\n', '\t'], " ")
    }
}

/// Judges a case, and finds out which of several accepted answers is the actual one: the case is
/// judged again without its alternatives, and then with each of them alone.
pub fn judge_alternatives(case: &Json, judge: impl Fn(&Json) -> Outcome) -> Outcome {
    let outcome = judge(case);
    let alternatives = case.get("also_accept").and_then(Json::as_array);
    let Some(alternatives) = alternatives.filter(|_| outcome == Outcome::Passed) else {
        return outcome;
    };
    if judge(&with_alternatives(case, &[])) == Outcome::Passed {
        return Outcome::Passed;
    }
    let actual = alternatives.iter().find(|alternative| {
        judge(&with_alternatives(case, std::slice::from_ref(*alternative))) == Outcome::Passed
    });
    Outcome::AlsoAccepted(actual.map_or_else(String::new, alternative_text))
}

fn alternative_text(alternative: &Json) -> String {
    alternative
        .as_str()
        .map_or_else(|| alternative.to_string(), str::to_owned)
}

/// Returns the case with other alternatives.
fn with_alternatives<'a>(case: &Json<'a>, alternatives: &[Json<'a>]) -> Json<'a> {
    let mut members: Object = Object::new();
    for (key, value) in case.as_object().into_iter().flat_map(Object::iter) {
        let value = match key {
            "also_accept" => Json::Array(alternatives.to_vec()),
            _ => value.clone(),
        };
        members.insert(key.to_owned(), value);
    }
    Json::Object(members)
}

/// The outcomes of a run.
#[derive(Debug, Default)]
pub struct Report {
    passed: usize,
    failed: usize,
    /// The number of the current file's cases, whatever their outcome.
    cases_of_file: usize,
    lines: Vec<String>,
    pins: PinnedOutcomes,
    /// Id and outcome of the current file's cases that leave a choice.
    choices: Vec<(String, String)>,
}

impl Report {
    /// Starts a case file, whose outcomes are compared with `pins`.
    pub(super) fn start_file(&mut self, pins: PinnedOutcomes) {
        self.pins = pins;
        self.choices.clear();
        self.cases_of_file = 0;
    }

    /// Ends a case file: reports pinned outcomes of cases that it doesn't have any more. Returns the
    /// number of its cases.
    pub(super) fn end_file(&mut self) -> usize {
        let is_case = |id: &str| self.choices.iter().any(|(case, _)| case == id);
        let stale = self.pins.ids().filter(|id| !is_case(id));
        self.lines
            .extend(stale.map(|id| format!("pinned without a case {id}")));
        self.cases_of_file
    }

    /// Records the outcome of `case`.
    ///
    /// A case that leaves a choice fails if its outcome isn't the pinned one. Without a pinned
    /// outcome it is printed and never counted as failed. Any other case fails with
    /// [`Outcome::Failed`].
    pub fn record(&mut self, case: &Json, outcome: Outcome) {
        self.cases_of_file += 1;
        let outcome = match case {
            Json::Object(_) => outcome,
            _ => Outcome::Failed("the case is no object".to_owned()),
        };
        let id = id_of(case).to_owned();
        let choice = choice_of(case);
        if choice.is_some() && !self.is_pinned(&id, &outcome) {
            return;
        }
        match outcome {
            Outcome::Passed | Outcome::AlsoAccepted(_) => self.passed += 1,
            Outcome::Deviates(rule) => {
                self.passed += 1;
                self.lines
                    .push(format!("passed with a deliberate difference {id}: {rule}"));
            }
            Outcome::OutOfScope(what) => self.lines.push(format!("out of scope {id}: {what}")),
            Outcome::Failed(why) => match choice.filter(|choice| choice != ALSO_ACCEPT) {
                Some(choice) => self.lines.push(format!("{choice} {id}: {why}")),
                None => self.fail(&id, &why),
            },
        }
    }

    /// Compares an outcome with the pinned one, and reports a difference. Returns false if they
    /// differ.
    fn is_pinned(&mut self, id: &str, outcome: &Outcome) -> bool {
        let actual = outcome.pin();
        let difference = match self.pins.get(id) {
            Some(pinned) if pinned != actual => Some(format!(
                "the outcome is pinned as \"{pinned}\" and is now \"{actual}\""
            )),
            None if !self.pins.is_empty() => {
                self.lines.push(format!("not pinned {id}: {actual}"));
                None
            }
            _ => None,
        };
        self.choices.push((id.to_owned(), actual));
        if let Some(difference) = &difference {
            self.fail(id, difference);
        }
        difference.is_none()
    }

    fn fail(&mut self, id: &str, why: &str) {
        self.failed += 1;
        self.lines.push(format!("FAILED {id}: {why}"));
    }

    /// Returns the number of cases that passed.
    pub fn passed(&self) -> usize {
        self.passed
    }

    /// Returns the number of cases that failed.
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// Returns id and outcome of the cases of the last file that leave a choice, in order.
    pub fn choices(&self) -> &[(String, String)] {
        &self.choices
    }

    /// Returns one line for each case that didn't pass, then `N passed, N failed`.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for line in &self.lines {
            let _ = writeln!(out, "{}", line.replace('\n', " "));
        }
        let _ = writeln!(out, "{} passed, {} failed", self.passed, self.failed);
        out
    }
}

fn id_of<'c>(case: &'c Json) -> &'c str {
    case.get("id")
        .and_then(Json::as_str)
        .or(case.get("file").and_then(Json::as_str))
        .unwrap_or("?")
}

const ALSO_ACCEPT: &str = "also_accept";

/// Returns why more than one outcome of `case` is acceptable: it is contested, it isn't a `must`,
/// or it lists other answers. `None` for a case with one right outcome.
fn choice_of(case: &Json) -> Option<String> {
    let is_contested = case
        .get("contested")
        .is_some_and(|value| !value.is_null() && value.as_bool() != Some(false));
    if is_contested {
        return Some("contested".to_owned());
    }
    match case.get("strictness").and_then(Json::as_str) {
        Some("must") | None => case.get(ALSO_ACCEPT).map(|_| ALSO_ACCEPT.to_owned()),
        Some(strictness) => Some(strictness.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::pins::PinnedOutcomes;

    fn case(text: &str) -> Json<'_> {
        Json::parse(text.as_bytes()).unwrap()
    }

    /// A report whose file has pinned outcomes: `(id, outcome)`.
    fn report(pins: &[(&str, &str)]) -> Report {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cases.json");
        let outcomes: Vec<_> = pins
            .iter()
            .map(|(id, pin)| ((*id).to_owned(), (*pin).to_owned()))
            .collect();
        super::super::pins::write_pins(&file, &outcomes).unwrap();
        let mut report = Report::default();
        report.start_file(PinnedOutcomes::load(&file).unwrap());
        report
    }

    fn failed() -> Outcome {
        Outcome::Failed("expected A, got B".to_owned())
    }

    #[test]
    fn a_changed_outcome_of_a_contested_case_fails() {
        let contested = case(r#"{"id":"c","contested":"why"}"#);
        let mut report = report(&[("c", "as expected")]);
        report.record(&contested, failed());
        assert_eq!((report.passed(), report.failed()), (0, 1));
        assert!(report.render().contains("FAILED c"));
    }

    #[test]
    fn a_contested_case_that_passes_again_fails_until_it_is_pinned_so() {
        let contested = case(r#"{"id":"c","contested":true}"#);
        let mut report = report(&[("c", "differs: expected A, got B")]);
        report.record(&contested, Outcome::Passed);
        assert_eq!(report.failed(), 1);
    }

    #[test]
    fn a_pinned_difference_is_printed_and_does_not_fail() {
        let recommended = case(r#"{"id":"r","strictness":"recommended"}"#);
        let mut report = report(&[("r", "differs: expected A, got B")]);
        report.record(&recommended, failed());
        assert_eq!((report.passed(), report.failed()), (0, 0));
        assert!(report.render().starts_with("recommended r: "));
    }

    #[test]
    fn cases_of_an_unknown_file_are_not_pinned() {
        let mut report = Report::default();
        report.record(&case(r#"{"id":"c","contested":true}"#), failed());
        assert_eq!(report.failed(), 0);
        report.record(&case(r#"{"id":"m","strictness":"must"}"#), failed());
        report.record(&case(r#"{"id":"a","also_accept":["B"]}"#), failed());
        assert_eq!(report.failed(), 2);
    }

    #[test]
    fn cases_without_a_pin_and_pins_without_a_case_are_reported() {
        let mut report = report(&[("old", "as expected")]);
        report.record(&case(r#"{"id":"new","contested":true}"#), Outcome::Passed);
        report.end_file();
        assert_eq!((report.passed(), report.failed()), (1, 0));
        let text = report.render();
        assert!(text.contains("not pinned new"), "{text}");
        assert!(text.contains("pinned without a case old"), "{text}");
    }

    /// Judges cases by whether `answer` is expected or also accepted.
    fn judge(answer: &'static str) -> impl Fn(&Json) -> Outcome {
        move |case| {
            let others = case.get("also_accept").and_then(Json::as_array);
            let accepted = case.get("expect").and_then(Json::as_str) == Some(answer)
                || others.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(answer)));
            match accepted {
                true => Outcome::Passed,
                false => failed(),
            }
        }
    }

    #[test]
    fn the_accepted_answer_is_named() {
        let case = case(r#"{"id":"a","expect":"A","also_accept":["B","C"]}"#);
        assert_eq!(judge_alternatives(&case, judge("A")), Outcome::Passed);
        assert_eq!(
            judge_alternatives(&case, judge("C")),
            Outcome::AlsoAccepted("C".to_owned())
        );
        assert_eq!(judge_alternatives(&case, judge("D")), failed());
    }
}
