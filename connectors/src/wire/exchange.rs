//! A recorded request and its response: one line of exchange JSONL.
//!
//! Parsing a stream is expensive, and an exchange is examined several times (provider detection,
//! position in the conversation, content), so the folded stream is cached per adapter.
//!
//! | module | question |
//! |---|---|
//! | `recorded_stream` | in which form were the events of a response recorded? |

mod recorded_stream;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gristmill_schemas::json::Json;
use gristmill_schemas::message::{TimeSource, Timestamp};

use super::adapter::{Adapter, FoldedStream};
use super::framing::StreamFrames;
use super::json_access::{flag, present, text_or_empty};
use super::provider_detection::{
    endpoint_at, host_of, path_of, provider_from_address, provider_from_bodies, provider_from_name,
};
use super::registry;
use crate::lenient_timestamp::parse_timestamp;

pub use recorded_stream::RecordedStream;
use recorded_stream::{listed_stream, text_stream};

/// One exchange; borrows from the JSON of its line.
#[derive(Debug, Clone)]
pub struct Exchange<'a> {
    /// The id of the exchange.
    pub id: Cow<'a, str>,
    /// The provider's key.
    pub provider: Cow<'a, str>,
    /// The endpoint of the provider.
    pub endpoint: Cow<'a, str>,
    /// The host of the URL, with the port if it has one.
    pub host: Cow<'a, str>,
    /// The path of the URL; some providers put the model there.
    pub url_path: Cow<'a, str>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// The time of recording, if a grain can represent it: programs write the year 1 for `unknown`.
    pub recorded_at: Option<Timestamp>,
    /// The `Date` header of the response, if a grain can represent it.
    pub date: Option<Timestamp>,
    /// The request body, if it is JSON.
    pub request: Option<&'a Json<'a>>,
    /// The response.
    pub response: ResponseBody<'a>,
    /// True if there is a body that is neither JSON nor a stream of events.
    pub has_raw_text: bool,
    /// True if the line names no provider, so that it was detected from the bodies.
    provider_is_guessed: bool,
    /// The folded stream per adapter key.
    folds: RefCell<Vec<(&'static str, Rc<CachedFold<'a>>)>>,
    /// The frames, parsed when a second adapter folds the stream.
    frames: OnceCell<StreamFrames<'a>>,
}

/// A stream, folded by one adapter, as an [`Exchange`] caches it.
#[derive(Debug)]
pub struct CachedFold<'a> {
    /// True if the stream has no frames.
    pub is_empty: bool,
    /// The folded stream.
    pub folded: FoldedStream<'a>,
}

/// The body of a response.
#[derive(Debug, Clone)]
pub enum ResponseBody<'a> {
    /// The response has no body, or the body isn't JSON.
    None,
    /// One JSON value.
    Json(&'a Json<'a>),
    /// A stream of events.
    Stream(RecordedStream<'a>),
}

impl<'a> Exchange<'a> {
    /// Reads the JSON of one line. If the line names no provider, uses `provider`, or else detects
    /// it from the bodies. Returns `None` if the line isn't an exchange.
    pub fn from_json_or_detect(json: &'a Json<'a>, provider: Option<&'a str>) -> Option<Self> {
        if let Some(exchange) = Exchange::from_json(json) {
            return Some(exchange);
        }
        json.as_object()?;
        let present = |key: &&str| json.get(key).is_some_and(|value| !value.is_null());
        if !BODY_MEMBERS.iter().any(present) {
            return None;
        }
        let key = provider.unwrap_or_else(|| detect_adapter_key(json).unwrap_or("unknown"));
        let provider_is_guessed = provider.is_none();
        let (provider, endpoint) = key.split_once('/').unwrap_or((key, ""));
        Some(Exchange {
            provider_is_guessed,
            ..Exchange::with_provider(json, provider, endpoint)
        })
    }

    /// Reads the JSON of one line; returns `None` if it names no provider.
    pub fn from_json(json: &'a Json<'a>) -> Option<Self> {
        let provider = json.get("provider")?.as_str()?;
        Some(Exchange::with_provider(
            json,
            provider,
            json.get("endpoint")
                .and_then(Json::as_str)
                .unwrap_or_default(),
        ))
    }

