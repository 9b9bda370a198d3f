//! Stream framings: split the bytes of a stream into frames.
//!
//! | module | framing |
//! |---|---|
//! | [`sse`] | server-sent events |
//! | [`ndjson`] | one JSON value per line |
//! | [`aws`] | AWS event stream: binary frames with checksums |
//!
//! Framings determine where a frame begins and ends and the name of its event. Adapters interpret
//! the data.

pub mod aws;
pub mod ndjson;
pub mod sse;

use std::borrow::Cow;

use gristmill_schemas::json::{Json, JsonParser};
use memchr::memchr2;

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
}

/// Returns true for the text of a frame that needn't be parsed.
pub type SkipFrame<'l> = &'l dyn Fn(&str) -> bool;

/// Returns the lines of `text`, which end in LF, CRLF or CR; the last may have no line ending. A
/// leading byte order mark is skipped.
fn lines(text: &str) -> impl Iterator<Item = &str> {
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
}

impl<'f, 'l> FrameParser<'f, 'l> {
    fn new(skip: SkipFrame<'l>) -> Self {
        FrameParser {
            frames: StreamFrames::default(),
            parser: JsonParser::new(),
            skip,
        }
    }

    /// Adds a frame whose data is `text`.
    fn push(&mut self, event: Option<Cow<'f, str>>, text: Cow<'f, str>) {
        if (self.skip)(&text) {
            self.frames.skipped += 1;
            return;
        }
        let data = match &text {
            Cow::Borrowed(text) => self.parser.parse(text).ok(),
            Cow::Owned(text) => JsonParser::new().parse(text).ok().map(Json::into_owned),
        };
        match data {
            Some(data) => self.frames.frames.push(StreamFrame { event, data }),
            None => self
                .frames
                .unreadable
                .push((self.frames.frames.len(), text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_lf_crlf_or_cr() {
        let found = |text| lines(text).collect::<Vec<_>>();
        assert_eq!(found("a\nb\r\nc\rd"), ["a", "b", "c", "d"]);
        assert_eq!(found("\n\r\n\ré\r\r\n"), ["", "", "", "é", ""]);
        assert_eq!(found("\u{feff}a\n\u{feff}"), ["a", "\u{feff}"]);
        assert!(found("").is_empty() && found("\u{feff}").is_empty());
    }
}
