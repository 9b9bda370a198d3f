//! What is known around a message: typed slots, each with its own rule of change (§3).
//!
//! The rules themselves are in [`super::tier`], who may see what in [`super::access`].

mod context;
mod delegation;
mod http;
mod mcp;
mod security;

pub use context::{
    AgentExtension, CompletionExtension, ConversationContext, FrameworkExtension,
    HISTORY_LIMIT_MESSAGES, LlmExtension, MetaExtension, ProvenanceExtension, RequestExtension,
    TokenUsage,
};
pub use delegation::{DelegationBreak, DelegationExtension, DelegationHop};
pub(super) use http::same_name;
pub use http::{Headers, HttpExtension};
pub use mcp::{McpEntity, McpExtension, PromptMetadata, ResourceMetadata, ToolMetadata};
pub use security::{
    DataPolicy, ObjectSecurityProfile, RetentionPolicy, SecurityExtension, Subject,
};

use super::record::record;
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
        /// On whose behalf, hop by hop.
        optional delegation: Option<DelegationExtension>,
        /// The tool, resource or prompt as its server describes it.
        optional mcp: Option<McpExtension>,
        /// How a model came to its answer.
        optional completion: Option<CompletionExtension>,
        /// Where the message comes from.
        optional provenance: Option<ProvenanceExtension>,
        /// Which model.
        optional llm: Option<LlmExtension>,
        /// Which agentic framework.
        optional framework: Option<FrameworkExtension>,
        /// What the host knows of the entity.
        optional meta: Option<MetaExtension>,
        /// Anything, changed by anyone.
        optional custom: Option<Object<'static>>,
        /// Slots that this version doesn't know: kept, shown to nobody, changed by nobody.
        rest unknown as "": Object<'static>,
    }
}
