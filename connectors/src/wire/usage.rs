//! Accessors for the token counts of bodies. Their meaning is defined in
//! [`token_counts`](gristmill_schemas::message::token_counts).

use gristmill_schemas::json::Json;
use gristmill_schemas::message::request::TokenUsage;
use gristmill_schemas::message::token_counts::{PromptCount, token_count};

use super::json_access::count;
use super::read_warning::ReadWarningKind;

/// Returns the disjoint counts; warns if the cache counts exceed the prompt.
pub fn disjoint(counts: PromptCount, warn: &mut dyn FnMut(ReadWarningKind)) -> TokenUsage {
    if !counts.is_consistent() {
        let PromptCount {
            prompt,
            cached,
            written,
            ..
        } = counts;
        warn(ReadWarningKind::InconsistentUsage {
            prompt,
            cached,
            written,
        });
    }
    counts.usage()
}

/// Returns the largest of the counts under `keys`, for counts with several names; 0 if there is
/// none.
pub fn largest(json: &Json, keys: &[&str]) -> u64 {
    keys.iter().map(|key| count(json, key)).max().unwrap_or(0)
}

/// Returns the first count found: each pair is an object and the keys to try in it. 0 if there is
/// none.
pub fn first(candidates: &[(&Json, &[&str])]) -> u64 {
    let counts = candidates
        .iter()
        .flat_map(|(json, keys)| keys.iter().filter_map(|key| json.get(key)));
    counts.filter_map(token_count).next().unwrap_or(0)
}
