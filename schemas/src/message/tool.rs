//! Tool definitions (§4.4): not messages, but what tool calls refer to by name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::tool_schema::{SchemaError, check_schema};
use crate::json::Object;

/// A tool that a model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition<'a> {
    /// The canonical name: snake case, unique.
    pub name: Cow<'a, str>,
    /// What it does, for the model.
    pub description: Cow<'a, str>,
    /// What it takes: JSON Schema, of the subset that [`check_schema`] accepts once the tool is
    /// registered.
    pub input_schema: Object<'a>,
    /// What it does to the world.
    pub side_effects: SideEffects,
    /// True if it needs a workspace.
    pub requires_workspace: bool,
}

/// What a tool does to the world; drives confirmation, routing and tracing, so it must be honest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SideEffects {
    /// Nothing.
    None,
    /// Reads files or the network.
    Read,
    /// Writes files.
    Write,
    /// Runs shells or arbitrary code.
    Execute,
    /// Changes something over the network.
    Network,
}

impl SideEffects {
    const ALL: [SideEffects; 5] = [
        SideEffects::None,
        SideEffects::Read,
        SideEffects::Write,
        SideEffects::Execute,
        SideEffects::Network,
    ];

    /// The value as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            SideEffects::None => "none",
            SideEffects::Read => "read",
            SideEffects::Write => "write",
            SideEffects::Execute => "execute",
            SideEffects::Network => "network",
        }
    }

    /// The value that is written `text`.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|effects| effects.as_str() == text)
    }
}

/// The registered tools, by name.
#[derive(Debug, Default)]
pub struct ToolSet {
    tools: BTreeMap<String, ToolDefinition<'static>>,
}

/// Why a tool isn't registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The name isn't snake case.
    #[error("tool name `{0}` is not snake case")]
    Name(String),
    /// There is a tool of that name.
    #[error("tool `{0}` is registered already")]
    Duplicate(String),
    /// The schema uses what isn't in the subset: everything that is wrong with it.
    #[error("tool `{name}`: {}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Schema {
        /// The tool.
        name: String,
        /// Every fault, with its path.
        errors: Vec<SchemaError>,
    },
}

impl ToolSet {
    /// Registers a tool.
    ///
    /// # Errors
    /// Loudly, and with all the faults of the schema at once (§5.4).
    pub fn register(&mut self, tool: ToolDefinition<'static>) -> Result<(), RegisterError> {
        let name = tool.name.to_string();
        if !is_snake_case(&name) {
            return Err(RegisterError::Name(name));
        }
        if self.tools.contains_key(&name) {
            return Err(RegisterError::Duplicate(name));
        }
        let errors = check_schema(&tool.input_schema);
        if !errors.is_empty() {
            return Err(RegisterError::Schema { name, errors });
        }
        self.tools.insert(name, tool);
        Ok(())
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&ToolDefinition<'static>> {
        self.tools.get(name)
    }
}

/// Lower-case ASCII letters, digits and underscores, starting with a letter.
pub fn is_snake_case(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;

    fn tool(name: &'static str, schema: &'static str) -> ToolDefinition<'static> {
        let Json::Object(input_schema) = Json::parse(schema.as_bytes()).unwrap().into_owned()
        else {
            unreachable!()
        };
        let side_effects = SideEffects::Read;
        ToolDefinition {
            name: name.into(),
            description: "".into(),
            input_schema,
            side_effects,
            requires_workspace: true,
        }
    }

    #[test]
    fn registration_refuses_bad_names_twins_and_bad_schemas() {
        let mut tools = ToolSet::default();
        tools.register(tool("read_file", "{}")).unwrap();
        assert!(matches!(
            tools.register(tool("read_file", "{}")),
            Err(RegisterError::Duplicate(_))
        ));
        assert!(matches!(
            tools.register(tool("ReadFile", "{}")),
            Err(RegisterError::Name(_))
        ));
        let refusal = tools
            .register(tool("t", r#"{"oneOf":[],"items":{"$ref":"x"}}"#))
            .unwrap_err();
        assert!(
            matches!(&refusal, RegisterError::Schema { errors, .. } if errors.len() == 2),
            "{refusal}"
        );
        assert!(tools.get("t").is_none() && tools.get("read_file").is_some());
    }
}
