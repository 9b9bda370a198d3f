//! Accessors and merge operations for JSON objects that all adapters share.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Number, Object};
use gristmill_schemas::message::token_counts::token_count;

/// Returns the member `key` if it is a string.
pub fn text<'j>(json: &'j Json<'_>, key: &str) -> Option<Cow<'j, str>> {
    json.get(key).and_then(Json::as_str).map(Cow::Borrowed)
}

/// Returns the member `key` if it is a string, else an empty string.
pub fn text_or_empty<'j>(json: &'j Json<'_>, key: &str) -> &'j str {
    json.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// Returns the member `key` if it is a non-empty string.
pub fn non_empty_text<'j>(json: &'j Json<'_>, key: &str) -> Option<&'j str> {
    json.get(key)
        .and_then(Json::as_str)
        .filter(|text| !text.is_empty())
}

/// Returns true if the member `key` is true.
pub fn flag(json: &Json, key: &str) -> bool {
    json.get(key).and_then(Json::as_bool).unwrap_or(false)
}

/// Returns the member `key` if it is a number, with its spelling.
pub fn number<'j>(json: &'j Json<'_>, key: &str) -> Option<Number<'j>> {
    json.get(key)
        .and_then(Json::as_number)
        .map(|number| number.reborrow())
}

/// Returns the member `key` if it exists and isn't null.
pub fn present<'j, 'a>(json: &'j Json<'a>, key: &str) -> Option<&'j Json<'a>> {
    json.get(key).filter(|value| !value.is_null())
}

/// Returns the first of two spellings of a member that exists and isn't null.
pub fn either<'j, 'a>(json: &'j Json<'a>, keys: [&str; 2]) -> Option<&'j Json<'a>> {
    keys.iter().find_map(|key| present(json, key))
}

/// Returns the member `key` as a count of tokens; 0 if it isn't one.
pub fn count(json: &Json, key: &str) -> u64 {
    json.get(key).and_then(token_count).unwrap_or(0)
}

/// Returns the items of the list `key`; no items if it isn't a list.
pub fn items<'j, 'a>(json: &'j Json<'a>, key: &str) -> &'j [Json<'a>] {
    json.get(key).and_then(Json::as_array).unwrap_or_default()
}

/// Returns the concatenated strings at `key` of all items, or `None` if no item has one.
pub fn concat_texts<'j>(items: &'j [Json<'_>], key: &str) -> Option<Cow<'j, str>> {
    let texts = items.iter().filter_map(|item| text(item, key));
    texts.reduce(|mut whole, piece| {
        whole.to_mut().push_str(&piece);
        whole
    })
}

/// Joins texts with `separator`; returns `None` if there are none, and a single text without a
/// copy.
pub fn join<'m>(texts: &[&'m str], separator: &str) -> Option<Cow<'m, str>> {
    match texts {
        [] => None,
        [one] => Some(Cow::Borrowed(*one)),
        several => Some(Cow::Owned(several.join(separator))),
    }
}

/// Returns the strings of a list, without its other items.
pub fn strings<'j>(json: Option<&'j Json<'_>>) -> Vec<Cow<'j, str>> {
    json.and_then(Json::as_array)
        .unwrap_or_default()
        .iter()
        .filter_map(Json::as_str)
        .map(Cow::Borrowed)
        .collect()
}

/// Returns a string, or null if there is none.
pub fn text_or_null<'m>(text: Option<&'m str>) -> Json<'m> {
    text.map_or(Json::Null, Json::from)
}

/// Inserts `value` under `key`, if there is one.
pub fn insert_some<'m>(
    into: &mut Object<'m>,
    key: &'static str,
    value: Option<impl Into<Json<'m>>>,
) {
    if let Some(value) = value {
        into.insert(key, value);
    }
}

/// Inserts a list of strings under `key`, unless it is empty.
pub fn insert_texts<'m>(into: &mut Object<'m>, key: &'static str, texts: &'m [Cow<'m, str>]) {
    if !texts.is_empty() {
        let texts = texts.iter().map(|text| Json::from(&**text));
        into.insert(key, texts.collect::<Vec<_>>());
    }
}

/// Inserts a list under `key`, unless it is empty.
pub fn insert_list<'m>(into: &mut Object<'m>, key: &'static str, list: Vec<Json<'m>>) {
    if !list.is_empty() {
        into.insert(key, list);
    }
}

/// Returns an object with one member.
pub fn object<'m>(key: &'static str, value: impl Into<Json<'m>>) -> Object<'m> {
    let mut object = Object::new();
    object.insert(key, value);
    object
}

/// Sets the member `key` of `into` to `value`. A null doesn't replace another value, and objects
/// are merged member by member.
pub fn merge_member<'f>(into: &mut Object<'f>, key: Cow<'f, str>, value: Json<'f>) {
    match (into.get_mut(&key), value) {
        (Some(known), Json::Null) if !known.is_null() => {}
        (Some(Json::Object(known)), Json::Object(more)) => {
            merge_members(known, more);
        }
        (_, value) => _ = into.insert(key, value),
    }
}

/// Appends a string to the string at `key`; other values are merged by [`merge_member`].
pub fn append_text<'f>(into: &mut Object<'f>, key: &'static str, value: Json<'f>) {
    match (into.get_mut(key), value) {
        (Some(Json::String(text)), Json::String(piece)) => text.to_mut().push_str(&piece),
        (_, value) => merge_member(into, Cow::Borrowed(key), value),
    }
}

/// Merges the members of `more` into `into` one by one, with [`merge_member`].
pub fn merge_members<'f>(into: &mut Object<'f>, more: Object<'f>) {
    for (key, value) in more {
        merge_member(into, key, value);
    }
}
