//! Does an exchange survive the round trip? Wire to canonical messages, through their JSON, and
//! back to the same wire.

use std::fmt;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::decode::{Mode, decode_message};
use gristmill_schemas::message::encode::{Unknowns, encode_message};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{Message, Timestamp};

use super::adapter::Adapter;
use super::body_codec::{read_request, read_response, write_request, write_response};
use super::error::{read_error, write_error};
use super::exchange::{Exchange, ResponseBody};
use super::message_reader::{Conversation, ReadContext};
use super::message_writer::WriteOptions;

/// What became of one body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoundTripOutcome {
    /// It came back value for value, numbers to the letter.
    Equal,
    /// It came back different: where first, as a path from `$`.
    Unequal(String),
    /// It isn't of the adapter's dialect, and is kept whole: why.
    Opaque(String),
}

/// What became of one exchange.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoundTripReport {
    /// Of its request, if it has one.
    pub request: Option<RoundTripOutcome>,
    /// Of its response, if it has one; a stream is folded first.
    pub response: Option<RoundTripOutcome>,
    /// Sizes.
    pub sizes: RoundTripSizes,
}

/// How much of the wire the canonical model couldn't hold, in bytes of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoundTripSizes {
    /// The bodies.
    pub wire_bytes: usize,
    /// Patches, guards, ids of calls: all that travels in `provider_raw`.
    pub residual_bytes: usize,
    /// Blocks that none of the six kinds can hold.
    pub unknown_block_bytes: usize,
}

impl RoundTripReport {
    /// The verdict on both bodies together: unequal if one is, opaque if one is, else equal.
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

/// Checks one exchange with the adapter of its endpoint.
pub fn check(adapter: &dyn Adapter, exchange: &Exchange) -> RoundTripReport {
    let mut verdict = RoundTripReport::default();
    let mut conversation = Conversation::new("");
    let time = exchange.time(None, Timestamp::from_micros(0));
    let context = ReadContext::at(time);
    if let Some(body) = exchange.request {
        verdict.request = Some(check_request(
            adapter,
            body,
            &mut conversation,
            &context,
            &mut verdict.sizes,
        ));
    }
    verdict.response = match &exchange.response {
        ResponseBody::None => None,
        ResponseBody::Json(body) => Some(check_response(
            adapter,
            body,
            &mut conversation,
            &context,
            &mut verdict.sizes,
        )),
        ResponseBody::Stream(_) => {
            // A stream that was cut before its first event has no body.
            let fold = exchange.folded(adapter).filter(|fold| !fold.is_empty);
            fold.map(|fold| {
                check_response(
                    adapter,
                    &fold.folded.body,
                    &mut conversation,
                    &context,
                    &mut verdict.sizes,
                )
            })
        }
    };
    verdict
}

fn check_request(
    adapter: &dyn Adapter,
    body: &Json,
    conversation: &mut Conversation,
    context: &ReadContext,
    sizes: &mut RoundTripSizes,
) -> RoundTripOutcome {
    if !adapter.is_request(body) {
        return RoundTripOutcome::Opaque("not a request of this dialect".to_owned());
    }
    let mut request = match read_request(adapter, body, conversation, context) {
        Ok(read) => read.request,
        Err(error) => return RoundTripOutcome::Opaque(error.to_string()),
    };
    sizes.wire_bytes += body.to_string().len();
    sizes.add(
        adapter.key(),
        request
            .messages
            .iter()
            .map(|message| &message.metadata.provider_raw)
            .chain([&request.provider_raw]),
    );
    let stored = store(&request.messages);
    let stored: Vec<Json> = stored
        .iter()
        .map(|text| Json::parse(text.as_bytes()).unwrap_or_default())
        .collect();
    request.messages = match load(&stored, sizes) {
        Ok(messages) => messages,
        Err(why) => return RoundTripOutcome::Unequal(why),
    };
    let written = write_request(
        adapter,
        &request,
        &mut ToolIdMap::new(),
        WriteOptions::default(),
    );
    compare(body, &written.json)
}

fn check_response(
    adapter: &dyn Adapter,
    body: &Json,
    conversation: &mut Conversation,
    context: &ReadContext,
    sizes: &mut RoundTripSizes,
) -> RoundTripOutcome {
    if !adapter.is_response(body) {
        let Some(report) = read_error(adapter, body) else {
            return RoundTripOutcome::Opaque("not a response of this dialect".to_owned());
        };
        sizes.wire_bytes += body.to_string().len();
        sizes.add(adapter.key(), [&report.provider_raw]);
        return compare(body, &write_error(adapter, &report));
    }
    let mut response = match read_response(adapter, body, conversation, context) {
        Ok(read) => read.response,
        Err(error) => return RoundTripOutcome::Opaque(error.to_string()),
    };
    sizes.wire_bytes += body.to_string().len();
    let raws = response
        .choices
        .iter()
        .map(|choice| &choice.message.metadata.provider_raw);
    sizes.add(adapter.key(), raws.chain([&response.provider_raw]));
    let messages: Vec<Message> = response
        .choices
        .iter()
        .map(|choice| choice.message.clone())
        .collect();
    let stored = store(&messages);
    let stored: Vec<Json> = stored
        .iter()
        .map(|text| Json::parse(text.as_bytes()).unwrap_or_default())
        .collect();
    match load(&stored, sizes) {
        Ok(messages) => response
            .choices
            .iter_mut()
            .zip(messages)
            .for_each(|(choice, message)| choice.message = message),
        Err(why) => return RoundTripOutcome::Unequal(why),
    }
    let written = write_response(
        adapter,
        &response,
        &mut ToolIdMap::new(),
        WriteOptions::default(),
    );
    compare(body, &written.json)
}

/// The messages as a store would keep them.
fn store(messages: &[Message]) -> Vec<String> {
    messages
        .iter()
        .map(|message| encode_message(message, Unknowns::Keep).to_string())
        .collect()
}

fn load<'j>(
    stored: &'j [Json<'j>],
    sizes: &mut RoundTripSizes,
) -> Result<Vec<Message<'j>>, String> {
    let mut messages = Vec::with_capacity(stored.len());
    for json in stored {
        let (message, _) = decode_message(json, Mode::Tolerant)
            .map_err(|error| format!("stored message: {error}"))?;
        sizes.add_unknown_blocks(&message);
        messages.push(message);
    }
    Ok(messages)
}

impl RoundTripSizes {
    fn add<'r, 'a: 'r>(
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

/// The path of the first place where two values differ, numbers by their spelling; `None` if they
/// are identical.
pub fn first_difference(left: &Json, right: &Json) -> Option<String> {
    let mut path = "$".to_owned();
    differ(left, right, &mut path).then_some(path)
}

fn differ(left: &Json, right: &Json, path: &mut String) -> bool {
    let length = path.len();
    match (left, right) {
        (Json::Object(left), Json::Object(right)) => {
            let (here, there) = (left.lookup(), right.lookup());
            for key in left.keys().chain(right.keys()) {
                path.truncate(length);
                path.push_str(&format!(".{key}"));
                match (here.get(key), there.get(key)) {
                    (Some(left), Some(right)) if !differ(left, right, path) => {}
                    _ => return true,
                }
            }
        }
        (Json::Array(left), Json::Array(right)) => {
            for index in 0..left.len().max(right.len()) {
                path.truncate(length);
                path.push_str(&format!("[{index}]"));
                match (left.get(index), right.get(index)) {
                    (Some(left), Some(right)) if !differ(left, right, path) => {}
                    _ => return true,
                }
            }
        }
        (left, right) => return !left.is_identical(right),
    }
    path.truncate(length);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named_by_its_path() {
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
