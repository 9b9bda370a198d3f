//! Batch files, bare bodies, HTTP archives and cassettes as exchange lines.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Number, Object};
use serde_norway::Value as Yaml;

use super::entry::document_lines;
use super::kind::{TranscriptKind, whole};
use super::line::{FaultCode, LINE_LIMIT_BYTES, LineFault, lines};
use crate::wire::exchange::GUESSED_PROVIDER_MEMBER;
use crate::wire::framing::aws;
use crate::wire::json_access::{object, text};
use crate::wire::provider_detection::{endpoint_from_url, path_of};
use crate::wire::registry;
use crate::wire::standalone_body::detect_standalone_body;

/// Exchange lines; line `n` is entry `n` of the file.
#[derive(Debug, Default)]
pub struct Recast {
    /// The lines.
    pub lines: String,
    /// Entries that can't be read.
    pub faults: Vec<LineFault>,
}

impl Recast {
    fn push(&mut self, exchange: &Object) {
        Json::Object(exchange.reborrow()).write(&mut self.lines);
        self.lines.push('\n');
    }

    /// The entry at line `number` can't be read: its line stays blank, so that the others keep
    /// their numbers.
    fn fault(&mut self, fault: LineFault) {
        self.lines.push('\n');
        self.faults.push(fault);
    }

    fn fault_of_file(bytes: &[u8], message: impl Into<String>) -> Recast {
        let fault = LineFault {
            number: 1,
            range: 0..bytes.len(),
            code: FaultCode::Json,
            message: message.into(),
        };
        Recast {
            lines: String::new(),
            faults: vec![fault],
        }
    }
}

/// The file as exchange lines; `None` for kinds that aren't traffic in another form, and for files
/// of exchange lines.
pub fn recast(bytes: &[u8], kind: TranscriptKind) -> Option<Recast> {
    Some(match kind {
        TranscriptKind::Exchanges => Recast {
            lines: document_lines(bytes)?,
            faults: Vec::new(),
        },
        TranscriptKind::Batch => match document_lines(bytes) {
            Some(lines) => each_line(lines.as_bytes(), batch_line),
            None => each_line(bytes, batch_line),
        },
        TranscriptKind::Bodies => bodies(bytes),
        TranscriptKind::Har => document(bytes, |json| entries(json, "log", har_entry)),
        TranscriptKind::Cassette => cassette(bytes),
        _ => return None,
    })
}

fn each_line(bytes: &[u8], of: impl Fn(&Json<'_>) -> Option<Object<'static>>) -> Recast {
    let mut recast = Recast::default();
    let mut number = 1;
    for line in lines(bytes) {
        // Blank lines stay, so that a line keeps its number.
        (number..line.number).for_each(|_| recast.lines.push('\n'));
        number = line.number + 1;
        match line.json(bytes) {
            Ok(json) => match of(&json) {
                Some(exchange) => recast.push(&exchange),
                None => {
                    recast.fault(line.fault(FaultCode::Shape, "neither a request nor a response"))
                }
            },
            Err(fault) => recast.fault(fault),
        }
    }
    recast
}

/// A line of a batch file: of its input, or of its results.
fn batch_line(json: &Json) -> Option<Object<'static>> {
    let id = json
        .get("custom_id")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let mut exchange = Object::new();
    exchange.insert("id", id.to_owned());
    if let Some(body) = json.get("body").or_else(|| json.get("params")) {
        let (provider, endpoint) = match json.get("url").and_then(Json::as_str) {
            Some(url) => endpoint_from_url("https://api.openai.com", url),
            // Who names the whole request `params` is known; else its shape tells.
            None if json.get("params").is_some() => ("anthropic".to_owned(), "messages".to_owned()),
            None => {
                let (provider, endpoint) = registry::detect_request(body)?.key().split_once('/')?;
                (provider.to_owned(), endpoint.to_owned())
            }
        };
        name(&mut exchange, &provider, &endpoint);
        exchange.insert("request", body.clone().into_owned());
        return Some(exchange);
    }
    if let Some(result) = json.get("result") {
        name(&mut exchange, "anthropic", "messages");
        let body = result
            .get("message")
            .or_else(|| result.get("error"))
            .unwrap_or(result);
        exchange.insert("response", body.clone().into_owned());
        return Some(exchange);
    }
    let response = json.get("response").filter(|response| !response.is_null());
    let body = response
        .and_then(|response| response.get("body"))
        .or_else(|| json.get("error"))?;
    let key = registry::detect_response(body).map_or("openai/chat", |adapter| adapter.key());
    let (provider, endpoint) = key.split_once('/').unwrap_or((key, ""));
    name(&mut exchange, provider, endpoint);
    if let Some(status) = response.and_then(|response| response.get("status_code")) {
        exchange.insert("status", status.clone().into_owned());
    }
    exchange.insert("response", body.clone().into_owned());
    Some(exchange)
}

