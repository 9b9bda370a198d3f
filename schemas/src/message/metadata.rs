//! The metadata of a message (§4.3).

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use rust_decimal::Decimal;

use super::block::owned;
use crate::json::Object;

/// The metadata of a message. All fields are optional.
///
/// Equality and hash ignore `provider_raw`.
#[derive(Debug, Clone, Default)]
pub struct MessageMetadata<'a> {
    /// The canonical model id, `provider:name`.
    pub model: Option<Cow<'a, str>>,
    /// The key of the provider.
    pub provider: Option<Cow<'a, str>>,
    /// The reason for the choice of the model (assistant messages).
    pub routing: Option<RoutingDecisionRecord<'a>>,
    /// Tokens, cost and latency (assistant messages).
    pub usage: Option<Usage<'a>>,
    /// The call that this message answers (tool messages).
    pub parent_tool_use_id: Option<Cow<'a, str>>,
    /// The status of the message.
    pub status: MessageStatus,
    /// Data that only the adapter that wrote it interprets (§6.5).
    pub provider_raw: Option<Object<'a>>,
    /// The user, `usr_<ulid>`.
    pub user_id: Option<Cow<'a, str>>,
    /// The team, `team_<ulid>`.
    pub team_id: Option<Cow<'a, str>>,
    /// Fields that are unknown in this version, unchanged.
    pub unknown_fields: Object<'a>,
}

/// The status of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MessageStatus {
    /// The message is complete.
    #[default]
    Complete,
    /// The message is still streaming; it is not validated.
    Partial,
    /// The user cancelled the message.
    Cancelled,
    /// Generation failed.
    Error,
}

impl MessageStatus {
    const ALL: [MessageStatus; 4] = [
        MessageStatus::Complete,
        MessageStatus::Partial,
        MessageStatus::Cancelled,
        MessageStatus::Error,
    ];

    /// Returns the name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            MessageStatus::Complete => "complete",
            MessageStatus::Partial => "partial",
            MessageStatus::Cancelled => "cancelled",
            MessageStatus::Error => "error",
        }
    }

    /// Returns the status with the given name.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// The reason for the choice of a model, as stored with the message.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutingDecisionRecord<'a> {
    /// The kind of reason.
    pub mode: RoutingMode,
    /// The chosen model, the same as the metadata's `model`.
    pub chosen_model: Cow<'a, str>,
    /// The reason as text.
    pub reason: Cow<'a, str>,
    /// The rule that matched.
    pub rule_name: Option<Cow<'a, str>>,
    /// The confidence of the pattern store, from 0 to 1.
    pub confidence: Option<f64>,
    /// The models that were considered and not chosen.
    pub alternatives_considered: Vec<Cow<'a, str>>,
}

/// The kind of reason, a coarse projection of the routing chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RoutingMode {
    /// The message names the model.
    Override,
    /// The model was chosen for the session.
    Manual,
    /// A rule matched.
    Rule,
    /// The pattern store recommended it.
    Pattern,
    /// A planner delegated to it.
    Delegate,
    /// No other reason applied; includes the workspace default and the global default.
    Default,
}

impl RoutingMode {
    const ALL: [RoutingMode; 6] = [
        RoutingMode::Override,
        RoutingMode::Manual,
        RoutingMode::Rule,
        RoutingMode::Pattern,
        RoutingMode::Delegate,
        RoutingMode::Default,
    ];

    /// Returns the name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            RoutingMode::Override => "override",
            RoutingMode::Manual => "manual",
            RoutingMode::Rule => "rule",
            RoutingMode::Pattern => "pattern",
            RoutingMode::Delegate => "delegate",
            RoutingMode::Default => "default",
        }
    }

    /// Returns the mode with the given name.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }

    /// Returns the mode for a policy of the routing chain (§4.3); case-insensitive.
    pub fn from_chain_policy(policy: &str) -> Option<Self> {
        Some(match policy.to_ascii_lowercase().as_str() {
            "per_message_override" => RoutingMode::Override,
            "manual_sticky" => RoutingMode::Manual,
            "rule" => RoutingMode::Rule,
            "pattern" => RoutingMode::Pattern,
            "delegate_request" => RoutingMode::Delegate,
            "workspace_default" | "global_default" => RoutingMode::Default,
            _ => return None,
        })
    }
}

