//! Options, answers and the report of applied operations.

use std::collections::BTreeMap;
use std::sync::Arc;

use gristmill_schemas::error::ErrorCode;
use gristmill_schemas::sign::{KeyResolver, SelfContained};
use serde::Serialize;

/// What a user can choose.
#[derive(Clone)]
pub struct ApplyOptions {
    /// Who knows the keys of signers.
    pub resolver: Arc<dyn KeyResolver>,
    /// Judges everything and writes nothing.
    pub dry_run: bool,
}

impl Default for ApplyOptions {
    fn default() -> Self {
        ApplyOptions {
            resolver: Arc::new(SelfContained),
            dry_run: false,
        }
    }
}

/// What became of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OperationOutcome {
    /// The line, counted from 1.
    pub line: u64,
    /// The operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<&'static str>,
    /// True if it is done, now or before.
    pub ok: bool,
    /// The grain: the new one of a put or supersession, else the one it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_address: Option<String>,
    /// True if there was nothing left to do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
    /// True if a person should look at it (§23.2, soft lock).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_review: bool,
    /// True if the new grain has the operation's reason as its `supersession_justification`: it is
    /// part of what `content_address` names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reason_in_grain: bool,
    /// The code of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl OperationOutcome {
    /// True if a policy forbids the operation (§23).
    pub fn is_denied(&self) -> bool {
        let denied = [ErrorCode::InvalidationDenied, ErrorCode::EvidenceRequired];
        self.error
            .as_deref()
            .is_some_and(|error| denied.iter().any(|denied| denied.name() == error))
    }
}

/// What a run did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ApplyReport {
    /// Operations that were read.
    pub operations: u64,
    /// Operations that are done, now or before.
    pub done: u64,
    /// Operations that had been done before.
    pub already: u64,
    /// Operations that a policy forbids.
    pub denied: u64,
    /// Operations that failed for another reason.
    pub failed: u64,
    /// How many failed with which code.
    pub errors_by_code: BTreeMap<String, u64>,
    /// Supersessions that a person should look at.
    pub needs_review: u64,
    /// Grains that were written.
    pub grains_written: u64,
    /// Lifecycle events that were written.
    pub events_written: u64,
    /// Wall-clock time.
    pub seconds: f64,
    /// The version of `grains` after the run.
    pub version: u64,
}