    /// Reads the JSON of one line as an exchange with that provider and endpoint, which may be a
    /// path or URL. An empty one is that of the line's URL.
    pub(crate) fn with_provider(json: &'a Json<'a>, provider: &'a str, endpoint: &'a str) -> Self {
        let text = |key| json.get(key).and_then(Json::as_str);
        let url = text("url").or(endpoint.contains('/').then_some(endpoint));
        let url_path = text("url_path").or(url.map(path_of)).unwrap_or_default();
        let address = if endpoint.is_empty() {
            url_path
        } else {
            endpoint
        };
        let response = response(json);
        let has_raw_text = raw_text_members(json, &response).next().is_some();
        Exchange {
            id: text_or_empty(json, "id").into(),
            provider: provider.into(),
            endpoint: endpoint_at(provider, address).unwrap_or(endpoint).into(),
            host: text("host").or(url.map(host_of)).unwrap_or_default().into(),
            url_path: url_path.into(),
            status: present(json, "status").and_then(status),
            recorded_at: present(json, "recorded_at").and_then(recorded_at),
            date: present(json, "response_headers").and_then(date_header),
            request: present(json, "request").filter(|request| request.as_str().is_none()),
            response,
            has_raw_text,
            provider_is_guessed: flag(json, GUESSED_PROVIDER_MEMBER),
            folds: RefCell::default(),
            frames: OnceCell::new(),
        }
    }

    /// Returns the provider that answered, if the line, its URL or its bodies name another one than
    /// the provider of `adapter`, which reads the exchange.
    pub fn actual_provider(&self, adapter: &dyn Adapter) -> Option<Cow<'_, str>> {
        let by_line = || {
            provider_from_name(&self.provider)
                .filter(|_| !self.provider_is_guessed)
                .map(Cow::Borrowed)
        };
        let by_url = || provider_from_address(&self.host, &self.url_path).map(Cow::Borrowed);
        let by_bodies = || {
            let fold = self.folded(adapter);
            let response = self.response_json(fold.as_deref());
            provider_from_bodies(self.request, response).map(Cow::Borrowed)
        };
        by_line()
            .or_else(by_url)
            .or_else(by_bodies)
            .filter(|provider| provider != adapter.provider())
    }

    /// Returns the response's stream as folded by `adapter`, or `None` if the response isn't a
    /// stream. Each adapter folds it once; later calls return the cached result.
    pub fn folded(&self, adapter: &dyn Adapter) -> Option<Rc<CachedFold<'a>>> {
        let ResponseBody::Stream(stream) = &self.response else {
            return None;
        };
        let mut folds = self.folds.borrow_mut();
        if let Some((_, fold)) = folds.iter().find(|(key, _)| *key == adapter.key()) {
            return Some(Rc::clone(fold));
        }
        // Nearly always only one adapter folds a stream: its frames needn't be kept and copied.
        let fold = Rc::new(if folds.is_empty() {
            fold_first(adapter, stream)
        } else {
            let frames = self.frames.get_or_init(|| stream.frames());
            fold_frames(adapter, frames.clone())
        });
        folds.push((adapter.key(), Rc::clone(&fold)));
        Some(fold)
    }

    /// Returns true if the HTTP status is that of an error.
    pub fn has_failed(&self) -> bool {
        self.status.is_some_and(|status| status >= 400)
    }

    /// Returns true if the response is an answer in the dialect of `adapter`.
    pub(super) fn is_answered(&self, adapter: &dyn Adapter) -> bool {
        let fold = self.folded(adapter);
        let body = self.response_json(fold.as_deref());
        body.is_some_and(|body| adapter.is_response(body))
    }

    /// Returns the JSON of the response; that of a stream is in `fold`.
    pub(crate) fn response_json<'b>(
        &'b self,
        fold: Option<&'b CachedFold<'a>>,
    ) -> Option<&'b Json<'a>> {
        match &self.response {
            ResponseBody::Json(body) => Some(*body),
            _ => fold.map(|fold| &fold.folded.body),
        }
    }

    /// Returns the bodies of `json` (the exchange's line) that are neither JSON nor a stream,
    /// together with the members that identify the exchange.
    pub fn raw_text_bodies<'j>(&self, json: &'j Json<'j>) -> Json<'j> {
        let kept = [
            "id",
            "provider",
            "endpoint",
            "url_path",
            "status",
            "recorded_at",
        ]
        .into_iter()
        .chain(self.raw_text_members(json));
        Json::Object(
            kept.filter_map(|key| Some((key, json.get(key)?.reborrow())))
                .collect(),
        )
    }

    /// Returns the members of `json` (the exchange's line) that may have such bodies.
    pub(crate) fn raw_text_members(&self, json: &Json) -> impl Iterator<Item = &'static str> {
        raw_text_members(json, &self.response)
    }

    /// Returns the time of the exchange: the time of recording, that in the response, the `Date`
    /// header, or `fallback` (the time of the file), whichever exists first. Times
    /// that a grain can't represent are ignored.
    pub fn time(&self, response_created: Option<Timestamp>, fallback: Timestamp) -> Timestamp {
        let response_created = response_created.filter(|time| time.fits_grain());
        let response_created = response_created.map(|time| time.with_source(TimeSource::Response));
        let date = self.date.map(|time| time.with_source(TimeSource::Header));
        self.recorded_at
            .or(response_created)
            .or(date)
            .unwrap_or(fallback)
    }

    /// Returns the model in the URL path, if the path is `…/model/{name}/…` or `…/models/{name}:…`.
    pub(crate) fn model_from_path(&self) -> Option<Cow<'a, str>> {
        let after = |mark: &str| self.url_path.split_once(mark).map(|(_, rest)| rest);
        let bedrock = || after("/model/")?.split_once('/').map(|(name, _)| name);
        let gemini = || after("/models/")?.rsplit_once(':').map(|(name, _)| name);
        let name = bedrock().or_else(gemini).filter(|name| !name.is_empty())?;
        Some(Cow::Owned(percent_decoded(name)))
    }
}

