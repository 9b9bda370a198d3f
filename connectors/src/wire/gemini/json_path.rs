//! The paths of partial arguments: a subset of JSONPath with member names and indices.

use gristmill_schemas::json::{Json, Object};

/// The most null items that a path may add to a list beyond its end.
const GAP_LIMIT_ITEMS: usize = 64;

/// The most steps of a path, which are the levels of nesting that it creates: fewer than the parser
/// of JSON allows, so that every function that recurses into the arguments can.
const STEP_LIMIT: usize = 64;

/// One step of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JsonPathStep {
    Key(String),
    Index(usize),
}

/// Parses a path such as `$.a.b[0]['c d']`; returns `None` if it is malformed, has no steps or more
/// than [`STEP_LIMIT`].
pub(super) fn parse_path(path: &str) -> Option<Vec<JsonPathStep>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, after) = match rest.strip_prefix('.') {
            Some(name) => parse_name(name),
            None => parse_bracket(rest)?,
        };
        if steps.len() == STEP_LIMIT {
            return None;
        }
        steps.push(step);
        rest = after;
    }
    (!steps.is_empty()).then_some(steps)
}

/// Parses a name after a dot; returns the rest of the path, too.
fn parse_name(rest: &str) -> (JsonPathStep, &str) {
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let (key, after) = rest.split_at(end);
    (JsonPathStep::Key(key.to_owned()), after)
}

/// Parses an index or a quoted name in brackets; returns the rest of the path, too.
fn parse_bracket(rest: &str) -> Option<(JsonPathStep, &str)> {
    let (inside, after) = rest.strip_prefix('[')?.split_once(']')?;
    let quoted = inside
        .strip_prefix(['\'', '"'])
        .and_then(|inside| inside.strip_suffix(['\'', '"']));
    let step = match quoted {
        Some(key) => JsonPathStep::Key(key.to_owned()),
        None => JsonPathStep::Index(inside.parse().ok()?),
    };
    Some((step, after))
}

/// Returns the value at a path. Creates missing members and items as null; returns `None` if a
/// value on the way has another type, or if an index is more than [`GAP_LIMIT_ITEMS`] beyond the
/// end of its list.
pub(super) fn value_at<'v, 'f>(
    value: &'v mut Json<'f>,
    steps: &[JsonPathStep],
) -> Option<&'v mut Json<'f>> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    let child = match step {
        JsonPathStep::Key(key) => member_at(value, key)?,
        JsonPathStep::Index(index) => item_at(value, *index)?,
    };
    value_at(child, rest)
}

fn member_at<'v, 'f>(value: &'v mut Json<'f>, key: &str) -> Option<&'v mut Json<'f>> {
    if value.is_null() {
        *value = Json::Object(Object::new());
    }
    let object = value.as_object_mut()?;
    if !object.contains_key(key) {
        object.insert(key.to_owned(), Json::Null);
    }
    object.get_mut(key)
}

fn item_at<'v, 'f>(value: &'v mut Json<'f>, index: usize) -> Option<&'v mut Json<'f>> {
    if value.is_null() {
        *value = Json::Array(Vec::new());
    }
    let Json::Array(items) = value else {
        return None;
    };
    if index > items.len() + GAP_LIMIT_ITEMS {
        return None;
    }
    if items.len() <= index {
        items.resize(index + 1, Json::Null);
    }
    items.get_mut(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_on_steps_is_exact() {
        let path = |steps: usize| format!("${}", ".a".repeat(steps));
        assert_eq!(
            parse_path(&path(STEP_LIMIT)).map(|it| it.len()),
            Some(STEP_LIMIT)
        );
        assert_eq!(parse_path(&path(STEP_LIMIT + 1)), None);
    }
}
