//! Stand-in for `rego_policies` in builds without the cargo feature `rego`: it refuses packs with
//! Rego policies. Its types have no values.

#![allow(dead_code, reason = "without the engine no policy is created")]

use std::convert::Infallible;

use arrow::array::RecordBatch;
use datafusion::common::Result as QueryResult;
use datafusion::prelude::{DataFrame, SessionContext};

use super::error::PackError;
use super::finding::Finding;
use super::rule_checks::PlacedCheck;

/// The policies of a scan; never created.
pub(super) struct RegoPolicies(Infallible);

/// Evaluator of policies; never created.
pub(super) struct PolicyEvaluator(Infallible);

/// Result of a policy on a view.
pub(super) enum PolicyOutcome {
    /// The view violates the rule.
    Finding(Finding),
    /// The policy failed: rule index and message.
    Failure(usize, String),
}

impl RegoPolicies {
    /// Refuses `checks`.
    ///
    /// # Errors
    /// [`PackError::RegoDisabled`] for the first of them.
    pub(super) fn compile(checks: &[PlacedCheck]) -> Result<RegoPolicies, PackError> {
        let rule = checks.first().map(|placed| placed.id.clone());
        Err(PackError::RegoDisabled {
            rule: rule.unwrap_or_default(),
        })
    }

    pub(super) async fn source(&self, _: &SessionContext) -> QueryResult<DataFrame> {
        match self.0 {}
    }

    pub(super) fn evaluator(&self) -> PolicyEvaluator {
        match self.0 {}
    }
}

impl PolicyEvaluator {
    pub(super) fn evaluate(&mut self, _: &RecordBatch, _: impl FnMut(PolicyOutcome)) -> u64 {
        match self.0 {}
    }
}
