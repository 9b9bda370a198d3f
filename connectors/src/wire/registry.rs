//! The registry of adapters: look-up by key, and detection of the dialect of bodies.
//!
//! An endpoint that speaks a known dialect is one entry of a table here. A new dialect is a module
//! and an entry; [`super`] lists the steps.

use gristmill_schemas::json::Json;

use super::adapter::Adapter;
use super::exchange::{Exchange, ResponseBody};
use super::json_access::items;
use super::openai_chat::{ChatDialect, OpenAiChat, ReasoningPlacement};
use super::openai_responses::OpenAiResponses;
use super::provider_detection::canonical_provider;
use super::response_defaults::ResponseDefaults;
use super::{anthropic, bedrock_converse, gemini, ollama, openrouter};

/// Adapters of dialects other than OpenAI's.
static OTHER_DIALECTS: [&dyn Adapter; 8] = [
    &anthropic::MESSAGES,
    &anthropic::VERTEX,
    &anthropic::BEDROCK,
    &openrouter::CHAT,
    &ollama::CHAT,
    &gemini::GENERATE,
    &gemini::VERTEX,
    &bedrock_converse::CONVERSE,
];

/// OpenAI's chat endpoint.
pub static OPENAI_CHAT: OpenAiChat = OpenAiChat::new(ChatDialect {
    key: "openai/chat",
    reasoning: ReasoningPlacement::Foreign,
    max_tokens: "max_completion_tokens",
    numbered_calls: false,
    short_call_ids: false,
    response_defaults: ResponseDefaults::new(
        r#"{"service_tier":"default","system_fingerprint":null,"choices":[{"logprobs":null}],"usage":{"prompt_tokens_details":{"audio_tokens":0},
        "completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}"#,
    ),
    extras: None,
});

/// OpenAI's chat dialect on Azure, whose responses have the results of content filters.
static AZURE_CHAT: OpenAiChat = OpenAiChat::new(ChatDialect {
    key: "azure/chat",
    reasoning: REASONING_CONTENT,
    max_tokens: "max_completion_tokens",
    numbered_calls: false,
    short_call_ids: false,
    response_defaults: ResponseDefaults::new(
        r#"{"service_tier":"default","system_fingerprint":null,"choices":[{"logprobs":null,"content_filter_results":{
        "hate":{"filtered":false,"severity":"safe"},"self_harm":{"filtered":false,"severity":"safe"},"sexual":{"filtered":false,"severity":"safe"},
        "violence":{"filtered":false,"severity":"safe"},"protected_material_code":{"filtered":false,"detected":false},
        "protected_material_text":{"filtered":false,"detected":false}}}],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}],
        "usage":{"prompt_tokens_details":{"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,
        "accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}"#,
    ),
    extras: None,
});

/// Mistral: thinking is a part of the content, and call ids are short.
static MISTRAL_CHAT: OpenAiChat = OpenAiChat::new(ChatDialect {
    key: "mistral/chat",
    reasoning: ReasoningPlacement::Parts,
    max_tokens: "max_tokens",
    numbered_calls: true,
    short_call_ids: true,
    response_defaults: ResponseDefaults::new(NO_DEFAULTS),
    extras: None,
});

/// OpenAI's Responses endpoint.
pub static OPENAI_RESPONSES: OpenAiResponses = OpenAiResponses::new("openai/responses");
/// Responses endpoints of unknown providers.
static UNKNOWN_RESPONSES: OpenAiResponses = OpenAiResponses::new("unknown-compat/responses");
/// Chat endpoints of unknown providers.
static UNKNOWN_CHAT: OpenAiChat = chat("unknown-compat/chat", REASONING_CONTENT, false, VLLM);

/// Endpoints of other providers that speak OpenAI's Responses dialect.
static RESPONSES: [OpenAiResponses; 6] = [
    OpenAiResponses::new("azure/responses"),
    OpenAiResponses::new("bedrock/responses"),
    OpenAiResponses::new("groq/responses"),
    OpenAiResponses::new("open-responses/responses"),
    OpenAiResponses::new("openrouter/responses"),
    OpenAiResponses::new("xai/responses"),
];

// Default members of responses, by provider.
const NO_DEFAULTS: &str = "{}";
const LOGPROBS: &str = r#"{"choices":[{"logprobs":null}]}"#;
const ALIBABA: &str = r#"{"system_fingerprint":null,"choices":[{"logprobs":null}]}"#;
const DEEPSEEK: &str = r#"{"choices":[{"logprobs":null}],"usage":{"completion_tokens_details":{"reasoning_tokens":0}}}"#;
const GROQ: &str =
    r#"{"service_tier":"on_demand","usage_breakdown":null,"choices":[{"logprobs":null}]}"#;
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

/// Thinking is in `reasoning_content`.
const REASONING_CONTENT: ReasoningPlacement = ReasoningPlacement::Text("reasoning_content");
/// Thinking is in `reasoning`.
const REASONING: ReasoningPlacement = ReasoningPlacement::Text("reasoning");

