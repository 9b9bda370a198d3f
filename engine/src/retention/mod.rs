//! Retention: grains whose period has ended are erased by the same code as the data of a person,
//! with a certificate.
//!
//! | module | question |
//! |---|---|
//! | `rounds` | into which spans of creation time is the work cut, so that memory is bounded? |
//! | `plan` | what has expired, and what is kept although it has? |
//! | `run` | how is it erased, round by round? |
//! | `round_file` | which round was interrupted? |

mod plan;
mod round_file;
mod rounds;
mod run;

pub use plan::{KeptGrain, PolicyPlan, RetentionPlan, plan};
pub use rounds::ROUND_ROWS;
pub use run::{RetentionErasure, RetentionReport, run};

use crate::policy::RetentionRules;

/// The options of a plan or a run.
#[derive(Debug, Clone)]
pub struct RetentionOptions {
    /// The rules.
    pub rules: RetentionRules,
    /// Approvals that were given, as for an erasure.
    pub approvals: Vec<String>,
    /// Number of threads; 0 for one per core.
    pub threads: usize,
    /// Rows of one round, roughly: at least those of one hour of creation time.
    pub round_rows: u64,
}
