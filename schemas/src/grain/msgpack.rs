//! The MessagePack codec, the default encoding: writes canonical bytes (§4), reads any valid bytes
//! and reports where they are not canonical.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::RangeInclusive;

use super::token::{
    Deviation, HeadKind, ItemHead, PayloadToken, TokenReader, big_endian, check_count, finite,
    normalize,
};
use super::value::{Integer, Value};
use crate::error::{ErrorCode, GrainError};

/// Returns true if a MessagePack map can start with the byte `first`.
pub(super) fn begins_map(first: u8) -> bool {
    matches!(Head::of(first), Head::Map(_))
}

/// What the first byte of an item announces. Of values with a length, a count or a number it tells
/// how many bytes after it contain that; 0 if the byte itself does.
#[derive(Debug, Clone, Copy)]
enum Head {
    Nil,
    Bool(bool),
    /// An integer in the byte itself.
    SmallInt,
    Unsigned(u8),
    Signed(u8),
    Float(u8),
    Text(u8),
    Bytes(u8),
    Array(u8),
    Map(u8),
    Extension,
    Unused,
}

impl Head {
    #[inline(always)]
    fn of(byte: u8) -> Head {
        match byte {
            0x00..=0x7f | 0xe0..=0xff => Head::SmallInt,
            0x80..=0x8f => Head::Map(0),
            0x90..=0x9f => Head::Array(0),
            0xa0..=0xbf => Head::Text(0),
            0xc0 => Head::Nil,
            0xc1 => Head::Unused,
            0xc2 => Head::Bool(false),
            0xc3 => Head::Bool(true),
            0xc4 => Head::Bytes(1),
            0xc5 => Head::Bytes(2),
            0xc6 => Head::Bytes(4),
            0xc7..=0xc9 | 0xd4..=0xd8 => Head::Extension,
            0xca => Head::Float(4),
            0xcb => Head::Float(8),
            0xcc => Head::Unsigned(1),
            0xcd => Head::Unsigned(2),
            0xce => Head::Unsigned(4),
            0xcf => Head::Unsigned(8),
            0xd0 => Head::Signed(1),
            0xd1 => Head::Signed(2),
            0xd2 => Head::Signed(4),
            0xd3 => Head::Signed(8),
            0xd9 => Head::Text(1),
            0xda => Head::Text(2),
            0xdb => Head::Text(4),
            0xdc => Head::Array(2),
            0xdd => Head::Array(4),
            0xde => Head::Map(2),
            0xdf => Head::Map(4),
        }
    }
}

/// Returns the head of the item at the start of `bytes`; `None` if it is incomplete or none.
pub(super) fn item_head(bytes: &[u8]) -> Option<ItemHead> {
    let (byte, rest) = bytes.split_first()?;
    let (kind, width, short) = match Head::of(*byte) {
        Head::Nil | Head::Bool(_) | Head::SmallInt => (HeadKind::Scalar, 0, 0),
        Head::Unsigned(width) | Head::Signed(width) | Head::Float(width) => {
            (HeadKind::Scalar, width, 0)
        }
        Head::Text(width) => (HeadKind::Text, width, byte & 0x1f),
        Head::Bytes(width) => (HeadKind::Bytes, width, 0),
        Head::Array(width) => (HeadKind::Array, width, byte & 0x0f),
        Head::Map(width) => (HeadKind::Map, width, byte & 0x0f),
        Head::Extension | Head::Unused => return None,
    };
    ItemHead::read(kind, usize::from(width), short, rest)
}

/// A cursor over a MessagePack payload.
pub(super) struct MessagePackReader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// True if the payload was validated before, so that checks are skipped.
    validated: bool,
    deviation: Option<Deviation>,
}

