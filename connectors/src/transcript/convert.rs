//! One kind to another, line by line.

use std::collections::HashMap;
use std::io::{self, Write};

use gristmill_schemas::cmf::canonical::from_canonical;
use gristmill_schemas::cmf::view::DictOptions;
use gristmill_schemas::cmf::{Access, CapabilitySet, views};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, EncodedGrain, Grain, Mode, Payload};
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::encode::{Unknowns, encode_message};
use gristmill_schemas::message::price::PriceTable;
use gristmill_schemas::message::request::{Choice, Request, Response, StopReason, TokenUsage};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::grains::{GrainCounts, GrainOutput, grains_of_told, read_grains};
use super::kind::TranscriptKind;
use super::line::{FaultCode, Line, LineFault, lines};
use super::read::{Found, NO_EXCHANGE, ReadOptions, Subject, read_exchanges};
use super::recast::recast;
use super::said::{STOP_REASON, Said, TOKEN_USAGE, call_names};
use super::told::{Made, Told, told, told_for_grains};
use super::traffic::{Node, Reading, reading};
use crate::wire::adapter::Adapter;
use crate::wire::body_codec::{
    WrittenBody, read_request, read_response, write_request, write_response,
};
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::error::{read_error, write_error};
use crate::wire::exchange::{Exchange, RAW_TEXT_MEMBERS, ResponseBody};
use crate::wire::message_writer::{DroppedBlock, WriteOptions};

/// What lines of output hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
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

impl Form {
    /// Every form.
    pub const ALL: &[Form] = &[
        Form::Exchanges,
        Form::Messages,
        Form::Cmf,
        Form::Views,
        Form::Grains,
    ];

    /// The name on the command line, and what it is, for people.
    const fn told(self) -> (&'static str, &'static str) {
        match self {
            Form::Exchanges => ("exchanges", "Requests and responses in a provider's form"),
            Form::Messages => ("messages", "Canonical messages"),
            Form::Cmf => ("cmf", "CMF messages, with their extensions"),
            Form::Views => ("views", "Views of messages, as policies see them"),
            Form::Grains => ("grains", "Grains with their addresses"),
        }
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        self.told().0
    }

    /// What it is, for people.
    pub const fn about(self) -> &'static str {
        self.told().1
    }
}

/// What a conversion tells beside its output.
#[derive(Debug)]
pub enum Notice {
    /// A line that can't be read.
    Fault(LineFault),
    /// A block that the target can't hold: one WARN line.
    Dropped(String),
    /// An exchange that no adapter reads: it is in no message.
    Opaque {
        /// The line.
        line: u64,
        /// `provider/endpoint`.
        label: String,
        /// Why.
        reason: String,
    },
    /// How many messages have a time that nobody recorded, by who gave it.
    Dated {
        /// The provider's response.
        response: u64,
        /// The `Date` header of the response.
        header: u64,
        /// Nobody: it is when the file was last changed.
        file: u64,
    },
}

/// Which conversion.
#[derive(Debug, Clone, Copy)]
pub struct Conversion<'c> {
    /// What the input holds.
    pub from: TranscriptKind,
    /// What the output holds.
    pub to: Form,
    /// How the input is read.
    pub options: ReadOptions<'c>,
    /// Whose exchanges to write; each exchange's own provider if not named.
    pub target: Option<&'static dyn Adapter>,
    /// What tokens cost.
    pub prices: &'c PriceTable,
}

/// Converts `bytes` and writes lines.
///
/// # Errors
/// Those of `out`.
pub fn convert(
    bytes: &[u8],
    conversion: Conversion<'_>,
    out: &mut dyn Write,
    tell: &mut dyn FnMut(Notice),
) -> io::Result<()> {
    let mut output = Output::to(out, tell);
    if let Some(recast) = recast(bytes, conversion.from) {
        recast
            .faults
            .into_iter()
            .for_each(|fault| (output.tell)(Notice::Fault(fault)));
        from_exchanges(recast.lines.as_bytes(), conversion, &mut output);
    } else if conversion.from == TranscriptKind::Exchanges {
        from_exchanges(bytes, conversion, &mut output);
    } else if conversion.to == Form::Grains {
        let tell = &mut |part| {
            let counts = grains_of_told(part, conversion.options.namespace, &mut |found| {
                output.grain(found)
            });
            output.counts.add(counts);
        };
        told_for_grains(bytes, conversion.from, conversion.options, tell);
    } else {
        told(bytes, conversion.from, conversion.options, &mut |part| {
            from_told(part, conversion, &mut output)
        });
    }
    output.end()
}