/// Tokens, cost and latency of a message. The three input counts are disjoint and sum to the
/// prompt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Usage<'a> {
    /// Input tokens that were neither read from nor written to a cache.
    pub input_tokens: u64,
    /// Output tokens, including thinking.
    pub output_tokens: u64,
    /// Input tokens read from a cache.
    pub cached_input_tokens: u64,
    /// Input tokens written to a cache.
    pub cache_creation_input_tokens: u64,
    /// The cost in US dollars by the price table, with its scale.
    pub cost_usd: Decimal,
    /// The version of the price table.
    pub pricing_version: Cow<'a, str>,
    /// The time from the request to the last byte, in milliseconds.
    pub latency_ms: u64,
}

impl MessageMetadata<'_> {
    /// Returns the metadata with all its text owned.
    pub fn into_owned(self) -> MessageMetadata<'static> {
        MessageMetadata {
            model: self.model.map(owned),
            provider: self.provider.map(owned),
            routing: self.routing.map(RoutingDecisionRecord::into_owned),
            usage: self.usage.map(Usage::into_owned),
            parent_tool_use_id: self.parent_tool_use_id.map(owned),
            status: self.status,
            provider_raw: self.provider_raw.map(Object::into_owned),
            user_id: self.user_id.map(owned),
            team_id: self.team_id.map(owned),
            unknown_fields: self.unknown_fields.into_owned(),
        }
    }
}

impl PartialEq for MessageMetadata<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.model == other.model
            && self.provider == other.provider
            && self.routing == other.routing
            && self.usage == other.usage
            && self.parent_tool_use_id == other.parent_tool_use_id
            && self.status == other.status
            && self.user_id == other.user_id
            && self.team_id == other.team_id
            && self.unknown_fields == other.unknown_fields
    }
}

impl Hash for MessageMetadata<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.model.hash(state);
        self.provider.hash(state);
        self.routing.hash(state);
        self.usage.hash(state);
        self.parent_tool_use_id.hash(state);
        self.status.hash(state);
        self.user_id.hash(state);
        self.team_id.hash(state);
    }
}

impl RoutingDecisionRecord<'_> {
    /// Returns the record with all its text owned.
    pub fn into_owned(self) -> RoutingDecisionRecord<'static> {
        RoutingDecisionRecord {
            mode: self.mode,
            chosen_model: owned(self.chosen_model),
            reason: owned(self.reason),
            rule_name: self.rule_name.map(owned),
            confidence: self.confidence,
            alternatives_considered: self
                .alternatives_considered
                .into_iter()
                .map(owned)
                .collect(),
        }
    }
}

impl Hash for RoutingDecisionRecord<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.mode.hash(state);
        self.chosen_model.hash(state);
        self.reason.hash(state);
        self.rule_name.hash(state);
        // 0.0 and -0.0 are equal, so their hashes must be equal.
        self.confidence
            .map(|confidence| (confidence + 0.0).to_bits())
            .hash(state);
        self.alternatives_considered.hash(state);
    }
}

impl Usage<'_> {
    /// Returns the usage with its text owned.
    pub fn into_owned(self) -> Usage<'static> {
        Usage {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cached_input_tokens: self.cached_input_tokens,
            cache_creation_input_tokens: self.cache_creation_input_tokens,
            cost_usd: self.cost_usd,
            pricing_version: owned(self.pricing_version),
            latency_ms: self.latency_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use super::*;
    use crate::json::Json;

    fn hash(metadata: &MessageMetadata) -> u64 {
        let mut hasher = DefaultHasher::new();
        metadata.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn equality_and_hash_ignore_provider_raw() {
        let plain = MessageMetadata {
            model: Some("m".into()),
            ..Default::default()
        };
        let raw = [("x", Json::from(1u64))].into_iter().collect();
        let stuffed = MessageMetadata {
            provider_raw: Some(raw),
            ..plain.clone()
        };
        assert_eq!(plain, stuffed);
        assert_eq!(hash(&plain), hash(&stuffed));
        let other = MessageMetadata {
            user_id: Some("usr_a".into()),
            ..plain.clone()
        };
        assert_ne!(plain, other);
        assert_ne!(hash(&plain), hash(&other));
    }

    #[test]
    fn names_round_trip() {
        for mode in RoutingMode::ALL {
            assert_eq!(RoutingMode::from_text(mode.as_str()), Some(mode));
        }
        for status in MessageStatus::ALL {
            assert_eq!(MessageStatus::from_text(status.as_str()), Some(status));
        }
        assert_eq!(
            RoutingMode::from_chain_policy("MANUAL_STICKY"),
            Some(RoutingMode::Manual)
        );
        assert_eq!(RoutingMode::from_chain_policy("deferred"), None);
    }
}
