//! Folds streams to the finished response.
//!
//! The last event contains the whole response, which is authoritative even if ids changed during
//! the stream. A stream that was truncated before it is assembled from its items, and those from
//! their deltas.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gristmill_schemas::json::{Json, Object};

use super::super::adapter::FoldedStream;
use super::super::framing::StreamFrame;
use super::super::json_access::{append_text, merge_member, object, text_or_empty};

/// Events whose response is final.
const FINAL: [&str; 4] = [
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.done",
];
/// The event that begins an item.
const ITEM_ADDED: &str = "response.output_item.added";
/// The event with an annotation of a text.
const ANNOTATION_ADDED: &str = "response.output_text.annotation.added";
/// The event that completes an item.
const ITEM_DONE: &str = "response.output_item.done";

/// Members of events that only locate the event in the stream.
const FRAMING: [&str; 4] = ["type", "sequence_number", "response", "obfuscation"];

pub(super) fn fold<'f>(frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
    let mut fold = ResponseFold::default();
    for frame in frames {
        if let Json::Object(event) = frame.data {
            fold.event(event);
        }
    }
    fold.finish()
}

/// Returns true if the text of an event begins like that of an item or of a delta: its type is
/// `response.{object}.{action}`, and it contains no response. Events with another spelling are
/// parsed.
pub(super) fn is_delta_frame(frame: &str) -> bool {
    let numbered = |text: &'static str| {
        let rest = frame.strip_prefix(text)?;
        rest.trim_start_matches(|digit: char| digit.is_ascii_digit())
            .strip_prefix(',')
    };
    let begin = numbered("{\"sequence_number\":")
        .or_else(|| frame.strip_prefix('{'))
        .unwrap_or_default();
    let kind = begin
        .strip_prefix("\"type\":\"response.")
        .and_then(|rest| rest.split('"').next());
    kind.is_some_and(|kind| kind.contains('.')) && !frame.contains("\"response\"")
}

/// A response that is assembled from events.
#[derive(Default)]
struct ResponseFold<'f> {
    response: Object<'f>,
    items: BTreeMap<u64, Object<'f>>,
    /// True if the last item is complete.
    is_item_done: bool,
    /// True after an event of a response, with the response or without it.
    is_response: bool,
    complete: bool,
    error: Option<Json<'f>>,
}

impl<'f> ResponseFold<'f> {
    fn event(&mut self, mut event: Object<'f>) {
        let kind = event
            .get("type")
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned();
        self.is_response |= kind.starts_with("response.");
        if let Some(Json::Object(response)) = event.get_mut("response") {
            let response = std::mem::take(response);
            self.response(&kind, response, event);
        } else {
            self.item_event(&kind, event);
        }
    }

    /// Takes an event without a response: an item, a delta of one, or an error.
    fn item_event(&mut self, kind: &str, mut event: Object<'f>) {
        let index = event.get("output_index").and_then(Json::as_u64);
        let index = index.unwrap_or_else(|| self.sequential_index(kind, &event));
        match kind {
            ITEM_ADDED | ITEM_DONE => {
                if let Some(Json::Object(item)) = event.remove("item") {
                    self.is_item_done = kind == ITEM_DONE;
                    self.items.insert(index, item);
                }
            }
            "error" => {
                self.error = Some(event.get("error").cloned().unwrap_or(Json::Object(event)))
            }
            // Gateways send the body of an error as an event.
            "" if event.get("error").is_some_and(|error| !error.is_null()) => {
                self.error = event.remove("error");
            }
            _ => append_delta(self.items.entry(index).or_default(), kind, event),
        }
    }

    /// Returns the index of the item of an event that has none, as some endpoints send them: that
    /// of the last item, unless the event begins another one.
    fn sequential_index(&self, kind: &str, event: &Object) -> u64 {
        let Some((last, item)) = self.items.last_key_value() else {
            return 0;
        };
        let begins_another = event.get("item").is_some_and(|new| {
            let id = new.get("id");
            kind == ITEM_ADDED || id != item.get("id") || id.is_none() && self.is_item_done
        });
        if begins_another {
            last.saturating_add(1)
        } else {
            *last
        }
    }

