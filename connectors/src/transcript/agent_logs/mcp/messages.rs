//! Requests and responses as messages of the conversation.

use gristmill_schemas::cmf::canonical::{attach_extensions, block_of};
use gristmill_schemas::cmf::extensions::{AgentExtension, McpExtension, ProvenanceExtension};
use gristmill_schemas::cmf::{
    CmfMessage, CmfRole, ContentPart, Extensions, MessageHook, PromptRequest, PromptResult,
};
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ToolResultBlock, ToolUseBlock};
use gristmill_schemas::message::request::StopReason;
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::connection::Connection;
use super::content::{content_blocks, is_fully_represented, resource_block, resource_reference};
use crate::transcript::parsed::PlacedMessage;
use crate::wire::json_access::{items, present, text};

/// The properties of a message besides its content.
#[derive(Default)]
struct MessageContext {
    /// The metadata of the tool, resource or prompt.
    metadata: Option<McpExtension>,
    hook: Option<MessageHook>,
    /// The JSON-RPC id and the members that the content doesn't represent.
    other_members: Option<Json<'static>>,
    model: Option<String>,
    stop_reason: Option<StopReason>,
    is_from_server: bool,
}

impl MessageContext {
    /// Returns the context of a message to the server.
    fn request(
        metadata: Option<McpExtension>,
        hook: MessageHook,
        other_members: Json<'static>,
    ) -> MessageContext {
        MessageContext {
            metadata,
            hook: Some(hook),
            other_members: Some(other_members),
            ..MessageContext::default()
        }
    }

    /// Returns the context of a message from the server.
    fn response(
        metadata: Option<McpExtension>,
        hook: MessageHook,
        other_members: Json<'static>,
    ) -> MessageContext {
        MessageContext {
            is_from_server: true,
            ..MessageContext::request(metadata, hook, other_members)
        }
    }
}

/// Tools.
impl Connection<'_> {
    /// Appends a tool call; returns the id that links it with its result.
    pub(super) fn push_tool_call(
        &mut self,
        parameters: &Json,
        id: Option<&Json>,
        metadata: Option<McpExtension>,
    ) -> String {
        let call_id = format!("call {}", self.state.requests);
        let block = ToolUseBlock {
            id: call_id.clone().into(),
            name: text(parameters, "name")
                .unwrap_or_default()
                .into_owned()
                .into(),
            input: ToolUseBlock::input_of(parameters.get("arguments")).into_owned(),
        };
        let id = id.unwrap_or(&Json::Null);
        let other_members = other_members(parameters, id, &["name", "arguments"]);
        self.push(
            Role::Assistant,
            vec![ContentBlock::ToolUse(block)],
            MessageContext::request(metadata, MessageHook::ToolPreInvoke, other_members),
        );
        call_id
    }

    /// Appends the result of the tool call `call`.
    pub(super) fn push_tool_result(
        &mut self,
        call: &str,
        result: &Json,
        id: &Json,
        metadata: Option<McpExtension>,
    ) {
        let content = result.get("content").unwrap_or(&Json::Null);
        let is_error = result.get("isError").and_then(Json::as_bool);
        let block = ToolResultBlock {
            tool_use_id: call.to_owned().into(),
            content: result_blocks(result, call),
            is_error: is_error.unwrap_or(false),
        };
        let represented: &[&str] = if is_fully_represented(content) {
            &["content", "isError"]
        } else {
            &["isError"]
        };
        let other_members = other_members(result, id, represented);
        self.push(
            Role::Tool,
            vec![ContentBlock::ToolResult(block)],
            MessageContext::response(metadata, MessageHook::ToolPostInvoke, other_members),
        );
    }

    /// Appends the error of the tool call `call`.
    pub(super) fn push_tool_error(
        &mut self,
        call: String,
        error: &Json,
        id: &Json,
        metadata: Option<McpExtension>,
    ) {
        let block = ToolResultBlock {
            tool_use_id: call.into(),
            content: vec![ContentBlock::text(error_message(error))],
            is_error: true,
        };
        let other_members = other_members(error, id, &["message"]);
        self.push(
            Role::Tool,
            vec![ContentBlock::ToolResult(block)],
            MessageContext::response(metadata, MessageHook::ToolPostInvoke, other_members),
        );
    }
}

