//! Zero-copy values: slices of a validated payload.

use super::cbor::CborReader;
use super::msgpack::MessagePackReader;
use super::payload::Encoding;
use super::token::{PayloadToken, TokenReader, nested_depth, skip_values, walk_array, walk_map};
use super::value::Value;
use crate::error::GrainError;

/// A value of a payload that borrows its bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RawValue<'a> {
    /// Null; occurs only inside arrays.
    Nil,
    /// A boolean.
    Bool(bool),
    /// An integer up to `i64::MAX`.
    Int(i64),
    /// An integer above `i64::MAX`.
    BigInt(u64),
    /// A finite double.
    Float(f64),
    /// A string.
    Text(&'a str),
    /// Binary data.
    Bytes(&'a [u8]),
    /// An array.
    Array(RawCollection<'a>),
    /// A map.
    Map(RawCollection<'a>),
}

/// The encoded items of an array or entries of a map, without the head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RawCollection<'a> {
    bytes: &'a [u8],
    count: usize,
    encoding: Encoding,
}

/// Reads and validates the value at the reader's position, inside a container at `depth`.
#[inline(always)]
pub(super) fn read_raw<'a, R: TokenReader<'a>>(
    reader: &mut R,
    encoding: Encoding,
    depth: usize,
) -> Result<RawValue<'a>, GrainError> {
    let offset = reader.position();
    read_with(reader, encoding, |reader, token| match token {
        PayloadToken::Map(count) => walk_map(reader, count, nested_depth(depth, offset)?),
        PayloadToken::Array(count) => walk_array(reader, count, nested_depth(depth, offset)?),
        _ => Ok(()),
    })
}

/// As [`read_raw`], for a value that was validated before.
#[inline(always)]
pub(super) fn read_validated<'a, R: TokenReader<'a>>(
    reader: &mut R,
    encoding: Encoding,
) -> Result<RawValue<'a>, GrainError> {
    read_with(reader, encoding, |reader, token| {
        skip_values(reader, token.children())
    })
}

/// Reads a value; `inside` consumes the children of its first token.
#[inline(always)]
fn read_with<'a, R: TokenReader<'a>>(
    reader: &mut R,
    encoding: Encoding,
    inside: impl FnOnce(&mut R, PayloadToken<'a>) -> Result<(), GrainError>,
) -> Result<RawValue<'a>, GrainError> {
    let token = reader.token()?;
    let start = reader.position();
    inside(reader, token)?;
    let encoded = |count| {
        let bytes = reader
            .bytes()
            .get(start..reader.position())
            .unwrap_or_default();
        RawCollection::new(bytes, count, encoding)
    };
    Ok(match token {
        PayloadToken::Nil => RawValue::Nil,
        PayloadToken::Bool(value) => RawValue::Bool(value),
        PayloadToken::Int(value) => RawValue::Int(value),
        PayloadToken::BigInt(value) => RawValue::BigInt(value),
        PayloadToken::Float(value) => RawValue::Float(value),
        PayloadToken::Text(text) => RawValue::Text(text),
        PayloadToken::Bytes(bytes) => RawValue::Bytes(bytes),
        PayloadToken::Array(count) => RawValue::Array(encoded(count)),
        PayloadToken::Map(count) => RawValue::Map(encoded(count)),
    })
}

impl<'a> RawValue<'a> {
    /// Reads the value at the start of `bytes`, ignoring trailing bytes and schema rules.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupt`](crate::error::ErrorCode::Corrupt) if there is no valid value.
    pub fn read(bytes: &'a [u8], encoding: Encoding) -> Result<RawValue<'a>, GrainError> {
        match encoding {
            Encoding::MessagePack => read_raw(&mut MessagePackReader::new(bytes), encoding, 0),
            Encoding::Cbor => read_raw(&mut CborReader::new(bytes), encoding, 0),
        }
    }

    /// Returns the text if this is a string.
    pub fn as_text(&self) -> Option<&'a str> {
        match self {
            RawValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the integer if this is one that fits `i64`.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            RawValue::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the number as a double if this is a number.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            RawValue::Int(value) => Some(*value as f64),
            RawValue::BigInt(value) => Some(*value as f64),
            RawValue::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the boolean if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            RawValue::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the items if this is an array.
    pub fn as_array(&self) -> Option<RawItems<'a>> {
        match self {
            RawValue::Array(encoded) => Some(encoded.items()),
            _ => None,
        }
    }

    /// Returns the entries if this is a map.
    pub fn as_map(&self) -> Option<RawEntries<'a>> {
        match self {
            RawValue::Map(encoded) => Some(encoded.entries()),
            _ => None,
        }
    }

