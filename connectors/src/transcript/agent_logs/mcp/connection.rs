//! One connection: requests wait for their responses, and both become a conversation.

use std::collections::{BTreeMap, HashMap, VecDeque};

use gristmill_schemas::cmf::extensions::McpExtension;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::EncodedGrain;
use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::grains::{ListedTool, opaque_event};

use super::json_rpc::RpcMessage;
use super::listings::Listings;
use crate::transcript::conversation_builder::{ConversationBuilder, FirstMessages};
use crate::transcript::line::Line;
use crate::transcript::parsed::{ParsedPart, StandaloneGrain};
use crate::wire::json_access::{items, text};

/// Maximum number of requests without a response. The oldest is dropped then, and its response
/// becomes an orphan.
const PENDING_LIMIT: usize = 1 << 14;

/// Returns true for the request that begins a connection.
pub(super) fn is_initialize(json: &Json) -> bool {
    json.get("method").and_then(Json::as_str) == Some("initialize")
}

/// A request without a response.
#[derive(Debug)]
struct PendingRequest {
    /// The JSON-RPC id, as JSON text.
    id: String,
    kind: RequestKind,
    /// The metadata of the requested tool, resource or prompt.
    metadata: Option<McpExtension>,
}

impl PendingRequest {
    /// Returns its id, and the form of its result.
    fn key(&self) -> (String, ResultForm) {
        let form = ResultForm::of_method(self.kind.method());
        (self.id.clone(), form)
    }
}

/// The form of a result. It tells apart requests of the client and of the server with the same id,
/// because each numbers its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ResultForm {
    /// That of nearly all methods of the client.
    Other,
    /// The answer of a model.
    Sampling,
    /// The answer of a user.
    Elicitation,
    Roots,
    /// No members, such as the answer to a ping.
    Empty,
}

impl ResultForm {
    const ALL: [ResultForm; 5] = [
        ResultForm::Other,
        ResultForm::Sampling,
        ResultForm::Elicitation,
        ResultForm::Roots,
        ResultForm::Empty,
    ];

    /// Returns the form of the results of a method.
    fn of_method(method: &str) -> ResultForm {
        match method {
            "sampling/createMessage" => ResultForm::Sampling,
            "elicitation/create" => ResultForm::Elicitation,
            "roots/list" => ResultForm::Roots,
            "ping" => ResultForm::Empty,
            _ => ResultForm::Other,
        }
    }

    /// Returns the form of a result; `None` is an error.
    fn of_result(result: Option<&Json>) -> ResultForm {
        let has = |key| result.is_some_and(|result| result.get(key).is_some());
        let members = result.and_then(Json::as_object);
        match members.is_some_and(|members| members.is_empty()) {
            true => ResultForm::Empty,
            false if has("role") && has("model") => ResultForm::Sampling,
            false if has("action") => ResultForm::Elicitation,
            false if has("roots") => ResultForm::Roots,
            false => ResultForm::Other,
        }
    }
}

/// What a request is for.
#[derive(Debug)]
enum RequestKind {
    /// A call of a tool, with the id that links call and result.
    ToolCall(String),
    ListTools,
    ListResources,
    ListPrompts,
    Resource,
    /// A prompt, with its name.
    Prompt(String),
    /// An answer of a model, requested by the server.
    Sampling,
    Initialize,
    /// Any other method.
    Other(String),
}

impl RequestKind {
    /// Returns the kind of a request that is no part of the conversation.
    fn of_method(method: &str) -> RequestKind {
        match method {
            "tools/list" => RequestKind::ListTools,
            "resources/list" => RequestKind::ListResources,
            "prompts/list" => RequestKind::ListPrompts,
            "initialize" => RequestKind::Initialize,
            other => RequestKind::Other(other.to_owned()),
        }
    }

    /// Returns the method of the request.
    fn method(&self) -> &str {
        match self {
            RequestKind::ToolCall(_) => "tools/call",
            RequestKind::ListTools => "tools/list",
            RequestKind::ListResources => "resources/list",
            RequestKind::ListPrompts => "prompts/list",
            RequestKind::Resource => "resources/read",
            RequestKind::Prompt(_) => "prompts/get",
            RequestKind::Sampling => "sampling/createMessage",
            RequestKind::Initialize => "initialize",
            RequestKind::Other(method) => method,
        }
    }
}

/// The requests without a response, at most [`PENDING_LIMIT`].
#[derive(Debug, Default)]
struct PendingRequests {
    /// By their number in the order of the requests.
    requests: BTreeMap<u64, PendingRequest>,
    /// The numbers of the requests with an id whose results have a form.
    by_id: HashMap<(String, ResultForm), VecDeque<u64>>,
    next: u64,
}

