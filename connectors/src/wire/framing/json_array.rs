//! A stream as one JSON array, whose items are the events. Gemini streams one unless the request
//! selects server-sent events. A cut one has the items before the cut.

use std::borrow::Cow;

use super::{FrameParser, SkipFrame, StreamFrames};

/// Returns true if `text` begins with an array that has an item, or the beginning of one.
pub fn has_item(text: &str) -> bool {
    let items = text.trim_start().strip_prefix('[');
    items.is_some_and(|items| items.trim_start().starts_with('{'))
}

/// Parses the frames of `text` except those that `skip` selects.
pub fn frames_skipping<'f>(text: &'f str, skip: SkipFrame<'_>) -> StreamFrames<'f> {
    let mut parser = FrameParser::new(skip);
    let items = ArrayItems::of(text);
    for item in items.texts {
        parser.push(None, Cow::Borrowed(item));
    }
    let mut frames = parser.frames;
    frames.is_damaged |= !items.is_closed;
    frames
}

/// The items of an array, or of several that follow each other, as a client writes that asks again.
pub struct ArrayItems<'t> {
    /// Their texts; the last may be cut, or be what follows the arrays.
    pub texts: Vec<&'t str>,
    /// True if nothing is cut, and nothing else follows.
    pub is_closed: bool,
    /// True if something else follows.
    pub is_followed: bool,
}

impl<'t> ArrayItems<'t> {
    /// Splits `text`.
    pub fn of(text: &'t str) -> ArrayItems<'t> {
        let mut items = ArrayItems {
            texts: Vec::new(),
            is_closed: true,
            is_followed: false,
        };
        let mut rest = text.trim();
        while !rest.is_empty() {
            match rest.strip_prefix('[') {
                Some(array) => rest = items.add(array).trim_start(),
                None => {
                    items.texts.push(rest);
                    (items.is_closed, items.is_followed) = (false, true);
                    break;
                }
            }
        }
        items
    }

    /// Adds the items of the array that `text` is after its bracket, and returns what follows it.
    fn add(&mut self, text: &'t str) -> &'t str {
        let mut rest = text;
        loop {
            let (item, after) = rest.split_at_checked(item_end(rest)).unwrap_or((rest, ""));
            let item = item.trim();
            self.texts.extend((!item.is_empty()).then_some(item));
            match (after.strip_prefix(','), after.strip_prefix(']')) {
                (Some(next), _) => rest = next,
                (None, Some(next)) => return next,
                (None, None) => {
                    self.is_closed = false;
                    return "";
                }
            }
        }
    }
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
            ("[{\"a\":1},,{\"b\":2},]", (2, 0, false)),
            ("[{\"a\":1}]\n[{\"b\":2}]", (2, 0, false)),
            ("[{\"a\":1}] are the persons", (1, 1, true)),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert!(has_item(" [ {\"a"));
        assert!(!has_item("[error] upstream"));
        assert!(!has_item("[]"));
    }
}
