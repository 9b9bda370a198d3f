//! Bare bodies of requests or responses: one per line, one per file, or an array of them.

use gristmill_schemas::json::{Json, Object};

use super::{NormalizedExchanges, new_exchange};
use crate::transcript::entries::parse_document;
use crate::wire::exchange::GUESSED_PROVIDER_MEMBER;
use crate::wire::standalone_body::detect_standalone_body;

pub(super) fn normalize(bytes: &[u8]) -> NormalizedExchanges {
    match parse_document(bytes).and_then(Result::ok) {
        Some(Json::Array(bodies)) => {
            NormalizedExchanges::from_entries(bodies.iter().map(convert_body))
        }
        Some(json) => NormalizedExchanges::from_entries([convert_body(&json)].into_iter()),
        None => NormalizedExchanges::from_lines(bytes, convert_body),
    }
}

/// Converts a body, whose provider is inferred from its form.
fn convert_body(json: &Json) -> Option<Object<'static>> {
    let (half, adapter) = detect_standalone_body(json)?;
    let (provider, endpoint) = adapter.key().split_once('/').unwrap_or((adapter.key(), ""));
    let mut exchange = new_exchange(provider, endpoint);
    exchange.insert(GUESSED_PROVIDER_MEMBER, true);
    exchange.insert(half.member(), json.clone().into_owned());
    Some(exchange)
}
