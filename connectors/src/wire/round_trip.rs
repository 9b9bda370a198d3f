//! The round-trip check: reads an exchange into canonical messages, encodes and decodes them as
//! JSON, writes them back and compares the bodies.

use std::fmt;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::decode::{MessageDecodeMode, decode_message};
use gristmill_schemas::message::encode::{UnknownFields, encode_message};
use gristmill_schemas::message::request::Request;
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{Message, Timestamp};

use super::adapter::Adapter;
use super::body_codec::{read_request, read_response, write_request, write_response};
use super::conversation::{Conversation, ReadContext};
use super::error::{read_error, write_error};
use super::exchange::{Exchange, ResponseBody};
use super::message_writer::WriteOptions;

/// The result of the round trip of one body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoundTripOutcome {
    /// The written body is identical: equal values, and numbers with the same spelling.
    Equal,
    /// The written body differs: the path of the first difference, from `$`.
    Unequal(String),
    /// The body isn't of the adapter's dialect and is stored unparsed: the reason.
    Opaque(String),
}

/// The result of the round trip of one exchange.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoundTripReport {
    /// The result of the request, if there is one.
    pub request: Option<RoundTripOutcome>,
    /// The result of the response, if there is one; a stream is folded first.
    pub response: Option<RoundTripOutcome>,
    /// The sizes of the bodies and of what the canonical model couldn't hold.
    pub sizes: RoundTripSizes,
}

/// Sizes in bytes of JSON: how much of the bodies the canonical model couldn't hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoundTripSizes {
    /// The size of the bodies.
    pub wire_bytes: usize,
    /// The size of `provider_raw`: patches, guards, ids of calls.
    pub residual_bytes: usize,
    /// The size of unknown blocks.
    pub unknown_block_bytes: usize,
}

impl RoundTripReport {
    /// Returns the combined result: unequal if one body is, else opaque if one is, else equal.
    pub fn outcome(&self) -> RoundTripOutcome {
        let outcomes = [&self.request, &self.response];
        let find = |wanted: fn(&RoundTripOutcome) -> bool| {
            outcomes
                .iter()
                .filter_map(|outcome| outcome.as_ref())
                .find(|outcome| wanted(outcome))
        };
        let worst = find(|outcome| matches!(outcome, RoundTripOutcome::Unequal(_)))
            .or_else(|| find(|outcome| matches!(outcome, RoundTripOutcome::Opaque(_))))
            .or_else(|| find(|outcome| *outcome == RoundTripOutcome::Equal));
        worst
            .cloned()
            .unwrap_or_else(|| RoundTripOutcome::Opaque("no body".to_owned()))
    }
}

impl fmt::Display for RoundTripOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RoundTripOutcome::Equal => formatter.write_str("equal"),
            RoundTripOutcome::Unequal(path) => write!(formatter, "unequal at {path}"),
            RoundTripOutcome::Opaque(why) => write!(formatter, "opaque: {why}"),
        }
    }
}

/// Checks one exchange with `adapter`.
pub fn check(adapter: &dyn Adapter, exchange: &Exchange) -> RoundTripReport {
    let time = exchange.time(None, Timestamp::from_micros(0));
    let mut checker = RoundTripChecker {
        adapter,
        conversation: Conversation::new(""),
        context: ReadContext::at(time),
        sizes: RoundTripSizes::default(),
    };
    let request = exchange
        .request
        .map(|body| checker.check(body, RoundTripChecker::request_round_trip));
    let response = match &exchange.response {
        ResponseBody::None => None,
        ResponseBody::Json(body) => {
            Some(checker.check(body, RoundTripChecker::response_round_trip))
        }
        ResponseBody::Stream(_) => {
            // A stream that was truncated before its first event has no body.
            let fold = exchange.folded(adapter).filter(|fold| !fold.is_empty);
            fold.map(|fold| checker.check(&fold.folded.body, RoundTripChecker::response_round_trip))
        }
    };
    RoundTripReport {
        request,
        response,
        sizes: checker.sizes,
    }
}

