//! The places of the texts in an encoded map or other value, by the heads of its items alone.
//!
//! For searches of bytes that may be no value at all: nesting costs no stack, and the time is
//! linear in the number of items that are read.

use std::ops::Range;

use super::payload::Encoding;
use super::token::{HeadKind, ItemHead};
use super::{cbor, msgpack};

/// An item with bytes in an encoded value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BytesPlace {
    /// The place of a text, which may be invalid UTF-8.
    Text(Range<usize>),
    /// The place of a byte string.
    Bytes(Range<usize>),
}

/// Calls `visit` with the place of each text and each byte string of the map that begins at `start`
/// of `bytes`: keys and values at any depth, in ascending order. Returns the end of the map, which
/// may not be canonical or deeper than a grain may be.
///
/// Each item that is read costs one of `budget`.
///
/// Returns `None` if there is no map whose first key is a text, if it can't be read to its end
/// within `bytes`, or if `budget` is used up. Some of its items may have been visited then.
pub fn visit_text_places(
    bytes: &[u8],
    start: usize,
    encoding: Encoding,
    budget: &mut usize,
    visit: impl FnMut(BytesPlace),
) -> Option<usize> {
    let head_at = |at: usize| head_of(encoding, bytes.get(at..)?);
    let map = head_at(start)?;
    let first_key = head_at(start + map.length)?;
    if map.kind != HeadKind::Map || first_key.kind != HeadKind::Text {
        return None;
    }
    visit_items(bytes, start, encoding, budget, visit)
}

/// Returns the places of the texts of the value that `bytes` are as a whole: a list, a map or a
/// tagged value in CBOR, or a list or a map in MessagePack. Byte strings that are text in UTF-8
/// count, and those that are such values are read in turn, like the headers of COSE. They are in
/// ascending order and don't overlap.
///
/// Each item that is read costs one of `budget`. Nothing is returned if `bytes` are no such value
/// or `budget` is used up.
pub fn text_places_of_value(bytes: &[u8], budget: &mut usize) -> Vec<Range<usize>> {
    let (mut texts, mut values) = (Vec::new(), Vec::new());
    values.push(0..bytes.len());
    while let Some(value) = values.pop() {
        let content = bytes.get(value.clone()).unwrap_or_default();
        match items_of_value(content, budget) {
            Some(items) => {
                for item in items {
                    let moved =
                        |place: Range<usize>| value.start + place.start..value.start + place.end;
                    match item {
                        BytesPlace::Text(place) => texts.push(moved(place)),
                        BytesPlace::Bytes(place) => values.push(moved(place)),
                    }
                }
            }
            None if value.len() == bytes.len() => return Vec::new(),
            None if std::str::from_utf8(content).is_ok() => texts.push(value),
            None => {}
        }
    }
    texts.sort_unstable_by_key(|text| text.start);
    texts
}

/// Returns the texts and byte strings of the value that `bytes` are as a whole; `None` if they are
/// none, or if a text isn't UTF-8.
fn items_of_value(bytes: &[u8], budget: &mut usize) -> Option<Vec<BytesPlace>> {
    [Encoding::Cbor, Encoding::MessagePack]
        .into_iter()
        .find_map(|encoding| {
            let root = head_of(encoding, bytes)?;
            if !matches!(root.kind, HeadKind::Array | HeadKind::Map | HeadKind::Tag) {
                return None;
            }
            let mut items = Vec::new();
            let end = visit_items(bytes, 0, encoding, budget, |item| items.push(item))?;
            let is_valid = |item: &BytesPlace| match item {
                BytesPlace::Text(place) => bytes
                    .get(place.clone())
                    .is_some_and(|text| std::str::from_utf8(text).is_ok()),
                BytesPlace::Bytes(_) => true,
            };
            (end == bytes.len() && items.iter().all(is_valid)).then_some(items)
        })
}

/// Returns the head of the item in `encoding` at the start of `bytes`.
fn head_of(encoding: Encoding, bytes: &[u8]) -> Option<ItemHead> {
    match encoding {
        Encoding::MessagePack => msgpack::item_head(bytes),
        Encoding::Cbor => cbor::item_head(bytes),
    }
}

