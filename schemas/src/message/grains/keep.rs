//! What a grain's maps can keep of a JSON value, and what has to travel as JSON text instead.
//!
//! A grain's values are nil, booleans, 64-bit integers, doubles, composed (NFC) text, lists and
//! maps, 32 levels deep; nil members are left out. A wire's JSON may hold more: `1.50`, integers of
//! any length, null members, decomposed text.

use std::borrow::Cow;

use crate::json::{Json, Number, Object};
use crate::normal_form::is_normalized;

/// Levels that a value may have below a field of a grain: the grain itself and lists of blocks take
/// some of its 32.
const LEVELS: usize = 24;

/// True if a grain gives `json` back value for value and number for number.
pub(super) fn keeps(json: &Json) -> bool {
    keeps_within(json, LEVELS)
}

fn keeps_within(json: &Json, levels: usize) -> bool {
    match json {
        Json::Null | Json::Bool(_) => true,
        Json::Number(number) => keeps_number(number),
        Json::String(text) => is_normalized(text),
        Json::Array(items) => levels > 0 && items.iter().all(|item| keeps_within(item, levels - 1)),
        Json::Object(object) => keeps_object_within(object, levels),
    }
}

/// [`keeps`] of an object.
pub(super) fn keeps_object(object: &Object) -> bool {
    keeps_object_within(object, LEVELS)
}

fn keeps_object_within(object: &Object, levels: usize) -> bool {
    let member = |(key, value): (&str, &Json)| {
        !value.is_null()
            && !key.starts_with('$')
            && is_normalized(key)
            && keeps_within(value, levels - 1)
    };
    levels > 0 && object.iter().all(member)
}

fn keeps_number(number: &Number) -> bool {
    let spelled = number.as_str();
    if number.is_integer() {
        return spelled != "-0" && (number.as_u64().is_some() || number.as_i64().is_some());
    }
    Number::from_f64(number.as_f64()).is_some_and(|double| double.as_str() == spelled)
}

/// The nearest value that a grain can hold: numbers beyond its range and values too deep become
/// their JSON text.
pub(super) fn nearest<'j>(json: &'j Json) -> Json<'j> {
    nearest_within(json, LEVELS)
}

fn nearest_within<'j>(json: &'j Json, levels: usize) -> Json<'j> {
    match json {
        Json::Number(number) => {
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

/// [`nearest`] of an object.
pub(super) fn nearest_object<'o>(object: &'o Object) -> Object<'o> {
    nearest_object_within(object, LEVELS)
}

fn nearest_object_within<'o>(object: &'o Object, levels: usize) -> Object<'o> {
    let below = levels.saturating_sub(1);
    let members = object
        .iter()
        .map(|(key, value)| (Cow::Borrowed(key), nearest_within(value, below)));
    Object::from_distinct(members.collect())
}

/// The JSON text of a value, in a spelling that composing its characters doesn't change.
pub fn json_text(json: &Json) -> String {
    let mut plain = String::with_capacity(json.text_length_at_least());
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
    fn what_changes_in_a_grain_is_told_apart_from_what_doesn_t() {
        for kept in [
            r#"{"a":[1,-2,0.5,true,"é",null],"b":{}}"#,
            "18446744073709551615",
            "1.0",
        ] {
            assert!(keeps(&json(kept)), "{kept}");
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
            assert!(!keeps(&json(changed)), "{changed}");
        }
        let deep = "[".repeat(40) + &"]".repeat(40);
        assert!(!keeps(&json(&deep)));
    }

    #[test]
    fn text_that_composing_would_change_is_escaped() {
        let original = json("[\"e\u{301}\u{1F600}\"]").into_owned();
        let text = json_text(&original);
        assert!(text.is_ascii());
        assert_eq!(json(&text), original);
    }

    #[test]
    fn what_a_grain_cannot_hold_becomes_text() {
        assert_eq!(
            nearest(&json(r#"{"a":[1e999,99999999999999999999]}"#)).to_string(),
            r#"{"a":["1e999","99999999999999999999"]}"#
        );
        let deep = "[".repeat(40) + &"]".repeat(40);
        assert!(nearest(&json(&deep)).to_string().contains('"'));
    }
}
