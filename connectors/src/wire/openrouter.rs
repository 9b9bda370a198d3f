//! OpenRouter: OpenAI's chat dialect with the extensions of an aggregator of providers.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::capability::Capabilities;
use gristmill_schemas::message::request::Request;

use super::adapter::SendHints;
use super::error::{ErrorClass, ErrorFormat, ErrorReport};
use super::json_access::object;
use super::openai_chat::{AggregatorExtras, ChatDialect, OpenAiChat, ReasoningPlacement, errors};
use super::response_defaults::ResponseDefaults;

/// OpenRouter's chat endpoint.
pub static CHAT: OpenAiChat = OpenAiChat::new(ChatDialect {
    key: "openrouter/chat",
    reasoning: ReasoningPlacement::Details,
    max_tokens: "max_completion_tokens",
    numbered_calls: true,
    short_call_ids: false,
    response_defaults: ResponseDefaults::new(
        r#"{"system_fingerprint":null,"choices":[{"logprobs":null}],"usage":{"is_byok":false,"prompt_tokens_details":{"cache_write_tokens":0,
            "audio_tokens":0,"video_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"image_tokens":0,"audio_tokens":0}}}"#,
    ),
    extras: Some(&EXTRAS),
});

/// Capabilities depend on the upstream; without the catalog entry of a model they are conservative.
static EXTRAS: AggregatorExtras = AggregatorExtras {
    capabilities: Capabilities {
        supports_images: false,
        max_context_tokens: 8_192,
        max_output_tokens: 4_096,
        accepted_image_media_types: &[],
        ..Capabilities::UNDECLARED
    },
    errors: &OpenRouterErrors,
    send_hints,
};

/// Prefixes of upstream models whose caches require explicit markers.
const EXPLICIT_CACHES: [&str; 3] = ["anthropic/", "google/", "qwen/"];

/// OpenAI's error format; codes are HTTP statuses, of the upstream if it is known.
struct OpenRouterErrors;

impl ErrorFormat for OpenRouterErrors {
    fn read<'j>(&self, body: &'j Json<'j>) -> Option<ErrorReport<'j>> {
        errors::OpenAiErrors.read(body)
    }

    fn write<'m>(&self, report: &'m ErrorReport<'m>) -> Json<'m> {
        errors::OpenAiErrors.write(report)
    }

    fn class(&self, report: &ErrorReport) -> Option<ErrorClass> {
        let status = report
            .code
            .as_ref()
            .and_then(Json::as_u64)
            .and_then(|code| u16::try_from(code).ok());
        errors::OpenAiErrors
            .class(report)
            .or_else(|| status.map(ErrorClass::of_status))
    }
}

/// Allows fallbacks to other upstreams, and adds a cache marker to the instructions for models
/// whose caches require one.
fn send_hints(body: &mut Json, request: &Request, hints: &SendHints) {
    let Json::Object(body) = body else { return };
    let provider: Object = [("allow_fallbacks", true)].into_iter().collect();
    body.insert("provider", provider);
    let model = body.get("model").and_then(Json::as_str).unwrap_or_default();
    let explicit = EXPLICIT_CACHES
        .iter()
        .any(|family| model.starts_with(family));
    if explicit && hints.cache_read_priced {
        mark_instructions(body, request);
    }
}

/// Splits the system message into a stable and a volatile part, and adds a cache marker to the
/// first part.
fn mark_instructions(body: &mut Object, request: &Request) {
    let Some(Json::Array(messages)) = body.get_mut("messages") else {
        return;
    };
    let first = messages.first_mut().and_then(Json::as_object_mut);
    let is_system =
        |message: &&mut Object| message.get("role").and_then(Json::as_str) == Some("system");
    let Some(system) = first.filter(is_system) else {
        return;
    };
    let volatile = request.system_prompt_volatile.as_deref();
    let volatile = volatile.unwrap_or_default().to_owned();
    let texts = [request.stable_system_text(), volatile].into_iter();
    let mut parts: Vec<Object> = texts
        .filter(|text| !text.is_empty())
        .map(text_part)
        .collect();
    if let Some(first) = parts.first_mut() {
        first.insert("cache_control", object("type", "ephemeral"));
        let parts = parts.into_iter().map(Json::Object);
        system.insert("content", parts.collect::<Vec<_>>());
    }
}

fn text_part(text: String) -> Object<'static> {
    let mut part = object("type", "text");
    part.insert("text", text);
    part
}

/// Returns true if a catalog entry has a price for cache reads: then cache markers save money.
pub fn cache_read_priced(entry: &Json) -> bool {
    entry
        .get("pricing")
        .and_then(|pricing| pricing.get("input_cache_read"))
        .is_some_and(|price| !price.is_null())
}

