//! One recorded request and its response, as a line of exchange JSONL holds them.
//!
//! Streams are dear to read, and whoever looks at an exchange looks more than once (whose is it,
//! where does it stand, what does it say), so what an adapter folded one to is kept with the
//! exchange.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gristmill_schemas::json::Json;
use gristmill_schemas::message::{TimeSource, Timestamp};

use super::adapter::{Adapter, FoldedStream};
use super::framing::{SkipFrame, StreamFrame, StreamFrames, aws, ndjson, sse};
use super::provider_detection::{
    host_of, path_of, provider_from_address, provider_from_bodies, provider_from_name,
};
use crate::moment::moment;

/// One exchange; borrows from its line.
#[derive(Debug, Clone)]
pub struct Exchange<'a> {
    /// Its id.
    pub id: Cow<'a, str>,
    /// The provider's key.
    pub provider: Cow<'a, str>,
    /// The endpoint.
    pub endpoint: Cow<'a, str>,
    /// The host of the address, with the port if it has one.
    pub host: Cow<'a, str>,
    /// The path of the address; some providers put the model there.
    pub url_path: Cow<'a, str>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// When it was recorded, if a grain can say so: programs write the year 1 for `unknown`.
    pub recorded_at: Option<Timestamp>,
    /// The `Date` header of the response, if a grain can say it.
    pub date: Option<Timestamp>,
    /// The request body, if it is JSON.
    pub request: Option<&'a Json<'a>>,
    /// The response.
    pub response: ResponseBody<'a>,
    /// True if there is a body that is neither JSON nor events.
    pub has_raw_text: bool,
    /// True if the line names no provider, so that the bodies had to tell.
    provider_is_guessed: bool,
    /// What adapters folded the stream to, by their keys.
    folds: RefCell<Vec<(&'static str, Rc<CachedFold<'a>>)>>,
    /// The frames, once a second adapter asks for them.
    frames: OnceCell<StreamFrames<'a>>,
}

/// A stream, folded by one adapter.
#[derive(Debug)]
pub struct CachedFold<'a> {
    /// True if the stream has no frames.
    pub is_empty: bool,
    /// What they come to.
    pub folded: FoldedStream<'a>,
}

/// The body of a response.
#[derive(Debug, Clone)]
pub enum ResponseBody<'a> {
    /// There is none, or it isn't JSON.
    None,
    /// One JSON value.
    Json(&'a Json<'a>),
    /// Events.
    Stream(RecordedStream<'a>),
}

