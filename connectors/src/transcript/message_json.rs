//! Canonical messages as JSON, with the metadata of the response that has no field of its own.

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Message;
use gristmill_schemas::message::encode::{UnknownFields, encode_message};
use gristmill_schemas::message::price::PriceTable;
use gristmill_schemas::message::request::{StopReason, TokenUsage};

/// The member of `metadata` with the reason why the model stopped.
pub(super) const STOP_REASON: &str = "stop_reason";

/// The member of `metadata` with the token counts, which are present even if they have no price.
pub(super) const TOKEN_USAGE: &str = "token_usage";

/// The metadata of a response that belongs to a message.
#[derive(Debug, Default)]
pub(super) struct ResponseMetadata<'r> {
    /// Why the model stopped.
    pub(super) stop_reason: Option<StopReason>,
    /// Tokens that the response consumed.
    pub(super) usage: Option<TokenUsage>,
    /// The other members of the response.
    pub(super) response: Option<Json<'r>>,
}

/// Encodes a canonical message. Its usage gets a cost if `prices` has its model; a cost that is
/// recorded in the message takes precedence.
pub(super) fn message_json(
    mut message: Message<'_>,
    response: ResponseMetadata<'_>,
    prices: &PriceTable,
) -> Json<'static> {
    let time = message.created_at;
    let metadata = &mut message.metadata;
    if let Some(usage) = response.usage {
        // Messages out of grains have a cost of zero, because costs aren't stored.
        let recorded = metadata.usage.take();
        let latency = recorded.as_ref().map_or(0, |usage| usage.latency_ms);
        let recorded = recorded.filter(|usage| !usage.cost_usd.is_zero());
        let computed = || {
            metadata
                .model
                .as_deref()
                .and_then(|model| prices.usage(model, &usage, Some(time), latency).ok())
        };
        metadata.usage = recorded.or_else(computed);
        metadata.unknown_fields.insert(TOKEN_USAGE, usage.to_json());
    }
    if let Some(reason) = response.stop_reason {
        metadata.unknown_fields.insert(STOP_REASON, reason.as_str());
    }
    if let Some(response) = response.response {
        metadata
            .unknown_fields
            .insert("response", response.into_owned());
    }
    encode_message(&message, UnknownFields::Keep).into_owned()
}