/// Where results and notices go.
struct Output<'o> {
    out: &'o mut dyn Write,
    tell: &'o mut dyn FnMut(Notice),
    failed: Option<io::Error>,
    /// The tools of the calls so far.
    names: HashMap<String, String>,
    /// What was written, of which only the times' sources matter.
    counts: GrainCounts,
}

impl<'o> Output<'o> {
    fn to(out: &'o mut dyn Write, tell: &'o mut dyn FnMut(Notice)) -> Output<'o> {
        Output {
            out,
            tell,
            failed: None,
            names: HashMap::new(),
            counts: GrainCounts::default(),
        }
    }
}

impl Output<'_> {
    /// Writes a line; after an error there are no more.
    fn line(&mut self, text: &str) {
        if self.failed.is_none() {
            let written = self
                .out
                .write_all(text.as_bytes())
                .and_then(|()| self.out.write_all(b"\n"));
            self.failed = written.err();
        }
    }

    fn end(self) -> io::Result<()> {
        let GrainCounts {
            dated_by_response: response,
            dated_by_header: header,
            dated_by_file: file,
            ..
        } = self.counts;
        if response + header + file > 0 {
            (self.tell)(Notice::Dated {
                response,
                header,
                file,
            });
        }
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn grain(&mut self, output: GrainOutput<'_>) {
        match output {
            GrainOutput::Fault(fault) => (self.tell)(Notice::Fault(fault)),
            GrainOutput::Grain(_, grain) => {
                self.line(&Json::Object(grain_line(&grain)).to_string())
            }
            GrainOutput::Made(made) => self.line(&made_line(&made)),
        }
    }

    fn cmf(&mut self, message: &Message, to: Form) {
        for block in &message.content {
            if let ContentBlock::ToolUse(call) = block {
                self.names
                    .insert(call.id.to_string(), call.name.to_string());
            }
        }
        let projection = from_canonical(message, |id| self.names.get(id).cloned());
        for tag in &projection.dropped {
            let (session, id) = (&message.session_id, &message.id);
            (self.tell)(Notice::Dropped(format!(
                "session_id={session} message_id={id} block_type={tag} adapter=cmf reason=\"CMF \
                 has no part for it\""
            )));
        }
        let envelope = projection.envelope;
        if to == Form::Cmf {
            return self.line(&envelope.to_json().to_string());
        }
        let access = Access::new(envelope.extensions.as_ref(), CapabilitySet::all());
        for view in views(&envelope.message, access).at_hook(envelope.hook.as_deref()) {
            self.line(&view.to_dict(DictOptions::default()).to_string());
        }
    }

    fn dropped(&mut self, drops: &[DroppedBlock]) {
        for dropped in drops {
            (self.tell)(Notice::Dropped(dropped.to_string()));
        }
    }
}

/// A grain as a line.
fn grain_line(grain: &EncodedGrain) -> Object<'static> {
    let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT);
    let decoded = payload
        .as_ref()
        .ok()
        .and_then(|payload| Grain::decode(payload, Mode::Strict).ok());
    let mut line = Object::new();
    line.insert("content_address", grain.address.to_string());
    line.insert("blob_hex", hex(&grain.blob));
    line.insert("grain", decoded.map_or(Json::Null, |grain| grain.to_json()));
    line
}

/// A grain that is no part of a message, with what it takes the place of and when it ended: no
/// grain says that of itself.
fn made_line(made: &Made) -> String {
    let mut line = grain_line(&made.grain);
    if !made.supersedes.is_empty() {
        line.insert(
            "supersedes",
            made.supersedes
                .iter()
                .map(|old| Json::from(old.to_string()))
                .collect::<Vec<_>>(),
        );
    }
    if let Some(ended) = made.ended {
        line.insert("system_valid_to", ended);
    }
    Json::Object(line).to_string()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)])
        .collect()
}

