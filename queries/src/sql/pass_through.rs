//! Operators that pass on all rows of their one input, in their order.
//!
//! What such operators have in common is written once: one input, an order that is kept, filters
//! that may be pushed through.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNodeRecursion, TreeNodeRecursion::Continue};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// What an operator does with its rows. It may change the types of columns and the size of batches.
pub(super) trait PassThrough: fmt::Debug + Clone + Send + Sync + 'static {
    /// The name of the operator in plans.
    const NAME: &'static str;

    /// Returns what plans contain after the name.
    fn details(&self) -> Option<&'static str> {
        None
    }

    /// Returns the properties of the operator over `input`, by default those of the input.
    fn properties_over(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        Arc::clone(input.properties())
    }

    /// Returns the rows of a partition of `plan`, which is the operator with this work.
    ///
    /// # Errors
    /// Those of the input.
    fn rows(
        &self,
        plan: &PassThroughExec<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;
}

/// An operator that does `W` with the rows of its input.
#[derive(Debug)]
pub(super) struct PassThroughExec<W> {
    /// Where the rows come from.
    pub(super) input: Arc<dyn ExecutionPlan>,
    work: W,
    properties: Arc<PlanProperties>,
}

impl<W: PassThrough> PassThroughExec<W> {
    /// Returns the operator that does `work` with the rows of `input`.
    pub(super) fn over(input: &Arc<dyn ExecutionPlan>, work: W) -> Arc<dyn ExecutionPlan> {
        Arc::new(PassThroughExec {
            properties: work.properties_over(input),
            input: Arc::clone(input),
            work,
        })
    }
}

impl<W: PassThrough> DisplayAs for PassThroughExec<W> {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.work.details() {
            Some(details) => write!(out, "{}: {details}", W::NAME),
            None => write!(out, "{}", W::NAME),
        }
    }
}

impl<W: PassThrough> ExecutionPlan for PassThroughExec<W> {
    fn name(&self) -> &str {
        W::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.as_slice() {
            [input] => Ok(PassThroughExec::over(input, self.work.clone())),
            _ => internal_err!("{} has one input", W::NAME),
        }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(Continue)
    }

    /// A query that runs again pushes the filters of its joins into scans again.
    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.work.rows(self, partition, context)
    }
}