/// Endpoints that speak OpenAI's chat dialect: key, placement of thinking, whether calls in
/// responses are numbered, and default members of responses.
static CHAT: [OpenAiChat; 25] = [
    chat("alibaba/chat", REASONING_CONTENT, true, ALIBABA),
    chat("avian/chat", REASONING_CONTENT, false, NO_DEFAULTS),
    chat("cerebras/chat", REASONING, false, CEREBRAS),
    chat("crusoe/chat", REASONING_CONTENT, false, VLLM),
    chat("deepseek/chat", REASONING_CONTENT, true, DEEPSEEK),
    chat("fireworks/chat", REASONING_CONTENT, false, NO_DEFAULTS),
    chat("github/chat", REASONING_CONTENT, false, LOGPROBS),
    chat("groq/chat", REASONING, false, GROQ),
    chat("huggingface/chat", REASONING, true, LOGPROBS),
    chat("llama-cpp/chat", REASONING_CONTENT, false, NO_DEFAULTS),
    chat("lm-studio/chat", REASONING_CONTENT, false, LOGPROBS),
    chat("moonshot/chat", REASONING_CONTENT, true, NO_DEFAULTS),
    chat("nvidia/chat", REASONING_CONTENT, false, VLLM),
    chat("ollama/openai-chat", REASONING, false, NO_DEFAULTS),
    chat("openai-compat/chat", REASONING_CONTENT, false, XAI),
    chat("perplexity/chat", REASONING_CONTENT, false, NO_DEFAULTS),
    chat("sambanova/chat", REASONING_CONTENT, false, LOGPROBS),
    chat("siliconflow/chat", REASONING_CONTENT, false, NO_DEFAULTS),
    chat(
        "snowflake/chat",
        ReasoningPlacement::Details,
        false,
        SNOWFLAKE,
    ),
    chat("together/chat", REASONING, true, LOGPROBS),
    chat(
        "vercel-gateway/chat",
        ReasoningPlacement::Details,
        false,
        VERCEL,
    ),
    chat("vllm/chat", REASONING_CONTENT, false, VLLM),
    chat("writer/chat", REASONING_CONTENT, true, WRITER),
    chat("xai/chat", REASONING_CONTENT, false, XAI),
    chat("zai/chat", REASONING_CONTENT, true, DEEPSEEK),
];

const fn chat(
    key: &'static str,
    reasoning: ReasoningPlacement,
    numbered_calls: bool,
    response_defaults: &'static str,
) -> OpenAiChat {
    OpenAiChat::new(ChatDialect {
        key,
        reasoning,
        max_tokens: "max_tokens",
        numbered_calls,
        short_call_ids: false,
        response_defaults: ResponseDefaults::new(response_defaults),
        extras: None,
    })
}

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
    own.filter(|adapter| fits(*adapter, exchange, AssumedResponses::ErrorsAndStreams))
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
        let assumed = match wanted {
            1 => AssumedResponses::Errors,
            _ => AssumedResponses::None,
        };
        fallbacks()
            .filter(|adapter| rank(adapter) == wanted)
            .find(|adapter| fits(*adapter, exchange, assumed))
    })
}

/// Which responses are accepted without a check, if the request has the form of the dialect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AssumedResponses {
    /// None: every body must have the form of the dialect.
    None,
    /// Error bodies.
    Errors,
    /// Error bodies and streams, which would be expensive to fold twice.
    ErrorsAndStreams,
}

/// Returns one generic adapter per dialect, in the order in which they are tried if the endpoint is
/// unknown.
fn fallbacks() -> impl Iterator<Item = &'static dyn Adapter> {
    let plain: [&'static dyn Adapter; 7] = [
        &anthropic::MESSAGES,
        &gemini::GENERATE,
        &bedrock_converse::CONVERSE,
        // Before Ollama: requests of both look alike, and more servers speak OpenAI's dialect.
        &UNKNOWN_CHAT,
        &ollama::CHAT,
        &UNKNOWN_RESPONSES,
        &openrouter::CHAT,
    ];
    let azure: [&'static dyn Adapter; 2] = [&AZURE_CHAT, &anthropic::VERTEX];
    plain.into_iter().chain(azure)
}

/// Returns true if every body of the exchange is of the adapter's dialect.
fn fits(adapter: &dyn Adapter, exchange: &Exchange, assumed: AssumedResponses) -> bool {
    let request = exchange.request.map(|body| adapter.is_request(body));
    // Checked first because folding a stream is expensive.
    if request == Some(false) {
        return false;
    }
    let response_fits = |body: &Json| {
        let assume_error = request == Some(true) && assumed != AssumedResponses::None;
        adapter.is_response(body) || (assume_error && adapter.errors().read(body).is_some())
    };
    let assume_stream = request == Some(true) && assumed == AssumedResponses::ErrorsAndStreams;
    let response = match &exchange.response {
        ResponseBody::None => None,
        ResponseBody::Json(body) => Some(response_fits(body)),
        ResponseBody::Stream(_) if assume_stream => Some(true),
        ResponseBody::Stream(_) => exchange
            .folded(adapter)
            .map(|fold| response_fits(&fold.folded.body)),
    };
    response != Some(false) && (request.is_some() || response.is_some())
}

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