/// Returns the JSON of a line whose request is recorded as the text of a JSON object, with the
/// object in place of the text. `None` for any other line. Half of a surrogate pair becomes U+FFFD,
/// as in the line itself.
pub fn with_parsed_request<'j>(json: &'j Json<'j>) -> Option<Json<'j>> {
    let text = json.get("request")?.as_str()?;
    let is_object = text.trim_start().starts_with('{');
    let request = Json::parse_lossy(text.as_bytes()).ok();
    let request = request.filter(|_| is_object)?;
    let mut parsed = json.reborrow();
    parsed.as_object_mut()?.insert("request", request);
    Some(parsed)
}

/// Marks a line whose provider was detected from the form of its bodies.
pub(crate) const GUESSED_PROVIDER_MEMBER: &str = "provider_is_guessed";
/// Members with bodies that are neither JSON nor a stream of events.
const RAW_TEXT_MEMBERS: [&str; 2] = ["request_text", "response_text"];
/// Members with bodies that are JSON. A text isn't.
const JSON_MEMBERS: [&str; 2] = ["request", "response"];
/// The member with the bytes of a stream.
const BASE64_MEMBER: &str = "response_b64";
/// Maximum size of the bytes of a stream. Longer ones are kept as they are.
const AWS_STREAM_LIMIT_BYTES: usize = 64 << 20;
/// The member with the text of a stream.
const STREAM_TEXT_MEMBER: &str = "response_sse";

/// Members with bodies; a line without any of them isn't an exchange.
const BODY_MEMBERS: [&str; 5] = [
    "request",
    "response",
    "response_sse",
    "request_text",
    "response_text",
];

/// Returns the members of `json` with bodies that no adapter reads: texts, among them a request or
/// response that is one and no stream; base64 that can't be decoded, where `response` was read
/// neither from it nor from the member that precedes it; and what was recorded as a stream and
/// isn't one.
fn raw_text_members(json: &Json, response: &ResponseBody) -> impl Iterator<Item = &'static str> {
    let streams: &[&'static str] = match response {
        ResponseBody::Stream(stream) if !stream.is_plausible() => {
            &[BASE64_MEMBER, STREAM_TEXT_MEMBER]
        }
        ResponseBody::Json(_)
        | ResponseBody::Stream(RecordedStream::AwsBytes(_) | RecordedStream::Array(_)) => &[],
        ResponseBody::Stream(_) => &[BASE64_MEMBER],
        ResponseBody::None => &[BASE64_MEMBER, STREAM_TEXT_MEMBER],
    };
    RAW_TEXT_MEMBERS
        .into_iter()
        .chain(JSON_MEMBERS)
        .chain(streams.iter().copied())
        .filter(move |key| is_raw(json, key))
}

/// Returns true if the member `key` has a body other than that which the member is for.
fn is_raw(json: &Json, key: &str) -> bool {
    match json.get(key) {
        None | Some(Json::Null) => false,
        Some(Json::String(_)) if key == "response" && response_text(json).is_some() => false,
        Some(Json::String(text)) => !text.trim().is_empty(),
        Some(_) => !JSON_MEMBERS.contains(&key),
    }
}

/// Decodes base64, which some encoders break into lines.
pub(crate) fn decode_base64(encoded: &str) -> Option<Vec<u8>> {
    let joined = || encoded.split_ascii_whitespace().collect::<String>();
    let decoded = STANDARD.decode(encoded);
    decoded.or_else(|_| STANDARD.decode(joined())).ok()
}

