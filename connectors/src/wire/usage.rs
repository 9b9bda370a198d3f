//! Small looks at the counts of tokens in bodies. What the counts mean is in
//! [`token_counts`](gristmill_schemas::message::token_counts).

use gristmill_schemas::json::Json;
use gristmill_schemas::message::request::TokenUsage;
use gristmill_schemas::message::token_counts::PromptCount;

use super::members::count;
use super::read::ReadWarningKind;

/// The disjoint counts, with a warning if those of the cache don't fit into the prompt.
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

/// The largest of the counts under `keys`, for counts that have several names; 0 if there is none.
pub fn largest(json: &Json, keys: &[&str]) -> u64 {
    keys.iter().map(|key| count(json, key)).max().unwrap_or(0)
}

/// The first count that is there under one of the keys of each of `places` in turn; 0 if there is
/// none.
pub fn first(places: &[(&Json, &[&str])]) -> u64 {
    let counts = places
        .iter()
        .flat_map(|(json, keys)| keys.iter().filter_map(|key| json.get(key)));
    counts.filter_map(Json::as_u64).next().unwrap_or(0)
}
