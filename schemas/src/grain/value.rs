//! Payload values as owned or borrowed trees, the input of the encoders.

use std::borrow::Cow;

/// A value of a payload. An integer and a double of the same value are different, as they are
/// different bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// Null: omitted from maps, kept in arrays (§4.5).
    Nil,
    /// A boolean.
    Bool(bool),
    /// An integer from `i64::MIN` to `u64::MAX`.
    Int(Integer),
    /// A finite double.
    Float(f64),
    /// A string.
    Text(Cow<'a, str>),
    /// Binary data (only in `trusted_timestamp` and `supersession_auth`, §6.1).
    Bytes(Vec<u8>),
    /// An array.
    Array(Vec<Value<'a>>),
    /// A map in any order; encoders sort the entries.
    Map(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl Value<'_> {
    /// Returns an estimate of the encoded length in either encoding, to allocate once. An upper
    /// bound, except that normalization can lengthen a text by a few bytes.
    pub(super) fn encoded_length_at_most(&self) -> usize {
        /// A head and a number.
        const HEAD: usize = 9;
        const SHORT_HEAD: usize = 5;
        match self {
            Value::Nil | Value::Bool(_) => 1,
            Value::Int(_) | Value::Float(_) => HEAD,
            Value::Text(text) => SHORT_HEAD + text.len(),
            Value::Bytes(bytes) => SHORT_HEAD + bytes.len(),
            Value::Array(items) => items.iter().fold(SHORT_HEAD, |length, item| {
                length + item.encoded_length_at_most()
            }),
            Value::Map(entries) => entries.iter().fold(SHORT_HEAD, |length, (key, value)| {
                length + SHORT_HEAD + key.len() + value.encoded_length_at_most()
            }),
        }
    }
}

/// An integer in the range of both encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integer {
    /// Zero and above.
    Unsigned(u64),
    /// Below zero.
    Negative(i64),
}

impl From<u64> for Integer {
    fn from(value: u64) -> Self {
        Integer::Unsigned(value)
    }
}

impl From<i64> for Integer {
    fn from(value: i64) -> Self {
        u64::try_from(value).map_or(Integer::Negative(value), Integer::Unsigned)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(Cow::Owned(text))
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Value::Int(value.into())
    }
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Value::Int(value.into())
    }
}

impl<'a, T: Into<Value<'a>>> From<Vec<T>> for Value<'a> {
    fn from(items: Vec<T>) -> Self {
        Value::Array(items.into_iter().map(Into::into).collect())
    }
}
