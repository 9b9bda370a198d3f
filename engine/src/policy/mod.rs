//! Protection: who may take a grain out of what is current and trusted (§23), and what may be
//! erased.
//!
//! | module | what it answers |
//! |---|---|
//! | `terms` | what does a grain's `invalidation_policy` say, and which mode is in force at an instant? |
//! | `gate` | may this act take this grain out of what is current? |
//! | `facts` | what of a grain does the gate need to know, and which signatures hold? |
//! | `fact_cache` | which facts does the gate need about the grains of a batch, looked up together? |

mod fact_cache;
mod facts;
mod gate;
mod terms;

pub(crate) use fact_cache::FactCache;
pub use facts::{Proposal, authorizing_signers};
pub use gate::{Act, Facts, Gate, HOPS, Kind, Known, Permit, Requester, Successor, may_withdraw};
pub use terms::{Mode, Policy, Scope};
