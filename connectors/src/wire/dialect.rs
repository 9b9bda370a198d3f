//! Which adapter speaks for which endpoint.
//!
//! Adding a provider adds its file and its line here; an endpoint that speaks a known dialect adds a line alone.

use gristmill_schemas::json::Json;

use super::adapter::Adapter;
use super::openai_chat::{Dialect, OpenAiChat, Reasoning};
use super::usual::Usual;
use super::{anthropic, openrouter};

/// Adapters with a dialect of their own.
static OWN: [&dyn Adapter; 4] = [&anthropic::MESSAGES, &anthropic::VERTEX, &anthropic::BEDROCK, &openrouter::CHAT];

/// OpenAI's chat endpoint.
pub static OPENAI_CHAT: OpenAiChat = OpenAiChat::new(Dialect {
    key: "openai/chat",
    reasoning: Reasoning::None,
    max_tokens: "max_completion_tokens",
    numbered_calls: false,
    usual: Usual::new(
        r#"{"service_tier":"default","system_fingerprint":null,"choices":[{"logprobs":null}],"usage":{"prompt_tokens_details":{"audio_tokens":0},
        "completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}"#,
    ),
});

/// The same on Azure, which filters content and says so.
static AZURE_CHAT: OpenAiChat = OpenAiChat::new(Dialect {
    key: "azure/chat",
    reasoning: Reasoning::None,
    max_tokens: "max_completion_tokens",
    numbered_calls: false,
    usual: Usual::new(
        r#"{"service_tier":"default","system_fingerprint":null,"choices":[{"logprobs":null,"content_filter_results":{
        "hate":{"filtered":false,"severity":"safe"},"self_harm":{"filtered":false,"severity":"safe"},"sexual":{"filtered":false,"severity":"safe"},
        "violence":{"filtered":false,"severity":"safe"},"protected_material_code":{"filtered":false,"detected":false},
        "protected_material_text":{"filtered":false,"detected":false}}}],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}],
        "usage":{"prompt_tokens_details":{"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,
        "accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}"#,
    ),
});

const BARE: &str = "{}";
const LOGPROBS: &str = r#"{"choices":[{"logprobs":null}]}"#;
const ALIBABA: &str = r#"{"system_fingerprint":null,"choices":[{"logprobs":null}]}"#;
const DEEPSEEK: &str =
    r#"{"choices":[{"logprobs":null}],"usage":{"completion_tokens_details":{"reasoning_tokens":0}}}"#;
const GROQ: &str = r#"{"service_tier":"on_demand","usage_breakdown":null,"choices":[{"logprobs":null}]}"#;
const VLLM: &str = r#"{"choices":[{"logprobs":null,"stop_reason":null}]}"#;
const XAI: &str = r#"{"usage":{"num_sources_used":0,"prompt_tokens_details":{"audio_tokens":0,"image_tokens":0},"completion_tokens_details":
    {"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}"#;
const CEREBRAS: &str = r#"{"usage":{"completion_tokens_details":
    {"reasoning_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}"#;
const SNOWFLAKE: &str = r#"{"service_tier":"","system_fingerprint":"","choices":[{"logprobs":{"content":null,"refusal":null}}],"usage":{
    "prompt_tokens_details":{"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,
    "accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}"#;
const VERCEL: &str = r#"{"choices":[{"logprobs":null}],"usage":{"is_byok":false,"cache_creation_input_tokens":0,"prompt_tokens_details":
    {"audio_tokens":0,"video_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"image_tokens":0},"cost_details":
    {"upstream_inference_cost":null,"upstream_inference_prompt_cost":0,"upstream_inference_completions_cost":0}}}"#;
const WRITER: &str = r#"{"service_tier":null,"choices":[{"logprobs":null,"trace_details":null}],"usage":{"prompt_token_details":null,
    "completion_tokens_details":null}}"#;

/// Thinking in `reasoning_content`.
const CONTENT: Reasoning = Reasoning::Text("reasoning_content");
/// Thinking in `reasoning`.
const PLAIN: Reasoning = Reasoning::Text("reasoning");

