//! The checks of one pass over the scanned grains: those with a condition, or those with a policy.
//! They can be sent to another process, which compiles them as this one did.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::prelude::{DataFrame, SessionContext};
use serde::{Deserialize, Serialize};

use super::batch_result::BatchResult;
use super::error::PackError;
use super::pack::{Check, Rule};
use super::rego_policies::{PolicyEvaluator, PolicyOutcome, RegoPolicies};
use super::row_rules::RowRules;
use datafusion::common::Result;

/// The check of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlacedCheck {
    /// Index of the rule in the scan.
    pub(super) rule: usize,
    /// Id of the rule, for errors.
    pub(super) id: String,
    pub(super) check: Check,
}

impl PlacedCheck {
    /// Returns the check of `rule`, whose index in the scan is `at`.
    fn of(at: usize, rule: &Rule) -> PlacedCheck {
        PlacedCheck {
            rule: at,
            id: rule.id.clone(),
            check: rule.check.clone(),
        }
    }
}

/// The checks of one pass, which are all of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RuleChecks {
    /// What `now()` is, in milliseconds since 1970: the same in every process.
    pub(super) now: i64,
    pub(super) checks: Vec<PlacedCheck>,
}

impl RuleChecks {
    /// Returns the passes that `rules` need: one for conditions, one for policies. Queries have
    /// none.
    pub(super) fn passes(rules: &[Rule], now: i64) -> Vec<RuleChecks> {
        let checks = rules.iter().enumerate();
        let (mut conditions, mut policies) = (Vec::new(), Vec::new());
        for (place, rule) in checks {
            match &rule.check {
                Check::Where { .. } => conditions.push(PlacedCheck::of(place, rule)),
                Check::Rego { .. } => policies.push(PlacedCheck::of(place, rule)),
                Check::Sql(_) | Check::Cal(_) => {}
            }
        }
        let passes = [conditions, policies].into_iter();
        let passes = passes.filter(|checks| !checks.is_empty());
        passes.map(|checks| RuleChecks { now, checks }).collect()
    }
}

/// The compiled checks of a pass.
pub(super) enum CompiledChecks {
    Conditions(Arc<RowRules>),
    Policies(Arc<RegoPolicies>),
}

impl CompiledChecks {
    /// Compiles `checks` with the functions of `context`.
    ///
    /// # Errors
    /// [`PackError::Rule`] with the message of the planner or of the compiler of policies.
    pub(super) fn compile(
        context: &SessionContext,
        checks: &RuleChecks,
    ) -> std::result::Result<CompiledChecks, PackError> {
        let are_policies = checks
            .checks
            .iter()
            .any(|placed| matches!(placed.check, Check::Rego { .. }));
        Ok(match are_policies {
            true => CompiledChecks::Policies(Arc::new(RegoPolicies::compile(&checks.checks)?)),
            false => CompiledChecks::Conditions(Arc::new(RowRules::compile(context, checks)?)),
        })
    }

    /// Returns the scan of the columns that the checks read.
    pub(super) async fn source(&self, context: &SessionContext) -> Result<DataFrame> {
        match self {
            CompiledChecks::Conditions(rules) => rules.source(context).await,
            CompiledChecks::Policies(policies) => policies.source(context).await,
        }
    }

    /// Creates an evaluator, to be used by one thread.
    pub(super) fn evaluator(&self) -> CheckEvaluator {
        match self {
            CompiledChecks::Conditions(rules) => CheckEvaluator::Conditions(Arc::clone(rules)),
            CompiledChecks::Policies(policies) => {
                CheckEvaluator::Policies(Box::new(policies.evaluator()))
            }
        }
    }
}

/// Evaluates the checks of a pass, batch by batch.
pub(super) enum CheckEvaluator {
    Conditions(Arc<RowRules>),
    Policies(Box<PolicyEvaluator>),
}

impl CheckEvaluator {
    /// Evaluates all checks on one batch of the source.
    ///
    /// # Errors
    /// If a condition fails.
    pub(super) fn evaluate(&mut self, batch: RecordBatch) -> Result<BatchResult> {
        let mut result = BatchResult::default();
        match self {
            CheckEvaluator::Conditions(rules) => {
                rules.evaluate(batch, |finding| result.findings.push(finding))?;
            }
            CheckEvaluator::Policies(policies) => {
                let (findings, failures) = (&mut result.findings, &mut result.failures);
                result.views = policies.evaluate(&batch, |outcome| match outcome {
                    PolicyOutcome::Finding(finding) => findings.push(finding),
                    PolicyOutcome::Failure(rule, message) => failures.push((rule, message)),
                });
            }
        }
        Ok(result)
    }
}
