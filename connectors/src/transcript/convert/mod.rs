//! Conversion of a transcript to lines of another format.
//!
//! | module | question |
//! |---|---|
//! | `output` | how are messages and grains written as lines? |
//! | `exchanges` | how is an exchange rewritten, possibly for another provider? |
//! | `sessions` | how does a conversation become an exchange? |

mod exchanges;
mod output;
mod sessions;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, Write};

use gristmill_schemas::message::price::PriceTable;
use gristmill_schemas::message::{ContentBlock, Message};

use self::output::LineOutput;
pub use self::sessions::write_conversation;
use super::exchange::extract::ExchangeMessage;
use super::exchange::item::{ExchangeItem, LineOutcome};
use super::exchange::normalize::normalize;
use super::exchange::reader::read_exchanges;
use super::grain_output::{grains_of_exchanges, grains_of_part};
use super::kind::TranscriptKind;
use super::line::{Line, LineFault};
use super::message_json::{ResponseMetadata, message_json};
use super::options::ReadOptions;
use super::parse::{parse, parse_for_grains};
use super::parsed::{ParsedPart, PlacedMessage};
use crate::wire::adapter::Adapter;
use crate::wire::conversation::Conversation;

/// The format of the output lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputFormat {
    /// Requests and responses of providers.
    Exchanges,
    /// Canonical messages.
    Messages,
    /// CMF messages with their extensions.
    Cmf,
    /// Views of CMF messages, as policies see them.
    Views,
    /// Grains: `{"content_address": …, "blob_hex": …, "grain": …}`.
    Grains,
}

impl OutputFormat {
    /// All formats.
    pub const ALL: &[OutputFormat] = &[
        OutputFormat::Exchanges,
        OutputFormat::Messages,
        OutputFormat::Cmf,
        OutputFormat::Views,
        OutputFormat::Grains,
    ];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            OutputFormat::Exchanges => "exchanges",
            OutputFormat::Messages => "messages",
            OutputFormat::Cmf => "cmf",
            OutputFormat::Views => "views",
            OutputFormat::Grains => "grains",
        }
    }

    /// Returns a description for users.
    pub const fn description(self) -> &'static str {
        match self {
            OutputFormat::Exchanges => "Requests and responses in a provider's form",
            OutputFormat::Messages => "Canonical messages",
            OutputFormat::Cmf => "CMF messages, with their extensions",
            OutputFormat::Views => "Views of messages, as policies see them",
            OutputFormat::Grains => "Grains with their addresses",
        }
    }
}

/// A message of a conversion to the user.
#[derive(Debug)]
pub enum Notice {
    /// A line can't be read.
    Fault(LineFault),
    /// A content block can't be expressed in the output format. The text has `key=value` pairs.
    Dropped(String),
    /// Something can't be expressed in the output format as a whole, such as an exchange that no
    /// adapter reads.
    Opaque {
        /// The line number.
        line: u64,
        /// What it is, such as `provider/endpoint`.
        label: String,
        /// Why.
        reason: String,
    },
    /// Messages without a recorded time, counted by the source of their time.
    Dated {
        /// From the body of the response.
        response: u64,
        /// From the `Date` header of the response.
        header: u64,
        /// The time of the file.
        file: u64,
    },
}

/// The parameters of a conversion.
#[derive(Debug, Clone, Copy)]
pub struct Conversion<'c> {
    /// The kind of the input.
    pub from: TranscriptKind,
    /// The format of the output.
    pub to: OutputFormat,
    /// How the input is read.
    pub options: ReadOptions<'c>,
    /// The provider to write exchanges for; `None` for that of each exchange.
    pub target: Option<&'static dyn Adapter>,
    /// Prices of tokens.
    pub prices: &'c PriceTable,
}

/// Converts `bytes`, writes the lines to `out`, and passes what can't be converted to `notify`.
///
/// # Errors
/// Those of `out`.
pub fn convert(
    bytes: &[u8],
    conversion: Conversion<'_>,
    out: &mut dyn Write,
    notify: &mut dyn FnMut(Notice),
) -> io::Result<()> {
    let mut output = LineOutput::new(out, notify);
    if let Some(normalized) = normalize(bytes, conversion.from) {
        output.faults(normalized.faults);
        convert_exchanges(normalized.lines.as_bytes(), conversion, &mut output);
    } else if conversion.from == TranscriptKind::Exchanges {
        convert_exchanges(bytes, conversion, &mut output);
    } else if conversion.to == OutputFormat::Grains {
        convert_to_grains(bytes, conversion, &mut output);
    } else {
        parse(bytes, conversion.from, conversion.options, &mut |part| {
            convert_part(part, conversion, &mut output)
        });
    }
    output.finish()
}

/// Converts exchange lines.
fn convert_exchanges(bytes: &[u8], conversion: Conversion<'_>, output: &mut LineOutput<'_>) {
    match conversion.to {
        OutputFormat::Grains => {
            let counts =
                grains_of_exchanges(bytes, conversion.options, &mut |grain| output.grain(grain));
            output.counts.add(counts);
        }
        OutputFormat::Exchanges => exchanges::rewrite_exchanges(bytes, conversion, output),
        OutputFormat::Messages => exchanges_to_messages(bytes, conversion, output),
        OutputFormat::Cmf | OutputFormat::Views => exchanges_to_cmf(bytes, conversion, output),
    }
}

