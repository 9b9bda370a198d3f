//! Errors of packs and scans.

use std::path::PathBuf;

use datafusion::error::DataFusionError;
use gristmill_engine::error::EngineError;

/// An error of a pack or a scan. Messages name the pack and the rule and state what was expected.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The file doesn't exist or can't be read.
    #[error("can't read the pack `{path}`: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// The file isn't a valid pack in TOML.
    #[error("invalid pack `{pack}`: {cause}")]
    Form {
        /// The file or the name of the pack.
        pack: String,
        /// Error with line number.
        cause: Box<toml::de::Error>,
    },
    /// The pack as a whole violates the format.
    #[error("pack `{pack}`: {problem}")]
    Pack {
        /// The pack's id, or its file.
        pack: String,
        /// The problem and what was expected.
        problem: String,
    },
    /// A rule violates the format or can't be planned.
    #[error("rule `{rule}`: {problem}")]
    Rule {
        /// Pack and rule.
        rule: String,
        /// The problem and what was expected.
        problem: String,
    },
    /// No pack of this name exists.
    #[error(
        "there is no pack `{name}`. Shipped packs: {shipped}. For a pack of your own, give the \
         path of its file"
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// The shipped packs.
        shipped: String,
    },
    /// No rule of the selected packs has this id.
    #[error(
        "there is no rule `{id}` in the selected packs.{similar} `gristmill scan --format json` \
         lists all rules with their ids under `summary.rules`"
    )]
    UnknownRule {
        /// The requested id.
        id: String,
        /// A sentence with similar ids, or nothing.
        similar: String,
    },
    /// A rule is a Rego policy, and this build lacks the cargo feature `rego`.
    #[error(
        "rule `{rule}` is a Rego policy, which this build doesn't support: build gristmill-queries \
         with the feature `rego`, or select other packs with --pack"
    )]
    RegoDisabled {
        /// Pack and rule.
        rule: String,
    },
    /// The query engine failed.
    #[error(transparent)]
    Query(#[from] DataFusionError),
    /// The lake can't be read, or the audit log can't be written.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The report can't be written.
    #[error("can't write the report: {0}")]
    Write(#[from] std::io::Error),
    /// The report's template fails.
    #[error("can't render the report: {0}")]
    Template(#[from] minijinja::Error),
}

/// Results of this module.
pub type Result<T, E = PackError> = std::result::Result<T, E>;

impl PackError {
    /// Creates the error of one rule.
    pub(super) fn rule(rule: impl Into<String>, problem: impl ToString) -> PackError {
        PackError::Rule {
            rule: rule.into(),
            problem: problem.to_string(),
        }
    }
}
