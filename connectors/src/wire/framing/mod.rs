//! Stream framings: split the bytes of a stream into frames.
//!
//! | module | framing |
//! |---|---|
//! | [`sse`] | server-sent events |
//! | [`ndjson`] | one JSON value per line |
//! | [`json_array`] | one JSON array |
//! | [`aws`] | AWS event stream: binary frames with checksums |
//!
//! Framings determine where a frame begins and ends and the name of its event. Adapters interpret
//! the data.

pub mod aws;
pub mod json_array;
pub mod ndjson;
pub mod sse;

use std::borrow::Cow;

use gristmill_schemas::json::{DEFAULT_VALUE_LIMIT, Json, JsonParser};
use memchr::memchr2;

/// Maximum number of values and keys in all frames of a stream. 128,000 tokens with a chunk each
/// have a quarter of it.
const STREAM_VALUE_LIMIT: usize = 4 * DEFAULT_VALUE_LIMIT;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamFrame<'f> {
    /// The name of the event, if the framing has names.
    pub event: Option<Cow<'f, str>>,
    /// The data of the event.
    pub data: Json<'f>,
}

/// The frames of a stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StreamFrames<'f> {
    /// The frames whose data is JSON.
    pub frames: Vec<StreamFrame<'f>>,
    /// Data that isn't JSON, with the number of frames before it.
    pub unreadable: Vec<(usize, Cow<'f, str>)>,
    /// The number of frames that were skipped.
    pub skipped: usize,
    /// True if the framing marks the end of the stream and the mark was read.
    pub is_done: bool,
    /// True if a frame was lost: one that begins like JSON and isn't, or is beyond the number of
    /// values that are read.
    pub is_damaged: bool,
}

impl StreamFrames<'_> {
    /// Returns the same, which borrows nothing.
    pub fn into_owned(self) -> StreamFrames<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let frames = self.frames.into_iter().map(|frame| StreamFrame {
            event: frame.event.map(owned),
            data: frame.data.into_owned(),
        });
        let unreadable = self.unreadable.into_iter();
        StreamFrames {
            frames: frames.collect(),
            unreadable: unreadable.map(|(at, text)| (at, owned(text))).collect(),
            skipped: self.skipped,
            is_done: self.is_done,
            is_damaged: self.is_damaged,
        }
    }
}

/// Returns true for the text of a frame that needn't be parsed.
pub type SkipFrame<'l> = &'l dyn Fn(&str) -> bool;

/// Returns the lines of `text`, which end in LF, CRLF or CR; the last may have no line ending. A
/// leading byte order mark is skipped.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr2(b'\n', b'\r', rest.as_bytes()).unwrap_or(rest.len());
        let (line, after) = rest.split_at_checked(end)?;
        let after = after
            .strip_prefix("\r\n")
            .or_else(|| after.strip_prefix(['\n', '\r']));
        rest = after.unwrap_or_default();
        Some(line)
    })
}

/// Parses the data of frames and collects them.
struct FrameParser<'f, 'l> {
    frames: StreamFrames<'f>,
    parser: JsonParser<'f>,
    skip: SkipFrame<'l>,
    /// The number of values and keys that may follow.
    values_left: usize,
}

impl<'f, 'l> FrameParser<'f, 'l> {
    fn new(skip: SkipFrame<'l>) -> Self {
        FrameParser {
            frames: StreamFrames::default(),
            parser: JsonParser::new().with_lone_surrogates(),
            skip,
            values_left: STREAM_VALUE_LIMIT,
        }
    }

    /// Adds a frame whose data is `text`.
    fn push(&mut self, event: Option<Cow<'f, str>>, text: Cow<'f, str>) {
        if (self.skip)(&text) {
            self.frames.skipped += 1;
            return;
        }
        if self.values_left == 0 {
            self.frames.is_damaged = true;
            return;
        }
        let (data, values) = match &text {
            Cow::Borrowed(text) => (self.parser.parse(text).ok(), self.parser.values()),
            Cow::Owned(text) => {
                let mut parser = JsonParser::new().with_lone_surrogates();
                let data = parser.parse(text).ok().map(Json::into_owned);
                (data, parser.values())
            }
        };
        self.values_left = self.values_left.saturating_sub(values.max(1));
        match data {
            Some(data) => self.frames.frames.push(StreamFrame { event, data }),
            None => {
                self.frames.is_damaged |= text.trim_start().starts_with(['{', '[']);
                let frames_before = self.frames.frames.len();
                self.frames.unreadable.push((frames_before, text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_damaged_if_a_frame_is_lost() {
        let pushed = |texts: &[&'static str], values_left| {
            let mut parser = FrameParser::new(&|_| false);
            parser.values_left = values_left;
            for text in texts {
                parser.push(None, Cow::Borrowed(text));
                parser.push(None, Cow::Owned((*text).to_owned()));
            }
            (parser.frames.frames.len(), parser.frames.is_damaged)
        };
        for (texts, values_left, expected) in [
            (&["{\"a\":1}", "[2]"][..], 100, (4, false)),
            (&["1", "{\"a\":"], 100, (2, true)),
            (&["1", "", "done"], 100, (2, false)),
            (&["\"\\ud83d\""], 100, (2, false)),
            (&["[1,2]", "3"], 6, (2, true)),
            (&["[1,2]"], 6, (2, false)),
        ] {
            assert_eq!(pushed(texts, values_left), expected, "{texts:?}");
        }
    }

    #[test]
    fn lines_end_in_lf_crlf_or_cr() {
        let found = |text| lines(text).collect::<Vec<_>>();
        assert_eq!(found("a\nb\r\nc\rd"), ["a", "b", "c", "d"]);
        assert_eq!(found("\n\r\n\ré\r\r\n"), ["", "", "", "é", ""]);
        assert_eq!(found("\u{feff}a\n\u{feff}"), ["a", "\u{feff}"]);
        assert!(found("").is_empty() && found("\u{feff}").is_empty());
    }
}