fn name(exchange: &mut Object<'static>, provider: &str, endpoint: &str) {
    exchange.insert("provider", provider.to_owned());
    exchange.insert("endpoint", endpoint.to_owned());
}

/// One body a line, or one in the whole file, or a list of them.
fn bodies(bytes: &[u8]) -> Recast {
    let whole = whole(bytes).and_then(Result::ok);
    match whole {
        Some(Json::Array(bodies)) => gathered(bodies.iter().map(body)),
        Some(json) => gathered([body(&json)].into_iter()),
        None => each_line(bytes, body),
    }
}

fn body(json: &Json) -> Option<Object<'static>> {
    let (half, adapter) = detect_standalone_body(json)?;
    let (provider, endpoint) = adapter.key().split_once('/').unwrap_or((adapter.key(), ""));
    let mut exchange = Object::new();
    name(&mut exchange, provider, endpoint);
    exchange.insert(GUESSED_PROVIDER_MEMBER, true);
    exchange.insert(half.member(), json.clone().into_owned());
    Some(exchange)
}

fn gathered(exchanges: impl Iterator<Item = Option<Object<'static>>>) -> Recast {
    let mut recast = Recast::default();
    for (index, exchange) in exchanges.enumerate() {
        match exchange {
            Some(exchange) => recast.push(&exchange),
            None => {
                let message = "neither a request nor a response".to_owned();
                let number = index as u64 + 1;
                recast.fault(LineFault {
                    number,
                    range: 0..0,
                    code: FaultCode::Shape,
                    message,
                });
            }
        }
    }
    recast
}

fn document(bytes: &[u8], of: impl Fn(&Json<'_>) -> Recast) -> Recast {
    match whole(bytes) {
        Some(Ok(json)) => of(&json),
        Some(Err(error)) => Recast::fault_of_file(bytes, error.to_string()),
        None => Recast::fault_of_file(bytes, "too long to be read as one document"),
    }
}

fn entries(json: &Json, key: &str, of: fn(&Json<'_>) -> Option<Object<'static>>) -> Recast {
    let inside = json.get(key).unwrap_or(json);
    let list = inside
        .get("entries")
        .or_else(|| json.get("interactions"))
        .or_else(|| json.get("http_interactions"));
    gathered(
        list.and_then(Json::as_array)
            .unwrap_or_default()
            .iter()
            .map(of),
    )
}

/// A request and its response as HTTP has them.
struct Http<'h> {
    url: &'h str,
    status: Option<Json<'static>>,
    recorded_at: Option<&'h str>,
    /// The `Date` header of the response.
    date: Option<&'h str>,
    content_type: String,
    request: Option<Text<'h>>,
    response: Option<Text<'h>>,
}

/// A body: text, bytes in base64, or JSON that the recorder has read already.
enum Text<'h> {
    Plain(Cow<'h, str>),
    Base64(Cow<'h, str>),
    Json(&'h Json<'h>),
}

impl Http<'_> {
    fn exchange(self) -> Object<'static> {
        let (provider, endpoint) = endpoint_from_url("", self.url);
        let mut exchange = Object::new();
        name(&mut exchange, &provider, &endpoint);
        exchange.insert("url_path", path_of(self.url).to_owned());
        exchange.insert("status", self.status.unwrap_or_default());
        exchange.insert(
            "recorded_at",
            self.recorded_at
                .map_or(Json::Null, |time| Json::from(time.to_owned())),
        );
        if let Some(date) = self.date {
            exchange.insert("response_headers", object("date", date.to_owned()));
        }
        if let Some(request) = self.request {
            let (key, value) = request.value("request", "request_text");
            exchange.insert(key, value);
        }
        match (self.response, Framing::named(&self.content_type)) {
            (Some(Text::Base64(encoded)), framing)
                if framing == Some(Framing::Aws) || is_aws_stream(&encoded) =>
            {
                exchange.insert("framing", Framing::Aws.name());
                exchange.insert("response_b64", encoded.into_owned());
            }
            (Some(Text::Plain(text)), framing) => {
                // Recorders leave headers out, so that the body has to say what it is.
                let named = framing.filter(|framing| *framing != Framing::Aws);
                match named.or_else(|| Framing::of_body(&text)) {
                    Some(framing) => {
                        exchange.insert("framing", framing.name());
                        exchange.insert("response_sse", text.into_owned());
                    }
                    None => {
                        let (key, value) = Text::Plain(text).value("response", "response_text");
                        exchange.insert(key, value);
                    }
                }
            }
            (Some(response), _) => {
                let (key, value) = response.value("response", "response_text");
                exchange.insert(key, value);
            }
            (None, _) => {}
        }
        exchange
    }
}

