//! What can be wrong with a pack or go wrong in a scan.

use std::path::PathBuf;

use datafusion::error::DataFusionError;
use gristmill_engine::error::EngineError;

/// An error of a pack or a scan. Names the pack and the rule, says what was expected.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The file isn't there or can't be read.
    #[error("can't read the pack `{path}`: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The text isn't the TOML of a pack.
    #[error("the pack `{pack}` isn't well formed: {cause}")]
    Form {
        /// The file or the name of the pack.
        pack: String,
        /// What is wrong, with its line.
        cause: Box<toml::de::Error>,
    },
    /// The pack as a whole breaks a rule of the format.
    #[error("the pack `{pack}`: {problem}")]
    Pack {
        /// The pack's id, or its file.
        pack: String,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// A rule breaks a rule of the format, or can't be planned.
    #[error("the rule `{rule}`: {problem}")]
    Rule {
        /// Pack and rule.
        rule: String,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// No pack has this name.
    #[error(
        "there is no pack `{name}`; the shipped ones are {shipped}. A pack of your own is named by \
         its file"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The shipped packs.
        shipped: String,
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
    /// A problem of one rule.
    pub(super) fn rule(rule: impl Into<String>, problem: impl ToString) -> PackError {
        PackError::Rule {
            rule: rule.into(),
            problem: problem.to_string(),
        }
    }
}