fn exchanges_to_messages(bytes: &[u8], conversion: Conversion<'_>, output: &mut LineOutput<'_>) {
    let prices = conversion.prices;
    let encode = |message: ExchangeMessage<'_>| {
        let source = message.message.created_at.source();
        let response = ResponseMetadata {
            stop_reason: message.stop_reason,
            usage: message.usage,
            response: message.response,
        };
        let json = message_json(message.message, response, prices);
        (source, json.to_string())
    };
    let map = |item: ExchangeItem<'_>| message_or_opaque(item, |message, _| encode(message));
    read_exchanges(bytes, conversion.options, &map, &mut |line, outcome| {
        write_items(outcome, line, output, |(source, text), output| {
            output.counts.count_time_source(source);
            output.line(&text);
        });
    });
}

fn exchanges_to_cmf(bytes: &[u8], conversion: Conversion<'_>, output: &mut LineOutput<'_>) {
    let map = |item: ExchangeItem<'_>| {
        message_or_opaque(item, |message, conversation| {
            let tools = answered_tools(&message.message, conversation);
            (tools, message.message.into_owned())
        })
    };
    read_exchanges(bytes, conversion.options, &map, &mut |line, outcome| {
        write_items(outcome, line, output, |(tools, message), output| {
            output.tool_names.extend(tools);
            output.counts.count_time_source(message.created_at.source());
            output.cmf(&message, conversion.to);
        });
    });
}

/// The label of an opaque exchange, and why no adapter reads it.
type OpaqueNote = (String, String);

/// Maps a message with `map`; an opaque exchange becomes a note.
fn message_or_opaque<T>(
    item: ExchangeItem<'_>,
    map: impl Fn(ExchangeMessage<'_>, &Conversation) -> T,
) -> Result<T, OpaqueNote> {
    match item {
        ExchangeItem::Message(message, conversation) => Ok(map(message, conversation)),
        ExchangeItem::Opaque(opaque) => Err((opaque.label(), opaque.reason.to_owned())),
    }
}

/// Returns the call ids that `message` answers, with the names of the tools. They are collected per
/// message because the preferred sighting of the call may be on a later line.
fn answered_tools(message: &Message, conversation: &Conversation) -> Vec<(String, String)> {
    let answered = message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolResult(result) => Some(&result.tool_use_id),
        _ => None,
    });
    let named =
        answered.filter_map(|id| Some((id.to_string(), conversation.tool_name(id)?.to_owned())));
    named.collect()
}

/// Passes the messages of a line to `write`, and the rest to the user.
fn write_items<T>(
    outcome: LineOutcome<Result<T, OpaqueNote>>,
    line: &Line,
    output: &mut LineOutput<'_>,
    mut write: impl FnMut(T, &mut LineOutput<'_>),
) {
    let items = match outcome {
        LineOutcome::Items(items) => items,
        LineOutcome::Fault(fault) => return (output.notify)(Notice::Fault(fault)),
    };
    for item in items {
        match item {
            Ok(message) => write(message, output),
            Err((label, reason)) => (output.notify)(Notice::Opaque {
                line: line.number,
                label,
                reason,
            }),
        }
    }
}

/// Converts a transcript that isn't traffic to grains.
fn convert_to_grains(bytes: &[u8], conversion: Conversion<'_>, output: &mut LineOutput<'_>) {
    parse_for_grains(bytes, conversion.from, conversion.options, &mut |part| {
        let counts = grains_of_part(part, conversion.options, &mut |grain| output.grain(grain));
        output.counts.add(counts);
    });
}

/// Returns the notice of a grain that isn't a message.
fn opaque_grain(line: &Line) -> Notice {
    Notice::Opaque {
        line: line.number,
        label: "grain".to_owned(),
        reason: "a grain that is no message; --to grains writes it".to_owned(),
    }
}

/// Converts a part of a transcript that isn't traffic.
fn convert_part(part: ParsedPart, conversion: Conversion<'_>, output: &mut LineOutput<'_>) {
    output.faults(part.faults);
    for grain in part.grains {
        (output.notify)(opaque_grain(&grain.line));
    }
    let messages = part.messages;
    for placed in &messages {
        let source = placed.message.created_at.source();
        output.counts.count_time_source(source);
    }
    match conversion.to {
        OutputFormat::Grains => {}
        OutputFormat::Messages => write_messages(messages, conversion.prices, output),
        OutputFormat::Exchanges => sessions::write_sessions(messages, conversion.target, output),
        OutputFormat::Cmf | OutputFormat::Views => {
            output.tool_names = tool_names(&messages);
            messages
                .iter()
                .for_each(|placed| output.cmf(&placed.message, conversion.to));
        }
    }
}

/// Writes canonical messages.
fn write_messages(messages: Vec<PlacedMessage>, prices: &PriceTable, output: &mut LineOutput<'_>) {
    for placed in messages {
        let response = ResponseMetadata {
            stop_reason: placed.stop_reason,
            usage: placed.usage,
            response: None,
        };
        output.line(&message_json(placed.message, response, prices).to_string());
    }
}

/// Returns the names of the called tools by call id.
fn tool_names(messages: &[PlacedMessage]) -> HashMap<String, String> {
    let blocks = messages.iter().flat_map(|placed| &placed.message.content);
    let calls = blocks.filter_map(|block| match block {
        ContentBlock::ToolUse(call) => Some((call.id.to_string(), call.name.to_string())),
        _ => None,
    });
    calls.collect()
}
