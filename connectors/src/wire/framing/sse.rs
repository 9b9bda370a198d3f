//! Server-sent events.
//!
//! Lines may end in LF, CRLF or CR; comments are skipped; the data of an event may be spread over
//! lines. Unlike a browser, a reader of recordings takes a last event that no blank line ends:
//! recordings are often cut there.

use std::borrow::Cow;

use super::{FrameParser, SkipFrame, StreamFrames, lines};

/// The data by which OpenAI's dialect says that a stream is over.
const DONE: &str = "[DONE]";

/// The frames of `text`.
pub fn frames(text: &str) -> StreamFrames<'_> {
    frames_skipping(text, &|_| false)
}

/// [`frames`] without those that are to be left out.
pub fn frames_skipping<'f>(text: &'f str, skip: SkipFrame<'_>) -> StreamFrames<'f> {
    let mut framer = FrameParser::new(skip);
    let mut event: Option<&str> = None;
    let mut data: Option<Cow<str>> = None;
    for line in lines(text.strip_prefix('\u{feff}').unwrap_or(text)).chain([""]) {
        if line.is_empty() {
            match data.take() {
                Some(data) if data.trim() == DONE => framer.frames.is_done = true,
                Some(data) => framer.push(event.map(Cow::Borrowed), data),
                None => {}
            }
            event = None;
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => event = Some(value),
            "data" => match &mut data {
                None => data = Some(Cow::Borrowed(value)),
                Some(lines) => {
                    let lines = lines.to_mut();
                    lines.push('\n');
                    lines.push_str(value);
                }
            },
            // Comments have an empty field name; ids and retries mean nothing in a recording.
            _ => {}
        }
    }
    framer.frames
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let frames = frames(text).frames.into_iter();
        frames
            .map(|frame| format!("{}:{}", frame.event.as_deref().unwrap_or("-"), frame.data))
            .collect()
    }

    #[test]
    fn every_line_ending_and_comments_and_padding_are_read() {
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
            assert_eq!(told(&text.join(end)), ["a:{\"x\":1}", "-:[1,2]"], "{end:?}");
        }
    }

    #[test]
    fn a_last_event_without_a_blank_line_counts_and_what_is_not_json_is_kept_apart() {
        assert_eq!(told("\u{feff}data: 1"), ["-:1"]);
        let cut = frames("data: 1\n\ndata: {\"x\":\n\n");
        assert_eq!(
            (cut.frames.len(), cut.unreadable),
            (1, vec![(1, "{\"x\":".into())])
        );
        assert!(told("").is_empty());
        assert!(
            told("event: ping\n\n").is_empty(),
            "an event without data is none"
        );
    }
}