fn from_exchanges(bytes: &[u8], conversion: Conversion<'_>, output: &mut Output<'_>) {
    match conversion.to {
        Form::Grains => {
            let counts = read_grains(bytes, conversion.options, &mut |found| output.grain(found));
            output.counts.add(counts);
        }
        Form::Exchanges => rewrite(bytes, conversion, output),
        Form::Messages => {
            let prices = conversion.prices;
            let text = |node: Node<'_>| {
                let given_by = node.message.created_at.source();
                let json = message_json(
                    node.message,
                    node.stop_reason,
                    node.usage,
                    node.response,
                    prices,
                );
                (given_by, json.to_string())
            };
            let make = |subject: Subject<'_>| message_of(subject, |node, _| text(node));
            read_exchanges(bytes, conversion.options, &make, &mut |line, found| {
                each(found, line, output, |(given_by, text), output| {
                    output.counts.date(given_by);
                    output.line(&text);
                });
            });
        }
        to @ (Form::Cmf | Form::Views) => {
            let make = |subject: Subject<'_>| {
                message_of(subject, |node, conversation| {
                    (
                        answered_tools(&node.message, conversation),
                        node.message.into_owned(),
                    )
                })
            };
            read_exchanges(bytes, conversion.options, &make, &mut |line, found| {
                each(found, line, output, |(names, message), output| {
                    output.names.extend(names);
                    output.counts.date(message.created_at.source());
                    output.cmf(&message, to);
                });
            });
        }
    }
}

/// What `make` makes of a message; of what is opaque, whose it is and why.
fn message_of<T>(
    subject: Subject<'_>,
    make: impl Fn(Node<'_>, &Conversation) -> T,
) -> Result<T, (String, String)> {
    match subject {
        Subject::Message(node, conversation) => Ok(make(node, conversation)),
        Subject::Opaque(opaque) => Err((opaque.label(), opaque.reason.to_owned())),
    }
}

/// The ids of the calls that `message` answers, with their tools: a call may come only after its
/// result, from a line further down.
fn answered_tools(message: &Message, conversation: &Conversation) -> Vec<(String, String)> {
    let answered = message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolResult(result) => Some(&result.tool_use_id),
        _ => None,
    });
    let named =
        answered.filter_map(|id| Some((id.to_string(), conversation.tool_name(id)?.to_owned())));
    named.collect()
}

fn each<T>(
    found: Found<Result<T, (String, String)>>,
    line: &Line,
    output: &mut Output<'_>,
    mut take: impl FnMut(T, &mut Output<'_>),
) {
    match found {
        Found::Made(made) => made.into_iter().for_each(|made| match made {
            Ok(message) => take(message, output),
            Err((label, reason)) => (output.tell)(Notice::Opaque {
                line: line.number,
                label,
                reason,
            }),
        }),
        Found::Fault(fault) => (output.tell)(Notice::Fault(fault)),
    }
}

/// A canonical message as JSON; what it took is priced where its model has a price.
pub(super) fn message_json(
    mut message: Message<'_>,
    stop_reason: Option<StopReason>,
    usage: Option<TokenUsage>,
    response: Option<Json<'_>>,
    prices: &PriceTable,
) -> Json<'static> {
    let metadata = &mut message.metadata;
    if let Some(usage) = usage {
        // What comes out of a grain has no cost: a cost is computed. One that somebody told stays.
        let told = metadata.usage.take();
        let latency = told.as_ref().map_or(0, |told| told.latency_ms);
        let told = told.filter(|told| !told.cost_usd.is_zero());
        let priced = || {
            metadata
                .model
                .as_deref()
                .and_then(|model| prices.usage(model, &usage, latency).ok())
        };
        metadata.usage = told.or_else(priced);
        metadata.unknown_fields.insert(TOKEN_USAGE, usage.to_json());
    }
    if let Some(reason) = stop_reason {
        metadata.unknown_fields.insert(STOP_REASON, reason.as_str());
    }
    if let Some(response) = response {
        metadata
            .unknown_fields
            .insert("response", response.into_owned());
    }
    encode_message(&message, Unknowns::Keep).into_owned()
}

