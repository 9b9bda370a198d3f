//! Which adapter speaks for which endpoint.
//!
//! Adding a provider adds its file and its line here; an endpoint that speaks a known dialect adds a line alone.

use gristmill_schemas::json::Json;

use super::adapter::Adapter;
use super::openai_chat::{Answer, Dialect, OpenAiChat, Reasoning};
use super::{anthropic, openrouter};

/// Adapters with a dialect of their own.
static OWN: [&dyn Adapter; 4] = [&anthropic::MESSAGES, &anthropic::VERTEX, &anthropic::BEDROCK, &openrouter::CHAT];

/// OpenAI's chat endpoint.
pub static OPENAI_CHAT: OpenAiChat = OpenAiChat::new(Dialect::OPENAI);

/// Endpoints that speak OpenAI's chat dialect.
static CHAT: [OpenAiChat; 27] = [
    OpenAiChat::new(Dialect { key: "azure/chat", ..Dialect::OPENAI }),
    // thinking in `reasoning_content`
    chat("alibaba/chat", Some("reasoning_content"), true, Answer::Logprobs),
    chat("avian/chat", Some("reasoning_content"), false, Answer::Bare),
    chat("crusoe/chat", Some("reasoning_content"), false, Answer::Logprobs),
    chat("deepseek/chat", Some("reasoning_content"), true, Answer::Logprobs),
    chat("fireworks/chat", Some("reasoning_content"), false, Answer::Bare),
    chat("llama-cpp/chat", Some("reasoning_content"), false, Answer::Bare),
    chat("lm-studio/chat", Some("reasoning_content"), false, Answer::Logprobs),
    chat("moonshot/chat", Some("reasoning_content"), true, Answer::Bare),
    chat("nvidia/chat", Some("reasoning_content"), false, Answer::Logprobs),
    chat("openai-compat/chat", Some("reasoning_content"), false, Answer::Bare),
    chat("sambanova/chat", Some("reasoning_content"), false, Answer::Logprobs),
    chat("siliconflow/chat", Some("reasoning_content"), false, Answer::Bare),
    chat("unknown-compat/chat", Some("reasoning_content"), false, Answer::Logprobs),
    chat("vllm/chat", Some("reasoning_content"), false, Answer::Logprobs),
    chat("xai/chat", Some("reasoning_content"), false, Answer::Bare),
    chat("zai/chat", Some("reasoning_content"), true, Answer::Bare),
    // thinking in `reasoning`
    chat("cerebras/chat", Some("reasoning"), false, Answer::Bare),
    chat("groq/chat", Some("reasoning"), false, Answer::Logprobs),
    chat("huggingface/chat", Some("reasoning"), true, Answer::Logprobs),
    chat("ollama/openai-chat", Some("reasoning"), false, Answer::Bare),
    chat("together/chat", Some("reasoning"), true, Answer::Logprobs),
    // no thinking
    chat("github/chat", None, false, Answer::Logprobs),
    chat("perplexity/chat", None, false, Answer::Bare),
    chat("snowflake/chat", None, false, Answer::Logprobs),
    chat("writer/chat", None, true, Answer::Logprobs),
    // thinking piece by piece
    OpenAiChat::new(Dialect { reasoning: Reasoning::Details, ..Dialect::compatible("vercel-gateway/chat") }),
];

const fn chat(key: &'static str, reasoning: Option<&'static str>, numbered_calls: bool, answer: Answer) -> OpenAiChat {
    let reasoning = match reasoning {
        Some(key) => Reasoning::Text(key),
        None => Reasoning::None,
    };
    OpenAiChat::new(Dialect { reasoning, numbered_calls, answer, ..Dialect::compatible(key) })
}

/// All adapters, each under its key once.
pub fn adapters() -> impl Iterator<Item = &'static dyn Adapter> {
    let openai: [&'static dyn Adapter; 1] = [&OPENAI_CHAT];
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
