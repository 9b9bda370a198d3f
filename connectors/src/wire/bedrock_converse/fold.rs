//! Folds streams to the finished response.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gristmill_schemas::json::{Json, Object};

use super::super::adapter::FoldedStream;
use super::super::framing::StreamFrame;
use super::super::json_access::{merge_members, object};
use super::block_fold::{BlockFold, merge_split_blocks};

/// The member with padding, which hides the length of frames from observers.
const PADDING: &str = "p";
/// The name of all frames of an InvokeModel stream; the name of the event is the only member of its
/// data.
const CHUNK: &str = "chunk";

pub(super) fn fold<'f>(frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
    let mut fold = ConverseFold::default();
    for frame in frames {
        let is_converse = frame.event.as_deref().is_some_and(|name| name != CHUNK);
        if let Some((name, event)) = named_event(frame) {
            fold.event(&name, event, is_converse);
        }
    }
    fold.finish()
}

/// Returns the name and members of an event. The name is that of the frame, or the only member of
/// the data.
fn named_event<'f>(frame: StreamFrame<'f>) -> Option<(Cow<'f, str>, Object<'f>)> {
    let Json::Object(data) = frame.data else {
        return None;
    };
    let (name, mut event) = match frame.event.filter(|name| name != CHUNK) {
        Some(name) => (name, data),
        None => match data.into_iter().next()? {
            (name, Json::Object(event)) => (name, event),
            _ => return None,
        },
    };
    event.remove(PADDING);
    Some((name, event))
}

/// A response that is assembled from events.
#[derive(Default)]
struct ConverseFold<'f> {
    body: Object<'f>,
    message: Object<'f>,
    blocks: BTreeMap<u64, BlockFold<'f>>,
    complete: bool,
    error: Option<Json<'f>>,
}

impl<'f> ConverseFold<'f> {
    /// Adds an event. `is_converse` distinguishes Converse streams, whose block indices are
    /// reliable, from InvokeModel streams.
    fn event(&mut self, name: &str, mut event: Object<'f>, is_converse: bool) {
        let index = event.remove("contentBlockIndex");
        let index = index
            .and_then(|index| index.as_u64())
            .or_else(|| self.blocks.keys().next_back().copied())
            .unwrap_or(0);
        match name {
            "messageStart" => merge_members(&mut self.message, event),
            "contentBlockStart" => {
                if let Some(Json::Object(start)) = event.remove("start") {
                    self.blocks.entry(index).or_default().start(start);
                }
            }
            "contentBlockDelta" => {
                if let Some(Json::Object(delta)) = event.remove("delta") {
                    let block = self.blocks.entry(index).or_default();
                    block.next_delta(delta, is_converse);
                }
            }
            "contentBlockStop" => {}
            "messageStop" => {
                self.complete = true;
                merge_members(&mut self.body, event);
            }
            name if name.ends_with("Exception") => {
                event.insert("__type", name.to_owned());
                self.error = Some(Json::Object(event));
            }
            // Metadata and members of unknown events are kept in the body.
            _ => merge_members(&mut self.body, event),
        }
    }

    fn finish(self) -> FoldedStream<'f> {
        // The end belongs to a message, also if its other events are lost.
        let has_message = self.complete || !self.blocks.is_empty() || !self.message.is_empty();
        let complete = self.complete && self.error.is_none();
        let error = self.error.clone();
        let body = match (has_message, self.error) {
            (false, Some(error)) => error,
            (false, None) => Json::Object(self.body),
            (true, error) => {
                Json::Object(response_body(self.message, self.blocks, self.body, error))
            }
        };
        FoldedStream {
            body,
            complete,
            error,
        }
    }
}

