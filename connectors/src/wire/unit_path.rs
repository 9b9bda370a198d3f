//! Paths of units in a body, and the extraction and insertion of units.
//!
//! Extracting a unit leaves a placeholder with its number in the envelope. So envelope and units
//! are compared separately, and an edit of the envelope (such as an unknown item between two units)
//! moves the placeholders along. Strings of the body that begin like a placeholder are escaped
//! while units are extracted, so that no content can be mistaken for one.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};

/// The path of a unit in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitPath {
    steps: Vec<PathStep>,
    span: UnitSpan,
}

/// One step of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathStep {
    /// A member of an object.
    Key(&'static str),
    /// An item of an array.
    Index(usize),
}

/// The part of the value at a path that is the unit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum UnitSpan {
    /// The whole value.
    Value,
    /// A run of items of the array, extracted as an array.
    Items { start: usize, length: usize },
    /// Some members of the object, extracted as an object.
    Members(&'static [&'static str]),
}

impl UnitPath {
    /// Returns the path of a whole value.
    pub fn value(steps: impl Into<Vec<PathStep>>) -> Self {
        UnitPath {
            steps: steps.into(),
            span: UnitSpan::Value,
        }
    }

    /// Returns the path of the member `key` of the body.
    pub fn member(key: &'static str) -> Self {
        UnitPath::value([PathStep::Key(key)])
    }

    /// Returns the path of item `index` of the list `key` of the body.
    pub fn item(key: &'static str, index: usize) -> Self {
        UnitPath::value([PathStep::Key(key), PathStep::Index(index)])
    }

    /// Returns the path of `length` items from `start` of the list `key` of the body.
    pub fn items(key: &'static str, start: usize, length: usize) -> Self {
        UnitPath {
            steps: vec![PathStep::Key(key)],
            span: UnitSpan::Items { start, length },
        }
    }

    /// Returns the path of some members of the body itself.
    pub fn members(keys: &'static [&'static str]) -> Self {
        UnitPath {
            steps: Vec::new(),
            span: UnitSpan::Members(keys),
        }
    }

    /// Returns the value that the steps lead to, or `None` if `body` has none there.
    fn resolve<'b, 'a>(&self, body: &'b mut Json<'a>) -> Option<&'b mut Json<'a>> {
        self.steps
            .iter()
            .try_fold(body, |json, step| match (step, json) {
                (PathStep::Key(key), Json::Object(object)) => object.get_mut(key),
                (PathStep::Index(index), Json::Array(items)) => items.get_mut(*index),
                _ => None,
            })
    }
}

/// The first character of a placeholder. Strings and keys of the envelope that begin with it are
/// escaped by doubling it.
const PLACEHOLDER_MARK: char = '\0';

/// Placeholder kinds: a value, a run of items, a group of members.
const VALUE_KIND: &str = "unit";
const ITEMS_KIND: &str = "items";
const MEMBERS_KIND: &str = "members";

/// Extracts the units at `paths` from `body`; returns the envelope with placeholders, and the
/// units. A unit without a path, or whose path isn't in the body, is null.
pub fn extract_units<'a>(
    mut body: Json<'a>,
    paths: &[Option<UnitPath>],
) -> (Json<'a>, Vec<Json<'a>>) {
    let escaped = escape(&mut body);
    let mut units = vec![Json::Null; paths.len()];
    // Values and members leave all items where they are.
    for (number, path) in paths.iter().enumerate().rev() {
        let unit = path
            .as_ref()
            .and_then(|path| extract(&mut body, path, number));
        units[number] = unit.unwrap_or_default();
    }
    extract_runs(&mut body, paths, &mut units);
    if escaped {
        for unit in &mut units {
            *unit = insert_units(std::mem::take(unit), &mut []);
        }
    }
    (body, units)
}

/// Doubles a leading [`PLACEHOLDER_MARK`] of strings and keys; returns true if there was one.
fn escape(json: &mut Json) -> bool {
    match json {
        Json::String(text) if text.starts_with(PLACEHOLDER_MARK) => {
            text.to_mut().insert(0, PLACEHOLDER_MARK);
            true
        }
        Json::Array(items) => items.iter_mut().fold(false, |any, item| escape(item) | any),
        Json::Object(object) => {
            let any = object
                .iter_mut()
                .fold(false, |any, (_, value)| escape(value) | any);
            escape_keys(object) | any
        }
        _ => false,
    }
}

fn escape_keys(object: &mut Object) -> bool {
    if !object.keys().any(|key| key.starts_with(PLACEHOLDER_MARK)) {
        return false;
    }
    let members = std::mem::take(object).into_iter().map(|(mut key, value)| {
        if key.starts_with(PLACEHOLDER_MARK) {
            key.to_mut().insert(0, PLACEHOLDER_MARK);
        }
        (key, value)
    });
    *object = members.collect();
    true
}