/// Resources.
impl Connection<'_> {
    /// Appends a request for a resource.
    pub(super) fn push_resource_request(
        &mut self,
        parameters: &Json,
        id: Option<&Json>,
        metadata: Option<McpExtension>,
    ) {
        let id = id.unwrap_or(&Json::Null);
        let uri = text(parameters, "uri").unwrap_or_default().into_owned();
        let block = resource_reference(uri, None, &id.to_string());
        let other_members = other_members(parameters, id, &["uri"]);
        self.push(
            Role::Assistant,
            vec![block],
            MessageContext::request(metadata, MessageHook::ResourcePreFetch, other_members),
        );
    }

    /// Appends the contents of a resource.
    pub(super) fn push_resource_contents(
        &mut self,
        result: &Json,
        id: &Json,
        metadata: Option<McpExtension>,
    ) {
        let request = id.to_string();
        let blocks: Vec<_> = items(result, "contents")
            .iter()
            .filter_map(|json| resource_block(json, &request))
            .collect();
        let is_whole = |contents: &Json| {
            let items = contents.as_array();
            items.is_some_and(|items| items.len() == blocks.len())
        };
        let represented: &[&str] = match result.get("contents").is_some_and(is_whole) {
            true => &["contents"],
            false => &[],
        };
        let other_members = other_members(result, id, represented);
        self.push(
            Role::Tool,
            blocks,
            MessageContext::response(metadata, MessageHook::ResourcePostFetch, other_members),
        );
    }
}

/// Prompts.
impl Connection<'_> {
    /// Appends a request for a prompt.
    pub(super) fn push_prompt_request(
        &mut self,
        parameters: &Json,
        id: Option<&Json>,
        metadata: Option<McpExtension>,
    ) {
        let id = id.unwrap_or(&Json::Null);
        let arguments = parameters.get("arguments").and_then(Json::as_object);
        let request = PromptRequest {
            prompt_request_id: id.to_string(),
            name: text(parameters, "name").unwrap_or_default().into_owned(),
            arguments: arguments.cloned().unwrap_or_default().into_owned(),
            server_id: self.state.listings.server.clone(),
        };
        let other_members = other_members(parameters, id, represented_by_prompt(arguments));
        self.push(
            Role::User,
            vec![block_of(&ContentPart::PromptRequest(request))],
            MessageContext::request(metadata, MessageHook::PromptPreFetch, other_members),
        );
    }

    /// Appends the messages of the prompt `name`.
    pub(super) fn push_prompt_result(
        &mut self,
        name: String,
        result: &Json,
        id: &Json,
        metadata: Option<McpExtension>,
    ) {
        let messages = items(result, "messages").iter().map(prompt_message);
        let rendered = prompt_result(id, name, messages.collect());
        // All members are kept, because the messages may hold more than text.
        let other_members = other_members(result, id, &[]);
        self.push(
            Role::Tool,
            vec![block_of(&ContentPart::PromptResult(rendered))],
            MessageContext::response(metadata, MessageHook::PromptPostFetch, other_members),
        );
    }

    /// Appends the error of a request for the prompt `name`.
    pub(super) fn push_prompt_error(
        &mut self,
        name: String,
        error: &Json,
        id: &Json,
        metadata: Option<McpExtension>,
    ) {
        let result = PromptResult {
            is_error: true,
            error_message: Some(error_message(error)),
            ..prompt_result(id, name, Vec::new())
        };
        let other_members = other_members(error, id, &["message"]);
        self.push(
            Role::Tool,
            vec![block_of(&ContentPart::PromptResult(result))],
            MessageContext::response(metadata, MessageHook::PromptPostFetch, other_members),
        );
    }
}

/// Sampling: the server requests an answer of a model.
impl Connection<'_> {
    /// Appends the instructions of a sampling request, if it has any.
    fn push_system_prompt(&mut self, parameters: &Json) {
        if let Some(prompt) = text(parameters, "systemPrompt").filter(|prompt| !prompt.is_empty()) {
            let content = vec![ContentBlock::text(prompt.into_owned())];
            self.push(Role::System, content, MessageContext::default());
        }
    }

    /// Appends the messages that the model is to answer; parameters without a list of messages are
    /// a message without content.
    pub(super) fn push_sampling_request(&mut self, parameters: &Json) {
        self.push_system_prompt(parameters);
        let messages = items(parameters, "messages");
        let represented: &[&str] = match messages.is_empty() {
            true => &["systemPrompt"],
            false => &["messages", "systemPrompt"],
        };
        let other_members = other_members(parameters, &Json::Null, represented);
        let mut other_members = Some(other_members).filter(has_members);
        if messages.is_empty() && other_members.is_some() {
            let context = MessageContext {
                other_members: other_members.take(),
                hook: Some(MessageHook::LlmInput),
                ..MessageContext::default()
            };
            self.push(Role::User, Vec::new(), context);
        }
        for (index, message) in messages.iter().enumerate() {
            let role = text(message, "role")
                .and_then(|role| Role::from_text(&role))
                .unwrap_or(Role::User);
            let content = content_of(message);
            let is_last = index + 1 == messages.len();
            let context = MessageContext {
                other_members: is_last.then(|| other_members.take()).flatten(),
                hook: Some(MessageHook::LlmInput),
                ..MessageContext::default()
            };
            self.push(role, content, context);
        }
    }

    /// Appends the answer of the model.
    pub(super) fn push_sampling_result(&mut self, result: &Json, id: &Json) {
        let content = content_of(result);
        let stop_reason = text(result, "stopReason").and_then(|reason| match &*reason {
            "endTurn" => Some(StopReason::EndTurn),
            "stopSequence" => Some(StopReason::StopSequence),
            "maxTokens" => Some(StopReason::MaxTokens),
            "toolUse" => Some(StopReason::ToolUse),
            _ => None,
        });
        let context = MessageContext {
            model: text(result, "model").map(Into::into),
            stop_reason,
            other_members: Some(other_members(result, id, &["content", "role", "model"])),
            hook: Some(MessageHook::LlmOutput),
            ..MessageContext::default()
        };
        self.push(Role::Assistant, content, context);
    }
}

