//! Batch files, bare bodies, HTTP archives and cassettes as exchange lines.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Number, Object};
use serde_norway::Value as Yaml;

use super::kind::{TranscriptKind, whole};
use super::line::{FaultCode, LINE_LIMIT_BYTES, LineFault, lines};
use crate::wire::bare::bare_body;
use crate::wire::dialect;
use crate::wire::members::{object, text};

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

    /// The entry at line `number` can't be read: its line stays blank, so that the others keep their numbers.
    fn fault(&mut self, fault: LineFault) {
        self.lines.push('\n');
        self.faults.push(fault);
    }

    fn fault_of_file(bytes: &[u8], message: impl Into<String>) -> Recast {
        let fault = LineFault { number: 1, range: 0..bytes.len(), code: FaultCode::Json, message: message.into() };
        Recast { lines: String::new(), faults: vec![fault] }
    }
}

/// The file as exchange lines; `None` for kinds that aren't traffic in another form.
pub fn recast(bytes: &[u8], kind: TranscriptKind) -> Option<Recast> {
    Some(match kind {
        TranscriptKind::Batch => each_line(bytes, batch_line),
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
                None => recast.fault(line.fault(FaultCode::Shape, "neither a request nor a response")),
            },
            Err(fault) => recast.fault(fault),
        }
    }
    recast
}

/// A line of a batch file: of its input, or of its results.
fn batch_line(json: &Json) -> Option<Object<'static>> {
    let id = json.get("custom_id").and_then(Json::as_str).unwrap_or_default();
    let mut exchange = Object::new();
    exchange.insert("id", id.to_owned());
    if let Some(body) = json.get("body").or_else(|| json.get("params")) {
        let (provider, endpoint) = match json.get("url").and_then(Json::as_str) {
            Some(url) => place_of_url("https://api.openai.com", url),
            // Who names the whole request `params` is known; else its shape tells.
            None if json.get("params").is_some() => ("anthropic".to_owned(), "messages".to_owned()),
            None => {
                let (provider, endpoint) = dialect::detect_request(body)?.key().split_once('/')?;
                (provider.to_owned(), endpoint.to_owned())
            }
        };
        name(&mut exchange, &provider, &endpoint);
        exchange.insert("request", body.clone().into_owned());
        return Some(exchange);
    }
    if let Some(result) = json.get("result") {
        name(&mut exchange, "anthropic", "messages");
        let body = result.get("message").or_else(|| result.get("error")).unwrap_or(result);
        exchange.insert("response", body.clone().into_owned());
        return Some(exchange);
    }
    let response = json.get("response").filter(|response| !response.is_null());
    let body = response.and_then(|response| response.get("body")).or_else(|| json.get("error"))?;
    let key = dialect::detect_response(body).map_or("openai/chat", |adapter| adapter.key());
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
    let (half, adapter) = bare_body(json)?;
    let (provider, endpoint) = adapter.key().split_once('/').unwrap_or((adapter.key(), ""));
    let mut exchange = Object::new();
    name(&mut exchange, provider, endpoint);
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
                recast.fault(LineFault { number, range: 0..0, code: FaultCode::Shape, message });
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
    let list = inside.get("entries").or_else(|| json.get("interactions")).or_else(|| json.get("http_interactions"));
    gathered(list.and_then(Json::as_array).unwrap_or_default().iter().map(of))
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
        let (provider, endpoint) = place_of_url("", self.url);
        let mut exchange = Object::new();
        name(&mut exchange, &provider, &endpoint);
        exchange.insert("url_path", path_of(self.url).to_owned());
        exchange.insert("status", self.status.unwrap_or_default());
        exchange.insert("recorded_at", self.recorded_at.map_or(Json::Null, |time| Json::from(time.to_owned())));
        if let Some(date) = self.date {
            exchange.insert("response_headers", object("date", date.to_owned()));
        }
        if let Some(request) = self.request {
            let (key, value) = request.value("request", "request_text");
            exchange.insert(key, value);
        }
        match self.response {
            Some(Text::Base64(encoded)) if self.content_type.contains("eventstream") => {
                exchange.insert("framing", "aws-eventstream");
                exchange.insert("response_b64", encoded.into_owned());
            }
            Some(Text::Plain(text)) if self.content_type.contains("event-stream") => {
                exchange.insert("framing", "sse");
                exchange.insert("response_sse", text.into_owned());
            }
            Some(Text::Plain(text)) if self.content_type.contains("ndjson") => {
                exchange.insert("framing", "ndjson");
                exchange.insert("response_sse", text.into_owned());
            }
            Some(response) => {
                let (key, value) = response.value("response", "response_text");
                exchange.insert(key, value);
            }
            None => {}
        }
        exchange
    }
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
    let encoded = text(content, "encoding").as_deref() == Some("base64");
    let body = content.get("text").and_then(Json::as_str);
    let http = Http {
        url: request.get("url").and_then(Json::as_str)?,
        status: response.get("status").map(|status| status.clone().into_owned()),
        recorded_at: entry.get("startedDateTime").and_then(Json::as_str),
        date: header(response, "date"),
        content_type: text(content, "mimeType").unwrap_or_default(),
        request: request
            .get("postData")
            .and_then(|data| data.get("text")?.as_str())
            .map(|text| Text::Plain(text.into())),
        response: body.map(|text| if encoded { decoded(text) } else { Text::Plain(text.into()) }),
    };
    Some(http.exchange())
}

