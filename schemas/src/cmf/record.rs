//! How a JSON object becomes a struct and back: one declaration gives the struct, its reader and
//! its writer.
//!
//! A field is declared in one of four modes. `required`: the member must be there and not be null.
//! `default`: it may be absent, but not null. `optional`: absent and null are the same, and neither
//! is written. `rest`: the members that no other field takes. Members that nobody takes are
//! ignored, as the format has it, unless a check of the record refuses them.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, FixedOffset, NaiveDateTime};

use super::error::{CmfError, Place, quoted};
use crate::json::{DEFAULT_DEPTH_LIMIT, Json, Number, Object};

/// A type that JSON is read into: numbers and booleans also from their spelling in a string, all
/// else strictly.
pub(super) trait Read: Sized {
    /// What an error says should have stood there.
    const EXPECTED: &'static str;

    fn read(json: &Json, place: &Place) -> Result<Self, CmfError>;
}

/// A type that is written as JSON.
pub(super) trait Write {
    fn write(&self) -> Json<'static>;
}

/// The error that another JSON type than that of `T` came.
pub(super) fn wrong_type<T: Read>(json: &Json, place: &Place) -> CmfError {
    CmfError::WrongType {
        path: place.path(),
        expected: T::EXPECTED,
        found: json.kind(),
    }
}

/// The members of an object that is being read.
pub(super) struct Fields<'j, 'p> {
    object: &'j Object<'j>,
    place: &'p Place<'p>,
}

impl<'j, 'p> Fields<'j, 'p> {
    /// The members of `json`, which must be an object no deeper than [`DEFAULT_DEPTH_LIMIT`]: every
    /// recursion of the format passes here.
    pub(super) fn of(json: &'j Json<'j>, place: &'p Place<'p>) -> Result<Self, CmfError> {
        if place.depth() > DEFAULT_DEPTH_LIMIT {
            return Err(CmfError::TooDeep {
                path: place.path(),
                limit: DEFAULT_DEPTH_LIMIT,
            });
        }
        match json.as_object() {
            Some(object) => Ok(Fields { object, place }),
            None => Err(CmfError::WrongType {
                path: place.path(),
                expected: "object",
                found: json.kind(),
            }),
        }
    }

    /// The JSON path of the object.
    pub(super) fn path(&self) -> String {
        self.place.path()
    }

    pub(super) fn required<T: Read>(&self, key: &'static str) -> Result<T, CmfError> {
        let place = self.place.key(key);
        match self.object.get(key) {
            Some(json) => T::read(json, &place),
            None => Err(CmfError::Missing {
                path: place.path(),
                expected: T::EXPECTED,
            }),
        }
    }

    pub(super) fn default<T: Read>(
        &self,
        key: &'static str,
        default: impl FnOnce() -> T,
    ) -> Result<T, CmfError> {
        match self.object.get(key) {
            Some(json) => T::read(json, &self.place.key(key)),
            None => Ok(default()),
        }
    }

    pub(super) fn optional<T: Read>(&self, key: &'static str) -> Result<Option<T>, CmfError> {
        match self.object.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(json) => T::read(json, &self.place.key(key)).map(Some),
        }
    }

    /// The members whose keys are not among `known`; the empty key there stands for the field that
    /// takes them.
    pub(super) fn rest(&self, known: &[&str]) -> Object<'static> {
        let mut rest = Object::new();
        for (key, value) in self
            .object
            .iter()
            .filter(|(key, _)| key.is_empty() || !known.contains(key))
        {
            rest.append_new(key.to_owned(), value.clone().into_owned());
        }
        rest
    }

    /// An error if there is a member whose key is not among `known`.
    pub(super) fn refuse_unknown(&self, known: &'static [&'static str]) -> Result<(), CmfError> {
        match self.object.keys().find(|key| !known.contains(key)) {
            Some(key) => Err(CmfError::UnknownKey {
                path: self.place.key(key).path(),
                expected: known,
            }),
            None => Ok(()),
        }
    }

    /// True if the object has a member `key`, even a null one.
    pub(super) fn has(&self, key: &str) -> bool {
        self.object.contains_key(key)
    }

    /// An error if the array `key` has more than `limit` items. Looks before anything of the array
    /// is read.
    pub(super) fn limit(&self, key: &str, limit: usize) -> Result<(), CmfError> {
        match self
            .object
            .get(key)
            .and_then(Json::as_array)
            .map(<[Json]>::len)
        {
            Some(found) if found > limit => Err(CmfError::TooMany {
                path: self.place.key(key).path(),
                limit,
                found,
            }),
            _ => Ok(()),
        }
    }
}

