//! A pair of an HTTP request and response, as recorders write it, converted to an exchange.

use std::borrow::Cow;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gristmill_schemas::json::{Json, Object};

use super::new_exchange;
use crate::transcript::line::LINE_LIMIT_BYTES;
use crate::wire::exchange::decode_base64;
use crate::wire::framing::{aws, sse};
use crate::wire::json_access::{object, text};
use crate::wire::provider_detection::{endpoint_from_url, path_of};

/// The magic number of a gzip stream.
pub(super) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The number of bytes to which all compressed bodies of one file together are decompressed.
/// Further ones stay compressed.
const DECOMPRESSED_LIMIT_BYTES: usize = LINE_LIMIT_BYTES;

/// Number of lines of a body that are examined to detect its framing.
const FRAMING_LINES: usize = 8;

/// A request and its response.
pub(super) struct HttpPair<'h> {
    pub(super) url: &'h str,
    pub(super) status: Option<Json<'static>>,
    pub(super) recorded_at: Option<&'h str>,
    /// The `Date` header of the response.
    pub(super) date: Option<&'h str>,
    pub(super) content_type: String,
    pub(super) request: Option<HttpBody<'h>>,
    pub(super) response: Option<HttpBody<'h>>,
}

/// A body: text, bytes in base64, or JSON that the recorder parsed.
pub(super) enum HttpBody<'h> {
    Text(Cow<'h, str>),
    Base64(Cow<'h, str>),
    Json(&'h Json<'h>),
}

impl HttpPair<'_> {
    /// Converts the pair to an exchange. Its provider and endpoint are derived from the URL.
    pub(super) fn into_exchange(self) -> Object<'static> {
        let (provider, endpoint) = endpoint_from_url("", self.url);
        let mut exchange = new_exchange(&provider, &endpoint);
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
            request.insert_into(&mut exchange, "request", "request_text");
        }
        if let Some(response) = self.response {
            insert_response(&mut exchange, response, &self.content_type);
        }
        exchange
    }
}

/// Returns the framing of a stream and the member that holds it, or `None` if the body isn't one.
fn stream_member(body: &HttpBody<'_>, content_type: &str) -> Option<(StreamFraming, &'static str)> {
    let framing = StreamFraming::from_content_type(content_type);
    match body {
        HttpBody::Base64(encoded) => {
            let is_aws = framing == Some(StreamFraming::Aws) || is_aws_stream(encoded);
            is_aws.then_some((StreamFraming::Aws, "response_b64"))
        }
        // Recorders may omit headers, so the text is examined too.
        HttpBody::Text(text) => framing
            .filter(|framing| *framing != StreamFraming::Aws)
            .or_else(|| StreamFraming::detect(text))
            .map(|framing| (framing, "response_sse")),
        HttpBody::Json(_) => None,
    }
}

/// Inserts the body of a response: as a stream if its content type or its text indicates one.
fn insert_response(exchange: &mut Object<'static>, body: HttpBody<'_>, content_type: &str) {
    match (stream_member(&body, content_type), body) {
        (Some((framing, member)), HttpBody::Text(text) | HttpBody::Base64(text)) => {
            exchange.insert("framing", framing.name());
            exchange.insert(member, text.into_owned());
        }
        (_, body) => body.insert_into(exchange, "response", "response_text"),
    }
}

impl<'h> HttpBody<'h> {
    /// Inserts the body as `json_member` if it is a JSON object or array, else as `text_member`.
    fn insert_into(
        self,
        exchange: &mut Object<'static>,
        json_member: &'static str,
        text_member: &'static str,
    ) {
        match self {
            HttpBody::Json(value) => exchange.insert(json_member, value.clone().into_owned()),
            HttpBody::Base64(encoded) => exchange.insert(text_member, encoded.into_owned()),
            HttpBody::Text(text) => match Json::parse_lossy(text.as_bytes()) {
                Ok(value @ (Json::Object(_) | Json::Array(_))) => {
                    exchange.insert(json_member, value.into_owned())
                }
                _ => exchange.insert(text_member, text.into_owned()),
            },
        };
    }

