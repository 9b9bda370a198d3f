//! Operations in bulk: put, supersede, contradict, verify, retract, hold, release, each through the
//! lifecycle gate.
//!
//! | module | question |
//! |---|---|
//! | `operation` | what does a line request? |
//! | `prepare` | is its new grain valid? |
//! | `run` | how are operations read, judged and committed in batches? |
//! | `judge` | is an operation permitted, and what does it change? |
//! | `judge_hold` | may a litigation hold be placed or lifted? |
//! | `new_grain` | how do the new grains of a batch become a segment? |
//! | `report` | what can a user choose, and what does a run report? |

mod judge;
mod judge_hold;
mod new_grain;
mod operation;
mod prepare;
mod report;
mod run;

pub use operation::{Operation, OperationRequest};
pub use report::{ApplyOptions, ApplyReport, OperationOutcome};
pub(crate) use run::apply_batches;
pub use run::{apply, apply_requests};
