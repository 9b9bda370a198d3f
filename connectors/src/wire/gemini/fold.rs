//! Folds streams to the finished response.
//!
//! Each event is a response with the next parts. Consecutive texts of the same kind form one part.
//! A call may be split into partial arguments, each with the path of its value.

use std::collections::BTreeMap;

use gristmill_schemas::json::{Json, Object};

use super::super::adapter::FoldedStream;
use super::super::framing::StreamFrame;
use super::super::json_access::{append_text, merge_member, merge_members};
use super::json_path::{parse_path, value_at};

/// The two spellings of the reason why a candidate ended.
const FINISH_REASONS: [&str; 2] = ["finishReason", "finish_reason"];

/// The two spellings of the signature of a part.
const SIGNATURES: [&str; 2] = ["thoughtSignature", "thought_signature"];

pub(super) fn fold<'f>(frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
    let mut fold = GenerateContentFold::default();
    for frame in frames {
        if let Json::Object(event) = frame.data {
            fold.event(event);
        }
    }
    fold.finish()
}

/// A response that is assembled from events.
#[derive(Default)]
struct GenerateContentFold<'f> {
    body: Object<'f>,
    candidates: BTreeMap<u64, CandidateFold<'f>>,
}

impl<'f> GenerateContentFold<'f> {
    fn event(&mut self, event: Object<'f>) {
        for (key, value) in event {
            match (&*key, value) {
                ("candidates", Json::Array(list)) => {
                    for (position, candidate) in list.into_iter().enumerate() {
                        if let Json::Object(candidate) = candidate {
                            self.candidate(position as u64, candidate);
                        }
                    }
                }
                (_, value) => merge_member(&mut self.body, key, value),
            }
        }
    }

    fn candidate(&mut self, position: u64, candidate: Object<'f>) {
        let index = candidate.get("index").and_then(Json::as_u64);
        let fold = self.candidates.entry(index.unwrap_or(position));
        fold.or_default().merge(candidate);
    }

    fn finish(self) -> FoldedStream<'f> {
        let mut body = self.body;
        let error = body.get("error").filter(|error| !error.is_null()).cloned();
        let is_finished =
            |candidate: &CandidateFold| has_either(&candidate.members, FINISH_REASONS);
        let complete = error.is_none()
            && !self.candidates.is_empty()
            && self.candidates.values().all(is_finished);
        if !self.candidates.is_empty() {
            let candidates = self.candidates.into_values().map(CandidateFold::finish);
            body.insert("candidates", candidates.collect::<Vec<_>>());
        }
        FoldedStream {
            body: Json::Object(body),
            complete,
            error,
        }
    }
}

/// A candidate that is assembled from events.
#[derive(Default)]
struct CandidateFold<'f> {
    members: Object<'f>,
    content: Option<Object<'f>>,
    parts: Vec<Object<'f>>,
    /// True if the last part is a call with more arguments to follow.
    open_call: bool,
    /// The path of the argument that continues in the next delta.
    open_text: Option<String>,
}

impl<'f> CandidateFold<'f> {
    fn merge(&mut self, candidate: Object<'f>) {
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
        let is_partial = |call: &Json| {
            call.as_object()
                .is_some_and(|call| self.open_call || is_partial_call(call))
        };
        if part.get("functionCall").is_some_and(is_partial) {
            if let Some(Json::Object(call)) = part.remove("functionCall") {
                self.partial_call(part, call);
            }
            return;
        }
        match self.parts.last_mut() {
            Some(last) if continues(last, &part) => append_part(last, part),
            _ => self.parts.push(part),
        }
    }

    /// Adds the part of a call unless one is open, or else the members of `part` to the open one.
    fn begin_or_continue_call(&mut self, mut part: Object<'f>) {
        if !self.open_call {
            part.insert("functionCall", Object::new());
            self.parts.push(part);
        } else if let Some(last) = self.parts.last_mut() {
            merge_members(last, part);
        }
    }

