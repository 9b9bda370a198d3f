//! Reads sealed files: stored rows are scanned like any others and opened batch by batch.

use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result, Statistics, exec_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, col, lit};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use futures::StreamExt;
use gristmill_engine::keys::{ErasedRows, LakeKeys};
use gristmill_schemas::columns::{BLIND_TOKEN_FIELDS, GRAINS, grains_schema};

use super::external;
use super::index_predicate::restricted_values;

/// Opens the sealed rows of a table.
#[derive(Debug, Clone)]
pub(super) struct Unsealer {
    keys: Arc<LakeKeys>,
    /// Rows of `grains` contain one envelope each, rows of other tables sealed cells.
    grains: bool,
    /// Output columns, in order.
    schema: SchemaRef,
}

impl Unsealer {
    /// Creates the unsealer of rows of `table`; its output has the columns of `schema`.
    pub(super) fn new(keys: Arc<LakeKeys>, table: &str, schema: SchemaRef) -> Unsealer {
        Unsealer {
            keys,
            grains: table == GRAINS,
            schema,
        }
    }

    /// Returns the columns that must be read, as positions in `whole`.
    pub(super) fn stored(&self, whole: &SchemaRef) -> Result<Vec<usize>> {
        let names: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        let names = if self.grains {
            LakeKeys::sealed_columns(Some(&names))
        } else {
            names
        };
        names.iter().map(|name| Ok(whole.index_of(name)?)).collect()
    }

    /// Returns the rows of `stored`, opened. `erased` determines what happens to rows whose key was
    /// destroyed.
    pub(super) fn open(&self, stored: &RecordBatch, erased: ErasedRows) -> Result<RecordBatch> {
        let names: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        let opened = match self.grains {
            true => self.keys.open_rows(stored, Some(&names), erased),
            false => self.keys.open_cells(stored),
        };
        let opened = opened.map_err(external)?;
        with_columns(&opened, &names, &self.schema)
    }

    /// Translates `filters` to a predicate on the stored rows of `grains`: equality with a text
    /// becomes equality with its token. `None` if nothing can be translated.
    pub(super) fn predicate(
        &self,
        state: &dyn Session,
        filters: &[Expr],
    ) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        if !self.grains {
            return Ok(None);
        }
        let token_of = |name: &str| {
            BLIND_TOKEN_FIELDS
                .into_iter()
                .map(|field| field.name())
                .find(|token| *token == name)
        };
        let said = filters
            .iter()
            .flat_map(split_conjunction)
            .filter_map(|filter| restricted_values(filter, &token_of));
        let tokens = said.map(|(column, values)| {
            let tokens = values
                .iter()
                .map(|value| lit(self.keys.token(column, value)))
                .collect();
            col(column).in_list(tokens, false)
        });
        let Some(predicate) = conjunction(tokens) else {
            return Ok(None);
        };
        let schema = DFSchema::try_from(grains_schema())?;
        state.create_physical_expr(predicate, &schema).map(Some)
    }
}

/// Returns the columns `names` of `opened`, which are those of `schema`.
fn with_columns(opened: &RecordBatch, names: &[&str], schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = names
        .iter()
        .map(|name| opened.column_by_name(name).cloned())
        .collect::<Option<Vec<_>>>();
    let rows = RecordBatchOptions::new().with_row_count(Some(opened.num_rows()));
    match columns {
        Some(columns) => Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns,
            &rows,
        )?),
        None => exec_err!("a column of a sealed table is missing in the opened batch"),
    }
}

/// A scan of sealed files that returns opened rows.
#[derive(Debug)]
pub(super) struct UnsealExec {
    input: Arc<dyn ExecutionPlan>,
    unsealer: Unsealer,
    properties: Arc<PlanProperties>,
}

impl UnsealExec {
    /// Creates the operator above `input`, the scan of stored rows.
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, unsealer: Unsealer) -> UnsealExec {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&unsealer.schema)),
            Partitioning::UnknownPartitioning(partitions),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        UnsealExec {
            input,
            unsealer,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for UnsealExec {
    fn fmt_as(&self, kind: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::TreeRender => Ok(()),
            _ => {
                write!(out, "UnsealExec: ")?;
                self.input.fmt_as(kind, out)
            }
        }
    }
}

/// A leaf for the planner: filters pushed into the input would apply to stored rows, not to opened
/// ones.
impl ExecutionPlan for UnsealExec {
    fn name(&self) -> &str {
        "UnsealExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let unsealer = self.unsealer.clone();
        let stored = self.input.execute(partition, context)?;
        let opened = stored.map(move |batch| unsealer.open(&batch?, ErasedRows::Dropped));
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.unsealer.schema),
            opened,
        )))
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.unsealer.schema)))
    }
}
