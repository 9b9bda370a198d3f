//! Executes CAL: statements become DataFusion plans over the tables `grains` and `state` of a
//! [`SessionContext`](datafusion::prelude::SessionContext).
//!
//! | module | question |
//! |---|---|
//! | [`executor`] | how is a query run from its text to its response? |
//! | `query_run` | which function executes which statement? |
//! | [`session`] | which namespace, user, clock and limits apply? |
//! | `grain_reader`, `fetch` | which grains are visible, and how are they fetched? |
//! | `lifecycle` | which grains are superseded, contradicted or verified? |
//! | `columns`, `blob_functions` | where in a row is a field of CAL? |
//! | `sent_function` | how do other processes get the functions of a statement? |
//! | `condition`, `numeric`, `domain_field` | which rows pass a condition? |
//! | `recall`, `pipeline`, `search_statistics`, `message_thread` | what is the plan of a RECALL? |
//! | `candidates`, `indexed_search`, `least_addresses` | which pages of a RECALL do indexes find? |
//! | `set_operation`, `history`, `assembly`, `explain` | how do the other reading statements run? |
//! | [`rule`] | which grains does the RECALL of a compliance rule match? |
//! | [`evolve`], `new_grain`, `quota`, [`writer`] | what do statements append, and where to? |
//! | [`answer`], [`assembly_usage`], `response`, `diversity` | what does a response contain? |
//! | [`error`] | why did a query fail? |
//!
//! DataFusion executes everything that has rows. Code here only covers what has none, such as
//! sharing a token budget among the grains that were found.
//!
//! Answers are exact: LIMIT bounds the answer, not the scan. They are also deterministic for the
//! same state, time and parameters: every order ends with the content address.

pub mod answer;
mod assembly;
pub mod assembly_usage;
mod blob_functions;
mod candidates;
mod columns;
mod condition;
mod diversity;
mod domain_field;
pub mod error;
pub mod evolve;
pub mod executor;
mod explain;
mod fetch;
mod grain_reader;
mod history;
mod indexed_search;
mod least_addresses;
mod lifecycle;
mod message_thread;
mod new_grain;
mod numeric;
mod pipeline;
mod query_run;
mod quota;
mod recall;
mod response;
pub mod rule;
mod search_statistics;
mod sent_function;
pub mod session;
mod set_operation;
#[cfg(test)]
mod testing;
pub mod writer;

pub use answer::{Answer, Hit, Response, ResultEntry};
pub use assembly_usage::AssemblyUsage;
pub use error::{ExecutionError, Result};
pub use evolve::{GrainWrite, GrainWriter, WriteKind};
pub use executor::{Executor, parse_query};
pub use quota::WriteQuotas;
pub use rule::{RuleMatches, RuleTables, plan_rule};
pub use sent_function::{decode_function, encode_function};
pub use session::{Session, current_millis};
pub use writer::LakeWriter;

pub(crate) use blob_functions::{search_terms_of, tested_domain_field};
pub(crate) use lifecycle::LifecycleCache;
use query_run::QueryRun;
