//! Comparison of an answer with its target: generated ids by position, JSON in strings by value,
//! and the deliberate differences of §17 by name.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::block::raw_arguments;
use gristmill_schemas::message::ids::is_tool_use_id;
use gristmill_schemas::message::tool_ids::ToolIdMap;

/// The rows of the digest's §17 by which an answer differs from its case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows(BTreeSet<Row>);

/// A row of §17 that occurs in cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// 1: canonical ids of calls are always minted, never the provider's.
    MintedIds,
    /// 5: only complete messages are validated.
    CompleteOnly,
    /// 7: the call in the metadata of a result is compared with that of its block.
    ParentCompared,
    /// 11: redacted thinking survives a stream.
    RedactedKept,
    /// 12: the last delta of a thought carries its signature.
    SignatureTold,
    /// 14: a stream without an end has its calls ended and ends with an error.
    CutClosed,
    /// 15: the path of a file isn't sent as its data.
    PathNotSent,
    /// 16: a message without any writable block is omitted.
    NothingToSay,
    /// 17: unsigned thinking, and that of other providers, isn't sent.
    ThinkingDropped,
    /// 18: the prompt's token count is the sum of its parts.
    PromptIsSum,
    /// No row of §17: arguments that are no JSON object are kept where the reference has an empty
    /// object.
    ArgumentsKept,
    /// No row of §17: the counts of a prompt are disjoint where the reference has counts that
    /// overlap.
    CountsDisjoint,
    /// No row of §17: a cache larger than the prompt is counted in addition to it, where the
    /// reference has no input.
    CacheAdded,
}

impl Rows {
    /// Returns no rows.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a row.
    pub fn add(&mut self, row: Row) {
        self.0.insert(row);
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.0.iter().map(|row| match row {
            Row::MintedIds => {
                "row 1 (call ids are minted; the map resolves them to the provider's)"
            }
            Row::CompleteOnly => "row 5 (only complete messages are validated)",
            Row::ParentCompared => "row 7 (a result names the call of its metadata)",
            Row::RedactedKept => "row 11 (redacted thinking is kept in streams)",
            Row::SignatureTold => "row 12 (a last thinking.delta carries the signature)",
            Row::CutClosed => "row 14 (a stream without an end ends its calls, and with an error)",
            Row::PathNotSent => "row 15 (the path of a file isn't sent as its data)",
            Row::NothingToSay => "row 16 (a message without anything to say is not written)",
            Row::ThinkingDropped => "row 17 (unsigned or foreign thinking isn't sent)",
            Row::PromptIsSum => "row 18 (prompt_tokens is the sum of its parts)",
            Row::ArgumentsKept => {
                "kept arguments (those that are no JSON object are kept as they are)"
            }
            Row::CountsDisjoint => {
                "disjoint counts (tokens that were read and written are counted once)"
            }
            Row::CacheAdded => {
                "added cache (one that is larger than the prompt is counted in addition to it)"
            }
        });
        formatter.write_str(&told.collect::<Vec<_>>().join(", "))
    }
}

/// Compares answers with targets and records which id corresponds to which.
pub struct Matcher<'m> {
    ids: &'m ToolIdMap,
    provider: &'m str,
    minted: HashMap<String, String>,
    /// Rows by which the answer differed.
    pub rows: Rows,
}

impl<'m> Matcher<'m> {
    /// A matcher with the provider's ids of calls.
    pub fn new(ids: &'m ToolIdMap, provider: &'m str) -> Self {
        Matcher {
            ids,
            provider,
            minted: HashMap::new(),
            rows: Rows::default(),
        }
    }

    /// Succeeds unless `answer` differs from `target`.
    ///
    /// # Errors
    /// The path and both values, if they differ.
    pub fn matches(&mut self, target: &Json, answer: &Json, path: &str) -> Result<(), String> {
        match (target, answer) {
            (Json::Object(wanted), Json::Object(found))
                if wanted.is_empty() && raw_arguments(found).is_some() =>
            {
                self.rows.add(Row::ArgumentsKept);
                Ok(())
            }
            (Json::Object(wanted), Json::Object(found)) => {
                for (key, value) in found.iter() {
                    let key_wanted = self.key_of(wanted.keys(), key);
                    let Some(target) = key_wanted.and_then(|key| wanted.get(&key)) else {
                        return Err(format!("{path}.{key}: not expected, found {value}"));
                    };
                    self.matches(target, value, &format!("{path}.{key}"))?;
                }
                if wanted.len() != found.len() {
                    let missing = wanted
                        .keys()
                        .find(|key| !found.contains_key(key))
                        .unwrap_or_default();
                    return Err(format!("{path}.{missing}: expected, didn't come"));
                }
                Ok(())
            }
            (Json::Array(wanted), Json::Array(found)) => {
                if wanted.len() != found.len() {
                    return Err(format!(
                        "{path}: expected {} items, found {}: {answer}",
                        wanted.len(),
                        found.len()
                    ));
                }
                let pairs = wanted.iter().zip(found).enumerate();
                pairs.into_iter().try_for_each(|(at, (target, answer))| {
                    self.matches(target, answer, &format!("{path}[{at}]"))
                })
            }
            (Json::String(wanted), Json::String(found)) if self.same_text(wanted, found) => Ok(()),
            (target, answer) if target == answer => Ok(()),
            (target, answer) => Err(format!("{path}: expected {target}, found {answer}")),
        }
    }

    /// Returns the target's key that corresponds to `found`.
    fn key_of<'k>(
        &mut self,
        mut wanted: impl Iterator<Item = &'k str>,
        found: &str,
    ) -> Option<String> {
        wanted
            .find(|wanted| self.same_text(wanted, found))
            .map(str::to_owned)
    }

    fn same_text(&mut self, wanted: &str, found: &str) -> bool {
        if wanted == found {
            return true;
        }
        if let Some((prefix, _)) = wanted.split_once("$ULID") {
            return self.same_minted(wanted, prefix, found);
        }
        if is_tool_use_id(found) && self.ids.wire_id(self.provider, found) == Some(wanted) {
            self.rows.add(Row::MintedIds);
            return true;
        }
        same_json_text(wanted, found)
    }

    /// `$ULID…` in a target matches one generated ULID, the same throughout a case.
    fn same_minted(&mut self, wanted: &str, prefix: &str, found: &str) -> bool {
        if let Some(known) = self.minted.get(wanted) {
            return known == found;
        }
        let is_ulid = found
            .strip_prefix(prefix)
            .is_some_and(|ulid| is_tool_use_id(&format!("tu_{ulid}")));
        let is_new = !self.minted.values().any(|known| known == found);
        if is_ulid && is_new {
            self.minted.insert(wanted.to_owned(), found.to_owned());
        }
        is_ulid && is_new
    }
}

/// JSON text inside strings is compared by value.
fn same_json_text(wanted: &str, found: &str) -> bool {
    let is_json = |text: &str| text.starts_with(['{', '[']);
    is_json(wanted)
        && is_json(found)
        && matches!((Json::parse(wanted.as_bytes()), Json::parse(found.as_bytes())), (Ok(wanted), Ok(found)) if wanted == found)
}

/// Compares without ids.
///
/// # Errors
/// Like [`Matcher::matches`].
pub fn same(target: &Json, answer: &Json) -> Result<Rows, String> {
    let ids = ToolIdMap::new();
    let mut matcher = Matcher::new(&ids, "");
    matcher.matches(target, answer, "$")?;
    Ok(matcher.rows)
}
