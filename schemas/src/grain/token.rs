//! The common layer of the MessagePack and CBOR readers: heads, tokens, string checks, and the
//! traversal of nested values.
//!
//! Both readers produce the same [`PayloadToken`]s, so depth, key order, repeated keys and nulls
//! are checked in one place. A reader records the first [`Deviation`]: bytes that are valid but not
//! in canonical form. A strict caller rejects such a grain, a lenient one marks it. Invalid bytes
//! are an error in either mode.
//!
//! No allocation depends on a declared length, and no recursion exceeds [`DEPTH_LIMIT`].
//!
//! The functions on the path of every field are force-inlined, here and in `raw`, `msgpack` and
//! `decode`. An error has 72 bytes, so each fallible call returns its result through memory, which
//! costs more than reading the token.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::fields::Field;
use crate::error::{ErrorCode, GrainError};
use crate::nfc::{is_normalized, normalized};

/// The maximum nesting depth of a payload, its own map included: the limit of the extended profile
/// (§4.10).
pub const DEPTH_LIMIT: usize = 32;

/// A token of a payload: a scalar, or the head of an array or map with the number of its items or
/// entries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PayloadToken<'a> {
    Nil,
    Bool(bool),
    /// An integer up to `i64::MAX`.
    Int(i64),
    /// An integer above `i64::MAX`.
    BigInt(u64),
    Float(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Array(usize),
    Map(usize),
}

impl PayloadToken<'_> {
    /// Returns the number of values that follow as children of this token.
    pub(super) fn children(self) -> usize {
        match self {
            PayloadToken::Array(count) => count,
            PayloadToken::Map(count) => count.saturating_mul(2),
            _ => 0,
        }
    }
}

/// What an item is, as far as its extent depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadKind {
    /// A number or a constant, which is a head and nothing else.
    Scalar,
    Text,
    Bytes,
    Array,
    Map,
    /// A tag of CBOR, before the value that it describes.
    Tag,
}

/// The head of an item: its first byte, and the number of up to eight bytes after it. Whether the
/// item is complete, valid and canonical isn't known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemHead {
    pub(super) kind: HeadKind,
    /// The length of the head in bytes.
    pub(super) length: usize,
    /// The number in the head: a length in bytes, a count of items or entries, or a scalar.
    number: u64,
}

impl ItemHead {
    /// Reads the number of `width` bytes at the start of `rest`, the bytes after the first one. If
    /// `width` is 0, the number is `short`. Returns `None` if bytes are missing.
    pub(super) fn read(kind: HeadKind, width: usize, short: u8, rest: &[u8]) -> Option<ItemHead> {
        let number = match width {
            0 => u64::from(short),
            _ => big_endian(rest.get(..width)?),
        };
        Some(ItemHead {
            kind,
            length: 1 + width,
            number,
        })
    }

    /// Returns the length in bytes of the text or the bytes after the head; `None` if it exceeds
    /// `usize`.
    pub(super) fn content(self) -> Option<usize> {
        match self.kind {
            HeadKind::Text | HeadKind::Bytes => usize::try_from(self.number).ok(),
            _ => Some(0),
        }
    }

    /// Returns the number of items that follow as children; `None` if it exceeds `usize`.
    pub(super) fn children(self) -> Option<usize> {
        match self.kind {
            HeadKind::Array => usize::try_from(self.number).ok(),
            HeadKind::Map => usize::try_from(self.number).ok()?.checked_mul(2),
            HeadKind::Tag => Some(1),
            _ => Some(0),
        }
    }
}

