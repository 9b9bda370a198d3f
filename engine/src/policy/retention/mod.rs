//! Retention by policy: how long grains are kept, and how long they must be kept at least.
//!
//! The first policy that covers a grain decides when it expires, counted from the creation second
//! in its header. Every floor that covers it binds: it is kept until the last of them has ended. A
//! grain that no policy covers never expires.

mod period;

use std::collections::HashSet;

use gristmill_schemas::grain::{Field, Grain, GrainType, Sensitivity};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

pub use period::{InvalidPeriod, Period};

use crate::error::{EngineError, Result};
use crate::text::NamePattern;

/// A policy or a floor: a period, and the grains that it covers: those that satisfy every list that
/// it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionRule {
    /// Its name in plans and certificates.
    pub name: String,
    /// How long grains are kept; of a floor, how long at least.
    pub period: Period,
    /// The law or contract that requires it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regulation: Option<String>,
    /// Types of grains.
    #[serde(
        default,
        deserialize_with = "with_items",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub types: Vec<String>,
    /// Namespaces.
    #[serde(
        default,
        deserialize_with = "with_items",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub namespaces: Vec<NamePattern>,
    /// Sensitivities of the header: `public`, `internal`, `pii`, `phi`.
    #[serde(
        default,
        deserialize_with = "with_items",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub sensitivity: Vec<String>,
    /// Structural tags, of which a grain must have one.
    #[serde(
        default,
        deserialize_with = "with_items",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub tags: Vec<NamePattern>,
}

/// Reads a list of a rule. An empty one, as templates make of no items, would cover every grain.
fn with_items<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<Vec<T>, D::Error> {
    let items = Vec::deserialize(deserializer)?;
    match items.is_empty() {
        true => Err(D::Error::custom(
            "the list is empty, so no grain would satisfy it: leave the key out to cover all",
        )),
        false => Ok(items),
    }
}

/// The rules of a file `retention.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionRules {
    /// The policies, in the order in which they are tried.
    #[serde(default, rename = "policy")]
    pub policies: Vec<RetentionRule>,
    /// The floors.
    #[serde(default, rename = "floor")]
    pub floors: Vec<RetentionRule>,
}

/// What the rules state about a grain whose period has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiredGrain<'r> {
    /// The index of the policy by which it expired.
    pub policy: usize,
    /// The floor that keeps it longest, with its end in milliseconds since 1970; `None` for a floor
    /// that never ends.
    pub floor: Option<(&'r RetentionRule, Option<i64>)>,
}

impl RetentionRule {
    /// Returns true if it covers `grain`.
    fn covers(&self, grain: &Grain<'_>) -> bool {
        let is_type = |name: &String| GrainType::from_name(name) == grain.grain_type();
        let sensitivity = grain.header().flags.sensitivity().name();
        let namespace = grain.text(Field::Namespace).unwrap_or_default();
        let has_tag = |pattern: &NamePattern| grain.tags().any(|tag| pattern.matches(tag));
        (self.types.is_empty() || self.types.iter().any(is_type))
            && (self.sensitivity.is_empty() || self.sensitivity.iter().any(|it| it == sensitivity))
            && (self.namespaces.is_empty()
                || self.namespaces.iter().any(|it| it.matches(namespace)))
            && (self.tags.is_empty() || self.tags.iter().any(has_tag))
    }

    fn check(&self) -> Result<()> {
        let owner = &self.name;
        let is_no_type = |name: &&String| GrainType::from_name(name).is_none();
        if let Some(name) = self.types.iter().find(is_no_type) {
            return Err(fault(owner, &format!("`{name}` is no type of grains")));
        }
        let is_no_class = |name: &&String| {
            (0..4).all(|bits| Sensitivity::from_bits(bits).name() != name.as_str())
        };
        match self.sensitivity.iter().find(is_no_class) {
            Some(name) => Err(fault(
                owner,
                &format!("`{name}` is no sensitivity: use public, internal, pii or phi"),
            )),
            None => Ok(()),
        }
    }
}

fn fault(owner: &str, what: &str) -> EngineError {
    EngineError::Request(format!("the retention rules, `{owner}`: {what}"))
}

impl RetentionRules {
    /// Checks the rules.
    ///
    /// # Errors
    /// [`EngineError::Request`] if there is no policy, a name is missing or used twice, or a type
    /// or sensitivity doesn't exist.
    pub fn check(&self) -> Result<()> {
        if self.policies.is_empty() {
            let message = "the retention rules have no policy, so nothing ever expires";
            return Err(EngineError::Request(message.to_owned()));
        }
        let mut names = HashSet::new();
        for rule in self.policies.iter().chain(&self.floors) {
            if rule.name.trim().is_empty() {
                return Err(fault(&rule.name, "the name is empty"));
            }
            if !names.insert(&rule.name) {
                return Err(fault(&rule.name, "the name is used twice"));
            }
            rule.check()?;
        }
        Ok(())
    }

    /// Returns what the rules state about `grain` at `now` (milliseconds since 1970), or `None` if
    /// it hasn't expired.
    pub fn expired(&self, grain: &Grain<'_>, now: i64) -> Option<ExpiredGrain<'_>> {
        let created = i64::from(grain.header().created_at_seconds) * 1_000;
        let covering = self.policies.iter().position(|it| it.covers(grain))?;
        let period = self.policies.get(covering)?.period;
        period.after(created).filter(|end| *end <= now)?;
        let floors = self.floors.iter().filter(|it| it.covers(grain));
        let ends = floors.map(|floor| (floor, floor.period.after(created)));
        let binding = ends.filter(|(_, end)| end.is_none_or(|end| end > now));
        Some(ExpiredGrain {
            policy: covering,
            floor: binding.max_by_key(|(_, end)| end.unwrap_or(i64::MAX)),
        })
    }

    /// Returns the last creation second at which a grain can have expired at `now` (milliseconds
    /// since 1970), or `None` if none can. O(32) per policy.
    pub(crate) fn last_expired_second(&self, now: i64) -> Option<u32> {
        let last = |period: Period| {
            let is_expired = |second: u32| {
                let end = period.after(i64::from(second) * 1_000);
                end.is_some_and(|end| end <= now)
            };
            // Later grains expire later: the boundary is found by bisection.
            let (mut low, mut high) = (0_u64, 1_u64 << 32);
            while low < high {
                let middle = (low + high) / 2;
                match is_expired(middle as u32) {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            low.checked_sub(1).map(|second| second as u32)
        };
        self.policies.iter().filter_map(|it| last(it.period)).max()
    }
}

#[cfg(test)]
mod tests;
