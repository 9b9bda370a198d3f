//! Streams, folded to the finished completion.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gristmill_schemas::json::{Json, Object};

use super::super::adapter::FoldedStream;
use super::super::framing::StreamFrame;
use super::super::json_access::merge_member;

/// Members of chunks that carry nothing: padding against eavesdroppers who measure lengths.
const PADDING: [&str; 2] = ["obfuscation", "p"];
/// Texts of a message that grow piece by piece.
const GROWING: [&str; 4] = ["content", "refusal", "reasoning", "reasoning_content"];

pub(super) fn fold<'f>(frames: Vec<StreamFrame<'f>>, numbered_calls: bool) -> FoldedStream<'f> {
    let mut fold = CompletionFold {
        numbered_calls,
        ..CompletionFold::default()
    };
    for frame in frames {
        if let Json::Object(chunk) = frame.data {
            fold.chunk(chunk);
        }
    }
    fold.finish()
}

/// A completion being put together.
#[derive(Default)]
struct CompletionFold<'f> {
    body: Object<'f>,
    choices: BTreeMap<u64, ChoiceFold<'f>>,
    numbered_calls: bool,
    /// A list of choices came, if only an empty one.
    listed: bool,
}

#[derive(Default)]
struct ChoiceFold<'f> {
    members: Object<'f>,
    message: Object<'f>,
    calls: Vec<CallFold<'f>>,
}

struct CallFold<'f> {
    index: Option<u64>,
    call: Object<'f>,
}

impl<'f> CompletionFold<'f> {
    fn chunk(&mut self, chunk: Object<'f>) {
        for (key, value) in chunk {
            match (&*key, value) {
                ("choices", Json::Array(choices)) => {
                    self.listed = true;
                    for (position, choice) in choices.into_iter().enumerate() {
                        if let Json::Object(choice) = choice {
                            self.choice(position as u64, choice);
                        }
                    }
                }
                ("object", _) => _ = self.body.insert("object", "chat.completion"),
                (key, _) if PADDING.contains(&key) => {}
                (_, value) => merge_member(&mut self.body, key, value),
            }
        }
    }

    fn choice(&mut self, position: u64, mut choice: Object<'f>) {
        let index = choice
            .get("index")
            .and_then(Json::as_u64)
            .unwrap_or(position);
        let target = self.choices.entry(index).or_default();
        let delta = choice.remove("delta");
        if delta.is_some() {
            // Some endpoints repeat the whole message beside each piece.
            choice.remove("message");
        }
        if let Some(Json::Object(delta)) = delta {
            target.delta(delta);
        }
        for (key, value) in choice {
            match (&*key, target.members.get_mut(&key), value) {
                ("logprobs", Some(Json::Object(known)), Json::Object(more)) => {
                    extend_lists(known, more)
                }
                (_, _, value) => merge_member(&mut target.members, key, value),
            }
        }
    }

    fn finish(mut self) -> FoldedStream<'f> {
        let error = self
            .body
            .get("error")
            .filter(|error| !error.is_null())
            .cloned();
        let finished = |choice: &ChoiceFold| {
            choice
                .members
                .get("finish_reason")
                .is_some_and(|reason| !reason.is_null())
        };
        let complete =
            error.is_none() && !self.choices.is_empty() && self.choices.values().all(finished);
        if self.listed && (error.is_none() || !self.choices.is_empty()) {
            let numbered = self.numbered_calls;
            let choices = self
                .choices
                .into_iter()
                .map(|(index, choice)| choice.finish(index, numbered));
            self.body.insert("choices", choices.collect::<Vec<_>>());
        }
        FoldedStream {
            body: Json::Object(self.body),
            complete,
            error,
        }
    }
}

impl<'f> ChoiceFold<'f> {
    fn delta(&mut self, delta: Object<'f>) {
        for (key, value) in delta {
            match (&*key, value) {
                ("tool_calls", Json::Array(calls)) => {
                    calls.into_iter().for_each(|call| self.call(call))
                }
                ("tool_calls", Json::Null) => {}
                ("function_call", Json::Object(function)) => {
                    match self.message.get_mut("function_call") {
                        Some(Json::Object(known)) => grow_function(known, function),
                        _ => _ = self.message.insert("function_call", function),
                    }
                }
                ("reasoning_details", Json::Array(details)) => self.reasoning_details(details),
                ("audio", Json::Object(audio)) => match self.message.get_mut("audio") {
                    Some(Json::Object(known)) => grow(known, audio, &["data", "transcript"]),
                    _ => _ = self.message.insert("audio", audio),
                },
                ("content", Json::Array(parts)) => self.content_parts(parts),
                ("content", Json::String(text)) if self.has_parts() => {
                    if !text.is_empty() {
                        self.content_parts(vec![text_part(text)]);
                    }
                }
                (name, value) if GROWING.contains(&name) => append(&mut self.message, key, value),
                (_, Json::Array(more)) => match self.message.get_mut(&key) {
                    Some(Json::Array(items)) => items.extend(more),
                    _ => _ = self.message.insert(key, more),
                },
                (_, value) => merge_member(&mut self.message, key, value),
            }
        }
    }

