//! Events of a streamed answer (streaming protocol 2).
//!
//! The start event is the first, the completion the last. A tool call has one start event, any
//! number of deltas and one end event with the input as an object. The concatenated deltas of a
//! block are its content; if they differ from the content of the completion event, the latter is
//! authoritative.

use std::borrow::Cow;

use super::block::{ContentBlock, ToolUseBlock};
use super::encode::{UnknownFields, encode_blocks};
use super::request::{StopReason, TokenUsage};
use crate::json::{Json, Object};

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent<'a> {
    /// The answer starts.
    MessageStart {
        /// The model, `provider:name`.
        model: Cow<'a, str>,
    },
    /// Text of a block.
    TextDelta {
        /// The index of the block.
        index: usize,
        /// The text.
        text: Cow<'a, str>,
    },
    /// Reasoning in a thinking block.
    ThinkingDelta {
        /// The block.
        index: usize,
        /// The text; empty in the last delta of a signed block.
        text: Cow<'a, str>,
        /// The signature, only in the last delta of a block.
        signature: Option<Cow<'a, str>>,
    },
    /// A tool call starts.
    ToolUseStart {
        /// The block.
        index: usize,
        /// The call's canonical id.
        tool_use_id: String,
        /// The name of the tool.
        tool_name: Cow<'a, str>,
    },
    /// A part of a call's input as unparsed text.
    ToolUseInputDelta {
        /// The block.
        index: usize,
        /// The call's canonical id.
        tool_use_id: String,
        /// The piece.
        partial_json: Cow<'a, str>,
    },
    /// A tool call is complete.
    ToolUseEnd {
        /// The block.
        index: usize,
        /// The call's canonical id.
        tool_use_id: String,
        /// The input as an object.
        final_input: Object<'a>,
    },
    /// The answer is complete or has ended.
    MessageComplete {
        /// The reason for the end.
        stop_reason: StopReason,
        /// The complete content.
        final_content: Vec<ContentBlock<'a>>,
        /// The tokens used.
        usage: TokenUsage,
    },
}

impl StreamEvent<'_> {
    /// Returns the event as JSON, with its name under `event`.
    pub fn to_json(&self) -> Json<'_> {
        let mut object = Object::new();
        object.insert("event", self.name());
        match self {
            StreamEvent::MessageStart { model } => {
                object.insert("model", &**model);
            }
            StreamEvent::TextDelta { index, text } => {
                object.insert("content_block_index", *index as u64);
                object.insert("text", &**text);
            }
            StreamEvent::ThinkingDelta {
                index,
                text,
                signature,
            } => {
                object.insert("content_block_index", *index as u64);
                object.insert("text", &**text);
                if let Some(signature) = signature {
                    object.insert("signature", &**signature);
                }
            }
            StreamEvent::ToolUseStart {
                index,
                tool_use_id,
                tool_name,
            } => {
                tool_event(&mut object, *index, tool_use_id);
                object.insert("tool_name", &**tool_name);
            }
            StreamEvent::ToolUseInputDelta {
                index,
                tool_use_id,
                partial_json,
            } => {
                tool_event(&mut object, *index, tool_use_id);
                object.insert("partial_json", &**partial_json);
            }
            StreamEvent::ToolUseEnd {
                index,
                tool_use_id,
                final_input,
            } => {
                tool_event(&mut object, *index, tool_use_id);
                object.insert("final_input", final_input.reborrow());
            }
            StreamEvent::MessageComplete {
                stop_reason,
                final_content,
                usage,
            } => {
                object.insert("stop_reason", stop_reason.as_str());
                object.insert(
                    "final_content",
                    encode_blocks(final_content, UnknownFields::Drop),
                );
                object.insert("usage", usage.to_json());
            }
        }
        Json::Object(object)
    }

    /// Returns the name of the event.
    pub fn name(&self) -> &'static str {
        match self {
            StreamEvent::MessageStart { .. } => "message.start",
            StreamEvent::TextDelta { .. } => "text.delta",
            StreamEvent::ThinkingDelta { .. } => "thinking.delta",
            StreamEvent::ToolUseStart { .. } => "tool.use_start",
            StreamEvent::ToolUseInputDelta { .. } => "tool.use_input_delta",
            StreamEvent::ToolUseEnd { .. } => "tool.use_end",
            StreamEvent::MessageComplete { .. } => "message.complete",
        }
    }
}

fn tool_event<'e>(object: &mut Object<'e>, index: usize, tool_use_id: &'e str) {
    object.insert("content_block_index", index as u64);
    object.insert("tool_use_id", tool_use_id);
}

