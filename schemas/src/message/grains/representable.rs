//! JSON values that a grain can represent, and the nearest values for those that it can't.
//!
//! The values of a grain are null, booleans, 64-bit integers, doubles, NFC text, lists and maps,
//! nested up to 32 levels; null members are omitted. JSON on the wire may contain more: `1.50`,
//! integers of any length, null members, text that is not normalized.

use std::borrow::Cow;

use crate::json::{Json, Number, Object};
use crate::nfc::is_normalized;

/// The maximum nesting of a value below a field; the grain itself and lists of blocks use the rest
/// of the 32 levels.
const MAX_LEVELS: usize = 24;

/// Returns true if a grain preserves `json` exactly, including the spelling of numbers.
pub(super) fn is_representable(json: &Json) -> bool {
    is_representable_within(json, MAX_LEVELS)
}

fn is_representable_within(json: &Json, levels: usize) -> bool {
    match json {
        Json::Null | Json::Bool(_) => true,
        Json::Number(number) => is_representable_number(number),
        Json::String(text) => is_normalized(text),
        Json::Array(items) => {
            levels > 0
                && items
                    .iter()
                    .all(|item| is_representable_within(item, levels - 1))
        }
        Json::Object(object) => is_representable_object_within(object, levels),
    }
}

/// As [`is_representable`], for an object.
pub(super) fn is_representable_object(object: &Object) -> bool {
    is_representable_object_within(object, MAX_LEVELS)
}

fn is_representable_object_within(object: &Object, levels: usize) -> bool {
    let member = |(key, value): (&str, &Json)| {
        !value.is_null()
            && !key.starts_with('$')
            && is_normalized(key)
            && is_representable_within(value, levels - 1)
    };
    levels > 0 && object.iter().all(member)
}

fn is_representable_number(number: &Number) -> bool {
    let spelled = number.as_str();
    if number.is_integer() {
        return spelled != "-0" && (number.as_u64().is_some() || number.as_i64().is_some());
    }
    Number::from_f64(number.as_f64()).is_some_and(|double| double.as_str() == spelled)
}

/// Returns the nearest value that a grain can represent: numbers out of range and values nested too
/// deep are replaced by their JSON text.
pub(super) fn nearest<'j>(json: &'j Json) -> Json<'j> {
    nearest_within(json, MAX_LEVELS)
}

fn nearest_within<'j>(json: &'j Json, levels: usize) -> Json<'j> {
    match json {
        Json::Number(number) => nearest_number(number),
        Json::Array(_) | Json::Object(_) if levels == 0 => Json::from(json_text(json)),
        Json::Array(items) => Json::Array(
            items
                .iter()
                .map(|item| nearest_within(item, levels - 1))
                .collect(),
        ),
        Json::Object(object) => Json::Object(nearest_object_within(object, levels)),
        other => other.reborrow(),
    }
}

/// Returns the number, or its text if a grain can't represent it.
fn nearest_number<'j>(number: &'j Number<'_>) -> Json<'j> {
    let fits = match number.is_integer() {
        true => number.as_u64().is_some() || number.as_i64().is_some(),
        false => number.as_f64().is_finite(),
    };
    if fits {
        Json::Number(number.reborrow())
    } else {
        Json::from(number.as_str())
    }
}

/// As [`nearest`], for an object.
pub(super) fn nearest_object<'o>(object: &'o Object) -> Object<'o> {
    nearest_object_within(object, MAX_LEVELS)
}

fn nearest_object_within<'o>(object: &'o Object, levels: usize) -> Object<'o> {
    let below = levels.saturating_sub(1);
    let members = object
        .iter()
        .map(|(key, value)| (Cow::Borrowed(key), nearest_within(value, below)));
    Object::from_unique_members(members.collect())
}

/// Returns the JSON text of a value in a form that NFC normalization does not change: escapes
/// non-ASCII characters if necessary.
pub fn json_text(json: &Json) -> String {
    let mut plain = String::with_capacity(json.min_serialized_length());
    json.write(&mut plain);
    if is_normalized(&plain) {
        return plain;
    }
    let mut text = String::with_capacity(plain.len() * 2);
    let mut units = [0; 2];
    for character in plain.chars() {
        if character.is_ascii() {
            text.push(character);
        } else {
            character
                .encode_utf16(&mut units)
                .iter()
                .for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json<'_> {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn values_that_a_grain_would_change_are_not_representable() {
        for kept in [
            r#"{"a":[1,-2,0.5,true,"é",null],"b":{}}"#,
            "18446744073709551615",
            "1.0",
        ] {
            assert!(is_representable(&json(kept)), "{kept}");
        }
        let decomposed = "\"e\u{301}\"";
        for changed in [
            r#"{"a":null}"#,
            "1.50",
            "1e3",
            "-0",
            "18446744073709551616",
            decomposed,
            r#"{"$bytes_hex":"00"}"#,
        ] {
            assert!(!is_representable(&json(changed)), "{changed}");
        }
        let deep = "[".repeat(40) + &"]".repeat(40);
        assert!(!is_representable(&json(&deep)));
    }

    #[test]
    fn text_that_normalization_would_change_is_escaped() {
        let original = json("[\"e\u{301}\u{1F600}\"]").into_owned();
        let text = json_text(&original);
        assert!(text.is_ascii());
        assert_eq!(json(&text), original);
    }

    #[test]
    fn values_that_a_grain_cannot_represent_become_text() {
        assert_eq!(
            nearest(&json(r#"{"a":[1e999,99999999999999999999]}"#)).to_string(),
            r#"{"a":["1e999","99999999999999999999"]}"#
        );
        let deep = "[".repeat(40) + &"]".repeat(40);
        assert!(nearest(&json(&deep)).to_string().contains('"'));
    }
}
