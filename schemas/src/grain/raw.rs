//! Values where they lie: slices of a payload that was walked and found readable.

use super::cbor::CborReader;
use super::msgpack::MessagePackReader;
use super::payload::Encoding;
use super::token::{Reader, Token, deeper, pass_over, walk_array, walk_map};
use super::value::Value;
use crate::error::GrainError;

/// One value of a payload, borrowing its bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RawValue<'a> {
    /// Null; only inside arrays.
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
    Array(Encoded<'a>),
    /// A map.
    Map(Encoded<'a>),
}

/// The encoded items of an array or entries of a map, without their head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Encoded<'a> {
    bytes: &'a [u8],
    count: usize,
    encoding: Encoding,
}

/// Reads the value that begins at the reader's position inside a container at `depth`, walking all
/// that is in it.
#[inline(always)]
pub(super) fn read_raw<'a, R: Reader<'a>>(
    reader: &mut R,
    encoding: Encoding,
    depth: usize,
) -> Result<RawValue<'a>, GrainError> {
    let offset = reader.position();
    read_with(reader, encoding, |reader, token| match token {
        Token::Map(count) => walk_map(reader, count, deeper(depth, offset)?),
        Token::Array(count) => walk_array(reader, count, deeper(depth, offset)?),
        _ => Ok(()),
    })
}

/// [`read_raw`] of a value that was walked before.
#[inline(always)]
pub(super) fn read_again<'a, R: Reader<'a>>(
    reader: &mut R,
    encoding: Encoding,
) -> Result<RawValue<'a>, GrainError> {
    read_with(reader, encoding, |reader, token| {
        pass_over(reader, token.children())
    })
}

/// Reads a value; `inside` goes through what belongs to its first token.
#[inline(always)]
fn read_with<'a, R: Reader<'a>>(
    reader: &mut R,
    encoding: Encoding,
    inside: impl FnOnce(&mut R, Token<'a>) -> Result<(), GrainError>,
) -> Result<RawValue<'a>, GrainError> {
    let token = reader.token()?;
    let start = reader.position();
    inside(reader, token)?;
    let encoded = |count| {
        let bytes = reader
            .bytes()
            .get(start..reader.position())
            .unwrap_or_default();
        Encoded {
            bytes,
            count,
            encoding,
        }
    };
    Ok(match token {
        Token::Nil => RawValue::Nil,
        Token::Bool(value) => RawValue::Bool(value),
        Token::Int(value) => RawValue::Int(value),
        Token::BigInt(value) => RawValue::BigInt(value),
        Token::Float(value) => RawValue::Float(value),
        Token::Text(text) => RawValue::Text(text),
        Token::Bytes(bytes) => RawValue::Bytes(bytes),
        Token::Array(count) => RawValue::Array(encoded(count)),
        Token::Map(count) => RawValue::Map(encoded(count)),
    })
}

impl<'a> RawValue<'a> {
    /// The value that `bytes` begin with, whatever follows it and whatever it means.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupt`](crate::error::ErrorCode::Corrupt) if they begin with none that can be
    /// read.
    pub fn read(bytes: &'a [u8], encoding: Encoding) -> Result<RawValue<'a>, GrainError> {
        match encoding {
            Encoding::MessagePack => read_raw(&mut MessagePackReader::new(bytes), encoding, 0),
            Encoding::Cbor => read_raw(&mut CborReader::new(bytes), encoding, 0),
        }
    }

    /// The text, if this is a string.
    pub fn as_text(&self) -> Option<&'a str> {
        match self {
            RawValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The integer, if this is one that fits.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            RawValue::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The number as a double, if this is a number.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            RawValue::Int(value) => Some(*value as f64),
            RawValue::BigInt(value) => Some(*value as f64),
            RawValue::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            RawValue::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The items, if this is an array.
    pub fn as_array(&self) -> Option<Items<'a>> {
        match self {
            RawValue::Array(encoded) => Some(encoded.items()),
            _ => None,
        }
    }

    /// The entries, if this is a map.
    pub fn as_map(&self) -> Option<Entries<'a>> {
        match self {
            RawValue::Map(encoded) => Some(encoded.entries()),
            _ => None,
        }
    }

    /// The value of `key`, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<RawValue<'a>> {
        self.as_map()?
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value)
    }

    /// How many items or entries an array or map has; 0 for any other value.
    pub fn count(&self) -> usize {
        match self {
            RawValue::Array(encoded) | RawValue::Map(encoded) => encoded.count,
            _ => 0,
        }
    }

    /// What the value is called in messages to people.
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

    /// The value as an owned tree.
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

impl<'a> Encoded<'a> {
    /// The encoded bytes of the items or entries, without the container's head: equal bytes, equal
    /// content.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The items of an array.
    pub fn items(&self) -> Items<'a> {
        Items {
            cursor: Cursor::new(self.bytes, self.encoding),
            encoding: self.encoding,
            left: self.count,
        }
    }

    /// The entries of a map.
    pub fn entries(&self) -> Entries<'a> {
        Entries {
            cursor: Cursor::new(self.bytes, self.encoding),
            encoding: self.encoding,
            left: self.count,
        }
    }
}

/// A reader of either encoding. The bytes were walked before, so reading them again doesn't fail;
/// an iterator that meets an error all the same ends.
#[derive(Clone)]
enum Cursor<'a> {
    MessagePack(usize, &'a [u8]),
    Cbor(usize, &'a [u8]),
}

impl<'a> Cursor<'a> {
    fn new(bytes: &'a [u8], encoding: Encoding) -> Self {
        match encoding {
            Encoding::MessagePack => Cursor::MessagePack(0, bytes),
            Encoding::Cbor => Cursor::Cbor(0, bytes),
        }
    }

    fn next(&mut self, encoding: Encoding) -> Option<RawValue<'a>> {
        fn read<'a, R: Reader<'a>>(
            at: &mut usize,
            mut reader: R,
            encoding: Encoding,
        ) -> Option<RawValue<'a>> {
            let value = read_again(&mut reader, encoding).ok()?;
            *at = reader.position();
            Some(value)
        }
        match self {
            Cursor::MessagePack(at, bytes) => {
                read(at, MessagePackReader::again(bytes, *at), encoding)
            }
            Cursor::Cbor(at, bytes) => read(at, CborReader::again(bytes, *at), encoding),
        }
    }
}

/// The items of an array, in order.
#[derive(Clone)]
pub struct Items<'a> {
    cursor: Cursor<'a>,
    encoding: Encoding,
    left: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = RawValue<'a>;

    fn next(&mut self) -> Option<RawValue<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.cursor.next(self.encoding)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}

/// The entries of a map, in the order of the bytes. Null entries, which canonical form omits, are
/// passed over.
#[derive(Clone)]
pub struct Entries<'a> {
    cursor: Cursor<'a>,
    encoding: Encoding,
    left: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a str, RawValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.left = self.left.checked_sub(1)?;
            let key = self.cursor.next(self.encoding)?.as_text()?;
            match self.cursor.next(self.encoding)? {
                RawValue::Nil => {}
                value => return Some((key, value)),
            }
        }
    }
}
