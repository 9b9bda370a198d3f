//! Whether bytes are a whole value, by the length before them.

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
        [before @ .., head] => short(*head, 0x60, 23) && may_end_cbor_item(before),
        [] => false,
    }
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
