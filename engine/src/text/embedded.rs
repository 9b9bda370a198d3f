//! Texts within binary values, by the lengths before them.
//!
//! A binary value may be a structure of its own: a signature envelope (COSE), a record of another
//! program. The length before a text in it may look like a letter (`8` before 56 bytes, `s` before
//! 19), and so may the header of what follows. So what a length announces is read as a text of its
//! own, if what surrounds it shows that it is one: texts follow each other without gaps, from a
//! byte that isn't text to another one, or to an end.
//!
//! | structure | length before a text |
//! |---|---|
//! | CBOR | in the header of a text or byte string |
//! | MessagePack | the same |
//! | Protocol Buffers | after the tag of a field |
//! | others | in one byte, which may be the last one of a longer number |

use std::ops::Range;

/// Maximal number of bytes that are read per byte of the value: a text may follow several bytes
/// that look like a length.
const MAX_READS: usize = 16;

/// Minimal length in bytes of a text that is reported: shorter identifiers aren't searched for.
const MIN_TEXT: usize = 4;

/// Reads the header of a text. Returns its length, and that of the text.
type LengthHeader = fn(&[u8]) -> Option<(usize, usize)>;

const STRUCTURES: [LengthHeader; 4] = [cbor_header, message_pack_header, field_header, length_byte];

/// Returns whether `bytes` contain anything other than text.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    text_of(bytes).is_none()
}

/// Calls `found` with the place of each text in the binary value `bytes`, and with the text.
pub(crate) fn each_embedded_text(bytes: &[u8], mut found: impl FnMut(Range<usize>, &str)) {
    // In a value that is text as a whole, only its ends are no text.
    let is_binary = is_binary(bytes);
    let is_text = |at: usize| {
        let byte = bytes.get(at);
        byte.is_some_and(|byte| !is_binary || byte.is_ascii() && may_be_text(*byte))
    };
    for header in STRUCTURES {
        let mut budget = bytes.len().saturating_mul(MAX_READS);
        let mut chain = Chain::default();
        for at in 0..bytes.len() {
            let begins = at.checked_sub(1).is_none_or(|before| !is_text(before));
            let may_begin = begins || !is_text(at) || bytes.get(at) == Some(&b'\n');
            let has_header = may_begin && bytes.get(at..).and_then(header).is_some();
            // The rest of a chain ends as the whole did.
            if !has_header || chain.starts.binary_search(&at).is_ok() {
                continue;
            }
            if chain.read(bytes, at, header, &mut budget).is_none() {
                break;
            }
            for place in chain.texts(is_text) {
                let text = bytes.get(place.clone()).and_then(text_of);
                text.into_iter().for_each(|text| found(place.clone(), text));
            }
        }
    }
}

/// Texts that follow each other without gaps.
#[derive(Debug, Default)]
struct Chain {
    /// Starts of their headers, ascending.
    starts: Vec<usize>,
    places: Vec<Range<usize>>,
}

impl Chain {
    /// Reads the chain that begins at `at`, and replaces the previous one unless it is empty.
    /// Returns `None` if `budget`, from which the bytes that are read are subtracted, is used up.
    fn read(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        header: LengthHeader,
        budget: &mut usize,
    ) -> Option<()> {
        let (mut starts, mut places) = (Vec::new(), Vec::new());
        while let Some((head, length)) = bytes.get(at..).and_then(header) {
            let place = at + head..at + head + length;
            let Some(content) = bytes.get(place.clone()).filter(|it| !it.is_empty()) else {
                break;
            };
            let read = content.utf8_chunks().next().map_or("", |it| it.valid());
            *budget = budget.checked_sub(read.len() + 1)?;
            if read.len() < length || text_of(content).is_none() {
                break;
            }
            starts.push(at);
            at = place.end;
            places.push(place);
        }
        self.places = places;
        if !starts.is_empty() {
            self.starts = starts;
        }
        Some(())
    }

    /// Iterates over the places of the texts, if the chain ends where texts may end.
    fn texts(&self, is_text: impl Fn(usize) -> bool) -> impl Iterator<Item = &Range<usize>> {
        let end = self.places.last().map_or(0, |last| last.end);
        let ends = (end..end + 2).any(|at| !is_text(at));
        let is_long = move |place: &&Range<usize>| ends && place.len() >= MIN_TEXT;
        self.places.iter().filter(is_long)
    }
}