/// The key of a field in JSON: its name, or the literal that it is declared `as`.
macro_rules! key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

macro_rules! read_field {
    (required $fields:ident, $key:expr) => {
        $fields.required($key)?
    };
    (default $fields:ident, $key:expr) => {
        $fields.default($key, Default::default)?
    };
    (default $fields:ident, $key:expr, $default:expr) => {
        $fields.default($key, || $default)?
    };
    (optional $fields:ident, $key:expr) => {
        $fields.optional($key)?
    };
    (rest $fields:ident, $key:expr) => {
        $fields.rest(Self::KEYS)
    };
}

macro_rules! write_field {
    (required $value:expr, $key:expr, $object:ident) => {
        $object.append_new($key, $crate::cmf::record::Write::write($value))
    };
    (default $value:expr, $key:expr, $object:ident) => {
        $object.append_new($key, $crate::cmf::record::Write::write($value))
    };
    (optional $value:expr, $key:expr, $object:ident) => {
        if let Some(value) = $value.as_ref() {
            $object.append_new($key, $crate::cmf::record::Write::write(value));
        }
    };
    (rest $value:expr, $key:expr, $object:ident) => {
        $value
            .iter()
            .for_each(|(key, value)| $object.append_new(key.to_owned(), value.clone()))
    };
}

/// Declares a struct with public fields together with its reader and writer. `checked by` names a
/// function that sees the members before anything is read from them; `then` one that sees the
/// finished record.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(checked by $before:ident)? $(then $after:ident)? {
            $( $(#[$field_meta:meta])* $mode:ident $field:ident $(as $key:literal)? : $type:ty $(= $default:expr)? ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $name {
            /// The members that it has in JSON.
            pub const KEYS: &'static [&'static str] = &[$( $crate::cmf::record::key!($field $($key)?) ),*];

            /// Reads it from JSON.
            ///
            /// # Errors
            /// [`CmfError`](crate::cmf::CmfError) with the path of the first member that is missing
            /// or malformed.
            pub fn parse(json: &$crate::json::Json) -> Result<Self, $crate::cmf::CmfError> {
                $crate::cmf::record::Read::read(json, &$crate::cmf::error::Place::ROOT)
            }

            /// Writes it as JSON: optional members that are unset are left out, those with a
            /// default are always there.
            pub fn to_json(&self) -> $crate::json::Json<'static> {
                $crate::cmf::record::Write::write(self)
            }

            /// Reads the fields, without a look at what else is there.
            fn from_fields(fields: &$crate::cmf::record::Fields) -> Result<Self, $crate::cmf::CmfError> {
                let record = $name {
                    $( $field: $crate::cmf::record::read_field!(
                        $mode fields, $crate::cmf::record::key!($field $($key)?) $(, $default)?
                    ), )*
                };
                $( $after(&record, fields)?; )?
                Ok(record)
            }
        }

        impl $crate::cmf::record::Read for $name {
            const EXPECTED: &'static str = "object";

            fn read(
                json: &$crate::json::Json,
                place: &$crate::cmf::error::Place,
            ) -> Result<Self, $crate::cmf::CmfError> {
                let fields = $crate::cmf::record::Fields::of(json, place)?;
                $( $before(&fields)?; )?
                Self::from_fields(&fields)
            }
        }

        impl $crate::cmf::record::Write for $name {
            fn write(&self) -> $crate::json::Json<'static> {
                let mut object = $crate::json::Object::new();
                $( $crate::cmf::record::write_field!(
                    $mode &self.$field, $crate::cmf::record::key!($field $($key)?), object
                ); )*
                $crate::json::Json::Object(object)
            }
        }
    };
}

pub(super) use {key, read_field, record, write_field};

impl Read for String {
    const EXPECTED: &'static str = "string";

    fn read(json: &Json, place: &Place) -> Result<Self, CmfError> {
        json.as_str()
            .map(str::to_owned)
            .ok_or_else(|| wrong_type::<Self>(json, place))
    }
}

impl Write for String {
    fn write(&self) -> Json<'static> {
        Json::from(self.clone())
    }
}

impl Read for bool {
    const EXPECTED: &'static str = "boolean";

    /// Its own two values, the usual words for them, and 0 and 1: whoever writes the format isn't
    /// held to one of them.
    fn read(json: &Json, place: &Place) -> Result<Self, CmfError> {
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

impl Write for bool {
    fn write(&self) -> Json<'static> {
        Json::Bool(*self)
    }
}

impl Read for i64 {
    const EXPECTED: &'static str = "integer";

