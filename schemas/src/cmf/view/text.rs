//! The text and the URI of a part, computed if the part does not contain them.

use std::borrow::Cow;

use crate::cmf::part::ContentPart;
use crate::json::{Json, Object, write_string};

/// Returns the text of a part for scanning (§4.3).
pub(super) fn content(part: &ContentPart) -> Option<Cow<'_, str>> {
    match part {
        ContentPart::Text(text) | ContentPart::Thinking(text) => Some(Cow::Borrowed(text)),
        ContentPart::Resource(resource) => resource.content.as_deref().map(Cow::Borrowed),
        ContentPart::PromptResult(result) => result.content.as_deref().map(Cow::Borrowed),
        ContentPart::ToolCall(call) => Some(Cow::Owned(spaced_object(&call.arguments))),
        ContentPart::PromptRequest(request) => Some(Cow::Owned(spaced_object(&request.arguments))),
        ContentPart::ToolResult(result) => match result.content.as_ref()? {
            Json::String(text) => Some(Cow::Borrowed(text)),
            json => {
                let mut out = String::new();
                write_spaced(json, &mut out);
                Some(Cow::Owned(out))
            }
        },
        ContentPart::ResourceRef(_)
        | ContentPart::Image(_)
        | ContentPart::Video(_)
        | ContentPart::Audio(_)
        | ContentPart::Document(_) => None,
    }
}

/// Returns the URI of a part (§4.3). Names are neither escaped nor normalized.
pub(super) fn uri(part: &ContentPart) -> Option<Cow<'_, str>> {
    let composed = match part {
        ContentPart::Resource(resource) => return Some(Cow::Borrowed(&resource.uri)),
        ContentPart::ResourceRef(reference) => return Some(Cow::Borrowed(&reference.uri)),
        ContentPart::ToolCall(call) => {
            ["tool://", or_none(&call.namespace), "/", &call.name].concat()
        }
        ContentPart::ToolResult(result) => ["tool_result://", &result.tool_name].concat(),
        ContentPart::PromptRequest(request) => {
            ["prompt://", or_none(&request.server_id), "/", &request.name].concat()
        }
        ContentPart::PromptResult(result) => ["prompt_result://", &result.prompt_name].concat(),
        _ => return None,
    };
    Some(Cow::Owned(composed))
}

/// Returns the namespace or server of a URI; `_` if there is none.
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

/// Appends JSON with a space after each comma and colon, members in order, numbers as written, and
/// non-ASCII text unescaped. This is the form of the specification's examples, and a scanner for
/// `Zürich` matches it.
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
    fn json_text_keeps_order_spelling_and_non_ascii_text() {
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