/// Reverses [`escape`] for one string.
fn unescape(mut text: Cow<str>) -> Cow<str> {
    let is_escaped = text
        .strip_prefix(PLACEHOLDER_MARK)
        .is_some_and(|rest| rest.starts_with(PLACEHOLDER_MARK));
    if is_escaped {
        text.to_mut().remove(0);
    }
    text
}

/// Replaces the unit at `path` with a placeholder of `number`, and returns the unit; `None` for a
/// run of items.
fn extract<'a>(body: &mut Json<'a>, path: &UnitPath, number: usize) -> Option<Json<'a>> {
    match (&path.span, path.resolve(body)?) {
        (UnitSpan::Value, value) => {
            let placeholder = Json::from(placeholder(VALUE_KIND, number));
            Some(std::mem::replace(value, placeholder))
        }
        (UnitSpan::Members(keys), Json::Object(object)) => {
            Some(extract_members(object, keys, number))
        }
        _ => None,
    }
}

/// A run of items: its path, the number of its unit, its first item and its length.
type ItemRun<'p> = (&'p UnitPath, usize, usize, usize);

/// Replaces the runs of items at `paths` with placeholders, and moves them to `units`.
fn extract_runs<'a>(body: &mut Json<'a>, paths: &[Option<UnitPath>], units: &mut [Json<'a>]) {
    let numbered = paths.iter().enumerate();
    let runs = numbered.filter_map(|(number, path)| {
        let path = path.as_ref()?;
        match path.span {
            UnitSpan::Items { start, length } => Some((path, number, start, length)),
            _ => None,
        }
    });
    let runs: Vec<ItemRun> = runs.collect();
    let of_lists = runs.chunk_by(|left, right| left.0.steps == right.0.steps);
    // From the last to the first: extracting runs shifts the items after them.
    for of_list in of_lists.rev() {
        let list = of_list.first().and_then(|(path, ..)| path.resolve(body));
        if let Some(Json::Array(items)) = list {
            extract_runs_of_list(items, of_list, units);
        }
    }
}

