//! The physical operator that evaluates the checks of a pass: its input is the scan of the columns
//! that they read, its rows are what they find. It runs where its input does, also in another
//! process.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::{StreamExt, TryStreamExt};

use super::batch_result::BatchResult;
use super::error::PackError;
use super::pack::Rule;
use super::rule_checks::{CompiledChecks, RuleChecks};
use crate::sql::{SqlOptions, UnaryOperator, apply, bare_context};

/// A pass: its checks, and what they were compiled to.
#[derive(Clone)]
pub(super) struct RulePass {
    checks: Arc<RuleChecks>,
    compiled: Arc<CompiledChecks>,
}

impl RulePass {
    /// Compiles the passes that `rules` need.
    ///
    /// # Errors
    /// [`PackError::Rule`] for the first rule that can't be compiled.
    pub(super) fn compile_all(
        context: &SessionContext,
        rules: &[Rule],
    ) -> std::result::Result<Vec<RulePass>, PackError> {
        let now = chrono::Utc::now().timestamp_millis();
        let passes = RuleChecks::passes(rules, now).into_iter();
        let passes = passes.map(|checks| {
            let compiled = CompiledChecks::compile(context, &checks)?;
            if let CompiledChecks::Conditions(conditions) = &compiled {
                conditions.check_messages(rules)?;
            }
            Ok(RulePass {
                checks: Arc::new(checks),
                compiled: Arc::new(compiled),
            })
        });
        passes.collect()
    }

    /// Returns what the pass finds in the scanned grains, as rows of [`BatchResult`].
    pub(super) async fn findings(&self, context: &SessionContext) -> Result<DataFrame> {
        let source = self.compiled.source(context).await?;
        apply(source, Arc::new(self.clone()))
    }
}

impl fmt::Debug for RulePass {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.checks.fmt(out)
    }
}

impl UnaryOperator for RulePass {
    fn name(&self) -> &'static str {
        NAME
    }

    fn schema(&self) -> SchemaRef {
        BatchResult::schema()
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(RulesExec::new(self.clone(), input))
    }
}

/// Name in plans.
const NAME: &str = "RulesExec";

/// Evaluates the checks of a pass.
pub struct RulesExec {
    pass: RulePass,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl RulesExec {
    fn new(pass: RulePass, input: Arc<dyn ExecutionPlan>) -> RulesExec {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(BatchResult::schema()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        RulesExec {
            pass,
            input,
            properties: Arc::new(properties),
        }
    }

    /// Returns the checks in the form that [`RulesExec::decode`] reads.
    ///
    /// # Errors
    /// If they can't be written as JSON.
    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(&*self.pass.checks)
            .map_err(|error| DataFusionError::External(Box::new(error)))
    }

    /// Returns the operator of encoded checks over `input`, compiled with the functions that every
    /// process has.
    ///
    /// # Errors
    /// If `bytes` aren't checks of this version, or can't be compiled.
    pub fn decode(bytes: &[u8], input: Arc<dyn ExecutionPlan>) -> Result<RulesExec> {
        let checks: RuleChecks = serde_json::from_slice(bytes)
            .map_err(|error| exec_datafusion_err!("rules can't be decoded: {error}"))?;
        let context = bare_context(&SqlOptions::default())?;
        let compiled = CompiledChecks::compile(&context, &checks)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        let pass = RulePass {
            checks: Arc::new(checks),
            compiled: Arc::new(compiled),
        };
        Ok(RulesExec::new(pass, input))
    }
}

impl fmt::Debug for RulesExec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{NAME}({:?}, {:?})", self.pass, self.input)
    }
}

impl DisplayAs for RulesExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{NAME}: {} rules", self.pass.checks.checks.len())
    }
}

impl ExecutionPlan for RulesExec {
    fn name(&self) -> &str {
        NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = children.as_slice() else {
            return internal_err!("{NAME} has one child");
        };
        Ok(Arc::new(RulesExec::new(
            self.pass.clone(),
            Arc::clone(input),
        )))
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // Scans are cut already; a queue between threads costs more than it gains.
        vec![false]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        if let CompiledChecks::Conditions(conditions) = &*self.pass.compiled {
            for expression in conditions.expressions() {
                if visit(expression)? == TreeNodeRecursion::Stop {
                    return Ok(TreeNodeRecursion::Stop);
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batches = self.input.execute(partition, context)?;
        let mut evaluator = self.pass.compiled.evaluator();
        let results = batches.map(move |batch| evaluator.evaluate(batch?));
        let rows = results.try_filter_map(async |result| match result.is_empty() {
            true => Ok(None),
            false => result.into_rows().map(Some),
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