/// Base64 that is text is text, if need be after it is unpacked.
fn decoded(encoded: &str) -> Text<'_> {
    use base64::Engine as _;
    let base64 = &base64::engine::general_purpose::STANDARD;
    let Ok(bytes) = base64.decode(encoded) else { return Text::Base64(encoded.into()) };
    let unpacked = unpacked(&bytes);
    let repacked = unpacked.as_ref().map(|bytes| base64.encode(bytes));
    match String::from_utf8(unpacked.unwrap_or(bytes)) {
        Ok(text) => Text::Plain(text.into()),
        Err(_) => Text::Base64(repacked.map_or(encoded.into(), Cow::Owned)),
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
    flate2::read::MultiGzDecoder::new(stream).take(limit + 1).read_to_end(&mut unpacked).ok()?;
    (unpacked.len() as u64 <= limit).then_some(unpacked)
}

fn cassette(bytes: &[u8]) -> Recast {
    if bytes.trim_ascii_start().starts_with(b"{") {
        return document(bytes, |json| entries(json, "", interaction));
    }
    // Bodies that are no UTF-8 stand in base64; nothing else may be in a YAML file.
    let Ok(text) = std::str::from_utf8(bytes) else { return Recast::fault_of_file(bytes, "not UTF-8") };
    let tag = unused_tag(text);
    match serde_norway::from_str::<Yaml>(&text.replace(BINARY, &tag)) {
        Ok(yaml) => entries(&json_of_yaml(&yaml, &tag, YAML_LEVELS), "", interaction),
        Err(error) => Recast::fault_of_file(bytes, error.to_string()),
    }
}

/// The tag of bytes in base64. YAML's own tags are lost where a value is read, so another stands for it there; some recorders write
/// the same as a tag of theirs.
const BINARY: &str = "!!binary";
const LOCAL_BINARY: &str = "!binary";

/// A tag that `text` doesn't hold.
fn unused_tag(text: &str) -> String {
    let mut tags = (0_u64..).map(|number| format!("{LOCAL_BINARY}{number}"));
    tags.find(|tag| !text.contains(tag.as_str())).unwrap_or_default()
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
            let integer = number.as_u64().map(Json::from).or_else(|| number.as_i64().map(Json::from));
            let double = || number.as_f64().and_then(Number::from_f64).map(Json::Number);
            integer.or_else(double).unwrap_or_default()
        }
        Yaml::String(text) => Json::from(text.replace(tag, BINARY)),
        Yaml::Sequence(items) => Json::Array(items.iter().map(below).collect()),
        Yaml::Mapping(members) => Json::Object(
            members.iter().filter_map(|(key, value)| Some((key.as_str()?.to_owned(), below(value)))).collect(),
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
        url: ["uri", "url"].iter().find_map(|key| request.get(key)?.as_str())?,
        status: status.and_then(|status| status.get("code")).or(status).map(|status| status.clone().into_owned()),
        recorded_at: json.get("recorded_at").and_then(Json::as_str),
        date: header(response, "date"),
        content_type: header(response, "content-type").unwrap_or_default().to_ascii_lowercase(),
        request: message_body(request),
        response: message_body(response),
    };
    Some(http.exchange())
}

fn message_body<'h>(message: &'h Json<'h>) -> Option<Text<'h>> {
    if let Some(parsed) = message.get("parsed_body") {
        return Some(Text::Json(parsed));
    }
    let body = message.get("body")?;
    let inside = || ["string", "content"].iter().find_map(|key| text_or_bytes(body.get(key)?));
    text_or_bytes(body).or_else(inside).filter(|text| !matches!(text, Text::Plain(plain) if plain.is_empty()))
}

fn text_or_bytes<'h>(json: &'h Json<'h>) -> Option<Text<'h>> {
    let encoded = || json.get("base64_string").and_then(Json::as_str);
    json.as_str().map(|text| Text::Plain(text.into())).or_else(|| encoded().map(decoded))
}

