//! The tools, resources and prompts that a server listed.

use std::collections::{HashMap, HashSet};

use gristmill_schemas::cmf::extensions::McpExtension;
use gristmill_schemas::json::Json;

use super::content::{listed_prompt, listed_resource, listed_tool};
use crate::wire::json_access::{items, text};

/// Maximum number of listed things of each kind; further ones are ignored.
const LISTED_LIMIT: usize = 1 << 14;

/// The listings of one connection.
#[derive(Debug, Default)]
pub(super) struct Listings {
    /// The name of the server.
    pub(super) server: Option<String>,
    tools: HashMap<String, McpExtension>,
    resources: HashMap<String, McpExtension>,
    prompts: HashMap<String, McpExtension>,
    /// The digests of the tools whose definitions were emitted.
    defined_tools: HashSet<[u8; 32]>,
}

impl Listings {
    /// Returns the metadata of the tool, resource or prompt that a request is for.
    pub(super) fn metadata(&self, method: &str, parameters: &Json) -> Option<McpExtension> {
        let parameter = |key| text(parameters, key).unwrap_or_default();
        match method {
            "tools/call" => self.tools.get(&*parameter("name")),
            "resources/read" => self.resources.get(&*parameter("uri")),
            "prompts/get" => self.prompts.get(&*parameter("name")),
            _ => None,
        }
        .cloned()
    }

    /// Adds a tool; returns true if its definition is new on this connection.
    pub(super) fn add_tool(&mut self, tool: &Json) -> bool {
        let entry = listed_tool(tool, self.server.as_deref());
        insert(&mut self.tools, text(tool, "name").map(Into::into), entry);
        let mut digest = blake3::Hasher::new();
        tool.hash_into(&mut digest);
        self.defined_tools.len() < LISTED_LIMIT
            && self.defined_tools.insert(*digest.finalize().as_bytes())
    }

    /// Adds the resources of a result of `resources/list`.
    pub(super) fn add_resources(&mut self, result: &Json) {
        for resource in items(result, "resources") {
            let entry = listed_resource(resource, self.server.as_deref());
            let uri = text(resource, "uri").map(Into::into);
            insert(&mut self.resources, uri, entry);
        }
    }

    /// Adds the prompts of a result of `prompts/list`.
    pub(super) fn add_prompts(&mut self, result: &Json) {
        for prompt in items(result, "prompts") {
            let entry = listed_prompt(prompt, self.server.as_deref());
            let name = text(prompt, "name").map(Into::into);
            insert(&mut self.prompts, name, entry);
        }
    }
}

fn insert(
    listed: &mut HashMap<String, McpExtension>,
    key: Option<String>,
    entry: Option<McpExtension>,
) {
    if let (Some(key), Some(entry)) = (key, entry)
        && listed.len() < LISTED_LIMIT
    {
        listed.insert(key, entry);
    }
}
