//! Streams, folded to the finished response.
//!
//! Every event is a response of its own with the next parts. Texts of one kind in a row are one
//! part; a call may come with its arguments in pieces, each with the path where it belongs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gristmill_schemas::json::{Json, Object};

use super::super::adapter::FoldedStream;
use super::super::framing::StreamFrame;
use super::super::json_access::{append_text, merge_member};

/// Lists in arguments grow item by item; a path that skips more than this is not followed.
const GAP_LIMIT_ITEMS: usize = 64;

pub(super) fn fold<'f>(frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
    let mut body = Object::new();
    let mut candidates: BTreeMap<u64, CandidateFold<'f>> = BTreeMap::new();
    for frame in frames {
        let Json::Object(event) = frame.data else {
            continue;
        };
        for (key, value) in event {
            match (&*key, value) {
                ("candidates", Json::Array(list)) => {
                    for (position, candidate) in list.into_iter().enumerate() {
                        let Json::Object(candidate) = candidate else {
                            continue;
                        };
                        let index = candidate
                            .get("index")
                            .and_then(Json::as_u64)
                            .unwrap_or(position as u64);
                        candidates.entry(index).or_default().take(candidate);
                    }
                }
                (_, value) => merge_member(&mut body, key, value),
            }
        }
    }
    let error = body.get("error").filter(|error| !error.is_null()).cloned();
    let finished = |candidate: &CandidateFold| candidate.members.contains_key("finishReason");
    let complete = error.is_none() && !candidates.is_empty() && candidates.values().all(finished);
    if !candidates.is_empty() {
        body.insert(
            "candidates",
            candidates
                .into_values()
                .map(CandidateFold::finish)
                .collect::<Vec<_>>(),
        );
    }
    FoldedStream {
        body: Json::Object(body),
        complete,
        error,
    }
}

/// A candidate being put together.
#[derive(Default)]
struct CandidateFold<'f> {
    members: Object<'f>,
    content: Option<Object<'f>>,
    parts: Vec<Object<'f>>,
    /// The last part is a call whose arguments go on.
    open_call: bool,
    /// Where a text in its arguments goes on.
    open_text: Option<String>,
}

impl<'f> CandidateFold<'f> {
    fn take(&mut self, candidate: Object<'f>) {
        for (key, value) in candidate {
            match (&*key, value) {
                ("content", Json::Object(content)) => self.content(content),
                (_, value) => merge_member(&mut self.members, key, value),
            }
        }
    }

    fn content(&mut self, content: Object<'f>) {
        let mut members = self.content.take().unwrap_or_default();
        for (key, value) in content {
            match (&*key, value) {
                ("parts", Json::Array(parts)) => {
                    for part in parts {
                        if let Json::Object(part) = part {
                            self.part(part);
                        }
                    }
                }
                (_, value) => merge_member(&mut members, key, value),
            }
        }
        self.content = Some(members);
    }

    fn part(&mut self, mut part: Object<'f>) {
        let in_pieces = |call: &Json| {
            call.as_object()
                .is_some_and(|call| self.open_call || is_piece(call))
        };
        if part.get("functionCall").is_some_and(in_pieces) {
            if let Some(Json::Object(piece)) = part.remove("functionCall") {
                self.call_piece(part, piece);
            }
            return;
        }
        match self.parts.last_mut() {
            Some(last) if continues(last, &part) => {
                for (key, value) in part {
                    if key == "text" {
                        append_text(last, "text", value)
                    } else {
                        merge_member(last, key, value)
                    }
                }
            }
            _ => self.parts.push(part),
        }
    }

    /// A piece of a call: the first brings the name, the next ones arguments, the last nothing
    /// more.
    fn call_piece(&mut self, part: Object<'f>, piece: Object<'f>) {
        if !self.open_call {
            let mut begun = part;
            begun.insert("functionCall", Object::new());
            self.parts.push(begun);
        } else if let Some(last) = self.parts.last_mut() {
            part.into_iter()
                .for_each(|(key, value)| merge_member(last, key, value));
        }
        self.open_call = piece.get("willContinue").and_then(Json::as_bool) == Some(true);
        let call = self
            .parts
            .last_mut()
            .and_then(|last| last.get_mut("functionCall"))
            .and_then(Json::as_object_mut);
        let Some(call) = call else { return };
        for (key, value) in piece {
            match (&*key, value) {
                ("willContinue", _) => {}
                ("partialArgs", Json::Array(pieces)) => {
                    for piece in pieces {
                        argument_piece(call, piece, &mut self.open_text);
                    }
                }
                (_, value) => merge_member(call, key, value),
            }
        }
    }

    fn finish(mut self) -> Json<'f> {
        let mut candidate = Object::new();
        if let Some(mut content) = self.content.take() {
            content.insert(
                "parts",
                self.parts.into_iter().map(Json::Object).collect::<Vec<_>>(),
            );
            candidate.insert("content", content);
        }
        for (key, value) in self.members {
            candidate.insert(key, value);
        }
        Json::Object(candidate)
    }
}

fn is_piece(call: &Object) -> bool {
    call.contains_key("partialArgs") || call.contains_key("willContinue")
}

/// Text goes on in text of the same kind, up to the part that is signed.
fn continues(last: &Object, part: &Object) -> bool {
    let is_text = |part: &Object| part.get("text").and_then(Json::as_str).is_some();
    is_text(last)
        && is_text(part)
        && last.get("thought") == part.get("thought")
        && !last.contains_key("thoughtSignature")
}