impl Connection<'_> {
    /// Appends a message to the conversation.
    fn push(&mut self, role: Role, content: Vec<ContentBlock<'static>>, context: MessageContext) {
        let state = &mut *self.state;
        let conversation = &mut state.conversation;
        self.first_messages
            .separate(conversation, role, &content, state.time, !state.is_dated);
        let mut built = state.conversation.push(role, content, state.time);
        let message = &mut built.message;
        message.metadata.model = context.model.map(Into::into);
        if let Some(members) = context.other_members.filter(has_members) {
            message.metadata.unknown_fields.insert("mcp", members);
        }
        let server = state.listings.server.as_ref();
        let server = server.filter(|_| context.is_from_server);
        let extensions = extensions(message, context.metadata, server);
        attach_extensions(message, &extensions, context.hook);
        self.part.messages.push(PlacedMessage {
            stop_reason: context.stop_reason,
            ..built.into_placed(self.line.clone())
        });
    }
}

/// Returns the content of a message of a model.
fn content_of(message: &Json) -> Vec<ContentBlock<'static>> {
    message
        .get("content")
        .map(|content| content_blocks(content, ""))
        .unwrap_or_default()
}

/// Returns the content of a result of the tool call `call`; without content, its structured content
/// as JSON text.
fn result_blocks(result: &Json, call: &str) -> Vec<ContentBlock<'static>> {
    let blocks = present(result, "content")
        .map(|content| content_blocks(content, call))
        .unwrap_or_default();
    match result.get("structuredContent") {
        Some(structured) if blocks.is_empty() => {
            vec![ContentBlock::text(structured.to_string())]
        }
        _ => blocks,
    }
}

/// Returns the extensions of a message with the metadata `mcp`, which `server` sent.
fn extensions(message: &Message, mcp: Option<McpExtension>, server: Option<&String>) -> Extensions {
    Extensions {
        agent: Some(AgentExtension {
            session_id: Some(message.session_id.to_string()),
            ..AgentExtension::default()
        }),
        mcp,
        provenance: Some(ProvenanceExtension {
            source: server.map(|server| format!("mcp-server:{server}")),
            message_id: Some(message.id.to_string()),
            parent_id: None,
        }),
        ..Extensions::default()
    }
}

fn error_message(error: &Json) -> String {
    text(error, "message").map_or_else(|| error.to_string(), |message| message.into_owned())
}

/// Returns a message of a prompt; only its text is represented.
fn prompt_message(message: &Json) -> CmfMessage {
    let role = text(message, "role")
        .and_then(|role| CmfRole::from_name(&role))
        .unwrap_or(CmfRole::User);
    let content = message
        .get("content")
        .and_then(|content| text(content, "text"));
    let parts = content
        .into_iter()
        .map(|text| ContentPart::text(text.into_owned()))
        .collect();
    CmfMessage::new(role, parts)
}

fn prompt_result(id: &Json, prompt_name: String, messages: Vec<CmfMessage>) -> PromptResult {
    PromptResult {
        prompt_request_id: id.to_string(),
        prompt_name,
        messages,
        content: None,
        is_error: false,
        error_message: None,
    }
}

/// Returns the members that the block of a request for a prompt represents. Arguments that aren't
/// an object are kept with the other members.
fn represented_by_prompt(arguments: Option<&Object<'_>>) -> &'static [&'static str] {
    if arguments.is_some() {
        &["name", "arguments"]
    } else {
        &["name"]
    }
}

/// Returns true if `json` is an object that isn't empty.
fn has_members(json: &Json) -> bool {
    json.as_object().is_some_and(|members| !members.is_empty())
}

/// Returns the JSON-RPC id, and the members of `json` except those in `represented`. A `json` that
/// is neither an object nor null is the member `value`.
fn other_members(json: &Json, id: &Json, represented: &[&str]) -> Json<'static> {
    let mut other = Object::new();
    if !id.is_null() {
        other.insert("id", id.clone().into_owned());
    }
    match json {
        Json::Object(object) => {
            let members = object.iter().filter(|(key, _)| !represented.contains(key));
            other.extend(members.map(|(key, value)| (key.to_owned(), value.clone().into_owned())));
        }
        Json::Null => {}
        value => _ = other.insert("value", value.clone().into_owned()),
    }
    Json::Object(other)
}