/// Returns the message of an error body for people: the message of the aggregator, followed by the
/// name and message of the upstream, if they are known (§9.4). Empty if the body has none of them.
pub fn error_message(body: &Json) -> String {
    let error = body.get("error").unwrap_or(&Json::Null);
    let message = error.get("message").and_then(non_empty).unwrap_or_default();
    let metadata = error.get("metadata").unwrap_or(&Json::Null);
    let provider = metadata.get("provider_name").and_then(non_empty);
    let upstream = metadata.get("raw").and_then(upstream_message);
    let details = match (provider, upstream) {
        (Some(provider), Some(upstream)) => format!("({provider}: {upstream})"),
        (Some(provider), None) => format!("(via {provider})"),
        (None, Some(upstream)) => format!("(upstream: {upstream})"),
        (None, None) => return message.into_owned(),
    };
    if message.is_empty() {
        details
    } else {
        format!("{message} {details}")
    }
}

/// Members with the message of an upstream, and with its id of the request.
const MESSAGE_KEYS: [&str; 4] = ["message", "msg", "detail", "description"];
const REQUEST_ID_KEYS: [&str; 4] = ["request_id", "requestId", "x-request-id", "id"];

/// Returns a value as text; `None` for values without content, such as empty strings and 0.
fn non_empty<'j>(json: &'j Json) -> Option<Cow<'j, str>> {
    match json {
        Json::String(text) => Some(Cow::Borrowed(&**text)).filter(|text| !text.is_empty()),
        Json::Null | Json::Bool(false) => None,
        Json::Number(number) => {
            Some(Cow::Borrowed(number.as_str())).filter(|_| number.as_f64() != 0.0)
        }
        Json::Array(items) if items.is_empty() => None,
        Json::Object(members) if members.is_empty() => None,
        other => Some(Cow::Owned(other.to_string())),
    }
}

/// Returns the message and request id of an upstream error, which is an object, the JSON text of
/// one, or any other value, which is returned as text.
fn upstream_message(raw: &Json) -> Option<String> {
    let text = match raw {
        Json::Null => return None,
        Json::Object(_) => return with_request_id(first_non_empty(raw, MESSAGE_KEYS), raw),
        Json::String(text) => text,
        other => return Some(other.to_string()),
    };
    let whole = Some(Cow::Borrowed(&**text)).filter(|text| !text.trim().is_empty());
    match Json::parse(text.as_bytes()) {
        Ok(parsed @ Json::Object(_)) => {
            let message = first_non_empty(&parsed, MESSAGE_KEYS);
            with_request_id(message.or(whole), &parsed)
        }
        _ => whole.map(Cow::into_owned),
    }
}

/// Appends the request id in `body` to a message.
fn with_request_id(message: Option<Cow<'_, str>>, body: &Json) -> Option<String> {
    let id = first_non_empty(body, REQUEST_ID_KEYS).map(|id| format!("[req: {id}]"));
    match (message, id) {
        (Some(message), Some(id)) => Some(format!("{message} {id}")),
        (message, id) => message.map(Cow::into_owned).or(id),
    }
}

/// Returns the first non-empty member among `keys`: first in `error`, then in the body.
fn first_non_empty<'j>(body: &'j Json, keys: [&str; 4]) -> Option<Cow<'j, str>> {
    let objects = [body.get("error"), Some(body)].into_iter().flatten();
    objects
        .flat_map(|object| keys.iter().filter_map(|key| object.get(key)))
        .find_map(non_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_errors_of_all_formats_are_reported() {
        for (metadata, expected) in [
            (
                r#"{"provider_name":"P","raw":{"error":{"message":"m","request_id":"r"}}}"#,
                "base (P: m [req: r])",
            ),
            (
                r#"{"raw":"{\"detail\":\"d\",\"id\":\"i\"}"}"#,
                "base (upstream: d [req: i])",
            ),
            (r#"{"provider_name":"P","raw":"plain"}"#, "base (P: plain)"),
            (r#"{"provider_name":"P","raw":"  "}"#, "base (via P)"),
            (r#"{"raw":{"x":1}}"#, "base"),
            (r#"{"raw":"{\"x\":1}"}"#, r#"base (upstream: {"x":1})"#),
            (
                r#"{"raw":{"error":"why","id":"i"}}"#,
                "base (upstream: [req: i])",
            ),
            (
                r#"{"raw":{"error":{"detail":7},"msg":"m"}}"#,
                "base (upstream: 7)",
            ),
            (r#"{"provider_name":"P","raw":503}"#, "base (P: 503)"),
            (
                r#"{"provider_name":"P","raw":{"error":{"message":"","msg":"m","request_id":0}}}"#,
                "base (P: m)",
            ),
        ] {
            let text = format!(r#"{{"error":{{"message":"base","metadata":{metadata}}}}}"#);
            assert_eq!(
                error_message(&Json::parse(text.as_bytes()).unwrap()),
                expected
            );
        }
    }

    #[test]
    fn an_error_without_a_message_reports_the_upstream() {
        for (body, expected) in [
            (r#"{"error":{"metadata":{"provider_name":"P"}}}"#, "(via P)"),
            (
                r#"{"error":{"message":null,"metadata":{"raw":"plain"}}}"#,
                "(upstream: plain)",
            ),
            (r#"{"error":{"message":"only"}}"#, "only"),
            (r#"{"error":"text"}"#, ""),
            ("{}", ""),
        ] {
            assert_eq!(
                error_message(&Json::parse(body.as_bytes()).unwrap()),
                expected,
                "{body}"
            );
        }
    }
}