/// The events of a response, as they were recorded.
#[derive(Debug, Clone)]
pub enum RecordedStream<'a> {
    /// Server-sent events.
    Sse(&'a str),
    /// One event's data per line.
    Lines(&'a str),
    /// Frames of an AWS event stream, one per line.
    AwsLines(&'a str),
    /// The bytes of an AWS event stream.
    AwsBytes(Vec<u8>),
    /// All events in one array.
    Array(&'a [Json<'a>]),
}

impl<'a> Exchange<'a> {
    /// Reads one line's JSON; a line that names no provider is of `provider`, else of whom its
    /// bodies look like. `None` if it is no exchange at all.
    pub fn from_json_or_detect(json: &'a Json<'a>, provider: Option<&'a str>) -> Option<Self> {
        if let Some(exchange) = Exchange::from_json(json) {
            return Some(exchange);
        }
        json.as_object()?;
        let body = |key| json.get(key).filter(|body| body.as_object().is_some());
        let detected = || {
            let request = body("request").and_then(super::registry::detect_request);
            request
                .or_else(|| body("response").and_then(super::registry::detect_response))
                .map(|adapter| adapter.key())
        };
        let known = [
            "request",
            "response",
            "response_sse",
            "request_text",
            "response_text",
        ];
        if !known
            .iter()
            .any(|key| json.get(key).is_some_and(|value| !value.is_null()))
        {
            return None;
        }
        let named = match provider {
            Some(provider) => provider,
            None => detected().unwrap_or("unknown"),
        };
        let provider_is_guessed = provider.is_none();
        let (provider, endpoint) = named.split_once('/').unwrap_or((named, ""));
        Some(Exchange {
            provider_is_guessed,
            ..Exchange::with_provider(json, provider, endpoint)
        })
    }

    /// Reads one line's JSON; `None` if it names no provider.
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

    pub(crate) fn with_provider(json: &'a Json<'a>, provider: &'a str, endpoint: &'a str) -> Self {
        let text = |key| json.get(key).and_then(Json::as_str);
        let present = |key| json.get(key).filter(|value| !value.is_null());
        let date = present("response_headers")
            .and_then(|headers| headers.get("date"))
            .and_then(Json::as_str);
        let http_date = |time: &Json| Timestamp::parse_http_date(time.as_str()?);
        let recorded_at =
            present("recorded_at").and_then(|time| moment(time).or_else(|| http_date(time)));
        Exchange {
            id: text("id").unwrap_or_default().into(),
            provider: provider.into(),
            endpoint: endpoint.into(),
            host: text("host")
                .or_else(|| text("url").map(host_of))
                .unwrap_or_default()
                .into(),
            url_path: text("url_path")
                .or_else(|| text("url").map(path_of))
                .unwrap_or_default()
                .into(),
            status: present("status").and_then(status),
            recorded_at: recorded_at.filter(|time| time.fits_grain()),
            date: date
                .and_then(Timestamp::parse_http_date)
                .filter(|time| time.fits_grain()),
            request: present("request").filter(|request| request.as_str().is_none()),
            response: response(json),
            has_raw_text: RAW_TEXT_MEMBERS
                .iter()
                .any(|key| text(key).is_some_and(|text| !text.trim().is_empty())),
            provider_is_guessed: json
                .get(GUESSED_PROVIDER_MEMBER)
                .and_then(Json::as_bool)
                .unwrap_or(false),
            folds: RefCell::default(),
            frames: OnceCell::new(),
        }
    }

    /// Who answered, if the line, its address or its bodies tell of another than the provider of
    /// `adapter`, which reads it.
    pub fn actual_provider(&self, adapter: &dyn Adapter) -> Option<Cow<'_, str>> {
        let by_line = || {
            provider_from_name(&self.provider)
                .filter(|_| !self.provider_is_guessed)
                .map(Cow::Borrowed)
        };
        let by_address = || provider_from_address(&self.host, &self.url_path).map(Cow::Borrowed);
        let by_bodies = || {
            let fold = match &self.response {
                ResponseBody::Stream(_) => self.folded(adapter),
                _ => None,
            };
            let response = match &self.response {
                ResponseBody::Json(body) => Some(*body),
                _ => fold.as_ref().map(|fold| &fold.folded.body),
            };
            provider_from_bodies(self.request, response).map(Cow::Borrowed)
        };
        by_line()
            .or_else(by_address)
            .or_else(by_bodies)
            .filter(|provider| provider != adapter.provider())
    }

    /// What `adapter` folds the response's stream to; `None` if the response is no stream. Each
    /// adapter folds it once.
    pub fn folded(&self, adapter: &dyn Adapter) -> Option<Rc<CachedFold<'a>>> {
        let ResponseBody::Stream(stream) = &self.response else {
            return None;
        };
        let mut folds = self.folds.borrow_mut();
        if let Some((_, fold)) = folds.iter().find(|(key, _)| *key == adapter.key()) {
            return Some(Rc::clone(fold));
        }
        let read = || stream.frames();
        let fold = |frames: StreamFrames<'a>| {
            let is_empty = frames.frames.is_empty();
            let mut folded = adapter.fold(frames.frames);
            // Some endpoints say that a stream is over without a reason why the answer is.
            folded.complete |= frames.is_done && !is_empty && folded.error.is_none();
            CachedFold { is_empty, folded }
        };
        let skimmed = || {
            let frames = stream.frames_skipping(&|frame| adapter.is_delta_frame(frame));
            let skipped = frames.skipped;
            let fold = fold(frames);
            (skipped == 0 || adapter.is_complete_without_deltas(&fold.folded)).then_some(fold)
        };
        // Nearly always nobody else asks: then the frames needn't be copied.
        let first = if folds.is_empty() {
            skimmed().or_else(|| Some(fold(read())))
        } else {
            None
        };
        let fold = Rc::new(first.unwrap_or_else(|| fold(self.frames.get_or_init(read).clone())));
        folds.push((adapter.key(), Rc::clone(&fold)));
        Some(fold)
    }

    /// The bodies of `json`, the exchange's line, that are neither JSON nor events, with what says
    /// whose they are.
    pub fn raw_text_bodies<'j>(&self, json: &'j Json<'j>) -> Json<'j> {
        let kept = [
            "id",
            "provider",
            "endpoint",
            "url_path",
            "status",
            "recorded_at",
        ]
        .iter()
        .chain(&RAW_TEXT_MEMBERS);
        Json::Object(
            kept.filter_map(|key| Some((*key, json.get(key)?.reborrow())))
                .collect(),
        )
    }

    /// The time of the exchange: when it was recorded, what the response says, the `Date` header,
    /// else `fallback` (the modification time of the file). A time that no grain can say tells
    /// none.
    pub fn time(&self, response_created: Option<Timestamp>, fallback: Timestamp) -> Timestamp {
        let response_created = response_created.filter(|time| time.fits_grain());
        let response_created = response_created.map(|time| time.given_by(TimeSource::Response));
        let date = self.date.map(|time| time.given_by(TimeSource::Header));
        self.recorded_at
            .or(response_created)
            .or(date)
            .unwrap_or(fallback)
    }

    /// The model that the address names, where it stands there: `…/model/{name}/…` or
    /// `…/models/{name}:…`.
    pub fn model_from_path(&self) -> Option<Cow<'a, str>> {
        let after = |mark: &str| self.url_path.split_once(mark).map(|(_, rest)| rest);
        let bedrock = || after("/model/")?.split_once('/').map(|(name, _)| name);
        let gemini = || after("/models/")?.rsplit_once(':').map(|(name, _)| name);
        let name = bedrock().or_else(gemini).filter(|name| !name.is_empty())?;
        Some(Cow::Owned(percent_decoded(name)))
    }
}

