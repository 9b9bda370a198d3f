//! A recorded exchange with anything at all in one of its places comes back equal, or is kept
//! whole: providers add fields, proxies change types, an answer has alternatives, and none of that
//! may change what is stored. The exchanges as they were recorded are `exchanges_round_trip`'s.

use std::fs;
use std::path::{Path, PathBuf};

use gristmill_connectors::wire::exchange::Exchange;
use gristmill_connectors::wire::registry;
use gristmill_connectors::wire::round_trip::{RoundTripOutcome, check};
use gristmill_schemas::json::{Json, Object};
use gristmill_tests::paths::{shared_or_skip, workspace};

/// What comes to stand in a place: every type, empty and not, and text that means something to the
/// adapters.
const CHANGES: [&str; 15] = [
    "null",
    "true",
    "0",
    "-1.50e400",
    r#""""#,
    r#""\u0000unit 0""#,
    r#""\u0000items 1""#,
    r#""assistant""#,
    r#""system""#,
    r#""tool""#,
    "[]",
    "[null]",
    r#"[{"type":"text","text":"t"}]"#,
    "{}",
    r#"{"type":"unheard_of","\u0000members 0":1,"role":"user","content":"c","parts":[]}"#,
];

/// What becomes of a place.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// This JSON comes to stand there.
    Value(&'static str),
    /// Nothing stands there any more.
    Nothing,
    /// Another item follows that differs by its ids alone.
    Again,
}

/// Longer bodies would show the same places again.
const LONGEST_LINE: usize = 2_500;

#[test]
fn an_exchange_of_ours_comes_back_equal_whatever_stands_in_one_of_its_places() {
    check_files(&[workspace().join("datasets/exchanges.jsonl")], usize::MAX);
}

#[test]
fn a_recorded_exchange_comes_back_equal_whatever_stands_in_one_of_its_places() {
    let Some(folder) = shared_or_skip("transcripts/exchanges") else {
        return;
    };
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    // One of each endpoint; `GRISTMILL_EXCHANGES` asks for more.
    let count = std::env::var("GRISTMILL_EXCHANGES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(1);
    check_files(&files, count);
}

fn check_files(files: &[PathBuf], most_of_each: usize) {
    let (mut checked, mut faults) = (0_usize, Vec::new());
    for file in files {
        check_file(file, most_of_each, &mut checked, &mut faults);
    }
    println!(
        "{checked} changed exchanges, {} came back different",
        faults.len()
    );
    faults.iter().take(60).for_each(|fault| println!("{fault}"));
    assert!(
        checked > 0 && faults.is_empty(),
        "{} of {checked} came back different",
        faults.len()
    );
}

fn check_file(file: &Path, most: usize, checked: &mut usize, faults: &mut Vec<String>) {
    let text = fs::read_to_string(file).unwrap();
    let exchanges = text
        .lines()
        .filter(|line| !line.is_empty() && (most == usize::MAX || line.len() <= LONGEST_LINE));
    for line in exchanges.take(most) {
        let mut json = Json::parse(line.as_bytes()).unwrap().into_owned();
        for body in ["request", "response"] {
            let Some(original) = json
                .get(body)
                .filter(|json| json.as_object().is_some())
                .cloned()
            else {
                continue;
            };
            let mut places = Vec::new();
            visit(&original, &mut Vec::new(), &mut places);
            for place in &places {
                for change in CHANGES
                    .iter()
                    .copied()
                    .map(Change::Value)
                    .chain([Change::Nothing, Change::Again])
                {
                    let Some(changed) = with_change(&original, place, change) else {
                        continue;
                    };
                    json.as_object_mut().unwrap().insert(body, changed);
                    if let Some(path) = difference(&json) {
                        let id = json.get("id").and_then(Json::as_str).unwrap_or_default();
                        faults.push(format!("{id} {body}{place:?} = {change:?}: {path}"));
                    }
                    *checked += 1;
                }
            }
            json.as_object_mut().unwrap().insert(body, original);
        }
    }
}

fn difference(json: &Json) -> Option<String> {
    let exchange = Exchange::from_json(json)?;
    let verdict = check(registry::for_exchange(&exchange)?, &exchange);
    match verdict.outcome() {
        RoundTripOutcome::Unequal(path) => Some(path),
        RoundTripOutcome::Equal | RoundTripOutcome::Opaque(_) => None,
    }
}

/// One step into a body: the number of a member or of an item.
type Step = usize;

/// All places below and at `json`.
fn visit(json: &Json, here: &mut Vec<Step>, places: &mut Vec<Vec<Step>>) {
    places.push(here.clone());
    let children: Vec<&Json> = match json {
        Json::Array(items) => items.iter().collect(),
        Json::Object(object) => object.iter().map(|(_, value)| value).collect(),
        _ => Vec::new(),
    };
    for (step, child) in children.into_iter().enumerate() {
        here.push(step);
        visit(child, here, places);
        here.pop();
    }
}

/// `json` with a change at a place; `None` if the place can't be changed so.
fn with_change<'j>(json: &Json<'j>, place: &[Step], change: Change) -> Option<Json<'j>> {
    let Some((&step, rest)) = place.split_first() else {
        let Change::Value(value) = change else {
            return None;
        };
        return Some(Json::parse(value.as_bytes()).unwrap());
    };
    let instead = |child: &Json<'j>| match change {
        Change::Nothing if rest.is_empty() => Some(Vec::new()),
        Change::Again if rest.is_empty() => Some(vec![child.clone(), with_other_ids(child)]),
        _ => with_change(child, rest, change).map(|changed| vec![changed]),
    };
    Some(match json {
        Json::Array(items) => {
            let (before, after) = items.split_at(step);
            let (child, after) = after.split_first()?;
            Json::Array([before, &instead(child)?, after].concat())
        }
        Json::Object(_) if rest.is_empty() && matches!(change, Change::Again) => return None,
        Json::Object(object) => {
            let mut changed = instead(object.iter().nth(step)?.1)?;
            let all = object.iter().enumerate();
            let members = all.filter_map(|(at, (key, value))| {
                let value = if at == step {
                    changed.pop()
                } else {
                    Some(value.clone())
                };
                Some((key.to_owned(), value?))
            });
            Json::Object(members.collect::<Object>())
        }
        _ => return None,
    })
}

/// A copy in which every `id` is another.
fn with_other_ids<'j>(json: &Json<'j>) -> Json<'j> {
    match json {
        Json::Array(items) => Json::Array(items.iter().map(with_other_ids).collect()),
        Json::Object(object) => {
            let members = object.iter().map(|(key, value)| match value {
                Json::String(id) if key == "id" => (key.to_owned(), Json::from(format!("{id}2"))),
                value => (key.to_owned(), with_other_ids(value)),
            });
            Json::Object(members.collect::<Object>())
        }
        scalar => scalar.clone(),
    }
}
