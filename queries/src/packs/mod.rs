//! Compliance packs: rules in data files, and the scan that runs them over a lake.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use gristmill_engine::lake::Lake;
//! use gristmill_queries::packs::{Scan, ScanOptions, shipped};
//!
//! let lake = Lake::open("lake").await?;
//! let scan = Scan::prepare(&lake, vec![shipped("gdpr")?], &ScanOptions::default()).await?;
//! let summary = scan
//!     .run(|rule, finding| {
//!         println!("{} {:?}", rule.id, finding.address);
//!         Ok(())
//!     })
//!     .await?;
//! println!("{} findings", summary.findings);
//! # Ok(()) }
//! ```
//!
//! | module | question |
//! |---|---|
//! | `pack`, `pack_file`, `message_template` | How is a pack file parsed and validated? |
//! | `shipped` | Which packs are part of the program? |
//! | `rule_checks`, `rules_exec`, `batch_result` | How do the checks of one pass run over the grains? |
//! | `row_rules` | Which grains match the condition of a rule? |
//! | `personal_data` | Which texts of grains are searched for personal data? |
//! | `rule_query` | Which grains does the query of a rule return? |
//! | `rego_policies`, `grain_messages`, `rego_value` | Which message views violate a Rego policy? |
//! | `rule_selection` | How are single rules of packs selected? |
//! | `scan` | How do all rules run over a lake, or over what was added to it? |
//! | `incremental` | What was added since the last scan? |
//! | `changes` | Which grains have new lifecycle events? |
//! | `export_rules` | Which grains must not be exported? |
//! | `finding` | What is reported? |
//! | `examples` | Do the rules of a pack pass and fail on their examples? |
//! | [`report`] | How are findings written: JSON, SARIF, HTML? |
//! | `error` | Why can't a pack be used, or a scan not run? |
//!
//! Rego policies need the cargo feature `rego`, which is on by default. Without it, a pack with a
//! Rego policy is refused with [`PackError::RegoDisabled`] (`rego_disabled`).
//!
//! Not in this module: the rules (`queries/packs/*.toml`) and the description of their format for
//! users (`docs/packs.md`).

mod batch_result;
mod changes;
mod error;
mod examples;
mod export_rules;
mod finding;
#[cfg(feature = "rego")]
mod grain_messages;
mod incremental;
mod message_template;
mod pack;
mod pack_file;
mod personal_data;
#[cfg(feature = "rego")]
mod rego_policies;
#[cfg(not(feature = "rego"))]
#[path = "rego_disabled.rs"]
mod rego_policies;
#[cfg(feature = "rego")]
mod rego_value;
pub mod report;
mod row_rules;
mod rule_checks;
mod rule_query;
mod rule_selection;
mod rules_exec;
mod scan;
mod shipped;

pub use error::PackError;
pub use examples::{ExampleResult, run_examples};
pub use export_rules::ExportPurpose;
pub use finding::{Finding, FindingRecord, RuleCount};
pub use message_template::MessageTemplate;
pub use pack::{Check, Example, Pack, Rule, Severity};
pub use rule_selection::select_rules;
pub use rules_exec::RulesExec;
pub use scan::{Scan, ScanOptions, ScanScope, ScanSummary, Since};
pub use shipped::{NAMES, find, shipped};
