//! Where the texts of grains and of other encoded values begin and end.
//!
//! What is next to a text in the encoding of a grain may look like a letter of it. In CBOR, the
//! header of a short text is a small letter; in MessagePack, `true` and the header of a text of six
//! bytes are `c3 a6`, which is `æ`. So grains are recognised by their header and read item by item;
//! what can't be read to its end is none.

use std::ops::Range;

use gristmill_schemas::grain::{
    BytesPlace, Encoding, HEADER_LENGTH, HeaderFlags, VERSION, text_places_of_value,
    visit_text_places,
};

/// Maximal number of items that are read per byte. Bytes that aren't grains may look like many of
/// them, one within another.
const MAX_READS: usize = 8;

/// The texts of the grains in some bytes, or of the value that these are, in ascending order: keys
/// and values, also of values in byte strings.
#[derive(Debug, Default)]
pub(super) struct GrainTexts(Vec<Range<usize>>);

impl GrainTexts {
    /// Reads the value that `bytes` are, or else the grains in them.
    pub(super) fn of(bytes: &[u8]) -> GrainTexts {
        let mut budget = bytes.len().saturating_mul(MAX_READS);
        let mut texts = text_places_of_value(bytes, &mut budget);
        if !texts.is_empty() {
            return GrainTexts(texts);
        }
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

    /// Iterates over the places of the texts.
    pub(super) fn places(&self) -> impl Iterator<Item = &Range<usize>> {
        self.0.iter()
    }

    /// Returns the text that contains the byte at `at`.
    pub(super) fn around(&self, at: usize) -> Option<&Range<usize>> {
        let next = self.0.partition_point(|text| text.start <= at);
        let text = self.0.get(next.checked_sub(1)?)?;
        (at < text.end).then_some(text)
    }

    /// Returns the first text that ends at `least` or later, and at `most` or earlier.
    pub(super) fn ending_within(&self, least: usize, most: usize) -> Option<&Range<usize>> {
        let at = self.0.partition_point(|text| text.end < least);
        self.0.get(at).filter(|text| text.end <= most)
    }
}

/// Appends the texts of the grain that begins at `start` to `texts`, and returns its end. Returns
/// `None` if no grain begins there, or one that is compressed or encrypted.
fn read_grain(
    bytes: &[u8],
    start: usize,
    texts: &mut Vec<Range<usize>>,
    budget: &mut usize,
) -> Option<usize> {
    let flags = HeaderFlags::from_byte(*bytes.get(start + 1)?);
    let map = start + HEADER_LENGTH;
    // Grains have entries, and not so many that MessagePack counts them in four bytes.
    let encoding = match bytes.get(map)? {
        0x81..=0x8f | 0xde => Encoding::MessagePack,
        0xa1..=0xb9 => Encoding::Cbor,
        _ => return None,
    };
    if flags.encrypted() || flags.compressed() {
        return None;
    }
    let mut values = Vec::new();
    let known = texts.len();
    let end = visit_text_places(bytes, map, encoding, budget, |place| match place {
        BytesPlace::Text(text) => texts.push(text),
        BytesPlace::Bytes(value) => values.push(value),
    })?;
    for value in values {
        let content = bytes.get(value.clone())?;
        let within = text_places_of_value(content, budget).into_iter();
        texts.extend(within.map(|text| value.start + text.start..value.start + text.end));
    }
    texts
        .get_mut(known..)?
        .sort_unstable_by_key(|text| text.start);
    Some(end)
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::grain::{EncodeOptions, encode_json};
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
