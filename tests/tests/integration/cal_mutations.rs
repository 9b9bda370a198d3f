//! Mutated CAL queries: each is refused at a position inside the query, or means the same as text,
//! as canonical text and as JSON. The unchanged queries are conformance cases.

use std::fs;

use gristmill_queries::cal::{Options, from_json, parse, print, query_hash, to_json};
use gristmill_schemas::json::Json;
use gristmill_tests::paths::workspace;

/// Replacements for a token: words of every part of the language, values of every type, and hostile
/// text.
const PIECES: [&str; 40] = [
    "RECALL",
    "beliefs",
    "WHERE",
    "AND",
    "NOT",
    "OR",
    "(",
    ")",
    "[",
    "]",
    ",",
    "|",
    "=",
    "!=",
    ">=",
    "IN",
    "IS",
    "LIKE",
    "BETWEEN",
    "ABOUT",
    "RECENT",
    "LIMIT",
    "AS",
    "FROM",
    "UNION",
    "$p",
    "\"\"",
    "\"\\\"\"",
    "\"\u{e9}\u{0}\"",
    "0",
    "-1.50",
    "9e999",
    "18446744073709551616",
    "true",
    "null",
    "sha256:00",
    "--",
    "{{",
    "\u{feff}",
    "\u{202e}",
];

#[test]
fn a_mutated_query_is_refused_at_a_position_inside_or_means_the_same_in_every_form() {
    let bytes = fs::read(workspace().join("tests/cases/cal/cal-parse.json")).unwrap();
    let file = Json::parse(&bytes).unwrap();
    let (mut accepted, mut refused, mut faults) = (0_usize, 0_usize, Vec::new());
    for case in file.get("cases").and_then(Json::as_array).unwrap() {
        let Some(query) = case.get("query").and_then(Json::as_str) else {
            continue;
        };
        // Longer queries repeat the same positions.
        if query.len() > 400 {
            continue;
        }
        for changed in changes(query) {
            match checked(&changed) {
                Ok(true) => accepted += 1,
                Ok(false) => refused += 1,
                Err(fault) => faults.push(format!("{fault}: {changed:?}")),
            }
        }
    }
    println!(
        "{accepted} accepted, {refused} refused, {} faults",
        faults.len()
    );
    faults.iter().take(60).for_each(|fault| println!("{fault}"));
    assert!(
        accepted > 1_000 && refused > 1_000 && faults.is_empty(),
        "{} faults",
        faults.len()
    );
}

/// Returns every mutation of one position: truncated, without the token, with the token doubled,
/// swapped with its neighbour, or replaced.
fn changes(query: &str) -> impl Iterator<Item = String> + '_ {
    let tokens = tokens(query);
    let cuts = query.char_indices().map(|(at, _)| query[..at].to_owned());
    let swaps = (1..tokens.len()).map({
        let tokens = tokens.clone();
        move |at| {
            let mut tokens = tokens.clone();
            tokens.swap(at - 1, at);
            tokens.concat()
        }
    });
    let replaced = (0..tokens.len()).flat_map(move |at| {
        let tokens = tokens.clone();
        let twice = format!("{0} {0}", tokens[at]);
        let pieces = PIECES
            .into_iter()
            .map(str::to_owned)
            .chain([String::new(), twice]);
        pieces.map(move |piece| {
            let (before, after) = (tokens[..at].concat(), tokens[at + 1..].concat());
            before + &piece + &after
        })
    });
    cuts.chain(swaps).chain(replaced)
}

/// Runs of letters and digits, runs of blanks, and every other character alone.
fn tokens(query: &str) -> Vec<&str> {
    let kind = |letter: char| match letter {
        letter if letter.is_alphanumeric() || letter == '_' => 1,
        letter if letter.is_whitespace() => 2,
        _ => 0,
    };
    let mut tokens: Vec<&str> = Vec::new();
    let (mut start, mut last) = (0, 0);
    for (at, letter) in query.char_indices() {
        if at > start && (kind(letter) != last || last == 0) {
            tokens.push(&query[start..at]);
            start = at;
        }
        last = kind(letter);
    }
    tokens.push(&query[start..]);
    tokens
}

/// Returns whether the query is accepted, or the violated property.
fn checked(text: &str) -> Result<bool, String> {
    let parsed = match parse(text, Options::default()) {
        Ok(parsed) => parsed,
        Err(error) => {
            let inside = error
                .span()
                .is_none_or(|span| text.get(span.start as usize..span.end as usize).is_some());
            return if inside {
                Ok(false)
            } else {
                Err(format!("{} tells of a place outside", error.code()))
            };
        }
    };
    let query = &parsed.query;
    let printed = print(query);
    match parse(&printed, Options::default()) {
        Err(error) => {
            return Err(format!(
                "its canonical text is refused: {printed:?}: {} {}",
                error.code(),
                error.message()
            ));
        }
        Ok(again) if again.query != *query => {
            return Err(format!(
                "its canonical text says something else: {printed:?}"
            ));
        }
        Ok(again) if print(&again.query) != printed => {
            return Err(format!("its canonical text isn't: {printed:?}"));
        }
        Ok(again) if query_hash(&again.query) != query_hash(query) => {
            return Err("its hash is another".to_owned());
        }
        Ok(_) => {}
    }
    let json = to_json(query).to_string();
    let json = Json::parse(json.as_bytes()).map_err(|error| format!("its JSON isn't: {error}"))?;
    match from_json(&json, Options::default()) {
        Err(error) => Err(format!(
            "its JSON is refused: {json}: {} {}",
            error.code(),
            error.message()
        )),
        Ok(again) if again.query != *query => Err(format!("its JSON says something else: {json}")),
        Ok(_) => Ok(true),
    }
}