    /// Decodes base64: to text if the bytes are UTF-8, possibly after decompression; otherwise the
    /// body stays base64.
    pub(super) fn decode(encoded: &'h str, decompressor: &mut Decompressor) -> HttpBody<'h> {
        match decode_base64(encoded) {
            Some(bytes) => HttpBody::from_bytes(bytes, decompressor),
            None => HttpBody::Base64(encoded.into()),
        }
    }

    /// Returns bytes as text if they are UTF-8, possibly after decompression; otherwise as base64.
    pub(super) fn from_bytes(bytes: Vec<u8>, decompressor: &mut Decompressor) -> HttpBody<'static> {
        let bytes = decompressor.gunzip(&bytes).unwrap_or(bytes);
        match String::from_utf8(bytes) {
            Ok(text) => HttpBody::Text(text.into()),
            Err(error) => HttpBody::Base64(STANDARD.encode(error.as_bytes()).into()),
        }
    }
}

/// Decompresses the bodies of one file, up to [`DECOMPRESSED_LIMIT_BYTES`] in total.
pub(super) struct Decompressor {
    /// The number of bytes that may still be decompressed.
    left: usize,
}

impl Decompressor {
    pub(super) fn new() -> Decompressor {
        Decompressor::with_limit(DECOMPRESSED_LIMIT_BYTES)
    }

    pub(super) fn with_limit(bytes: usize) -> Decompressor {
        Decompressor { left: bytes }
    }

    /// Decompresses a gzip stream; `None` if the bytes are none, are damaged, or decompress to more
    /// than [`LINE_LIMIT_BYTES`] or than what is left. What is decompressed in vain counts too.
    fn gunzip(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut decompressed = Vec::new();
        let stream = Some(bytes).filter(|bytes| bytes.starts_with(&GZIP_MAGIC))?;
        let limit = self.left.min(LINE_LIMIT_BYTES);
        let read = flate2::read::MultiGzDecoder::new(stream)
            .take(limit as u64 + 1)
            .read_to_end(&mut decompressed);
        self.left = self.left.saturating_sub(decompressed.len());
        (read.is_ok() && decompressed.len() <= limit).then_some(decompressed)
    }
}

/// The framing of the events of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamFraming {
    Sse,
    Ndjson,
    Aws,
}

impl StreamFraming {
    /// Returns the value of the member `framing` of an exchange.
    fn name(self) -> &'static str {
        match self {
            StreamFraming::Sse => "sse",
            StreamFraming::Ndjson => "ndjson",
            StreamFraming::Aws => "aws-eventstream",
        }
    }

    fn from_content_type(content_type: &str) -> Option<StreamFraming> {
        let content_type = content_type.to_ascii_lowercase();
        let names = [
            ("eventstream", StreamFraming::Aws),
            ("event-stream", StreamFraming::Sse),
            ("ndjson", StreamFraming::Ndjson),
        ];
        names
            .into_iter()
            .find(|(name, _)| content_type.contains(name))
            .map(|(_, framing)| framing)
    }

    /// Detects the framing of a body: server-sent events with at least one `data` field, or at
    /// least two lines that are JSON objects.
    fn detect(text: &str) -> Option<StreamFraming> {
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
            return (objects.count() > 1).then_some(StreamFraming::Ndjson);
        }
        is_sse(lines).then_some(StreamFraming::Sse)
    }
}

/// Returns true if the first line is a field of server-sent events or a comment, and any line is a
/// `data` field.
fn is_sse<'t>(lines: impl Iterator<Item = &'t str>) -> bool {
    let lines: Vec<&str> = lines.collect();
    lines.first().is_some_and(|line| sse::is_field(line))
        && lines.iter().any(|line| line.starts_with("data:"))
}

/// Returns true if the base64 text holds a frame of an AWS event stream, which has a checksum.
pub(super) fn is_aws_stream(encoded: &str) -> bool {
    let bytes = decode_base64(encoded).unwrap_or_default();
    !aws::frames(&bytes).0.frames.is_empty()
}

/// Returns the first value of a header. Headers are an object, or an array of names and values.
pub(super) fn header<'h>(message: &'h Json<'h>, name: &str) -> Option<&'h str> {
    let value = match message.get("headers")? {
        Json::Array(headers) => {
            let has_name = |header: &&Json| {
                text(header, "name").is_some_and(|key| key.eq_ignore_ascii_case(name))
            };
            headers.iter().find(has_name)?.get("value")?
        }
        headers => {
            let mut members = headers.as_object()?.iter();
            members.find(|(key, _)| key.eq_ignore_ascii_case(name))?.1
        }
    };
    value
        .as_array()
        .and_then(<[Json]>::first)
        .unwrap_or(value)
        .as_str()
}
