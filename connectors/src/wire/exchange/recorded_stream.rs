//! The events of a response, in the framing in which they were recorded.

use gristmill_schemas::json::Json;

use crate::wire::framing::json_array::ArrayItems;
use crate::wire::framing::{
    SkipFrame, StreamFrame, StreamFrames, aws, json_array, lines, ndjson, sse,
};

/// The events of a response, in the framing in which they were recorded.
#[derive(Debug, Clone)]
pub enum RecordedStream<'a> {
    /// Server-sent events.
    Sse(&'a str),
    /// One event's data per line.
    Lines(&'a str),
    /// The bytes of an AWS event stream.
    AwsBytes(Vec<u8>),
    /// All events in one JSON array.
    Array(&'a [Json<'a>]),
    /// The same as text.
    ArrayText(&'a str),
    /// The text of a stream that was recorded in pieces.
    Joined(String),
}

/// Returns the stream that was recorded as a list of events, or of pieces of its text: lines, or
/// what the network delivered at a time. `None` for another list.
pub(super) fn listed_stream<'a>(pieces: &'a [Json<'a>]) -> Option<RecordedStream<'a>> {
    if !pieces.is_empty() && pieces.iter().all(|piece| piece.as_object().is_some()) {
        return Some(RecordedStream::Array(pieces));
    }
    let pieces: Vec<&str> = pieces.iter().map(Json::as_str).collect::<Option<_>>()?;
    let has_breaks = pieces.iter().any(|piece| piece.contains(['\n', '\r']));
    Some(RecordedStream::Joined(match has_breaks {
        true => pieces.concat(),
        false => pieces.join("\n"),
    }))
}

/// Members of the events of providers that stream lines or arrays.
const EVENT_MEMBERS: [&str; 7] = [
    "candidates",
    "choices",
    "done",
    "error",
    "event_type",
    "promptFeedback",
    "usageMetadata",
];

/// Returns true if each of `texts` is the data of an event, except for a last one that may be cut.
fn are_events<'t>(texts: impl Iterator<Item = &'t str>, may_be_cut: bool) -> bool {
    let is_event = |text: &str| {
        Json::parse_lossy(text.as_bytes()).is_ok_and(|json| {
            aws::is_recorded_frame(&json)
                || EVENT_MEMBERS.iter().any(|name| json.get(name).is_some())
        })
    };
    let texts: Vec<&str> = texts.collect();
    let other = texts.iter().position(|text| !is_event(text));
    match other {
        None => !texts.is_empty(),
        Some(at) => may_be_cut && at > 0 && at + 1 == texts.len(),
    }
}

/// Returns true if `text` is an error of a provider: an object, also over several lines.
fn is_error(text: &str) -> bool {
    let json = Json::parse_lossy(text.as_bytes());
    json.is_ok_and(|json| {
        json.get("error")
            .is_some_and(|error| error.as_object().is_some())
    })
}

/// Returns true if `text` consists of server-sent events, except for a cut end, and one has an
/// object of JSON.
fn is_events(text: &str) -> bool {
    let mut found: Vec<&str> = lines(text).filter(|line| !line.trim().is_empty()).collect();
    let is_object = |data: &str| {
        let json = Json::parse_lossy(data.as_bytes());
        json.is_ok_and(|json| json.as_object().is_some())
    };
    let mut data = found.iter().filter_map(|line| line.strip_prefix("data:"));
    let has_object = data.any(is_object);
    if !text.ends_with(['\n', '\r']) {
        found.pop();
    }
    has_object && found.into_iter().all(sse::is_field)
}

/// Chooses the framing of a recorded text; without a known name by its first character.
pub(super) fn text_stream<'a>(stream: &'a str, framing: Option<&str>) -> RecordedStream<'a> {
    match framing {
        Some("aws-eventstream" | "ndjson" | "chunks-jsonl") => RecordedStream::Lines(stream),
        // Neither a field of an event nor a value of its own.
        _ if stream.trim_start().starts_with('[') => RecordedStream::ArrayText(stream),
        Some("sse") => RecordedStream::Sse(stream),
        _ if stream.trim_start().starts_with('{') => RecordedStream::Lines(stream),
        _ => RecordedStream::Sse(stream),
    }
}

impl<'a> RecordedStream<'a> {
    /// Returns false for a text or bytes that aren't a stream in this framing, not even a cut one:
    /// pages and messages of gateways are recorded as the stream that the client requested.
    pub(super) fn is_plausible(&self) -> bool {
        match self {
            RecordedStream::Sse(text) => sse::has_field(text),
            RecordedStream::Lines(text) => ndjson::has_frame(text),
            RecordedStream::AwsBytes(bytes) => aws::begins_with_frame(bytes),
            RecordedStream::Array(_) => true,
            RecordedStream::ArrayText(text) => json_array::has_item(text),
            RecordedStream::Joined(text) => text_stream(text, None).is_plausible(),
        }
    }

    /// Returns true if a text that may also be the words of an answer is a stream in this framing:
    /// all of it, except for a cut end, and with data that may be a stream's.
    pub(super) fn is_certain(&self) -> bool {
        match self {
            RecordedStream::Sse(text) => is_events(text),
            RecordedStream::Lines(text) => {
                let texts = lines(text).map(str::trim).filter(|line| !line.is_empty());
                is_error(text) || are_events(texts, !text.ends_with('\n'))
            }
            RecordedStream::ArrayText(text) => {
                let items = ArrayItems::of(text);
                !items.is_followed && are_events(items.texts.into_iter(), !items.is_closed)
            }
            _ => self.is_plausible(),
        }
    }

    /// Parses all frames.
    pub fn frames(&self) -> StreamFrames<'a> {
        self.frames_skipping(&|_| false)
    }

    /// Parses the frames except those for whose text `skip` returns true. Framings without text
    /// ignore `skip`. Frames of an AWS event stream may be recorded as JSON in any framing.
    pub fn frames_skipping(&self, skip: SkipFrame<'_>) -> StreamFrames<'a> {
        let mut frames = self.recorded_frames(skip);
        frames.frames = frames.frames.into_iter().map(aws::recorded_frame).collect();
        frames
    }

    /// Parses the frames as they were recorded.
    fn recorded_frames(&self, skip: SkipFrame<'_>) -> StreamFrames<'a> {
        match self {
            RecordedStream::Sse(text) => sse::frames_skipping(text, skip),
            RecordedStream::Lines(text) => ndjson::frames_skipping(text, skip),
            RecordedStream::AwsBytes(bytes) => aws::frames(bytes).0,
            RecordedStream::ArrayText(text) => json_array::frames_skipping(text, skip),
            RecordedStream::Joined(text) => {
                text_stream(text, None).recorded_frames(skip).into_owned()
            }
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
