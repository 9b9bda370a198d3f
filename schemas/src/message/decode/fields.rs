//! Typed extraction of the fields of an object; the remaining fields are preserved.

use std::borrow::Cow;

use super::MessageDecodeMode;
use super::error::{DecodeError, DecodeProblem};
use crate::json::{Json, Object};

/// The fields of an object that have not been extracted yet.
pub(super) struct FieldReader<'a> {
    object: Object<'a>,
}

impl<'a> FieldReader<'a> {
    pub(super) fn new(object: Object<'a>) -> Self {
        FieldReader { object }
    }

    /// Returns the remaining fields.
    pub(super) fn rest(self) -> Object<'a> {
        self.object
    }

    /// Takes a field unless it is absent or null.
    pub(super) fn optional(&mut self, key: &str) -> Option<Json<'a>> {
        self.object.remove(key).filter(|json| !json.is_null())
    }

    /// Takes a field that has a default but can't be null, unless it is absent. Null is absent in
    /// tolerant decoding, and in strict decoding a value of the wrong type.
    pub(super) fn defaulted(&mut self, key: &str, mode: MessageDecodeMode) -> Option<Json<'a>> {
        match mode {
            MessageDecodeMode::Strict => self.object.remove(key),
            MessageDecodeMode::Tolerant => self.optional(key),
        }
    }

    pub(super) fn required(&mut self, key: &str) -> Result<Json<'a>, DecodeError> {
        self.object
            .remove(key)
            .ok_or_else(|| DecodeError::new(DecodeProblem::Missing).inside(key))
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Cow<'a, str>, DecodeError> {
        expect_str(self.required(key)?).map_err(|error| error.inside(key))
    }

    pub(super) fn optional_text(&mut self, key: &str) -> Result<Option<Cow<'a, str>>, DecodeError> {
        self.optional(key)
            .map(expect_str)
            .transpose()
            .map_err(|error| error.inside(key))
    }

    pub(super) fn object(&mut self, key: &str) -> Result<Object<'a>, DecodeError> {
        match self.required(key)? {
            Json::Object(object) => Ok(object),
            other => Err(DecodeError::kind("object", &other).inside(key)),
        }
    }

    /// Takes a boolean; `default` if it is absent (see [`FieldReader::defaulted`]).
    pub(super) fn boolean(
        &mut self,
        key: &str,
        default: bool,
        mode: MessageDecodeMode,
    ) -> Result<bool, DecodeError> {
        match self.defaulted(key, mode) {
            None => Ok(default),
            Some(json) => json
                .as_bool()
                .ok_or_else(|| DecodeError::kind("boolean", &json).inside(key)),
        }
    }

    /// Takes a required count.
    pub(super) fn count(&mut self, key: &str) -> Result<u64, DecodeError> {
        let json = self.required(key)?;
        expect_count(&json).map_err(|error| error.inside(key))
    }

    /// Takes a count; 0 if it is absent (see [`FieldReader::defaulted`]).
    pub(super) fn count_or_zero(
        &mut self,
        key: &str,
        mode: MessageDecodeMode,
    ) -> Result<u64, DecodeError> {
        match self.defaulted(key, mode) {
            None => Ok(0),
            Some(json) => expect_count(&json).map_err(|error| error.inside(key)),
        }
    }

    /// Takes text from a closed set of names.
    pub(super) fn named<T>(
        &mut self,
        key: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, DecodeError> {
        let text = self.text(key)?;
        read(&text).ok_or_else(|| {
            DecodeError::new(DecodeProblem::UnknownValue(text.into_owned())).inside(key)
        })
    }

    /// Takes text that `read` parses.
    pub(super) fn parsed<T>(
        &mut self,
        key: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, DecodeError> {
        let text = self.text(key)?;
        read(&text).ok_or_else(|| {
            DecodeError::new(DecodeProblem::Malformed(text.into_owned())).inside(key)
        })
    }
}

pub(super) fn expect_object<'j, 'a>(json: &'j Json<'a>) -> Result<&'j Object<'a>, DecodeError> {
    json.as_object()
        .ok_or_else(|| DecodeError::kind("object", json))
}

pub(super) fn expect_str(json: Json<'_>) -> Result<Cow<'_, str>, DecodeError> {
    match json {
        Json::String(text) => Ok(text),
        other => Err(DecodeError::kind("string", &other)),
    }
}

fn expect_count(json: &Json) -> Result<u64, DecodeError> {
    json.as_u64()
        .ok_or_else(|| DecodeError::kind("unsigned integer", json))
}
