//! Operations in bulk: put, supersede, contradict, verify, retract, each through the lifecycle
//! gate.
//!
//! | module | what it answers |
//! |---|---|
//! | `operation` | what does a line ask for? |
//! | `ground` | what does the gate need to know, looked up for many operations at once? |
//! | `run` | how are operations judged in order, and committed in batches? |
//! | `segment` | how do the new grains of a batch become a segment? |

mod ground;
mod operation;
mod run;
mod segment;

pub(crate) use ground::Ground;
pub use operation::{Operation, Request};
pub use run::{Answer, ApplyOptions, ApplyReport, apply, apply_requests};