/// Assembles an answer from its parts and generates the events of the protocol. Adapters call its
/// methods; the rules of the protocol are implemented only here.
#[derive(Debug)]
pub struct Assembler {
    events: Vec<StreamEvent<'static>>,
    blocks: Vec<BlockBuilder>,
    complete: bool,
}

#[derive(Debug)]
enum BlockBuilder {
    Text(String),
    Thinking {
        text: String,
        signature: Option<String>,
    },
    Tool {
        id: String,
        name: String,
        json: String,
        input: Option<Object<'static>>,
    },
    Whole(ContentBlock<'static>),
}

impl Assembler {
    /// Starts an answer of `model` and generates the start event.
    pub fn new(model: &str) -> Self {
        let start = StreamEvent::MessageStart {
            model: Cow::Owned(model.to_owned()),
        };
        Assembler {
            events: vec![start],
            blocks: Vec::new(),
            complete: false,
        }
    }

    /// Returns true after [`Assembler::complete`].
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Starts a text block and returns its index.
    pub fn start_text(&mut self) -> usize {
        self.push_builder(BlockBuilder::Text(String::new()))
    }

    /// Starts a thinking block and returns its index.
    pub fn start_thinking(&mut self) -> usize {
        self.push_builder(BlockBuilder::Thinking {
            text: String::new(),
            signature: None,
        })
    }

    /// Adds a complete block without events and returns its index.
    pub fn push_block(&mut self, block: ContentBlock<'static>) -> usize {
        self.push_builder(BlockBuilder::Whole(block))
    }

    /// Starts a tool call and returns its index.
    pub fn start_tool(&mut self, id: String, name: &str) -> usize {
        let index = self.blocks.len();
        self.events.push(StreamEvent::ToolUseStart {
            index,
            tool_use_id: id.clone(),
            tool_name: Cow::Owned(name.to_owned()),
        });
        self.push_builder(BlockBuilder::Tool {
            id,
            name: name.to_owned(),
            json: String::new(),
            input: None,
        })
    }

    fn push_builder(&mut self, block: BlockBuilder) -> usize {
        self.blocks.push(block);
        self.blocks.len() - 1
    }

    /// Appends a part, possibly empty, to the text, reasoning or input of a block. Parts of other
    /// blocks are ignored.
    pub fn push_delta(&mut self, index: usize, piece: &str) {
        let owned = || Cow::Owned(piece.to_owned());
        let event = match self.blocks.get_mut(index) {
            Some(BlockBuilder::Text(text)) => {
                text.push_str(piece);
                StreamEvent::TextDelta {
                    index,
                    text: owned(),
                }
            }
            Some(BlockBuilder::Thinking { text, .. }) => {
                text.push_str(piece);
                StreamEvent::ThinkingDelta {
                    index,
                    text: owned(),
                    signature: None,
                }
            }
            Some(BlockBuilder::Tool { id, json, .. }) => {
                json.push_str(piece);
                StreamEvent::ToolUseInputDelta {
                    index,
                    tool_use_id: id.clone(),
                    partial_json: owned(),
                }
            }
            Some(BlockBuilder::Whole(_)) | None => return,
        };
        self.events.push(event);
    }

    /// Appends to the signature of a thinking block, which is reported at the end of the block.
    pub fn push_signature(&mut self, index: usize, piece: &str) {
        if let Some(BlockBuilder::Thinking { signature, .. }) = self.blocks.get_mut(index) {
            signature.get_or_insert_default().push_str(piece);
        }
    }

    /// Sets the name of a call that started without one.
    pub fn set_name(&mut self, index: usize, given: &str) {
        if let Some(BlockBuilder::Tool { name, .. }) = self.blocks.get_mut(index)
            && name.is_empty()
        {
            given.clone_into(name);
        }
    }

    /// Sets the input that arrived with the start of a call. Later parts take precedence.
    pub fn set_input(&mut self, index: usize, given: Object<'static>) {
        if let Some(BlockBuilder::Tool { input, .. }) = self.blocks.get_mut(index) {
            *input = Some(given);
        }
    }

    /// Ends a block: generates the end event of a call, or the signature of a thinking block.
    pub fn end_block(&mut self, index: usize) {
        match self.blocks.get_mut(index) {
            Some(BlockBuilder::Tool {
                id, json, input, ..
            }) => {
                let given = input.take().unwrap_or_default();
                let final_input = if json.trim().is_empty() {
                    given
                } else {
                    input_of(json)
                };
                *input = Some(final_input.clone());
                let tool_use_id = id.clone();
                self.events.push(StreamEvent::ToolUseEnd {
                    index,
                    tool_use_id,
                    final_input,
                });
            }
            Some(BlockBuilder::Thinking {
                signature: Some(signature),
                ..
            }) if !signature.is_empty() => {
                let signature = Some(Cow::Owned(signature.clone()));
                self.events.push(StreamEvent::ThinkingDelta {
                    index,
                    text: Cow::Borrowed(""),
                    signature,
                });
            }
            _ => {}
        }
    }