impl PendingRequests {
    /// Adds a request; drops the oldest one if there are too many.
    fn push(&mut self, request: PendingRequest) {
        if self.requests.len() >= PENDING_LIMIT
            && let Some((_, oldest)) = self.requests.pop_first()
        {
            self.take_number(oldest.key());
        }
        let with_id = self.by_id.entry(request.key()).or_default();
        with_id.push_back(self.next);
        self.requests.insert(self.next, request);
        self.next += 1;
    }

    /// Takes the oldest request with this id whose result has this form; without such a request,
    /// the oldest of another form.
    fn take(&mut self, id: &str, form: ResultForm) -> Option<PendingRequest> {
        let others = ResultForm::ALL.into_iter().filter(|other| *other != form);
        let mut forms = std::iter::once(form).chain(others);
        let number = forms.find_map(|form| self.take_number((id.to_owned(), form)))?;
        self.requests.remove(&number)
    }

    fn take_number(&mut self, key: (String, ResultForm)) -> Option<u64> {
        let with_id = self.by_id.get_mut(&key)?;
        let number = with_id.pop_front();
        if with_id.is_empty() {
            self.by_id.remove(&key);
        }
        number
    }
}

/// The state of a connection.
#[derive(Debug)]
pub(super) struct ConnectionState {
    pub(super) conversation: ConversationBuilder,
    /// The time of the last message.
    pub(super) time: Timestamp,
    /// True after a message with a time of its own.
    pub(super) is_dated: bool,
    pub(super) listings: Listings,
    pending: PendingRequests,
    /// The number of requests so far.
    pub(super) requests: u64,
}

impl ConnectionState {
    /// Returns a connection before its first message. Connections of the same name are one
    /// conversation.
    pub(super) fn new(name: &str, time: Timestamp) -> ConnectionState {
        ConnectionState {
            conversation: ConversationBuilder::new(name),
            time,
            is_dated: false,
            listings: Listings::default(),
            pending: PendingRequests::default(),
            requests: 0,
        }
    }

    /// Takes the request that a response answers.
    fn take_pending(&mut self, id: &Json, result: Option<&Json>) -> Option<PendingRequest> {
        let form = ResultForm::of_result(result);
        self.pending.take(&id.to_string(), form)
    }
}

/// A connection while one of its messages is added.
pub(super) struct Connection<'s> {
    pub(super) state: &'s mut ConnectionState,
    pub(super) line: &'s Line,
    pub(super) namespace: Option<&'s str>,
    /// Those of all connections.
    pub(super) first_messages: &'s mut FirstMessages,
    pub(super) part: &'s mut ParsedPart,
}