/// The member of a line whose provider isn't told but taken from the form of its bodies.
pub(crate) const GUESSED_PROVIDER_MEMBER: &str = "provider_is_guessed";
/// Members for bodies that are neither JSON nor events.
pub(crate) const RAW_TEXT_MEMBERS: [&str; 2] = ["request_text", "response_text"];

/// A part of an address without its escapes.
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

/// `200` or `"200 OK"`.
fn status(json: &Json) -> Option<u16> {
    match json {
        Json::String(text) => text.split(' ').next()?.parse().ok(),
        other => u16::try_from(other.as_u64()?).ok(),
    }
}

fn response<'a>(json: &'a Json<'a>) -> ResponseBody<'a> {
    let text = |key| json.get(key).and_then(Json::as_str);
    if let Some(body) = json.get("response").filter(|body| !body.is_null()) {
        return match body {
            // Gemini answers a request for a stream so, unless it is asked for events.
            Json::Array(events) if !events.is_empty() => {
                ResponseBody::Stream(RecordedStream::Array(events))
            }
            body => ResponseBody::Json(body),
        };
    }
    if let Some(bytes) = text("response_b64").and_then(|encoded| STANDARD.decode(encoded).ok()) {
        return ResponseBody::Stream(RecordedStream::AwsBytes(bytes));
    }
    let Some(stream) = text("response_sse") else {
        return ResponseBody::None;
    };
    ResponseBody::Stream(match text("framing") {
        Some("aws-eventstream") => RecordedStream::AwsLines(stream),
        Some("ndjson" | "chunks-jsonl") => RecordedStream::Lines(stream),
        Some("sse") => RecordedStream::Sse(stream),
        _ if stream.trim_start().starts_with('{') => RecordedStream::Lines(stream),
        _ => RecordedStream::Sse(stream),
    })
}