fn from_told(part: Told, conversion: Conversion<'_>, output: &mut Output<'_>) {
    let Told { said, made, faults } = part;
    faults
        .into_iter()
        .for_each(|fault| (output.tell)(Notice::Fault(fault)));
    for made in made {
        let reason = "a grain that is no message; --to grains writes it".to_owned();
        (output.tell)(Notice::Opaque {
            line: made.line.number,
            label: "grain".to_owned(),
            reason,
        });
    }
    said.iter()
        .for_each(|said| output.counts.date(said.message.created_at.source()));
    match conversion.to {
        Form::Grains => {}
        Form::Messages => {
            for said in said {
                let json = message_json(
                    said.message,
                    said.stop_reason,
                    said.usage,
                    None,
                    conversion.prices,
                );
                output.line(&json.to_string());
            }
        }
        Form::Exchanges => sessions(said, conversion.target, output),
        to @ (Form::Cmf | Form::Views) => {
            output.names = call_names(&said);
            said.iter().for_each(|said| output.cmf(&said.message, to));
        }
    }
}

/// Writes a conversation as the exchange in which it was last continued, for `target` if that is
/// named, else for the provider of its last answer.
///
/// # Errors
/// Those of `out`.
pub fn write_conversation(
    said: Vec<Said>,
    target: Option<&'static dyn Adapter>,
    out: &mut dyn Write,
    tell: &mut dyn FnMut(Notice),
) -> io::Result<()> {
    let session = said
        .first()
        .map(|said| said.message.session_id.to_string())
        .unwrap_or_default();
    let mut output = Output::to(out, tell);
    session_exchange(&session, said, target, &mut output);
    output.end()
}

/// Every session as the exchange in which it was last continued: its messages as a request, a last
/// answer as the response.
fn sessions(said: Vec<Said>, target: Option<&'static dyn Adapter>, output: &mut Output<'_>) {
    let mut order: Vec<String> = Vec::new();
    let mut by_session: HashMap<String, Vec<Said>> = HashMap::new();
    for said in said {
        let session = said.message.session_id.to_string();
        let messages = by_session.entry(session.clone()).or_default();
        if messages.is_empty() {
            order.push(session);
        }
        messages.push(said);
    }
    for session in order {
        let messages = by_session.remove(&session).unwrap_or_default();
        session_exchange(&session, messages, target, output);
    }
}

fn session_exchange(
    session: &str,
    mut said: Vec<Said>,
    target: Option<&'static dyn Adapter>,
    output: &mut Output<'_>,
) {
    let provider = said
        .iter()
        .rev()
        .find_map(|said| said.message.metadata.provider.as_deref().map(str::to_owned));
    let of_provider = || {
        crate::wire::registry::adapters()
            .find(|adapter| Some(adapter.provider()) == provider.as_deref())
    };
    // A provider without an adapter of its own is written for in the dialect in which it was read.
    let of_dialect = || {
        let raw = said
            .iter()
            .rev()
            .find_map(|said| said.message.metadata.provider_raw.as_ref())?;
        raw.keys().find_map(crate::wire::registry::by_key)
    };
    let known = target.or_else(of_provider);
    let maker = provider
        .as_deref()
        .filter(|_| known.is_none())
        .map(str::to_owned);
    let Some(adapter) = known.or_else(of_dialect) else {
        let line = said.first().map_or(0, |said| said.line.number);
        let reason = "no provider is known to write it for; name one with --provider".to_owned();
        return (output.tell)(Notice::Opaque {
            line,
            label: session.to_owned(),
            reason,
        });
    };
    let answer = match said.last() {
        Some(last) if last.message.role == Role::Assistant => said.pop(),
        _ => None,
    };
    let model = answer
        .as_ref()
        .and_then(|answer| answer.message.metadata.model.as_deref().map(str::to_owned));
    let recorded_at = answer
        .as_ref()
        .or(said.last())
        .map(|said| said.message.created_at);
    let mut ids = ToolIdMap::new();
    let messages = said.into_iter().map(|said| said.message).collect();
    let request = Request {
        model: model.clone().map(Into::into),
        messages,
        ..Request::default()
    };
    let written = write_request(adapter, &request, &mut ids, WriteOptions::default());
    output.dropped(&written.drops);
    let response = answer.map(|answer| Response {
        id: None,
        created_at: Some(answer.message.created_at),
        model: model.as_deref().map(|model| {
            gristmill_schemas::message::model_id::wire_name(model)
                .to_owned()
                .into()
        }),
        usage: answer.usage,
        provider_raw: None,
        choices: vec![Choice {
            message: answer.message,
            stop_reason: answer.stop_reason,
        }],
    });
    let response = response
        .as_ref()
        .map(|response| write_response(adapter, response, &mut ids, WriteOptions::default()));
    output.dropped(
        response
            .as_ref()
            .map_or(&[][..], |response| &response.drops),
    );
    let mut line = exchange_head(adapter, recorded_at.map(|time| time.to_string()), None);
    if let Some(maker) = maker {
        line.insert("provider", maker);
    }
    line.insert("session_id", session);
    line.insert("request", written.json);
    line.insert(
        "response",
        response.map_or(Json::Null, |response| response.json),
    );
    output.line(&Json::Object(line).to_string());
}

