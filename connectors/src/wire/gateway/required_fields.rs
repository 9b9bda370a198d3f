//! Validated access to the members of a body: each function returns a value or an [`InvalidField`].

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::request::RequestTool;
use gristmill_schemas::message::tool::{SideEffects, ToolDefinition};

use super::{InvalidField, invalid};

/// Returns the path of the member `key` of the object at `path`, which is empty for the body.
fn at(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Returns the member `key`, a required non-empty string.
pub(super) fn name<'j>(json: &'j Json<'j>, key: &str, path: &str) -> Result<&'j str, InvalidField> {
    match json.get(key).and_then(Json::as_str) {
        Some(text) if !text.is_empty() => Ok(text),
        _ => invalid(at(path, key), "is required and must be a non-empty string"),
    }
}

/// Returns the member `key`, a string; empty if it is absent. Null is invalid.
pub(super) fn text<'j>(json: &'j Json<'j>, key: &str, path: &str) -> Result<&'j str, InvalidField> {
    match json.get(key) {
        None => Ok(""),
        Some(Json::String(text)) => Ok(text),
        Some(_) => invalid(at(path, key), "must be a string"),
    }
}

/// Returns the member `key` of the body, a list; empty if it is absent or null.
pub(super) fn list<'j>(body: &'j Json<'j>, key: &str) -> Result<&'j [Json<'j>], InvalidField> {
    match body.get(key) {
        None | Some(Json::Null) => Ok(&[]),
        Some(Json::Array(items)) => Ok(items),
        Some(_) => invalid(key, "must be a list"),
    }
}

/// Returns the member `key`, an object; `None` if it is absent or null.
pub(super) fn object<'j>(
    json: &'j Json<'j>,
    key: &str,
    path: &str,
) -> Result<Option<&'j Json<'j>>, InvalidField> {
    match json.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(object @ Json::Object(_)) => Ok(Some(object)),
        Some(_) => invalid(at(path, key), "must be an object"),
    }
}

/// Returns the type of a block or part, which must be one of `allowed`.
pub(super) fn kind<'j>(
    json: &'j Json<'j>,
    allowed: &[&str],
    path: &str,
) -> Result<&'j str, InvalidField> {
    match json.get("type").and_then(Json::as_str) {
        Some(kind) if allowed.contains(&kind) => Ok(kind),
        Some(kind) => invalid(at(path, "type"), format!("'{kind}' is not supported here")),
        None => invalid(at(path, "type"), "is required"),
    }
}

/// Returns the items of the content of a message or result; none if it is a string.
pub(super) fn content<'j>(
    content: &'j Json<'j>,
    path: &str,
) -> Result<&'j [Json<'j>], InvalidField> {
    match content {
        Json::String(_) => Ok(&[]),
        Json::Array(items) => Ok(items),
        _ => invalid(at(path, "content"), "must be a string or a list"),
    }
}

/// Returns a limit on output: the integer part of a number. `None` if it is below 1 or not a
/// number.
pub(super) fn limit(json: Option<&Json>) -> Option<u64> {
    let number = json?.as_number()?;
    // The cast truncates and saturates: negative numbers become 0.
    let whole = number.as_u64().unwrap_or_else(|| number.as_f64() as u64);
    (whole > 0).then_some(whole)
}

/// Returns a tool that the client declares, with the schema of its input under `schema_key`.
/// Without a schema the tool accepts any object.
pub(super) fn tool<'j>(
    declared: &'j Json<'j>,
    schema_key: &str,
    path: &str,
) -> Result<RequestTool<'j>, InvalidField> {
    let input_schema = match declared.get(schema_key) {
        None => any_object(),
        Some(Json::Object(schema)) => schema.reborrow(),
        Some(_) => return invalid(at(path, schema_key), "must be an object"),
    };
    Ok(RequestTool::Defined(ToolDefinition {
        name: Cow::Borrowed(name(declared, "name", path)?),
        description: Cow::Borrowed(text(declared, "description", path)?),
        input_schema,
        side_effects: SideEffects::None,
        requires_workspace: false,
    }))
}

/// Returns the schema that accepts any object.
fn any_object() -> Object<'static> {
    [
        ("type", Json::from("object")),
        ("properties", Json::Object(Object::new())),
    ]
    .into_iter()
    .collect()
}
