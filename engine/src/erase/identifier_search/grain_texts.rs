//! Where the texts of grains begin and end.
//!
//! What is next to a text in the encoding of a grain may look like a letter of it. In CBOR, the
//! header of a short text is a small letter; in MessagePack, `true` and the header of a text of six
//! bytes are `c3 a6`, which is `æ`. So grains are recognised by their header and read item by item;
//! what can't be read to its end is none.

use std::ops::Range;

use gristmill_schemas::grain::{HEADER_LENGTH, HeaderFlags, VERSION};

/// Maximal number of items that are read per byte. Bytes that aren't grains may look like many of
/// them, one within another.
const MAX_READS: usize = 8;

/// The texts of the grains in some bytes, keys and values, in ascending order.
#[derive(Debug, Default)]
pub(super) struct GrainTexts(Vec<Range<usize>>);

impl GrainTexts {
    /// Reads the grains in `bytes`.
    pub(super) fn of(bytes: &[u8]) -> GrainTexts {
        let mut texts = Vec::new();
        let mut budget = bytes.len().saturating_mul(MAX_READS);
        let mut read = 0;
        for start in memchr::memchr_iter(VERSION, bytes) {
            if start < read {
                continue;
            }
            let known = texts.len();
            match read_grain(bytes, start, &mut texts, &mut budget) {
                Some(end) => read = end,
                None => texts.truncate(known),
            }
        }
        GrainTexts(texts)
    }

    /// Returns the text that begins at `start`.
    pub(super) fn beginning_at(&self, start: usize) -> Option<&Range<usize>> {
        let at = self
            .0
            .binary_search_by_key(&start, |text| text.start)
            .ok()?;
        self.0.get(at)
    }

    /// Returns the first text that ends at `least` or later, and at `most` or earlier.
    pub(super) fn ending_within(&self, least: usize, most: usize) -> Option<&Range<usize>> {
        let at = self.0.partition_point(|text| text.end < least);
        self.0.get(at).filter(|text| text.end <= most)
    }
}

/// An item of MessagePack or CBOR.
#[derive(Debug, Clone, Copy)]
struct Item {
    /// Length of its header. A number or a constant is nothing but a header.
    header: usize,
    /// Length of the text or the bytes after the header.
    content: usize,
    /// Number of the items that follow and belong to it.
    children: usize,
    is_text: bool,
}

/// Reads the item at the beginning of some bytes.
type ReadItem = fn(&[u8]) -> Option<Item>;

/// Appends the texts of the grain that begins at `start` to `texts`, and returns its end. Returns
/// `None` if no grain begins there, or one that is compressed or encrypted.
fn read_grain(
    bytes: &[u8],
    start: usize,
    texts: &mut Vec<Range<usize>>,
    budget: &mut usize,
) -> Option<usize> {
    let flags = HeaderFlags::from_byte(*bytes.get(start + 1)?);
    let mut at = start + HEADER_LENGTH;
    let read_item: ReadItem = match bytes.get(at)? {
        0x81..=0x8f | 0xde => message_pack,
        0xa1..=0xb9 => cbor,
        _ => return None,
    };
    if flags.encrypted() || flags.compressed() {
        return None;
    }
    let map = read_item(bytes.get(at..)?)?;
    if !read_item(bytes.get(at + map.header..)?)?.is_text {
        return None;
    }
    let mut left: usize = 1;
    while left > 0 {
        *budget = budget.checked_sub(1)?;
        let item = read_item(bytes.get(at..)?)?;
        let text = at + item.header;
        at = text.checked_add(item.content)?;
        if at > bytes.len() {
            return None;
        }
        if item.is_text {
            texts.push(text..at);
        }
        left = (left - 1).checked_add(item.children)?;
    }
    Some(at)
}