impl<'a> MessagePackReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        MessagePackReader {
            bytes,
            position: 0,
            validated: false,
            deviation: None,
        }
    }

    /// Creates a reader at `position` of a payload that was validated before.
    pub(super) fn validated(bytes: &'a [u8], position: usize) -> Self {
        MessagePackReader {
            bytes,
            position,
            validated: true,
            deviation: None,
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], GrainError> {
        let taken = self
            .bytes
            .get(self.position..)
            .and_then(|rest| rest.get(..length));
        let taken = taken.ok_or_else(|| {
            GrainError::corrupt(self.bytes.len(), "the payload ends inside a value")
        })?;
        self.position += length;
        Ok(taken)
    }

    /// Reads a big-endian unsigned integer of `width` bytes.
    fn number(&mut self, width: usize) -> Result<u64, GrainError> {
        Ok(big_endian(self.take(width)?))
    }

    /// Reads a length or count of `width` bytes; `least` is the smallest that needs this width in
    /// canonical form.
    fn length(&mut self, width: usize, least: u64, start: usize) -> Result<usize, GrainError> {
        let length = self.number(width)?;
        if length < least {
            self.deviates(start, "a length isn't in its shortest form");
        }
        check_count(length, self.bytes.len() - self.position, start)
    }

    /// Skips `length` bytes of a value without children; returns the number of children, 0.
    fn skip_bytes(&mut self, length: usize) -> Result<usize, GrainError> {
        self.take(length).map(|_| 0)
    }

    fn string(&mut self, length: usize, start: usize) -> Result<PayloadToken<'a>, GrainError> {
        let bytes = self.take(length)?;
        Ok(PayloadToken::Text(self.text(bytes, start)?))
    }

    fn unsigned(
        &mut self,
        width: usize,
        least: u64,
        start: usize,
    ) -> Result<PayloadToken<'a>, GrainError> {
        let value = self.number(width)?;
        if value < least {
            self.deviates(start, "an integer isn't in its smallest form");
        }
        Ok(i64::try_from(value).map_or(PayloadToken::BigInt(value), PayloadToken::Int))
    }

    /// Reads a signed integer of `width` bytes. Canonical form uses this width only for values
    /// below `below`.
    fn signed(
        &mut self,
        width: usize,
        below: i64,
        start: usize,
    ) -> Result<PayloadToken<'a>, GrainError> {
        let shift = 64 - 8 * width as u32;
        let value = (self.number(width)? << shift) as i64 >> shift;
        if value >= below {
            self.deviates(start, "an integer isn't in its smallest form");
        }
        Ok(PayloadToken::Int(value))
    }
}

