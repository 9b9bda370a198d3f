//! The text and the URI of a part, formed where the part doesn't have them as they are.

use std::borrow::Cow;

use crate::cmf::part::Part;
use crate::json::{Json, Object, write_string};

/// The text of a part that a scanner reads (§4.3).
pub(super) fn content(part: &Part) -> Option<Cow<'_, str>> {
    match part {
        Part::Text(text) | Part::Thinking(text) => Some(Cow::Borrowed(text)),
        Part::Resource(resource) => resource.content.as_deref().map(Cow::Borrowed),
        Part::PromptResult(result) => result.content.as_deref().map(Cow::Borrowed),
        Part::ToolCall(call) => Some(Cow::Owned(spaced_object(&call.arguments))),
        Part::PromptRequest(request) => Some(Cow::Owned(spaced_object(&request.arguments))),
        Part::ToolResult(result) => match result.content.as_ref()? {
            Json::String(text) => Some(Cow::Borrowed(text)),
            json => {
                let mut out = String::new();
                write_spaced(json, &mut out);
                Some(Cow::Owned(out))
            }
        },
        Part::ResourceRef(_)
        | Part::Image(_)
        | Part::Video(_)
        | Part::Audio(_)
        | Part::Document(_) => None,
    }
}

/// The identifier of a part (§4.3). Names go in as they are: nothing is escaped or normalised.
pub(super) fn uri(part: &Part) -> Option<Cow<'_, str>> {
    match part {
        Part::Resource(resource) => Some(Cow::Borrowed(&resource.uri)),
        Part::ResourceRef(reference) => Some(Cow::Borrowed(&reference.uri)),
        Part::ToolCall(call) => Some(Cow::Owned(
            ["tool://", or_none(&call.namespace), "/", &call.name].concat(),
        )),
        Part::ToolResult(result) => {
            Some(Cow::Owned(["tool_result://", &result.tool_name].concat()))
        }
        Part::PromptRequest(request) => Some(Cow::Owned(
            ["prompt://", or_none(&request.server_id), "/", &request.name].concat(),
        )),
        Part::PromptResult(result) => Some(Cow::Owned(
            ["prompt_result://", &result.prompt_name].concat(),
        )),
        _ => None,
    }
}

/// The namespace or server of a URI; `_` where there is none.
fn or_none(authority: &Option<String>) -> &str {
    authority
        .as_deref()
        .filter(|authority| !authority.is_empty())
        .unwrap_or("_")
}

fn spaced_object(object: &Object) -> String {
    let mut out = String::new();
    write_members(object, &mut out);
    out
}

/// Appends JSON with a space after each comma and colon, members in their order, numbers as
/// written, non-ASCII text readable. This is the form that the specification's examples show, and a
/// scanner for `Zürich` finds it.
fn write_spaced(json: &Json, out: &mut String) {
    match json {
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write_spaced(item, out);
            }
            out.push(']');
        }
        Json::Object(object) => write_members(object, out),
        scalar => scalar.write(out),
    }
}

fn write_members(object: &Object, out: &mut String) {
    out.push('{');
    for (at, (key, value)) in object.iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        write_string(key, out);
        out.push_str(": ");
        write_spaced(value, out);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_text_keeps_order_and_spelling_and_stays_readable() {
        let json = Json::parse(r#"{"z":"Zürich","n":1.0,"l":[1,{"e":{}},[]],"x":null}"#.as_bytes())
            .unwrap();
        let mut out = String::new();
        write_spaced(&json, &mut out);
        assert_eq!(
            out,
            r#"{"z": "Zürich", "n": 1.0, "l": [1, {"e": {}}, []], "x": null}"#
        );
        assert_eq!(Json::parse(out.as_bytes()), Ok(json));
    }
}