    /// Takes the members of a `response`, and if it is final the other members of its event.
    fn response(&mut self, kind: &str, response: Object<'f>, event: Object<'f>) {
        for (key, value) in response {
            self.response.insert(key, value);
        }
        if !FINAL.contains(&kind) {
            return;
        }
        self.complete = kind != "response.failed";
        // Other members of the final event are kept in the response.
        for (key, value) in event {
            if !FRAMING.contains(&&*key) {
                merge_member(&mut self.response, key, value);
            }
        }
    }

    /// Adds what only the events with a response and those that begin an item state, if the stream
    /// has events of a response, but none with it: its beginning is lost.
    fn add_lost_beginning(&mut self) {
        if !self.is_response || !self.response.is_empty() {
            return;
        }
        self.response.insert("object", "response");
        self.response.insert("output", Vec::new());
        self.items.values_mut().for_each(add_type);
    }

    fn finish(mut self) -> FoldedStream<'f> {
        self.add_lost_beginning();
        let output = self.response.get("output").and_then(Json::as_array);
        if output.is_none_or(<[Json]>::is_empty) && !self.items.is_empty() {
            let items = self.items.into_values().filter(|item| !item.is_empty());
            let items = items.map(Json::Object);
            self.response.insert("output", items.collect::<Vec<_>>());
        }
        if let Some(error) = &self.error
            && self.response.get("error").is_none_or(Json::is_null)
        {
            self.response.insert("error", error.clone());
        }
        FoldedStream {
            body: Json::Object(self.response),
            complete: self.complete && self.error.is_none(),
            error: self.error,
        }
    }
}

/// The text that a type of delta appends to: the list of parts, the member with the index of the
/// part, the type of the part, and its text member.
struct DeltaTarget {
    list: &'static str,
    index_key: &'static str,
    part_type: &'static str,
    text_key: &'static str,
}

impl DeltaTarget {
    const fn content(part_type: &'static str, text_key: &'static str) -> Self {
        DeltaTarget {
            list: "content",
            index_key: "content_index",
            part_type,
            text_key,
        }
    }
}

/// Adds the type of an item that has none, by the members that its deltas have filled.
fn add_type(item: &mut Object<'_>) {
    if item.is_empty() || item.contains_key("type") {
        return;
    }
    let texts = item.get("content").and_then(Json::as_array);
    let is_reasoning = |part: &Json| text_or_empty(part, "type") == "reasoning_text";
    let item_type = match texts {
        Some(texts) if !texts.iter().any(is_reasoning) => "message",
        Some(_) => "reasoning",
        None if item.contains_key("summary") => "reasoning",
        None if item.contains_key("input") => "custom_tool_call",
        None if item.contains_key("code") => "code_interpreter_call",
        None => "function_call",
    };
    item.insert("type", item_type);
    if item_type == "message" {
        item.insert("role", "assistant");
    }
}

/// Adds a delta or an annotation to its item. The `done` events are ignored, because they repeat
/// the deltas.
fn append_delta<'f>(item: &mut Object<'f>, kind: &str, mut event: Object<'f>) {
    if kind == ANNOTATION_ADDED {
        return append_annotation(item, event);
    }
    let delta = event.remove("delta");
    let (Some(delta), Some(name)) = (delta, kind.strip_suffix(".delta")) else {
        return;
    };
    let target = match name {
        "response.output_text" => DeltaTarget::content("output_text", "text"),
        "response.refusal" => DeltaTarget::content("refusal", "refusal"),
        "response.reasoning_text" => DeltaTarget::content("reasoning_text", "text"),
        "response.reasoning_summary_text" => DeltaTarget {
            list: "summary",
            index_key: "summary_index",
            part_type: "summary_text",
            text_key: "text",
        },
        "response.function_call_arguments" | "response.mcp_call_arguments" => {
            return append_text(item, "arguments", delta);
        }
        "response.custom_tool_call_input" => return append_text(item, "input", delta),
        "response.code_interpreter_call_code" => return append_text(item, "code", delta),
        _ => return,
    };
    append_to_part(item, &target, &event, delta);
}