/// Endpoints that speak OpenAI's chat dialect: where their thinking stands, whether calls are numbered, and what their
/// answers usually carry.
static CHAT: [OpenAiChat; 26] = [
    chat("alibaba/chat", CONTENT, true, ALIBABA),
    chat("avian/chat", CONTENT, false, BARE),
    chat("cerebras/chat", PLAIN, false, CEREBRAS),
    chat("crusoe/chat", CONTENT, false, VLLM),
    chat("deepseek/chat", CONTENT, true, DEEPSEEK),
    chat("fireworks/chat", CONTENT, false, BARE),
    chat("github/chat", Reasoning::None, false, LOGPROBS),
    chat("groq/chat", PLAIN, false, GROQ),
    chat("huggingface/chat", PLAIN, true, LOGPROBS),
    chat("llama-cpp/chat", CONTENT, false, BARE),
    chat("lm-studio/chat", CONTENT, false, LOGPROBS),
    chat("moonshot/chat", CONTENT, true, BARE),
    chat("nvidia/chat", CONTENT, false, VLLM),
    chat("ollama/openai-chat", PLAIN, false, BARE),
    chat("openai-compat/chat", CONTENT, false, XAI),
    chat("perplexity/chat", Reasoning::None, false, BARE),
    chat("sambanova/chat", CONTENT, false, LOGPROBS),
    chat("siliconflow/chat", CONTENT, false, BARE),
    chat("snowflake/chat", Reasoning::Details, false, SNOWFLAKE),
    chat("together/chat", PLAIN, true, LOGPROBS),
    chat("unknown-compat/chat", CONTENT, false, VLLM),
    chat("vercel-gateway/chat", Reasoning::Details, false, VERCEL),
    chat("vllm/chat", CONTENT, false, VLLM),
    chat("writer/chat", Reasoning::None, true, WRITER),
    chat("xai/chat", CONTENT, false, XAI),
    chat("zai/chat", CONTENT, true, DEEPSEEK),
];

const fn chat(key: &'static str, reasoning: Reasoning, numbered_calls: bool, usual: &'static str) -> OpenAiChat {
    OpenAiChat::new(Dialect { key, reasoning, max_tokens: "max_tokens", numbered_calls, usual: Usual::new(usual) })
}

/// All adapters, each under its key once.
pub fn adapters() -> impl Iterator<Item = &'static dyn Adapter> {
    let openai: [&'static dyn Adapter; 2] = [&OPENAI_CHAT, &AZURE_CHAT];
    let own = OWN.iter().copied();
    own.chain(openai).chain(CHAT.iter().map(|adapter| adapter as &'static dyn Adapter))
}

/// The adapter for `provider/endpoint`.
pub fn by_key(key: &str) -> Option<&'static dyn Adapter> {
    adapters().find(|adapter| adapter.key() == key)
}

/// The adapter for an endpoint of a provider.
pub fn find(provider: &str, endpoint: &str) -> Option<&'static dyn Adapter> {
    let is_it = |key: &str| key.split_once('/') == Some((provider, endpoint));
    adapters().find(|adapter| is_it(adapter.key()))
}

/// The adapter whose dialect a bare request body is most likely of.
pub fn detect_request(body: &Json) -> Option<&'static dyn Adapter> {
    let claude: &'static dyn Adapter = &anthropic::MESSAGES;
    if claude.is_request(body) && looks_like_claude(body) {
        return Some(claude);
    }
    let chat: &'static dyn Adapter = &OPENAI_CHAT;
    chat.is_request(body).then_some(chat)
}

/// The adapter whose dialect a bare response body is most likely of.
pub fn detect_response(body: &Json) -> Option<&'static dyn Adapter> {
    adapters().find(|adapter| adapter.is_response(body))
}

/// What an Anthropic request has and an OpenAI one can't: a system prompt beside the list, or blocks, tools and a model of its
/// kind.
fn looks_like_claude(body: &Json) -> bool {
    let tools = body.get("tools").and_then(Json::as_array).unwrap_or_default();
    let own_block = |block: &Json| {
        matches!(block.get("type").and_then(Json::as_str), Some("tool_use" | "tool_result" | "thinking"))
    };
    let messages = body.get("messages").and_then(Json::as_array).unwrap_or_default();
    let contents = messages.iter().filter_map(|message| message.get("content").and_then(Json::as_array));
    body.get("system").is_some()
        || body.get("anthropic_version").is_some()
        || body.get("model").and_then(Json::as_str).is_some_and(|model| model.contains("claude"))
        || tools.iter().any(|tool| tool.get("input_schema").is_some())
        || contents.flatten().any(own_block)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_adapter_has_a_key_of_its_own() {
        let keys: Vec<_> = adapters().map(|adapter| adapter.key()).collect();
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        assert!(keys.iter().all(|key| by_key(key).is_some() && key.split('/').count() == 2));
    }

    #[test]
    fn bare_bodies_are_told_apart() {
        let detect = |text: &str| detect_request(&Json::parse(text.as_bytes()).unwrap()).map(|adapter| adapter.key());
        let plain = r#""messages":[{"role":"user","content":"hi"}]"#;
        assert_eq!(detect(&format!(r#"{{"max_tokens":5,"system":"s",{plain}}}"#)), Some("anthropic/messages"));
        assert_eq!(detect(&format!(r#"{{"model":"claude-x","max_tokens":5,{plain}}}"#)), Some("anthropic/messages"));
        assert_eq!(detect(&format!(r#"{{"model":"gpt","max_tokens":5,{plain}}}"#)), Some("openai/chat"));
        assert_eq!(detect(r#"{"prompt":"x"}"#), None);
        let response = Json::parse(br#"{"type":"message","content":[]}"#).unwrap();
        assert_eq!(detect_response(&response).map(|adapter| adapter.key()), Some("anthropic/messages"));
    }
}
