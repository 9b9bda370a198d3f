//! OpenRouter: the OpenAI dialect and what an aggregator adds to it.

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::capability::Capabilities;
use gristmill_schemas::message::request::Request;

use super::adapter::SendHints;
use super::error::{ErrorClass, ErrorForm, ErrorReport};
use super::openai_chat::{Dialect, Extras, OpenAiChat, Reasoning, errors};
use super::usual::Usual;

/// OpenRouter's chat endpoint.
pub static CHAT: OpenAiChat = OpenAiChat::new(Dialect {
    key: "openrouter/chat",
    reasoning: Reasoning::Details,
    max_tokens: "max_completion_tokens",
    numbered_calls: true,
    short_call_ids: false,
    usual: Usual::new(
        r#"{"system_fingerprint":null,"choices":[{"logprobs":null}],"usage":{"is_byok":false,"prompt_tokens_details":{"cache_write_tokens":0,
            "audio_tokens":0,"video_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"image_tokens":0,"audio_tokens":0}}}"#,
    ),
    extras: Some(&EXTRAS),
});

/// What a model can do depends on the upstream; without its catalog entry little is promised.
static EXTRAS: Extras = Extras {
    capabilities: Capabilities {
        supports_images: false,
        max_context_tokens: 8_192,
        max_output_tokens: 4_096,
        accepted_image_media_types: &[],
        ..Capabilities::UNDECLARED
    },
    errors: &Errors,
    send_hints,
};

/// Families of upstream models whose caches want explicit markers.
const EXPLICIT_CACHES: [&str; 3] = ["anthropic/", "google/", "qwen/"];

/// OpenAI's form, but codes are HTTP statuses, the upstream's where it is known.
struct Errors;

impl ErrorForm for Errors {
    fn read<'j>(&self, body: &'j Json<'j>) -> Option<ErrorReport<'j>> {
        errors::Errors.read(body)
    }

    fn write<'m>(&self, report: &'m ErrorReport<'m>) -> Json<'m> {
        errors::Errors.write(report)
    }

    fn class(&self, report: &ErrorReport) -> Option<ErrorClass> {
        let status = report.code.as_ref().and_then(Json::as_u64).and_then(|code| u16::try_from(code).ok());
        errors::Errors.class(report).or_else(|| status.map(ErrorClass::of_status))
    }
}

/// Fallbacks to other upstreams are allowed; instructions are marked for caches that want it.
fn send_hints(body: &mut Json, request: &Request, hints: &SendHints) {
    let Json::Object(body) = body else { return };
    let provider: Object = [("allow_fallbacks", true)].into_iter().collect();
    body.insert("provider", provider);
    let model = body.get("model").and_then(Json::as_str).unwrap_or_default();
    let explicit = EXPLICIT_CACHES.iter().any(|family| model.starts_with(family));
    if explicit && hints.cache_read_priced {
        mark_instructions(body, request);
    }
}

/// Splits the instructions into those that stay and those that change, and marks the first that there is.
fn mark_instructions(body: &mut Object, request: &Request) {
    let Some(Json::Array(messages)) = body.get_mut("messages") else { return };
    let first = messages.first_mut().and_then(Json::as_object_mut);
    let Some(first) = first.filter(|first| first.get("role").and_then(Json::as_str) == Some("system")) else { return };
    let stable = request.stable_system_text();
    let volatile = request.system_prompt_volatile.as_deref().unwrap_or_default().to_owned();
    let mut parts: Vec<Object> = [stable, volatile]
        .into_iter()
        .filter(|text| !text.is_empty())
        .map(|text| [("type", Json::from("text")), ("text", Json::from(text))].into_iter().collect())
        .collect();
    if let Some(marked) = parts.first_mut() {
        let marker: Object = [("type", "ephemeral")].into_iter().collect();
        marked.insert("cache_control", marker);
        first.insert("content", parts.into_iter().map(Json::Object).collect::<Vec<_>>());
    }
}

/// True if a catalog entry has a price for reading the model's cache: such a model's instructions are worth marking.
pub fn cache_read_priced(entry: &Json) -> bool {
    entry.get("pricing").and_then(|pricing| pricing.get("input_cache_read")).is_some_and(|price| !price.is_null())
}

/// The message of an error body for people: the aggregator's words, and whose fault it was and what the upstream said.
pub fn error_message(body: &Json) -> Option<String> {
    let error = body.get("error")?;
    let message = error.get("message").and_then(Json::as_str).unwrap_or_default();
    let metadata = error.get("metadata").unwrap_or(&Json::Null);
    let provider = metadata.get("provider_name").and_then(Json::as_str).filter(|name| !name.is_empty());
    let upstream = metadata.get("raw").and_then(Upstream::read);
    let told = upstream.map(|upstream| upstream.told());
    Some(match (provider, told) {
        (Some(provider), Some(told)) => format!("{message} ({provider}: {told})"),
        (Some(provider), None) => format!("{message} (via {provider})"),
        (None, Some(told)) => format!("{message} (upstream: {told})"),
        (None, None) => message.to_owned(),
    })
}

/// What the upstream said.
struct Upstream {
    message: String,
    request_id: Option<String>,
}

impl Upstream {
    /// From an object, JSON text or plain text.
    fn read(raw: &Json) -> Option<Upstream> {
        match raw {
            Json::Object(_) => Self::from_object(raw),
            Json::String(text) if text.trim().is_empty() => None,
            Json::String(text) => match Json::parse(text.as_bytes()) {
                Ok(parsed @ Json::Object(_)) => Self::from_object(&parsed),
                _ => Some(Upstream { message: text.to_string(), request_id: None }),
            },
            _ => None,
        }
    }

    fn from_object(raw: &Json) -> Option<Upstream> {
        let inner = raw.get("error").unwrap_or(&Json::Null);
        let find = |keys: &[&str]| {
            let places = [inner, raw].into_iter().flat_map(|place| keys.iter().filter_map(|key| place.get(key)));
            places.filter_map(Json::as_str).find(|text| !text.is_empty()).map(str::to_owned)
        };
        let message =
            find(&["message", "msg", "detail", "description"]).or_else(|| inner.as_str().map(str::to_owned))?;
        Some(Upstream { message, request_id: find(&["request_id", "requestId", "x-request-id", "id"]) })
    }

    fn told(&self) -> String {
        match &self.request_id {
            Some(id) => format!("{} [req: {id}]", self.message),
            None => self.message.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_errors_are_told_in_every_form_that_they_come_in() {
        for (metadata, told) in [
            (r#"{"provider_name":"P","raw":{"error":{"message":"m","request_id":"r"}}}"#, "base (P: m [req: r])"),
            (r#"{"raw":"{\"detail\":\"d\",\"id\":\"i\"}"}"#, "base (upstream: d [req: i])"),
            (r#"{"provider_name":"P","raw":"plain"}"#, "base (P: plain)"),
            (r#"{"provider_name":"P","raw":"  "}"#, "base (via P)"),
            (r#"{"raw":{"x":1}}"#, "base"),
        ] {
            let text = format!(r#"{{"error":{{"message":"base","metadata":{metadata}}}}}"#);
            assert_eq!(error_message(&Json::parse(text.as_bytes()).unwrap()).as_deref(), Some(told));
        }
    }
}
