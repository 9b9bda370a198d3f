//! Server-sent events.
//!
//! Lines may end in LF, CRLF or CR; comments are ignored; the data of an event may span several
//! lines. Unlike in a browser, a last event without a blank line after it is valid, because
//! recordings are often truncated there.

use std::borrow::Cow;

use gristmill_schemas::json::Json;

use super::{FrameParser, SkipFrame, StreamFrames, lines};

/// The data that ends a stream in OpenAI's dialect.
const DONE: &str = "[DONE]";

/// The names of the fields.
const FIELDS: [&str; 4] = ["data", "event", "id", "retry"];

/// Returns true if `line` is a field or a comment, which is a field with an empty name.
pub fn is_field(line: &str) -> bool {
    let name = line.split_once(':').map(|(name, _)| name);
    name.is_some_and(|name| name.is_empty() || FIELDS.contains(&name))
}

/// Returns true if `text` has a field or a comment. Other texts aren't streams, not even cut ones.
pub fn has_field(text: &str) -> bool {
    lines(text).any(is_field)
}

/// Parses the frames of `text`.
pub fn frames(text: &str) -> StreamFrames<'_> {
    frames_skipping(text, &|_| false)
}

/// Parses the frames of `text` except those that `skip` selects.
pub fn frames_skipping<'f>(text: &'f str, skip: SkipFrame<'_>) -> StreamFrames<'f> {
    let mut parser = FrameParser::new(skip);
    let mut event: Option<&str> = None;
    let mut data: Option<Cow<str>> = None;
    for line in lines(text).chain([""]) {
        if line.is_empty() {
            if let Some(data) = data.take() {
                push_event(&mut parser, event, data);
            }
            event = None;
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => event = Some(value),
            "data" => append_line(&mut data, value),
            // Comments (an empty field name), ids and retries are irrelevant in a recording.
            _ => {}
        }
    }
    parser.frames
}

/// Adds an event. Recorders may omit the blank lines between events: data whose first line alone is
/// JSON are several events without names.
fn push_event<'f>(parser: &mut FrameParser<'f, '_>, event: Option<&'f str>, data: Cow<'f, str>) {
    let is_json = |text: &str| Json::parse_lossy(text.as_bytes()).is_ok();
    match data {
        Cow::Owned(lines) if is_json(first_line(&lines)) && !is_json(&lines) => {
            let lines = lines.split('\n').map(|line| Cow::Owned(line.to_owned()));
            lines.for_each(|line| push_data(parser, None, line));
        }
        data => push_data(parser, event, data),
    }
}

fn first_line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

/// Adds the data of an event, or notes that they are the end.
fn push_data<'f>(parser: &mut FrameParser<'f, '_>, event: Option<&'f str>, data: Cow<'f, str>) {
    if data.trim() == DONE {
        parser.frames.is_done = true;
    } else {
        parser.push(event.map(Cow::Borrowed), data);
    }
}

/// Appends a line to the data of an event.
fn append_line<'f>(data: &mut Option<Cow<'f, str>>, line: &'f str) {
    match data {
        None => *data = Some(Cow::Borrowed(line)),
        Some(lines) => {
            let lines = lines.to_mut();
            lines.push('\n');
            lines.push_str(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let frames = frames(text).frames.into_iter();
        frames
            .map(|frame| format!("{}:{}", frame.event.as_deref().unwrap_or("-"), frame.data))
            .collect()
    }

    #[test]
    fn all_line_endings_comments_and_padding_are_accepted() {
        for end in ["\n", "\r\n", "\r"] {
            let text = [
                "event: a",
                "data: {\"x\":1}  ",
                "",
                ": comment",
                "",
                "data:[1,",
                "data: 2]",
                "id: 7",
                "",
                "data: [DONE]",
                "",
                "",
            ];
            assert_eq!(
                shown(&text.join(end)),
                ["a:{\"x\":1}", "-:[1,2]"],
                "{end:?}"
            );
        }
    }

    #[test]
    fn events_without_blank_lines_between_them_are_separate() {
        let text = "event: a\ndata: {\"x\":1}\nevent: b\ndata: {\"x\":2}";
        assert_eq!(shown(text), ["-:{\"x\":1}", "-:{\"x\":2}"]);
        let read = frames("data: 1\ndata: 2\ndata: [DONE]\n");
        assert_eq!((read.frames.len(), read.is_done), (2, true));
        let cut = frames("data: 1\ndata: {\"x\":");
        assert_eq!(cut.unreadable, [(1, Cow::Borrowed("{\"x\":"))]);
        assert_eq!(shown("data: {\ndata: \"x\":1}"), ["-:{\"x\":1}"]);
    }

    #[test]
    fn texts_without_a_field_or_comment_are_no_streams() {
        for (text, expected) in [
            ("data: 1", true),
            ("cut\"}\r\n\r\ndata: 1", true),
            (": keep-alive\n\n", true),
            ("<html><p>Error: down</p></html>", false),
            ("upstream: down\ndata is missing", false),
            ("", false),
        ] {
            assert_eq!(has_field(text), expected, "{text}");
        }
    }

    #[test]
    fn a_last_event_without_a_blank_line_is_valid_and_other_data_is_kept_separately() {
        assert_eq!(shown("\u{feff}data: 1"), ["-:1"]);
        let cut = frames("data: 1\n\ndata: {\"x\":\n\n");
        assert_eq!(
            (cut.frames.len(), cut.unreadable),
            (1, vec![(1, "{\"x\":".into())])
        );
        assert!(shown("").is_empty());
        assert!(
            shown("event: ping\n\n").is_empty(),
            "an event without data isn't a frame"
        );
    }
}
