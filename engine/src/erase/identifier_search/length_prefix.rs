//! Whether bytes are a whole value, by the length before them.

use std::ops::Range;

use crate::text::is_text;

/// Returns whether the bytes before `start..end` are the length of a text of exactly that length,
/// which makes it a whole value without regard to word boundaries. Parquet writes the length in
/// four bytes, in its footers and page indexes (Thrift) in one, MessagePack and CBOR in the header
/// of a string.
pub(super) fn has_length_prefix(bytes: &[u8], start: usize, end: usize) -> bool {
    let before = bytes.get(..start).unwrap_or_default();
    let length = end - start;
    let short = |byte: u8, head: u8, most: usize| {
        length <= most && usize::from(byte) == usize::from(head) + length
    };
    match before {
        [.., a, b, c, d] if u32::from_le_bytes([*a, *b, *c, *d]) as usize == length => true,
        [.., 0x79 | 0xda, high, low]
            if usize::from(u16::from_be_bytes([*high, *low])) == length =>
        {
            true
        }
        [.., 0x78 | 0xd9, one] if usize::from(*one) == length => true,
        // Smaller bytes look like no letter, larger lengths have two bytes.
        [.., one] if length >= 48 && one.is_ascii() && usize::from(*one) == length => true,
        [.., head] if short(*head, 0xa0, 31) => true,
        [before @ .., head] => {
            short(*head, 0x60, 23) && !is_in_text(bytes, start, end) && may_end_cbor_item(before)
        }
        [] => false,
    }
}

/// Returns whether the first byte at `place` may be the last one of the header of a text in CBOR or
/// MessagePack that contains the others: the j before `doe@x.test` makes it no `jdoe@x.test`.
pub(super) fn may_begin_with_header(bytes: &[u8], place: &Range<usize>) -> bool {
    announced_at(bytes, place.start).is_some_and(|length| {
        let text = place.start + 1..place.start + 1 + length;
        place.end <= text.end && bytes.get(text).is_some_and(is_text)
    })
}

/// Returns the length of the text that a header whose last byte is at `at` announces.
fn announced_at(bytes: &[u8], at: usize) -> Option<usize> {
    let head = usize::from(*bytes.get(at)?);
    match bytes.get(..at)? {
        [.., 0xd9] => Some(head),
        [.., 0xda | 0x79, high] => Some(usize::from(*high) << 8 | head),
        _ => head
            .checked_sub(0x60)
            .filter(|length| (1..=23).contains(length)),
    }
}

/// Maximal number of bytes before a match in which the beginning of its text is looked for.
const TEXT: usize = 255;

/// Returns whether the bytes at `start..end` are in a text that begins before them, by the length
/// before it: as Parquet writes it in four bytes, or in one as Thrift does, or in the header of a
/// short text in MessagePack.
fn is_in_text(bytes: &[u8], start: usize, end: usize) -> bool {
    let before = bytes
        .get(start.saturating_sub(TEXT)..start)
        .unwrap_or_default();
    let is_text_byte = |byte: &&u8| **byte == b' ' || byte.is_ascii_graphic();
    let first = start - before.iter().rev().take_while(is_text_byte).count();
    let announced = match bytes.get(..first).unwrap_or_default() {
        [.., a, b, c, d @ 0] => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
        [.., one @ ..0x20] => usize::from(*one),
        [.., head @ 0xa0..0xc0] => usize::from(head - 0xa0),
        _ => 0,
    };
    let text = bytes
        .get(first..first.saturating_add(announced))
        .unwrap_or_default();
    first < start && first + text.len() >= end && is_text(text)
}

/// Returns whether a CBOR item may end with `bytes`. CBOR's header of a short text is a small
/// letter, like the d of Edward, which doesn't make Ward a value. A value is preceded by its key,
/// which has a header too, by the header of an array, or by another value.
fn may_end_cbor_item(bytes: &[u8]) -> bool {
    let word = bytes
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_graphic() || !byte.is_ascii())
        .count();
    let announced = |length| ends_with_short_text(bytes, length);
    let is_text = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    bytes.last().is_none_or(|last| !is_text(*last)) || (1..=word.min(255)).any(announced)
}

/// Returns whether the last `length` bytes follow the CBOR header of a text of this length, which
/// is at most 255.
fn ends_with_short_text(bytes: &[u8], length: usize) -> bool {
    let byte = |back: usize| {
        bytes
            .len()
            .checked_sub(back)
            .and_then(|at| bytes.get(at))
            .copied()
            .map(usize::from)
    };
    match length {
        ..=23 => byte(length + 1) == Some(0x60 + length),
        _ => byte(length + 1) == Some(length) && byte(length + 2) == Some(0x78),
    }
}
