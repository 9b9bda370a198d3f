//! Limits of the results of window functions. A frame of n rows whose function returns one of their
//! values, or all of them as a list, makes n copies of that for n rows, and no memory pool counts
//! them: `array_agg(value) OVER ()` over 100,000 rows makes 80 GB.
//!
//! In a server and in `gristmill sql` the operators count what they hold: results until they are
//! passed on, and the rows of their input, which the memory pool doesn't count either. Elsewhere
//! each call of a function counts its results, and expects that a batch of them is passed on if
//! the frame ends before the partition does.
//!
//! | module | question |
//! |---|---|
//! | this one | Which calls have a limit? |
//! | `result_budget` | How many bytes have the results of a call? |
//! | `aggregates` | Aggregates over a window |
//! | `functions` | Window functions |
//! | `operators` | Which operators count what they hold? |
//! | `held_rows` | What does an operator hold? |
//! | `filter_rows` | How many rows has the partition of an aggregate with FILTER? |

mod aggregates;
mod filter_rows;
mod functions;
mod held_rows;
mod operators;
mod result_budget;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawWindowExpr};
use datafusion::logical_expr::{AggregateUDF, WindowFunctionDefinition, WindowUDF};

use self::aggregates::LimitedAggregate;
use self::functions::LimitedWindowFunction;
pub(super) use self::operators::WindowMemoryRule;
use self::result_budget::ResultBudget;

/// Functions that return values of a frame, or all of them.
const COPYING: [&str; 8] = [
    "array_agg",
    "string_agg",
    "min",
    "max",
    "any_value",
    "first_value",
    "last_value",
    "nth_value",
];

/// Functions that return the value of another row. Each is returned once, but for a default, and
/// for values in the place of NULLs that are ignored.
const SHIFTING: [&str; 2] = ["lag", "lead"];

/// Returns true if the results of `call` may have more bytes than the values of its rows.
fn makes_copies(call: &RawWindowExpr) -> bool {
    let name = call.func_def.name();
    let has_default = call.args.len() > 2;
    COPYING.contains(&name)
        || SHIFTING.contains(&name) && (has_default || call.null_treatment.is_some())
}

/// Returns the planner of window functions, whose results have at most `memory` bytes, where
/// batches have `batch_rows` rows. It must precede DataFusion's planners.
pub(super) fn planner(memory: usize, batch_rows: usize) -> Arc<dyn ExprPlanner> {
    Arc::new(LimitedWindows { memory, batch_rows })
}

#[derive(Debug)]
struct LimitedWindows {
    memory: usize,
    batch_rows: usize,
}

impl ExprPlanner for LimitedWindows {
    fn plan_window(&self, mut call: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        if makes_copies(&call) {
            let budget = ResultBudget::of(&call, self.memory, self.batch_rows);
            let condition = call.filter.take();
            call.filter = condition.map(|condition| Box::new(filter_rows::with_rows(*condition)));
            call.func_def = match call.func_def {
                WindowFunctionDefinition::AggregateUDF(inner) => {
                    let limited = AggregateUDF::from(LimitedAggregate { inner, budget });
                    WindowFunctionDefinition::AggregateUDF(Arc::new(limited))
                }
                WindowFunctionDefinition::WindowUDF(inner) => {
                    let limited = WindowUDF::from(LimitedWindowFunction { inner, budget });
                    WindowFunctionDefinition::WindowUDF(Arc::new(limited))
                }
            };
        }
        Ok(PlannerResult::Original(call))
    }
}

#[cfg(test)]
mod tests;
