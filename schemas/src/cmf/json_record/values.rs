//! JSON of primitive types, lists, maps, bytes and times.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, FixedOffset, NaiveDateTime};

use super::{FromJson, ToJson, wrong_type};
use crate::cmf::error::{CmfError, JsonPath, quoted};
use crate::json::{Json, Number, Object};

impl FromJson for String {
    const EXPECTED: &'static str = "string";

    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        json.as_str()
            .map(str::to_owned)
            .ok_or_else(|| wrong_type::<Self>(json, place))
    }
}

impl ToJson for String {
    fn write(&self) -> Json<'static> {
        Json::from(self.clone())
    }
}

impl FromJson for bool {
    const EXPECTED: &'static str = "boolean";

    /// Accepts booleans, the usual words for them, and 0 and 1, as writers of the format differ.
    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        let value = match json {
            Json::Bool(value) => Some(*value),
            Json::String(text) => boolean_word(text),
            Json::Number(number) => match whole(number) {
                Some(0) => Some(false),
                Some(1) => Some(true),
                _ => None,
            },
            _ => None,
        };
        value.ok_or_else(|| wrong_type::<Self>(json, place))
    }
}

fn boolean_word(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
        _ => None,
    }
}

impl ToJson for bool {
    fn write(&self) -> Json<'static> {
        Json::Bool(*self)
    }
}

impl FromJson for i64 {
    const EXPECTED: &'static str = "integer";

    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        let (value, spelling) = match json {
            Json::Number(number) => (whole(number), number.as_str()),
            Json::String(text) => (spelled(text), &**text),
            _ => return Err(wrong_type::<Self>(json, place)),
        };
        value.ok_or_else(|| CmfError::NotAnInteger {
            path: place.path(),
            found: quoted(spelling),
        })
    }
}

/// Parses the integer in a text: digits, optionally with a fraction of zeros.
fn spelled(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = match text.split_once('.') {
        Some((digits, fraction)) if fraction.bytes().all(|byte| byte == b'0') => digits,
        Some(_) => return None,
        None => text,
    };
    digits.parse().ok()
}

/// Returns the integer value of a number: `13.0` and `1.3e1` are 13. A number that is not written
/// as an integer must be small enough for a double to be exact.
fn whole(number: &Number) -> Option<i64> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    let is_exact = |value: &f64| value.fract() == 0.0 && value.abs() < EXACT;
    let spelled_otherwise =
        || Some(number.as_f64()).filter(|value| !number.is_integer() && is_exact(value));
    number
        .as_i64()
        .or_else(|| spelled_otherwise().map(|value| value as i64))
}

impl ToJson for i64 {
    fn write(&self) -> Json<'static> {
        Json::from(*self)
    }
}

impl FromJson for f64 {
    const EXPECTED: &'static str = "finite number";

    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        let spelled = || json.as_str()?.trim().parse().ok();
        let value = json
            .as_f64()
            .or_else(spelled)
            .filter(|value: &f64| value.is_finite());
        value.ok_or_else(|| wrong_type::<Self>(json, place))
    }
}

impl ToJson for f64 {
    /// Writes null for values that JSON can't represent; parsing never produces them.
    fn write(&self) -> Json<'static> {
        Number::from_f64(*self).map_or(Json::Null, Json::Number)
    }
}

impl FromJson for Json<'static> {
    const EXPECTED: &'static str = "any value";

    fn read(json: &Json, _place: &JsonPath) -> Result<Self, CmfError> {
        Ok(json.clone().into_owned())
    }
}

impl ToJson for Json<'static> {
    fn write(&self) -> Json<'static> {
        self.clone()
    }
}

impl FromJson for Object<'static> {
    const EXPECTED: &'static str = "object";

    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        json.as_object()
            .map(|object| object.clone().into_owned())
            .ok_or_else(|| wrong_type::<Self>(json, place))
    }
}

impl ToJson for Object<'static> {
    fn write(&self) -> Json<'static> {
        Json::Object(self.clone())
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    const EXPECTED: &'static str = "array";

    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        let items = json
            .as_array()
            .ok_or_else(|| wrong_type::<Self>(json, place))?;
        items
            .iter()
            .enumerate()
            .map(|(at, item)| T::read(item, &place.index(at)))
            .collect()
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn write(&self) -> Json<'static> {
        Json::Array(self.iter().map(ToJson::write).collect())
    }
}

impl FromJson for BTreeSet<String> {
    const EXPECTED: &'static str = "array";

    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        Ok(Vec::<String>::read(json, place)?.into_iter().collect())
    }
}

impl ToJson for BTreeSet<String> {
    /// Writes in the order of code points, so that equal sets have equal text.
    fn write(&self) -> Json<'static> {
        Json::Array(self.iter().map(ToJson::write).collect())
    }
}

impl<T: FromJson> FromJson for BTreeMap<String, T> {
    const EXPECTED: &'static str = "object";

    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        let object = json
            .as_object()
            .ok_or_else(|| wrong_type::<Self>(json, place))?;
        object
            .iter()
            .map(|(key, value)| Ok((key.to_owned(), T::read(value, &place.key(key))?)))
            .collect()
    }
}

impl<T: ToJson> ToJson for BTreeMap<String, T> {
    fn write(&self) -> Json<'static> {
        let mut object = Object::new();
        self.iter()
            .for_each(|(key, value)| object.push_unique(key.clone(), value.write()));
        Json::Object(object)
    }
}

/// Bytes that are base64 in JSON (standard alphabet, padded).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Blob(pub Vec<u8>);

impl FromJson for Blob {
    const EXPECTED: &'static str = "base64 string";

    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        let text = json
            .as_str()
            .ok_or_else(|| wrong_type::<Self>(json, place))?;
        let bytes = STANDARD.decode(text);
        bytes.map(Blob).map_err(|_| CmfError::NotBase64 {
            path: place.path(),
            found: quoted(text),
        })
    }
}

impl ToJson for Blob {
    fn write(&self) -> Json<'static> {
        Json::from(STANDARD.encode(&self.0))
    }
}

impl FromJson for DateTime<FixedOffset> {
    const EXPECTED: &'static str = "ISO 8601 time";

    /// Takes a time without offset as UTC.
    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        let text = json
            .as_str()
            .ok_or_else(|| wrong_type::<Self>(json, place))?;
        DateTime::parse_from_rfc3339(text)
            .or_else(|_| {
                text.parse::<NaiveDateTime>()
                    .map(|time| time.and_utc().fixed_offset())
            })
            .map_err(|_| CmfError::NotATime {
                path: place.path(),
                found: quoted(text),
            })
    }
}

impl ToJson for DateTime<FixedOffset> {
    fn write(&self) -> Json<'static> {
        Json::from(self.to_rfc3339())
    }
}
