//! The events of a response, in the framing in which they were recorded.

use gristmill_schemas::json::Json;

use crate::wire::framing::{SkipFrame, StreamFrame, StreamFrames, aws, json_array, ndjson, sse};

/// The events of a response, in the framing in which they were recorded.
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

/// Chooses the framing of a recorded text; without a known name by its first character.
pub(super) fn text_stream<'a>(stream: &'a str, framing: Option<&str>) -> RecordedStream<'a> {
    match framing {
        Some("aws-eventstream") => RecordedStream::AwsLines(stream),
        Some("ndjson" | "chunks-jsonl") => RecordedStream::Lines(stream),
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
            RecordedStream::Lines(text) | RecordedStream::AwsLines(text) => ndjson::has_frame(text),
            RecordedStream::AwsBytes(bytes) => aws::begins_with_frame(bytes),
            RecordedStream::Array(_) => true,
            RecordedStream::ArrayText(text) => json_array::has_item(text),
            RecordedStream::Joined(text) => text_stream(text, None).is_plausible(),
        }
    }

    /// Parses all frames.
    pub fn frames(&self) -> StreamFrames<'a> {
        self.frames_skipping(&|_| false)
    }

    /// Parses the frames except those for whose text `skip` returns true. Framings without text
    /// ignore `skip`.
    pub fn frames_skipping(&self, skip: SkipFrame<'_>) -> StreamFrames<'a> {
        match self {
            RecordedStream::Sse(text) => sse::frames_skipping(text, skip),
            RecordedStream::Lines(text) => ndjson::frames_skipping(text, skip),
            RecordedStream::AwsLines(text) => ndjson::recorded_aws_frames(text),
            RecordedStream::AwsBytes(bytes) => aws::frames(bytes).0,
            RecordedStream::ArrayText(text) => json_array::frames_skipping(text, skip),
            RecordedStream::Joined(text) => {
                text_stream(text, None).frames_skipping(skip).into_owned()
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
