//! Extensions of a message: typed slots, each with its own mutability (§3).
//!
//! | module | slots |
//! |---|---|
//! | `context` | the immutable ones: request, agent, completion, provenance, model, framework, host |
//! | `security` | labels, identity, access profiles, data policies |
//! | `http` | HTTP headers |
//! | `mcp` | the tool, resource or prompt template |
//! | `delegation` | the delegation chain |
//!
//! [`super::tier`] has the rules of change, [`super::access`] those of visibility.

mod context;
mod delegation;
mod http;
mod mcp;
mod security;

pub use context::{
    AgentExtension, CmfTokenUsage, CompletionExtension, ConversationContext, FrameworkExtension,
    HISTORY_LIMIT_MESSAGES, LlmExtension, MetaExtension, ProvenanceExtension, RequestExtension,
};
pub use delegation::{DelegationBreak, DelegationExtension, DelegationHop};
pub(super) use http::same_name;
pub use http::{Headers, HttpExtension};
pub use mcp::{McpEntity, McpExtension, PromptMetadata, ResourceMetadata, ToolMetadata};
pub use security::{
    DataPolicy, ObjectSecurityProfile, RetentionPolicy, SecurityExtension, Subject,
};

use super::json_record::record;
use crate::json::Object;

record! {
    /// The slots of a message's extensions, all of them optional.
    #[derive(Default)]
    pub struct Extensions {
        /// Environment, ids and tracing of the request.
        optional request: Option<RequestExtension>,
        /// Session, conversation and agent lineage.
        optional agent: Option<AgentExtension>,
        /// HTTP headers.
        optional http: Option<HttpExtension>,
        /// Labels, identity, profiles and data policies.
        optional security: Option<SecurityExtension>,
        /// The delegation chain.
        optional delegation: Option<DelegationExtension>,
        /// The tool, resource or prompt as described by its server.
        optional mcp: Option<McpExtension>,
        /// How the model generated the answer.
        optional completion: Option<CompletionExtension>,
        /// The origin of the message.
        optional provenance: Option<ProvenanceExtension>,
        /// The model.
        optional llm: Option<LlmExtension>,
        /// The agent framework.
        optional framework: Option<FrameworkExtension>,
        /// Metadata of the host about the entity.
        optional meta: Option<MetaExtension>,
        /// Arbitrary data that all consumers may change.
        optional custom: Option<Object<'static>>,
        /// Slots that are unknown in this version: preserved, hidden from all consumers, immutable.
        rest unknown as "": Object<'static>,
    }
}
