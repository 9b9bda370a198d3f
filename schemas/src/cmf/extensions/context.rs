//! The immutable slots for the context of a message: request, agent, completion, provenance, model,
//! framework, host metadata (§3.3, §3.4, §3.8–3.12).

use std::collections::{BTreeMap, BTreeSet};

use crate::cmf::error::CmfError;
use crate::cmf::json_record::{ObjectReader, record};
use crate::cmf::message::CmfMessage;
use crate::cmf::vocabulary::CmfStopReason;
use crate::json::Object;

/// The maximum number of history messages in a conversation context.
pub const HISTORY_LIMIT_MESSAGES: usize = 100;

record! {
    /// Environment, ids and tracing of a request (§3.3). Visible to all consumers.
    #[derive(Eq, Default)]
    pub struct RequestExtension {
        /// The environment, such as `production`.
        optional environment: Option<String>,
        /// The request id.
        optional request_id: Option<String>,
        /// The time of the request, ISO 8601.
        optional timestamp: Option<String>,
        /// The trace id of distributed tracing.
        optional trace_id: Option<String>,
        /// The span id of distributed tracing.
        optional span_id: Option<String>,
    }
}

record! {
    /// Session, conversation and agent lineage (§3.4).
    #[derive(Default)]
    pub struct AgentExtension {
        /// The user's original input.
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
        /// An excerpt of the conversation.
        optional conversation: Option<ConversationContext>,
    }
}

record! {
    /// An excerpt of a conversation (§3.4): at most [`HISTORY_LIMIT_MESSAGES`] messages.
    #[derive(Default)]
    pub struct ConversationContext checked by bounded_history {
        /// The latest messages.
        default history: Vec<CmfMessage>,
        /// A summary of earlier messages.
        optional summary: Option<String>,
        /// The topics.
        default topics: Vec<String>,
    }
}

fn bounded_history(fields: &ObjectReader) -> Result<(), CmfError> {
    fields.limit("history", HISTORY_LIMIT_MESSAGES)
}

record! {
    /// How the model generated the answer (§3.8).
    #[derive(Eq, Default)]
    pub struct CompletionExtension {
        /// The reason for the end of the answer.
        optional stop_reason: Option<CmfStopReason>,
        /// The tokens used.
        optional tokens: Option<CmfTokenUsage>,
        /// The model.
        optional model: Option<String>,
        /// The wire format, such as `chatml`, `harmony`, `gemini` or `anthropic`.
        optional raw_format: Option<String>,
        /// The time of the answer, ISO 8601.
        optional created_at: Option<String>,
        /// The latency in milliseconds.
        optional latency_ms: Option<i64>,
    }
}

record! {
    /// Tokens used (§3.8).
    #[derive(Eq)]
    pub struct CmfTokenUsage {
        /// Input tokens.
        required input_tokens: i64,
        /// Output tokens.
        required output_tokens: i64,
        /// Total tokens as reported by the provider.
        required total_tokens: i64,
    }
}

record! {
    /// The origin of a message (§3.9).
    #[derive(Eq, Default)]
    pub struct ProvenanceExtension {
        /// The source, such as `user`, `agent:x` or `mcp-server:y`.
        optional source: Option<String>,
        /// The message.
        optional message_id: Option<String>,
        /// The message that it follows.
        optional parent_id: Option<String>,
    }
}

record! {
    /// The model, independent of a completion (§3.10).
    #[derive(Eq, Default)]
    pub struct LlmExtension {
        /// The model.
        optional model_id: Option<String>,
        /// Its provider.
        optional provider: Option<String>,
        /// The capabilities of the model, such as `vision`.
        default capabilities: Vec<String>,
    }
}

record! {
    /// The agent framework and the position in its graph (§3.11).
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
    /// Metadata of the host about the entity (§3.12 of the final specification). Set before any
    /// consumer sees the message, and immutable.
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