/// The state of a check, which the bodies of an exchange share.
struct RoundTripChecker<'c> {
    adapter: &'c dyn Adapter,
    conversation: Conversation,
    context: ReadContext<'c>,
    sizes: RoundTripSizes,
}

impl RoundTripChecker<'_> {
    /// Runs a round trip; the `Err` of one is the outcome that ended it early.
    fn check(
        &mut self,
        body: &Json,
        round_trip: fn(&mut Self, &Json) -> Result<RoundTripOutcome, RoundTripOutcome>,
    ) -> RoundTripOutcome {
        round_trip(self, body).unwrap_or_else(|early| early)
    }

    fn request_round_trip(&mut self, body: &Json) -> Result<RoundTripOutcome, RoundTripOutcome> {
        if !self.adapter.is_request(body) {
            return Err(opaque("not a request of this dialect"));
        }
        let read = read_request(self.adapter, body, &mut self.conversation, &self.context);
        let mut request = read.map_err(opaque)?.request;
        self.add_request_sizes(body, &request);
        let stored = encode_messages(&request.messages);
        let stored = parse_all(&stored);
        request.messages = decode_messages(&stored, &mut self.sizes)?;
        let (ids, options) = (&mut ToolIdMap::new(), WriteOptions::default());
        let written = write_request(self.adapter, &request, ids, options);
        Ok(compare(body, &written.json))
    }

    /// Adds the sizes of a request and of what its residuals keep of it.
    fn add_request_sizes(&mut self, body: &Json, request: &Request<'_>) {
        let messages = request.messages.iter();
        let raws = messages.map(|message| &message.metadata.provider_raw);
        self.add_sizes(body, raws.chain([&request.provider_raw]));
    }

    fn response_round_trip(&mut self, body: &Json) -> Result<RoundTripOutcome, RoundTripOutcome> {
        if !self.adapter.is_response(body) {
            return self.error_round_trip(body);
        }
        let read = read_response(self.adapter, body, &mut self.conversation, &self.context);
        let mut response = read.map_err(opaque)?.response;
        let messages = response.choices.iter().map(|choice| &choice.message);
        let messages: Vec<Message> = messages.cloned().collect();
        let raws = messages
            .iter()
            .map(|message| &message.metadata.provider_raw);
        self.add_sizes(body, raws.chain([&response.provider_raw]));
        let stored = encode_messages(&messages);
        let stored = parse_all(&stored);
        let decoded = decode_messages(&stored, &mut self.sizes)?;
        for (choice, message) in response.choices.iter_mut().zip(decoded) {
            choice.message = message;
        }
        let (ids, options) = (&mut ToolIdMap::new(), WriteOptions::default());
        let written = write_response(self.adapter, &response, ids, options);
        Ok(compare(body, &written.json))
    }

    fn error_round_trip(&mut self, body: &Json) -> Result<RoundTripOutcome, RoundTripOutcome> {
        let report = read_error(self.adapter, body)
            .ok_or_else(|| opaque("not a response of this dialect"))?;
        self.add_sizes(body, [&report.provider_raw]);
        Ok(compare(body, &write_error(self.adapter, &report)))
    }

    fn add_sizes<'r, 'a: 'r>(
        &mut self,
        body: &Json,
        raws: impl IntoIterator<Item = &'r Option<Object<'a>>>,
    ) {
        self.sizes.wire_bytes += body.to_string().len();
        self.sizes.add_residuals(self.adapter.key(), raws);
    }
}

fn opaque(reason: impl fmt::Display) -> RoundTripOutcome {
    RoundTripOutcome::Opaque(reason.to_string())
}

fn parse_all(texts: &[String]) -> Vec<Json<'_>> {
    texts
        .iter()
        .map(|text| Json::parse(text.as_bytes()).unwrap_or_default())
        .collect()
}

/// Encodes the messages as JSON text, as they are stored.
fn encode_messages(messages: &[Message]) -> Vec<String> {
    messages
        .iter()
        .map(|message| encode_message(message, UnknownFields::Keep).to_string())
        .collect()
}