fn exchange_head(
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

/// Exchanges as exchanges: streams folded; written for another provider if one is named. What no
/// adapter reads goes through as it is.
fn rewrite(bytes: &[u8], conversion: Conversion<'_>, output: &mut Output<'_>) {
    for line in lines(bytes) {
        let json = match line.json(bytes) {
            Ok(json) => json,
            Err(fault) => {
                (output.tell)(Notice::Fault(fault));
                continue;
            }
        };
        let Some(exchange) = Exchange::from_json_or_detect(&json, conversion.options.provider)
        else {
            (output.tell)(Notice::Fault(line.fault(FaultCode::Shape, NO_EXCHANGE)));
            continue;
        };
        match reading(&exchange) {
            Reading::Known(adapter) => {
                let (rewritten, drops) = rewritten(adapter, conversion, &exchange, &json);
                output.dropped(&drops);
                output.line(&rewritten);
            }
            Reading::Opaque(reason) => {
                let label = format!("{}/{}", exchange.provider, exchange.endpoint);
                (output.tell)(Notice::Opaque {
                    line: line.number,
                    label,
                    reason: reason.to_owned(),
                });
                output.line(&json.to_string());
            }
        }
    }
}

fn rewritten(
    adapter: &'static dyn Adapter,
    conversion: Conversion<'_>,
    exchange: &Exchange,
    json: &Json,
) -> (String, Vec<DroppedBlock>) {
    let target = conversion.target.unwrap_or(adapter);
    let mut conversation = Conversation::new("");
    let context = ReadContext::at(exchange.time(None, conversion.options.fallback));
    let recorded_at = exchange.recorded_at.map(|time| time.to_string());
    let mut line = exchange_head(target, recorded_at, exchange.status);
    line.insert("id", exchange.id.to_string());
    if exchange.has_raw_text {
        let other = RAW_TEXT_MEMBERS
            .iter()
            .filter_map(|key| Some((*key, json.get(key)?.clone().into_owned())));
        other.for_each(|(key, text)| _ = line.insert(key, text));
    }
    let mut drops = Vec::new();
    let mut keep =
        |line: &mut Object<'static>, key: &'static str, body: Option<WrittenBody<'_>>| {
            if let Some(body) = body {
                drops.extend(body.drops);
                line.insert(key, body.json.into_owned());
            }
        };
    let request = exchange
        .request
        .and_then(|body| read_request(adapter, body, &mut conversation, &context).ok());
    let request = request.map(|read| read.request);
    let mut ids = conversation.ids.clone();
    let written = request
        .as_ref()
        .map(|request| write_request(target, request, &mut ids, WriteOptions::default()));
    keep(&mut line, "request", written);
    let fold = exchange.folded(adapter);
    let body = match &exchange.response {
        ResponseBody::Json(body) => Some(*body),
        _ => fold.as_ref().map(|fold| &fold.folded.body),
    };
    if let Some(body) = body.filter(|body| adapter.is_response(body)) {
        if let Ok(read) = read_response(adapter, body, &mut conversation, &context) {
            let written = write_response(
                target,
                &read.response,
                &mut conversation.ids,
                WriteOptions::default(),
            );
            keep(&mut line, "response", Some(written));
        }
    } else if let Some(report) = body.and_then(|body| read_error(adapter, body)) {
        line.insert("response", write_error(target, &report).into_owned());
    }
    (Json::Object(line).to_string(), drops)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: &str = r#"{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T12:00:00Z","request":{"model":"gpt-5","messages":[
        {"role":"system","content":"be brief"},{"role":"user","content":"weather?"}]},"response":{"id":"r","model":"gpt-5","choices":[{"index":0,
        "message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"w","arguments":"{\"c\": 1.50}"}}]},
        "finish_reason":"tool_calls"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}}"#;

    fn converted(
        input: &str,
        from: TranscriptKind,
        to: Form,
        provider: Option<&str>,
    ) -> (Vec<Json<'static>>, Vec<String>) {
        let target = provider.map(|key| crate::wire::registry::by_key(key).unwrap());
        let prices = PriceTable::builtin();
        let conversion = Conversion {
            from,
            to,
            options: ReadOptions::default(),
            target,
            prices: &prices,
        };
        let (mut out, mut notices) = (Vec::new(), Vec::new());
        convert(input.as_bytes(), conversion, &mut out, &mut |notice| {
            notices.push(format!("{notice:?}"))
        })
        .unwrap();
        let lines = String::from_utf8(out).unwrap();
        (
            lines
                .lines()
                .map(|line| Json::parse(line.as_bytes()).unwrap().into_owned())
                .collect(),
            notices,
        )
    }

    fn text(lines: &[Json]) -> String {
        lines
            .iter()
            .map(Json::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn every_form_becomes_every_other() {
        let chat = CHAT.replace('\n', "");
        let (messages, _) = converted(&chat, TranscriptKind::Exchanges, Form::Messages, None);
        assert_eq!(messages.len(), 3);
        let (grains, _) = converted(&chat, TranscriptKind::Exchanges, Form::Grains, None);
        assert_eq!(grains.len(), 4);
        // Messages know what grains need, so the grains are the same but for what only the response
        // says.
        let (again, faults) = converted(
            &text(&messages),
            TranscriptKind::Messages,
            Form::Grains,
            None,
        );
        assert_eq!(
            (again.len(), again[0].clone(), faults.len()),
            (4, grains[0].clone(), 0)
        );
        let (back, faults) = converted(
            &text(&grains),
            TranscriptKind::GrainLines,
            Form::Messages,
            None,
        );
        assert_eq!((back.len(), faults.len()), (3, 0));
        for (left, right) in back.iter().zip(&messages) {
            for key in ["id", "session_id", "role", "content", "created_at"] {
                assert_eq!(left.get(key), right.get(key), "{key}");
            }
        }
        assert_eq!(
            converted(
                &text(&grains),
                TranscriptKind::GrainLines,
                Form::Grains,
                None
            ),
            (grains, Vec::new())
        );
        let (cmf, _) = converted(&chat, TranscriptKind::Exchanges, Form::Cmf, None);
        assert_eq!(cmf.len(), 3);
        assert_eq!(
            converted(&text(&cmf), TranscriptKind::Cmf, Form::Messages, None)
                .0
                .len(),
            3
        );
        let (views, _) = converted(
            &text(&messages),
            TranscriptKind::Messages,
            Form::Views,
            None,
        );
        let kinds: Vec<_> = views
            .iter()
            .map(|view| view.get("kind").and_then(Json::as_str).unwrap())
            .collect();
        assert_eq!(kinds, ["text", "text", "tool_call"]);
    }

    #[test]
    fn a_result_names_its_tool_wherever_its_call_stands() {
        let call = CHAT.replace('\n', "");
        // The later exchange stands first; the call is told best where it was the answer.
        let result = call
            .replace("12:00:00Z", "12:00:09Z")
            .replace(
                r#"{"role":"user","content":"weather?"}"#,
                r#"{"role":"user","content":"weather?"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function",
                "function":{"name":"w","arguments":"{\"c\": 1.50}"}}]},{"role":"tool","tool_call_id":"call_1","content":"wet"}"#,
            )
            .replace('\n', "");
        for lines in [format!("{result}\n{call}"), format!("{call}\n{result}")] {
            let (views, _) = converted(&lines, TranscriptKind::Exchanges, Form::Views, None);
            let of_result = views
                .iter()
                .filter(|view| view.get("kind").and_then(Json::as_str) == Some("tool_result"));
            let uris: Vec<_> = of_result
                .map(|view| view.get("uri").and_then(Json::as_str))
                .collect();
            assert_eq!(uris, [Some("tool_result://w")]);
        }
    }

    #[test]
    fn an_exchange_comes_back_and_goes_to_another_provider() {
        let chat = CHAT.replace('\n', "");
        let original = Json::parse(chat.as_bytes()).unwrap();
        let (same, _) = converted(&chat, TranscriptKind::Exchanges, Form::Exchanges, None);
        for key in ["provider", "endpoint", "request", "response", "recorded_at"] {
            assert!(
                same[0]
                    .get(key)
                    .unwrap()
                    .is_identical(original.get(key).unwrap()),
                "{key}"
            );
        }
        let (claude, _) = converted(
            &chat,
            TranscriptKind::Exchanges,
            Form::Exchanges,
            Some("anthropic/messages"),
        );
        let block = claude[0]
            .get("response")
            .and_then(|body| body.get("content"))
            .and_then(Json::as_array)
            .unwrap()[0]
            .to_string();
        assert_eq!(
            block,
            r#"{"type":"tool_use","id":"call_1","name":"w","input":{"c":1.50}}"#
        );
        // And from its messages alone.
        let (messages, _) = converted(&chat, TranscriptKind::Exchanges, Form::Messages, None);
        let (sent, _) = converted(
            &text(&messages),
            TranscriptKind::Messages,
            Form::Exchanges,
            Some("gemini/generatecontent"),
        );
        assert_eq!(
            sent[0]
                .get("request")
                .and_then(|body| body.get("contents"))
                .and_then(Json::as_array)
                .map(<[_]>::len),
            Some(1)
        );
    }

    #[test]
    fn an_answer_without_a_word_is_one_message_and_an_unknown_role_goes_all_the_way() {
        let line = |second: u8, messages: &str, answer: &str| {
            format!(
                r#"{{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T12:00:0{second}Z","request":{{"messages":[{messages}]}},"response":{{
                    "choices":[{{"index":0,"message":{{"role":"assistant","content":"{answer}"}},"finish_reason":"stop"}}]}}}}"#
            )
            .replace('\n', "")
        };
        let asked = r#"{"role":"user","content":"hi"}"#;
        let told = r#"{"role":"ipython","content":"42"}"#;
        let resent = format!(r#"{asked},{{"role":"assistant","content":""}},{told}"#);
        let chat = format!("{}\n{}", line(1, asked, ""), line(2, &resent, "ok"));
        let (messages, _) = converted(&chat, TranscriptKind::Exchanges, Form::Messages, None);
        let roles: Vec<_> = messages
            .iter()
            .map(|message| message.get("role").and_then(Json::as_str).unwrap())
            .collect();
        assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
        let (grains, _) = converted(&chat, TranscriptKind::Exchanges, Form::Grains, None);
        let (back, _) = converted(
            &text(&grains),
            TranscriptKind::GrainLines,
            Form::Messages,
            None,
        );
        for list in [&messages, &back] {
            assert!(list[2].to_string().contains(told), "{}", list[2]);
        }
        let (again, _) = converted(
            &text(&messages),
            TranscriptKind::Messages,
            Form::Exchanges,
            Some("openai/chat"),
        );
        assert!(
            text(&again).contains(&format!(",{told}")),
            "{}",
            text(&again)
        );
    }

    #[test]
    fn what_cannot_be_read_is_told_and_the_rest_goes_on() {
        let input = format!(
            "oops\n{}\n{{\"provider\":\"x\",\"endpoint\":\"y\",\"request\":{{}}}}",
            CHAT.replace('\n', "")
        );
        let (messages, notices) =
            converted(&input, TranscriptKind::Exchanges, Form::Messages, None);
        assert_eq!((messages.len(), notices.len()), (3, 2));
        assert!(notices[0].contains("Json") && notices[1].contains("Opaque"));
    }
}
