//! Newline-delimited JSON: one value per line.

use std::borrow::Cow;

use gristmill_schemas::json::Json;

use super::{FrameParser, SkipFrame, StreamFrames, aws, lines};

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
    parser.frames
}

/// Parses an AWS event stream that was recorded as one `{"headers": …, "payload": …}` per line.
pub fn recorded_aws_frames(text: &str) -> StreamFrames<'_> {
    let mut recorded = frames(text);
    for frame in &mut recorded.frames {
        let Some(object) = frame.data.as_object_mut() else {
            continue;
        };
        let (Some(headers), true) = (object.get("headers"), object.contains_key("payload")) else {
            continue;
        };
        let name = [aws::EVENT_TYPE, aws::EXCEPTION_TYPE]
            .iter()
            .find_map(|header| headers.get(header));
        frame.event = name
            .and_then(Json::as_str)
            .map(|name| Cow::Owned(name.to_owned()));
        let payload = object.remove("payload").unwrap_or_default();
        frame.data = aws::unwrapped(payload);
    }
    recorded
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
}