    fn has_parts(&self) -> bool {
        self.message
            .get("content")
            .is_some_and(|content| content.as_array().is_some())
    }

    /// Parts of one kind in a row are one part; what was a text so far becomes the first of them.
    fn content_parts(&mut self, parts: Vec<Json<'f>>) {
        let known = match self.message.remove("content") {
            Some(Json::Array(known)) => known,
            Some(Json::String(text)) if !text.is_empty() => vec![text_part(text)],
            _ => Vec::new(),
        };
        let mut whole = known;
        for part in parts {
            match (whole.last_mut(), part) {
                (Some(Json::Object(last)), Json::Object(part))
                    if last.get("type") == part.get("type") =>
                {
                    grow_part(last, part);
                }
                (_, part) => whole.push(part),
            }
        }
        self.message.insert("content", whole);
    }

    /// A piece of a call belongs to the call of its number; without a number, to the call of its
    /// id, or to the last one. Some endpoints give every call the same number: there a piece with
    /// another name and id begins another call.
    fn call(&mut self, call: Json<'f>) {
        let Json::Object(mut piece) = call else {
            return;
        };
        let index = piece.remove("index").and_then(|index| index.as_u64());
        let id = piece
            .get("id")
            .and_then(Json::as_str)
            .filter(|id| !id.is_empty());
        let begins = |call: &CallFold| {
            let known = call
                .call
                .get("id")
                .and_then(Json::as_str)
                .unwrap_or_default();
            begins_another(known, id, name_of(&piece))
        };
        let known = match (index, id) {
            (Some(index), _) => {
                let last = self
                    .calls
                    .iter()
                    .rposition(|call| call.index == Some(index));
                last.filter(|at| !self.calls.get(*at).is_some_and(begins))
            }
            (None, Some(id)) => self
                .calls
                .iter()
                .position(|call| call.call.get("id").and_then(Json::as_str) == Some(id)),
            (None, None) => self.calls.len().checked_sub(1),
        };
        match known.and_then(|at| self.calls.get_mut(at)) {
            None => self.calls.push(CallFold { index, call: piece }),
            Some(known) => {
                for (key, value) in piece {
                    match (&*key, known.call.get_mut(&key), value) {
                        (
                            "function" | "custom",
                            Some(Json::Object(known)),
                            Json::Object(function),
                        ) => grow_function(known, function),
                        ("id" | "type", Some(Json::String(text)), Json::String(new))
                            if new.is_empty() || !text.is_empty() => {}
                        (_, _, value) => merge_member(&mut known.call, key, value),
                    }
                }
            }
        }
    }

    /// Pieces of one kind and number are one detail: its texts grow, the rest is settled.
    fn reasoning_details(&mut self, details: Vec<Json<'f>>) {
        if self
            .message
            .get("reasoning_details")
            .and_then(Json::as_array)
            .is_none()
        {
            self.message.insert("reasoning_details", Vec::new());
        }
        let Some(Json::Array(known)) = self.message.get_mut("reasoning_details") else {
            return;
        };
        for detail in details {
            let Json::Object(piece) = detail else {
                continue;
            };
            let same = |last: &Object| {
                ["type", "index", "id"]
                    .iter()
                    .all(|key| last.get(key) == piece.get(key) || piece.get(key).is_none())
            };
            match known.last_mut() {
                Some(Json::Object(last)) if same(last) => {
                    grow(last, piece, &["text", "summary", "data"])
                }
                _ => known.push(Json::Object(piece)),
            }
        }
    }

    fn finish(mut self, index: u64, numbered: bool) -> Json<'f> {
        if !self.calls.is_empty() {
            let calls = self.calls.into_iter().enumerate().map(
                |(position, CallFold { index, mut call })| {
                    if numbered {
                        call.insert("index", index.unwrap_or(position as u64));
                    }
                    Json::Object(call)
                },
            );
            self.message.insert("tool_calls", calls.collect::<Vec<_>>());
        }
        if !self.message.contains_key("content") {
            self.message.insert("content", Json::Null);
        }
        let mut choice = Object::new();
        choice.insert("index", index);
        choice.insert("message", self.message);
        for (key, value) in self.members {
            choice.insert(key, value);
        }
        Json::Object(choice)
    }
}

