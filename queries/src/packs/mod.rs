//! Compliance packs: rules as data files, and the scan that runs them over a lake.
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
//! | module | what it answers |
//! |---|---|
//! | `pack`, `message_template` | what does a pack's file say? |
//! | `shipped` | which packs come with the program? |
//! | [`detect`] | which personal data stands in a text? |
//! | `row_rules` | which grains break a condition? |
//! | `rego_policies`, `grain_messages`, `rego_value` | which message views break a policy? |
//! | `scan` | how are all rules run over a lake, or over what is new in it? |
//! | `finding` | what is found? |
//! | `examples` | do the rules of a pack pass and fail where they should? |
//! | [`report`] | how are findings told: JSON, SARIF, HTML? |
//!
//! What doesn't live here: the rules themselves (`queries/packs/*.toml`), their format for users
//! (`docs/packs.md`).

pub mod detect;
mod error;
mod examples;
mod finding;
mod grain_messages;
mod message_template;
mod pack;
mod rego_policies;
mod rego_value;
pub mod report;
mod row_rules;
mod scan;
mod shipped;

pub use error::PackError;
pub use examples::{ExampleResult, run_examples};
pub use finding::{Finding, FindingRecord, RuleCount};
pub use message_template::MessageTemplate;
pub use pack::{Check, Example, Pack, Rule, Severity};
pub use scan::{Scan, ScanOptions, ScanScope, ScanSummary, Since};
pub use shipped::{NAMES, find, shipped};