    /// Adds a partial call: the first one has the name, the next ones have arguments, the last one
    /// is empty. `part` are the other members of its part.
    fn partial_call(&mut self, part: Object<'f>, partial: Object<'f>) {
        self.begin_or_continue_call(part);
        self.open_call = partial.get("willContinue").and_then(Json::as_bool) == Some(true);
        let call = self
            .parts
            .last_mut()
            .and_then(|last| last.get_mut("functionCall"))
            .and_then(Json::as_object_mut);
        let Some(call) = call else { return };
        for (key, value) in partial {
            match (&*key, value) {
                ("willContinue", _) => {}
                ("partialArgs", Json::Array(arguments)) => {
                    for argument in arguments {
                        partial_argument(call, argument, &mut self.open_text);
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

fn is_partial_call(call: &Object) -> bool {
    call.contains_key("partialArgs") || call.contains_key("willContinue")
}

/// Returns true if one of two spellings of a member isn't null.
fn has_either(object: &Object, keys: [&str; 2]) -> bool {
    let is_present = |key| object.get(key).is_some_and(|value| !value.is_null());
    keys.into_iter().any(is_present)
}

/// Returns true if `part` continues the text of `last`: both are texts of the same kind, and `last`
/// has no signature.
fn continues(last: &Object, part: &Object) -> bool {
    let is_text = |part: &Object| part.get("text").and_then(Json::as_str).is_some();
    is_text(last)
        && is_text(part)
        && last.get("thought") == part.get("thought")
        && !has_either(last, SIGNATURES)
}

/// Appends the text of a part, and merges its other members.
fn append_part<'f>(last: &mut Object<'f>, part: Object<'f>) {
    for (key, value) in part {
        if key == "text" {
            append_text(last, "text", value)
        } else {
            merge_member(last, key, value)
        }
    }
}

/// Stores a partial argument at its path in `args`; one without a usable path is kept in
/// `partialArgs`. `open_text` is the path of the text that the argument may continue.
fn partial_argument<'f>(call: &mut Object<'f>, argument: Json<'f>, open_text: &mut Option<String>) {
    let path = argument.get("jsonPath").and_then(Json::as_str);
    let path = path.map(str::to_owned);
    let continues = open_text.is_some() && *open_text == path;
    let will_continue = argument.get("willContinue").and_then(Json::as_bool) == Some(true);
    if !store_argument(call, path.as_deref(), &argument, continues) {
        match call.get_mut("partialArgs") {
            Some(Json::Array(arguments)) => arguments.push(argument),
            _ => _ = call.insert("partialArgs", vec![argument]),
        }
    }
    *open_text = path.filter(|_| will_continue);
}

/// Stores the value of `argument` at `path` in `args`, or appends it to the text there. Returns
/// false if there is no value, or if the path is malformed or can't be created.
fn store_argument<'f>(
    call: &mut Object<'f>,
    path: Option<&str>,
    argument: &Json<'f>,
    continues: bool,
) -> bool {
    let (Some(path), Some(value)) = (path.and_then(parse_path), argument_value(argument)) else {
        return false;
    };
    if call.get("args").and_then(Json::as_object).is_none() {
        call.insert("args", Object::new());
    }
    let slot = call
        .get_mut("args")
        .and_then(|arguments| value_at(arguments, &path));
    match (slot, value) {
        (None, _) => return false,
        (Some(Json::String(text)), Json::String(more)) if continues => {
            text.to_mut().push_str(&more)
        }
        (Some(slot), value) => *slot = value,
    }
    true
}

/// Returns the value of a partial argument, whose member depends on its type.
fn argument_value<'f>(argument: &Json<'f>) -> Option<Json<'f>> {
    let member = |key: &&str| argument.get(key).cloned();
    let value = ["stringValue", "numberValue", "boolValue", "nullValue"]
        .iter()
        .find_map(member)?;
    match argument.get("nullValue") {
        Some(_) => Some(Json::Null),
        None => Some(value),
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
    fn partial_arguments_are_merged() {
        let parts = folded(&[
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
            Json::parse(parts.as_bytes()).unwrap(),
            Json::parse(expected.as_bytes()).unwrap()
        );
    }

    #[test]
    fn texts_of_one_kind_are_one_part_until_a_signature() {
        let parts = folded(&[
            r#"{"text":"a","thought":true}"#,
            r#"{"text":"b","thought":true}"#,
            r#"{"text":"c"}"#,
            r#"{"text":"","thoughtSignature":"s"}"#,
            r#"{"text":"d"}"#,
        ]);
        assert_eq!(
            parts,
            r#"[{"text":"ab","thought":true},{"text":"c","thoughtSignature":"s"},{"text":"d"}]"#
        );
    }

    #[test]
    fn a_stream_in_snake_case_is_complete_with_its_reason() {
        let event = |text: &str, reason: &str| {
            let event = format!(
                r#"{{"candidates":[{{"content":{{"parts":[
                {{"text":"{text}","thought_signature":null}}]}},"finish_reason":{reason}}}]}}"#
            );
            StreamFrame {
                event: None,
                data: Json::parse(event.as_bytes()).unwrap().into_owned(),
            }
        };
        let cut = fold(vec![event("a", "null"), event("b", "null")]);
        assert!(!cut.complete);
        assert!(
            cut.body.to_string().contains(r#""text":"ab""#),
            "{}",
            cut.body
        );
        assert!(fold(vec![event("a", "null"), event("b", "\"STOP\"")]).complete);
    }

    #[test]
    fn a_path_with_a_million_steps_is_ignored() {
        let path = ".a".repeat(1_000_000);
        let parts = folded(&[&format!(
            r#"{{"functionCall":{{"name":"w","partialArgs":[{{"jsonPath":"${path}","numberValue":1}}]}}}}"#
        )]);
        assert!(parts.contains("partialArgs"));
    }

    #[test]
    fn many_arguments_are_stored_in_linear_time() {
        // In quadratic time this takes minutes.
        const COUNT: usize = 200_000;
        let argument = |n| format!(r#"{{"jsonPath":"$.a{n}","numberValue":{n}}}"#);
        let arguments: Vec<String> = (0..COUNT).map(argument).collect();
        let parts = folded(&[&format!(
            r#"{{"functionCall":{{"name":"w","partialArgs":[{}]}}}}"#,
            arguments.join(",")
        )]);
        let last = COUNT - 1;
        assert!(parts.contains(&format!(r#""a{last}":{last}"#)));
        assert!(!parts.contains("partialArgs"));
    }

    #[test]
    fn a_path_far_beyond_the_end_of_a_list_is_ignored() {
        let parts = folded(&[
            r#"{"functionCall":{"name":"w","partialArgs":[{"jsonPath":"$.a[99999999]","numberValue":1}]}}"#,
        ]);
        assert!(parts.contains("partialArgs"));
    }
}
