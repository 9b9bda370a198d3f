//! Bodies that come alone, without the exchange around them: is an object really a request or a
//! response?
//!
//! Inside an exchange the endpoint says what a body is. Alone, nothing does, and a record of a
//! trace (`input` beside `output`) or a log that happens to have `messages` would lose most of what
//! it holds if it were read as a request. So a bare body must consist of what requests or responses
//! are made of.

use gristmill_schemas::json::Json;

use super::adapter::Adapter;
use super::registry;

/// Which half of an exchange a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeSide {
    /// What was asked.
    Request,
    /// What was answered.
    Response,
}

impl ExchangeSide {
    /// The member of an exchange line that holds it.
    pub fn member(self) -> &'static str {
        match self {
            ExchangeSide::Request => "request",
            ExchangeSide::Response => "response",
        }
    }
}

/// Members that requests of the dialects have.
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

/// Members that only an answer, or the record of one, has. A request may ask for `usage`, so that
/// one is looked into.
const ANSWER_MEMBERS: [&str; 12] = [
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

/// What a body that comes alone is, and the adapter that reads it; `None` if it is neither a
/// request nor a response, or if most of it would be left unread.
pub fn detect_standalone_body(body: &Json) -> Option<(ExchangeSide, &'static dyn Adapter)> {
    let response =
        || registry::detect_response(body).filter(|adapter| is_bare_response(*adapter, body));
    let request = || registry::detect_request(body).filter(|_| is_bare_request(body));
    response()
        .map(|adapter| (ExchangeSide::Response, adapter))
        .or_else(|| request().map(|adapter| (ExchangeSide::Request, adapter)))
}

/// True if `body` is made of what requests are made of.
fn is_bare_request(body: &Json) -> bool {
    let Some(object) = body.as_object() else {
        return false;
    };
    let answered = ANSWER_MEMBERS.iter().any(|key| object.contains_key(key))
        || body
            .get("usage")
            .is_some_and(|usage| usage.get("include").is_none());
    // An `input` alone says nothing: embeddings, tools and traces have one, too.
    let led = body.get("input").is_none() || body.get("messages").is_some() || is_led(body);
    let known = object
        .iter()
        .filter(|(key, _)| REQUEST_MEMBERS.contains(key))
        .count();
    !answered && led && known >= object.len() - known
}

/// True if an `input` is one of OpenAI's Responses: a model or what came before is named, and
/// nothing of an embedding.
fn is_led(body: &Json) -> bool {
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

/// True if `body` is a response and not the record of one beside its request.
fn is_bare_response(adapter: &dyn Adapter, body: &Json) -> bool {
    let asked = ["input", "inputs", "messages", "request"]
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
    !asked && (adapter.key() != "openai/responses" || named() || typed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare(text: &str) -> Option<(ExchangeSide, &'static str)> {
        detect_standalone_body(&Json::parse(text.as_bytes()).unwrap())
            .map(|(half, adapter)| (half, adapter.key()))
    }

    #[test]
    fn requests_and_responses_are_bare_bodies() {
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
            assert_eq!(bare(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn records_of_traces_embeddings_and_logs_with_messages_are_none() {
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
            assert_eq!(bare(text), None, "{text}");
        }
    }
}
