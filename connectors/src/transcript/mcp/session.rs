//! One connection: requests wait for their answers, lists are remembered, and what is said becomes
//! a conversation.

use std::collections::{HashMap, HashSet, VecDeque};

use gristmill_schemas::cmf::canonical::{attach, block_of};
use gristmill_schemas::cmf::extensions::{AgentExtension, McpExtension, ProvenanceExtension};
use gristmill_schemas::cmf::{
    Extensions, Message as CmfMessage, MessageHook, Part, PromptRequest, PromptResult,
    Role as CmfRole,
};
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::EncodedGrain;
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ToolResultBlock, ToolUseBlock};
use gristmill_schemas::message::grains::{ListedTool, opaque_event};
use gristmill_schemas::message::request::StopReason;
use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

use super::parts::{blocks, listed_prompt, listed_resource, reference, resource, says_all, tool};
use super::wire::Rpc;
use crate::transcript::line::Line;
use crate::transcript::said::Said;
use crate::transcript::talk::{Spoken, Talk};
use crate::transcript::told::{Made, Told};
use crate::wire::json_access::{items, text};

/// Requests that wait for an answer at most; the oldest are forgotten then, and their answers are
/// orphans.
const WAITING_LIMIT: usize = 1 << 14;

/// Things that a server listed at most, of each kind.
const LISTED_LIMIT: usize = 1 << 14;