/// Returns a response in the form of the endpoint without streaming.
fn response_body<'f>(
    mut message: Object<'f>,
    blocks: BTreeMap<u64, BlockFold<'f>>,
    members: Object<'f>,
    error: Option<Json<'f>>,
) -> Object<'f> {
    let blocks = merge_split_blocks(blocks.into_values()).into_iter();
    let blocks = blocks.map(BlockFold::finish).collect::<Vec<_>>();
    message.insert("content", blocks);
    let mut body = object("output", object("message", message));
    if !members.contains_key("stopReason") {
        body.insert("stopReason", Json::Null);
    }
    merge_members(&mut body, members);
    if let Some(error) = error {
        body.insert("error", error);
    }
    body
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn folded(events: &[&str]) -> FoldedStream<'static> {
        let frames = events.iter().map(|event| StreamFrame {
            event: None,
            data: Json::parse(event.as_bytes()).unwrap().into_owned(),
        });
        fold(frames.collect())
    }

    #[test]
    fn all_types_of_blocks_are_assembled_without_padding() {
        let whole = folded(&[
            r#"{"messageStart":{"role":"assistant","p":"abc"}}"#,
            r#"{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"a"}}}}"#,
            r#"{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"s"}}}}"#,
            r#"{"contentBlockDelta":{"contentBlockIndex":1,"delta":{"text":"x"}}}"#,
            r#"{"contentBlockStart":{"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"i","name":"n"}}}}"#,
            r#"{"contentBlockDelta":{"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"k\":"}}}}"#,
            r#"{"contentBlockDelta":{"contentBlockIndex":2,"delta":{"toolUse":{"input":"1}"}}}}"#,
            r#"{"contentBlockStart":{"contentBlockIndex":3,"start":{"toolUse":{"toolUseId":"j","name":"n"}}}}"#,
            r#"{"messageStop":{"stopReason":"tool_use"}}"#,
            r#"{"metadata":{"usage":{"inputTokens":1},"p":"x"}}"#,
        ]);
        let expected = r#"{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"a","signature":"s"}}},
            {"text":"x"},{"toolUse":{"toolUseId":"i","name":"n","input":{"k":1}}},{"toolUse":{"toolUseId":"j","name":"n","input":{}}}]}},
            "stopReason":"tool_use","usage":{"inputTokens":1}}"#;
        assert_eq!(whole.body, Json::parse(expected.as_bytes()).unwrap());
        assert!(whole.complete);
    }

    #[test]
    fn citations_of_a_block_are_kept() {
        let piece = |delta: &str| {
            format!(r#"{{"contentBlockDelta":{{"contentBlockIndex":0,"delta":{delta}}}}}"#)
        };
        let pieces = [
            r#"{"citation":{"title":"a"}}"#,
            r#"{"text":"x"}"#,
            r#"{"citation":{"title":"b"}}"#,
        ]
        .map(piece);
        let whole = folded(&pieces.each_ref().map(String::as_str));
        let block = whole
            .body
            .get("output")
            .unwrap()
            .get("message")
            .unwrap()
            .get("content")
            .unwrap()
            .to_string();
        assert_eq!(
            block,
            r#"[{"text":"x","citations":[{"title":"a"},{"title":"b"}]}]"#
        );
    }

    /// Returns the folded blocks of a stream whose frames have the name `event`.
    fn content(event: Option<&'static str>, events: &[&str]) -> String {
        let frame = |data: &&str| StreamFrame {
            event: event.map(Cow::Borrowed),
            data: Json::parse(data.as_bytes()).unwrap().into_owned(),
        };
        let whole = fold(events.iter().map(frame).collect());
        whole
            .body
            .get("output")
            .unwrap()
            .get("message")
            .unwrap()
            .get("content")
            .unwrap()
            .to_string()
    }

    #[test]
    fn deltas_with_ascending_indices_of_an_invoke_stream_are_one_block() {
        let events = [
            r#"{"messageStart":{"role":"assistant"}}"#,
            r#"{"contentBlockDelta":{"delta":{"reasoningContent":{"text":"h"}},"contentBlockIndex":0}}"#,
            r#"{"contentBlockDelta":{"delta":{"reasoningContent":{"text":"m"}},"contentBlockIndex":1}}"#,
            r#"{"contentBlockDelta":{"delta":{"text":"It "},"contentBlockIndex":2}}"#,
            r#"{"contentBlockStop":{"contentBlockIndex":2}}"#,
            r#"{"contentBlockDelta":{"delta":{"text":"rains"},"contentBlockIndex":3}}"#,
            r#"{"contentBlockStop":{"contentBlockIndex":3}}"#,
            r#"{"contentBlockStart":{"start":{"toolUse":{"toolUseId":"i","name":"n"}},"contentBlockIndex":4}}"#,
            r#"{"contentBlockDelta":{"delta":{"toolUse":{"input":"{}"}},"contentBlockIndex":4}}"#,
            r#"{"contentBlockDelta":{"delta":{"text":"!"},"contentBlockIndex":6}}"#,
            r#"{"messageStop":{"stopReason":"end_turn"}}"#,
        ];
        let expected =
            r#"[{"reasoningContent":{"reasoningText":{"text":"hm"}}},{"text":"It rains"},"#
                .to_owned()
                + r#"{"toolUse":{"toolUseId":"i","name":"n","input":{}}},{"text":"!"}]"#;
        for event in [Some("chunk"), None] {
            assert_eq!(content(event, &events), expected, "{event:?}");
        }
    }

    #[test]
    fn blocks_of_a_converse_stream_stay_separate() {
        let wrapped = [
            r#"{"contentBlockDelta":{"delta":{"text":"a"},"contentBlockIndex":0}}"#,
            r#"{"contentBlockDelta":{"delta":{"text":"b"},"contentBlockIndex":0}}"#,
            r#"{"contentBlockDelta":{"delta":{"text":"c"},"contentBlockIndex":1}}"#,
        ];
        assert_eq!(content(None, &wrapped), r#"[{"text":"ab"},{"text":"c"}]"#);
        let named = [
            r#"{"delta":{"text":"a"},"contentBlockIndex":0}"#,
            r#"{"delta":{"text":"b"},"contentBlockIndex":1}"#,
        ];
        assert_eq!(
            content(Some("contentBlockDelta"), &named),
            r#"[{"text":"a"},{"text":"b"}]"#
        );
    }

    #[test]
    fn input_that_is_not_an_object_stays_text() {
        for (input, expected) in [
            (r#"{\"a\": 1, \"b"#, r#""{\"a\": 1, \"b""#),
            ("15 * 4", r#""15 * 4""#),
            ("[1, 2]", r#""[1, 2]""#),
            ("", "{}"),
        ] {
            let delta = format!(
                r#"{{"contentBlockDelta":{{"delta":{{"toolUse":{{"name":"n","input":"{input}"}}}},"contentBlockIndex":0}}}}"#
            );
            assert_eq!(
                content(None, &[&delta]),
                format!(r#"[{{"toolUse":{{"name":"n","input":{expected}}}}}]"#)
            );
        }
    }

    #[test]
    fn the_end_of_a_stream_alone_is_a_response_without_content() {
        let end = folded(&[r#"{"messageStop":{"stopReason":"end_turn"}}"#]);
        let expected = r#"{"output":{"message":{"content":[]}},"stopReason":"end_turn"}"#;
        assert_eq!(end.body, Json::parse(expected.as_bytes()).unwrap());
        assert!(end.complete);
    }

    #[test]
    fn an_exception_alone_is_an_error_body() {
        let failed = folded(&[r#"{"throttlingException":{"message":"slow down"}}"#]);
        assert!(!failed.complete && failed.error.is_some());
        assert_eq!(
            failed.body.get("message").and_then(Json::as_str),
            Some("slow down")
        );
    }
}