/// Returns the index of the part that `event` selects.
fn part_index(event: &Object, target: &DeltaTarget) -> usize {
    let index = event.get(target.index_key).and_then(Json::as_u64);
    usize::try_from(index.unwrap_or(0)).unwrap_or(usize::MAX)
}

/// Returns the part that `event` selects, which may be a new one.
fn part_of<'i, 'f>(
    item: &'i mut Object<'f>,
    target: &DeltaTarget,
    event: &Object,
) -> Option<&'i mut Object<'f>> {
    if item.get(target.list).and_then(Json::as_array).is_none() {
        item.insert(Cow::Borrowed(target.list), Vec::new());
    }
    let Some(Json::Array(parts)) = item.get_mut(target.list) else {
        return None;
    };
    // Parts are sequential; a larger index is treated as the next one.
    let index = part_index(event, target).min(parts.len());
    if index == parts.len() {
        parts.push(Json::Object(object("type", target.part_type)));
    }
    parts.get_mut(index).and_then(Json::as_object_mut)
}

/// Appends `delta` to a text of the part that `event` selects.
fn append_to_part<'f>(
    item: &mut Object<'f>,
    target: &DeltaTarget,
    event: &Object,
    delta: Json<'f>,
) {
    if let Some(part) = part_of(item, target, event) {
        append_text(part, target.text_key, delta);
    }
}

