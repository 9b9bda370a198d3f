//! Litigation holds over many grains at once: placing, lifting and listing them (§23.2, A.2).
//!
//! A placed hold is one event in `state` for each grain, so erasures, the gate and manifests see it
//! without knowing who placed it: [`Lake::holds`](crate::lake::Lake::holds) is the only source. A
//! hold covers the grains that exist when it is placed; placing it again covers those that were
//! added since, and changes nothing of the others.
//!
//! | module | question |
//! |---|---|
//! | `selection` | which grains does a request for a hold select? |
//! | `run` | how is a hold placed on them, and lifted? |
//! | `list` | which holds are in force, and where do they come from? |

mod list;
mod run;
mod selection;

pub use list::{HeldGrain, HoldListOptions, HoldSummary, held_grains, summaries};
pub use run::{HoldReport, HoldRequest, ReleaseRequest, lift, place};
pub use selection::HoldSelection;