/// Returns the key of the adapter whose dialect the request, or else the response, looks like.
fn detect_adapter_key(json: &Json) -> Option<&'static str> {
    let body = |key| json.get(key).filter(|body| body.as_object().is_some());
    let by_request = body("request").and_then(registry::detect_request);
    let by_response = || body("response").and_then(registry::detect_response);
    by_request.or_else(by_response).map(|adapter| adapter.key())
}

/// Folds the frames of a stream.
fn fold_frames<'a>(adapter: &dyn Adapter, frames: StreamFrames<'a>) -> CachedFold<'a> {
    let is_empty = frames.frames.is_empty();
    let mut folded = adapter.fold(frames.frames);
    // Some endpoints end the stream by its framing, without a stop reason.
    folded.complete |= frames.is_done && !is_empty && folded.error.is_none();
    folded.complete &= !frames.is_damaged;
    CachedFold { is_empty, folded }
}

/// Folds a stream without keeping its frames, if possible without parsing its delta frames.
fn fold_first<'a>(adapter: &dyn Adapter, stream: &RecordedStream<'a>) -> CachedFold<'a> {
    fold_without_deltas(adapter, stream).unwrap_or_else(|| fold_frames(adapter, stream.frames()))
}

/// Folds a stream without parsing its delta frames; returns `None` if the result is incomplete
/// without them.
fn fold_without_deltas<'a>(
    adapter: &dyn Adapter,
    stream: &RecordedStream<'a>,
) -> Option<CachedFold<'a>> {
    let frames = stream.frames_skipping(&|frame| adapter.is_delta_frame(frame));
    let skipped = frames.skipped;
    let fold = fold_frames(adapter, frames);
    (skipped == 0 || adapter.is_complete_without_deltas(&fold.folded)).then_some(fold)
}

/// Parses `recorded_at`: a timestamp in one of several notations, or an HTTP date.
fn recorded_at(json: &Json) -> Option<Timestamp> {
    let http_date = || Timestamp::parse_http_date(json.as_str()?);
    parse_timestamp(json)
        .or_else(http_date)
        .filter(|time| time.fits_grain())
}

/// Parses the `Date` header.
fn date_header(headers: &Json) -> Option<Timestamp> {
    Timestamp::parse_http_date(headers.get("date")?.as_str()?).filter(|time| time.fits_grain())
}

/// Decodes the percent-encoding of a part of a URL.
fn percent_decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let escaped = piece
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let rest = match escaped {
            Some(byte) => {
                bytes.push(byte);
                piece.get(2..).unwrap_or_default()
            }
            None => {
                bytes.push(b'%');
                piece
            }
        };
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parses `200` or `"200 OK"`.
fn status(json: &Json) -> Option<u16> {
    match json {
        Json::String(text) => text.split(' ').next()?.parse().ok(),
        other => u16::try_from(other.as_u64()?).ok(),
    }
}

/// Returns the response body of a line, from whichever member contains it.
fn response<'a>(json: &'a Json<'a>) -> ResponseBody<'a> {
    let text = |key| json.get(key).and_then(Json::as_str);
    if let Some(stream) = response_text(json) {
        return ResponseBody::Stream(stream);
    }
    if let Some(body) = present(json, "response").filter(|body| body.as_str().is_none()) {
        return match body {
            // Gemini streams an array unless the request selects server-sent events.
            Json::Array(events) if !events.is_empty() => {
                ResponseBody::Stream(RecordedStream::Array(events))
            }
            body => ResponseBody::Json(body),
        };
    }
    let bytes = text(BASE64_MEMBER).and_then(decode_base64);
    let is_read = |bytes: &Vec<u8>| (1..=AWS_STREAM_LIMIT_BYTES).contains(&bytes.len());
    if let Some(bytes) = bytes.filter(is_read) {
        return ResponseBody::Stream(RecordedStream::AwsBytes(bytes));
    }
    let stream = match json.get(STREAM_TEXT_MEMBER) {
        Some(Json::String(stream)) => Some(text_stream(stream, text("framing"))),
        Some(Json::Array(pieces)) => listed_stream(pieces),
        _ => None,
    };
    stream.map_or(ResponseBody::None, ResponseBody::Stream)
}

/// Returns the stream that is the text of `response`, where recorders keep the text of every body,
/// or the words of the answer; `None` for another text. A recorder that states the framing of a
/// stream has recorded one.
fn response_text<'a>(json: &'a Json<'a>) -> Option<RecordedStream<'a>> {
    let framing = json.get("framing").and_then(Json::as_str);
    let stream = text_stream(json.get("response")?.as_str()?, framing);
    let is_stream = match framing {
        Some("aws-eventstream" | "chunks-jsonl" | "ndjson" | "sse") => stream.is_plausible(),
        _ => stream.is_certain(),
    };
    is_stream.then_some(stream)
}