/// Puts one piece where its path says; a piece that can't be placed is kept beside the arguments.
fn argument_piece<'f>(call: &mut Object<'f>, piece: Json<'f>, open_text: &mut Option<String>) {
    let path = piece.get("jsonPath").and_then(Json::as_str).and_then(steps);
    let value = ["stringValue", "numberValue", "boolValue", "nullValue"]
        .iter()
        .find_map(|key| piece.get(key));
    let value = value.map(|value| {
        if piece.get("nullValue").is_some() {
            Json::Null
        } else {
            value.clone()
        }
    });
    let named = piece
        .get("jsonPath")
        .and_then(Json::as_str)
        .map(str::to_owned);
    let goes_on = open_text.is_some() && *open_text == named;
    *open_text = named.filter(|_| piece.get("willContinue").and_then(Json::as_bool) == Some(true));
    if let (Some(path), Some(value)) = (path, value) {
        if call.get("args").and_then(Json::as_object).is_none() {
            call.insert("args", Object::new());
        }
        if let Some(slot) = call
            .get_mut("args")
            .and_then(|arguments| reach(arguments, &path))
        {
            match (slot, value) {
                (Json::String(text), Json::String(more)) if goes_on => {
                    text.to_mut().push_str(&more)
                }
                (slot, value) => *slot = value,
            }
            return;
        }
    }
    match call.get_mut("partialArgs") {
        Some(Json::Array(pieces)) => pieces.push(piece),
        _ => _ = call.insert("partialArgs", vec![piece]),
    }
}

/// One step of a path.
#[derive(Debug, PartialEq, Eq)]
enum JsonPathStep {
    Key(String),
    Index(usize),
}

/// The steps of `$.a.b[0]['c d']`; `None` if it is no such path.
fn steps(path: &str) -> Option<Vec<JsonPathStep>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (key, after) = after.split_at(end);
            steps.push(JsonPathStep::Key(key.to_owned()));
            rest = after;
        } else {
            let (inside, after) = rest.strip_prefix('[')?.split_once(']')?;
            let quoted = inside
                .strip_prefix(['\'', '"'])
                .and_then(|inside| inside.strip_suffix(['\'', '"']));
            steps.push(match quoted {
                Some(key) => JsonPathStep::Key(key.to_owned()),
                None => JsonPathStep::Index(inside.parse().ok()?),
            });
            rest = after;
        }
    }
    (!steps.is_empty()).then_some(steps)
}

/// The place that the steps lead to, made where it isn't there yet.
fn reach<'v, 'f>(value: &'v mut Json<'f>, steps: &[JsonPathStep]) -> Option<&'v mut Json<'f>> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    match step {
        JsonPathStep::Key(key) => {
            if value.is_null() {
                *value = Json::Object(Object::new());
            }
            let object = value.as_object_mut()?;
            if !object.contains_key(key) {
                object.append_new(Cow::Owned(key.clone()), Json::Null);
            }
            reach(object.get_mut(key)?, rest)
        }
        JsonPathStep::Index(index) => {
            if value.is_null() {
                *value = Json::Array(Vec::new());
            }
            let Json::Array(items) = value else {
                return None;
            };
            if *index > items.len() + GAP_LIMIT_ITEMS {
                return None;
            }
            while items.len() <= *index {
                items.push(Json::Null);
            }
            reach(items.get_mut(*index)?, rest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(parts: &[&str]) -> String {
        let events: Vec<String> = parts
            .iter()
            .map(|part| {
                format!(r#"{{"candidates":[{{"content":{{"role":"model","parts":[{part}]}}}}]}}"#)
            })
            .collect();
        let frames = events
            .iter()
            .map(|event| StreamFrame {
                event: None,
                data: Json::parse(event.as_bytes()).unwrap(),
            })
            .collect();
        let body = fold(frames).body;
        let candidate = &body.get("candidates").and_then(Json::as_array).unwrap()[0];
        candidate
            .get("content")
            .and_then(|content| content.get("parts"))
            .unwrap()
            .to_string()
    }

    #[test]
    fn arguments_in_pieces_become_arguments() {
        let told = folded(&[
            r#"{"functionCall":{"name":"w","willContinue":true},"thoughtSignature":"s"}"#,
            r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.a[0].b","stringValue":"x","willContinue":true}],"willContinue":true}}"#,
            r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.a[0].b","stringValue":"y"}],"willContinue":true}}"#,
            r#"{"functionCall":{"partialArgs":[{"jsonPath":"$['c d']","numberValue":0.50},{"jsonPath":"oops","stringValue":"z"}],"willContinue":true}}"#,
            r#"{"functionCall":{}}"#,
            r#"{"text":"after"}"#,
        ]);
        let expected = r#"[{"thoughtSignature":"s","functionCall":{"name":"w","args":{"a":[{"b":"xy"}],"c d":0.50},
            "partialArgs":[{"jsonPath":"oops","stringValue":"z"}]}},{"text":"after"}]"#;
        assert_eq!(
            Json::parse(told.as_bytes()).unwrap(),
            Json::parse(expected.as_bytes()).unwrap()
        );
    }

    #[test]
    fn texts_of_one_kind_are_one_part_up_to_the_signed_one() {
        let told = folded(&[
            r#"{"text":"a","thought":true}"#,
            r#"{"text":"b","thought":true}"#,
            r#"{"text":"c"}"#,
            r#"{"text":"","thoughtSignature":"s"}"#,
            r#"{"text":"d"}"#,
        ]);
        assert_eq!(
            told,
            r#"[{"text":"ab","thought":true},{"text":"c","thoughtSignature":"s"},{"text":"d"}]"#
        );
    }

    #[test]
    fn a_path_that_reaches_far_beyond_its_list_is_not_followed() {
        let told = folded(&[
            r#"{"functionCall":{"name":"w","partialArgs":[{"jsonPath":"$.a[99999999]","numberValue":1}]}}"#,
        ]);
        assert!(told.contains("partialArgs"));
    }
}
