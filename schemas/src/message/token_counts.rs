//! Conversion of the token counts of providers and of grains to four disjoint classes.
//!
//! | class | what is counted |
//! |---|---|
//! | `input_tokens` | input that was neither read from nor written to a cache |
//! | `cached_input_tokens` | input read from a cache |
//! | `cache_creation_input_tokens` | input written to a cache |
//! | `output_tokens` | output, reasoning included |
//!
//! Every token is in exactly one class: the first three sum to the prompt, and all four to the
//! billed tokens (§4.3). Anthropic and Bedrock use these classes. OpenAI's APIs and Gemini report
//! the whole prompt and the cached part of it, which [`PromptCount`] separates.

use super::request::TokenUsage;
use crate::json::Json;

/// Token counts of a provider that reports the whole prompt.
#[derive(Debug, Clone, Copy, Default)]
pub struct PromptCount {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Tokens read from a cache.
    pub cached: u64,
    /// Tokens written to a cache.
    pub written: u64,
    /// Generated tokens, including reasoning.
    pub output: u64,
    /// The total that the provider reports; 0 if it reports none.
    pub total: u64,
}

impl PromptCount {
    /// Returns true if the cache counts do not exceed the prompt.
    pub fn is_consistent(&self) -> bool {
        self.cached.saturating_add(self.written) <= self.prompt
    }

    /// Returns the disjoint counts.
    ///
    /// The cache counts are part of the prompt unless that is impossible: if `total` is the sum of
    /// prompt, cache counts and output, or if a cache count exceeds the prompt, they are added to
    /// it. If they are part of the prompt but their sum exceeds it, the same tokens were counted as
    /// read and as written, and are taken as read.
    pub fn usage(self) -> TokenUsage {
        let PromptCount {
            prompt,
            cached,
            written,
            output,
            total,
        } = self;
        let cache_total = cached.saturating_add(written);
        let is_additional =
            cache_total > 0 && total == prompt.saturating_add(cache_total).saturating_add(output);
        let (input, written) = match prompt.checked_sub(cached) {
            Some(rest) if !is_additional && written <= prompt => {
                (rest.saturating_sub(written), written.min(rest))
            }
            _ => (prompt, written),
        };
        TokenUsage {
            input_tokens: input,
            output_tokens: output,
            cached_input_tokens: cached,
            cache_creation_input_tokens: written,
        }
    }
}

/// Returns the generated tokens including reasoning. `generated` is assumed to include `reasoning`
/// unless `total` is the sum of all three.
pub fn with_reasoning(generated: u64, reasoning: u64, prompt: u64, total: u64) -> u64 {
    let both = generated.saturating_add(reasoning);
    if prompt.saturating_add(both) == total {
        both
    } else {
        generated
    }
}

/// Names of the counts in a `token_usage`, in the order of lookup: those of the canonical message,
/// of the grain specification, and of providers.
const CACHED: [&str; 4] = [
    "cached_input_tokens",
    "cache_read_tokens",
    "cache_read_input_tokens",
    "cached_tokens",
];
const WRITTEN: [&str; 3] = [
    "cache_creation_input_tokens",
    "cache_creation_tokens",
    "cache_write_tokens",
];
const OUTPUT: [&str; 2] = ["output_tokens", "completion_tokens"];

/// Reads the counts of a grain's `token_usage` under any of the names in use.
///
/// A count under `input_tokens` excludes the cache counts. `prompt_tokens`, and `input_tokens` next
/// to `input_tokens_details`, are OpenAI's names for the whole prompt.
pub fn read_token_usage(counts: &Json) -> TokenUsage {
    let in_prompt = |keys: &[&str]| {
        let details = ["prompt_tokens_details", "input_tokens_details"]
            .iter()
            .find_map(|key| counts.get(key));
        first(counts, keys)
            .or_else(|| first(details?, keys))
            .unwrap_or(0)
    };
    let input = first(counts, &["input_tokens"]);
    let prompt = match input {
        Some(input) if counts.get("input_tokens_details").is_some() => Some(input),
        Some(_) => None,
        None => first(counts, &["prompt_tokens"]),
    };
    let (cached, written) = (in_prompt(&CACHED), in_prompt(&WRITTEN));
    let output = first(counts, &OUTPUT).unwrap_or(0);
    match prompt {
        Some(prompt) => {
            let total = first(counts, &["total_tokens"]).unwrap_or(0);
            PromptCount {
                prompt,
                cached,
                written,
                output,
                total,
            }
            .usage()
        }
        None => TokenUsage {
            input_tokens: input.unwrap_or(0),
            output_tokens: output,
            cached_input_tokens: cached,
            cache_creation_input_tokens: written,
        },
    }
}

fn first(json: &Json, keys: &[&str]) -> Option<u64> {
    keys.iter().find_map(|key| token_count(json.get(key)?))
}

/// The largest number that counts as a number of tokens: 2^53, up to which doubles are exact.
const MAX_TOKENS: u64 = 1 << 53;