impl<'a> TokenReader<'a> for MessagePackReader<'a> {
    const SHORT_TEXT: RangeInclusive<u8> = 0xa0..=0xbf;

    fn position(&self) -> usize {
        self.position
    }

    fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn fork(&self, position: usize) -> Self {
        MessagePackReader {
            position,
            deviation: None,
            ..*self
        }
    }

    fn deviation(&mut self) -> &mut Option<Deviation> {
        &mut self.deviation
    }

    #[inline]
    fn key_order(left: &str, right: &str) -> Ordering {
        // The first byte decides most comparisons.
        let first = left.as_bytes().first().cmp(&right.as_bytes().first());
        first.then_with(|| left.cmp(right))
    }

    #[inline(always)]
    fn token(&mut self) -> Result<PayloadToken<'a>, GrainError> {
        let start = self.position;
        let &head = self.bytes.get(start).ok_or_else(|| {
            GrainError::corrupt(start, "the payload ends where a value was expected")
        })?;
        self.position += 1;
        match Head::of(head) {
            // As a signed byte, the head is the integer.
            Head::SmallInt => Ok(PayloadToken::Int(i64::from(head as i8))),
            Head::Text(0) => self.string(usize::from(head & 0x1f), start),
            Head::Map(0) => self
                .count(u64::from(head & 0x0f), start)
                .map(PayloadToken::Map),
            Head::Array(0) => self
                .count(u64::from(head & 0x0f), start)
                .map(PayloadToken::Array),
            Head::Nil => Ok(PayloadToken::Nil),
            Head::Bool(value) => Ok(PayloadToken::Bool(value)),
            Head::Bytes(1) => self
                .length(1, 0, start)
                .and_then(|length| self.take(length))
                .map(PayloadToken::Bytes),
            Head::Bytes(2) => self
                .length(2, 1 << 8, start)
                .and_then(|length| self.take(length))
                .map(PayloadToken::Bytes),
            Head::Bytes(_) => self
                .length(4, 1 << 16, start)
                .and_then(|length| self.take(length))
                .map(PayloadToken::Bytes),
            Head::Float(4) => {
                let value = f32::from_bits(self.number(4)? as u32);
                self.deviates(start, "a number is a single-precision float");
                finite(f64::from(value), start).map(PayloadToken::Float)
            }
            Head::Float(_) => {
                finite(f64::from_bits(self.number(8)?), start).map(PayloadToken::Float)
            }
            Head::Unsigned(1) => self.unsigned(1, 1 << 7, start),
            Head::Unsigned(2) => self.unsigned(2, 1 << 8, start),
            Head::Unsigned(4) => self.unsigned(4, 1 << 16, start),
            Head::Unsigned(_) => self.unsigned(8, 1 << 32, start),
            Head::Signed(1) => self.signed(1, -32, start),
            Head::Signed(2) => self.signed(2, i64::from(i8::MIN), start),
            Head::Signed(4) => self.signed(4, i64::from(i16::MIN), start),
            Head::Signed(_) => self.signed(8, i64::from(i32::MIN), start),
            Head::Text(1) => self
                .length(1, 32, start)
                .and_then(|length| self.string(length, start)),
            Head::Text(2) => self
                .length(2, 1 << 8, start)
                .and_then(|length| self.string(length, start)),
            Head::Text(_) => self
                .length(4, 1 << 16, start)
                .and_then(|length| self.string(length, start)),
            Head::Array(2) => self.length(2, 16, start).map(PayloadToken::Array),
            Head::Array(_) => self.length(4, 1 << 16, start).map(PayloadToken::Array),
            Head::Map(2) => self.length(2, 16, start).map(PayloadToken::Map),
            Head::Map(_) => self.length(4, 1 << 16, start).map(PayloadToken::Map),
            Head::Unused => Err(GrainError::corrupt(
                start,
                "the byte 0xc1 is not used in MessagePack",
            )),
            Head::Extension => Err(GrainError::corrupt(
                start,
                "MessagePack extension types are not allowed in a grain",
            )),
        }
    }

    fn move_to(&mut self, position: usize) {
        self.position = position;
    }

    fn validates(&self) -> bool {
        !self.validated
    }

    fn skip_token(&mut self) -> Result<usize, GrainError> {
        let start = self.position;
        let Some(&head) = self.bytes.get(start) else {
            return Ok(self.token()?.children());
        };
        self.position += 1;
        match Head::of(head) {
            Head::Text(0) => self.skip_bytes(usize::from(head & 0x1f)),
            Head::Text(1) => self
                .number(1)
                .and_then(|length| self.skip_bytes(length as usize)),
            Head::Text(2) => self
                .number(2)
                .and_then(|length| self.skip_bytes(length as usize)),
            Head::Text(_) => self
                .number(4)
                .and_then(|length| self.skip_bytes(length as usize)),
            Head::SmallInt => Ok(0),
            // Skipping any other token costs as much as reading it.
            _ => {
                self.position = start;
                Ok(self.token()?.children())
            }
        }
    }
}

impl MessagePackReader<'_> {
    fn count(&self, count: u64, start: usize) -> Result<usize, GrainError> {
        check_count(count, self.bytes.len() - self.position, start)
    }
}

