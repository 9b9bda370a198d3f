//! Arithmetic of token counts, for logs that state sums of several answers.

use gristmill_schemas::message::request::TokenUsage;

/// Returns the counts of both.
pub(super) fn sum(one: TokenUsage, two: TokenUsage) -> TokenUsage {
    TokenUsage {
        input_tokens: one.input_tokens.saturating_add(two.input_tokens),
        output_tokens: one.output_tokens.saturating_add(two.output_tokens),
        cached_input_tokens: one
            .cached_input_tokens
            .saturating_add(two.cached_input_tokens),
        cache_creation_input_tokens: one
            .cache_creation_input_tokens
            .saturating_add(two.cache_creation_input_tokens),
    }
}

/// Returns what `total` counts beyond `before`; `None` if it counts less in a class.
pub(super) fn difference(total: TokenUsage, before: TokenUsage) -> Option<TokenUsage> {
    let rest = excess(total, before);
    (sum(rest, before) == total).then_some(rest)
}

/// Returns what `total` counts beyond `before` in each class; 0 where it counts less.
pub(super) fn excess(total: TokenUsage, before: TokenUsage) -> TokenUsage {
    TokenUsage {
        input_tokens: total.input_tokens.saturating_sub(before.input_tokens),
        output_tokens: total.output_tokens.saturating_sub(before.output_tokens),
        cached_input_tokens: total
            .cached_input_tokens
            .saturating_sub(before.cached_input_tokens),
        cache_creation_input_tokens: total
            .cache_creation_input_tokens
            .saturating_sub(before.cache_creation_input_tokens),
    }
}
