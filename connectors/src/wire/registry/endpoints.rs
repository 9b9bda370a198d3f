//! The tables of adapters. An endpoint that uses a known dialect is one entry here.

use super::super::adapter::Adapter;
use super::super::openai_chat::{ChatDialect, OpenAiChat, ReasoningPlacement};
use super::super::openai_responses::OpenAiResponses;
use super::super::response_defaults::ResponseDefaults;
use super::super::{anthropic, bedrock_converse, gemini, ollama, openrouter};

/// Adapters of dialects other than OpenAI's.
pub(super) static OTHER_DIALECTS: [&dyn Adapter; 8] = [
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
pub(super) static AZURE_CHAT: OpenAiChat = OpenAiChat::new(ChatDialect {
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
pub(super) static MISTRAL_CHAT: OpenAiChat = OpenAiChat::new(ChatDialect {
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
pub(super) static UNKNOWN_RESPONSES: OpenAiResponses =
    OpenAiResponses::new("unknown-compat/responses");
/// Chat endpoints of unknown providers.
pub(super) static UNKNOWN_CHAT: OpenAiChat =
    chat("unknown-compat/chat", REASONING_CONTENT, false, VLLM);

/// Endpoints of other providers that use OpenAI's Responses dialect.
pub(super) static RESPONSES: [OpenAiResponses; 6] = [
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

/// Endpoints that use OpenAI's chat dialect: key, placement of thinking, whether calls in
/// responses are numbered, and default members of responses.
pub(super) static CHAT: [OpenAiChat; 25] = [
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