/// Returns the unsigned integer with the digits `bytes`, of which there are at most eight.
#[inline(always)]
pub(super) fn big_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The first position at which bytes are valid but not in canonical form (§4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deviation {
    /// The offset in bytes from the start of the payload.
    pub offset: usize,
    /// A description of the deviation.
    pub what: &'static str,
}

/// A cursor over an encoded payload.
pub(super) trait TokenReader<'a> {
    /// Returns the offset of the next token in bytes from the start of the payload.
    fn position(&self) -> usize;

    /// Returns all bytes of the payload.
    fn bytes(&self) -> &'a [u8];

    /// Returns a cursor at `position` of the same payload.
    fn fork(&self, position: usize) -> Self;

    /// Reads one token.
    fn token(&mut self) -> Result<PayloadToken<'a>, GrainError>;

    /// The head bytes of short strings, whose low five bits are the length.
    const SHORT_TEXT: RangeInclusive<u8>;

    /// Moves to `position`.
    fn move_to(&mut self, position: usize);

    /// Reads the next key if it is the short key of a field in its shortest form. Such a key needs
    /// no string checks. Before any other key the reader does not move.
    #[inline]
    fn short_key(&mut self) -> Option<(&'static str, Field)> {
        let (text, end) = self.short_text()?;
        let found = Field::from_key_bytes(text)?;
        self.move_to(end);
        Some(found)
    }

    /// Returns the bytes of a short string at the reader's position and the offset of its end,
    /// without moving.
    #[inline]
    fn short_text(&self) -> Option<(&'a [u8], usize)> {
        let start = self.position();
        let (head, rest) = self.bytes().get(start..)?.split_first()?;
        let length = usize::from(head & 0x1f);
        let text = Self::SHORT_TEXT
            .contains(head)
            .then(|| rest.get(..length))??;
        Some((text, start + 1 + length))
    }

    /// Returns false if the payload was validated before, so that checks can be skipped.
    fn validates(&self) -> bool;

    /// Skips one token of a payload that was validated before; returns the number of its children.
    fn skip_token(&mut self) -> Result<usize, GrainError> {
        Ok(self.token()?.children())
    }

    /// Compares two keys in the order of canonical maps.
    fn key_order(left: &str, right: &str) -> Ordering;

    /// Returns the first deviation so far.
    fn deviation(&mut self) -> &mut Option<Deviation>;

    /// Records a deviation if it is the first.
    fn deviates(&mut self, offset: usize, what: &'static str) {
        self.deviation().get_or_insert(Deviation { offset, what });
    }

    /// Checks the bytes of a string: UTF-8, no leading byte-order mark, NFC.
    fn text(&mut self, bytes: &'a [u8], offset: usize) -> Result<&'a str, GrainError> {
        let text = simdutf8::basic::from_utf8(bytes)
            .map_err(|_| GrainError::corrupt(offset, "a string is not UTF-8"))?;
        if !self.validates() {
            return Ok(text);
        }
        if text.starts_with('\u{feff}') {
            return Err(GrainError::corrupt(
                offset,
                "a string starts with a byte-order mark",
            ));
        }
        if !is_normalized(text) {
            self.deviates(offset, "a string is not in Unicode normalization form C");
        }
        Ok(text)
    }
}

/// Checks a declared length or number of items against the remaining bytes; each item takes at
/// least one byte.
pub(super) fn check_count(
    count: u64,
    remaining: usize,
    offset: usize,
) -> Result<usize, GrainError> {
    match usize::try_from(count) {
        Ok(count) if count <= remaining => Ok(count),
        _ => Err(GrainError::corrupt(
            offset,
            format!("declares {count} bytes or items, but only {remaining} bytes are left"),
        )),
    }
}

/// The key of an entry in a grain's own map.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyToken<'a> {
    pub(super) text: &'a str,
    /// The field with this short key.
    pub(super) field: Option<Field>,
}

/// Reads a key of a grain's own map.
#[inline(always)]
pub(super) fn read_field_key<'a, R: TokenReader<'a>>(
    reader: &mut R,
) -> Result<KeyToken<'a>, GrainError> {
    if let Some((text, field)) = reader.short_key() {
        return Ok(KeyToken {
            text,
            field: Some(field),
        });
    }
    let text = read_key(reader)?;
    Ok(KeyToken {
        text,
        field: Field::from_short_key(text),
    })
}

/// Reads the key of a map entry.
pub(super) fn read_key<'a, R: TokenReader<'a>>(reader: &mut R) -> Result<&'a str, GrainError> {
    let offset = reader.position();
    match reader.token()? {
        PayloadToken::Text(key) => Ok(key),
        _ => Err(GrainError::corrupt(offset, "a map key is not a string")),
    }
}

/// Checks the order and uniqueness of the keys of one map as they are read.
pub(super) struct KeyOrder<'a> {
    previous: Option<&'a str>,
    disordered: bool,
}

impl<'a> KeyOrder<'a> {
    pub(super) fn new() -> Self {
        KeyOrder {
            previous: None,
            disordered: false,
        }
    }