/// Calls `visit` with the texts and byte strings of the item that begins at `start` of `bytes`, and
/// returns its end.
fn visit_items(
    bytes: &[u8],
    start: usize,
    encoding: Encoding,
    budget: &mut usize,
    mut visit: impl FnMut(BytesPlace),
) -> Option<usize> {
    let (mut at, mut left) = (start, 1_usize);
    while left > 0 {
        *budget = budget.checked_sub(1)?;
        let head = head_of(encoding, bytes.get(at..)?)?;
        let content = at + head.length;
        at = content.checked_add(head.content()?)?;
        if at > bytes.len() {
            return None;
        }
        match head.kind {
            HeadKind::Text => visit(BytesPlace::Text(content..at)),
            HeadKind::Bytes => visit(BytesPlace::Bytes(content..at)),
            _ => {}
        }
        left = (left - 1).checked_add(head.children()?)?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::super::cbor::CborReader;
    use super::super::extent::write_value;
    use super::super::msgpack::MessagePackReader;
    use super::super::token::{PayloadToken, TokenReader};
    use super::super::value::Value;
    use super::*;

    const ENCODINGS: [Encoding; 2] = [Encoding::MessagePack, Encoding::Cbor];

    /// Returns the end of the map at `start` and the places of its texts.
    fn places(
        bytes: &[u8],
        start: usize,
        encoding: Encoding,
    ) -> Option<(usize, Vec<Range<usize>>)> {
        let (mut budget, mut places) = (usize::MAX, Vec::new());
        let visit = |place| {
            if let BytesPlace::Text(place) = place {
                places.push(place);
            }
        };
        let end = visit_text_places(bytes, start, encoding, &mut budget, visit)?;
        Some((end, places))
    }

    /// Returns a map with every kind of value, and texts with heads of every length.
    fn sample(encoding: Encoding) -> Vec<u8> {
        let long = "a text of more bytes than the head of a short one can tell. ";
        let more = Value::Map(vec![
            ("flag".into(), true.into()),
            (
                "one".into(),
                Value::Array(vec![Value::Nil, "in a list".into()]),
            ),
            ("bytes".into(), Value::Bytes(b"no text".to_vec())),
        ]);
        let value = Value::Map(vec![
            ("a".into(), 1_i64.into()),
            ("b".into(), (-70_000_i64).into()),
            ("c".into(), 1_767_225_600_000_i64.into()),
            ("d".into(), 1.1_f64.into()),
            ("empty".into(), "".into()),
            ("long".into(), long.into()),
            ("longer".into(), long.repeat(9).into()),
            ("longest".into(), long.repeat(2_000).into()),
            ("more".into(), more),
        ]);
        write_value(&value, encoding).unwrap()
    }

    /// Returns the texts that `reader` reads to its end.
    fn texts_of<'a>(mut reader: impl TokenReader<'a>) -> Vec<&'a [u8]> {
        let mut texts = Vec::new();
        while reader.position() < reader.bytes().len() {
            if let PayloadToken::Text(text) = reader.token().unwrap() {
                texts.push(text.as_bytes());
            }
        }
        texts
    }

    #[test]
    fn the_places_are_those_of_the_texts_that_the_token_readers_read() {
        for encoding in ENCODINGS {
            let map = sample(encoding);
            let bytes = [&b"before"[..], &map, b"after"].concat();
            let (end, places) = places(&bytes, 6, encoding).unwrap();
            assert_eq!(end, 6 + map.len());
            let found: Vec<&[u8]> = places.into_iter().map(|place| &bytes[place]).collect();
            let expected = match encoding {
                Encoding::MessagePack => texts_of(MessagePackReader::new(&map)),
                Encoding::Cbor => texts_of(CborReader::new(&map)),
            };
            assert_eq!(expected.len(), 17);
            assert!(found == expected, "{}", encoding.name());
        }
    }

    #[test]
    fn every_first_byte_is_read_as_the_token_readers_read_it() {
        fn check<'a>(mut reader: impl TokenReader<'a>, head: Option<ItemHead>) -> bool {
            let Ok(token) = reader.token() else {
                return false;
            };
            let head = head.unwrap();
            let end = head.length + head.content().unwrap();
            let is_text = matches!(token, PayloadToken::Text(_));
            assert_eq!(end, reader.position(), "{token:?}");
            assert_eq!(head.children(), Some(token.children()), "{token:?}");
            assert_eq!(head.kind == HeadKind::Text, is_text, "{token:?}");
            true
        }
        for first in 0..=u8::MAX {
            let mut bytes = [0; 48];
            bytes[0] = first;
            let head = msgpack::item_head(&bytes);
            assert_eq!(
                check(MessagePackReader::new(&bytes), head),
                head.is_some(),
                "{first:#x}"
            );
            check(CborReader::new(&bytes), cbor::item_head(&bytes));
        }
    }

    #[test]
    fn the_texts_of_a_value_are_read_also_within_byte_strings() {
        let texts = |bytes: &[u8]| -> Vec<String> {
            let places = text_places_of_value(bytes, &mut 99);
            let text = |place: Range<usize>| String::from_utf8(bytes[place].to_vec()).unwrap();
            places.into_iter().map(text).collect()
        };
        // A signature with a protected header, a key id and a note.
        let signed = b"\xd2\x84\x49\xa1\x04\x46did:me\xa1\x64note\x62hi\xf6\x43\xff\xfe\xfd";
        assert_eq!(texts(signed), ["did:me", "note", "hi"]);
        assert_eq!(texts(b"\x82\xa1k\xc4\x02hi\xa1t\x01"), ["k", "hi", "t"]);
        for other in [
            &signed[..signed.len() - 1],
            &[&signed[..], b"\x01"].concat(),
            b"\x62hi",
            b"\xa2hi",
            b"hi",
            b"\x81\x62\xff\xff",
            b"",
        ] {
            assert!(texts(other).is_empty(), "{other:?}");
        }
        assert!(
            text_places_of_value(signed, &mut 7).is_empty(),
            "the budget"
        );
    }

    #[test]
    fn truncated_maps_have_no_end() {
        for encoding in ENCODINGS {
            let map = sample(encoding);
            for length in (0..400).chain(map.len() - 400..map.len()) {
                assert_eq!(places(&map[..length], 0, encoding), None, "{length}");
            }
            assert_eq!(places(&map, map.len(), encoding), None);
            assert_eq!(places(&map, map.len() + 1, encoding), None);
        }
    }

    #[test]
    fn any_depth_is_read() {
        const DEPTH: usize = 1 << 20;
        for (encoding, map, list, text) in [
            (Encoding::MessagePack, b"\x81\xa1k", 0x91_u8, b"\xa1t"),
            (Encoding::Cbor, b"\xa1\x61k", 0x81_u8, b"\x61t"),
        ] {
            let bytes = [&map[..], &[list].repeat(DEPTH), text].concat();
            let end = bytes.len();
            let expected = (end, vec![2..3, end - 1..end]);
            assert_eq!(places(&bytes, 0, encoding), Some(expected));
            assert_eq!(places(&bytes[..end - 2], 0, encoding), None);
        }
    }

    #[test]
    fn huge_lengths_and_counts_have_no_end() {
        for (encoding, bytes) in [
            (
                Encoding::MessagePack,
                &b"\x81\xa1k\xdb\xff\xff\xff\xfftext"[..],
            ),
            (Encoding::MessagePack, b"\x81\xa1k\xc6\xff\xff\xff\xfftext"),
            (Encoding::MessagePack, b"\x81\xa1k\xdd\xff\xff\xff\xff\xa1t"),
            (Encoding::MessagePack, b"\xdf\xff\xff\xff\xff\xa1k\xa1t"),
            (
                Encoding::Cbor,
                b"\xa1\x61k\x7b\xff\xff\xff\xff\xff\xff\xff\xfftext",
            ),
            (
                Encoding::Cbor,
                b"\xa1\x61k\x5b\xff\xff\xff\xff\xff\xff\xff\xfftext",
            ),
            (
                Encoding::Cbor,
                b"\xa1\x61k\x9b\xff\xff\xff\xff\xff\xff\xff\xff\x61t",
            ),
            (
                Encoding::Cbor,
                b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x61k\x61t",
            ),
        ] {
            assert_eq!(places(bytes, 0, encoding), None, "{bytes:?}");
        }
    }

    #[test]
    fn only_a_map_with_a_text_as_its_first_key_is_read_and_within_the_budget() {
        let read = |bytes: &[u8], mut budget: usize| {
            let end = visit_text_places(bytes, 0, Encoding::MessagePack, &mut budget, |_| {});
            (end, budget)
        };
        assert_eq!(read(b"\x81\xa1k\x01", 5), (Some(4), 2));
        assert_eq!(read(b"\x81\xa1k\x01", 3), (Some(4), 0));
        assert_eq!(read(b"\x81\xa1k\x01", 2), (None, 0));
        for bytes in [
            &b"\x81\x01\xa1k"[..],
            b"\x92\xa1k\x01",
            b"\xa1k",
            b"\xc1",
            b"\x81",
            b"",
        ] {
            assert_eq!(read(bytes, 5), (None, 5), "{bytes:?}");
        }
    }
}
