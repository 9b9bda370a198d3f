//! The immutable slots that describe where a message stands: request, agent, completion,
//! provenance, model, framework, host metadata (§3.3, §3.4, §3.8–3.12).

use std::collections::{BTreeMap, BTreeSet};

use crate::cmf::error::CmfError;
use crate::cmf::message::Message;
use crate::cmf::record::{Fields, record};
use crate::cmf::vocabulary::StopReason;
use crate::json::Object;

/// How many messages of history a conversation context may carry.
pub const HISTORY_LIMIT_MESSAGES: usize = 100;

record! {
    /// Environment, ids and tracing of a request (§3.3). Everybody may see it.
    #[derive(Eq, Default)]
    pub struct RequestExtension {
        /// Such as `production`.
        optional environment: Option<String>,
        /// Joins what belongs to one request.
        optional request_id: Option<String>,
        /// When the request was made, ISO 8601.
        optional timestamp: Option<String>,
        /// Distributed tracing: the trace.
        optional trace_id: Option<String>,
        /// Distributed tracing: the span.
        optional span_id: Option<String>,
    }
}

record! {
    /// Session, conversation and agent lineage (§3.4).
    #[derive(Default)]
    pub struct AgentExtension {
        /// What the person first asked for.
        optional input: Option<String>,
        /// The session.
        optional session_id: Option<String>,
        /// The dialogue or task within the session.
        optional conversation_id: Option<String>,
        /// The position in the conversation, from 0.
        optional turn: Option<i64>,
        /// The agent that made the message.
        optional agent_id: Option<String>,
        /// The agent that started that agent.
        optional parent_agent_id: Option<String>,
        /// A window onto the conversation.
        optional conversation: Option<ConversationContext>,
    }
}

record! {
    /// A window onto a conversation (§3.4): at most [`HISTORY_LIMIT_MESSAGES`] messages.
    #[derive(Default)]
    pub struct ConversationContext checked by bounded_history {
        /// The latest messages.
        default history: Vec<Message>,
        /// What came before, in short.
        optional summary: Option<String>,
        /// What it is about.
        default topics: Vec<String>,
    }
}

fn bounded_history(fields: &Fields) -> Result<(), CmfError> {
    fields.limit("history", HISTORY_LIMIT_MESSAGES)
}

record! {
    /// How a model came to its answer (§3.8).
    #[derive(Eq, Default)]
    pub struct CompletionExtension {
        /// Why it stopped.
        optional stop_reason: Option<StopReason>,
        /// What it used.
        optional tokens: Option<TokenUsage>,
        /// Which model it was.
        optional model: Option<String>,
        /// The wire format that it spoke, such as `chatml`, `harmony`, `gemini` or `anthropic`.
        optional raw_format: Option<String>,
        /// When, ISO 8601.
        optional created_at: Option<String>,
        /// How long it took, in milliseconds.
        optional latency_ms: Option<i64>,
    }
}

record! {
    /// Tokens used (§3.8).
    #[derive(Eq)]
    pub struct TokenUsage {
        /// Tokens read.
        required input_tokens: i64,
        /// Tokens written.
        required output_tokens: i64,
        /// Tokens in all, as the provider counts them.
        required total_tokens: i64,
    }
}

record! {
    /// Where a message comes from (§3.9).
    #[derive(Eq, Default)]
    pub struct ProvenanceExtension {
        /// Such as `user`, `agent:x` or `mcp-server:y`.
        optional source: Option<String>,
        /// The message.
        optional message_id: Option<String>,
        /// The message that it follows.
        optional parent_id: Option<String>,
    }
}

record! {
    /// Which model, apart from any completion (§3.10).
    #[derive(Eq, Default)]
    pub struct LlmExtension {
        /// The model.
        optional model_id: Option<String>,
        /// Its provider.
        optional provider: Option<String>,
        /// What it can do, such as `vision`.
        default capabilities: Vec<String>,
    }
}

record! {
    /// Which agentic framework, and where in it (§3.11).
    #[derive(Default)]
    pub struct FrameworkExtension {
        /// The framework.
        optional framework: Option<String>,
        /// Its version.
        optional framework_version: Option<String>,
        /// The node of its graph.
        optional node_id: Option<String>,
        /// Its graph.
        optional graph_id: Option<String>,
        /// Open metadata.
        default metadata: Object<'static>,
    }
}

record! {
    /// What the host knows of the entity (§3.12 of the final specification). Set before anybody
    /// looks, and immutable.
    #[derive(Eq, Default)]
    pub struct MetaExtension {
        /// Tags of the entity.
        default tags: BTreeSet<String>,
        /// The host's grouping, an opaque string.
        optional scope: Option<String>,
        /// Open metadata.
        default properties: BTreeMap<String, String>,
    }
}