/// Appends an annotation to the text that `event` selects.
fn append_annotation<'f>(item: &mut Object<'f>, mut event: Object<'f>) {
    let Some(annotation) = event.remove("annotation") else {
        return;
    };
    let target = DeltaTarget::content("output_text", "text");
    let Some(part) = part_of(item, &target, &event) else {
        return;
    };
    match part.get_mut("annotations") {
        Some(Json::Array(annotations)) => annotations.push(annotation),
        _ => _ = part.insert("annotations", vec![annotation]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(events: &[&str]) -> FoldedStream<'static> {
        let frames = events.iter().map(|event| StreamFrame {
            event: None,
            data: Json::parse(event.as_bytes()).unwrap().into_owned(),
        });
        fold(frames.collect())
    }

    const CREATED: &str = r#"{"type":"response.created","response":{"id":"r","object":"response","status":"in_progress","output":[]}}"#;

    #[test]
    fn the_last_event_is_the_response_and_its_other_members_are_kept() {
        let whole = folded(&[
            CREATED,
            r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"old","type":"message","content":[]}}"#,
            r#"{"type":"response.completed","sequence_number":9,"extra":{"x":1},
                "response":{"id":"r","object":"response","status":"completed","output":[{"id":"new","type":"message"}]}}"#,
        ]);
        let expected = r#"{"id":"r","object":"response","status":"completed","output":[{"id":"new","type":"message"}],"extra":{"x":1}}"#;
        assert_eq!(whole.body, Json::parse(expected.as_bytes()).unwrap());
        assert!(whole.complete);
    }

    #[test]
    fn a_null_is_no_error() {
        let whole = folded(&[
            CREATED,
            r#"{"error":null}"#,
            r#"{"type":"response.completed","response":{"id":"r","object":"response","status":"completed","output":[]}}"#,
        ]);
        assert!(whole.error.is_none() && whole.complete);
        assert!(folded(&[r#"{"error":{"message":"no"}}"#]).error.is_some());
    }

    #[test]
    fn delta_frames_are_distinguished_from_frames_that_must_be_parsed() {
        for piece in [
            r#"{"type":"response.output_text.delta","delta":"a \"response\" of"}"#,
            r#"{"sequence_number":12,"type":"response.output_item.done","item":{"type":"message"}}"#,
        ] {
            assert!(is_delta_frame(piece), "{piece}");
        }
        for read in [
            CREATED,
            r#"{"type":"error","error":{}}"#,
            r#"{"type":"response.x.y","response":{}}"#,
            r#"{"x":1,"type":"response.output_text.delta"}"#,
            "",
        ] {
            assert!(!is_delta_frame(read), "{read}");
        }
    }

    #[test]
    fn a_truncated_stream_is_assembled_from_its_deltas() {
        let cut = folded(&[
            CREATED,
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","role":"assistant","content":[]}}"#,
            r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a"}"#,
            r#"{"type":"response.output_text.delta","output_index":0,"content_index":99999999,"delta":"b"}"#,
            r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","arguments":""}}"#,
            r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"}"#,
        ]);
        assert!(!cut.complete);
        let output = r#"[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]},
            {"type":"function_call","arguments":"{}"}]"#;
        assert_eq!(
            cut.body.get("output"),
            Some(&Json::parse(output.as_bytes()).unwrap())
        );
    }

    #[test]
    fn a_truncated_stream_keeps_its_annotations() {
        let annotation = |url: &str| {
            format!(
                r#"{{"type":"response.output_text.annotation.added","output_index":0,
                "content_index":0,"annotation":{{"type":"url_citation","url":"{url}"}}}}"#
            )
        };
        let body = folded(&[
            CREATED,
            r#"{"type":"response.output_text.delta","output_index":0,"delta":"a"}"#,
            &annotation("x"),
            &annotation("y"),
        ])
        .body;
        let expected = r#"[{"content":[{"type":"output_text","text":"a","annotations":[
            {"type":"url_citation","url":"x"},{"type":"url_citation","url":"y"}]}]}]"#;
        let expected = Json::parse(expected.as_bytes()).unwrap();
        assert_eq!(body.get("output"), Some(&expected));
    }

    #[test]
    fn a_stream_without_its_beginning_is_a_response_with_the_items_of_its_deltas() {
        let cut = folded(&[
            r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"b"}"#,
            r#"{"type":"response.output_text.delta","output_index":1,"delta":"a"}"#,
            r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{}"}"#,
        ]);
        let expected = r#"{"object":"response","output":[
            {"type":"reasoning","summary":[{"type":"summary_text","text":"b"}]},
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]},
            {"type":"function_call","arguments":"{}"}]}"#;
        assert_eq!(cut.body, Json::parse(expected.as_bytes()).unwrap());
        assert!(!cut.complete);
        for of_others in [r#"{"type":"content_block_delta","delta":{}}"#, r#"{"x":1}"#] {
            assert!(folded(&[of_others]).body.get("object").is_none());
        }
    }

    #[test]
    fn items_of_events_without_an_index_follow_each_other() {
        let completed = r#"{"type":"response.completed","response":{"id":"r","output":[]}}"#;
        let text = |kind: &str, id: &str, text: &str| {
            format!(
                r#"{{"type":"response.output_item.{kind}","item":{{"type":"message"{id},"text":"{text}"}}}}"#
            )
        };
        let delta = r#"{"type":"response.function_call_arguments.delta","delta":"{}"}"#;
        let with_ids = [
            text("added", r#","id":"a""#, ""),
            text("done", r#","id":"a""#, "one"),
            text("done", r#","id":"b""#, "two"),
            text("added", r#","id":"c""#, "three"),
            delta.to_owned(),
        ];
        let without_ids = [
            text("added", "", ""),
            text("done", "", "one"),
            text("done", "", "two"),
            text("added", "", "three"),
            delta.to_owned(),
        ];
        for events in [with_ids, without_ids] {
            let mut events: Vec<&str> = events.iter().map(String::as_str).collect();
            events.push(completed);
            let body = folded(&events).body;
            let output = body.get("output").and_then(Json::as_array).unwrap();
            let member = |key| output.iter().map(move |item| item.get(key)?.as_str());
            assert!(
                member("text").eq([Some("one"), Some("two"), Some("three")]),
                "{body}"
            );
            assert!(member("arguments").eq([None, None, Some("{}")]), "{body}");
        }
    }

    #[test]
    fn an_error_event_is_kept_with_the_failed_response() {
        let failed = folded(&[
            CREATED,
            r#"{"type":"error","error":{"code":"insufficient_quota"}}"#,
            r#"{"type":"response.failed","response":{"id":"r","status":"failed","output":[],"error":{"code":"q"}}}"#,
        ]);
        assert!(!failed.complete && failed.error.is_some());
        assert_eq!(
            failed.body.get("status").and_then(Json::as_str),
            Some("failed")
        );
    }
}
