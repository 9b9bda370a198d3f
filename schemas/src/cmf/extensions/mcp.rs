//! The tool, resource or prompt template of a message as described by its server (§3.7).

use crate::cmf::error::{CmfError, JsonPath};
use crate::cmf::json_record::{FromJson, ObjectReader, ToJson, record};
use crate::json::{Json, Object};

record! {
    /// A tool as described by its server.
    pub struct ToolMetadata {
        /// The tool's name.
        required name: String,
        /// A name for people.
        optional title: Option<String>,
        /// What it does.
        optional description: Option<String>,
        /// JSON Schema of its arguments.
        optional input_schema: Option<Object<'static>>,
        /// JSON Schema of its result.
        optional output_schema: Option<Object<'static>>,
        /// The server that has it.
        optional server_id: Option<String>,
        /// The namespace of its name.
        optional namespace: Option<String>,
        /// Hints such as `readOnlyHint`.
        default annotations: Object<'static>,
    }
}

record! {
    /// A resource as described by its server.
    pub struct ResourceMetadata {
        /// The resource's identifier.
        required uri: String,
        /// A name for people.
        optional name: Option<String>,
        /// What it holds.
        optional description: Option<String>,
        /// Its MIME type.
        optional mime_type: Option<String>,
        /// The server that has it.
        optional server_id: Option<String>,
        /// Open metadata.
        default annotations: Object<'static>,
    }
}

record! {
    /// A prompt template as described by its server.
    pub struct PromptMetadata {
        /// The template's name.
        required name: String,
        /// What it is for.
        optional description: Option<String>,
        /// Its arguments: objects with `name`, `description` and `required`.
        optional arguments: Option<Vec<Object<'static>>>,
        /// The server that has it.
        optional server_id: Option<String>,
        /// Open metadata.
        default annotations: Object<'static>,
    }
}

/// The entity of an [`McpExtension`].
#[derive(Debug, Clone, PartialEq)]
pub enum McpEntity {
    /// A tool.
    Tool(ToolMetadata),
    /// A resource.
    Resource(ResourceMetadata),
    /// A prompt template.
    Prompt(PromptMetadata),
}

/// The entity of a message, at most one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct McpExtension {
    /// The entity.
    pub entity: Option<McpEntity>,
}

const MEMBERS: &[&str] = &["tool", "resource", "prompt"];

impl FromJson for McpExtension {
    const EXPECTED: &'static str = "object";

    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        let fields = ObjectReader::of(json, place)?;
        let tool = fields.optional("tool")?.map(McpEntity::Tool);
        let resource = fields.optional("resource")?.map(McpEntity::Resource);
        let prompt = fields.optional("prompt")?.map(McpEntity::Prompt);
        let mut set = [tool, resource, prompt].into_iter().flatten();
        match (set.next(), set.next()) {
            (_, Some(_)) => Err(CmfError::MoreThanOne {
                path: fields.path(),
                expected: MEMBERS,
            }),
            (entity, None) => Ok(McpExtension { entity }),
        }
    }
}

impl ToJson for McpExtension {
    fn write(&self) -> Json<'static> {
        let member = self.entity.as_ref().map(|entity| match entity {
            McpEntity::Tool(tool) => ("tool", tool.write()),
            McpEntity::Resource(resource) => ("resource", resource.write()),
            McpEntity::Prompt(prompt) => ("prompt", prompt.write()),
        });
        Json::Object(member.into_iter().collect::<Object>())
    }
}
