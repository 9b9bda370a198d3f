//! Comparison of answers with expectations.

use gristmill_schemas::json::{Json, Object};

use super::Checked;

/// Fails unless `found` equals the member `key` of `target`, if that exists.
pub(super) fn member(target: &Json, key: &str, found: &Json) -> Checked {
    match target.get(key) {
        Some(expected) => equal(key, expected, found),
        None => Ok(()),
    }
}

/// Fails unless the two are equal by value.
pub(super) fn equal(what: &str, expected: &Json, found: &Json) -> Checked {
    if expected == found {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected}, found {found}"))
    }
}

/// Compares two serialised views. JSON text in the content is compared by value, because the format
/// leaves its spacing and escapes open; its size is then that of the answer's text.
pub(super) fn view(what: &str, expected: &Json, found: &Json) -> Checked {
    let (Some(expected), Some(found)) = (expected.as_object(), found.as_object()) else {
        return equal(what, expected, found);
    };
    let respelled = is_respelled(expected.get("content"), found.get("content"));
    let mut keys: Vec<&str> = expected.keys().chain(found.keys()).collect();
    keys.dedup();
    for key in keys {
        if respelled && matches!(key, "content" | "size_bytes") {
            continue;
        }
        let (left, right) = (expected.get(key), found.get(key));
        if left != right {
            return Err(format!(
                "{what}.{key}: expected {}, found {}",
                shown(left),
                shown(right)
            ));
        }
    }
    match respelled {
        true => size_is_of_content(what, found),
        false => Ok(()),
    }
}

/// Returns true for two different strings with the same JSON value.
fn is_respelled(expected: Option<&Json>, found: Option<&Json>) -> bool {
    let (Some(expected), Some(found)) = (
        expected.and_then(Json::as_str),
        found.and_then(Json::as_str),
    ) else {
        return false;
    };
    expected != found
        && matches!((Json::parse(expected.as_bytes()), Json::parse(found.as_bytes())), (Ok(left), Ok(right)) if left == right)
}

fn size_is_of_content(what: &str, view: &Object) -> Checked {
    let size = view.get("size_bytes").and_then(Json::as_u64);
    let content = view
        .get("content")
        .and_then(Json::as_str)
        .map(|content| content.len() as u64);
    if size == content {
        Ok(())
    } else {
        Err(format!(
            "{what}: size {size:?} of content with {content:?} bytes"
        ))
    }
}

fn shown(json: Option<&Json>) -> String {
    json.map_or_else(|| "nothing".to_owned(), ToString::to_string)
}
