//! Arithmetic of token counts, for logs that state sums of several answers.

use gristmill_schemas::message::request::TokenUsage;

/// Returns `combine` of the counts of each class.
fn by_class(one: TokenUsage, two: TokenUsage, combine: fn(u64, u64) -> u64) -> TokenUsage {
    TokenUsage {
        input_tokens: combine(one.input_tokens, two.input_tokens),
        output_tokens: combine(one.output_tokens, two.output_tokens),
        cached_input_tokens: combine(one.cached_input_tokens, two.cached_input_tokens),
        cache_creation_input_tokens: combine(
            one.cache_creation_input_tokens,
            two.cache_creation_input_tokens,
        ),
    }
}

/// Returns the counts of both.
pub(super) fn sum(one: TokenUsage, two: TokenUsage) -> TokenUsage {
    by_class(one, two, u64::saturating_add)
}

/// Returns what `total` counts beyond `before`; `None` if it counts less in a class.
pub(super) fn difference(total: TokenUsage, before: TokenUsage) -> Option<TokenUsage> {
    let rest = excess(total, before);
    (sum(rest, before) == total).then_some(rest)
}

/// Returns what `total` counts beyond `before` in each class; 0 where it counts less.
pub(super) fn excess(total: TokenUsage, before: TokenUsage) -> TokenUsage {
    by_class(total, before, u64::saturating_sub)
}
