//! Capabilities of models, and the check whether a model can handle a turn (§7.2).

/// The capabilities of a model as exposed by its adapter: a feature that the adapter does not
/// expose is `false`, even if the model has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Supports thinking blocks in input and output.
    pub supports_thinking: bool,
    /// Supports images as input.
    pub supports_images: bool,
    /// Supports tool definitions.
    pub supports_tools: bool,
    /// Supports system prompts.
    pub supports_system_prompt: bool,
    /// Supports output that matches a schema.
    pub supports_structured_output: bool,
    /// Supports streamed answers.
    pub supports_streaming: bool,
    /// Supports streamed tool calls.
    pub supports_streaming_tool_calls: bool,
    /// Supports several tool calls in one answer.
    pub supports_parallel_tool_calls: bool,
    /// Supports prompt caching.
    pub supports_prompt_caching: bool,
    /// Takes system prompts as messages in the list instead of a separate field.
    pub supports_system_messages_in_list: bool,
    /// The maximum number of input and output tokens together.
    pub max_context_tokens: u64,
    /// The maximum number of output tokens.
    pub max_output_tokens: u64,
    /// The accepted media types of images; relevant only if images are supported.
    pub accepted_image_media_types: &'static [&'static str],
}

/// The image types that the major providers accept.
pub const COMMON_IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

impl Capabilities {
    /// The defaults for undeclared models: tools and system prompts, no structured output (routing
    /// §4.4).
    pub const UNDECLARED: Capabilities = Capabilities {
        supports_thinking: false,
        supports_images: true,
        supports_tools: true,
        supports_system_prompt: true,
        supports_structured_output: false,
        supports_streaming: true,
        supports_streaming_tool_calls: true,
        supports_parallel_tool_calls: true,
        supports_prompt_caching: false,
        supports_system_messages_in_list: true,
        max_context_tokens: 200_000,
        max_output_tokens: 8_192,
        accepted_image_media_types: COMMON_IMAGE_TYPES,
    };
}

/// The availability of a model's provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// The provider is available.
    Available,
    /// No key or address is configured.
    NotConfigured,
    /// The provider has failed too often recently.
    Unavailable,
}

/// The requirements of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnNeeds {
    /// History or input contain images.
    pub has_images: bool,
    /// The estimated number of input tokens.
    pub estimated_input_tokens: u64,
    /// The turn has tool definitions.
    pub has_tool_definitions: bool,
    /// The turn has a system prompt.
    pub has_system_prompt: bool,
    /// The output must match a schema.
    pub requires_structured_output: bool,
}

/// The reason why a model can't handle a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// No key or address is configured for the provider.
    NotConfigured,
    /// The provider has failed too often recently.
    ProviderUnavailable,
    /// The model does not support images.
    NoVisionSupport,
    /// The input exceeds the context window.
    ExceedsContextWindow,
    /// The model does not support tools.
    NoToolSupport,
    /// The model does not support system prompts.
    NoSystemPromptSupport,
    /// The model does not support structured output.
    NoStructuredOutputSupport,
}

impl Rejection {
    /// Returns the name of the reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Rejection::NotConfigured => "not_configured",
            Rejection::ProviderUnavailable => "provider_unavailable",
            Rejection::NoVisionSupport => "no_vision_support",
            Rejection::ExceedsContextWindow => "exceeds_context_window",
            Rejection::NoToolSupport => "no_tool_support",
            Rejection::NoSystemPromptSupport => "no_system_prompt_support",
            Rejection::NoStructuredOutputSupport => "no_structured_output_support",
        }
    }
}

/// Returns the first reason, in the order of the routing engine, why `model` can't handle `turn`;
/// `None` if it can.
pub fn rejection(
    availability: Availability,
    model: &Capabilities,
    turn: &TurnNeeds,
) -> Option<Rejection> {
    let checks = [
        (
            availability == Availability::NotConfigured,
            Rejection::NotConfigured,
        ),
        (
            availability == Availability::Unavailable,
            Rejection::ProviderUnavailable,
        ),
        (
            turn.has_images && !model.supports_images,
            Rejection::NoVisionSupport,
        ),
        (
            turn.estimated_input_tokens > model.max_context_tokens,
            Rejection::ExceedsContextWindow,
        ),
        (
            turn.has_tool_definitions && !model.supports_tools,
            Rejection::NoToolSupport,
        ),
        (
            turn.has_system_prompt && !model.supports_system_prompt,
            Rejection::NoSystemPromptSupport,
        ),
        (
            turn.requires_structured_output && !model.supports_structured_output,
            Rejection::NoStructuredOutputSupport,
        ),
    ];
    checks
        .into_iter()
        .find(|(fails, _)| *fails)
        .map(|(_, rejection)| rejection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_wins_and_the_context_window_is_exact() {
        let model = Capabilities {
            supports_images: false,
            max_context_tokens: 100,
            ..Capabilities::UNDECLARED
        };
        let turn = |images, tokens| TurnNeeds {
            has_images: images,
            estimated_input_tokens: tokens,
            ..Default::default()
        };
        assert_eq!(
            rejection(Availability::Available, &model, &turn(false, 100)),
            None
        );
        assert_eq!(
            rejection(Availability::Available, &model, &turn(false, 101)),
            Some(Rejection::ExceedsContextWindow)
        );
        assert_eq!(
            rejection(Availability::Available, &model, &turn(true, 101)),
            Some(Rejection::NoVisionSupport)
        );
        assert_eq!(
            rejection(Availability::Unavailable, &model, &turn(true, 0)),
            Some(Rejection::ProviderUnavailable)
        );
    }
}
