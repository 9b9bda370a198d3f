//! Compares the answer of a statement with the expectation of a case.

use std::collections::BTreeMap;

use gristmill_schemas::json::Json;

use super::{CaseGrains, text};

/// Returns whether the member `key` of the expectation holds; `None` if the response lacks what it
/// compares.
pub(super) fn holds(
    grains: &CaseGrains,
    case: &Json,
    key: &str,
    expected: &Json,
    json: &Json,
) -> Option<bool> {
    let sorted = |mut list: Vec<String>| {
        if text(case, "order") == "set" {
            list.sort();
        }
        list
    };
    let written = || {
        json.get("results")?
            .as_array()?
            .first()?
            .get("grain")?
            .as_object()
    };
    Some(match key {
        "grains" => sorted(names(expected)?) == sorted(keys(grains, json.get("results")?)),
        "value" => match (expected, json.get("value")?) {
            (Json::Array(_), value @ Json::Array(_)) => {
                sorted(strings(expected)) == sorted(strings(value))
            }
            (expected, value) => expected == value,
        },
        "groups" => {
            let got = json.get("groups")?.as_object()?.iter();
            let got: BTreeMap<_, _> = got
                .map(|(value, group)| (value.to_owned(), keys(grains, group)))
                .collect();
            let wanted = expected.as_object()?.iter();
            got == wanted
                .map(|(value, list)| Some((value.to_owned(), names(list)?)))
                .collect::<Option<_>>()?
        }
        "plan_of" => json.get("plan")?.get("statement")? == expected,
        "text" => lines(expected.as_str()?) == lines(formatted_text(json)?),
        "text_except_tokens_line" => {
            let without = |text| {
                lines(text)
                    .into_iter()
                    .filter(|line| !line.starts_with("tokens:"))
                    .collect::<Vec<_>>()
            };
            without(expected.as_str()?) == without(formatted_text(json)?)
        }
        "fields" => expected.as_object()? == written()?,
        "fields_include" => expected
            .as_object()?
            .iter()
            .all(|(name, value)| match written() {
                Some(written) => written.get(name) == Some(value),
                None => false,
            }),
        "old" | "head" => {
            let old = json.get("written")?.get("supersedes")?.as_str()?;
            grains.keys.get(old).map(String::as_str) == expected.as_str()
        }
        "changes_include" => {
            let changes = json.get("changes")?.as_array()?;
            expected
                .as_array()?
                .iter()
                .all(|change| changes.contains(change))
        }
        "warnings" => {
            let warnings = json
                .get("warnings")
                .and_then(Json::as_array)
                .unwrap_or_default();
            expected.as_array()?.iter().all(|code| {
                warnings
                    .iter()
                    .any(|warning| warning.get("code") == Some(code))
            })
        }
        "entries" | "batch" => entries_hold(grains, case, expected, json)?,
        "events" => same_events(expected.as_array()?, json.get("events")?.as_array()?),
        // Other members are compared with those of the same name; a response leaves out null ones.
        other => json.get(other).unwrap_or(&Json::Null) == expected,
    })
}

/// Compares the answers of a BATCH: what is expected of each label must hold for the label's entry.
fn entries_hold(grains: &CaseGrains, case: &Json, expected: &Json, json: &Json) -> Option<bool> {
    let (expected, entries) = (expected.as_object()?, json.get("entries")?.as_object()?);
    let entry_holds = |(label, expected): (&str, &Json)| {
        let entry = entries.get(label)?;
        let mut members = expected.as_object()?.iter();
        Some(members.all(|(key, expected)| {
            let holds = match key {
                "error" => error_is(expected, entry),
                _ => holds(grains, case, key, expected, entry),
            };
            holds == Some(true)
        }))
    };
    let mut wanted = expected.iter();
    Some(expected.len() == entries.len() && wanted.all(|entry| entry_holds(entry) == Some(true)))
}

/// Returns whether `entry` has the expected error: a code, or an error with one.
fn error_is(expected: &Json, entry: &Json) -> Option<bool> {
    let expected = expected.get("code").unwrap_or(expected);
    Some(entry.get("error")?.get("code")? == expected)
}

/// Compares the events of a STREAM; those that are expected as texts by their type alone.
fn same_events(expected: &[Json], events: &[Json]) -> bool {
    let is_same = |(expected, event): (&Json, &Json)| match expected {
        Json::String(_) => event.get("type") == Some(expected),
        expected => expected == event,
    };
    expected.len() == events.len() && expected.iter().zip(events).all(is_same)
}

fn keys(grains: &CaseGrains, entries: &Json) -> Vec<String> {
    let entries = entries.as_array().unwrap_or_default();
    let named = entries.iter().map(|entry| text(entry, "content_address"));
    named
        .map(|address| {
            grains
                .keys
                .get(address)
                .cloned()
                .unwrap_or_else(|| address.to_owned())
        })
        .collect()
}

/// Returns the names of a list; `None` if it is no list of texts.
fn names(json: &Json) -> Option<Vec<String>> {
    let names = json.as_array()?.iter();
    names.map(|name| Some(name.as_str()?.to_owned())).collect()
}

fn strings(json: &Json) -> Vec<String> {
    let items = json.as_array().unwrap_or_default();
    items
        .iter()
        .map(|item| {
            item.as_str()
                .map_or_else(|| item.to_string(), str::to_owned)
        })
        .collect()
}

/// Returns the formatted text.
fn formatted_text<'j>(json: &'j Json) -> Option<&'j str> {
    let context = json
        .get("formatted_context")
        .and_then(|context| context.get("text"));
    json.get("formatted").or(context)?.as_str()
}

/// Returns lines without trailing blanks, and without empty lines at the end.
fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_is_expected_as_null_may_be_missing() {
        let json = |text: &'static str| Json::parse(text.as_bytes()).unwrap();
        let grains = CaseGrains::read(&json(r#"{"now_ms":0,"session":{},"grains":[]}"#)).unwrap();
        let has = |expected: &Json, response: &Json| {
            holds(&grains, &Json::Null, "branch", expected, response)
        };
        assert_eq!(has(&Json::Null, &json("{}")), Some(true));
        assert_eq!(has(&Json::Null, &json(r#"{"branch":0}"#)), Some(false));
        assert_eq!(has(&Json::from(0_u64), &json("{}")), Some(false));
    }
}
