//! Cases of the Common Message Format: `{group, about, cases: [{id, op, input, expect}]}`.
//!
//! Other models use the same outer shape, and even the same names of operations, so a case is known
//! by its operation *and* the members of its input ([`OPERATIONS`]). Where a case marks the
//! expectation as a quirk and recommends another answer, the recommendation is the target.

mod accessors;
mod compare;
mod extensions;
mod statements;
mod views;

use gristmill_schemas::json::{Json, Object};

use super::{CaseFile, Outcome, Report, check_members};

/// Result of a case; `Err` is the failure message.
type Checked = Result<(), String>;

/// An operation: its name, the members that its input must have, those of the target that it
/// compares (at least one must be there, and others may be), and the function that runs it on both.
struct Operation {
    name: &'static str,
    members: &'static [&'static str],
    compared: &'static [&'static str],
    others: &'static [&'static str],
    run: fn(input: &Json, target: &Json) -> Checked,
}

const OPERATIONS: &[Operation] = &[
    Operation {
        name: "parse",
        members: &["message"],
        compared: &["ok"],
        others: &["message"],
        run: views::parse,
    },
    Operation {
        name: "views",
        members: &["message"],
        compared: &["views"],
        others: &[],
        run: views::views,
    },
    Operation {
        name: "to_dict",
        members: &["message"],
        compared: &["dict"],
        others: &[],
        run: views::to_dict,
    },
    Operation {
        name: "to_opa_input",
        members: &["message"],
        compared: &["dict"],
        others: &[],
        run: views::to_opa_input,
    },
    Operation {
        name: "glob",
        members: &["pattern"],
        compared: &["match"],
        others: &[],
        run: views::glob,
    },
    Operation {
        name: "accessors",
        members: &["message"],
        compared: &["accessors", "calls"],
        others: &[],
        run: accessors::accessors,
    },
    Operation {
        name: "filter",
        members: &["extensions"],
        compared: &["extensions"],
        others: &[],
        run: extensions::filter,
    },
    Operation {
        name: "validate",
        members: &["before", "after"],
        compared: &["ok"],
        others: &["slot", "tier"],
        run: extensions::validate,
    },
    Operation {
        name: "merge",
        members: &["original", "output"],
        compared: &["ok", "unchanged", "extensions"],
        others: &["slot", "tier"],
        run: extensions::merge,
    },
    Operation {
        name: "labels",
        members: &[],
        compared: &["labels", "labels_after", "accepted", "allowed"],
        others: &["audit_record"],
        run: extensions::labels,
    },
    Operation {
        name: "enum",
        members: &["enum"],
        compared: &["values"],
        others: &["count"],
        run: statements::enumeration,
    },
];

/// Operations whose cases are statements in prose about the other cases and the specification.
const STATEMENTS: &[(&str, &str)] = &[("property", "finding"), ("divergence", "what")];

/// Runs the file if any of its cases has a known operation.
pub(super) fn run(file: &CaseFile, report: &mut Report) -> bool {
    let cases = file
        .json
        .get("cases")
        .and_then(Json::as_array)
        .unwrap_or_default();
    if !cases
        .iter()
        .any(|case| operation(case).is_some() || is_statement(case))
    {
        return false;
    }
    for case in cases {
        report.record(case, outcome(case, file));
    }
    true
}

/// Runs one case.
fn outcome(case: &Json, file: &CaseFile) -> Outcome {
    if is_statement(case) {
        return statements::outcome(case, file);
    }
    let Some(operation) = operation(case) else {
        return Outcome::Failed(format!(
            "unknown operation {}",
            case.get("op").unwrap_or(&Json::Null)
        ));
    };
    let Some(target) = target(case) else {
        return Outcome::OutOfScope(
            "a quirk that isn't to be copied, without another answer".to_owned(),
        );
    };
    let is_expected = |member: &&str| target.get(member).is_some();
    if !operation.compared.iter().any(is_expected) {
        let members = operation.compared.join(", ");
        return Outcome::Failed(format!("the case expects none of {members}"));
    }
    let compared = [operation.compared, operation.others].concat();
    let checked = (operation.run)(case.get("input").unwrap_or(&Json::Null), &target);
    match checked.and_then(|()| check_members(&target, &compared)) {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(why),
    }
}

fn operation(case: &Json) -> Option<&'static Operation> {
    let name = case.get("op").and_then(Json::as_str)?;
    let input = case.get("input")?.as_object()?;
    let fits = |operation: &&Operation| {
        operation.name == name
            && operation
                .members
                .iter()
                .all(|member| input.contains_key(member))
    };
    OPERATIONS.iter().find(fits)
}

fn is_statement(case: &Json) -> bool {
    let (name, input) = (case.get("op").and_then(Json::as_str), case.get("input"));
    STATEMENTS.iter().any(|(op, member)| {
        name == Some(*op) && input.is_some_and(|input| input.get(member).is_some())
    })
}

/// Returns the expectation of a case, overridden by the recommended members. `None` for a quirk
/// without them.
fn target<'a>(case: &'a Json<'a>) -> Option<Json<'a>> {
    let expect = case.get("expect").unwrap_or(&Json::Null);
    let Some(recommended) = case.get("recommended").and_then(Json::as_object) else {
        let is_quirk = case.get("quirk").and_then(Json::as_bool) == Some(true);
        return (!is_quirk).then(|| expect.clone());
    };
    let mut target: Object = expect.as_object().cloned().unwrap_or_default();
    for (key, value) in recommended.iter() {
        target.insert(key, value.clone());
    }
    Some(Json::Object(target))
}
