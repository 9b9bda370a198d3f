//! Which adapter speaks for which endpoint.
//!
//! Adding a provider adds its file and its line here; an endpoint that speaks a known dialect adds
//! a line alone.

use gristmill_schemas::json::Json;

use super::adapter::Adapter;
use super::exchange::{Exchange, ResponseBody};
use super::openai_chat::{ChatDialect, OpenAiChat, ReasoningPlacement};
use super::openai_responses::OpenAiResponses;
use super::provider_detection::canonical_provider;
use super::response_defaults::ResponseDefaults;
use super::{anthropic, bedrock_converse, gemini, ollama, openrouter};

/// Adapters with a dialect of their own.
static OWN: [&dyn Adapter; 8] = [
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

/// The same on Azure, which filters content and says so.
static AZURE_CHAT: OpenAiChat = OpenAiChat::new(ChatDialect {
    key: "azure/chat",
    reasoning: CONTENT,
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

/// Mistral, whose thoughts are parts of the content and whose ids of calls are short.
static MISTRAL_CHAT: OpenAiChat = OpenAiChat::new(ChatDialect {
    key: "mistral/chat",
    reasoning: ReasoningPlacement::Parts,
    max_tokens: "max_tokens",
    numbered_calls: true,
    short_call_ids: true,
    response_defaults: ResponseDefaults::new(BARE),
    extras: None,
});

/// OpenAI's Responses endpoint.
pub static OPENAI_RESPONSES: OpenAiResponses = OpenAiResponses::new("openai/responses");
/// Responses endpoints of whoever.
static UNKNOWN_RESPONSES: OpenAiResponses = OpenAiResponses::new("unknown-compat/responses");
/// Chat endpoints of whoever.
static UNKNOWN_CHAT: OpenAiChat = chat("unknown-compat/chat", CONTENT, false, VLLM);

/// Other endpoints that speak OpenAI's Responses dialect.
static RESPONSES: [OpenAiResponses; 6] = [
    OpenAiResponses::new("azure/responses"),
    OpenAiResponses::new("bedrock/responses"),
    OpenAiResponses::new("groq/responses"),
    OpenAiResponses::new("open-responses/responses"),
    OpenAiResponses::new("openrouter/responses"),
    OpenAiResponses::new("xai/responses"),
];

const BARE: &str = "{}";
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

/// Thinking in `reasoning_content`.
const CONTENT: ReasoningPlacement = ReasoningPlacement::Text("reasoning_content");
/// Thinking in `reasoning`.
const PLAIN: ReasoningPlacement = ReasoningPlacement::Text("reasoning");

/// Endpoints that speak OpenAI's chat dialect: where their thinking stands, whether calls are
/// numbered, and what their answers usually carry.
static CHAT: [OpenAiChat; 25] = [
    chat("alibaba/chat", CONTENT, true, ALIBABA),
    chat("avian/chat", CONTENT, false, BARE),
    chat("cerebras/chat", PLAIN, false, CEREBRAS),
    chat("crusoe/chat", CONTENT, false, VLLM),
    chat("deepseek/chat", CONTENT, true, DEEPSEEK),
    chat("fireworks/chat", CONTENT, false, BARE),
    chat("github/chat", CONTENT, false, LOGPROBS),
    chat("groq/chat", PLAIN, false, GROQ),
    chat("huggingface/chat", PLAIN, true, LOGPROBS),
    chat("llama-cpp/chat", CONTENT, false, BARE),
    chat("lm-studio/chat", CONTENT, false, LOGPROBS),
    chat("moonshot/chat", CONTENT, true, BARE),
    chat("nvidia/chat", CONTENT, false, VLLM),
    chat("ollama/openai-chat", PLAIN, false, BARE),
    chat("openai-compat/chat", CONTENT, false, XAI),
    chat("perplexity/chat", CONTENT, false, BARE),
    chat("sambanova/chat", CONTENT, false, LOGPROBS),
    chat("siliconflow/chat", CONTENT, false, BARE),
    chat(
        "snowflake/chat",
        ReasoningPlacement::Details,
        false,
        SNOWFLAKE,
    ),
    chat("together/chat", PLAIN, true, LOGPROBS),
    chat(
        "vercel-gateway/chat",
        ReasoningPlacement::Details,
        false,
        VERCEL,
    ),
    chat("vllm/chat", CONTENT, false, VLLM),
    chat("writer/chat", CONTENT, true, WRITER),
    chat("xai/chat", CONTENT, false, XAI),
    chat("zai/chat", CONTENT, true, DEEPSEEK),
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

/// All adapters, each under its key once.
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
    OWN.iter()
        .copied()
        .chain(openai)
        .chain(chat)
        .chain(responses)
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

/// Ends of endpoints at which nobody speaks, though what they take looks like the request of one at
/// which somebody does.
const NO_CONVERSATIONS: [&str; 4] = ["embeddings", "embed", "speech", "moderations"];

/// The adapter that reads this exchange: its endpoint's own, if the bodies fit it; else the first
/// that they fit, of the same provider, of an endpoint of the same name, or of any. `None` if no
/// adapter reads it: then it is kept whole.
pub fn for_exchange(exchange: &Exchange) -> Option<&'static dyn Adapter> {
    let provider = canonical_provider(&exchange.provider);
    let own = find(provider, &exchange.endpoint);
    if NO_CONVERSATIONS
        .iter()
        .any(|end| exchange.endpoint.trim_end_matches('/').ends_with(end))
    {
        return own;
    }
    let rank = |adapter: &&'static dyn Adapter| match adapter.key().split_once('/') {
        Some((of_adapter, _)) if of_adapter == provider => 0,
        Some((_, endpoint)) if endpoint == exchange.endpoint => 1,
        _ => 2,
    };
    let own_fits = own.filter(|adapter| fits(*adapter, exchange, MatchPolicy::Full));
    // Rank by rank, so that no stream is folded for an adapter that couldn't be chosen.
    let others = || {
        let trust = |of: usize| {
            if of == 1 {
                MatchPolicy::Errors
            } else {
                MatchPolicy::None
            }
        };
        let fits = |of: usize| {
            fallbacks()
                .filter(|adapter| rank(adapter) == of)
                .find(|adapter| fits(*adapter, exchange, trust(of)))
        };
        (0..3).find_map(fits)
    };
    own_fits.or_else(others).or(own)
}

/// What is taken to be of a dialect because of the company that it keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MatchPolicy {
    /// Nothing: every body must have the dialect's form.
    None,
    /// Errors that answer a request of its form.
    Errors,
    /// Those, and streams that do, which would be dear to fold twice.
    Full,
}

/// One adapter per dialect, the plainest of each; where nothing else tells, they are asked in this
/// order.
fn fallbacks() -> impl Iterator<Item = &'static dyn Adapter> {
    let plain: [&'static dyn Adapter; 7] = [
        &anthropic::MESSAGES,
        &gemini::GENERATE,
        &bedrock_converse::CONVERSE,
        // Requests of both look alike, and far more servers speak OpenAI's dialect.
        &UNKNOWN_CHAT,
        &ollama::CHAT,
        &UNKNOWN_RESPONSES,
        &openrouter::CHAT,
    ];
    let azure: [&'static dyn Adapter; 2] = [&AZURE_CHAT, &anthropic::VERTEX];
    plain.into_iter().chain(azure)
}

/// True if every body of the exchange is of the adapter's dialect.
fn fits(adapter: &dyn Adapter, exchange: &Exchange, trust: MatchPolicy) -> bool {
    let request = exchange.request.map(|body| adapter.is_request(body));
    // Before its response is looked at: a stream is dear to fold.
    if request == Some(false) {
        return false;
    }
    let answers = |body: &Json| {
        let failed = request == Some(true) && trust != MatchPolicy::None;
        adapter.is_response(body) || (failed && adapter.errors().read(body).is_some())
    };
    let response = match &exchange.response {
        ResponseBody::None => None,
        ResponseBody::Json(body) => Some(answers(body)),
        ResponseBody::Stream(_) if request == Some(true) && trust == MatchPolicy::Full => {
            Some(true)
        }
        ResponseBody::Stream(_) => exchange
            .folded(adapter)
            .map(|fold| answers(&fold.folded.body)),
    };
    response != Some(false) && (request.is_some() || response.is_some())
}

/// The adapter whose dialect a bare request body is most likely of.
pub fn detect_request(body: &Json) -> Option<&'static dyn Adapter> {
    let any = |keys: &[&str]| keys.iter().any(|key| body.get(key).is_some());
    // What looks like one dialect may still be of another: many endpoints take Claude's name for a
    // model.
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

/// The adapter whose dialect a bare response body is most likely of.
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

/// What only a Converse request has: blocks that name their kind by their one member.
fn looks_like_converse(body: &Json) -> bool {
    body.get("inferenceConfig").is_some()
        || body.get("toolConfig").is_some()
        || (bedrock_converse::CONVERSE.is_request(body) && body.get("model").is_none())
}

/// What an Anthropic request has and an OpenAI one can't: a system prompt beside the list, or
/// blocks and tools of its kind; else a model of its kind, if nothing is of OpenAI's kind.
fn looks_like_claude(body: &Json) -> bool {
    let items = |key| body.get(key).and_then(Json::as_array).unwrap_or_default();
    let (messages, tools) = (items("messages"), items("tools"));
    if body.get("inferenceConfig").is_some() || body.get("toolConfig").is_some() {
        return false;
    }
    let own_block = |block: &Json| {
        matches!(
            block.get("type").and_then(Json::as_str),
            Some("tool_use" | "tool_result" | "thinking")
        )
    };
    let contents = messages
        .iter()
        .filter_map(|message| message.get("content").and_then(Json::as_array));
    let is_own = body.get("system").is_some()
        || body.get("anthropic_version").is_some()
        || tools.iter().any(|tool| tool.get("input_schema").is_some())
        || contents.flatten().any(own_block);
    let named = || {
        body.get("model")
            .and_then(Json::as_str)
            .is_some_and(|model| model.contains("claude"))
    };
    let of_openai = |message: &Json| {
        let role = message.get("role").and_then(Json::as_str);
        message.get("tool_calls").is_some() || matches!(role, Some("system" | "developer" | "tool"))
    };
    let is_openai = || {
        tools.iter().any(|tool| tool.get("function").is_some()) || messages.iter().any(of_openai)
    };
    is_own || (named() && !is_openai())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_adapter_has_a_key_of_its_own() {
        let keys: Vec<_> = adapters().map(|adapter| adapter.key()).collect();
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        assert!(
            keys.iter()
                .all(|key| by_key(key).is_some() && key.split('/').count() == 2)
        );
    }

    #[test]
    fn bare_bodies_are_told_apart() {
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
        // Claude behind OpenAI's dialect, and Converse with instructions.
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
    fn an_exchange_is_read_by_the_adapter_that_it_fits() {
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
