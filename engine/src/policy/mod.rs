//! Invalidation policies: who may take a grain out of what is current and trusted (§23), and what
//! may be erased.
//!
//! | module | question |
//! |---|---|
//! | `terms` | what are the terms of a grain's `invalidation_policy`, and which mode is in force at a time? |
//! | `gate` | may this act take this grain out of what is current? |
//! | `facts` | which facts about a grain does the gate need, and which signatures are valid? |
//! | `delegation` | does a delegation permit a new grain that is derived from it? |
//! | `holds` | does a grain state that it is under hold, and who may lift that? |
//! | `retention` | has a grain expired, and must it be kept nevertheless? |
//! | `fact_cache` | how are the facts about the grains of a batch looked up together? |
//!
//! The gate makes pure decisions over facts; only `fact_cache` reads the lake.

mod delegation;
mod fact_cache;
mod facts;
mod gate;
mod holds;
mod retention;
mod terms;

pub(crate) use delegation::check_delegations;
pub use delegation::{DelegatedAct, Delegation, DelegationSource, Permitted};
pub(crate) use fact_cache::FactCache;
pub(crate) use facts::named_grains;
pub use facts::{Proposal, authorizing_signers};
pub use gate::{
    Act, FactSource, Gate, GrainFacts, GrainRole, HOPS, Permit, Requester, Successor, may_withdraw,
};
pub use holds::StatedHold;
pub(crate) use holds::{HOLD_REFERENCE, HOLD_TAG};
pub use retention::{ExpiredGrain, InvalidPeriod, Period, RetentionRule, RetentionRules};
pub use terms::{Policy, PolicyMode, PolicyScope};
