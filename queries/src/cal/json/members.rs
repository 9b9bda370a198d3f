//! Typed access to the members of JSON objects: each function returns a value or an error with the
//! JSON pointer of its place.

use gristmill_schemas::json::{Json, Object};

use crate::cal::ast::NamespaceScope;
use crate::cal::check;
use crate::cal::error::{CalError, Code, Result};
use crate::cal::span::Span;
use crate::cal::vocabulary::Extractor;

/// The span of all parts: JSON queries have no text.
pub(super) const NO_SPAN: Span = Span { start: 0, end: 0 };

/// Returns the keys of a statement and those of its context.
pub(super) fn with<'k>(keys: &[&'k str], more: &[&'k str]) -> Vec<&'k str> {
    keys.iter().chain(more).copied().collect()
}

/// Returns the error for JSON of another shape than expected.
pub(super) fn wrong_shape(expected: &str, found: &Json) -> CalError {
    CalError::new(
        Code::E120,
        format!("Expected {expected}, found {}.", found.kind()),
    )
}

/// Returns the members of an object, all of which must be in `allowed`.
pub(super) fn members<'j, 'a>(json: &'j Json<'a>, allowed: &[&str]) -> Result<&'j Object<'a>> {
    let object = json
        .as_object()
        .ok_or_else(|| wrong_shape("an object", json))?;
    match object.keys().find(|key| !allowed.contains(key)) {
        Some(unknown) => {
            let error = CalError::new(Code::E120, format!("Unknown key \"{unknown}\"."));
            Err(error
                .valid_values(allowed.iter().copied())
                .in_member(unknown))
        }
        None => Ok(object),
    }
}

/// Reads the optional member `key`.
pub(super) fn optional<T>(
    object: &Object,
    key: &str,
    read: impl FnOnce(&Json) -> Result<T>,
) -> Result<Option<T>> {
    object
        .get(key)
        .map(read)
        .transpose()
        .map_err(|error| error.in_member(key))
}

/// Reads the required member `key`.
pub(super) fn required<T>(
    object: &Object,
    key: &str,
    read: impl FnOnce(&Json) -> Result<T>,
) -> Result<T> {
    optional(object, key, read)?
        .ok_or_else(|| CalError::new(Code::E120, format!("The key \"{key}\" is missing.")))
}

/// Reads the items of an array.
pub(super) fn array<T>(json: &Json, mut read: impl FnMut(&Json) -> Result<T>) -> Result<Vec<T>> {
    let items = json
        .as_array()
        .ok_or_else(|| wrong_shape("an array", json))?;
    let read_at =
        |(at, item): (usize, &Json)| read(item).map_err(|error| error.in_member(at.to_string()));
    items.iter().enumerate().map(read_at).collect()
}

/// Returns a string.
pub(super) fn string<'j>(json: &'j Json) -> Result<&'j str> {
    json.as_str().ok_or_else(|| wrong_shape("a string", json))
}

/// Returns a checked and normalised text.
pub(super) fn text(json: &Json) -> Result<String> {
    check::text(string(json)?)
}

/// Returns the member of a closed vocabulary.
pub(super) fn word<T>(
    json: &Json,
    names: &[&str],
    find: impl FnOnce(&str) -> Option<T>,
) -> Result<T> {
    let name = string(json)?;
    find(name).ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        CalError::new(Code::E120, format!("Unknown word \"{shown}\"."))
            .valid_values(names.iter().copied())
    })
}

/// Checks for `true`, the value of keys that represent keywords.
pub(super) fn flag(json: &Json) -> Result<bool> {
    json.as_bool().ok_or_else(|| wrong_shape("a boolean", json))
}

/// Returns a number.
pub(super) fn number(json: &Json) -> Result<crate::cal::Number> {
    let number = json
        .as_number()
        .ok_or_else(|| wrong_shape("a number", json))?;
    crate::cal::Number::from_json(number)
        .ok_or_else(|| CalError::new(Code::E006, "The number is too long."))
}

/// Returns an integer from 1.
pub(super) fn positive(json: &Json) -> Result<u64> {
    check::positive(&number(json)?, NO_SPAN)
}

/// Returns the name of a context, a template or a label.
pub(super) fn name(json: &Json) -> Result<String> {
    check::name(string(json)?, NO_SPAN)
}

/// Reads `{"namespace": "n"}` or `{"scope": "n"}`.
pub(super) fn namespace(json: &Json) -> Result<NamespaceScope> {
    let object = members(json, &["namespace", "scope"])?;
    match (
        optional(object, "namespace", text)?,
        optional(object, "scope", text)?,
    ) {
        (Some(name), None) => Ok(NamespaceScope::Exactly(name)),
        (None, Some(name)) => Ok(NamespaceScope::Below(name)),
        _ => Err(CalError::new(
            Code::E120,
            "Expected either \"namespace\" or \"scope\".",
        )),
    }
}

pub(super) fn extractor(json: &Json) -> Result<Extractor> {
    word(
        json,
        &["subjects", "objects", "hashes"],
        Extractor::from_name,
    )
}