/// Decodes stored messages and adds the sizes of their unknown blocks to `sizes`.
fn decode_messages<'j>(
    stored: &'j [Json<'j>],
    sizes: &mut RoundTripSizes,
) -> Result<Vec<Message<'j>>, RoundTripOutcome> {
    let mut messages = Vec::with_capacity(stored.len());
    for json in stored {
        let (message, _) = decode_message(json, MessageDecodeMode::Tolerant)
            .map_err(|error| RoundTripOutcome::Unequal(format!("stored message: {error}")))?;
        sizes.add_unknown_blocks(&message);
        messages.push(message);
    }
    Ok(messages)
}

impl RoundTripSizes {
    fn add_residuals<'r, 'a: 'r>(
        &mut self,
        key: &str,
        raws: impl IntoIterator<Item = &'r Option<Object<'a>>>,
    ) {
        let parts = raws.into_iter().flatten().filter_map(|raw| raw.get(key));
        self.residual_bytes += parts.map(|part| part.to_string().len()).sum::<usize>();
    }

    fn add_unknown_blocks(&mut self, message: &Message) {
        use gristmill_schemas::message::ContentBlock;
        let inner = message.content.iter().flat_map(|block| match block {
            ContentBlock::ToolResult(result) => result.content.as_slice(),
            _ => &[],
        });
        for block in message.content.iter().chain(inner) {
            if let ContentBlock::Unknown(block) = block {
                self.unknown_block_bytes += block.json.to_string().len();
            }
        }
    }
}

fn compare(original: &Json, written: &Json) -> RoundTripOutcome {
    match first_difference(original, written) {
        None => RoundTripOutcome::Equal,
        Some(path) => RoundTripOutcome::Unequal(path),
    }
}

/// Returns the path of the first difference between two values, comparing numbers by their
/// spelling, or `None` if they are identical.
pub fn first_difference(left: &Json, right: &Json) -> Option<String> {
    let mut path = "$".to_owned();
    differ(left, right, &mut path).then_some(path)
}

/// Returns true if the objects differ, and leaves the path of the difference in `path`.
fn objects_differ(left: &Object, right: &Object, path: &mut String) -> bool {
    let (left_members, right_members) = (left.index(), right.index());
    left.keys().chain(right.keys()).any(|key| {
        let pair = (left_members.get(key), right_members.get(key));
        differ_at(&format!(".{key}"), pair, path)
    })
}

/// Returns true if the values differ, and leaves the path of the difference in `path`.
fn differ(left: &Json, right: &Json, path: &mut String) -> bool {
    match (left, right) {
        (Json::Object(left), Json::Object(right)) => objects_differ(left, right, path),
        (Json::Array(left), Json::Array(right)) => (0..left.len().max(right.len())).any(|index| {
            let pair = (left.get(index), right.get(index));
            differ_at(&format!("[{index}]"), pair, path)
        }),
        (left, right) => !left.is_identical(right),
    }
}

/// Compares a pair of children at `step`; a child without a counterpart differs. Restores `path`
/// unless they differ.
fn differ_at(step: &str, pair: (Option<&Json>, Option<&Json>), path: &mut String) -> bool {
    let length = path.len();
    path.push_str(step);
    let differs = match pair {
        (Some(left), Some(right)) => differ(left, right, path),
        _ => true,
    };
    if !differs {
        path.truncate(length);
    }
    differs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_reported_by_its_path() {
        let json = |text: &'static str| Json::parse(text.as_bytes()).unwrap();
        for (left, right, path) in [
            (r#"{"a":[1,{"b":2}]}"#, r#"{"a":[1,{"b":2.0}]}"#, "$.a[1].b"),
            (r#"{"a":[1]}"#, r#"{"a":[1,2]}"#, "$.a[1]"),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#, "$.b"),
            ("1", "\"1\"", "$"),
        ] {
            assert_eq!(
                first_difference(&json(left), &json(right)).as_deref(),
                Some(path)
            );
        }
        assert_eq!(
            first_difference(&json(r#"{"a":1,"b":[]}"#), &json(r#"{"b":[],"a":1}"#)),
            None
        );
    }
}