    /// Completes the answer. Only the first call has an effect.
    pub fn complete(&mut self, stop_reason: StopReason, usage: TokenUsage) {
        if !self.complete {
            self.complete = true;
            let final_content = self.content();
            self.events.push(StreamEvent::MessageComplete {
                stop_reason,
                final_content,
                usage,
            });
        }
    }

    /// Returns the content so far. A call that has not ended has the part of its input that can be
    /// parsed.
    pub fn content(&self) -> Vec<ContentBlock<'static>> {
        self.blocks.iter().map(BlockBuilder::content).collect()
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<StreamEvent<'static>> {
        std::mem::take(&mut self.events)
    }
}

impl BlockBuilder {
    fn content(&self) -> ContentBlock<'static> {
        match self {
            BlockBuilder::Text(text) => ContentBlock::Text(Cow::Owned(text.clone())),
            BlockBuilder::Thinking { text, signature } => ContentBlock::Thinking {
                text: Cow::Owned(text.clone()),
                signature: signature
                    .clone()
                    .filter(|signature| !signature.is_empty())
                    .map(Cow::Owned),
            },
            BlockBuilder::Tool {
                id,
                name,
                json,
                input,
            } => ContentBlock::ToolUse(ToolUseBlock {
                id: Cow::Owned(id.clone()),
                name: Cow::Owned(name.clone()),
                input: input.clone().unwrap_or_else(|| input_of(json)),
            }),
            BlockBuilder::Whole(block) => block.clone(),
        }
    }
}

/// Parses the input of a call.
fn input_of(text: &str) -> Object<'static> {
    ToolUseBlock::input_of_text(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(events: &[StreamEvent]) -> Vec<&'static str> {
        events.iter().map(StreamEvent::name).collect()
    }

    #[test]
    fn deltas_in_order_are_the_content() {
        let mut answer = Assembler::new("a:b");
        let (thought, text) = (answer.start_thinking(), answer.start_text());
        answer.push_delta(thought, "h");
        answer.push_delta(thought, "m");
        answer.push_signature(thought, "sig");
        answer.end_block(thought);
        answer.push_delta(text, "hel");
        answer.push_delta(text, "lo");
        answer.complete(StopReason::EndTurn, TokenUsage::default());
        let events = answer.take_events();
        let expected = [
            "message.start",
            "thinking.delta",
            "thinking.delta",
            "thinking.delta",
            "text.delta",
            "text.delta",
            "message.complete",
        ];
        assert_eq!(names(&events), expected);
        let signed = ContentBlock::Thinking {
            text: "hm".into(),
            signature: Some("sig".into()),
        };
        assert_eq!(answer.content(), [signed, ContentBlock::text("hello")]);
    }

    #[test]
    fn an_empty_delta_is_an_event() {
        let mut answer = Assembler::new("a:b");
        let call = answer.start_tool("tu_1".to_owned(), "t");
        answer.push_delta(call, "");
        answer.push_delta(call, "{}");
        answer.push_delta(call + 1, "x");
        let names = names(&answer.take_events());
        assert_eq!(
            names,
            [
                "message.start",
                "tool.use_start",
                "tool.use_input_delta",
                "tool.use_input_delta"
            ]
        );
    }

    #[test]
    fn a_call_always_ends_with_an_object() {
        for (given, pieces, expected) in [
            (None, vec!["{\"a\"", ":1}"], r#"{"a":1}"#),
            (
                None,
                vec!["not ", "json"],
                r#"{"_raw_arguments":"not json"}"#,
            ),
            (None, vec!["[1, 2]"], r#"{"_raw_arguments":"[1, 2]"}"#),
            (
                None,
                vec![r#"{"a": "cut"#],
                r#"{"_raw_arguments":"{\"a\": \"cut"}"#,
            ),
            (None, vec![""], "{}"),
            (None, vec!["null"], "{}"),
            (Some(r#"{"b":2}"#), vec![""], r#"{"b":2}"#),
            (Some(r#"{"b":2}"#), vec!["{}"], "{}"),
        ] {
            let mut answer = Assembler::new("a:b");
            let call = answer.start_tool("tu_1".to_owned(), "t");
            if let Some(given) = given {
                answer.set_input(call, input_of(given));
            }
            pieces
                .iter()
                .for_each(|piece| answer.push_delta(call, piece));
            answer.end_block(call);
            let Some(StreamEvent::ToolUseEnd { final_input, .. }) = answer.take_events().pop()
            else {
                panic!("no end")
            };
            assert_eq!(Json::Object(final_input).to_string(), expected);
        }
    }
}
