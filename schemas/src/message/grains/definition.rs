//! The Action that defines a tool (§27.1, phase `definition`), from an MCP tool listing.

use super::representable::{is_representable, json_text, nearest_object};
use super::{Timestamp, encode};
use crate::error::GrainError;
use crate::grain::EncodedGrain;
use crate::json::{Json, Object};

/// A tool as listed by its server, with the circumstances of the listing.
#[derive(Debug, Clone, Copy)]
pub struct ListedTool<'t> {
    /// The tool's object: `name`, `description`, `inputSchema`, `outputSchema` and any other
    /// members.
    pub tool: &'t Json<'t>,
    /// The time of the listing.
    pub listed_at: Timestamp,
    /// The session of the listing; empty if it has no id.
    pub session_id: &'t str,
    /// The server that provides the tool.
    pub server: Option<&'t str>,
    /// The namespace of the grain.
    pub namespace: Option<&'t str>,
}

/// Members of a listed tool that map to fields of the grain.
const OWN_MEMBERS: [&str; 4] = ["name", "description", "inputSchema", "outputSchema"];

impl ListedTool<'_> {
    /// Encodes the grain. If its fields can't represent the tool completely, `context` holds it as
    /// `mcp:tool`.
    ///
    /// # Errors
    /// Encoding errors: a tool without a name, or a time out of range.
    pub fn grain(&self) -> Result<EncodedGrain, GrainError> {
        let text = |key| {
            self.tool
                .get(key)
                .and_then(Json::as_str)
                .unwrap_or_default()
        };
        let schema = |key| self.tool.get(key).and_then(Json::as_object);
        let mut action = Object::new();
        action.insert("type", "action");
        action.insert("action_phase", "definition");
        action.insert("created_at", self.listed_at.micros().div_euclid(1_000));
        if !self.session_id.is_empty() {
            action.insert("session_id", self.session_id);
        }
        if let Some(namespace) = self.namespace {
            action.insert("namespace", namespace);
        }
        action.insert("tool_name", text("name"));
        action.insert("tool_description", self.description());
        action.insert("tool_type", "server");
        action.insert(
            "input_schema",
            schema("inputSchema")
                .map(nearest_object)
                .unwrap_or_default(),
        );
        if let Some(schema) = schema("outputSchema") {
            action.insert("output_schema", nearest_object(schema));
        }
        let context = self.context();
        if !context.is_empty() {
            action.insert("context", context);
        }
        encode(action)
    }

    /// Returns the description, or title or name for a tool without one, since a definition
    /// requires a description.
    fn description(&self) -> &str {
        let non_empty = |key| {
            self.tool
                .get(key)
                .and_then(Json::as_str)
                .filter(|text: &&str| !text.is_empty())
        };
        ["description", "title", "name"]
            .into_iter()
            .find_map(non_empty)
            .unwrap_or_default()
    }

    fn context(&self) -> Object<'_> {
        let mut context = Object::new();
        if let Some(server) = self.server {
            context.insert("mcp:server", server);
        }
        let own = |key: &str| OWN_MEMBERS.contains(&key);
        let described =
            self.tool.get("description").and_then(Json::as_str) == Some(self.description());
        if !described
            || !is_representable(self.tool)
            || self
                .tool
                .as_object()
                .is_some_and(|tool| !tool.keys().all(own))
        {
            context.insert("mcp:tool", json_text(self.tool));
        }
        context
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};

    #[test]
    fn a_listed_tool_becomes_a_definition_and_other_members_are_kept() {
        let json =
            r#"{"name":"ask","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;
        let tool = Json::parse(json.as_bytes()).unwrap();
        let listed_at = Timestamp::from_seconds(1);
        let listed = ListedTool {
            tool: &tool,
            listed_at,
            session_id: "s",
            server: Some("wiki"),
            namespace: None,
        };
        let grain = listed.grain().unwrap();
        let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
        let action = Grain::decode(&payload, DecodeMode::Strict)
            .unwrap()
            .to_json();
        let text = |key| action.get(key).and_then(Json::as_str);
        assert_eq!(
            (text("action_phase"), text("tool_name")),
            (Some("definition"), Some("ask"))
        );
        let context = action.get("context").unwrap();
        assert_eq!(context.get("mcp:tool").and_then(Json::as_str), Some(json));
        assert_eq!(
            text("tool_description"),
            Some("ask"),
            "no description, so the name"
        );
        let nameless = Json::parse(b"{}").unwrap();
        assert!(
            ListedTool {
                tool: &nameless,
                ..listed
            }
            .grain()
            .is_err()
        );
    }
}
