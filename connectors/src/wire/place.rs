//! Where in a body its units stand, and taking them out and putting them back.
//!
//! A unit that is taken out leaves a mark that names its number. So envelope and units are compared
//! apart, and a change of the envelope (an unknown item between two units, say) moves the marks
//! with it. Whatever a body says itself, it can't be read as a mark: text that starts as a mark
//! does is escaped while the units are out.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};

/// Where a unit stands in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    steps: Vec<PlaceStep>,
    span: Span,
}

/// One step from a value into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceStep {
    /// Into a member of an object.
    Key(&'static str),
    /// Into an item of an array.
    Index(usize),
}

/// What of the value there is the unit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Span {
    /// All of it.
    Value,
    /// A run of its items, as an array.
    Items { start: usize, length: usize },
    /// Some of its members, as an object.
    Members(&'static [&'static str]),
}

impl Place {
    /// The value that the steps lead to.
    pub fn value(steps: impl Into<Vec<PlaceStep>>) -> Self {
        Place {
            steps: steps.into(),
            span: Span::Value,
        }
    }

    /// The member `key` of the body.
    pub fn member(key: &'static str) -> Self {
        Place::value([PlaceStep::Key(key)])
    }

    /// The item `index` of the list `key` of the body.
    pub fn item(key: &'static str, index: usize) -> Self {
        Place::value([PlaceStep::Key(key), PlaceStep::Index(index)])
    }

    /// `length` items from `start` of the list `key` of the body.
    pub fn items(key: &'static str, start: usize, length: usize) -> Self {
        Place {
            steps: vec![PlaceStep::Key(key)],
            span: Span::Items { start, length },
        }
    }

    /// Some members of the body itself.
    pub fn members(keys: &'static [&'static str]) -> Self {
        Place {
            steps: Vec::new(),
            span: Span::Members(keys),
        }
    }
}

/// What a mark starts with. Text and keys of the envelope that start with it too have it twice.
const MARK: char = '\0';

/// Takes the units out of `body`; answers the envelope with marks, and the units. A unit without a
/// place, or whose place isn't there, is null.
pub fn take_units<'a>(mut body: Json<'a>, places: &[Option<Place>]) -> (Json<'a>, Vec<Json<'a>>) {
    let escaped = escape(&mut body);
    let mut units = vec![Json::Null; places.len()];
    // From the last to the first, so that runs of items don't move those before them.
    for (number, place) in places.iter().enumerate().rev() {
        if let Some(unit) = place
            .as_ref()
            .and_then(|place| take(&mut body, place, number))
        {
            units[number] = if escaped {
                put_units(unit, &mut [])
            } else {
                unit
            };
        }
    }
    (body, units)
}

/// Doubles the mark that texts and keys start with; true if there was one.
fn escape(json: &mut Json) -> bool {
    match json {
        Json::String(text) if text.starts_with(MARK) => {
            text.to_mut().insert(0, MARK);
            true
        }
        Json::Array(items) => items.iter_mut().fold(false, |any, item| escape(item) | any),
        Json::Object(object) => {
            let any = object
                .iter_mut()
                .fold(false, |any, (_, value)| escape(value) | any);
            if !object.keys().any(|key| key.starts_with(MARK)) {
                return any;
            }
            let members = std::mem::take(object).into_iter().map(|(mut key, value)| {
                if key.starts_with(MARK) {
                    key.to_mut().insert(0, MARK);
                }
                (key, value)
            });
            *object = members.collect();
            true
        }
        _ => false,
    }
}

/// What [`escape`] made of the text, undone.
fn unescape(mut text: Cow<str>) -> Cow<str> {
    if text
        .strip_prefix(MARK)
        .is_some_and(|rest| rest.starts_with(MARK))
    {
        text.to_mut().remove(0);
    }
    text
}

