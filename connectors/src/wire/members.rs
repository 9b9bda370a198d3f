//! Small looks into JSON objects that every adapter takes.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};

/// The member `key`, if it is a string.
pub fn text<'j>(json: &'j Json<'_>, key: &str) -> Option<Cow<'j, str>> {
    json.get(key).and_then(Json::as_str).map(Cow::Borrowed)
}

/// The member `key`, if it is there and isn't null.
pub fn present<'j, 'a>(json: &'j Json<'a>, key: &str) -> Option<&'j Json<'a>> {
    json.get(key).filter(|value| !value.is_null())
}

/// The first of two spellings of a member that is there and isn't null.
pub fn either<'j, 'a>(json: &'j Json<'a>, keys: [&str; 2]) -> Option<&'j Json<'a>> {
    keys.iter().find_map(|key| present(json, key))
}

/// The member `key` as a count; nothing, null and anything else count as 0.
pub fn count(json: &Json, key: &str) -> u64 {
    json.get(key).and_then(Json::as_u64).unwrap_or(0)
}

/// The items of the list `key`; no items if it is no list.
pub fn items<'j, 'a>(json: &'j Json<'a>, key: &str) -> &'j [Json<'a>] {
    json.get(key).and_then(Json::as_array).unwrap_or_default()
}

/// The texts at `key` of those items that have one, put together; `None` if none has.
pub fn joined<'j>(items: &'j [Json<'_>], key: &str) -> Option<Cow<'j, str>> {
    let texts = items.iter().filter_map(|item| text(item, key));
    texts.reduce(|mut whole, piece| {
        whole.to_mut().push_str(&piece);
        whole
    })
}

/// The strings of a list.
pub fn strings<'j>(json: Option<&'j Json<'_>>) -> Vec<Cow<'j, str>> {
    json.and_then(Json::as_array)
        .unwrap_or_default()
        .iter()
        .filter_map(Json::as_str)
        .map(Cow::Borrowed)
        .collect()
}

/// An object of one member.
pub fn object<'m>(key: &'static str, value: impl Into<Json<'m>>) -> Object<'m> {
    let mut object = Object::new();
    object.insert(key, value);
    object
}

/// Lays `more` over `into`: what says something replaces, null replaces nothing, objects are laid
/// over member by member.
pub fn settle<'f>(into: &mut Object<'f>, key: Cow<'f, str>, value: Json<'f>) {
    match (into.get_mut(&key), value) {
        (Some(known), Json::Null) if !known.is_null() => {}
        (Some(Json::Object(known)), Json::Object(more)) => {
            more.into_iter()
                .for_each(|(key, value)| settle(known, key, value));
        }
        (_, value) => _ = into.insert(key, value),
    }
}

/// Adds text to the text that stands at `key`; anything else settles.
pub fn append_text<'f>(into: &mut Object<'f>, key: &'static str, value: Json<'f>) {
    match (into.get_mut(key), value) {
        (Some(Json::String(text)), Json::String(piece)) => text.to_mut().push_str(&piece),
        (_, value) => settle(into, Cow::Borrowed(key), value),
    }
}
