//! Folds streams to the finished completion.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use gristmill_schemas::json::{Json, Object};

use super::super::adapter::FoldedStream;
use super::super::framing::StreamFrame;
use super::super::json_access::{merge_member, text_or_empty};
use super::call_positions::CallPositions;

/// Members of chunks without content: padding that hides the lengths of chunks from observers.
const PADDING: [&str; 2] = ["obfuscation", "p"];
/// Texts of a message that deltas append to.
const APPENDED: [&str; 4] = ["content", "refusal", "reasoning", "reasoning_content"];

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

/// A completion that is assembled from chunks.
#[derive(Default)]
struct CompletionFold<'f> {
    body: Object<'f>,
    choices: BTreeMap<u64, ChoiceFold<'f>>,
    numbered_calls: bool,
    /// True if a chunk had a list of choices, even an empty one.
    listed: bool,
}

#[derive(Default)]
struct ChoiceFold<'f> {
    members: Object<'f>,
    message: Object<'f>,
    calls: Vec<CallFold<'f>>,
    positions: CallPositions,
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
            // Some endpoints repeat the whole message with each delta.
            choice.remove("message");
        }
        if let Some(Json::Object(delta)) = delta {
            target.delta(delta);
        }
        for (key, value) in choice {
            match (&*key, target.members.get_mut(&key), value) {
                ("logprobs", Some(Json::Object(known)), Json::Object(more)) => {
                    append_all(known, more)
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
        let complete = error.is_none()
            && !self.choices.is_empty()
            && self.choices.values().all(ChoiceFold::is_finished);
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
                    self.merge_object("function_call", function, append_to_function)
                }
                ("audio", Json::Object(audio)) => {
                    self.merge_object("audio", audio, |known, more| {
                        append_members(known, more, &["data", "transcript"])
                    })
                }
                ("reasoning_details", Json::Array(details)) => self.reasoning_details(details),
                ("content", Json::Array(parts)) => self.content_parts(parts),
                ("content", Json::String(text)) if self.has_parts() => {
                    if !text.is_empty() {
                        self.content_parts(vec![text_part(text)]);
                    }
                }
                (_, value) => self.member(key, value),
            }
        }
    }

    /// Merges a member that has no rule of its own.
    fn member(&mut self, key: Cow<'f, str>, value: Json<'f>) {
        match (&*key, value) {
            (name, value) if APPENDED.contains(&name) => append(&mut self.message, key, value),
            (_, Json::Array(more)) => match self.message.get_mut(&key) {
                Some(Json::Array(items)) => items.extend(more),
                _ => _ = self.message.insert(key, more),
            },
            (_, value) => merge_member(&mut self.message, key, value),
        }
    }

    /// Merges an object into the member `key` of the message with `merge`, or inserts it.
    fn merge_object(
        &mut self,
        key: &'static str,
        object: Object<'f>,
        merge: fn(&mut Object<'f>, Object<'f>),
    ) {
        match self.message.get_mut(key) {
            Some(Json::Object(known)) => merge(known, object),
            _ => _ = self.message.insert(key, object),
        }
    }

    fn has_parts(&self) -> bool {
        self.message
            .get("content")
            .is_some_and(|content| content.as_array().is_some())
    }

    /// Adds content parts. Consecutive parts of one type become one part; a string becomes the
    /// first part.
    fn content_parts(&mut self, parts: Vec<Json<'f>>) {
        let known = match self.message.get_mut("content").map(std::mem::take) {
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
                    append_to_part(last, part);
                }
                (_, part) => whole.push(part),
            }
        }
        self.message.insert("content", whole);
    }

    /// Adds a delta of a call to the call that [`CallPositions`] finds. Some endpoints give all
    /// calls the same index: then a delta with another name and id begins another call.
    fn call(&mut self, call: Json<'f>) {
        let Json::Object(mut delta) = call else {
            return;
        };
        let index = delta.remove("index").and_then(|index| index.as_u64());
        let id = id_of(&delta);
        let id_at = |position: usize| self.calls.get(position).map_or("", CallFold::id);
        let called = (name_of(&delta), arguments_of(&delta));
        match self.positions.find(index, id, called, id_at) {
            Some(position) => {
                let Some(known) = self.calls.get_mut(position) else {
                    return;
                };
                self.positions.add_arguments(position, arguments_of(&delta));
                let is_identified = !known.id().is_empty();
                known.delta(delta);
                if !is_identified {
                    self.positions.set_id(position, known.id());
                }
            }
            None => {
                let id = id.unwrap_or_default();
                self.positions.push(index, id, name_of(&delta));
                let position = self.calls.len();
                self.positions.add_arguments(position, arguments_of(&delta));
                self.calls.push(CallFold { index, call: delta });
            }
        }
    }

    /// Returns true if the choice has a finish reason.
    fn is_finished(&self) -> bool {
        let reason = self.members.get("finish_reason");
        reason.is_some_and(|reason| !reason.is_null())
    }

    /// Adds reasoning details. Consecutive ones with the same type, index and id become one detail.
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
            match known.last_mut() {
                Some(Json::Object(last)) if is_same_detail(last, &piece) => {
                    append_members(last, piece, &["text", "summary", "data"])
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

impl<'f> CallFold<'f> {
    /// Returns the id of the call; empty if it has none yet.
    fn id(&self) -> &str {
        id_of(&self.call).unwrap_or_default()
    }

    fn delta(&mut self, delta: Object<'f>) {
        for (key, value) in delta {
            match (&*key, self.call.get_mut(&key), value) {
                ("function" | "custom", Some(Json::Object(known)), Json::Object(function)) => {
                    append_to_function(known, function)
                }
                ("id" | "type", Some(Json::String(text)), Json::String(new))
                    if new.is_empty() || !text.is_empty() => {}
                (_, _, value) => merge_member(&mut self.call, key, value),
            }
        }
    }
}

/// Returns the id of a call or of a delta of one.
fn id_of<'c>(call: &'c Object) -> Option<&'c str> {
    call.get("id").and_then(Json::as_str)
}

