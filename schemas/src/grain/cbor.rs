//! The CBOR codec, the optional encoding: writes deterministic CBOR (RFC 8949 §4.2.1), reads
//! definite-length CBOR (§16.2).
//!
//! Indefinite lengths, tags and `undefined` are errors in every mode: no grain needs them, and
//! rejecting them keeps readers with different CBOR support in agreement. Only the unprotected
//! header of an envelope, which is no part of a grain, may have them.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use half::f16;

use super::msgpack::sorted_entries;
use super::token::{
    Deviation, HeadKind, ItemHead, PayloadToken, TokenReader, big_endian, check_count, finite,
    normalize, skip,
};
use super::value::{Integer, Value};
use crate::error::{ErrorCode, GrainError};

/// Returns true if a CBOR map can start with the byte `first`.
pub(super) fn begins_map(first: u8) -> bool {
    matches!(MajorType::of(first), MajorType::Map)
}

/// The major type of an item (RFC 8949 §3.1): the high three bits of its first byte.
#[derive(Debug, Clone, Copy)]
enum MajorType {
    Unsigned,
    Negative,
    Bytes,
    Text,
    Array,
    Map,
    Tag,
    Simple,
}

impl MajorType {
    #[inline(always)]
    fn of(head: u8) -> MajorType {
        match head >> 5 {
            0 => MajorType::Unsigned,
            1 => MajorType::Negative,
            2 => MajorType::Bytes,
            3 => MajorType::Text,
            4 => MajorType::Array,
            5 => MajorType::Map,
            6 => MajorType::Tag,
            _ => MajorType::Simple,
        }
    }
}

/// Returns the number of bytes of the argument after a head with the low five bits `info`; 0 if
/// these are the argument, `None` for reserved heads and indefinite lengths.
#[inline(always)]
fn argument_width(info: u8) -> Option<usize> {
    match info {
        0..=23 => Some(0),
        24..=27 => Some(1_usize << (info - 24)),
        _ => None,
    }
}

/// Returns the head of the item at the start of `bytes`; `None` if it is incomplete or none.
pub(super) fn item_head(bytes: &[u8]) -> Option<ItemHead> {
    let (head, rest) = bytes.split_first()?;
    let kind = match MajorType::of(*head) {
        MajorType::Unsigned | MajorType::Negative | MajorType::Simple => HeadKind::Scalar,
        MajorType::Bytes => HeadKind::Bytes,
        MajorType::Text => HeadKind::Text,
        MajorType::Array => HeadKind::Array,
        MajorType::Map => HeadKind::Map,
        MajorType::Tag => HeadKind::Tag,
    };
    let info = head & 0x1f;
    ItemHead::read(kind, argument_width(info)?, info, rest)
}

/// A cursor over a CBOR payload.
pub(super) struct CborReader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// True if the payload was validated before, so that checks are skipped.
    validated: bool,
    deviation: Option<Deviation>,
}

impl<'a> CborReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        CborReader {
            bytes,
            position: 0,
            validated: false,
            deviation: None,
        }
    }

    /// Creates a reader at `position` of a payload that was validated before.
    pub(super) fn validated(bytes: &'a [u8], position: usize) -> Self {
        CborReader {
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

    fn number(&mut self, width: usize) -> Result<u64, GrainError> {
        Ok(big_endian(self.take(width)?))
    }

    /// Reads the argument of a head with the low five bits `info`.
    fn argument(&mut self, info: u8, start: usize) -> Result<u64, GrainError> {
        let width = match (argument_width(info), info) {
            (Some(0), _) => return Ok(u64::from(info)),
            (Some(width), _) => width,
            (None, 31) => {
                return Err(GrainError::corrupt(
                    start,
                    "indefinite lengths are not deterministic CBOR",
                ));
            }
            (None, _) => return Err(GrainError::corrupt(start, "a reserved CBOR head")),
        };
        // The smallest argument that half as many bytes, or the head alone, can't contain.
        let least = if width == 1 { 24 } else { 1_u64 << (4 * width) };
        let argument = self.number(width)?;
        if argument < least {
            self.deviates(start, "an integer or length isn't in its smallest form");
        }
        Ok(argument)
    }

    fn count(&mut self, info: u8, start: usize) -> Result<usize, GrainError> {
        let count = self.argument(info, start)?;
        check_count(count, self.bytes.len() - self.position, start)
    }

    fn simple(&mut self, info: u8, start: usize) -> Result<PayloadToken<'a>, GrainError> {
        let (value, width) = match info {
            20 => return Ok(PayloadToken::Bool(false)),
            21 => return Ok(PayloadToken::Bool(true)),
            22 => return Ok(PayloadToken::Nil),
            25 => (f16::from_bits(self.number(2)? as u16).to_f64(), 2),
            26 => (f64::from(f32::from_bits(self.number(4)? as u32)), 4),
            27 => (f64::from_bits(self.number(8)?), 8),
            _ => {
                return Err(GrainError::corrupt(
                    start,
                    "this CBOR simple value is not allowed in a grain",
                ));
            }
        };
        self.float(value, width, start)
    }

    /// Returns the token of a float that was stored in `width` bytes, and notes a deviation if
    /// fewer bytes would do.
    #[inline]
    fn float(
        &mut self,
        value: f64,
        width: usize,
        start: usize,
    ) -> Result<PayloadToken<'a>, GrainError> {
        let value = finite(value, start)?;
        if float_width(value) < width {
            self.deviates(start, "a float isn't in its shortest form");
        }
        Ok(PayloadToken::Float(value))
    }
}

