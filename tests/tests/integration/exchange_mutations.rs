//! Mutated exchanges: one position of a request or response is replaced by anything at all, removed
//! or repeated. The exchange comes back equal or is kept whole, because providers add fields,
//! proxies change types and answers have alternatives. The unchanged exchanges are tested in
//! `exchanges_round_trip`.

use std::collections::BTreeSet;
use std::fs;

use gristmill_connectors::wire::exchange::Exchange;
use gristmill_connectors::wire::registry;
use gristmill_connectors::wire::round_trip::{RoundTripOutcome, check};
use gristmill_schemas::json::{Json, Object};
use gristmill_tests::exchanges::own_exchanges;
use gristmill_tests::paths::{shared_or_skip, workspace};

/// Replacements for a position: every type, empty and not, and text with a meaning for adapters.
const REPLACEMENTS: [&str; 15] = [
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

/// A mutation of one position.
#[derive(Debug, Clone, Copy)]
enum Mutation {
    /// Replaced by this JSON.
    Replace(&'static str),
    /// Removed.
    Remove,
    /// Followed by a copy that differs in its ids only.
    Repeat,
}

/// Bytes of the longest recorded line that is mutated; longer bodies repeat the same positions.
const LONGEST_LINE: usize = 2_500;

#[test]
fn a_mutated_exchange_of_ours_comes_back_equal() {
    let file = fs::read_to_string(workspace().join("datasets/exchanges.jsonl")).unwrap();
    assert_mutations_survive(file.lines());
}

#[test]
fn a_mutated_exchange_of_every_dialect_comes_back_equal() {
    let lines = own_exchanges();
    let mut seen = BTreeSet::new();
    let first_of_dialect = lines.iter().filter(|line| {
        let json = Json::parse(line.as_bytes()).unwrap();
        let dialect = Exchange::from_json(&json).and_then(|one| registry::for_exchange(&one));
        dialect.is_some_and(|dialect| seen.insert(dialect.key()))
    });
    assert_mutations_survive(first_of_dialect.map(String::as_str));
    assert!(seen.len() >= 19, "{seen:?}");
}

#[test]
fn a_mutated_recorded_exchange_comes_back_equal() {
    let Some(folder) = shared_or_skip("transcripts/exchanges") else {
        return;
    };
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    // One line of each endpoint, unless the environment variable sets another number.
    let count = std::env::var("GRISTMILL_EXCHANGES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(1);
    let mut lines = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        let short = text
            .lines()
            .filter(|line| !line.is_empty() && line.len() <= LONGEST_LINE);
        lines.extend(short.take(count).map(str::to_owned));
    }
    assert_mutations_survive(lines.iter().map(String::as_str));
}

fn assert_mutations_survive<'l>(lines: impl Iterator<Item = &'l str>) {
    let (mut checked, mut faults) = (0_usize, Vec::new());
    lines.for_each(|line| mutate(line, &mut checked, &mut faults));
    println!(
        "{checked} mutated exchanges, {} came back different",
        faults.len()
    );
    faults.iter().take(60).for_each(|fault| println!("{fault}"));
    assert!(
        checked > 0 && faults.is_empty(),
        "{} of {checked} came back different",
        faults.len()
    );
}

/// Applies every mutation to every position of the request and the response of `line`.
fn mutate(line: &str, checked: &mut usize, faults: &mut Vec<String>) {
    let mutations = || {
        let replace = REPLACEMENTS.iter().copied().map(Mutation::Replace);
        replace.chain([Mutation::Remove, Mutation::Repeat])
    };
    let mut json = Json::parse(line.as_bytes()).unwrap().into_owned();
    for body in ["request", "response"] {
        let is_object = |json: &&Json| json.as_object().is_some();
        let Some(original) = json.get(body).filter(is_object).cloned() else {
            continue;
        };
        let mut positions = Vec::new();
        visit(&original, &mut Vec::new(), &mut positions);
        for position in &positions {
            for mutation in mutations() {
                let Some(mutated) = with_mutation(&original, position, mutation) else {
                    continue;
                };
                json.as_object_mut().unwrap().insert(body, mutated);
                if let Some(path) = difference(&json) {
                    let id = json.get("id").and_then(Json::as_str).unwrap_or_default();
                    faults.push(format!("{id} {body}{position:?} = {mutation:?}: {path}"));
                }
                *checked += 1;
            }
        }
        json.as_object_mut().unwrap().insert(body, original);
    }
}

/// Returns where an exchange came back different, or `None` if it is equal, kept whole, or of no
/// known dialect.
fn difference(json: &Json) -> Option<String> {
    let exchange = Exchange::from_json(json)?;
    let verdict = check(registry::for_exchange(&exchange)?, &exchange);
    match verdict.outcome() {
        RoundTripOutcome::Unequal(path) => Some(path),
        RoundTripOutcome::Equal | RoundTripOutcome::Opaque(_) => None,
    }
}

/// Index of a member or an item.
type Step = usize;

/// Collects the positions of `json` and of everything below it.
fn visit(json: &Json, here: &mut Vec<Step>, positions: &mut Vec<Vec<Step>>) {
    positions.push(here.clone());
    let children: Vec<&Json> = match json {
        Json::Array(items) => items.iter().collect(),
        Json::Object(object) => object.iter().map(|(_, value)| value).collect(),
        _ => Vec::new(),
    };
    for (step, child) in children.into_iter().enumerate() {
        here.push(step);
        visit(child, here, positions);
        here.pop();
    }
}

/// `json` with one position mutated; `None` if the mutation doesn't apply to it.
fn with_mutation<'j>(json: &Json<'j>, position: &[Step], mutation: Mutation) -> Option<Json<'j>> {
    let Some((&step, rest)) = position.split_first() else {
        let Mutation::Replace(value) = mutation else {
            return None;
        };
        return Some(Json::parse(value.as_bytes()).unwrap());
    };
    let instead = |child: &Json<'j>| match mutation {
        Mutation::Remove if rest.is_empty() => Some(Vec::new()),
        Mutation::Repeat if rest.is_empty() => Some(vec![child.clone(), with_other_ids(child)]),
        _ => with_mutation(child, rest, mutation).map(|changed| vec![changed]),
    };
    Some(match json {
        Json::Array(items) => {
            let (before, after) = items.split_at(step);
            let (child, after) = after.split_first()?;
            Json::Array([before, &instead(child)?, after].concat())
        }
        Json::Object(_) if rest.is_empty() && matches!(mutation, Mutation::Repeat) => return None,
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

/// Returns a copy with other values for `id`.
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
