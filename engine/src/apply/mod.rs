//! Operations in bulk: put, supersede, contradict, verify, retract, each through the lifecycle
//! gate.
//!
//! | module | what it answers |
//! |---|---|
//! | `operation` | what does a line ask for? |
//! | `run` | how are operations judged in order, and committed in batches? |
//! | `segment` | how do the new grains of a batch become a segment? |

mod operation;
mod run;
mod segment;

pub use operation::{Operation, Request};
pub use run::{Answer, ApplyOptions, ApplyReport, apply, apply_requests};