impl<'a> TokenReader<'a> for CborReader<'a> {
    const SHORT_TEXT: RangeInclusive<u8> = 0x60..=0x77;

    fn position(&self) -> usize {
        self.position
    }

    fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn fork(&self, position: usize) -> Self {
        CborReader {
            position,
            deviation: None,
            ..*self
        }
    }

    fn deviation(&mut self) -> &mut Option<Deviation> {
        &mut self.deviation
    }

    fn key_order(left: &str, right: &str) -> Ordering {
        encoded_order(left, right)
    }

    fn move_to(&mut self, position: usize) {
        self.position = position;
    }

    fn validates(&self) -> bool {
        !self.validated
    }

    fn token(&mut self) -> Result<PayloadToken<'a>, GrainError> {
        let start = self.position;
        let &head = self.bytes.get(start).ok_or_else(|| {
            GrainError::corrupt(start, "the payload ends where a value was expected")
        })?;
        self.position += 1;
        let info = head & 0x1f;
        match MajorType::of(head) {
            MajorType::Unsigned => {
                let value = self.argument(info, start)?;
                Ok(i64::try_from(value).map_or(PayloadToken::BigInt(value), PayloadToken::Int))
            }
            MajorType::Negative => match i64::try_from(self.argument(info, start)?) {
                Ok(value) => Ok(PayloadToken::Int(-1 - value)),
                Err(_) => Err(GrainError::corrupt(
                    start,
                    "an integer is below the range of 64 bits",
                )),
            },
            MajorType::Bytes => self
                .count(info, start)
                .and_then(|length| self.take(length))
                .map(PayloadToken::Bytes),
            MajorType::Text => {
                let length = self.count(info, start)?;
                let bytes = self.take(length)?;
                Ok(PayloadToken::Text(self.text(bytes, start)?))
            }
            MajorType::Array => self.count(info, start).map(PayloadToken::Array),
            MajorType::Map => self.count(info, start).map(PayloadToken::Map),
            MajorType::Tag => Err(GrainError::corrupt(
                start,
                "CBOR tags are not allowed in a grain",
            )),
            MajorType::Simple => self.simple(info, start),
        }
    }
}

/// Compares keys by their encoded bytes. The head encodes the length, so shorter keys come first.
fn encoded_order(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

/// Returns the width in bytes, without the head, of the shortest float that represents `value`
/// exactly.
fn float_width(value: f64) -> usize {
    if f16::from_f64(value).to_f64().to_bits() == value.to_bits() {
        2
    } else if f64::from(value as f32).to_bits() == value.to_bits() {
        4
    } else {
        8
    }
}

/// Appends the deterministic encoding of `value`; errors as for MessagePack.
pub(super) fn write(value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), GrainError> {
    match value {
        Value::Nil => out.push(0xf6),
        Value::Bool(value) => out.push(if *value { 0xf5 } else { 0xf4 }),
        Value::Int(Integer::Unsigned(value)) => write_head(0, *value, out),
        Value::Int(Integer::Negative(value)) => write_head(1, (-1 - value).unsigned_abs(), out),
        Value::Float(value) => write_float(*value, out)?,
        Value::Text(text) => write_text(&normalize(text)?, out),
        Value::Bytes(bytes) => {
            write_head(2, bytes.len() as u64, out);
            out.extend(bytes);
        }
        Value::Array(items) => {
            write_head(4, items.len() as u64, out);
            for item in items {
                write(item, out)?;
            }
        }
        Value::Map(entries) => {
            let entries = sorted_entries(entries, encoded_order)?;
            write_head(5, entries.len() as u64, out);
            for (key, value) in entries {
                write_text(&key, out);
                write(value, out)?;
            }
        }
    }
    Ok(())
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    write_head(3, text.len() as u64, out);
    out.extend(text.as_bytes());
}

fn write_head(major: u8, argument: u64, out: &mut Vec<u8>) {
    let (info, width) = match argument {
        0..=23 => return out.push(major << 5 | argument as u8),
        24..=0xff => (24, 1),
        0x100..=0xffff => (25, 2),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 8),
    };
    out.push(major << 5 | info);
    out.extend(&argument.to_be_bytes()[8 - width..]);
}