/// Extracts runs of one list, in one pass. They are in ascending order; others stay where they are.
fn extract_runs_of_list<'a>(
    items: &mut Vec<Json<'a>>,
    runs: &[ItemRun<'_>],
    units: &mut [Json<'a>],
) {
    let count = items.len();
    let mut rest = std::mem::take(items).into_iter();
    let mut passed = 0;
    for &(_, number, start, length) in runs {
        let end = start.checked_add(length);
        let end = end.filter(|end| start >= passed && *end <= count);
        let (Some(end), Some(unit)) = (end, units.get_mut(number)) else {
            continue;
        };
        items.extend(rest.by_ref().take(start - passed));
        *unit = Json::Array(rest.by_ref().take(length).collect());
        items.push(Json::from(placeholder(ITEMS_KIND, number)));
        passed = end;
    }
    items.extend(rest);
}

fn extract_members<'a>(object: &mut Object<'a>, keys: &[&'static str], number: usize) -> Json<'a> {
    let unit: Object = keys
        .iter()
        .filter_map(|key| Some((*key, object.remove(key)?)))
        .collect();
    object.insert(placeholder(MEMBERS_KIND, number), Json::Null);
    Json::Object(unit)
}

fn placeholder(kind: &str, number: usize) -> String {
    format!("{PLACEHOLDER_MARK}{kind} {number}")
}

/// Replaces the placeholders of `envelope` with `units`. The reverse of [`extract_units`].
pub fn insert_units<'a>(envelope: Json<'a>, units: &mut [Json<'a>]) -> Json<'a> {
    match envelope {
        Json::String(text) => match placeholder_number(&text, VALUE_KIND) {
            Some(at) => units.get_mut(at).map(std::mem::take).unwrap_or_default(),
            None => Json::String(unescape(text)),
        },
        Json::Array(items) => Json::Array(insert_into_items(items, units)),
        Json::Object(object) => Json::Object(insert_into_members(object, units)),
        scalar => scalar,
    }
}

fn insert_into_items<'a>(items: Vec<Json<'a>>, units: &mut [Json<'a>]) -> Vec<Json<'a>> {
    let mut whole = Vec::with_capacity(items.len());
    for item in items {
        let number = item
            .as_str()
            .and_then(|text| placeholder_number(text, ITEMS_KIND));
        match take_unit(number, units) {
            Some(Json::Array(run)) => whole.extend(run),
            Some(other) => whole.push(other),
            None => whole.push(insert_units(item, units)),
        }
    }
    whole
}

fn insert_into_members<'a>(object: Object<'a>, units: &mut [Json<'a>]) -> Object<'a> {
    let mut whole = Vec::with_capacity(object.len());
    for (key, value) in object {
        match take_unit(placeholder_number(&key, MEMBERS_KIND), units) {
            Some(Json::Object(members)) => whole.extend(members),
            _ => whole.push((unescape(key), insert_units(value, units))),
        }
    }
    whole.into_iter().collect()
}

/// Returns the numbers of the units that are items of a list of `envelope`.
pub fn units_in_lists(envelope: &Json) -> Vec<usize> {
    match envelope {
        Json::Array(items) => items
            .iter()
            .flat_map(|item| match item {
                Json::String(text) => placeholder_number(text, VALUE_KIND).into_iter().collect(),
                item => units_in_lists(item),
            })
            .collect(),
        Json::Object(object) => object
            .iter()
            .flat_map(|(_, value)| units_in_lists(value))
            .collect(),
        _ => Vec::new(),
    }
}

fn take_unit<'a>(number: Option<usize>, units: &mut [Json<'a>]) -> Option<Json<'a>> {
    units.get_mut(number?).map(std::mem::take)
}

/// Returns the number of a placeholder of that kind, or `None` if `text` isn't one.
fn placeholder_number(text: &str, kind: &str) -> Option<usize> {
    text.strip_prefix(PLACEHOLDER_MARK)?
        .strip_prefix(kind)?
        .strip_prefix(' ')?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extracting_and_inserting_units_restores_the_body() {
        let text = r#"{"system":"s","messages":[{"a":1},{"b":2}],"input":[1,2,3,4,5],"role":"r","content":[],"x":null}"#;
        let body = Json::parse(text.as_bytes()).unwrap();
        let paths = [
            UnitPath::member("system"),
            UnitPath::item("messages", 1),
            UnitPath::items("input", 0, 2),
            UnitPath::items("input", 3, 2),
            UnitPath::members(&["role", "content"]),
        ];
        let paths: Vec<_> = paths
            .into_iter()
            .map(Some)
            .chain([None, Some(UnitPath::member("none"))])
            .collect();
        let (envelope, mut units) = extract_units(body.clone(), &paths);
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
        assert_eq!(insert_units(envelope, &mut units), body);
    }

    #[test]
    fn units_in_lists_are_distinguished_from_units_that_are_members() {
        let text = r#"{"system":"s","messages":[{"a":1},{"b":2}],"input":[1,2]}"#;
        let body = Json::parse(text.as_bytes()).unwrap();
        let paths = [
            UnitPath::member("system"),
            UnitPath::item("messages", 1),
            UnitPath::items("input", 0, 2),
        ];
        let (envelope, _) = extract_units(body, &paths.map(Some));
        assert_eq!(units_in_lists(&envelope), [1]);
    }

    #[test]
    fn many_runs_of_items_are_extracted_in_linear_time() {
        // In quadratic time this takes minutes.
        const RUNS: usize = 200_000;
        let items = (0..3 * RUNS as u64).map(Json::from).collect::<Vec<_>>();
        let body = Json::Object([("input", items)].into_iter().collect());
        let paths: Vec<_> = (0..RUNS)
            .map(|run| Some(UnitPath::items("input", 3 * run, 2 * (run % 2))))
            .collect();
        let (envelope, mut units) = extract_units(body.clone(), &paths);
        let input = envelope.get("input").and_then(Json::as_array).unwrap();
        assert_eq!(input.len(), 3 * RUNS);
        assert_eq!(units[1].to_string(), "[3,4]");
        assert_eq!(units[2].to_string(), "[]");
        assert_eq!(insert_units(envelope, &mut units), body);
    }

    #[test]
    fn content_of_a_body_is_never_mistaken_for_a_placeholder() {
        let text = r#"{"messages":["\u0000unit 0",{"\u0000members 0":"\u0000\u0000"}],"user":"\u0000unit 0",
            "stop":["\u0000items 1","\u0000\u0000items 1"],"\u0000members 0":"\u0000","\u0000\u0000members 0":{"a":"\u0000unit 1"}}"#;
        let body = Json::parse(text.as_bytes()).unwrap();
        for paths in [
            vec![],
            vec![
                Some(UnitPath::item("messages", 0)),
                Some(UnitPath::item("messages", 1)),
            ],
        ] {
            let (envelope, mut units) = extract_units(body.clone(), &paths);
            for (unit, message) in units
                .iter()
                .zip(body.get("messages").and_then(Json::as_array).unwrap())
            {
                assert_eq!(unit, message);
            }
            assert_eq!(insert_units(envelope, &mut units), body);
        }
    }
}
