//! Tool definitions (§4.4), which tool calls refer to by name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::tool_schema::{SchemaError, check_schema};
use crate::json::Object;

/// A tool that a model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition<'a> {
    /// The canonical name: snake case, unique.
    pub name: Cow<'a, str>,
    /// A description for the model.
    pub description: Cow<'a, str>,
    /// The JSON Schema of the input; a registered tool uses only the subset that [`check_schema`]
    /// accepts.
    pub input_schema: Object<'a>,
    /// The side effects of the tool.
    pub side_effects: SideEffects,
    /// True if the tool requires a workspace.
    pub requires_workspace: bool,
}

/// The side effects of a tool, which determine confirmation, routing and tracing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SideEffects {
    /// No side effects.
    None,
    /// Reads files or the network.
    Read,
    /// Writes files.
    Write,
    /// Runs shells or arbitrary code.
    Execute,
    /// Changes state over the network.
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

    /// Returns the name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            SideEffects::None => "none",
            SideEffects::Read => "read",
            SideEffects::Write => "write",
            SideEffects::Execute => "execute",
            SideEffects::Network => "network",
        }
    }

    /// Returns the value with the given name.
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

/// The reason why a tool can't be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The name is not snake case.
    #[error("tool name `{0}` is not snake case")]
    Name(String),
    /// A tool with the same name exists.
    #[error("tool `{0}` is registered already")]
    Duplicate(String),
    /// The schema is outside the subset.
    #[error("tool `{name}`: {}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Schema {
        /// The tool.
        name: String,
        /// All violations, with their paths.
        errors: Vec<SchemaError>,
    },
}

impl ToolSet {
    /// Registers a tool.
    ///
    /// # Errors
    /// [`RegisterError`], with all violations of the schema at once (§5.4).
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

    /// Returns the tool with the given name.
    pub fn get(&self, name: &str) -> Option<&ToolDefinition<'static>> {
        self.tools.get(name)
    }
}

/// Returns true if `name` consists of lowercase ASCII letters, digits and underscores, and starts
/// with a letter.
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
    fn invalid_names_duplicates_and_invalid_schemas_are_rejected() {
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