/// True for the request that begins a connection.
pub(super) fn is_initialize(json: &Json) -> bool {
    json.get("method").and_then(Json::as_str) == Some("initialize")
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Waiting {
    /// The JSON-RPC id, as JSON text.
    id: String,
    asked: Asked,
    /// What the server says of what was asked for.
    about: Option<McpExtension>,
}

/// What was asked for.
#[derive(Debug)]
enum Asked {
    /// A tool, by the id that joins call and result.
    Call(String),
    ListTools,
    ListResources,
    ListPrompts,
    Resource,
    Prompt(String),
    /// A model's answer, by the server.
    Sample,
    Initialize,
    Other(String),
}

/// What is known about a message beside its content.
#[derive(Default)]
struct Around {
    about: Option<McpExtension>,
    hook: Option<MessageHook>,
    /// What else the JSON-RPC message says, and its id.
    rest: Option<Json<'static>>,
    model: Option<String>,
    stop_reason: Option<StopReason>,
    from_server: bool,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Session {
    talk: Talk,
    /// When the last message was sent.
    time: Timestamp,
    server: Option<String>,
    tools: HashMap<String, McpExtension>,
    resources: HashMap<String, McpExtension>,
    prompts: HashMap<String, McpExtension>,
    /// Tools whose definitions are told, by digest.
    defined: HashSet<[u8; 32]>,
    waiting: VecDeque<Waiting>,
    requests: u64,
}

impl Session {
    /// A connection before its first message. Connections of one name are one conversation.
    pub(super) fn new(name: &str, time: Timestamp) -> Session {
        Session {
            talk: Talk::new(name),
            time,
            server: None,
            tools: HashMap::new(),
            resources: HashMap::new(),
            prompts: HashMap::new(),
            defined: HashSet::new(),
            waiting: VecDeque::new(),
            requests: 0,
        }
    }

    /// Takes the next message.
    pub(super) fn take(
        &mut self,
        rpc: &Rpc<'_>,
        line: &Line,
        namespace: Option<&str>,
        told: &mut Told,
    ) {
        self.time = rpc.time.unwrap_or(self.time);
        let mut connection = Connection {
            session: self,
            line,
            namespace,
            told,
        };
        match rpc.json.get("method").and_then(Json::as_str) {
            Some(method) => connection.request(method, rpc.json),
            None => connection.response(rpc.json),
        }
    }

    /// What was said of a tool, resource or prompt before.
    fn answered(&mut self, id: &Json, fits: impl Fn(&Asked) -> bool) -> Option<Waiting> {
        let id = id.to_string();
        let place = self
            .waiting
            .iter()
            .position(|waiting| waiting.id == id && fits(&waiting.asked))?;
        self.waiting.remove(place)
    }
}

fn remember(
    known: &mut HashMap<String, McpExtension>,
    key: Option<String>,
    entry: Option<McpExtension>,
) {
    if let (Some(key), Some(entry)) = (key, entry)
        && known.len() < LISTED_LIMIT
    {
        known.insert(key, entry);
    }
}

/// A connection while a message is taken.
struct Connection<'s> {
    session: &'s mut Session,
    line: &'s Line,
    namespace: Option<&'s str>,
    told: &'s mut Told,
}

impl Connection<'_> {
    fn request(&mut self, method: &str, json: &Json) {
        let parameters = json.get("params").unwrap_or(&Json::Null);
        let named = |key| text(parameters, key).unwrap_or_default().into_owned();
        let id = json.get("id").filter(|id| !id.is_null());
        self.session.requests += 1;
        let mut about = None;
        let asked = match method {
            "tools/call" => {
                about = self.session.tools.get(&named("name")).cloned();
                Asked::Call(self.call(parameters, id, about.clone()))
            }
            "resources/read" => {
                let uri = named("uri");
                about = self.session.resources.get(&uri).cloned();
                self.read(uri, parameters, id, about.clone());
                Asked::Resource
            }
            "prompts/get" => {
                about = self.session.prompts.get(&named("name")).cloned();
                self.prompt(parameters, id, about.clone());
                Asked::Prompt(named("name"))
            }
            "sampling/createMessage" => {
                self.sample(parameters);
                Asked::Sample
            }
            other => {
                self.keep(json, other);
                match other {
                    "tools/list" => Asked::ListTools,
                    "resources/list" => Asked::ListResources,
                    "prompts/list" => Asked::ListPrompts,
                    "initialize" => Asked::Initialize,
                    other => Asked::Other(other.to_owned()),
                }
            }
        };
        if let Some(id) = id {
            if self.session.waiting.len() >= WAITING_LIMIT {
                self.session.waiting.pop_front();
            }
            self.session.waiting.push_back(Waiting {
                id: id.to_string(),
                asked,
                about,
            });
        }
    }

    fn response(&mut self, json: &Json) {
        let id = json.get("id").unwrap_or(&Json::Null);
        let result = json.get("result");
        // Servers number their own requests, so an id may wait twice.
        let sampled = result
            .is_some_and(|result| result.get("role").is_some() && result.get("model").is_some());
        let fitting = self
            .session
            .answered(id, |asked| matches!(asked, Asked::Sample) == sampled);
        let waiting = fitting.or_else(|| self.session.answered(id, |_| true));
        let Some(Waiting { asked, about, .. }) = waiting else {
            return self.orphan(id, result, json);
        };
        let Some(result) = result else {
            return self.failed(asked, about, id, json);
        };
        match asked {
            Asked::Call(call) => self.result(&call, result, id, about),
            Asked::Resource => self.contents(result, id, about),
            Asked::Prompt(name) => self.rendered(name, result, id, about),
            Asked::Sample => self.sampled(result, id),
            Asked::ListTools => self.tools(result, json),
            Asked::ListResources => {
                for listed in items(result, "resources") {
                    let entry = listed_resource(listed, self.session.server.as_deref());
                    remember(
                        &mut self.session.resources,
                        text(listed, "uri").map(Into::into),
                        entry,
                    );
                }
                self.keep(json, "resources/list");
            }
            Asked::ListPrompts => {
                for listed in items(result, "prompts") {
                    let entry = listed_prompt(listed, self.session.server.as_deref());
                    remember(
                        &mut self.session.prompts,
                        text(listed, "name").map(Into::into),
                        entry,
                    );
                }
                self.keep(json, "prompts/list");
            }
            Asked::Initialize => {
                self.session.server = result
                    .get("serverInfo")
                    .and_then(|info| text(info, "name"))
                    .map(Into::into);
                self.keep(json, "initialize");
            }
            Asked::Other(method) => self.keep(json, &method),
        }
    }

    /// A result without its request: one of a tool is told by its form.
    fn orphan(&mut self, id: &Json, result: Option<&Json>, json: &Json) {
        match result.filter(|result| result.get("content").and_then(Json::as_array).is_some()) {
            Some(result) => self.result(
                &format!("rpc_{}", id.to_string().trim_matches('"')),
                result,
                id,
                None,
            ),
            None => self.keep(json, "response"),
        }
    }

    fn failed(&mut self, asked: Asked, about: Option<McpExtension>, id: &Json, json: &Json) {
        let error = json.get("error").unwrap_or(&Json::Null);
        let message = text(error, "message")
            .map_or_else(|| error.to_string(), |message| message.into_owned());
        let around = |hook| Around {
            about,
            hook: Some(hook),
            rest: Some(rest(error, id, &["message"])),
            from_server: true,
            ..Around::default()
        };
        match asked {
            Asked::Call(call) => {
                let content = vec![ContentBlock::text(message)];
                let block = ToolResultBlock {
                    tool_use_id: call.into(),
                    content,
                    is_error: true,
                };
                self.say(
                    Role::Tool,
                    vec![ContentBlock::ToolResult(block)],
                    around(MessageHook::ToolPostInvoke),
                );
            }
            Asked::Prompt(name) => {
                let mut result = prompt_result(id, name, Vec::new());
                (result.is_error, result.error_message) = (true, Some(message));
                self.say(
                    Role::Tool,
                    vec![block_of(&Part::PromptResult(result))],
                    around(MessageHook::PromptPostFetch),
                );
            }
            Asked::Resource => self.keep(json, "resources/read"),
            Asked::Sample => self.keep(json, "sampling/createMessage"),
            Asked::ListTools => self.keep(json, "tools/list"),
            Asked::ListResources => self.keep(json, "resources/list"),
            Asked::ListPrompts => self.keep(json, "prompts/list"),
            Asked::Initialize => self.keep(json, "initialize"),
            Asked::Other(method) => self.keep(json, &method),
        }
    }

    /// A call of a tool; answers what joins it with its result.
    fn call(
        &mut self,
        parameters: &Json,
        id: Option<&Json>,
        about: Option<McpExtension>,
    ) -> String {
        let joint = format!("call {}", self.session.requests);
        let input = ToolUseBlock::input_of(parameters.get("arguments")).into_owned();
        let name = text(parameters, "name").unwrap_or_default().into_owned();
        let block = ContentBlock::ToolUse(ToolUseBlock {
            id: joint.clone().into(),
            name: name.into(),
            input,
        });
        let rest = rest(
            parameters,
            id.unwrap_or(&Json::Null),
            &["name", "arguments"],
        );
        let hook = Some(MessageHook::ToolPreInvoke);
        self.say(
            Role::Assistant,
            vec![block],
            Around {
                about,
                hook,
                rest: Some(rest),
                ..Around::default()
            },
        );
        joint
    }

    fn result(&mut self, call: &str, result: &Json, id: &Json, about: Option<McpExtension>) {
        let content = result.get("content").unwrap_or(&Json::Null);
        let mut made = if content.is_null() {
            Vec::new()
        } else {
            blocks(content, call)
        };
        if let Some(structured) = result.get("structuredContent").filter(|_| made.is_empty()) {
            made.push(ContentBlock::text(structured.to_string()));
        }
        let is_error = result
            .get("isError")
            .and_then(Json::as_bool)
            .unwrap_or(false);
        let said: &[&str] = if says_all(content) {
            &["content", "isError"]
        } else {
            &["isError"]
        };
        let block = ToolResultBlock {
            tool_use_id: call.to_owned().into(),
            content: made,
            is_error,
        };
        let around = Around {
            about,
            hook: Some(MessageHook::ToolPostInvoke),
            rest: Some(rest(result, id, said)),
            from_server: true,
            ..Around::default()
        };
        self.say(Role::Tool, vec![ContentBlock::ToolResult(block)], around);
    }

    fn read(
        &mut self,
        uri: String,
        parameters: &Json,
        id: Option<&Json>,
        about: Option<McpExtension>,
    ) {
        let id = id.unwrap_or(&Json::Null);
        let block = reference(uri, None, &id.to_string());
        let hook = Some(MessageHook::ResourcePreFetch);
        let rest = Some(rest(parameters, id, &["uri"]));
        self.say(
            Role::Assistant,
            vec![block],
            Around {
                about,
                hook,
                rest,
                ..Around::default()
            },
        );
    }

    fn contents(&mut self, result: &Json, id: &Json, about: Option<McpExtension>) {
        let request = id.to_string();
        let blocks: Vec<_> = items(result, "contents")
            .iter()
            .filter_map(|json| resource(json, &request))
            .collect();
        let around = Around {
            about,
            hook: Some(MessageHook::ResourcePostFetch),
            rest: Some(rest(result, id, &["contents"])),
            from_server: true,
            ..Around::default()
        };
        self.say(Role::Tool, blocks, around);
    }

    fn prompt(&mut self, parameters: &Json, id: Option<&Json>, about: Option<McpExtension>) {
        let id = id.unwrap_or(&Json::Null);
        let arguments = parameters.get("arguments").and_then(Json::as_object);
        let request = PromptRequest {
            prompt_request_id: id.to_string(),
            name: text(parameters, "name").unwrap_or_default().into_owned(),
            arguments: arguments.cloned().unwrap_or_default().into_owned(),
            server_id: self.session.server.clone(),
        };
        let hook = Some(MessageHook::PromptPreFetch);
        // Arguments that are no object stay among the rest.
        let taken: &[&str] = if arguments.is_some() {
            &["name", "arguments"]
        } else {
            &["name"]
        };
        let rest = Some(rest(parameters, id, taken));
        let around = Around {
            about,
            hook,
            rest,
            ..Around::default()
        };
        self.say(
            Role::User,
            vec![block_of(&Part::PromptRequest(request))],
            around,
        );
    }

    fn rendered(&mut self, name: String, result: &Json, id: &Json, about: Option<McpExtension>) {
        let messages = items(result, "messages").iter().map(|message| {
            let role = text(message, "role")
                .and_then(|role| CmfRole::from_name(&role))
                .unwrap_or(CmfRole::User);
            let inside = message
                .get("content")
                .and_then(|content| text(content, "text"));
            CmfMessage::new(
                role,
                inside
                    .into_iter()
                    .map(|text| Part::text(text.into_owned()))
                    .collect(),
            )
        });
        let block = block_of(&Part::PromptResult(prompt_result(
            id,
            name,
            messages.collect(),
        )));
        let around = Around {
            about,
            hook: Some(MessageHook::PromptPostFetch),
            // Messages may hold more than text.
            rest: Some(rest(result, id, &[])),
            from_server: true,
            ..Around::default()
        };
        self.say(Role::Tool, vec![block], around);
    }

    /// The messages that a server wants a model to be asked.
    fn sample(&mut self, parameters: &Json) {
        if let Some(prompt) = text(parameters, "systemPrompt").filter(|prompt| !prompt.is_empty()) {
            self.say(
                Role::System,
                vec![ContentBlock::text(prompt.into_owned())],
                Around::default(),
            );
        }
        let rest = rest(parameters, &Json::Null, &["messages", "systemPrompt"]);
        let messages = items(parameters, "messages");
        for (number, message) in messages.iter().enumerate() {
            let role = text(message, "role")
                .and_then(|role| Role::from_text(&role))
                .unwrap_or(Role::User);
            let content = message
                .get("content")
                .map(|content| blocks(content, ""))
                .unwrap_or_default();
            let rest = (number + 1 == messages.len()).then(|| rest.clone());
            self.say(
                role,
                content,
                Around {
                    rest,
                    hook: Some(MessageHook::LlmInput),
                    ..Around::default()
                },
            );
        }
    }

    fn sampled(&mut self, result: &Json, id: &Json) {
        let content = result
            .get("content")
            .map(|content| blocks(content, ""))
            .unwrap_or_default();
        let stop_reason = text(result, "stopReason").and_then(|reason| match &*reason {
            "endTurn" => Some(StopReason::EndTurn),
            "stopSequence" => Some(StopReason::StopSequence),
            "maxTokens" => Some(StopReason::MaxTokens),
            "toolUse" => Some(StopReason::ToolUse),
            _ => None,
        });
        let around = Around {
            model: text(result, "model").map(Into::into),
            stop_reason,
            rest: Some(rest(result, id, &["content", "role", "model"])),
            hook: Some(MessageHook::LlmOutput),
            ..Around::default()
        };
        self.say(Role::Assistant, content, around);
    }

    /// The tools that a server lists: a definition for each that wasn't told on this connection.
    fn tools(&mut self, result: &Json, json: &Json) {
        let server = self.session.server.clone();
        for listed in items(result, "tools") {
            let name = text(listed, "name").map(|name| name.into_owned());
            remember(
                &mut self.session.tools,
                name,
                tool(listed, server.as_deref()),
            );
            let mut digest = blake3::Hasher::new();
            listed.feed(&mut digest);
            if self.session.defined.len() < LISTED_LIMIT
                && self.session.defined.insert(*digest.finalize().as_bytes())
            {
                let session_id = self.session.talk.session().unwrap_or_default().to_owned();
                let definition = ListedTool {
                    tool: listed,
                    listed_at: self.session.time,
                    session_id: &session_id,
                    server: server.as_deref(),
                    namespace: self.namespace,
                };
                self.made(definition.grain());
            }
        }
        if result
            .as_object()
            .is_some_and(|result| result.keys().any(|key| key != "tools"))
        {
            self.keep(json, "tools/list");
        }
    }

    /// Keeps a JSON-RPC message that is no part of the conversation.
    fn keep(&mut self, json: &Json, method: &str) {
        let label = format!("mcp/{method}");
        self.made(opaque_event(
            json,
            self.session.time,
            &label,
            "no part of a conversation",
            self.namespace,
        ));
    }

    fn made(&mut self, grain: Result<EncodedGrain, GrainError>) {
        match grain {
            Ok(grain) => self.told.made.push(Made::new(self.line.clone(), grain)),
            Err(error) => self.told.faults.push(self.line.grain_fault(&error)),
        }
    }

    /// The next message of the conversation.
    fn say(&mut self, role: Role, content: Vec<ContentBlock<'static>>, around: Around) {
        let session = &mut *self.session;
        let Spoken {
            position,
            parent,
            mut message,
        } = session.talk.say(role, content, session.time);
        message.metadata.model = around.model.map(Into::into);
        if let Some(rest) = around
            .rest
            .filter(|rest| rest.as_object().is_some_and(|rest| !rest.is_empty()))
        {
            message.metadata.unknown_fields.insert("mcp", rest);
        }
        let server = session.server.as_ref().filter(|_| around.from_server);
        let provenance = ProvenanceExtension {
            source: server.map(|server| format!("mcp-server:{server}")),
            message_id: Some(message.id.to_string()),
            parent_id: None,
        };
        let session_id = Some(message.session_id.to_string());
        let extensions = Extensions {
            agent: Some(AgentExtension {
                session_id,
                ..AgentExtension::default()
            }),
            mcp: around.about,
            provenance: Some(provenance),
            ..Extensions::default()
        };
        attach(&mut message, &extensions, around.hook);
        let (line, stop_reason) = (self.line.clone(), around.stop_reason);
        self.told.said.push(Said {
            position,
            parent,
            message,
            stop_reason,
            usage: None,
            line,
        });
    }
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

/// What a message says beyond the members `said`, and its id.
fn rest(json: &Json, id: &Json, said: &[&str]) -> Json<'static> {
    let mut rest = Object::new();
    if !id.is_null() {
        rest.insert("id", id.clone().into_owned());
    }
    let members = json
        .as_object()
        .into_iter()
        .flat_map(|object| object.iter());
    for (key, value) in members.filter(|(key, _)| !said.contains(key)) {
        rest.insert(key.to_owned(), value.clone().into_owned());
    }
    Json::Object(rest)
}
