//! Delegations among the looked-up grains: which of them are in force?

use std::collections::HashSet;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::lifecycle::LifecycleState;

use super::FactCache;
use crate::error::Result;
use crate::lake::Lake;
use crate::policy::DelegationSource;

impl FactCache {
    /// Looks up the lifecycles of all delegations that are known. Without any, nothing is read;
    /// else `state` and the supersessions of all grains.
    pub(crate) async fn look_up_delegations(&mut self, lake: &Lake) -> Result<()> {
        let known = self.facts.iter();
        let delegations: HashSet<ContentAddress> = known
            .filter(|(_, facts)| facts.delegation.is_some())
            .map(|(address, _)| *address)
            .collect();
        if !delegations.is_empty() {
            let states = lake.lifecycles(|it| delegations.contains(it)).await?;
            self.lifecycles.extend(states);
        }
        Ok(())
    }
}

impl DelegationSource for FactCache {
    fn is_in_force(&self, address: &ContentAddress) -> bool {
        let state = self.lifecycles.get(address);
        state.is_none_or(LifecycleState::is_current) && !self.successors.contains_key(address)
    }
}
