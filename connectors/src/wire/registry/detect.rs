//! Detection of the dialect of a body without an endpoint.

use gristmill_schemas::json::Json;

use super::super::adapter::Adapter;
use super::super::json_access::items;
use super::super::{anthropic, bedrock_converse, gemini, ollama, openrouter};
use super::{OPENAI_CHAT, OPENAI_RESPONSES};

/// Returns the adapter of the most likely dialect of a standalone request.
pub fn detect_request(body: &Json) -> Option<&'static dyn Adapter> {
    let any = |keys: &[&str]| keys.iter().any(|key| body.get(key).is_some());
    // A likely dialect may still not fit: many endpoints accept a Claude model.
    let candidates: [(bool, &'static dyn Adapter); 6] = [
        (any(&["contents"]), &gemini::GENERATE),
        (any(&["input"]), &OPENAI_RESPONSES),
        (looks_like_claude(body), &anthropic::MESSAGES),
        (looks_like_converse(body), &bedrock_converse::CONVERSE),
        (any(&["options", "keep_alive"]), &ollama::CHAT),
        (!any(&["contents", "input"]), &OPENAI_CHAT),
    ];
    let mut likely = candidates
        .into_iter()
        .filter_map(|(is_likely, adapter)| is_likely.then_some(adapter));
    likely.find(|adapter| adapter.is_request(body))
}

/// Returns the adapter of the most likely dialect of a standalone response.
pub fn detect_response(body: &Json) -> Option<&'static dyn Adapter> {
    let routed = body
        .get("provider")
        .is_some_and(|provider| provider.as_str().is_some());
    let chat: &'static dyn Adapter = if routed {
        &openrouter::CHAT
    } else {
        &OPENAI_CHAT
    };
    let candidates: [&'static dyn Adapter; 6] = [
        &anthropic::MESSAGES,
        &gemini::GENERATE,
        &bedrock_converse::CONVERSE,
        &ollama::CHAT,
        chat,
        &OPENAI_RESPONSES,
    ];
    candidates
        .into_iter()
        .find(|adapter| adapter.is_response(body))
}

/// Returns true for members that only Converse requests have, or for blocks without a `type` and no
/// model.
fn looks_like_converse(body: &Json) -> bool {
    body.get("inferenceConfig").is_some()
        || body.get("toolConfig").is_some()
        || (bedrock_converse::CONVERSE.is_request(body) && body.get("model").is_none())
}

/// Returns true if a request has what Anthropic requests have and OpenAI requests can't have (a
/// `system` member, or Anthropic's tools or blocks), or if it names a Claude model and has no
/// member that only OpenAI requests have.
fn looks_like_claude(body: &Json) -> bool {
    if body.get("inferenceConfig").is_some() || body.get("toolConfig").is_some() {
        return false;
    }
    let names_claude = || {
        body.get("model")
            .and_then(Json::as_str)
            .is_some_and(|model| model.contains("claude"))
    };
    has_anthropic_members(body) || (names_claude() && !has_openai_members(body))
}

fn has_anthropic_members(body: &Json) -> bool {
    let is_own_block = |block: &Json| {
        matches!(
            block.get("type").and_then(Json::as_str),
            Some("tool_use" | "tool_result" | "thinking")
        )
    };
    body.get("system").is_some()
        || body.get("anthropic_version").is_some()
        || items(body, "tools")
            .iter()
            .any(|tool| tool.get("input_schema").is_some())
        || items(body, "messages")
            .iter()
            .flat_map(|message| items(message, "content"))
            .any(is_own_block)
}

fn has_openai_members(body: &Json) -> bool {
    let is_openai_message = |message: &Json| {
        let role = message.get("role").and_then(Json::as_str);
        message.get("tool_calls").is_some() || matches!(role, Some("system" | "developer" | "tool"))
    };
    items(body, "tools")
        .iter()
        .any(|tool| tool.get("function").is_some())
        || items(body, "messages").iter().any(is_openai_message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_of_standalone_bodies_are_detected() {
        let detect = |text: &str| {
            detect_request(&Json::parse(text.as_bytes()).unwrap()).map(|adapter| adapter.key())
        };
        let plain = r#""messages":[{"role":"user","content":"hi"}]"#;
        assert_eq!(
            detect(&format!(r#"{{"max_tokens":5,"system":"s",{plain}}}"#)),
            Some("anthropic/messages")
        );
        assert_eq!(
            detect(&format!(r#"{{"model":"claude-x","max_tokens":5,{plain}}}"#)),
            Some("anthropic/messages")
        );
        assert_eq!(
            detect(&format!(r#"{{"model":"gpt","max_tokens":5,{plain}}}"#)),
            Some("openai/chat")
        );
        assert_eq!(
            detect(r#"{"contents":[{"parts":[]}]}"#),
            Some("gemini/generatecontent")
        );
        assert_eq!(
            detect(r#"{"model":"m","input":"hi"}"#),
            Some("openai/responses")
        );
        assert_eq!(
            detect(r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#),
            Some("bedrock/converse")
        );
        assert_eq!(
            detect(&format!(r#"{{"model":"m","options":{{}},{plain}}}"#)),
            Some("ollama/chat")
        );
        assert_eq!(detect(r#"{"prompt":"x"}"#), None);
        // A Claude model in OpenAI's dialect, and Converse with instructions.
        let routed = r#"{"model":"anthropic/claude-x","max_tokens":5,"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}]}"#;
        assert_eq!(detect(routed), Some("openai/chat"));
        assert_eq!(
            detect(&format!(r#"{{"model":"claude-x",{plain}}}"#)),
            Some("openai/chat")
        );
        assert_eq!(
            detect(&format!(
                r#"{{"model":"claude-x","max_tokens":5,"tools":[{{"type":"function","function":{{}}}}],{plain}}}"#
            )),
            Some("openai/chat")
        );
        let converse =
            r#"{"system":[{"text":"s"}],"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#;
        assert_eq!(detect(converse), Some("bedrock/converse"));
        let response = Json::parse(br#"{"type":"message","content":[]}"#).unwrap();
        assert_eq!(
            detect_response(&response).map(|adapter| adapter.key()),
            Some("anthropic/messages")
        );
    }
}