/// How a body holds the events of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Sse,
    Ndjson,
    Aws,
}

/// Names of the fields of server-sent events.
const SSE_FIELDS: [&str; 4] = ["data", "event", "id", "retry"];
/// Lines of a body that are looked at to tell its framing.
const FRAMING_LINES: usize = 8;

impl Framing {
    fn name(self) -> &'static str {
        match self {
            Framing::Sse => "sse",
            Framing::Ndjson => "ndjson",
            Framing::Aws => "aws-eventstream",
        }
    }

    /// The framing that a content type names.
    fn named(content_type: &str) -> Option<Framing> {
        let content_type = content_type.to_ascii_lowercase();
        let names = [
            ("eventstream", Framing::Aws),
            ("event-stream", Framing::Sse),
            ("ndjson", Framing::Ndjson),
        ];
        names
            .into_iter()
            .find(|(name, _)| content_type.contains(name))
            .map(|(_, framing)| framing)
    }

    /// The framing that a body shows: fields of events with some data among them, or an object a
    /// line with at least two lines.
    fn of_body(text: &str) -> Option<Framing> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty())
            .take(FRAMING_LINES)
            .peekable();
        if lines.peek()?.starts_with('{') {
            let objects = lines
                .take_while(|line| matches!(Json::parse(line.as_bytes()), Ok(Json::Object(_))));
            return (objects.count() > 1).then_some(Framing::Ndjson);
        }
        let field = |line: &str| line.split_once(':').map(|(name, _)| name.to_owned());
        let fields: Vec<_> = lines.map(field).collect();
        // Comments have an empty name.
        let is_field = |name: &Option<String>| {
            name.as_deref()
                .is_some_and(|name| name.is_empty() || SSE_FIELDS.contains(&name))
        };
        let has_data = fields.iter().flatten().any(|name| name == "data");
        (has_data && fields.first().is_some_and(is_field)).then_some(Framing::Sse)
    }
}

/// True if base64 holds frames of an AWS event stream, whose first bytes have a checksum.
fn is_aws_stream(encoded: &str) -> bool {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(encoded)
        .unwrap_or_default();
    !aws::frames(&bytes).0.frames.is_empty()
}

impl Text<'_> {
    /// The member that holds the body, by whether it is JSON.
    fn value(self, json: &'static str, text: &'static str) -> (&'static str, Json<'static>) {
        match self {
            Text::Json(value) => (json, value.clone().into_owned()),
            Text::Base64(encoded) => (text, Json::from(encoded.into_owned())),
            Text::Plain(plain) => match Json::parse(plain.as_bytes()) {
                Ok(value @ (Json::Object(_) | Json::Array(_))) => (json, value.into_owned()),
                _ => (text, Json::from(plain.into_owned())),
            },
        }
    }
}

fn har_entry(entry: &Json) -> Option<Object<'static>> {
    let (request, response) = (entry.get("request")?, entry.get("response")?);
    let content = response.get("content").unwrap_or(&Json::Null);
    let text = |json: &'_ Json, key: &str| json.get(key).and_then(Json::as_str).map(str::to_owned);
    let encoding = text(content, "encoding");
    let http = Http {
        url: request.get("url").and_then(Json::as_str)?,
        status: response
            .get("status")
            .map(|status| status.clone().into_owned()),
        recorded_at: entry.get("startedDateTime").and_then(Json::as_str),
        date: header(response, "date"),
        content_type: text(content, "mimeType").unwrap_or_default(),
        request: request
            .get("postData")
            .and_then(|data| data.get("text")?.as_str())
            .map(|text| Text::Plain(text.into())),
        response: content
            .get("text")
            .and_then(|body| har_body(body, encoding.as_deref())),
    };
    Some(http.exchange())
}

