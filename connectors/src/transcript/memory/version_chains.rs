//! Chains of versions of facts.

use std::collections::HashMap;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::message::Timestamp;

use super::fact::Fact;
use crate::transcript::parsed::ParsedPart;

/// The versions of facts, by the key of the fact.
#[derive(Debug, Default)]
pub(super) struct VersionChains {
    /// The keys in the order of their first versions.
    order: Vec<String>,
    chains: HashMap<String, Vec<Fact>>,
}

impl VersionChains {
    /// Adds a version of the fact `key`.
    pub(super) fn push(&mut self, key: String, version: Fact) {
        let chain = self.chains.entry(key.clone()).or_default();
        if chain.is_empty() {
            self.order.push(key);
        }
        chain.push(version);
    }

    /// Returns the versions of `key` so far, in the order in which they were added.
    pub(super) fn versions(&mut self, key: &str) -> &mut [Fact] {
        self.chains
            .get_mut(key)
            .map(Vec::as_mut_slice)
            .unwrap_or_default()
    }

    /// Returns the version of `key` with the latest time.
    pub(super) fn newest(&mut self, key: &str) -> Option<&mut Fact> {
        self.versions(key)
            .iter_mut()
            .max_by_key(|version| version.created_at)
    }

    /// Sets the end of the newest version of `key`.
    pub(super) fn end(&mut self, key: &str, time: Timestamp) {
        if let Some(newest) = self.newest(key) {
            newest.ended_at = Some(time);
        }
    }

    /// Emits all chains, the versions of each in the order of their times, each superseding the
    /// previous one. Equal neighbours are emitted once.
    pub(super) fn emit(mut self, namespace: Option<&str>, part: &mut ParsedPart) {
        for key in self.order {
            let mut versions = self.chains.remove(&key).unwrap_or_default();
            versions.sort_by_key(|version| version.created_at);
            versions.dedup_by(|later, earlier| later.is_same_version(earlier));
            let mut previous: Option<ContentAddress> = None;
            let last = versions.len().saturating_sub(1);
            for (index, version) in versions.into_iter().enumerate() {
                let ended_at = version.ended_at.filter(|_| index == last);
                let supersedes: Vec<_> = previous.into_iter().collect();
                previous = version
                    .emit(supersedes, ended_at, namespace, part)
                    .or(previous);
            }
        }
    }
}
