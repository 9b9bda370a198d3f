//! Protection: who may take a grain out of what is current and trusted (§23), and what may be erased.
//!
//! | module | what it answers |
//! |---|---|
//! | `terms` | what does a grain's `invalidation_policy` say, and which mode is in force at an instant? |

mod terms;

pub use terms::{Mode, Policy, Scope};