/// The body of a HAR entry: text, base64, or the pieces in which a recorder got it, each in base64,
/// as a list or as the JSON of one.
fn har_body<'h>(body: &'h Json<'h>, encoding: Option<&str>) -> Option<Text<'h>> {
    let is_base64 = encoding == Some("base64");
    let text = match body {
        Json::String(text) => text,
        list => return joined_pieces(list).map(decoded_bytes),
    };
    let listed = || {
        Json::parse(text.as_bytes())
            .ok()
            .filter(|_| text.starts_with('['))
    };
    // Without its encoding named, a list is pieces only if they come to something packed: it may be
    // an answer in JSON.
    let pieces = listed().and_then(|list| joined_pieces(&list));
    let pieces = pieces.filter(|bytes| is_base64 || bytes.starts_with(&GZIP_MAGIC));
    Some(match pieces {
        Some(bytes) => decoded_bytes(bytes),
        None if is_base64 => decoded(text),
        None => Text::Plain(Cow::Borrowed(text)),
    })
}

/// The bytes of a list of pieces in base64; `None` if it is none.
fn joined_pieces(list: &Json) -> Option<Vec<u8>> {
    use base64::Engine as _;
    let pieces = list.as_array().filter(|pieces| !pieces.is_empty())?;
    let mut bytes = Vec::new();
    for piece in pieces {
        let piece = piece.as_str()?.trim();
        bytes.extend(
            base64::engine::general_purpose::STANDARD
                .decode(piece)
                .ok()?,
        );
    }
    Some(bytes)
}

/// Base64 that is text is text, if need be after it is unpacked.
fn decoded(encoded: &str) -> Text<'_> {
    use base64::Engine as _;
    let base64 = &base64::engine::general_purpose::STANDARD;
    match base64.decode(encoded) {
        Ok(bytes) => decoded_bytes(bytes),
        Err(_) => Text::Base64(encoded.into()),
    }
}

/// Bytes that are text are text, if need be after they are unpacked; others stay base64.
fn decoded_bytes(bytes: Vec<u8>) -> Text<'static> {
    use base64::Engine as _;
    let bytes = unpacked(&bytes).unwrap_or(bytes);
    match String::from_utf8(bytes) {
        Ok(text) => Text::Plain(text.into()),
        Err(error) => Text::Base64(
            base64::engine::general_purpose::STANDARD
                .encode(error.as_bytes())
                .into(),
        ),
    }
}

/// What every gzip stream begins with.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A gzip stream, unpacked; `None` if it is none, is broken or is longer than a line may be.
fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let mut unpacked = Vec::new();
    let stream = Some(bytes).filter(|bytes| bytes.starts_with(&GZIP_MAGIC))?;
    let limit = LINE_LIMIT_BYTES as u64;
    flate2::read::MultiGzDecoder::new(stream)
        .take(limit + 1)
        .read_to_end(&mut unpacked)
        .ok()?;
    (unpacked.len() as u64 <= limit).then_some(unpacked)
}

fn cassette(bytes: &[u8]) -> Recast {
    if bytes.trim_ascii_start().starts_with(b"{") {
        return document(bytes, |json| entries(json, "", interaction));
    }
    // Bodies that are no UTF-8 stand in base64; nothing else may be in a YAML file.
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Recast::fault_of_file(bytes, "not UTF-8");
    };
    let tag = unused_tag(text);
    match serde_norway::from_str::<Yaml>(&text.replace(BINARY, &tag)) {
        Ok(yaml) => entries(&json_of_yaml(&yaml, &tag, YAML_LEVELS), "", interaction),
        Err(error) => Recast::fault_of_file(bytes, error.to_string()),
    }
}

/// The tag of bytes in base64. YAML's own tags are lost where a value is read, so another stands
/// for it there; some recorders write the same as a tag of theirs.
const BINARY: &str = "!!binary";
const LOCAL_BINARY: &str = "!binary";

/// A tag that `text` doesn't hold.
fn unused_tag(text: &str) -> String {
    let mut tags = (0_u64..).map(|number| format!("{LOCAL_BINARY}{number}"));
    tags.find(|tag| !text.contains(tag.as_str()))
        .unwrap_or_default()
}

/// Levels of YAML that are followed.
const YAML_LEVELS: usize = 96;

