//! Rewriting of exchanges: streams are folded, and the exchange is written for another provider if
//! one is given.

use gristmill_schemas::json::{Json, Object};

use super::output::LineOutput;
use super::{Conversion, Notice};
use crate::transcript::exchange::extract::{AdapterMatch, match_adapter};
use crate::transcript::exchange::item::NOT_AN_EXCHANGE;
use crate::transcript::line::{FaultCode, lines};
use crate::wire::adapter::Adapter;
use crate::wire::body_codec::{
    WrittenBody, read_request, read_response, write_request, write_response,
};
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::error::{read_error, write_error};
use crate::wire::exchange::{Exchange, with_parsed_request};
use crate::wire::message_writer::{DroppedBlock, WriteOptions};

/// Rewrites exchange lines. An exchange that no adapter reads is copied.
pub(super) fn rewrite_exchanges(
    bytes: &[u8],
    conversion: Conversion<'_>,
    output: &mut LineOutput<'_>,
) {
    for line in lines(bytes) {
        let json = match line.json(bytes) {
            Ok(json) => json,
            Err(fault) => {
                (output.notify)(Notice::Fault(fault));
                continue;
            }
        };
        let parsed = with_parsed_request(&json);
        let readable = parsed.as_ref().unwrap_or(&json);
        let Some(exchange) = Exchange::from_json_or_detect(readable, conversion.options.provider)
        else {
            (output.notify)(Notice::Fault(line.fault(FaultCode::Shape, NOT_AN_EXCHANGE)));
            continue;
        };
        match match_adapter(&exchange) {
            AdapterMatch::Matched(adapter) => {
                let rewriter = Rewriter::new(adapter, conversion, &exchange);
                let (rewritten, drops) = rewriter.rewrite(&exchange, &json);
                output.dropped(&drops);
                output.line(&rewritten);
            }
            AdapterMatch::Opaque(reason) => {
                (output.notify)(Notice::Opaque {
                    line: line.number,
                    label: format!("{}/{}", exchange.provider, exchange.endpoint),
                    reason: reason.to_owned(),
                });
                output.line(&json.to_string());
            }
        }
    }
}

/// Returns an exchange line without its bodies.
pub(super) fn exchange_head(
    adapter: &dyn Adapter,
    recorded_at: Option<String>,
    status: Option<u16>,
) -> Object<'static> {
    let (provider, endpoint) = adapter.key().split_once('/').unwrap_or((adapter.key(), ""));
    let mut line = Object::new();
    line.insert("provider", provider);
    line.insert("endpoint", endpoint);
    line.insert(
        "status",
        status.map_or(Json::Null, |status| Json::from(u64::from(status))),
    );
    line.insert("recorded_at", recorded_at.map_or(Json::Null, Json::from));
    line
}

/// Rewrites one exchange.
struct Rewriter<'c> {
    adapter: &'static dyn Adapter,
    target: &'static dyn Adapter,
    context: ReadContext<'c>,
    conversation: Conversation,
    line: Object<'static>,
    drops: Vec<DroppedBlock>,
}

impl<'c> Rewriter<'c> {
    fn new(
        adapter: &'static dyn Adapter,
        conversion: Conversion<'_>,
        exchange: &Exchange,
    ) -> Rewriter<'c> {
        let target = conversion.target.unwrap_or(adapter);
        let recorded_at = exchange.recorded_at.map(|time| time.to_string());
        Rewriter {
            adapter,
            target,
            context: ReadContext::at(exchange.time(None, conversion.options.fallback)),
            conversation: Conversation::new(""),
            line: exchange_head(target, recorded_at, exchange.status),
            drops: Vec::new(),
        }
    }

    /// Returns the line, and the blocks that it can't express.
    fn rewrite(mut self, exchange: &Exchange, json: &Json) -> (String, Vec<DroppedBlock>) {
        self.line.insert("id", exchange.id.to_string());
        if exchange.has_raw_text {
            for key in exchange.raw_text_members(json) {
                if let Some(text) = json.get(key) {
                    self.line.insert(key, text.clone().into_owned());
                }
            }
        }
        if let Some(body) = exchange.request {
            self.rewrite_request(body);
        }
        let fold = exchange.folded(self.adapter);
        if let Some(body) = exchange.response_json(fold.as_deref()) {
            self.rewrite_response(body);
        }
        (Json::Object(self.line).to_string(), self.drops)
    }

    fn rewrite_request(&mut self, body: &Json) {
        let read = read_request(self.adapter, body, &mut self.conversation, &self.context);
        if let Ok(read) = read {
            // The response must see the ids as they are before the request is written.
            let mut ids = self.conversation.ids.clone();
            let options = WriteOptions::default();
            let written = write_request(self.target, &read.request, &mut ids, options);
            self.insert("request", written);
        }
    }

    fn rewrite_response(&mut self, body: &Json) {
        if !self.adapter.is_response(body) {
            let report = read_error(self.adapter, body);
            let written = report.map(|report| write_error(self.target, &report).into_owned());
            // An error in the form of nobody's stays what it is.
            let written = written.unwrap_or_else(|| body.clone().into_owned());
            self.line.insert("response", written);
            return;
        }
        let read = read_response(self.adapter, body, &mut self.conversation, &self.context);
        if let Ok(read) = read {
            let ids = &mut self.conversation.ids;
            let options = WriteOptions::default();
            let written = write_response(self.target, &read.response, ids, options);
            self.insert("response", written);
        }
    }

    fn insert(&mut self, key: &'static str, body: WrittenBody<'_>) {
        self.drops.extend(body.drops);
        self.line.insert(key, body.json.into_owned());
    }
}