    /// Checks the next key, which was read at `offset`.
    pub(super) fn next<R: TokenReader<'a>>(
        &mut self,
        reader: &mut R,
        key: &'a str,
        offset: usize,
    ) -> Result<(), GrainError> {
        match self
            .previous
            .map_or(Ordering::Less, |previous| R::key_order(previous, key))
        {
            Ordering::Less => {}
            Ordering::Equal => return Err(repeated(key, offset)),
            Ordering::Greater => {
                self.disordered = true;
                reader.deviates(offset, "map keys are not in canonical order");
            }
        }
        self.previous = Some(key);
        Ok(())
    }

    /// Checks the uniqueness of keys at the end of a map of `count` entries whose first entry
    /// starts at `start`. Keys in order can't repeat unnoticed; otherwise the map is read again.
    pub(super) fn finish<R: TokenReader<'a>>(
        self,
        reader: &R,
        start: usize,
        count: usize,
    ) -> Result<(), GrainError> {
        if !self.disordered {
            return Ok(());
        }
        let mut seen = HashSet::new();
        let mut second = reader.fork(start);
        for _ in 0..count {
            let offset = second.position();
            let key = read_key(&mut second)?;
            if !seen.insert(key) {
                return Err(repeated(key, offset));
            }
            skip(&mut second)?;
        }
        Ok(())
    }
}

fn repeated(key: &str, offset: usize) -> GrainError {
    GrainError::corrupt(offset, format!("the key `{key}` is repeated in one map"))
}

/// Skips one value without checks beyond its encoding; returns its first token.
pub(super) fn skip<'a, R: TokenReader<'a>>(reader: &mut R) -> Result<PayloadToken<'a>, GrainError> {
    let first = reader.token()?;
    let mut left = first.children();
    while left > 0 {
        left = (left - 1).saturating_add(reader.token()?.children());
    }
    Ok(first)
}

/// Skips `count` values that were validated before, without string checks.
pub(super) fn skip_values<'a, R: TokenReader<'a>>(
    reader: &mut R,
    count: usize,
) -> Result<(), GrainError> {
    let mut left = count;
    while left > 0 {
        left = (left - 1).saturating_add(reader.skip_token()?);
    }
    Ok(())
}

/// Validates the items of an array of `count` items.
pub(super) fn walk_array<'a, R: TokenReader<'a>>(
    reader: &mut R,
    count: usize,
    depth: usize,
) -> Result<(), GrainError> {
    for _ in 0..count {
        walk(reader, depth)?;
    }
    Ok(())
}

/// Validates the entries of a map of `count` entries.
pub(super) fn walk_map<'a, R: TokenReader<'a>>(
    reader: &mut R,
    count: usize,
    depth: usize,
) -> Result<(), GrainError> {
    let start = reader.position();
    let mut order = KeyOrder::new();
    for _ in 0..count {
        let offset = reader.position();
        let key = read_key(reader)?;
        order.next(reader, key, offset)?;
        let offset = reader.position();
        if walk(reader, depth)? == PayloadToken::Nil {
            reader.deviates(offset, NULL_IN_MAP);
        }
    }
    order.finish(reader, start, count)
}

/// The deviation of a null map entry, which canonical form omits (§4.5).
pub(super) const NULL_IN_MAP: &str = "a map contains a null, which must be omitted";

/// Validates one value inside a container at `depth`; returns its first token.
fn walk<'a, R: TokenReader<'a>>(
    reader: &mut R,
    depth: usize,
) -> Result<PayloadToken<'a>, GrainError> {
    let offset = reader.position();
    let token = reader.token()?;
    match token {
        PayloadToken::Array(count) => walk_array(reader, count, nested_depth(depth, offset)?)?,
        PayloadToken::Map(count) => walk_map(reader, count, nested_depth(depth, offset)?)?,
        _ => {}
    }
    Ok(token)
}

/// Returns the next depth, or an error beyond [`DEPTH_LIMIT`].
pub(super) fn nested_depth(depth: usize, offset: usize) -> Result<usize, GrainError> {
    if depth >= DEPTH_LIMIT {
        return Err(GrainError::corrupt(
            offset,
            format!("nested deeper than {DEPTH_LIMIT} levels"),
        ));
    }
    Ok(depth + 1)
}

/// Checks that a double is neither NaN nor infinite (§4.3).
pub(super) fn finite(value: f64, offset: usize) -> Result<f64, GrainError> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(GrainError::new(ErrorCode::FloatInvalid, "a number is NaN or infinite").at(offset))
}

/// Returns `text` in NFC, borrowed if it is already normalized.
///
/// # Errors
/// [`ErrorCode::Corrupt`] if it starts with a byte-order mark.
pub(super) fn normalize(text: &str) -> Result<std::borrow::Cow<'_, str>, GrainError> {
    if text.starts_with('\u{feff}') {
        return Err(GrainError::new(
            ErrorCode::Corrupt,
            "a string starts with a byte-order mark",
        ));
    }
    Ok(normalized(text))
}
