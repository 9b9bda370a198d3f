//! The registry of adapters: look-up by key, by exchange, and by the dialect of a body.
//!
//! | module | question |
//! |---|---|
//! | `endpoints` | which endpoints are supported, and how do they differ from their dialect? |
//! | `detect` | which dialect does a standalone body have? |
//!
//! An endpoint that uses a known dialect is one entry of a table in `endpoints`. A new dialect is a
//! module and an entry; [`super`] lists the steps.

mod detect;
mod endpoints;

use gristmill_schemas::json::{Json, Object};

pub use detect::{detect_request, detect_response};
use endpoints::{
    AZURE_CHAT, CHAT, MISTRAL_CHAT, OTHER_DIALECTS, RESPONSES, UNKNOWN_CHAT, UNKNOWN_RESPONSES,
};
pub use endpoints::{OPENAI_CHAT, OPENAI_RESPONSES};

use super::adapter::Adapter;
use super::exchange::{Exchange, ResponseBody};
use super::provider_detection::canonical_provider;
use super::{anthropic, bedrock_converse, gemini, ollama, openrouter};

/// Returns all adapters; keys are unique.
pub fn adapters() -> impl Iterator<Item = &'static dyn Adapter> {
    let openai: [&'static dyn Adapter; 6] = [
        &OPENAI_CHAT,
        &AZURE_CHAT,
        &MISTRAL_CHAT,
        &UNKNOWN_CHAT,
        &OPENAI_RESPONSES,
        &UNKNOWN_RESPONSES,
    ];
    let chat = CHAT.iter().map(|adapter| adapter as &'static dyn Adapter);
    let responses = RESPONSES
        .iter()
        .map(|adapter| adapter as &'static dyn Adapter);
    OTHER_DIALECTS
        .iter()
        .copied()
        .chain(openai)
        .chain(chat)
        .chain(responses)
}

/// Returns the adapter for the key `provider/endpoint`.
pub fn by_key(key: &str) -> Option<&'static dyn Adapter> {
    adapters().find(|adapter| adapter.key() == key)
}

/// Returns the adapter for an endpoint of a provider.
pub fn find(provider: &str, endpoint: &str) -> Option<&'static dyn Adapter> {
    let is_it = |key: &str| key.split_once('/') == Some((provider, endpoint));
    adapters().find(|adapter| is_it(adapter.key()))
}

/// Ends of endpoints without conversations whose requests look like those of a dialect.
const NON_CONVERSATIONAL_ENDPOINTS: [&str; 4] = ["embeddings", "embed", "speech", "moderations"];

/// Returns the adapter that reads this exchange: the endpoint's own if the bodies fit it, else the
/// first that they fit, preferring the same provider, then an endpoint of the same name. `None` if
/// no adapter fits: such an exchange is stored unparsed.
pub fn for_exchange(exchange: &Exchange) -> Option<&'static dyn Adapter> {
    let provider = canonical_provider(&exchange.provider);
    let own = find(provider, &exchange.endpoint);
    let endpoint = exchange.endpoint.trim_end_matches('/');
    if NON_CONVERSATIONAL_ENDPOINTS
        .iter()
        .any(|end| endpoint.ends_with(end))
    {
        return own;
    }
    own.filter(|adapter| fits(*adapter, exchange, true))
        .or_else(|| fitting_fallback(provider, exchange))
        .or(own)
}

/// Returns the first of [`fallbacks`] that fits, first among those of the same provider, then among
/// those of an endpoint of the same name, then among the others.
fn fitting_fallback(provider: &str, exchange: &Exchange) -> Option<&'static dyn Adapter> {
    let rank = |adapter: &&'static dyn Adapter| match adapter.key().split_once('/') {
        Some((of_adapter, _)) if of_adapter == provider => 0,
        Some((_, endpoint)) if endpoint == exchange.endpoint => 1,
        _ => 2,
    };
    // Rank by rank, so that no stream is folded for an adapter that can't be chosen.
    (0..3).find_map(|wanted| {
        fallbacks()
            .filter(|adapter| rank(adapter) == wanted)
            .find(|adapter| fits(*adapter, exchange, wanted == 1))
    })
}

/// Returns one generic adapter per dialect, in the order in which they are tried if the endpoint is
/// unknown.
fn fallbacks() -> impl Iterator<Item = &'static dyn Adapter> {
    let plain: [&'static dyn Adapter; 7] = [
        &anthropic::MESSAGES,
        &gemini::GENERATE,
        &bedrock_converse::CONVERSE,
        // Before Ollama: requests of both look alike, and more servers use OpenAI's dialect.
        &UNKNOWN_CHAT,
        &ollama::CHAT,
        &UNKNOWN_RESPONSES,
        &openrouter::CHAT,
    ];
    let azure: [&'static dyn Adapter; 2] = [&AZURE_CHAT, &anthropic::VERTEX];
    plain.into_iter().chain(azure)
}