impl<'a> RecordedStream<'a> {
    /// The frames.
    pub fn frames(&self) -> StreamFrames<'a> {
        self.frames_skipping(&|_| false)
    }

    /// The frames without those, by their text, that are to be left out where the framing can tell.
    pub fn frames_skipping(&self, skip: SkipFrame<'_>) -> StreamFrames<'a> {
        match self {
            RecordedStream::Sse(text) => sse::frames_skipping(text, skip),
            RecordedStream::Lines(text) => ndjson::frames_skipping(text, skip),
            RecordedStream::AwsLines(text) => ndjson::recorded_aws_frames(text),
            RecordedStream::AwsBytes(bytes) => aws::frames(bytes).0,
            RecordedStream::Array(events) => StreamFrames {
                frames: events
                    .iter()
                    .map(|event| StreamFrame {
                        event: None,
                        data: event.reborrow(),
                    })
                    .collect(),
                ..StreamFrames::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_addresses_name_the_model() {
        for (path, expected) in [
            (
                "/model/us.amazon.nova-lite-v1%3A0/converse",
                Some("us.amazon.nova-lite-v1:0"),
            ),
            (
                "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
                Some("gemini-2.5-pro"),
            ),
            (
                "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x:rawPredict",
                Some("claude-x"),
            ),
            ("/v1/models", None),
            ("/model/", None),
            ("/model/100%/converse", Some("100%")),
        ] {
            let json = Json::Object([("url_path", path)].into_iter().collect());
            let exchange = Exchange::with_provider(&json, "p", "e");
            assert_eq!(exchange.model_from_path().as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn a_stream_is_folded_once_by_each_adapter() {
        use super::super::{anthropic, registry};
        let line = r#"{"provider":"p","endpoint":"e","response_sse":"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\\u00e9\"}}],\"n\":1.50}\n\ndata: {\"error\":{\"code\":5}}\n\n"}"#;
        let json = Json::parse(line.as_bytes()).unwrap();
        let exchange = Exchange::from_json(&json).unwrap();
        let chat = exchange.folded(&registry::OPENAI_CHAT).unwrap();
        assert!(Rc::ptr_eq(
            &chat,
            &exchange.folded(&registry::OPENAI_CHAT).unwrap()
        ));
        assert_ne!(
            chat.folded.body,
            exchange.folded(&anthropic::MESSAGES).unwrap().folded.body
        );
        assert!(chat.folded.error.is_some() && !chat.is_empty && !chat.folded.complete);
    }

    #[test]
    fn a_stream_comes_to_the_same_whether_its_pieces_are_read_or_not() {
        use super::super::registry::OPENAI_RESPONSES as RESPONSES;
        let piece = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","role":"assistant","content":[]}}"#;
        let last =
            r#"{"type":"response.completed","response":{"output":[{"type":"message","id":"m"}]}}"#;
        let empty = r#"{"type":"response.completed","response":{"output":[]}}"#;
        for frames in [
            vec![piece, last],
            vec![piece],
            vec![piece, empty],
            vec![last],
        ] {
            let json = Json::Object([("response_sse", frames.join("\n"))].into_iter().collect());
            let exchange = Exchange::with_provider(&json, "openai", "responses");
            let ResponseBody::Stream(stream) = &exchange.response else {
                panic!("no stream")
            };
            let fold = exchange.folded(&RESPONSES).unwrap();
            assert_eq!(
                fold.folded,
                RESPONSES.fold(stream.frames().frames),
                "{frames:?}"
            );
            assert!(!fold.is_empty);
            let skimmed = stream.frames_skipping(&|frame| RESPONSES.is_delta_frame(frame));
            assert_eq!(skimmed.frames.len(), frames.len() - skimmed.skipped);
        }
    }

    #[test]
    fn a_line_is_read_whatever_its_framing() {
        let line = r#"{"provider":"p","endpoint":"e","status":"200 OK","recorded_at":null,"response_headers":{"date":"Fri, 08 May 2026 12:00:00 GMT"},"framing":"sse","request":"text","response":null,"response_sse":"data: 1\n\n"}"#;
        let json = Json::parse(line.as_bytes()).unwrap();
        let exchange = Exchange::from_json(&json).unwrap();
        assert_eq!(
            (exchange.status, exchange.request.is_none()),
            (Some(200), true)
        );
        let ResponseBody::Stream(stream) = &exchange.response else {
            panic!("no stream")
        };
        assert_eq!(stream.frames().frames.len(), 1);
        let (zero, later) = (Timestamp::from_micros(0), Timestamp::from_seconds(5));
        assert_eq!(
            exchange.time(None, zero),
            Timestamp::parse("2026-05-08T12:00:00Z").unwrap()
        );
        assert_eq!(exchange.time(Some(later), zero), later);
        let year_one = Timestamp::parse("0001-01-01T00:00:00Z");
        assert!(year_one.is_some_and(|time| !time.fits_grain()));
        assert_eq!(exchange.time(year_one, zero), exchange.time(None, zero));
        for (told, expected) in [
            ("\"0001-01-01T00:00:00Z\"", None),
            ("5", Some(later)),
            ("-5", None),
        ] {
            let line = format!(r#"{{"provider":"p","recorded_at":{told}}}"#);
            let json = Json::parse(line.as_bytes()).unwrap();
            assert_eq!(
                Exchange::from_json(&json).unwrap().recorded_at,
                expected,
                "{told}"
            );
        }
    }
}
