//! Streams, folded to the finished response.
//!
//! The last event carries the whole response, and it is right even where ids changed on the way. A
//! stream that was cut before it is put together from its items, and those from their pieces.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gristmill_schemas::json::{Json, Object};

use super::super::adapter::FoldedStream;
use super::super::framing::StreamFrame;
use super::super::json_access::{append_text, merge_member, object};

/// Events whose response is final.
const FINAL: [&str; 4] = [
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.done",
];
/// Members of events that only say where the event belongs.
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

/// True for the event of an item or of a piece of one, by how its text begins: its kind is
/// `response.{what}.{happened}`, and it brings no response. Events that are spelled otherwise are
/// read.
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

/// A response being put together.
#[derive(Default)]
struct ResponseFold<'f> {
    response: Object<'f>,
    items: BTreeMap<u64, Object<'f>>,
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
        if let Some(Json::Object(response)) = event.get_mut("response") {
            let response = std::mem::take(response);
            response
                .into_iter()
                .for_each(|(key, value)| _ = self.response.insert(key, value));
            if FINAL.contains(&&*kind) {
                self.complete = kind != "response.failed";
                // Whatever else stands beside a finished response.
                let beside = event
                    .into_iter()
                    .filter(|(key, _)| !FRAMING.contains(&&**key));
                beside.for_each(|(key, value)| merge_member(&mut self.response, key, value));
            }
            return;
        }
        let at = event
            .get("output_index")
            .and_then(Json::as_u64)
            .unwrap_or(0);
        match kind.as_str() {
            "response.output_item.added" | "response.output_item.done" => {
                if let Some(Json::Object(item)) = event.remove("item") {
                    self.items.insert(at, item);
                }
            }
            "error" => {
                self.error = Some(event.get("error").cloned().unwrap_or(Json::Object(event)))
            }
            _ => piece(self.items.entry(at).or_default(), &kind, event),
        }
    }

    fn finish(mut self) -> FoldedStream<'f> {
        let empty = self
            .response
            .get("output")
            .and_then(Json::as_array)
            .is_none_or(<[Json]>::is_empty);
        if empty && !self.items.is_empty() {
            let items = self
                .items
                .into_values()
                .filter(|item| !item.is_empty())
                .map(Json::Object);
            self.response.insert("output", items.collect::<Vec<_>>());
        }
        let body = match (&self.error, self.response.is_empty()) {
            (Some(error), true) => object("error", error.clone()),
            (Some(error), false) => {
                if self.response.get("error").is_none_or(Json::is_null) {
                    self.response.insert("error", error.clone());
                }
                self.response
            }
            (None, _) => self.response,
        };
        FoldedStream {
            body: Json::Object(body),
            complete: self.complete && self.error.is_none(),
            error: self.error,
        }
    }
}

/// Adds a piece to its item: deltas grow what they name, the matching `done` says it again whole.
fn piece<'f>(item: &mut Object<'f>, kind: &str, mut event: Object<'f>) {
    let delta = event.remove("delta");
    let (Some(delta), Some(name)) = (delta, kind.strip_suffix(".delta")) else {
        return;
    };
    match name {
        "response.output_text" => grow_part(
            item,
            "content",
            "content_index",
            "output_text",
            "text",
            &event,
            delta,
        ),
        "response.refusal" => grow_part(
            item,
            "content",
            "content_index",
            "refusal",
            "refusal",
            &event,
            delta,
        ),
        "response.reasoning_text" => grow_part(
            item,
            "content",
            "content_index",
            "reasoning_text",
            "text",
            &event,
            delta,
        ),
        "response.reasoning_summary_text" => grow_part(
            item,
            "summary",
            "summary_index",
            "summary_text",
            "text",
            &event,
            delta,
        ),
        "response.function_call_arguments" | "response.mcp_call_arguments" => {
            append_text(item, "arguments", delta)
        }
        "response.custom_tool_call_input" => append_text(item, "input", delta),
        "response.code_interpreter_call_code" => append_text(item, "code", delta),
        _ => {}
    }
}

/// Grows the text `key` of the part that `event` names by `index_key`, in the list `list` of the
/// item.
fn grow_part<'f>(
    item: &mut Object<'f>,
    list: &'static str,
    index_key: &str,
    kind: &'static str,
    key: &'static str,
    event: &Object,
    delta: Json<'f>,
) {
    let index = event.get(index_key).and_then(Json::as_u64).unwrap_or(0);
    if item.get(list).and_then(Json::as_array).is_none() {
        item.insert(Cow::Borrowed(list), Vec::new());
    }
    let Some(Json::Array(parts)) = item.get_mut(list) else {
        return;
    };
    // Parts come one after the other; a number far beyond them is not believed.
    let index = usize::try_from(index)
        .unwrap_or(usize::MAX)
        .min(parts.len());
    if index == parts.len() {
        parts.push(Json::Object(object("type", kind)));
    }
    if let Some(Json::Object(part)) = parts.get_mut(index) {
        append_text(part, key, delta);
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
    fn the_last_event_is_the_response_and_what_stands_beside_it_is_kept() {
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
    fn pieces_are_told_from_what_must_be_read() {
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
    fn a_cut_stream_is_put_together_from_its_pieces() {
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
