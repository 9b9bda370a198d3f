//! A JSON tree that keeps the spelling of every number and the order of every object.
//!
//! Grains, provider traffic and tool arguments must round-trip value for value, and a double can't
//! represent `-0.33660158358122172`, the difference of `1.0` and `1`, or integers beyond 64 bits.
//! [`Json`] therefore stores numbers as text ([`Number`]) and borrows strings without escapes from
//! the input.
//!
//! This module contains the tree, its parser (on `jiter`'s pull parser) and its writers. The
//! mapping between JSON and grains is in `grain::json`; provider formats are in the connectors.
//!
//! | module | question |
//! |---|---|
//! | `parse`, `write` | how is text parsed, and a tree written? |
//! | `number`, `object` | how are numbers with their spelling, and objects with their order, stored? |
//! | `surrogates` | where is one half of a surrogate pair alone? |
//! | `compare` | are two trees equal by spelling, and what is the hash by value? |

mod compare;
mod number;
mod object;
mod parse;
mod surrogates;
mod write;

use std::borrow::Cow;

pub use compare::hash_text;
pub use number::{Number, NumberParts};
pub use object::{Object, ObjectIndex};
pub use parse::{DEFAULT_DEPTH_LIMIT, DEFAULT_VALUE_LIMIT, JsonError, JsonErrorKind, JsonParser};
pub use write::write_string;

/// A JSON value. Borrows from the parsed text; [`Json::into_owned`] detaches it.
///
/// Equality is by value: numbers compare as exact decimals (`1.0 == 1`, `1e2 == 100`), objects as
/// sets of members.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Json<'a> {
    /// `null`
    #[default]
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number with its spelling.
    Number(Number<'a>),
    /// A string, unescaped.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Json<'a>>),
    /// An object in its original order.
    Object(Object<'a>),
}

impl<'a> Json<'a> {
    /// Creates a string value.
    pub fn string(text: impl Into<Cow<'a, str>>) -> Self {
        Json::String(text.into())
    }

    /// Returns true for `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }

    /// Returns the boolean if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the text if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number if this is one.
    pub fn as_number(&self) -> Option<&Number<'a>> {
        match self {
            Json::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the number as a signed integer if it is written as an integer (no dot, no exponent)
    /// and fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::as_i64)
    }

    /// Returns the number as an unsigned integer if it is written as an integer (no dot, no
    /// exponent) and fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number().and_then(Number::as_u64)
    }

    /// Returns the number as a double if this is a number.
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number().map(Number::as_f64)
    }

    /// Returns the items if this is an array.
    pub fn as_array(&self) -> Option<&[Json<'a>]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the members if this is an object.
    pub fn as_object(&self) -> Option<&Object<'a>> {
        match self {
            Json::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the members, mutably, if this is an object.
    pub fn as_object_mut(&mut self) -> Option<&mut Object<'a>> {
        match self {
            Json::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the member `key` if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        self.as_object().and_then(|object| object.get(key))
    }

    /// Returns a copy of the tree that borrows its text from `self`.
    pub fn reborrow(&self) -> Json<'_> {
        match self {
            Json::Null => Json::Null,
            Json::Bool(value) => Json::Bool(*value),
            Json::Number(number) => Json::Number(number.reborrow()),
            Json::String(text) => Json::String(Cow::Borrowed(text)),
            Json::Array(items) => Json::Array(items.iter().map(Json::reborrow).collect()),
            Json::Object(object) => Json::Object(object.reborrow()),
        }
    }

    /// Returns the name of the kind for error messages: `null`, `boolean`, `number`, `string`,
    /// `array` or `object`.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// Returns the value with all its text owned.
    pub fn into_owned(self) -> Json<'static> {
        match self {
            Json::Null => Json::Null,
            Json::Bool(value) => Json::Bool(value),
            Json::Number(number) => Json::Number(number.into_owned()),
            Json::String(text) => Json::String(Cow::Owned(text.into_owned())),
            Json::Array(items) => Json::Array(items.into_iter().map(Json::into_owned).collect()),
            Json::Object(object) => Json::Object(object.into_owned()),
        }
    }
}

impl<'a> From<&'a str> for Json<'a> {
    fn from(text: &'a str) -> Self {
        Json::String(Cow::Borrowed(text))
    }
}

impl From<String> for Json<'_> {
    fn from(text: String) -> Self {
        Json::String(Cow::Owned(text))
    }
}

impl From<bool> for Json<'_> {
    fn from(value: bool) -> Self {
        Json::Bool(value)
    }
}

impl From<i64> for Json<'_> {
    fn from(value: i64) -> Self {
        Json::Number(value.into())
    }
}

impl From<u64> for Json<'_> {
    fn from(value: u64) -> Self {
        Json::Number(value.into())
    }
}

impl<'a> From<Vec<Json<'a>>> for Json<'a> {
    fn from(items: Vec<Json<'a>>) -> Self {
        Json::Array(items)
    }
}

impl<'a> From<Object<'a>> for Json<'a> {
    fn from(object: Object<'a>) -> Self {
        Json::Object(object)
    }
}
