//! Streaming events: how an answer arrives (streaming protocol 2).
//!
//! The start comes first and the completion last. A tool call has one start, any deltas and one
//! end, whose input is always an object. The deltas of a block in order are the block; where they
//! aren't, the completion's content is right.

use std::borrow::Cow;

use super::block::{ContentBlock, ToolUseBlock};
use super::encode::{Unknowns, encode_blocks};
use super::request::{StopReason, TokenUsage};
use crate::json::{Json, Object};

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent<'a> {
    /// The answer begins.
    MessageStart {
        /// The model, `provider:name`.
        model: Cow<'a, str>,
    },
    /// Text is added to a block.
    TextDelta {
        /// The block.
        index: usize,
        /// The piece.
        text: Cow<'a, str>,
    },
    /// Thought is added to a block.
    ThinkingDelta {
        /// The block.
        index: usize,
        /// The piece; empty in the last delta of a signed block.
        text: Cow<'a, str>,
        /// The signature, only in the last delta of a block.
        signature: Option<Cow<'a, str>>,
    },
    /// A call begins.
    ToolUseStart {
        /// The block.
        index: usize,
        /// The call's canonical id.
        tool_use_id: String,
        /// The tool.
        tool_name: Cow<'a, str>,
    },
    /// A raw piece of a call's input, never parsed.
    ToolUseInputDelta {
        /// The block.
        index: usize,
        /// The call's canonical id.
        tool_use_id: String,
        /// The piece.
        partial_json: Cow<'a, str>,
    },
    /// A call is whole.
    ToolUseEnd {
        /// The block.
        index: usize,
        /// The call's canonical id.
        tool_use_id: String,
        /// Its input; empty if the pieces were no JSON object.
        final_input: Object<'a>,
    },
    /// The answer is whole, or over.
    MessageComplete {
        /// Why it ends.
        stop_reason: StopReason,
        /// All of it.
        final_content: Vec<ContentBlock<'a>>,
        /// Tokens.
        usage: TokenUsage,
    },
}

impl StreamEvent<'_> {
    /// The event as JSON, its name under `event`.
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
                    encode_blocks(final_content, Unknowns::Drop),
                );
                object.insert("usage", usage.to_json());
            }
        }
        Json::Object(object)
    }

    /// The event's name.
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

/// An answer being put together from its pieces, and the events that tell of it. Adapters feed it;
/// the rules of the protocol are kept here, once.
#[derive(Debug)]
pub struct Assembler {
    events: Vec<StreamEvent<'static>>,
    blocks: Vec<Block>,
    complete: bool,
}

#[derive(Debug)]
enum Block {
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
    /// Begins an answer of `model` with its start event.
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

    /// How many blocks were begun; the next has this index.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// True once the completion was told.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Begins a text block and answers its index.
    pub fn begin_text(&mut self) -> usize {
        self.begin(Block::Text(String::new()))
    }

    /// Begins a thinking block and answers its index.
    pub fn begin_thinking(&mut self) -> usize {
        self.begin(Block::Thinking {
            text: String::new(),
            signature: None,
        })
    }

    /// Adds a block that arrives whole, without events, and answers its index.
    pub fn whole(&mut self, block: ContentBlock<'static>) -> usize {
        self.begin(Block::Whole(block))
    }

    /// Begins a call and answers its index.
    pub fn begin_tool(&mut self, id: String, name: &str) -> usize {
        let index = self.blocks.len();
        self.events.push(StreamEvent::ToolUseStart {
            index,
            tool_use_id: id.clone(),
            tool_name: Cow::Owned(name.to_owned()),
        });
        self.begin(Block::Tool {
            id,
            name: name.to_owned(),
            json: String::new(),
            input: None,
        })
    }

    fn begin(&mut self, block: Block) -> usize {
        self.blocks.push(block);
        self.blocks.len() - 1
    }

