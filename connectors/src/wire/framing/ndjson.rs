//! Newline-delimited JSON: one value per line; or one value over several lines, as servers write
//! errors instead of a stream.

use std::borrow::Cow;

use gristmill_schemas::json::Json;

use super::{FrameParser, SkipFrame, StreamFrame, StreamFrames, lines};

/// Parses the frames of `text`; blank lines are ignored.
pub fn frames(text: &str) -> StreamFrames<'_> {
    frames_skipping(text, &|_| false)
}

/// Parses the frames of `text` except those that `skip` selects.
pub fn frames_skipping<'f>(text: &'f str, skip: SkipFrame<'_>) -> StreamFrames<'f> {
    let mut parser = FrameParser::new(skip);
    for line in lines(text).map(str::trim).filter(|line| !line.is_empty()) {
        parser.push(None, Cow::Borrowed(line));
    }
    let frames = parser.frames;
    if !frames.unreadable.is_empty()
        && let Ok(data) = Json::parse(text.trim().as_bytes())
    {
        return StreamFrames {
            frames: vec![StreamFrame { event: None, data }],
            ..StreamFrames::default()
        };
    }
    frames
}

/// Returns true if `text` has a frame.
pub fn has_frame(text: &str) -> bool {
    let is_json = |text: &str| Json::parse(text.trim().as_bytes()).is_ok();
    lines(text).any(is_json) || is_json(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_and_other_line_endings_are_accepted() {
        let frames = frames("\u{feff}{\"a\":1}\r\n\n  [2]\nnot json\n");
        assert_eq!(frames.frames.len(), 2);
        assert_eq!(frames.unreadable, [(2, "not json".into())]);
    }

    #[test]
    fn a_value_over_several_lines_is_one_frame() {
        let whole = frames("{\n  \"error\": {\"codes\": [\n    1\n  ]}\n}\n");
        let data: Vec<String> = whole.frames.iter().map(|it| it.data.to_string()).collect();
        assert_eq!(data, [r#"{"error":{"codes":[1]}}"#]);
        assert!(whole.unreadable.is_empty());
        let cut = frames("{\n  \"error\": {\n");
        assert_eq!((cut.frames.len(), cut.unreadable.len()), (0, 2));
        for (text, expected) in [
            ("{\n\"a\":1\n}", true),
            ("cut\n{}", true),
            ("{\"a\":", false),
            ("\n", false),
        ] {
            assert_eq!(has_frame(text), expected, "{text}");
        }
    }
}
