//! A stream as one JSON array, whose items are the events. Gemini streams one unless the request
//! selects server-sent events. A cut one has the items before the cut.

use std::borrow::Cow;

use super::{FrameParser, SkipFrame, StreamFrames};

/// Returns true if `text` begins with an array that has an item, or the beginning of one.
pub fn has_item(text: &str) -> bool {
    items(text).next().is_some_and(|item| item.starts_with('{'))
}

/// Parses the frames of `text` except those that `skip` selects.
pub fn frames_skipping<'f>(text: &'f str, skip: SkipFrame<'_>) -> StreamFrames<'f> {
    let mut parser = FrameParser::new(skip);
    for item in items(text) {
        parser.push(None, Cow::Borrowed(item));
    }
    let mut frames = parser.frames;
    frames.is_damaged |= !text.trim_end().ends_with(']');
    frames
}

/// Returns the texts of the items of an array; the last may be cut.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim_start();
    let mut rest = text.strip_prefix('[').unwrap_or_default();
    std::iter::from_fn(move || {
        let end = item_end(rest);
        let (item, after) = rest.split_at_checked(end)?;
        rest = after.strip_prefix(',').unwrap_or_default();
        Some(item.trim()).filter(|item| !item.is_empty())
    })
}

/// Returns the length of the item at the beginning of `text`: up to the comma after it, the end of
/// the array or that of the text.
fn item_end(text: &str) -> usize {
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'[' | b'{' => depth += 1,
            b',' | b']' if depth == 0 => return at,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_items_before_a_cut_are_frames() {
        let read = |text| {
            let frames = frames_skipping(text, &|_| false);
            let frames_and_rest = (frames.frames.len(), frames.unreadable.len());
            (frames_and_rest.0, frames_and_rest.1, frames.is_damaged)
        };
        for (text, expected) in [
            ("[]", (0, 0, false)),
            ("[{\"a\":\"],}\\\"\"},\r\n{\"b\":[1,{}]}]\n", (2, 0, false)),
            ("[{\"a\":1},\r\n{\"b\":[1", (1, 1, true)),
            ("[{\"a\":1},\r\n", (1, 0, true)),
            ("[{\"a\":1}", (1, 0, true)),
            ("[{\"a", (0, 1, true)),
            ("[", (0, 0, true)),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert!(has_item(" [ {\"a"));
        assert!(!has_item("[error] upstream"));
        assert!(!has_item("[]"));
    }
}