    /// Adds a piece to text, thought or input, even an empty one; pieces for a block that isn't
    /// there tell nothing.
    pub fn piece(&mut self, index: usize, piece: &str) {
        let owned = || Cow::Owned(piece.to_owned());
        let event = match self.blocks.get_mut(index) {
            Some(Block::Text(text)) => {
                text.push_str(piece);
                StreamEvent::TextDelta {
                    index,
                    text: owned(),
                }
            }
            Some(Block::Thinking { text, .. }) => {
                text.push_str(piece);
                StreamEvent::ThinkingDelta {
                    index,
                    text: owned(),
                    signature: None,
                }
            }
            Some(Block::Tool { id, json, .. }) => {
                json.push_str(piece);
                StreamEvent::ToolUseInputDelta {
                    index,
                    tool_use_id: id.clone(),
                    partial_json: owned(),
                }
            }
            Some(Block::Whole(_)) | None => return,
        };
        self.events.push(event);
    }

    /// Signs a thinking block; told when the block ends.
    pub fn sign(&mut self, index: usize, piece: &str) {
        if let Some(Block::Thinking { signature, .. }) = self.blocks.get_mut(index) {
            signature.get_or_insert_default().push_str(piece);
        }
    }

    /// Gives a call the input that came with its start; pieces that follow win.
    pub fn input(&mut self, index: usize, given: Object<'static>) {
        if let Some(Block::Tool { input, .. }) = self.blocks.get_mut(index) {
            *input = Some(given);
        }
    }

    /// Ends a block: a call tells its input, a signed thought its signature.
    pub fn end(&mut self, index: usize) {
        match self.blocks.get_mut(index) {
            Some(Block::Tool {
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
            Some(Block::Thinking {
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

    /// Completes the answer. Only the first completion counts.
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

    /// The content so far; a call that hasn't ended has what can be read of its input.
    pub fn content(&self) -> Vec<ContentBlock<'static>> {
        self.blocks.iter().map(Block::content).collect()
    }

    /// The events since the last time they were taken.
    pub fn take_events(&mut self) -> Vec<StreamEvent<'static>> {
        std::mem::take(&mut self.events)
    }
}

impl Block {
    fn content(&self) -> ContentBlock<'static> {
        match self {
            Block::Text(text) => ContentBlock::Text(Cow::Owned(text.clone())),
            Block::Thinking { text, signature } => ContentBlock::Thinking {
                text: Cow::Owned(text.clone()),
                signature: signature
                    .clone()
                    .filter(|signature| !signature.is_empty())
                    .map(Cow::Owned),
            },
            Block::Tool {
                id,
                name,
                json,
                input,
            } => ContentBlock::ToolUse(ToolUseBlock {
                id: Cow::Owned(id.clone()),
                name: Cow::Owned(name.clone()),
                input: input.clone().unwrap_or_else(|| input_of(json)),
            }),
            Block::Whole(block) => block.clone(),
        }
    }
}

/// The input that the text of a call's arguments stands for.
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
        let (thought, text) = (answer.begin_thinking(), answer.begin_text());
        answer.piece(thought, "h");
        answer.piece(thought, "m");
        answer.sign(thought, "sig");
        answer.end(thought);
        answer.piece(text, "hel");
        answer.piece(text, "lo");
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
    fn a_piece_of_nothing_is_a_piece() {
        let mut answer = Assembler::new("a:b");
        let call = answer.begin_tool("tu_1".to_owned(), "t");
        answer.piece(call, "");
        answer.piece(call, "{}");
        answer.piece(call + 1, "x");
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
            let call = answer.begin_tool("tu_1".to_owned(), "t");
            if let Some(given) = given {
                answer.input(call, input_of(given));
            }
            pieces.iter().for_each(|piece| answer.piece(call, piece));
            answer.end(call);
            let Some(StreamEvent::ToolUseEnd { final_input, .. }) = answer.take_events().pop()
            else {
                panic!("no end")
            };
            assert_eq!(Json::Object(final_input).to_string(), expected);
        }
    }
}