/// Appends strings and lists; ignores null; replaces other values.
fn append<'f>(into: &mut Object<'f>, key: Cow<'f, str>, value: Json<'f>) {
    match (into.get_mut(&key), value) {
        (Some(Json::String(text)), Json::String(piece)) => text.to_mut().push_str(&piece),
        (Some(Json::Array(items)), Json::Array(more)) => items.extend(more),
        (Some(known), Json::Null) if !known.is_null() => {}
        (_, value) => _ = into.insert(key, value),
    }
}

fn append_members<'f>(into: &mut Object<'f>, piece: Object<'f>, growing: &[&str]) {
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

/// Appends to the text of a part, and to the texts in its lists of parts.
fn append_to_part<'f>(into: &mut Object<'f>, piece: Object<'f>) {
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
                            append_members(last, item, &["text"]);
                        }
                        (_, item) => known.push(item),
                    }
                }
            }
            (_, _, value) => merge_member(into, key, value),
        }
    }
}

/// Returns the piece of the arguments in a call or in a delta of one.
fn arguments_of<'c>(call: &'c Object) -> &'c str {
    let function = call.get("function");
    function.map_or("", |function| text_or_empty(function, "arguments"))
}

/// Returns the tool name of a call or of a delta of one.
fn name_of<'c>(call: &'c Object) -> &'c str {
    let function = call.get("function").or_else(|| call.get("custom"));
    function
        .and_then(|function| function.get("name"))
        .and_then(Json::as_str)
        .unwrap_or_default()
}

/// Appends to the arguments, or to the input of a custom tool; a name is never split.
fn append_to_function<'f>(into: &mut Object<'f>, piece: Object<'f>) {
    for (key, value) in piece {
        match (&*key, into.get("name").and_then(Json::as_str), value) {
            ("name", Some(name), Json::String(_)) if !name.is_empty() => {}
            ("name", _, Json::String(name)) if name.is_empty() => {}
            ("arguments" | "input", _, value) => append(into, key, value),
            (_, _, value) => merge_member(into, key, value),
        }
    }
}

fn append_all<'f>(into: &mut Object<'f>, more: Object<'f>) {
    for (key, value) in more {
        append(into, key, value);
    }
}

/// Returns true if `piece` continues the reasoning detail `last`.
fn is_same_detail(last: &Object, piece: &Object) -> bool {
    ["type", "index", "id"]
        .iter()
        .all(|key| last.get(key) == piece.get(key) || piece.get(key).is_none())
}
