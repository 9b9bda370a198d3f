//! The properties that are specific to a kind of content (§4.6).

use crate::cmf::part::ContentPart;
use crate::json::{Json, Object};

/// The value of a property.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Property<'a> {
    /// Unset.
    Null,
    /// Text.
    Text(&'a str),
    /// A boolean.
    Flag(bool),
    /// An integer.
    Integer(i64),
    /// Open metadata.
    Object(&'a Object<'static>),
}

impl<'a> Property<'a> {
    pub(super) fn text(text: Option<&'a String>) -> Self {
        text.map_or(Property::Null, |text| Property::Text(text))
    }

    /// Returns the value as JSON.
    pub fn to_json(self) -> Json<'a> {
        match self {
            Property::Null => Json::Null,
            Property::Text(text) => Json::from(text),
            Property::Flag(flag) => Json::from(flag),
            Property::Integer(number) => Json::from(number),
            Property::Object(object) => Json::Object(object.clone()),
        }
    }
}

/// An iterator over the properties of a part. Allocates nothing.
#[derive(Debug, Clone)]
pub struct Properties<'a> {
    entries: [Option<(&'static str, Property<'a>)>; 3],
    next: usize,
}

impl<'a> Properties<'a> {
    /// Returns the properties of `part`; several kinds have none.
    pub(super) fn of(part: &'a ContentPart) -> Self {
        let entries = match part {
            ContentPart::Resource(resource) => [
                Some((
                    "resource_type",
                    Property::Text(resource.resource_type.as_str()),
                )),
                Some(("version", Property::text(resource.version.as_ref()))),
                Some(("annotations", Property::Object(&resource.annotations))),
            ],
            ContentPart::ToolCall(call) => [
                Some(("namespace", Property::text(call.namespace.as_ref()))),
                Some(("tool_id", Property::Text(&call.tool_call_id))),
                None,
            ],
            ContentPart::ToolResult(result) => [
                Some(("is_error", Property::Flag(result.is_error))),
                Some(("tool_name", Property::Text(&result.tool_name))),
                None,
            ],
            ContentPart::PromptRequest(request) => [
                Some(("server_id", Property::text(request.server_id.as_ref()))),
                None,
                None,
            ],
            ContentPart::PromptResult(result) => [
                Some(("is_error", Property::Flag(result.is_error))),
                Some((
                    "message_count",
                    Property::Integer(i64::try_from(result.messages.len()).unwrap_or(i64::MAX)),
                )),
                None,
            ],
            _ => [None; 3],
        };
        Properties { entries, next: 0 }
    }
}

impl<'a> Iterator for Properties<'a> {
    type Item = (&'static str, Property<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.get(self.next).copied().flatten()?;
        self.next += 1;
        Some(entry)
    }
}