/// The first value of a header; headers are an object, or a list of names and values.
fn header<'h>(message: &'h Json<'h>, wanted: &str) -> Option<&'h str> {
    let value = match message.get("headers")? {
        Json::Array(headers) => {
            let named = |header: &&Json| text(header, "name").is_some_and(|name| name.eq_ignore_ascii_case(wanted));
            headers.iter().find(named)?.get("value")?
        }
        headers => headers.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case(wanted))?.1,
    };
    value.as_array().and_then(<[Json]>::first).unwrap_or(value).as_str()
}

fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    rest.split(['?', '#']).next().unwrap_or_default()
}

/// Hosts and whose they are.
const HOSTS: [(&str, &str); 35] = [
    ("api.anthropic.com", "anthropic"),
    ("openai.azure.com", "azure"),
    ("services.ai.azure.com", "azure"),
    ("cognitiveservices.azure.com", "azure"),
    ("api.openai.com", "openai"),
    ("openrouter.ai", "openrouter"),
    ("generativelanguage.googleapis.com", "gemini"),
    ("aiplatform.googleapis.com", "vertex"),
    ("bedrock-runtime.", "bedrock"),
    ("bedrock-mantle.", "bedrock"),
    ("api.mistral.ai", "mistral"),
    ("api.groq.com", "groq"),
    ("api.deepseek.com", "deepseek"),
    ("api.x.ai", "xai"),
    ("api.together", "together"),
    ("api.fireworks.ai", "fireworks"),
    ("api.cerebras.ai", "cerebras"),
    ("api.perplexity.ai", "perplexity"),
    ("integrate.api.nvidia.com", "nvidia"),
    ("api.moonshot", "moonshot"),
    ("dashscope", "alibaba"),
    ("api.z.ai", "zai"),
    ("api.cohere", "cohere"),
    ("router.huggingface.co", "huggingface"),
    ("models.github.ai", "github"),
    ("models.inference.ai.azure.com", "github"),
    ("ai-gateway.vercel.sh", "vercel-gateway"),
    ("api.writer.com", "writer"),
    ("api.sambanova.ai", "sambanova"),
    ("api.siliconflow", "siliconflow"),
    ("snowflakecomputing.com", "snowflake"),
    ("api.avian.io", "avian"),
    ("crusoecloud.com", "crusoe"),
    (":11434", "ollama"),
    (":1234", "lm-studio"),
];

/// Ends of paths and the endpoints that they are.
const PATHS: [(&str, &str); 11] = [
    ("/chat/completions", "chat"),
    ("/responses", "responses"),
    ("/v1/messages", "messages"),
    (":generateContent", "generatecontent"),
    (":streamGenerateContent", "generatecontent"),
    (":rawPredict", "rawpredict"),
    (":streamRawPredict", "rawpredict"),
    ("/converse", "converse"),
    ("/converse-stream", "converse"),
    ("/invoke", "invoke"),
    ("/invoke-with-response-stream", "invoke"),
];

