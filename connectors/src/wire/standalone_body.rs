//! Detects whether a JSON object without an exchange around it is a request or a response.
//!
//! Inside an exchange the endpoint determines the type of a body. A standalone object has no such
//! context: a trace record (`input` and `output`) or a log with `messages` would lose most of its
//! content if it were read as a request. So the members of a standalone body must be known members
//! of requests or responses.

use gristmill_schemas::json::Json;

use super::adapter::Adapter;
use super::registry;

/// The side of an exchange that a body belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeSide {
    /// The request.
    Request,
    /// The response.
    Response,
}

impl ExchangeSide {
    /// Returns the member of an exchange line that contains this side.
    pub fn member(self) -> &'static str {
        match self {
            ExchangeSide::Request => "request",
            ExchangeSide::Response => "response",
        }
    }
}

/// Members of requests in all dialects.
#[rustfmt::skip]
const REQUEST_MEMBERS: [&str; 104] = [
    "model", "messages", "system", "max_tokens", "temperature", "top_p", "top_k", "min_p", "stop", "stop_sequences", "stream",
    "stream_options", "tools", "tool_choice", "metadata", "thinking", "response_format", "seed", "n", "user",
    "frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias", "logprobs", "top_logprobs",
    "parallel_tool_calls", "reasoning_effort", "reasoning", "reasoning_format", "max_completion_tokens", "store",
    "service_tier", "prediction", "modalities", "audio", "web_search_options", "search_parameters", "input", "instructions",
    "previous_response_id", "conversation", "prompt", "include", "text", "truncation", "background", "max_output_tokens",
    "max_tool_calls", "verbosity", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "contents",
    "systemInstruction", "system_instruction", "generationConfig", "generation_config", "safetySettings", "safety_settings",
    "toolConfig", "tool_config", "cachedContent", "cached_content", "labels", "inferenceConfig",
    "additionalModelRequestFields", "additionalModelResponseFieldPaths", "guardrailConfig", "performanceConfig",
    "promptVariables", "requestMetadata", "outputConfig", "modelId", "options", "keep_alive", "format", "think", "template",
    "raw", "functions", "function_call", "anthropic_version", "anthropic_beta", "betas", "container", "context_management",
    "mcp_servers", "output_config", "provider", "models", "route", "transforms", "plugins", "preset", "extra_body",
    "chat_template_kwargs", "guided_json", "random_seed", "safe_prompt", "prompt_mode", "enable_thinking", "schemaVersion",
    "cache_control",
];

/// Members that only a response, or the record of one, has. `usage` isn't among them, because a
/// request may have it as an option ([`is_request_body`] examines it).
const RESPONSE_MEMBERS: [&str; 12] = [
    "output",
    "outputs",
    "response",
    "responses",
    "choices",
    "candidates",
    "completion",
    "result",
    "generations",
    "latency",
    "latency_ms",
    "duration_ms",
];

/// Returns the side of a standalone body and the adapter that reads it, or `None` if it is neither
/// a request nor a response, or if most of its members would be ignored.
pub fn detect_standalone_body(body: &Json) -> Option<(ExchangeSide, &'static dyn Adapter)> {
    let response =
        || registry::detect_response(body).filter(|adapter| is_response_body(*adapter, body));
    let request = || registry::detect_request(body).filter(|_| is_request_body(body));
    response()
        .map(|adapter| (ExchangeSide::Response, adapter))
        .or_else(|| request().map(|adapter| (ExchangeSide::Request, adapter)))
}

/// Returns true if at least half of the members of `body` are members of requests, and none belongs
/// to a response.
fn is_request_body(body: &Json) -> bool {
    let Some(object) = body.as_object() else {
        return false;
    };
    let has_response = RESPONSE_MEMBERS.iter().any(|key| object.contains_key(key))
        || body
            .get("usage")
            .is_some_and(|usage| usage.get("include").is_none());
    // `input` alone proves nothing: embeddings, tools and traces have it, too.
    let input_fits =
        body.get("input").is_none() || body.get("messages").is_some() || is_responses_input(body);
    let known = object
        .iter()
        .filter(|(key, _)| REQUEST_MEMBERS.contains(key))
        .count();
    !has_response && input_fits && known >= object.len() - known
}

/// Returns true if an `input` belongs to an OpenAI Responses request: the body names a model or a
/// previous response, and has no member of an embedding request.
fn is_responses_input(body: &Json) -> bool {
    let named = [
        "model",
        "previous_response_id",
        "conversation",
        "prompt",
        "instructions",
    ];
    let embeds = body
        .get("model")
        .and_then(Json::as_str)
        .is_some_and(|model| model.contains("embed"));
    named.iter().any(|key| body.get(key).is_some())
        && !embeds
        && ["encoding_format", "dimensions", "voice"]
            .iter()
            .all(|key| body.get(key).is_none())
}

/// Returns true if `body` is a response and not a record of a request and its response.
fn is_response_body(adapter: &dyn Adapter, body: &Json) -> bool {
    let has_request = ["input", "inputs", "messages", "request"]
        .iter()
        .any(|key| body.get(key).is_some());
    let typed = || {
        let output = body
            .get("output")
            .and_then(Json::as_array)
            .unwrap_or_default();
        !output.is_empty() && output.iter().all(|item| item.get("type").is_some())
    };
    let named = || {
        body.get("object")
            .and_then(Json::as_str)
            .is_some_and(|object| object.starts_with("response"))
    };
    !has_request && (adapter.key() != "openai/responses" || named() || typed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(text: &str) -> Option<(ExchangeSide, &'static str)> {
        detect_standalone_body(&Json::parse(text.as_bytes()).unwrap())
            .map(|(side, adapter)| (side, adapter.key()))
    }

    #[test]
    fn standalone_requests_and_responses_are_detected() {
        for (text, expected) in [
            (
                r#"{"model":"m","input":"hi"}"#,
                (ExchangeSide::Request, "openai/responses"),
            ),
            (
                r#"{"messages":[{"role":"user","content":"hi"}]}"#,
                (ExchangeSide::Request, "openai/chat"),
            ),
            (
                r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"usage":{"include":true}}"#,
                (ExchangeSide::Request, "openai/chat"),
            ),
            (
                r#"{"choices":[{"message":{"role":"assistant"}}],"usage":{}}"#,
                (ExchangeSide::Response, "openai/chat"),
            ),
            (
                r#"{"object":"response","output":[]}"#,
                (ExchangeSide::Response, "openai/responses"),
            ),
        ] {
            assert_eq!(detect(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn traces_embeddings_and_logs_with_messages_are_rejected() {
        for text in [
            r#"{"input":"hi","output":"hello","model":"m","usage":{"total_tokens":3}}"#,
            r#"{"input":[{"role":"user","content":"hi"}],"output":[{"type":"message"}],"model":"m"}"#,
            r#"{"id":"r1","input":"hi","output":[{"role":"assistant"}],"model":"m"}"#,
            r#"{"id":"r1","output":[{"role":"assistant"}]}"#,
            r#"{"input":"hi"}"#,
            r#"{"input":"hi","model":"text-embedding-3-small"}"#,
            r#"{"input":"hi","model":"m","encoding_format":"float"}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"response":{"content":"hello"}}"#,
            r#"{"messages":[{"role":"user","content":"hi"}],"info":{},"instance_id":"x","exit_status":"done"}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"usage":{"total_tokens":3}}"#,
        ] {
            assert_eq!(detect(text), None, "{text}");
        }
    }
}
