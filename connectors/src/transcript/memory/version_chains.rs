//! Chains of versions of facts.

use std::collections::{HashMap, HashSet};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::message::Timestamp;

use super::fact::Fact;
use crate::transcript::parsed::ParsedPart;

/// The versions of facts, by the key of the fact.
#[derive(Debug, Default)]
pub(super) struct VersionChains {
    /// The keys in the order of their first versions.
    order: Vec<String>,
    chains: HashMap<String, FactVersions>,
}

/// The versions of one fact.
#[derive(Debug, Default)]
struct FactVersions {
    versions: Vec<Fact>,
    /// The index of the version with the latest time, of equal ones the last.
    newest: usize,
    /// The latest time at which the fact ended, also before a version was added.
    ended: Option<Timestamp>,
    /// The objects of the first `indexed` versions.
    objects: HashSet<String>,
    indexed: usize,
}

impl FactVersions {
    fn push(&mut self, version: Fact) {
        let newest = self.versions.get(self.newest);
        if newest.is_none_or(|newest| newest.created_at <= version.created_at) {
            self.newest = self.versions.len();
        }
        // Of what has the same time, the version is the later one.
        self.ended = self.ended.filter(|ended| version.created_at < *ended);
        self.versions.push(version);
    }

    /// Returns true if a version has this object.
    fn has_object(&mut self, object: &str) -> bool {
        let added = self.versions.get(self.indexed..).unwrap_or_default();
        let objects = added.iter().map(|version| version.object.clone());
        self.objects.extend(objects);
        self.indexed = self.versions.len();
        self.objects.contains(object)
    }
}

impl VersionChains {
    /// Adds a version of the fact `key`.
    pub(super) fn push(&mut self, key: String, version: Fact) {
        let chain = self.chains.entry(key.clone()).or_default();
        if chain.versions.is_empty() {
            self.order.push(key);
        }
        chain.push(version);
    }

    /// Returns the versions of `key` so far, in the order in which they were added. Their times
    /// mustn't be changed.
    pub(super) fn versions(&mut self, key: &str) -> &mut [Fact] {
        self.chains
            .get_mut(key)
            .map(|chain| chain.versions.as_mut_slice())
            .unwrap_or_default()
    }

    /// Returns true if `key` has a version with this object. The objects of its versions mustn't be
    /// changed afterwards.
    pub(super) fn has_object(&mut self, key: &str, object: &str) -> bool {
        let chain = self.chains.get_mut(key);
        chain.is_some_and(|chain| chain.has_object(object))
    }

    /// Returns the version of `key` with the latest time, which mustn't be changed.
    pub(super) fn newest(&mut self, key: &str) -> Option<&mut Fact> {
        let chain = self.chains.get_mut(key)?;
        chain.versions.get_mut(chain.newest)
    }

    /// Ends the fact `key`, unless it has a later version in the end.
    pub(super) fn end(&mut self, key: &str, time: Timestamp) {
        if let Some(newest) = self.newest(key) {
            newest.ended_at = Some(time);
        }
        let chain = self.chains.entry(key.to_owned()).or_default();
        chain.ended = chain.ended.max(Some(time));
    }

    /// Emits all chains, the versions of each in the order of their times, each superseding the
    /// previous one. Equal neighbours are emitted once.
    pub(super) fn emit(mut self, namespace: Option<&str>, part: &mut ParsedPart) {
        for key in self.order {
            let chain = self.chains.remove(&key).unwrap_or_default();
            let (mut versions, ended) = (chain.versions, chain.ended);
            versions.sort_by_key(|version| version.created_at);
            versions.dedup_by(|later, earlier| later.is_same_version(earlier));
            let mut previous: Option<ContentAddress> = None;
            let last = versions.len().saturating_sub(1);
            for (index, version) in versions.into_iter().enumerate() {
                let ended = ended.filter(|ended| *ended >= version.created_at);
                let ended_at = version.ended_at.or(ended).filter(|_| index == last);
                let supersedes: Vec<_> = previous.into_iter().collect();
                previous = version
                    .emit(supersedes, ended_at, namespace, part)
                    .or(previous);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{facts, parsed};
    use super::*;
    use crate::transcript::kind::TranscriptKind;
    use crate::transcript::line::Line;

    #[test]
    fn an_object_is_found_among_many_versions_in_constant_time() {
        // By linear scans this takes minutes.
        const COUNT: usize = 100_000;
        let line = Line {
            number: 1,
            range: 0..0,
        };
        let mut chains = VersionChains::default();
        assert!(!chains.has_object("key", "0"));
        for n in 0..COUNT {
            let (object, time) = (n.to_string(), Timestamp::from_micros(0));
            assert!(!chains.has_object("key", &object));
            let fact = Fact::new(line.clone(), "subject", "relation", object.clone(), time);
            chains.push("key".to_owned(), fact);
            assert!(chains.has_object("key", &object) && chains.has_object("key", "0"));
        }
    }

    #[test]
    fn a_history_in_another_order_has_the_same_versions_and_the_same_end() {
        let mem0 = |id: u8, event: &str, old: &str, new: &str| {
            format!(
                r#"{{"id":"h{id}","memory_id":"m","event":"{event}","old_memory":{old},"new_memory":{new},"created_at":"2026-01-0{id}T00:00:00Z","user_id":"u"}}"#
            )
        };
        let item = |day: u8, value: &str| {
            format!(
                r#"{{"namespace":["u"],"key":"k","value":{value},"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-0{day}T00:00:00Z"}}"#
            )
        };
        let histories = [
            (
                TranscriptKind::Mem0,
                "mg:knows",
                [
                    mem0(1, "ADD", "null", r#""A""#),
                    mem0(2, "UPDATE", r#""A""#, r#""B""#),
                    mem0(3, "DELETE", r#""B""#, "null"),
                ],
            ),
            (
                TranscriptKind::LangGraph,
                "k",
                [item(1, r#""A""#), item(2, r#""B""#), item(3, "null")],
            ),
        ];
        for (kind, relation, lines) in histories {
            for order in [[0, 1, 2], [0, 2, 1], [2, 1, 0], [2, 0, 1], [1, 2, 0]] {
                let text = order.map(|at| lines[at].as_str()).join("\n");
                let expected = [
                    format!("u {relation} A"),
                    format!("u {relation} B < A ! 1767398400000"),
                ];
                let found = facts(&parsed(&text, kind));
                assert_eq!(found, expected, "{kind:?} {order:?}");
            }
        }
    }
}