/// YAML in which `tag` stands for [`BINARY`] as JSON.
fn json_of_yaml(yaml: &Yaml, tag: &str, levels: usize) -> Json<'static> {
    if levels == 0 {
        return Json::Null;
    }
    let below = |yaml: &Yaml| json_of_yaml(yaml, tag, levels - 1);
    match yaml {
        Yaml::Null => Json::Null,
        Yaml::Bool(value) => Json::Bool(*value),
        Yaml::Number(number) => {
            let integer = number
                .as_u64()
                .map(Json::from)
                .or_else(|| number.as_i64().map(Json::from));
            let double = || number.as_f64().and_then(Number::from_f64).map(Json::Number);
            integer.or_else(double).unwrap_or_default()
        }
        Yaml::String(text) => Json::from(text.replace(tag, BINARY)),
        Yaml::Sequence(items) => Json::Array(items.iter().map(below).collect()),
        Yaml::Mapping(members) => Json::Object(
            members
                .iter()
                .filter_map(|(key, value)| Some((key.as_str()?.to_owned(), below(value))))
                .collect(),
        ),
        Yaml::Tagged(tagged) => match &tagged.value {
            Yaml::String(text) if tagged.tag == tag || tagged.tag == LOCAL_BINARY => {
                let encoded: String = text.split_ascii_whitespace().collect();
                Json::Object(object("base64_string", encoded))
            }
            value => below(value),
        },
    }
}

/// One interaction of a cassette, in the forms of the common recorders.
fn interaction(json: &Json) -> Option<Object<'static>> {
    let (request, response) = (json.get("request")?, json.get("response")?);
    let status = response.get("status");
    let http = Http {
        url: ["uri", "url"]
            .iter()
            .find_map(|key| request.get(key)?.as_str())?,
        status: status
            .and_then(|status| status.get("code"))
            .or(status)
            .map(|status| status.clone().into_owned()),
        recorded_at: json.get("recorded_at").and_then(Json::as_str),
        date: header(response, "date"),
        content_type: header(response, "content-type")
            .unwrap_or_default()
            .to_ascii_lowercase(),
        request: message_body(request),
        response: message_body(response),
    };
    Some(http.exchange())
}

fn message_body<'h>(message: &'h Json<'h>) -> Option<Text<'h>> {
    match message.get("parsed_body") {
        Some(Json::String(text)) => return Some(Text::Plain(Cow::Borrowed(text))),
        Some(parsed) => return Some(Text::Json(parsed)),
        None => {}
    }
    let body = message.get("body")?;
    let inside = || {
        ["string", "content"]
            .iter()
            .find_map(|key| text_or_bytes(body.get(key)?))
    };
    text_or_bytes(body)
        .or_else(inside)
        .filter(|text| !matches!(text, Text::Plain(plain) if plain.is_empty()))
}

fn text_or_bytes<'h>(json: &'h Json<'h>) -> Option<Text<'h>> {
    let encoded = || json.get("base64_string").and_then(Json::as_str);
    json.as_str()
        .map(|text| Text::Plain(text.into()))
        .or_else(|| encoded().map(decoded))
}