/// Text is added to text; null says nothing; lists grow.
fn append<'f>(into: &mut Object<'f>, key: Cow<'f, str>, value: Json<'f>) {
    match (into.get_mut(&key), value) {
        (Some(Json::String(text)), Json::String(piece)) => text.to_mut().push_str(&piece),
        (Some(Json::Array(items)), Json::Array(more)) => items.extend(more),
        (Some(known), Json::Null) if !known.is_null() => {}
        (_, value) => _ = into.insert(key, value),
    }
}

fn grow<'f>(into: &mut Object<'f>, piece: Object<'f>, growing: &[&str]) {
    for (key, value) in piece {
        if growing.contains(&&*key) {
            append(into, key, value)
        } else {
            merge_member(into, key, value)
        }
    }
}

fn text_part(text: Cow<'_, str>) -> Json<'_> {
    let mut part = Object::new();
    part.insert("type", "text");
    part.insert("text", Json::String(text));
    Json::Object(part)
}

/// Texts grow, and so do the texts in lists of parts.
fn grow_part<'f>(into: &mut Object<'f>, piece: Object<'f>) {
    for (key, value) in piece {
        match (&*key, into.get_mut(&key), value) {
            ("type", Some(_), _) => {}
            ("text", _, value) => append(into, key, value),
            (_, Some(Json::Array(known)), Json::Array(more)) => {
                for item in more {
                    match (known.last_mut(), item) {
                        (Some(Json::Object(last)), Json::Object(item))
                            if last.get("type") == item.get("type") =>
                        {
                            grow(last, item, &["text"]);
                        }
                        (_, item) => known.push(item),
                    }
                }
            }
            (_, _, value) => merge_member(into, key, value),
        }
    }
}

/// True if a piece with `id` and the `name` of a tool is of another call than that with the id
/// `known`, although it has its number: both have an id, and they differ, and it names its tool, as
/// only the first piece of a call does.
pub(super) fn begins_another(known: &str, id: Option<&str>, name: &str) -> bool {
    !known.is_empty() && id.is_some_and(|id| !id.is_empty() && id != known) && !name.is_empty()
}

/// The name of the tool that a call, or a piece of one, is for.
fn name_of<'c>(call: &'c Object) -> &'c str {
    let function = call.get("function").or_else(|| call.get("custom"));
    function
        .and_then(|function| function.get("name"))
        .and_then(Json::as_str)
        .unwrap_or_default()
}

/// A name comes whole, arguments and the input of a custom tool in pieces.
fn grow_function<'f>(into: &mut Object<'f>, piece: Object<'f>) {
    for (key, value) in piece {
        match (&*key, into.get("name").and_then(Json::as_str), value) {
            ("name", Some(name), Json::String(_)) if !name.is_empty() => {}
            ("name", _, Json::String(name)) if name.is_empty() => {}
            ("arguments" | "input", _, value) => append(into, key, value),
            (_, _, value) => merge_member(into, key, value),
        }
    }
}

fn extend_lists<'f>(into: &mut Object<'f>, more: Object<'f>) {
    for (key, value) in more {
        append(into, key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(deltas: &[&str]) -> Vec<String> {
        let chunk = |delta: &&str| {
            format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{delta}]}}}}]}}"#)
        };
        let chunks: Vec<String> = deltas.iter().map(chunk).collect();
        let frame = |chunk: &String| StreamFrame {
            event: None,
            data: Json::parse(chunk.as_bytes()).unwrap().into_owned(),
        };
        let folded = fold(chunks.iter().map(frame).collect(), false);
        let message = folded.body.get("choices").unwrap().as_array().unwrap()[0]
            .get("message")
            .unwrap();
        message
            .get("tool_calls")
            .and_then(Json::as_array)
            .unwrap()
            .iter()
            .map(Json::to_string)
            .collect()
    }

    #[test]
    fn the_input_of_a_custom_tool_comes_in_pieces() {
        let pieces = [
            r#"{"index":0,"id":"c","type":"custom","custom":{"name":"sh","input":"ec"}}"#,
            r#"{"index":0,"custom":{"input":"ho 1"}}"#,
        ];
        assert_eq!(
            calls(&pieces),
            [r#"{"id":"c","type":"custom","custom":{"name":"sh","input":"echo 1"}}"#]
        );
    }

    #[test]
    fn calls_of_one_number_are_told_apart_by_their_ids() {
        let pieces = [
            r#"{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}"#,
            r#"{"index":0,"id":"b","type":"function","function":{"name":"g","arguments":"{\"x\""}}"#,
            r#"{"index":0,"function":{"arguments":":1}"}}"#,
            // Some repeat an id that they make anew for each piece.
            r#"{"index":0,"id":"z","function":{"arguments":" "}}"#,
        ];
        let expected = [
            r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}"#,
            r#"{"id":"b","type":"function","function":{"name":"g","arguments":"{\"x\":1} "}}"#,
        ];
        assert_eq!(calls(&pieces), expected);
    }
}