/// Returns true if every body of the exchange is of the adapter's dialect. With `or_error` the
/// response to a request of the dialect may also be an error.
fn fits(adapter: &dyn Adapter, exchange: &Exchange, or_error: bool) -> bool {
    let request = exchange.request.map(|body| adapter.is_request(body));
    // Checked first because folding a stream is expensive.
    if request == Some(false) {
        return false;
    }
    let has_response = !matches!(exchange.response, ResponseBody::None);
    let response_fits = || match request == Some(true) && or_error {
        true => has_readable_response(adapter, exchange),
        false => exchange.is_answered(adapter),
    };
    (request.is_some() || has_response) && (!has_response || response_fits())
}

/// Returns true if a stream folded to more than the members that every fold has.
fn has_content(body: &Json) -> bool {
    let is_content =
        |value: &Json| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty());
    let mut members = body.as_object().into_iter().flat_map(Object::iter);
    members.any(|(_, value)| is_content(value))
}

/// Returns true if the response is an answer in the adapter's dialect, an error, or a stream
/// without an event. With an HTTP status of an error any JSON is one: gateways, proxies and
/// frameworks have forms of their own.
pub fn has_readable_response(adapter: &dyn Adapter, exchange: &Exchange) -> bool {
    let is_error = |body: &Json| adapter.errors().read(body).is_some();
    match &exchange.response {
        ResponseBody::None => true,
        ResponseBody::Json(body) => {
            exchange.has_failed() || adapter.is_response(body) || is_error(body)
        }
        ResponseBody::Stream(_) => exchange.folded(adapter).is_some_and(|fold| {
            let body = &fold.folded.body;
            fold.is_empty
                || fold.folded.error.is_some()
                || adapter.is_response(body)
                || is_error(body)
                || (exchange.has_failed() && has_content(body))
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_of_adapters_are_unique() {
        let keys: Vec<_> = adapters().map(|adapter| adapter.key()).collect();
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        assert!(
            keys.iter()
                .all(|key| by_key(key).is_some() && key.split('/').count() == 2)
        );
    }

    #[test]
    fn an_exchange_gets_the_adapter_that_its_bodies_fit() {
        let reads = |text: &str| {
            let json = Json::parse(text.as_bytes()).unwrap();
            for_exchange(&Exchange::from_json(&json).unwrap()).map(|adapter| adapter.key())
        };
        let chat = r#""request":{"messages":[{"role":"user","content":"hi"}]},"response":{"choices":[{"message":{"role":"assistant","content":"x"}}]}"#;
        assert_eq!(
            reads(&format!(
                r#"{{"provider":"groq","endpoint":"chat",{chat}}}"#
            )),
            Some("groq/chat")
        );
        assert_eq!(
            reads(&format!(r#"{{"provider":"new","endpoint":"chat",{chat}}}"#)),
            Some("unknown-compat/chat")
        );
        assert_eq!(
            reads(&format!(
                r#"{{"provider":"azure","endpoint":"responses",{chat}}}"#
            )),
            Some("azure/chat")
        );
        let nova = r#""request":{"messages":[{"role":"user","content":[{"text":"hi"}]}]},"response":{"output":{"message":{}},"stopReason":"end_turn"}"#;
        assert_eq!(
            reads(&format!(
                r#"{{"provider":"bedrock","endpoint":"invoke",{nova}}}"#
            )),
            Some("bedrock/converse")
        );
        assert_eq!(
            reads(
                r#"{"provider":"openai","endpoint":"responses","request":{"model":"m","input":"hi"}}"#
            ),
            Some("openai/responses")
        );
        for endpoint in [
            "v1/embeddings",
            "v1/audio/speech",
            "v1/moderations/",
            "api/embed",
        ] {
            let request = r#""request":{"model":"m","input":"hi"}"#;
            assert_eq!(
                reads(&format!(
                    r#"{{"provider":"openai","endpoint":"{endpoint}",{request}}}"#
                )),
                None
            );
        }
        assert_eq!(
            reads(
                r#"{"provider":"cohere","endpoint":"embed","request":{"texts":[]},"response":{"embeddings":[]}}"#
            ),
            None
        );
    }
}
