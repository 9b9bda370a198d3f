//! Operators of ours with one input, as nodes of logical plans: the planner of a session turns them
//! into physical operators, wherever the plan runs.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, DFSchemaRef, Result, plan_err};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use datafusion::prelude::DataFrame;

/// An operator that reads the rows of one plan. It needs all of their columns.
pub(crate) trait UnaryOperator: fmt::Debug + Send + Sync {
    /// Returns the name in EXPLAIN.
    fn name(&self) -> &'static str;

    /// Returns the schema of its rows.
    fn schema(&self) -> SchemaRef;

    /// Returns the physical operator over `input`.
    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan>;
}

/// Returns the rows of `operator` over those of `frame`.
///
/// # Errors
/// If its schema has a name twice.
pub(crate) fn apply(frame: DataFrame, operator: Arc<dyn UnaryOperator>) -> Result<DataFrame> {
    let schema = DFSchema::try_from(operator.schema())?;
    let (state, input) = frame.into_parts();
    let node = UnaryNode {
        input,
        schema: Arc::new(schema),
        operator,
    };
    let node = Arc::new(node);
    Ok(DataFrame::new(
        state,
        LogicalPlan::Extension(Extension { node }),
    ))
}

/// Returns DataFusion's planner, which also plans these nodes.
pub(super) fn planner() -> DefaultPhysicalPlanner {
    DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(UnaryPlanner)])
}

#[derive(Clone)]
struct UnaryNode {
    input: LogicalPlan,
    schema: DFSchemaRef,
    operator: Arc<dyn UnaryOperator>,
}

impl fmt::Debug for UnaryNode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}({:?})", self.operator.name(), self.input)
    }
}

impl PartialEq for UnaryNode {
    fn eq(&self, other: &UnaryNode) -> bool {
        Arc::ptr_eq(&self.operator, &other.operator) && self.input == other.input
    }
}

impl Eq for UnaryNode {}

impl PartialOrd for UnaryNode {
    fn partial_cmp(&self, other: &UnaryNode) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for UnaryNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.operator.name().hash(state);
        self.input.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for UnaryNode {
    fn name(&self) -> &str {
        self.operator.name()
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.operator.name())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<UnaryNode> {
        let Ok([input]) = <[LogicalPlan; 1]>::try_from(inputs) else {
            return plan_err!("{} has one input", self.operator.name());
        };
        Ok(UnaryNode {
            input,
            ..self.clone()
        })
    }
}

struct UnaryPlanner;

#[async_trait]
impl ExtensionPlanner for UnaryPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let node = node.as_any().downcast_ref::<UnaryNode>();
        let planned = node.zip(inputs.first());
        Ok(planned.map(|(node, input)| node.operator.over(Arc::clone(input))))
    }
}
