//! Window operators between two operators that count what they hold: one below that counts the
//! rows which are read, and one above that counts the rows and results which are passed on.
//!
//! DataFusion's hold all rows of their input for a frame with an open end, and those of a frame
//! otherwise, and make a column of them of each constant argument. No memory pool counts that.

use std::sync::Arc;
use std::task::Poll;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use futures::{StreamExt, stream};

use super::super::partitioned_windows::PartitionedWindowExec;
use super::super::pass_through::{PassThrough, PassThroughExec};
use super::super::sliced_inputs::bytes_of_constants;
use super::super::wide_rows::value_bytes;
use super::held_rows::{HeldRows, OperatorMemory};

/// A constant is wide if copies of it for a batch have more bytes.
const CONSTANT_BYTES: usize = 32 << 20;

/// Counts what window operators hold. It runs after the rules that handle DataFusion's operators.
#[derive(Debug)]
pub(in crate::sql) struct WindowMemoryRule {
    /// Bytes that the results of an operator may have.
    limit: usize,
}

impl WindowMemoryRule {
    /// Returns the rule for queries with `limit` bytes.
    pub(in crate::sql) fn of_memory(limit: usize) -> WindowMemoryRule {
        WindowMemoryRule { limit }
    }

    fn counted(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        batch_rows: usize,
    ) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let Some(functions) = window_functions(&plan) else {
            return Ok(Transformed::no(plan));
        };
        let memory = OperatorMemory::new(self.limit);
        let counted = |side, rows| OperatorRows {
            side,
            rows,
            memory: Arc::clone(&memory),
        };
        let mut inputs = Vec::new();
        let mut width = RowWidth::of_constants(functions, batch_rows)?;
        for input in plan.children() {
            width.columns = input.schema().fields().len();
            inputs.push(PassThroughExec::over(input, counted(Side::Read, width)));
        }
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let window = plan.replace_children(inputs, options)?;
        let counted = counted(Side::PassedOn, width);
        Ok(Transformed::yes(PassThroughExec::over(&window, counted)))
    }
}

/// Returns the functions of a window operator; `None` for other operators.
fn window_functions(plan: &Arc<dyn ExecutionPlan>) -> Option<&[Arc<dyn WindowExpr>]> {
    let whole = || Some(plan.downcast_ref::<WindowAggExec>()?.window_expr());
    let bounded = || Some(plan.downcast_ref::<BoundedWindowAggExec>()?.window_expr());
    let by_partition = || Some(plan.downcast_ref::<PartitionedWindowExec>()?.window_expr());
    whole().or_else(bounded).or_else(by_partition)
}

impl PhysicalOptimizerRule for WindowMemoryRule {
    fn name(&self) -> &str {
        "gristmill_window_memory"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batch_rows = config.execution.batch_size.into();
        plan.transform_up(|plan| self.counted(plan, batch_rows))
            .data()
    }
}

/// What is counted of a row of the input.
#[derive(Debug, Clone, Copy)]
struct RowWidth {
    /// The columns of the input, which are the first ones of what the operator passes on.
    columns: usize,
    /// Bytes of wide constants, of which each row has a copy.
    constants: usize,
}

impl RowWidth {
    fn of_constants(functions: &[Arc<dyn WindowExpr>], batch_rows: usize) -> Result<RowWidth> {
        let mut constants = 0_usize;
        for argument in functions.iter().flat_map(|function| function.expressions()) {
            let bytes = bytes_of_constants(&argument, CONSTANT_BYTES, batch_rows)?;
            constants = constants.saturating_add(bytes);
        }
        Ok(RowWidth {
            columns: 0,
            constants,
        })
    }

    /// Returns the bytes of a batch in the operator.
    fn bytes_of(self, batch: &RecordBatch) -> usize {
        let columns = batch.columns().iter().take(self.columns);
        let bytes = columns.map(|column| value_bytes(column.as_ref()));
        let constants = self.constants.saturating_mul(batch.num_rows());
        bytes.fold(constants, usize::saturating_add)
    }

    /// Returns the bytes of the results in a batch that are counted when they are computed.
    fn bytes_of_results(self, batch: &RecordBatch) -> usize {
        let results = batch.columns().iter().skip(self.columns);
        let wide = results.filter(|column| column.data_type().primitive_width().is_none());
        let bytes = wide.map(|column| value_bytes(column.as_ref()));
        bytes.fold(0, usize::saturating_add)
    }
}

/// The side of a window operator on which rows are counted.
#[derive(Debug, Clone, Copy)]
enum Side {
    /// Below it.
    Read,
    /// Above it.
    PassedOn,
}

/// Counts the rows, and changes nothing.
#[derive(Debug, Clone)]
struct OperatorRows {
    side: Side,
    rows: RowWidth,
    memory: Arc<OperatorMemory>,
}

impl PassThrough for OperatorRows {
    const NAME: &'static str = "OperatorRowsExec";

    fn details(&self) -> Option<&'static str> {
        Some(match self.side {
            Side::Read => "read",
            Side::PassedOn => "passed on",
        })
    }

    fn rows(
        &self,
        plan: &PassThroughExec<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        match self.side {
            Side::PassedOn => {
                let held = self.memory.start(partition, context.memory_pool());
                let rows = plan.input.execute(partition, context)?;
                Ok(passed_on(rows, held, self.rows))
            }
            Side::Read => {
                let held = self.memory.started(partition);
                let rows = plan.input.execute(partition, context)?;
                Ok(match held {
                    Some(held) => read(rows, held, self.rows),
                    None => rows,
                })
            }
        }
    }
}

/// Returns the rows that an operator reads, which holds them from then on.
fn read(
    rows: SendableRecordBatchStream,
    held: Arc<HeldRows>,
    width: RowWidth,
) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let rows = rows.map(move |batch| {
        let batch = batch?;
        held.read(width.bytes_of(&batch))?;
        Ok(batch)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// Returns the rows that an operator passes on. It computes while they are requested.
fn passed_on(
    mut rows: SendableRecordBatchStream,
    held: Arc<HeldRows>,
    width: RowWidth,
) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let rows = stream::poll_fn(move |context| {
        let poll = held.during(|| rows.poll_next_unpin(context));
        if let Poll::Ready(Some(Ok(batch))) = &poll {
            held.pass_on(width.bytes_of(batch), width.bytes_of_results(batch));
        }
        poll
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}
