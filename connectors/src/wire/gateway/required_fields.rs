//! What a gateway demands of the members of a body, shape by shape the same: small looks that end
//! in a value or a refusal.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::request::RequestTool;
use gristmill_schemas::message::tool::{SideEffects, ToolDefinition};

use super::{InvalidField, invalid};

/// The path of the member `key` of what stands at `path`; the body itself has none.
fn at(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// The member `key`: a string that isn't empty.
pub(super) fn name<'j>(json: &'j Json<'j>, key: &str, path: &str) -> Result<&'j str, InvalidField> {
    match json.get(key).and_then(Json::as_str) {
        Some(text) if !text.is_empty() => Ok(text),
        _ => invalid(at(path, key), "is required and must be a non-empty string"),
    }
}

/// The member `key`: a string, empty where it is absent. Null is no string.
pub(super) fn text<'j>(json: &'j Json<'j>, key: &str, path: &str) -> Result<&'j str, InvalidField> {
    match json.get(key) {
        None => Ok(""),
        Some(Json::String(text)) => Ok(text),
        Some(_) => invalid(at(path, key), "must be a string"),
    }
}

/// The member `key` of the body: a list, empty where it is absent or null.
pub(super) fn list<'j>(body: &'j Json<'j>, key: &str) -> Result<&'j [Json<'j>], InvalidField> {
    match body.get(key) {
        None | Some(Json::Null) => Ok(&[]),
        Some(Json::Array(items)) => Ok(items),
        Some(_) => invalid(key, "must be a list"),
    }
}

/// The member `key`: an object, `None` where it is absent or null.
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

/// The type of a block or part, if it is among those that are `allowed`.
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

/// The content of a message or result: a list's items, none if it is a string.
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

/// A limit on output: the whole part of a number. What comes to nothing, or isn't a number, limits
/// nothing.
pub(super) fn limit(json: Option<&Json>) -> Option<u64> {
    let number = json?.as_number()?;
    // The cast cuts the fraction off and keeps within bounds: what is negative comes to nothing.
    let whole = number.as_u64().unwrap_or_else(|| number.as_f64() as u64);
    (whole > 0).then_some(whole)
}

/// A tool as its client declares it, the schema of its input under `schema_key`; without a schema
/// any object will do.
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

fn any_object() -> Object<'static> {
    [
        ("type", Json::from("object")),
        ("properties", Json::Object(Object::new())),
    ]
    .into_iter()
    .collect()
}
