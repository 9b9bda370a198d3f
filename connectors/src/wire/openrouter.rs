//! OpenRouter: the OpenAI dialect and what an aggregator adds to it.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::capability::Capabilities;
use gristmill_schemas::message::request::Request;

use super::adapter::SendHints;
use super::error::{ErrorClass, ErrorFormat, ErrorReport};
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

/// What a model can do depends on the upstream; without its catalog entry little is promised.
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

/// Families of upstream models whose caches want explicit markers.
const EXPLICIT_CACHES: [&str; 3] = ["anthropic/", "google/", "qwen/"];

/// OpenAI's form, but codes are HTTP statuses, the upstream's where it is known.
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

/// Fallbacks to other upstreams are allowed; instructions are marked for caches that want it.
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

/// Splits the instructions into those that stay and those that change, and marks the first that
/// there is.
fn mark_instructions(body: &mut Object, request: &Request) {
    let Some(Json::Array(messages)) = body.get_mut("messages") else {
        return;
    };
    let first = messages.first_mut().and_then(Json::as_object_mut);
    let Some(first) =
        first.filter(|first| first.get("role").and_then(Json::as_str) == Some("system"))
    else {
        return;
    };
    let stable = request.stable_system_text();
    let volatile = request
        .system_prompt_volatile
        .as_deref()
        .unwrap_or_default()
        .to_owned();
    let mut parts: Vec<Object> = [stable, volatile]
        .into_iter()
        .filter(|text| !text.is_empty())
        .map(|text| {
            [("type", Json::from("text")), ("text", Json::from(text))]
                .into_iter()
                .collect()
        })
        .collect();
    if let Some(marked) = parts.first_mut() {
        let marker: Object = [("type", "ephemeral")].into_iter().collect();
        marked.insert("cache_control", marker);
        first.insert(
            "content",
            parts.into_iter().map(Json::Object).collect::<Vec<_>>(),
        );
    }
}

/// True if a catalog entry has a price for reading the model's cache: such a model's instructions
/// are worth marking.
pub fn cache_read_priced(entry: &Json) -> bool {
    entry
        .get("pricing")
        .and_then(|pricing| pricing.get("input_cache_read"))
        .is_some_and(|price| !price.is_null())
}

/// The message of an error body for people: the aggregator's words, and whose fault it was and what
/// the upstream said, as far as they are told (§9.4). Empty if nothing is.
pub fn error_message(body: &Json) -> String {
    let error = body.get("error").unwrap_or(&Json::Null);
    let message = error.get("message").and_then(told).unwrap_or_default();
    let metadata = error.get("metadata").unwrap_or(&Json::Null);
    let provider = metadata.get("provider_name").and_then(told);
    let upstream = metadata.get("raw").and_then(upstream);
    let beside = match (provider, upstream) {
        (Some(provider), Some(upstream)) => format!("({provider}: {upstream})"),
        (Some(provider), None) => format!("(via {provider})"),
        (None, Some(upstream)) => format!("(upstream: {upstream})"),
        (None, None) => return message.into_owned(),
    };
    if message.is_empty() {
        beside
    } else {
        format!("{message} {beside}")
    }
}

/// Where upstreams put their words, and the id under which they know the request.
const MESSAGE_KEYS: [&str; 4] = ["message", "msg", "detail", "description"];
const REQUEST_ID_KEYS: [&str; 4] = ["request_id", "requestId", "x-request-id", "id"];

/// A value as text, if it says anything.
fn told<'j>(json: &'j Json) -> Option<Cow<'j, str>> {
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

/// What the upstream said, and under which id: from an object, JSON text of one, or anything else,
/// which speaks for itself.
fn upstream(raw: &Json) -> Option<String> {
    let Json::String(text) = raw else {
        return match raw {
            Json::Object(_) => joined(first_told(raw, MESSAGE_KEYS), raw),
            Json::Null => None,
            other => Some(other.to_string()),
        };
    };
    let said = Some(Cow::Borrowed(&**text)).filter(|text| !text.trim().is_empty());
    match Json::parse(text.as_bytes()) {
        Ok(parsed @ Json::Object(_)) => joined(first_told(&parsed, MESSAGE_KEYS).or(said), &parsed),
        _ => said.map(Cow::into_owned),
    }
}

fn joined(message: Option<Cow<'_, str>>, body: &Json) -> Option<String> {
    let id = first_told(body, REQUEST_ID_KEYS).map(|id| format!("[req: {id}]"));
    match (message, id) {
        (Some(message), Some(id)) => Some(format!("{message} {id}")),
        (message, id) => message.map(Cow::into_owned).or(id),
    }
}

/// The first of the `keys` that says anything: under `error`, then beside it.
fn first_told<'j>(body: &'j Json, keys: [&str; 4]) -> Option<Cow<'j, str>> {
    let places = [body.get("error"), Some(body)].into_iter().flatten();
    places
        .flat_map(|place| keys.iter().filter_map(|key| place.get(key)))
        .find_map(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_errors_are_told_in_every_form_that_they_come_in() {
        for (metadata, told) in [
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
            assert_eq!(error_message(&Json::parse(text.as_bytes()).unwrap()), told);
        }
    }

    #[test]
    fn an_aggregator_without_words_of_its_own_tells_whose_fault_it_was() {
        for (body, told) in [
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
                told,
                "{body}"
            );
        }
    }
}
