//! What a model can take, and whether a turn may go to it (§7.2).

/// What an adapter exposes of a model. It must be honest: a feature that the adapter doesn't expose
/// is `false`, even if the model has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Thinking blocks go in and come out.
    pub supports_thinking: bool,
    /// Images go in.
    pub supports_images: bool,
    /// Tools can be declared.
    pub supports_tools: bool,
    /// There is a place for instructions.
    pub supports_system_prompt: bool,
    /// Output can be bound to a schema.
    pub supports_structured_output: bool,
    /// Answers can come piece by piece.
    pub supports_streaming: bool,
    /// Calls can come piece by piece.
    pub supports_streaming_tool_calls: bool,
    /// One answer can hold several calls.
    pub supports_parallel_tool_calls: bool,
    /// The prompt can be cached.
    pub supports_prompt_caching: bool,
    /// Instructions stand in the list of messages instead of beside it.
    pub supports_system_messages_in_list: bool,
    /// Tokens of input and output together.
    pub max_context_tokens: u64,
    /// Tokens of output.
    pub max_output_tokens: u64,
    /// Media types of images; counts only where images go in.
    pub accepted_image_media_types: &'static [&'static str],
}

/// The image types that the large providers take.
pub const COMMON_IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

impl Capabilities {
    /// What is assumed of a model that nobody declared: tools and instructions yes, structured
    /// output no (routing §4.4).
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

/// Whether a model's provider can be reached at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    Available,
    /// No key or address is set for it.
    NotConfigured,
    /// It failed too often lately.
    Unavailable,
}

/// What a turn needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnNeeds {
    /// Its history or input holds images.
    pub has_images: bool,
    /// Its input is about so long, in tokens.
    pub estimated_input_tokens: u64,
    /// It declares tools.
    pub has_tool_definitions: bool,
    /// It has instructions.
    pub has_system_prompt: bool,
    /// Its output must match a schema.
    pub requires_structured_output: bool,
}

/// Why a turn may not go to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// No key or address is set for its provider.
    NotConfigured,
    /// Its provider failed too often lately.
    ProviderUnavailable,
    /// It sees no images.
    NoVisionSupport,
    /// The input is too long for it.
    ExceedsContextWindow,
    /// It calls no tools.
    NoToolSupport,
    /// It takes no instructions.
    NoSystemPromptSupport,
    /// Its output can't be bound to a schema.
    NoStructuredOutputSupport,
}

impl Rejection {
    /// The reason as it is written.
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

/// Why a turn may not go to a model, if it may not: the first reason in the order of the routing
/// engine.
pub fn reject(
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
    fn the_first_reason_wins_and_the_window_is_taken_to_its_edge() {
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
            reject(Availability::Available, &model, &turn(false, 100)),
            None
        );
        assert_eq!(
            reject(Availability::Available, &model, &turn(false, 101)),
            Some(Rejection::ExceedsContextWindow)
        );
        assert_eq!(
            reject(Availability::Available, &model, &turn(true, 101)),
            Some(Rejection::NoVisionSupport)
        );
        assert_eq!(
            reject(Availability::Unavailable, &model, &turn(true, 0)),
            Some(Rejection::ProviderUnavailable)
        );
    }
}