/// Provider and endpoint by address; `base` is the host of addresses that have none.
fn place_of_url(base: &str, url: &str) -> (String, String) {
    let host = match url.split_once("://") {
        Some((_, rest)) => rest.split('/').next().unwrap_or_default(),
        None => base,
    };
    let path = path_of(url);
    // A port is the end of a host, or another port.
    let is_host = |known: &str| if known.starts_with(':') { host.ends_with(known) } else { host.contains(known) };
    let provider = HOSTS.iter().find(|(known, _)| is_host(known)).map(|(_, provider)| *provider);
    let endpoint = PATHS.iter().find(|(end, _)| path.ends_with(end)).map(|(_, endpoint)| *endpoint);
    let endpoint = match (provider, endpoint) {
        (Some("ollama"), Some("chat")) => "openai-chat",
        (Some("ollama"), None) if path.ends_with("/api/chat") => "chat",
        (_, Some(endpoint)) => endpoint,
        (_, None) => path.trim_start_matches('/'),
    };
    let provider = match (provider, endpoint) {
        (Some(provider), _) => provider,
        (None, "chat" | "responses") => "unknown-compat",
        (None, "messages") => "anthropic",
        (None, _) => host,
    };
    (provider.to_owned(), endpoint.to_owned())
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
            let text = |key| json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
            let has = |key: &str| json.get(key).is_some_and(|value| !value.is_null());
            let parts: Vec<_> =
                ["request", "response", "response_sse", "response_text"].into_iter().filter(|key| has(key)).collect();
            format!("{}/{} {}", text("provider"), text("endpoint"), parts.join("+"))
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
        assert_eq!(told(har, TranscriptKind::Har), ["groq/chat request+response_sse"]);
        let yaml = "interactions:\n- request:\n    uri: https://x.example/v1/messages\n    body: '{\"a\":1}'\n  response:\n    status: {code: 200}\n    headers: {Content-Type: [application/json]}\n    body: {string: '[1]'}\n- request:\n    uri: http://localhost:11434/api/chat\n    parsed_body: {a: 1.5}\n  response:\n    body: {string: oops}\n";
        assert_eq!(
            told(yaml, TranscriptKind::Cassette),
            ["anthropic/messages request+response", "ollama/chat request+response_text"]
        );
    }

    #[test]
    fn a_host_tells_whose_it_is() {
        for (url, expected) in [
            ("https://router.huggingface.co/v1/chat/completions", ("huggingface", "chat")),
            ("https://models.github.ai/inference/chat/completions", ("github", "chat")),
            ("https://ai-gateway.vercel.sh/v1/chat/completions", ("vercel-gateway", "chat")),
            ("https://x.cognitiveservices.azure.com/openai/deployments/g/chat/completions?a=1", ("azure", "chat")),
            ("https://api.siliconflow.cn/v1/chat/completions", ("siliconflow", "chat")),
            ("http://localhost:1234/v1/chat/completions", ("lm-studio", "chat")),
            ("http://localhost:12345/v1/chat/completions", ("unknown-compat", "chat")),
            ("http://localhost:11434/v1/chat/completions", ("ollama", "openai-chat")),
            ("https://api.openai.com/v1/embeddings", ("openai", "v1/embeddings")),
        ] {
            let (provider, endpoint) = place_of_url("", url);
            assert_eq!((provider.as_str(), endpoint.as_str()), expected, "{url}");
        }
        let adapters: Vec<&str> = dialect::adapters().map(|adapter| adapter.provider()).collect();
        let strangers: Vec<_> = HOSTS.iter().filter(|(_, provider)| !adapters.contains(provider)).collect();
        assert_eq!(strangers, [&("api.cohere", "cohere")], "every other provider is spelled as its adapter has it");
    }

    /// `{"a":1}`, packed.
    const PACKED: &str = "H4sIAAAAAAACA6tWSlSyMqwFAK+sG1YHAAAA";

    #[test]
    fn bodies_in_base64_are_read_and_unpacked_and_their_date_is_kept() {
        let yaml = format!(
            "interactions:\n- request:\n    uri: https://x.example/v1/messages\n    method: 'a !!binary0 b'\n    body: !!binary |\n      {PACKED}\n  response:\n    headers: {{Date: ['Fri, 08 May 2026 12:00:00 GMT']}}\n    body:\n      string: !binary |-\n        eyJh\n        IjoyfQ==\n  recorded_at: Fri, 08 May 2026 12:00:01 GMT\n"
        );
        let recast = recast(yaml.as_bytes(), TranscriptKind::Cassette).unwrap();
        let json = Json::parse(recast.lines.as_bytes()).unwrap();
        assert_eq!(json.get("request").map(Json::to_string).as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(json.get("response").map(Json::to_string).as_deref(), Some(r#"{"a":2}"#));
        let exchange = Exchange::from_json(&json).unwrap();
        assert_eq!(exchange.date, Timestamp::parse("2026-05-08T12:00:00Z"));
        assert_eq!(exchange.recorded_at, Timestamp::parse("2026-05-08T12:00:01Z"));
    }

    #[test]
    fn bytes_that_are_no_text_stay_bytes_and_a_broken_stream_is_no_panic() {
        for (encoded, expected) in [("H4sIAAAA", "H4sIAAAA"), ("/w==", "/w=="), ("%", "%")] {
            assert!(matches!(decoded(encoded), Text::Base64(kept) if kept == expected), "{encoded}");
        }
    }

    #[test]
    fn bare_bodies_are_told_by_their_shape_and_others_are_faults() {
        let bodies = r#"[{"model":"m","messages":[{"role":"user","content":"x"}]},{"choices":[{"message":{}}]}]"#;
        assert_eq!(told(bodies, TranscriptKind::Bodies), ["openai/chat request", "openai/chat response"]);
        let recast = recast(b"{\"x\":1}\n\noops", TranscriptKind::Bodies).unwrap();
        let faults: Vec<_> = recast.faults.iter().map(|fault| (fault.number, fault.code.name())).collect();
        assert_eq!(faults, [(1, "ERR_SHAPE"), (3, "ERR_JSON")]);
        assert_eq!(recast.lines, "\n\n\n");
    }
}