/// Reads an item of MessagePack.
fn message_pack(bytes: &[u8]) -> Option<Item> {
    let number = |size| number_of(bytes, size);
    let alone = |header| Item {
        header,
        content: 0,
        children: 0,
        is_text: false,
    };
    let text = |header, content| Item {
        content,
        is_text: true,
        ..alone(header)
    };
    let binary = |header, content| Item {
        content,
        ..alone(header)
    };
    let list = |header, children| Item {
        children,
        ..alone(header)
    };
    let map = |header, entries: usize| Some(list(header, entries.checked_mul(2)?));
    let head = *bytes.first()?;
    match head {
        0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => Some(alone(1)),
        0x80..=0x8f => map(1, usize::from(head & 0x0f)),
        0x90..=0x9f => Some(list(1, usize::from(head & 0x0f))),
        0xa0..=0xbf => Some(text(1, usize::from(head & 0x1f))),
        0xc4 => Some(binary(2, number(1)?)),
        0xc5 => Some(binary(3, number(2)?)),
        0xc6 => Some(binary(5, number(4)?)),
        0xcc | 0xd0 => Some(alone(2)),
        0xcd | 0xd1 => Some(alone(3)),
        0xca | 0xce | 0xd2 => Some(alone(5)),
        0xcb | 0xcf | 0xd3 => Some(alone(9)),
        0xd9 => Some(text(2, number(1)?)),
        0xda => Some(text(3, number(2)?)),
        0xdb => Some(text(5, number(4)?)),
        0xdc => Some(list(3, number(2)?)),
        0xdd => Some(list(5, number(4)?)),
        0xde => map(3, number(2)?),
        0xdf => map(5, number(4)?),
        _ => None,
    }
}

/// Reads an item of CBOR.
fn cbor(bytes: &[u8]) -> Option<Item> {
    let head = *bytes.first()?;
    let (kind, short) = (head >> 5, head & 0x1f);
    let (header, value) = match short {
        ..=23 => (1, usize::from(short)),
        24..=27 => {
            let size = 1 << (short - 24);
            (1 + size, number_of(bytes, size)?)
        }
        _ => return None,
    };
    let (content, children) = match kind {
        0 | 1 | 7 => (0, 0),
        2 | 3 => (value, 0),
        4 => (0, value),
        5 => (0, value.checked_mul(2)?),
        _ => return None,
    };
    Some(Item {
        header,
        content,
        children,
        is_text: kind == 3,
    })
}

/// Returns the number of `size` bytes after the first of `bytes`.
fn number_of(bytes: &[u8], size: usize) -> Option<usize> {
    let digits = bytes.get(1..1 + size)?;
    let number = digits
        .iter()
        .fold(0_u64, |number, digit| number << 8 | u64::from(*digit));
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::grain::{EncodeOptions, Encoding, encode_json};
    use gristmill_schemas::json::Json;

    use super::*;

    #[test]
    fn the_texts_of_grains_are_found_between_other_bytes() {
        let json = br#"{"type":"event","created_at":1767225600000,"role":"user","content":"hi Ada",
            "extra":[true,1,-1.5,300,null,
                {"Ada":true,"Okafor":"a longer text of more than 31 bytes"}]}"#;
        let json = Json::parse(json).unwrap();
        for encoding in [Encoding::MessagePack, Encoding::Cbor] {
            let options = EncodeOptions {
                encoding,
                ..EncodeOptions::default()
            };
            let blob = encode_json(&json, options).unwrap().blob;
            let bytes = [&b"\x01 text \x01\x01"[..], &blob, b"\x01 more"].concat();
            let texts = GrainTexts::of(&bytes);
            for text in ["hi Ada", "Okafor", "a longer text of more than 31 bytes"] {
                let place = bytes
                    .windows(text.len())
                    .position(|part| part == text.as_bytes());
                let start = place.unwrap();
                let whole = start..start + text.len();
                assert_eq!(texts.beginning_at(start), Some(&whole), "{text}");
                assert_eq!(
                    texts.ending_within(whole.end, whole.end),
                    Some(&whole),
                    "{text}"
                );
                assert_eq!(texts.beginning_at(start + 1), None, "{text}");
                assert_eq!(
                    texts.ending_within(whole.end - 1, whole.end - 1),
                    None,
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn bytes_that_only_look_like_grains_have_no_texts() {
        for bytes in [
            &b"\x01 \x01 the dear Ada Okafor"[..],
            b"\x01\0\x01\0\0\0\0\0\0\x8f\xa1cAda Okafor",
            b"\x01\0\x01\0\0\0\0\0\0\xa1jAda Okafor",
        ] {
            assert!(GrainTexts::of(bytes).0.is_empty(), "{bytes:?}");
        }
        let nested = b"\x01\0\x01\0\0\0\0\0\0\xde\xff\xff\xa0".repeat(1 << 16);
        assert!(GrainTexts::of(&nested).0.is_empty());
    }
}
