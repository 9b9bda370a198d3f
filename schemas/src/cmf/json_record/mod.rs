//! A macro that declares a struct with its JSON parser and writer.
//!
//! A field has one of four modes. `required`: must be present and not null. `default`: may be
//! absent, but not null. `optional`: absent and null are equivalent, and neither is written.
//! `rest`: holds the members that no other field takes. Other members are ignored, as the format
//! requires, unless a check of the record rejects them.
//!
//! `values` reads and writes the types of the fields: texts, numbers, times, lists and maps.

mod values;

use super::error::{CmfError, JsonPath};
use crate::json::{DEFAULT_DEPTH_LIMIT, Json, Object};

pub use values::Blob;

/// A type that is parsed from JSON. Numbers and booleans are also accepted as strings; all other
/// types are strict.
pub(super) trait FromJson: Sized {
    /// The expected type in error messages.
    const EXPECTED: &'static str;

    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError>;
}

/// A type that is written as JSON.
pub(super) trait ToJson {
    fn write(&self) -> Json<'static>;
}

/// Returns the error for a value that is not of type `T`.
pub(super) fn wrong_type<T: FromJson>(json: &Json, place: &JsonPath) -> CmfError {
    CmfError::WrongType {
        path: place.path(),
        expected: T::EXPECTED,
        found: json.kind(),
    }
}

/// The members of an object during parsing.
pub(super) struct ObjectReader<'j, 'p> {
    object: &'j Object<'j>,
    place: &'p JsonPath<'p>,
}

impl<'j, 'p> ObjectReader<'j, 'p> {
    /// Wraps the members of `json`, which must be an object nested no deeper than
    /// [`DEFAULT_DEPTH_LIMIT`]. Every recursion of the format passes through this check.
    pub(super) fn of(json: &'j Json<'j>, place: &'p JsonPath<'p>) -> Result<Self, CmfError> {
        if place.depth() > DEFAULT_DEPTH_LIMIT {
            return Err(CmfError::TooDeep {
                path: place.path(),
                limit: DEFAULT_DEPTH_LIMIT,
            });
        }
        match json.as_object() {
            Some(object) => Ok(ObjectReader { object, place }),
            None => Err(CmfError::WrongType {
                path: place.path(),
                expected: "object",
                found: json.kind(),
            }),
        }
    }

    /// Returns the JSON path of the object.
    pub(super) fn path(&self) -> String {
        self.place.path()
    }

    pub(super) fn required<T: FromJson>(&self, key: &'static str) -> Result<T, CmfError> {
        let place = self.place.key(key);
        match self.object.get(key) {
            Some(json) => T::read(json, &place),
            None => Err(CmfError::Missing {
                path: place.path(),
                expected: T::EXPECTED,
            }),
        }
    }

    pub(super) fn default<T: FromJson>(
        &self,
        key: &'static str,
        default: impl FnOnce() -> T,
    ) -> Result<T, CmfError> {
        match self.object.get(key) {
            Some(json) => T::read(json, &self.place.key(key)),
            None => Ok(default()),
        }
    }

    pub(super) fn optional<T: FromJson>(&self, key: &'static str) -> Result<Option<T>, CmfError> {
        match self.object.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(json) => T::read(json, &self.place.key(key)).map(Some),
        }
    }

    /// Returns the members whose keys are not in `known`, where the empty key denotes the field
    /// that collects them.
    pub(super) fn rest(&self, known: &[&str]) -> Object<'static> {
        let mut rest = Object::new();
        for (key, value) in self
            .object
            .iter()
            .filter(|(key, _)| key.is_empty() || !known.contains(key))
        {
            rest.push_unique(key.to_owned(), value.clone().into_owned());
        }
        rest
    }

    /// Rejects members whose keys are not in `known`.
    pub(super) fn refuse_unknown(&self, known: &'static [&'static str]) -> Result<(), CmfError> {
        match self.object.keys().find(|key| !known.contains(key)) {
            Some(key) => Err(CmfError::UnknownKey {
                path: self.place.key(key).path(),
                expected: known,
            }),
            None => Ok(()),
        }
    }

    /// Returns true if the object has a member `key`, even a null one.
    pub(super) fn has(&self, key: &str) -> bool {
        self.object.contains_key(key)
    }

    /// Rejects an array `key` with more than `limit` items before it is parsed.
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

/// The key of a field in JSON: its name, or the literal after `as`.
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
        $object.push_unique($key, $crate::cmf::json_record::ToJson::write($value))
    };
    (default $value:expr, $key:expr, $object:ident) => {
        $object.push_unique($key, $crate::cmf::json_record::ToJson::write($value))
    };
    (optional $value:expr, $key:expr, $object:ident) => {
        if let Some(value) = $value.as_ref() {
            $object.push_unique($key, $crate::cmf::json_record::ToJson::write(value));
        }
    };
    (rest $value:expr, $key:expr, $object:ident) => {
        $value
            .iter()
            .for_each(|(key, value)| $object.push_unique(key.to_owned(), value.clone()))
    };
}

/// Declares a struct with public fields, its parser and its writer. `checked by` names a function
/// that checks the members before they are parsed, `then` one that checks the parsed record.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(checked by $before:ident)? $(then $after:ident)? {
            $(
                $(#[$field_meta:meta])*
                $mode:ident $field:ident $(as $key:literal)? : $type:ty $(= $default:expr)?
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $name {
            /// The members that it has in JSON.
            pub const KEYS: &'static [&'static str] =
                &[$( $crate::cmf::json_record::key!($field $($key)?) ),*];

            /// Reads it from JSON.
            ///
            /// # Errors
            /// [`CmfError`](crate::cmf::CmfError) with the path of the first member that is missing
            /// or malformed.
            pub fn parse(json: &$crate::json::Json) -> Result<Self, $crate::cmf::CmfError> {
                $crate::cmf::json_record::FromJson::read(json, &$crate::cmf::error::JsonPath::ROOT)
            }

            /// Writes it as JSON: optional members that are unset are left out, those with a
            /// default are always there.
            pub fn to_json(&self) -> $crate::json::Json<'static> {
                $crate::cmf::json_record::ToJson::write(self)
            }

            /// Reads the fields, without a look at what else is there.
            fn from_fields(
                fields: &$crate::cmf::json_record::ObjectReader,
            ) -> Result<Self, $crate::cmf::CmfError> {
                let record = $name {
                    $( $field: $crate::cmf::json_record::read_field!(
                        $mode fields, $crate::cmf::json_record::key!($field $($key)?) $(, $default)?
                    ), )*
                };
                $( $after(&record, fields)?; )?
                Ok(record)
            }
        }

        impl $crate::cmf::json_record::FromJson for $name {
            const EXPECTED: &'static str = "object";

            fn read(
                json: &$crate::json::Json,
                place: &$crate::cmf::error::JsonPath,
            ) -> Result<Self, $crate::cmf::CmfError> {
                let fields = $crate::cmf::json_record::ObjectReader::of(json, place)?;
                $( $before(&fields)?; )?
                Self::from_fields(&fields)
            }
        }

        impl $crate::cmf::json_record::ToJson for $name {
            fn write(&self) -> $crate::json::Json<'static> {
                let mut object = $crate::json::Object::new();
                $( $crate::cmf::json_record::write_field!(
                    $mode &self.$field, $crate::cmf::json_record::key!($field $($key)?), object
                ); )*
                $crate::json::Json::Object(object)
            }
        }
    };
}

pub(super) use {key, read_field, record, write_field};