/// The first value of a header; headers are an object, or a list of names and values.
fn header<'h>(message: &'h Json<'h>, wanted: &str) -> Option<&'h str> {
    let value = match message.get("headers")? {
        Json::Array(headers) => {
            let named = |header: &&Json| {
                text(header, "name").is_some_and(|name| name.eq_ignore_ascii_case(wanted))
            };
            headers.iter().find(named)?.get("value")?
        }
        headers => {
            headers
                .as_object()?
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(wanted))?
                .1
        }
    };
    value
        .as_array()
        .and_then(<[Json]>::first)
        .unwrap_or(value)
        .as_str()
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::message::Timestamp;

    use super::*;
    use crate::wire::exchange::Exchange;

    fn told(text: &str, kind: TranscriptKind) -> Vec<String> {
        let recast = recast(text.as_bytes(), kind).unwrap();
        assert!(recast.faults.is_empty(), "{:?}", recast.faults);
        let line = |line: &str| {
            let json = Json::parse(line.as_bytes()).unwrap();
            let text = |key| {
                json.get(key)
                    .and_then(Json::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let has = |key: &str| json.get(key).is_some_and(|value| !value.is_null());
            let parts: Vec<_> = ["request", "response", "response_sse", "response_text"]
                .into_iter()
                .filter(|key| has(key))
                .collect();
            format!(
                "{}/{} {}",
                text("provider"),
                text("endpoint"),
                parts.join("+")
            )
        };
        recast.lines.lines().map(line).collect()
    }

    #[test]
    fn batch_lines_are_requests_or_responses() {
        let lines = [
            r#"{"custom_id":"0","method":"POST","url":"/v1/responses","body":{"input":"x"}}"#,
            r#"{"custom_id":"0","response":{"status_code":200,"body":{"object":"response","output":[]}},"error":null}"#,
            r#"{"custom_id":"0","result":{"type":"succeeded","message":{"type":"message","content":[]}}}"#,
            r#"{"custom_id":"0","params":{"max_tokens":1,"messages":[]}}"#,
            r#"{"custom_id":"0","body":{"max_tokens":1,"messages":[{"role":"user","content":"hi"}]}}"#,
        ];
        let expected = [
            "openai/responses request",
            "openai/responses response",
            "anthropic/messages response",
            "anthropic/messages request",
            "openai/chat request",
        ];
        assert_eq!(told(&lines.join("\n"), TranscriptKind::Batch), expected);
    }

    #[test]
    fn archives_and_cassettes_are_exchanges() {
        let har = r#"{"log":{"entries":[{"startedDateTime":"2026-05-08T12:00:00Z","request":{"url":"https://api.groq.com/openai/v1/chat/completions",
            "postData":{"text":"{\"messages\":[]}"}},"response":{"status":200,"content":{"mimeType":"text/event-stream","text":"data: {}\n\n"}}}]}}"#;
        assert_eq!(
            told(har, TranscriptKind::Har),
            ["groq/chat request+response_sse"]
        );
        let yaml = "interactions:\n- request:\n    uri: https://x.example/v1/messages\n    body: \
                    '{\"a\":1}'\n  response:\n    status: {code: 200}\n    headers: {Content-Type: \
                    [application/json]}\n    body: {string: '[1]'}\n- request:\n    uri: \
                    http://localhost:11434/api/chat\n    parsed_body: {a: 1.5}\n  response:\n    \
                    body: {string: oops}\n";
        assert_eq!(
            told(yaml, TranscriptKind::Cassette),
            [
                "anthropic/messages request+response",
                "ollama/chat request+response_text"
            ]
        );
    }

    /// `{"a":1}`, packed.
    const PACKED: &str = "H4sIAAAAAAACA6tWSlSyMqwFAK+sG1YHAAAA";

    #[test]
    fn bodies_in_base64_are_read_and_unpacked_and_their_date_is_kept() {
        let yaml = format!(
            "interactions:\n- request:\n    uri: https://x.example/v1/messages\n    method: 'a \
             !!binary0 b'\n    body: !!binary |\n      {PACKED}\n  response:\n    headers: {{Date: \
             ['Fri, 08 May 2026 12:00:00 GMT']}}\n    body:\n      string: !binary |-\n        \
             eyJh\n        IjoyfQ==\n  recorded_at: Fri, 08 May 2026 12:00:01 GMT\n"
        );
        let recast = recast(yaml.as_bytes(), TranscriptKind::Cassette).unwrap();
        let json = Json::parse(recast.lines.as_bytes()).unwrap();
        assert_eq!(
            json.get("request").map(Json::to_string).as_deref(),
            Some(r#"{"a":1}"#)
        );
        assert_eq!(
            json.get("response").map(Json::to_string).as_deref(),
            Some(r#"{"a":2}"#)
        );
        let exchange = Exchange::from_json(&json).unwrap();
        assert_eq!(exchange.date, Timestamp::parse("2026-05-08T12:00:00Z"));
        assert_eq!(
            exchange.recorded_at,
            Timestamp::parse("2026-05-08T12:00:01Z")
        );
    }

    #[test]
    fn bytes_that_are_no_text_stay_bytes_and_a_broken_stream_is_no_panic() {
        for (encoded, expected) in [("H4sIAAAA", "H4sIAAAA"), ("/w==", "/w=="), ("%", "%")] {
            assert!(
                matches!(decoded(encoded), Text::Base64(kept) if kept == expected),
                "{encoded}"
            );
        }
    }

    /// One interaction with `body` as its response, without any header.
    fn without_headers(body: &str) -> String {
        let mut string = String::new();
        Json::from(body).write(&mut string);
        format!(
            r#"{{"interactions":[{{"request":{{"uri":"https://x.example/v1/chat/completions","body":""}},"response":{{"status":{{"code":200}},"body":{{"string":{string}}}}}}}]}}"#
        )
    }

    #[test]
    fn a_stream_is_recognised_by_its_body_where_headers_were_left_out() {
        for (body, expected) in [
            ("data: {\"choices\":[]}\n\ndata: [DONE]\n\n", "response_sse"),
            (
                ": keep-alive\r\n\r\nevent: a\r\ndata: {}\r\n\r\n",
                "response_sse",
            ),
            ("id: 1\nevent: ping\ndata:{}\n", "response_sse"),
            (
                "{\"message\":{},\"done\":false}\n{\"message\":{},\"done\":true}\n",
                "response_sse",
            ),
            ("{\n  \"choices\": []\n}", "response"),
            ("{\"choices\":[]}", "response"),
            ("{\"choices\":[]}\n", "response"),
            ("Note: data: isn't here", "response_text"),
            ("data without a colon", "response_text"),
            ("upstream: down", "response_text"),
        ] {
            let told = told(&without_headers(body), TranscriptKind::Cassette);
            assert_eq!(told, [format!("unknown-compat/chat {expected}")], "{body}");
        }
    }

    #[test]
    fn frames_of_aws_are_recognised_by_their_checksum() {
        // A frame without headers whose payload is `{}`.
        let mut frame = vec![0, 0, 0, 18, 0, 0, 0, 0];
        frame.extend(crc32fast::hash(&frame).to_be_bytes());
        frame.extend(*b"{}");
        frame.extend(crc32fast::hash(&frame).to_be_bytes());
        // No text: 0xff never stands in UTF-8.
        let encode = |bytes: &[u8]| {
            base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes)
        };
        assert!(is_aws_stream(&encode(&frame)));
        frame[8] ^= 1;
        assert!(!is_aws_stream(&encode(&frame)) && !is_aws_stream("%") && !is_aws_stream(""));
    }

    #[test]
    fn bodies_of_archives_may_be_lists_of_pieces() {
        let encode = |bytes: &[u8]| {
            base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes)
        };
        let packed =
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, PACKED).unwrap();
        let (one, two) = packed.split_at(9);
        let pieces = format!(r#"["{}","{}"]"#, encode(one), encode(two));
        let plain = format!(r#"["{}","{}"]"#, encode(br#"{"a""#), encode(b":1}"));
        let quoted = |list: &str| Json::from(list).to_string();
        for (text, encoding, expected) in [
            (quoted(&pieces), r#","encoding":"base64""#, r#"{"a":1}"#),
            (quoted(&pieces), "", r#"{"a":1}"#),
            (pieces.clone(), "", r#"{"a":1}"#),
            (quoted(&plain), r#","encoding":"base64""#, r#"{"a":1}"#),
            // A list of texts that isn't said to be encoded is what it is.
            (quoted(r#"["abcd"]"#), "", r#"["abcd"]"#),
        ] {
            let har = format!(
                r#"{{"log":{{"entries":[{{"request":{{"url":"https://x.example/v1/messages"}},"response":{{"content":{{"mimeType":"application/json","text":{text}{encoding}}}}}}}]}}}}"#
            );
            let recast = recast(har.as_bytes(), TranscriptKind::Har).unwrap();
            let json = Json::parse(recast.lines.as_bytes()).unwrap();
            assert_eq!(
                json.get("response").map(Json::to_string).as_deref(),
                Some(expected),
                "{text} {encoding}"
            );
        }
    }

    #[test]
    fn bare_bodies_are_told_by_their_shape_and_others_are_faults() {
        let bodies = r#"[{"model":"m","messages":[{"role":"user","content":"x"}]},{"choices":[{"message":{}}]}]"#;
        assert_eq!(
            told(bodies, TranscriptKind::Bodies),
            ["openai/chat request", "openai/chat response"]
        );
        let recast = recast(b"{\"x\":1}\n\noops", TranscriptKind::Bodies).unwrap();
        let faults: Vec<_> = recast
            .faults
            .iter()
            .map(|fault| (fault.number, fault.code.name()))
            .collect();
        assert_eq!(faults, [(1, "ERR_SHAPE"), (3, "ERR_JSON")]);
        assert_eq!(recast.lines, "\n\n\n");
    }
}