/// Appends the canonical encoding of `value`.
///
/// # Errors
/// [`ErrorCode::FloatInvalid`]; [`ErrorCode::Corrupt`] for a byte-order mark or for a key that is
/// repeated after normalization.
pub(super) fn write(value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), GrainError> {
    match value {
        Value::Nil => out.push(0xc0),
        Value::Bool(value) => out.push(if *value { 0xc3 } else { 0xc2 }),
        Value::Int(Integer::Unsigned(value)) => write_unsigned(*value, out),
        Value::Int(Integer::Negative(value)) => write_negative(*value, out),
        Value::Float(value) => {
            if !value.is_finite() {
                return Err(GrainError::new(
                    ErrorCode::FloatInvalid,
                    "a number is NaN or infinite",
                ));
            }
            out.push(0xcb);
            out.extend(value.to_be_bytes());
        }
        Value::Text(text) => write_text(&normalize(text)?, out),
        Value::Bytes(bytes) => {
            write_head(
                bytes.len(),
                &[(0, 1, 0xc4), (1 << 8, 2, 0xc5), (1 << 16, 4, 0xc6)],
                out,
            );
            out.extend(bytes);
        }
        Value::Array(items) => {
            write_small_head(
                items.len(),
                16,
                0x90,
                &[(0, 2, 0xdc), (1 << 16, 4, 0xdd)],
                out,
            );
            for item in items {
                write(item, out)?;
            }
        }
        Value::Map(entries) => {
            let entries = sorted_entries(entries, |left, right| left.cmp(right))?;
            write_small_head(
                entries.len(),
                16,
                0x80,
                &[(0, 2, 0xde), (1 << 16, 4, 0xdf)],
                out,
            );
            for (key, value) in entries {
                write_text(&key, out);
                write(value, out)?;
            }
        }
    }
    Ok(())
}

/// Returns the entries to write: keys normalized and in `order`, nulls omitted.
pub(super) fn sorted_entries<'v>(
    entries: &'v [(Cow<'_, str>, Value<'v>)],
    order: fn(&str, &str) -> Ordering,
) -> Result<Vec<(Cow<'v, str>, &'v Value<'v>)>, GrainError> {
    let mut sorted = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        if *value != Value::Nil {
            sorted.push((normalize(key)?, value));
        }
    }
    sorted.sort_by(|(left, _), (right, _)| order(left, right));
    check_distinct(&sorted)?;
    Ok(sorted)
}

/// Checks that no key of `sorted` is repeated.
fn check_distinct(sorted: &[(Cow<'_, str>, &Value<'_>)]) -> Result<(), GrainError> {
    match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => {
            let message = format!("the key `{}` is repeated in one map", pair[0].0);
            Err(GrainError::new(ErrorCode::Corrupt, message))
        }
        None => Ok(()),
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    write_small_head(
        text.len(),
        32,
        0xa0,
        &[(0, 1, 0xd9), (1 << 8, 2, 0xda), (1 << 16, 4, 0xdb)],
        out,
    );
    out.extend(text.as_bytes());
}

/// Writes a one-byte head with the length if that is below `limit`, else one of `forms`.
fn write_small_head(
    length: usize,
    limit: usize,
    base: u8,
    forms: &[(usize, usize, u8)],
    out: &mut Vec<u8>,
) {
    if length < limit {
        out.push(base | length as u8);
    } else {
        write_head(length, forms, out);
    }
}

/// Writes the smallest of `forms` (least length, width in bytes, head byte; ascending) that fits
/// `length`.
fn write_head(length: usize, forms: &[(usize, usize, u8)], out: &mut Vec<u8>) {
    if let Some((_, width, head)) = forms.iter().rev().find(|(least, _, _)| length >= *least) {
        out.push(*head);
        out.extend(&(length as u64).to_be_bytes()[8 - width..]);
    }
}

fn write_unsigned(value: u64, out: &mut Vec<u8>) {
    let (head, width) = match value {
        0..=0x7f => return out.push(value as u8),
        0x80..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        _ => (0xcf, 8),
    };
    out.push(head);
    out.extend(&value.to_be_bytes()[8 - width..]);
}

fn write_negative(value: i64, out: &mut Vec<u8>) {
    let (head, width) = match value {
        -32.. => return out.push(value as u8),
        -0x80..-32 => (0xd0, 1),
        -0x8000..-0x80 => (0xd1, 2),
        -0x8000_0000..-0x8000 => (0xd2, 4),
        _ => (0xd3, 8),
    };
    out.push(head);
    out.extend(&value.to_be_bytes()[8 - width..]);
}