fn write_float(value: f64, out: &mut Vec<u8>) -> Result<(), GrainError> {
    if !value.is_finite() {
        return Err(GrainError::new(
            ErrorCode::FloatInvalid,
            "a number is NaN or infinite",
        ));
    }
    match float_width(value) {
        2 => {
            out.push(0xf9);
            out.extend(f16::from_f64(value).to_be_bytes());
        }
        4 => {
            out.push(0xfa);
            out.extend((value as f32).to_be_bytes());
        }
        _ => {
            out.push(0xfb);
            out.extend(value.to_be_bytes());
        }
    }
    Ok(())
}

/// An item of a CBOR array: its extent, and its content if it is a byte string.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(feature = "sign"),
    expect(dead_code, reason = "only signatures read the items")
)]
pub(crate) struct CborItem<'a> {
    /// The offset of the end of the item, from the start of the array.
    pub(crate) end: usize,
    /// The content of a byte string.
    pub(crate) bytes: Option<&'a [u8]>,
}

/// Returns the four items of the CBOR array that `bytes` consist of: the structure of a COSE_Sign1.
#[cfg(feature = "sign")]
pub(crate) fn cbor_items(bytes: &[u8]) -> Result<[CborItem<'_>; 4], GrainError> {
    let mut reader = CborReader::new(bytes);
    let items = four_items(&mut reader)?;
    if reader.position() != bytes.len() {
        return Err(GrainError::corrupt(
            reader.position(),
            "bytes follow the envelope",
        ));
    }
    Ok(items)
}

/// Returns the length in bytes of the envelope, tagged or not, at the start of `bytes`.
pub(crate) fn envelope_length(bytes: &[u8]) -> Result<usize, GrainError> {
    let tag = usize::from(bytes.first() == Some(&0xd2));
    let mut reader = CborReader::new(bytes.get(tag..).unwrap_or_default());
    four_items(&mut reader)?;
    Ok(tag + reader.position())
}

/// The place of the unprotected header among the items of an envelope.
const UNPROTECTED: usize = 1;

fn four_items<'a>(reader: &mut CborReader<'a>) -> Result<[CborItem<'a>; 4], GrainError> {
    if reader.token()? != PayloadToken::Array(4) {
        return Err(GrainError::corrupt(
            0,
            "an envelope must be a CBOR array of four items",
        ));
    }
    let mut items = [CborItem {
        end: 0,
        bytes: None,
    }; 4];
    for (at, item) in items.iter_mut().enumerate() {
        let bytes = if at == UNPROTECTED {
            skip_any(reader)?;
            None
        } else {
            match skip(reader)? {
                PayloadToken::Bytes(bytes) => Some(bytes),
                _ => None,
            }
        };
        *item = CborItem {
            end: reader.position(),
            bytes,
        };
    }
    Ok(items)
}

/// The end of an item of indefinite length.
const BREAK: u8 = 0xff;

/// The low five bits of the head of an item of indefinite length.
const INDEFINITE: u8 = 31;

/// The most items that may be open within each other in the header of an envelope.
const MAX_OPEN: usize = 128;

/// Skips one item of any CBOR. The unprotected header of an envelope may have what no grain has:
/// tags, indefinite lengths and all simple values (RFC 9052 §1.4).
fn skip_any(reader: &mut CborReader<'_>) -> Result<(), GrainError> {
    // The number of items that each open item still lacks; `None` before a break.
    let mut open = vec![Some(1_usize)];
    while let Some(left) = open.last_mut() {
        let start = reader.position;
        match left {
            Some(0) => {
                open.pop();
                continue;
            }
            Some(left) => *left -= 1,
            None if reader.bytes.get(start) == Some(&BREAK) => {
                reader.position += 1;
                open.pop();
                continue;
            }
            None => {}
        }
        skip_head(reader, &mut open)?;
        if open.len() > MAX_OPEN {
            return Err(GrainError::corrupt(
                start,
                "a header of the envelope is nested too deep",
            ));
        }
    }
    Ok(())
}

/// Skips the head of an item, and the content of a string. Adds an item with children to `open`.
fn skip_head(reader: &mut CborReader<'_>, open: &mut Vec<Option<usize>>) -> Result<(), GrainError> {
    let start = reader.position;
    let head = reader.take(1)?.first().copied().unwrap_or_default();
    let info = head & 0x1f;
    let major = MajorType::of(head);
    let has_parts = matches!(
        major,
        MajorType::Bytes | MajorType::Text | MajorType::Array | MajorType::Map
    );
    if info == INDEFINITE && has_parts {
        open.push(None);
        return Ok(());
    }
    match major {
        MajorType::Unsigned | MajorType::Negative | MajorType::Simple => {
            reader.argument(info, start)?;
        }
        MajorType::Bytes | MajorType::Text => {
            let length = reader.count(info, start)?;
            reader.take(length)?;
        }
        MajorType::Array => open.push(Some(reader.count(info, start)?)),
        MajorType::Map => open.push(Some(reader.count(info, start)?.saturating_mul(2))),
        MajorType::Tag => {
            reader.argument(info, start)?;
            open.push(Some(1));
        }
    }
    Ok(())
}