/// Reads one count: a whole number, however it is spelled (`1000`, `1000.0`, `1e3`, `"1000"`).
/// Exports by way of tables and spreadsheets have such. `None` for anything else, for negative
/// numbers, and for those beyond 2^53, of which sums would overflow.
pub fn token_count(json: &Json) -> Option<u64> {
    let spelled = match json {
        Json::String(text) => text.trim().parse().ok(),
        number => number.as_u64(),
    };
    let whole = || {
        let number = json.as_f64()?;
        let is_count = number.fract() == 0.0 && (0.0..=MAX_TOKENS as f64).contains(&number);
        is_count.then_some(number as u64)
    };
    spelled.or_else(whole).filter(|count| *count <= MAX_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_in_one_class() {
        for (name, [prompt, cached, written, output, total], expected, is_odd) in [
            (
                "part of the prompt",
                [100, 80, 10, 5, 105],
                [10, 5, 80, 10],
                false,
            ),
            ("all of it", [100, 100, 0, 5, 105], [0, 5, 100, 0], false),
            ("no total", [100, 80, 10, 5, 0], [10, 5, 80, 10], false),
            (
                "in addition to the prompt, by the total",
                [100, 80, 0, 5, 185],
                [100, 5, 80, 0],
                false,
            ),
            (
                "more cached than the prompt has",
                [12, 500, 0, 5, 17],
                [12, 5, 500, 0],
                true,
            ),
            (
                "more cached, and written",
                [12, 500, 40, 5, 0],
                [12, 5, 500, 40],
                true,
            ),
            (
                "read and written overlap",
                [100, 80, 50, 5, 105],
                [0, 5, 80, 20],
                true,
            ),
            ("counted twice", [100, 90, 90, 5, 105], [0, 5, 90, 10], true),
            (
                "written more than the prompt has",
                [100, 0, 150, 5, 105],
                [100, 5, 0, 150],
                true,
            ),
            ("nothing", [0, 0, 0, 0, 0], [0, 0, 0, 0], false),
        ] {
            let count = PromptCount {
                prompt,
                cached,
                written,
                output,
                total,
            };
            assert_eq!(
                (classes(count.usage()), !count.is_consistent()),
                (expected, is_odd),
                "{name}"
            );
        }
    }

    fn classes(usage: TokenUsage) -> [u64; 4] {
        let TokenUsage {
            input_tokens,
            output_tokens,
            cached_input_tokens,
            cache_creation_input_tokens,
        } = usage;
        [
            input_tokens,
            output_tokens,
            cached_input_tokens,
            cache_creation_input_tokens,
        ]
    }

    #[test]
    fn a_token_usage_is_read_under_all_names_without_double_counting() {
        for (counts, expected) in [
            (
                r#"{"input_tokens":20,"output_tokens":7,"cache_read_tokens":80,"cache_creation_tokens":3}"#,
                [20, 7, 80, 3],
            ),
            (
                r#"{"input_tokens":20,"output_tokens":7,"cached_input_tokens":80,"cache_creation_input_tokens":3}"#,
                [20, 7, 80, 3],
            ),
            (
                r#"{"input_tokens":20,"output_tokens":7,"cache_read_input_tokens":80}"#,
                [20, 7, 80, 0],
            ),
            // OpenAI's names: the prompt includes the cached tokens.
            (
                r#"{"prompt_tokens":100,"completion_tokens":7,"cached_tokens":80}"#,
                [20, 7, 80, 0],
            ),
            (
                r#"{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":80,"cache_write_tokens":5}}"#,
                [15, 7, 80, 5],
            ),
            (
                r#"{"input_tokens":100,"output_tokens":7,"input_tokens_details":{"cached_tokens":80}}"#,
                [20, 7, 80, 0],
            ),
            (
                r#"{"prompt_tokens":12,"cached_tokens":500}"#,
                [12, 0, 500, 0],
            ),
            (r#"{"output_tokens":"7","input_tokens":-1}"#, [0, 7, 0, 0]),
            (
                r#"{"input_tokens":1000.0,"output_tokens":1e3,"cached_tokens":" 5 "}"#,
                [1000, 1000, 5, 0],
            ),
            (
                r#"{"input_tokens":18446744073709551615,"output_tokens":0.5,"cached_tokens":"many"}"#,
                [0, 0, 0, 0],
            ),
            ("null", [0, 0, 0, 0]),
        ] {
            let json = Json::parse(counts.as_bytes()).unwrap();
            assert_eq!(classes(read_token_usage(&json)), expected, "{counts}");
        }
    }

    #[test]
    fn reasoning_is_counted_once() {
        assert_eq!(
            with_reasoning(15, 110, 741, 866),
            125,
            "counted in addition to what was generated"
        );
        assert_eq!(with_reasoning(125, 110, 741, 866), 125, "counted with it");
        assert_eq!(
            with_reasoning(125, 110, 741, 0),
            125,
            "without a total it is taken to be counted with it"
        );
    }
}