impl Connection<'_> {
    /// Adds the next message of the connection.
    pub(super) fn add(&mut self, message: &RpcMessage<'_>) {
        self.state.time = message.time.unwrap_or(self.state.time);
        self.state.is_dated |= message.time.is_some();
        match message.json.get("method").and_then(Json::as_str) {
            Some(method) => self.add_request(method, message.json),
            None => self.add_response(message.json),
        }
    }

    fn add_request(&mut self, method: &str, json: &Json) {
        let parameters = json.get("params").unwrap_or(&Json::Null);
        let id = json.get("id").filter(|id| !id.is_null());
        self.state.requests += 1;
        let metadata = self.state.listings.metadata(method, parameters);
        let kind = match method {
            "tools/call" => {
                RequestKind::ToolCall(self.push_tool_call(parameters, id, metadata.clone()))
            }
            "resources/read" => {
                self.push_resource_request(parameters, id, metadata.clone());
                RequestKind::Resource
            }
            "prompts/get" => {
                self.push_prompt_request(parameters, id, metadata.clone());
                RequestKind::Prompt(text(parameters, "name").unwrap_or_default().into_owned())
            }
            "sampling/createMessage" => {
                self.push_sampling_request(parameters);
                RequestKind::Sampling
            }
            other => {
                self.keep_event(json, other);
                RequestKind::of_method(other)
            }
        };
        if let Some(id) = id {
            self.state.pending.push(PendingRequest {
                id: id.to_string(),
                kind,
                metadata,
            });
        }
    }

    fn add_response(&mut self, json: &Json) {
        let id = json.get("id").unwrap_or(&Json::Null);
        let result = json.get("result");
        let Some(request) = self.state.take_pending(id, result) else {
            return self.add_orphan(id, result, json);
        };
        let PendingRequest { kind, metadata, .. } = request;
        let Some(result) = result else {
            return self.add_error(kind, metadata, id, json);
        };
        match kind {
            RequestKind::ToolCall(call) => self.push_tool_result(&call, result, id, metadata),
            RequestKind::Resource => self.push_resource_contents(result, id, metadata),
            RequestKind::Prompt(name) => self.push_prompt_result(name, result, id, metadata),
            RequestKind::Sampling => self.push_sampling_result(result, id),
            RequestKind::ListTools => self.add_tools(result, json),
            RequestKind::ListResources => {
                self.state.listings.add_resources(result);
                self.keep_event(json, "resources/list");
            }
            RequestKind::ListPrompts => {
                self.state.listings.add_prompts(result);
                self.keep_event(json, "prompts/list");
            }
            RequestKind::Initialize => {
                self.state.listings.server = result
                    .get("serverInfo")
                    .and_then(|info| text(info, "name"))
                    .map(Into::into);
                self.keep_event(json, "initialize");
            }
            RequestKind::Other(method) => self.keep_event(json, &method),
        }
    }

    /// Adds a response without a request. That of a tool call is recognised by its form.
    fn add_orphan(&mut self, id: &Json, result: Option<&Json>, json: &Json) {
        let is_tool_result =
            |result: &&Json| result.get("content").and_then(Json::as_array).is_some();
        match result.filter(is_tool_result) {
            Some(result) => {
                let call = format!("rpc_{}", id.to_string().trim_matches('"'));
                self.push_tool_result(&call, result, id, None);
            }
            None => self.keep_event(json, "response"),
        }
    }

    /// Adds an error response.
    fn add_error(
        &mut self,
        kind: RequestKind,
        metadata: Option<McpExtension>,
        id: &Json,
        json: &Json,
    ) {
        let error = json.get("error").unwrap_or(&Json::Null);
        match kind {
            RequestKind::ToolCall(call) => self.push_tool_error(call, error, id, metadata),
            RequestKind::Prompt(name) => self.push_prompt_error(name, error, id, metadata),
            other => self.keep_event(json, other.method()),
        }
    }

    /// Adds the tools of a result of `tools/list`, and emits the new definitions.
    fn add_tools(&mut self, result: &Json, json: &Json) {
        let server = self.state.listings.server.clone();
        for tool in items(result, "tools") {
            if self.state.listings.add_tool(tool) {
                let session_id = self.state.conversation.session_id();
                let definition = ListedTool {
                    tool,
                    listed_at: self.state.time,
                    session_id: session_id.unwrap_or_default(),
                    server: server.as_deref(),
                    namespace: self.namespace,
                };
                let grain = definition.grain();
                self.push_grain(grain);
            }
        }
        let has_other_members = result
            .as_object()
            .is_some_and(|result| result.keys().any(|key| key != "tools"));
        if has_other_members {
            self.keep_event(json, "tools/list");
        }
    }

    /// Keeps a JSON-RPC message that isn't part of the conversation as an event.
    fn keep_event(&mut self, json: &Json, method: &str) {
        self.push_grain(opaque_event(
            json,
            self.state.time,
            &format!("mcp/{method}"),
            "no part of a conversation",
            self.namespace,
        ));
    }

    fn push_grain(&mut self, grain: Result<EncodedGrain, GrainError>) {
        match grain {
            Ok(grain) => {
                let grain = StandaloneGrain::new(self.line.clone(), grain);
                self.part.grains.push(grain);
            }
            Err(error) => self.part.faults.push(self.line.grain_fault(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: usize, kind: RequestKind) -> PendingRequest {
        PendingRequest {
            id: id.to_string(),
            kind,
            metadata: None,
        }
    }

    #[test]
    fn responses_are_matched_in_constant_time_and_the_oldest_requests_are_dropped() {
        // By linear scans of the pending requests this takes minutes.
        const RESPONSES: usize = 1_000_000;
        let mut pending = PendingRequests::default();
        for id in 0..PENDING_LIMIT + 1 {
            pending.push(request(id, RequestKind::ListTools));
        }
        for _ in 0..RESPONSES {
            assert!(pending.take("0", ResultForm::Sampling).is_none());
        }
        for id in 1..PENDING_LIMIT + 1 {
            assert_eq!(
                pending.take(&id.to_string(), ResultForm::Other).unwrap().id,
                id.to_string()
            );
        }
        assert!(pending.requests.is_empty() && pending.by_id.is_empty());
    }

    #[test]
    fn the_oldest_request_of_the_form_of_a_response_is_preferred() {
        let mut pending = PendingRequests::default();
        for kind in [
            RequestKind::ListTools,
            RequestKind::Sampling,
            RequestKind::ListPrompts,
        ] {
            pending.push(request(7, kind));
        }
        let mut take = |form| {
            let taken = pending.take("7", form);
            taken.map(|request| request.kind.method().to_owned())
        };
        let (sampling, other) = (ResultForm::Sampling, ResultForm::Other);
        assert_eq!(take(sampling).as_deref(), Some("sampling/createMessage"));
        assert_eq!(take(sampling).as_deref(), Some("tools/list"));
        assert_eq!(take(other).as_deref(), Some("prompts/list"));
        assert_eq!(take(other), None);
    }
}