fn take<'a>(body: &mut Json<'a>, place: &Place, number: usize) -> Option<Json<'a>> {
    let here = place
        .steps
        .iter()
        .try_fold(body, |json, step| match (step, json) {
            (PlaceStep::Key(key), Json::Object(object)) => object.get_mut(key),
            (PlaceStep::Index(index), Json::Array(items)) => items.get_mut(*index),
            _ => None,
        })?;
    match (&place.span, here) {
        (Span::Value, here) => Some(std::mem::replace(
            here,
            Json::from(format!("{MARK}unit {number}")),
        )),
        (Span::Items { start, length }, Json::Array(items)) => {
            let end = start
                .checked_add(*length)
                .filter(|end| *end <= items.len())?;
            let mark = Json::from(format!("{MARK}items {number}"));
            Some(Json::Array(items.splice(*start..end, [mark]).collect()))
        }
        (Span::Members(keys), Json::Object(object)) => {
            let unit: Object = keys
                .iter()
                .filter_map(|key| Some((*key, object.remove(key)?)))
                .collect();
            object.insert(format!("{MARK}members {number}"), Json::Null);
            Some(Json::Object(unit))
        }
        _ => None,
    }
}

/// Puts units back where their marks stand.
pub fn put_units<'a>(envelope: Json<'a>, units: &mut [Json<'a>]) -> Json<'a> {
    match envelope {
        Json::String(text) => match number(&text, "unit") {
            Some(at) => units.get_mut(at).map(std::mem::take).unwrap_or_default(),
            None => Json::String(unescape(text)),
        },
        Json::Array(items) => {
            let mut whole = Vec::with_capacity(items.len());
            for item in items {
                let run = item.as_str().and_then(|text| number(text, "items"));
                match run.and_then(|at| units.get_mut(at)).map(std::mem::take) {
                    Some(Json::Array(run)) => whole.extend(run),
                    Some(other) => whole.push(other),
                    None => whole.push(put_units(item, units)),
                }
            }
            Json::Array(whole)
        }
        Json::Object(object) => {
            let mut whole = Vec::with_capacity(object.len());
            for (key, value) in object {
                match number(&key, "members")
                    .and_then(|at| units.get_mut(at))
                    .map(std::mem::take)
                {
                    Some(Json::Object(members)) => whole.extend(members),
                    _ => whole.push((unescape(key), put_units(value, units))),
                }
            }
            Json::Object(whole.into_iter().collect())
        }
        scalar => scalar,
    }
}

/// The number in a mark of that kind.
fn number(text: &str, kind: &str) -> Option<usize> {
    text.strip_prefix(MARK)?
        .strip_prefix(kind)?
        .strip_prefix(' ')?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_taken_out_and_put_back_give_the_body() {
        let text = r#"{"system":"s","messages":[{"a":1},{"b":2}],"input":[1,2,3,4,5],"role":"r","content":[],"x":null}"#;
        let body = Json::parse(text.as_bytes()).unwrap();
        let places = [
            Place::member("system"),
            Place::item("messages", 1),
            Place::items("input", 0, 2),
            Place::items("input", 3, 2),
            Place::members(&["role", "content"]),
        ];
        let places: Vec<_> = places
            .into_iter()
            .map(Some)
            .chain([None, Some(Place::member("none"))])
            .collect();
        let (envelope, mut units) = take_units(body.clone(), &places);
        let expected = [
            r#""s""#,
            r#"{"b":2}"#,
            "[1,2]",
            "[4,5]",
            r#"{"role":"r","content":[]}"#,
            "null",
            "null",
        ];
        assert_eq!(
            units.iter().map(Json::to_string).collect::<Vec<_>>(),
            expected
        );
        assert_eq!(
            envelope
                .get("input")
                .and_then(Json::as_array)
                .map(<[_]>::len),
            Some(3)
        );
        assert_eq!(put_units(envelope, &mut units), body);
    }

    #[test]
    fn what_a_body_says_is_never_taken_for_a_mark() {
        let text = r#"{"messages":["\u0000unit 0",{"\u0000members 0":"\u0000\u0000"}],"user":"\u0000unit 0",
            "stop":["\u0000items 1","\u0000\u0000items 1"],"\u0000members 0":"\u0000","\u0000\u0000members 0":{"a":"\u0000unit 1"}}"#;
        let body = Json::parse(text.as_bytes()).unwrap();
        for places in [
            vec![],
            vec![
                Some(Place::item("messages", 0)),
                Some(Place::item("messages", 1)),
            ],
        ] {
            let (envelope, mut units) = take_units(body.clone(), &places);
            for (unit, message) in units
                .iter()
                .zip(body.get("messages").and_then(Json::as_array).unwrap())
            {
                assert_eq!(unit, message);
            }
            assert_eq!(put_units(envelope, &mut units), body);
        }
    }
}
