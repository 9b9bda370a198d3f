//! Options, outcomes and the report of applied operations.

use std::collections::BTreeMap;
use std::sync::Arc;

use gristmill_schemas::error::ErrorCode;
use gristmill_schemas::sign::{DidKeyResolver, KeyResolver};
use serde::Serialize;

/// The options of a run.
#[derive(Clone)]
pub struct ApplyOptions {
    /// Resolves the keys of signers.
    pub resolver: Arc<dyn KeyResolver>,
    /// Judges everything and writes nothing.
    pub dry_run: bool,
}

impl Default for ApplyOptions {
    fn default() -> Self {
        ApplyOptions {
            resolver: Arc::new(DidKeyResolver),
            dry_run: false,
        }
    }
}

/// The outcome of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OperationOutcome {
    /// The line, counted from 1.
    pub line: u64,
    /// The operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<&'static str>,
    /// True if it is done, now or before.
    pub ok: bool,
    /// The new grain of a put or supersession, or else the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_address: Option<String>,
    /// True if it had been done before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
    /// True if a person should review it (§23.2, soft lock).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_review: bool,
    /// True if the new grain contains the operation's reason as its `supersession_justification`,
    /// so that it is covered by `content_address`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reason_in_grain: bool,
    /// The code of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl OperationOutcome {
    /// Returns true if a policy forbids the operation (§23).
    pub fn is_denied(&self) -> bool {
        let denied = [ErrorCode::InvalidationDenied, ErrorCode::EvidenceRequired];
        self.error
            .as_deref()
            .is_some_and(|error| denied.iter().any(|denied| denied.name() == error))
    }
}

/// The report of a run.
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
    /// The number of failures by their codes.
    pub errors_by_code: BTreeMap<String, u64>,
    /// Supersessions that a person should review.
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