fn may_be_text(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f || byte.is_ascii_whitespace()
}

/// Returns `bytes` as text, if they are text without control characters.
fn text_of(bytes: &[u8]) -> Option<&str> {
    let is_text = bytes.iter().all(|byte| may_be_text(*byte));
    is_text.then(|| std::str::from_utf8(bytes).ok()).flatten()
}

fn cbor_header(bytes: &[u8]) -> Option<(usize, usize)> {
    match bytes {
        [head @ (0x40..=0x57 | 0x60..=0x77), ..] => Some((1, usize::from(head & 0x1f))),
        [0x58 | 0x78, length, ..] => Some((2, usize::from(*length))),
        [0x59 | 0x79, high, low, ..] => Some((3, two_bytes(*high, *low))),
        _ => None,
    }
}

fn message_pack_header(bytes: &[u8]) -> Option<(usize, usize)> {
    match bytes {
        [head @ 0xa0..=0xbf, ..] => Some((1, usize::from(head & 0x1f))),
        [0xc4 | 0xd9, length, ..] => Some((2, usize::from(*length))),
        [0xc5 | 0xda, high, low, ..] => Some((3, two_bytes(*high, *low))),
        _ => None,
    }
}

/// The tag of a field of Protocol Buffers whose value has a length, and the length.
fn field_header(bytes: &[u8]) -> Option<(usize, usize)> {
    match bytes {
        [tag @ ..=0x7f, length @ ..=0x7f, ..] if tag & 7 == 2 => Some((2, usize::from(*length))),
        _ => None,
    }
}

fn length_byte(bytes: &[u8]) -> Option<(usize, usize)> {
    let length = bytes
        .first()
        .filter(|length| length.is_ascii_alphanumeric());
    length.map(|length| (1, usize::from(*length)))
}

fn two_bytes(high: u8, low: u8) -> usize {
    usize::from(u16::from_be_bytes([high, low]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: &[u8]) -> Vec<String> {
        let mut out = Vec::new();
        each_embedded_text(bytes, |_, text| out.push(text.to_owned()));
        out
    }

    #[test]
    fn texts_are_found_after_lengths_that_look_like_letters() {
        let long = format!("Ada Okafor {}", "x ".repeat(50));
        let of_length = |length: u8| &long.as_bytes()[..usize::from(length)];
        for bytes in [
            b"\xa1\x64note\x73Ada Okafor was here".to_vec(),
            b"\x84\x43\xa1\x01\x27\xa2\x04\x4aAda Okafor\x61x\x01".to_vec(),
            [b"\xd9\x61", of_length(0x61)].concat(),
            [b"\x0a\x41", of_length(0x41), b"\x12\x01x"].concat(),
            [b"\x08\x01\x22\x41", of_length(0x41), b"\x2a\x05hello"].concat(),
            [b"\0\0\0A", of_length(0x41), b"\0"].concat(),
            [b"\xa2\x04\x58\x41", of_length(0x41), b"\x05\x58\x20\xff"].concat(),
        ] {
            let found = texts(&bytes);
            let is_own = |text: &String| text.starts_with("Ada Okafor");
            assert!(found.iter().any(is_own), "{bytes:?}: {found:?}");
        }
    }

    #[test]
    fn letters_of_longer_texts_are_no_lengths() {
        for bytes in [
            &b"\x00user-12 and sdoe@x.example, and so on and on \x00"[..],
            b"\x01to smark@x.example and others\xff",
            b"\xa6user-1",
        ] {
            let found = texts(bytes);
            let is_cut = |text: &String| text.starts_with("doe") || text.starts_with("mark");
            assert!(!found.iter().any(is_cut), "{bytes:?}: {found:?}");
        }
    }

    #[test]
    fn long_values_are_read_in_linear_time() {
        let start = std::time::Instant::now();
        for piece in [
            &b"\xa4text"[..],
            b"\x64text",
            b"\x0azz",
            b"\xffA",
            b"\xda\xff\xffAda",
        ] {
            texts(&piece.repeat(1 << 16));
        }
        assert!(start.elapsed() < std::time::Duration::from_secs(60));
    }
}