    /// Returns the value of `key` if this is a map that contains it. Linear in the number of
    /// entries.
    pub fn get(&self, key: &str) -> Option<RawValue<'a>> {
        self.as_map()?
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value)
    }

    /// Returns the number of items of an array or entries of a map; 0 for any other value.
    pub fn count(&self) -> usize {
        match self {
            RawValue::Array(encoded) | RawValue::Map(encoded) => encoded.count,
            _ => 0,
        }
    }

    /// Returns the name of the kind for error messages, such as `a string`.
    pub fn kind_name(&self) -> &'static str {
        match self {
            RawValue::Nil => "null",
            RawValue::Bool(_) => "a boolean",
            RawValue::Int(_) | RawValue::BigInt(_) => "an integer",
            RawValue::Float(_) => "a float",
            RawValue::Text(_) => "a string",
            RawValue::Bytes(_) => "binary data",
            RawValue::Array(_) => "an array",
            RawValue::Map(_) => "a map",
        }
    }

    /// Copies the value into an owned tree.
    pub fn to_value(&self) -> Value<'static> {
        match self {
            RawValue::Nil => Value::Nil,
            RawValue::Bool(value) => (*value).into(),
            RawValue::Int(value) => (*value).into(),
            RawValue::BigInt(value) => (*value).into(),
            RawValue::Float(value) => (*value).into(),
            RawValue::Text(text) => (*text).to_owned().into(),
            RawValue::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
            RawValue::Array(encoded) => {
                Value::Array(encoded.items().map(|item| item.to_value()).collect())
            }
            RawValue::Map(encoded) => Value::Map(
                encoded
                    .entries()
                    .map(|(key, value)| (key.to_owned().into(), value.to_value()))
                    .collect(),
            ),
        }
    }
}

impl<'a> RawCollection<'a> {
    /// Wraps `count` encoded items or entries, which are validated before they are read.
    pub(super) const fn new(
        bytes: &'a [u8],
        count: usize,
        encoding: Encoding,
    ) -> RawCollection<'a> {
        RawCollection {
            bytes,
            count,
            encoding,
        }
    }

    /// Returns the encoded items or entries without the head. Equal bytes mean equal content.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the items of an array.
    pub fn items(&self) -> RawItems<'a> {
        RawItems {
            cursor: RawCursor::new(self.bytes, self.encoding),
            encoding: self.encoding,
            left: self.count,
        }
    }

    /// Returns the entries of a map.
    pub fn entries(&self) -> RawEntries<'a> {
        RawEntries {
            cursor: RawCursor::new(self.bytes, self.encoding),
            encoding: self.encoding,
            left: self.count,
        }
    }

    /// Returns the entries of a map, in encoded order, including null ones.
    pub fn all_entries(&self) -> impl Iterator<Item = (&'a str, RawValue<'a>)> + use<'a> {
        let mut entries = self.entries();
        std::iter::from_fn(move || entries.next_entry())
    }
}

/// A reader of either encoding. The bytes were validated before, so reading can't fail; on an error
/// the iterator ends nevertheless.
#[derive(Clone)]
enum RawCursor<'a> {
    MessagePack(usize, &'a [u8]),
    Cbor(usize, &'a [u8]),
}

impl<'a> RawCursor<'a> {
    fn new(bytes: &'a [u8], encoding: Encoding) -> Self {
        match encoding {
            Encoding::MessagePack => RawCursor::MessagePack(0, bytes),
            Encoding::Cbor => RawCursor::Cbor(0, bytes),
        }
    }

    fn next(&mut self, encoding: Encoding) -> Option<RawValue<'a>> {
        fn read<'a, R: TokenReader<'a>>(
            at: &mut usize,
            mut reader: R,
            encoding: Encoding,
        ) -> Option<RawValue<'a>> {
            let value = read_validated(&mut reader, encoding).ok()?;
            *at = reader.position();
            Some(value)
        }
        match self {
            RawCursor::MessagePack(at, bytes) => {
                read(at, MessagePackReader::validated(bytes, *at), encoding)
            }
            RawCursor::Cbor(at, bytes) => read(at, CborReader::validated(bytes, *at), encoding),
        }
    }
}

/// The items of an array, in order.
#[derive(Clone)]
pub struct RawItems<'a> {
    cursor: RawCursor<'a>,
    encoding: Encoding,
    left: usize,
}

impl<'a> Iterator for RawItems<'a> {
    type Item = RawValue<'a>;

    fn next(&mut self) -> Option<RawValue<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.cursor.next(self.encoding)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}

/// The entries of a map, in encoded order. Skips null entries, which canonical form omits.
#[derive(Clone)]
pub struct RawEntries<'a> {
    cursor: RawCursor<'a>,
    encoding: Encoding,
    left: usize,
}

impl<'a> RawEntries<'a> {
    /// Returns the next entry, which may be null.
    fn next_entry(&mut self) -> Option<(&'a str, RawValue<'a>)> {
        self.left = self.left.checked_sub(1)?;
        let key = self.cursor.next(self.encoding)?.as_text()?;
        Some((key, self.cursor.next(self.encoding)?))
    }
}

impl<'a> Iterator for RawEntries<'a> {
    type Item = (&'a str, RawValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_entry()? {
                (_, RawValue::Nil) => {}
                entry => return Some(entry),
            }
        }
    }
}
