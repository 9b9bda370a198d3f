//! Goals that depend on others: which of the others aren't satisfied yet (§8.7)?

use std::collections::{HashMap, HashSet};

use gristmill_schemas::address::ContentAddress;

use super::{FactCache, OpenSegments};
use crate::error::Result;
use crate::lake::{KnownAddresses, Lake};
use crate::policy::{FactSource, GrainFacts, GrainRole};

/// The state of a goal that is reached.
const SATISFIED: &str = "satisfied";

impl FactCache {
    /// Looks up `goals` and all versions that superseded them. Reads `state` and one column of all
    /// segments for each version.
    pub(crate) async fn look_up_later_versions(
        &mut self,
        lake: &Lake,
        known: &KnownAddresses,
        goals: HashSet<ContentAddress>,
    ) -> Result<()> {
        let (mut frontier, mut seen) = (goals.clone(), goals);
        let mut segments = OpenSegments {
            lake,
            segments: lake.segments()?,
            open: HashMap::new(),
        };
        while !frontier.is_empty() {
            let missing = frontier.iter().filter(|it| !self.facts.contains_key(*it));
            let missing: HashSet<_> = missing.copied().collect();
            self.read(&mut segments, known, &missing).await?;
            let states = lake
                .lifecycles(|address| frontier.contains(address))
                .await?;
            frontier.clear();
            for (old, state) in states {
                if let Some(new) = state.superseded_by() {
                    self.successors.insert(old, new);
                    frontier.extend(seen.insert(new).then_some(new));
                }
            }
        }
        Ok(())
    }

    /// Returns the goals on which `goal` depends and whose newest version isn't satisfied. A goal
    /// that the lake doesn't contain isn't.
    pub(crate) fn open_dependencies(&self, goal: &GrainFacts) -> Vec<ContentAddress> {
        let is_open = |address: &&ContentAddress| {
            let newest = self.newest_version(**address);
            let role = self.facts(&newest).map(|facts| &facts.kind);
            !matches!(role, Some(GrainRole::Goal { state, .. }) if state == SATISFIED)
        };
        goal.dependencies()
            .iter()
            .filter(is_open)
            .copied()
            .collect()
    }

    /// Returns the last known grain of the supersession chain of `address`. A cycle ends where it
    /// begins.
    fn newest_version(&self, address: ContentAddress) -> ContentAddress {
        let (mut newest, mut seen) = (address, HashSet::from([address]));
        while let Some(next) = self.successors.get(&newest) {
            if !seen.insert(*next) {
                break;
            }
            newest = *next;
        }
        newest
    }
}