    fn read(json: &Json, place: &Place) -> Result<Self, CmfError> {
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

/// The integer that a text spells: digits, and perhaps a fraction of nothing.
fn spelled(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = match text.split_once('.') {
        Some((digits, fraction)) if fraction.bytes().all(|byte| byte == b'0') => digits,
        Some(_) => return None,
        None => text,
    };
    digits.parse().ok()
}

/// The integer that a number is by value: `13.0` and `1.3e1` are thirteen as `13` is. What isn't
/// spelled as an integer must be small enough for a double to hold exactly.
fn whole(number: &Number) -> Option<i64> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    let is_exact = |value: &f64| value.fract() == 0.0 && value.abs() < EXACT;
    let spelled_otherwise =
        || Some(number.as_f64()).filter(|value| !number.is_integer() && is_exact(value));
    number
        .as_i64()
        .or_else(|| spelled_otherwise().map(|value| value as i64))
}

impl Write for i64 {
    fn write(&self) -> Json<'static> {
        Json::from(*self)
    }
}

impl Read for f64 {
    const EXPECTED: &'static str = "finite number";

    fn read(json: &Json, place: &Place) -> Result<Self, CmfError> {
        let spelled = || json.as_str()?.trim().parse().ok();
        let value = json
            .as_f64()
            .or_else(spelled)
            .filter(|value: &f64| value.is_finite());
        value.ok_or_else(|| wrong_type::<Self>(json, place))
    }
}

impl Write for f64 {
    /// Null for what JSON can't write, which no reader lets in.
    fn write(&self) -> Json<'static> {
        Number::from_f64(*self).map_or(Json::Null, Json::Number)
    }
}

impl Read for Json<'static> {
    const EXPECTED: &'static str = "any value";

    fn read(json: &Json, _place: &Place) -> Result<Self, CmfError> {
        Ok(json.clone().into_owned())
    }
}

impl Write for Json<'static> {
    fn write(&self) -> Json<'static> {
        self.clone()
    }
}

impl Read for Object<'static> {
    const EXPECTED: &'static str = "object";

    fn read(json: &Json, place: &Place) -> Result<Self, CmfError> {
        json.as_object()
            .map(|object| object.clone().into_owned())
            .ok_or_else(|| wrong_type::<Self>(json, place))
    }
}

impl Write for Object<'static> {
    fn write(&self) -> Json<'static> {
        Json::Object(self.clone())
    }
}

impl<T: Read> Read for Vec<T> {
    const EXPECTED: &'static str = "array";

    fn read(json: &Json, place: &Place) -> Result<Self, CmfError> {
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

impl<T: Write> Write for Vec<T> {
    fn write(&self) -> Json<'static> {
        Json::Array(self.iter().map(Write::write).collect())
    }
}

impl Read for BTreeSet<String> {
    const EXPECTED: &'static str = "array";

    fn read(json: &Json, place: &Place) -> Result<Self, CmfError> {
        Ok(Vec::<String>::read(json, place)?.into_iter().collect())
    }
}

impl Write for BTreeSet<String> {
    /// Sorted by code point, so that equal sets are equal text.
    fn write(&self) -> Json<'static> {
        Json::Array(self.iter().map(Write::write).collect())
    }
}

impl<T: Read> Read for BTreeMap<String, T> {
    const EXPECTED: &'static str = "object";

    fn read(json: &Json, place: &Place) -> Result<Self, CmfError> {
        let object = json
            .as_object()
            .ok_or_else(|| wrong_type::<Self>(json, place))?;
        object
            .iter()
            .map(|(key, value)| Ok((key.to_owned(), T::read(value, &place.key(key))?)))
            .collect()
    }
}

impl<T: Write> Write for BTreeMap<String, T> {
    fn write(&self) -> Json<'static> {
        let mut object = Object::new();
        self.iter()
            .for_each(|(key, value)| object.append_new(key.clone(), value.write()));
        Json::Object(object)
    }
}

/// Bytes that JSON carries as base64 (standard alphabet, padded).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Blob(pub Vec<u8>);

impl Read for Blob {
    const EXPECTED: &'static str = "base64 string";

    fn read(json: &Json, place: &Place) -> Result<Self, CmfError> {
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

impl Write for Blob {
    fn write(&self) -> Json<'static> {
        Json::from(STANDARD.encode(&self.0))
    }
}

impl Read for DateTime<FixedOffset> {
    const EXPECTED: &'static str = "ISO 8601 time";

    /// A time without an offset is taken as UTC.
    fn read(json: &Json, place: &Place) -> Result<Self, CmfError> {
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

impl Write for DateTime<FixedOffset> {
    fn write(&self) -> Json<'static> {
        Json::from(self.to_rfc3339())
    }
}
