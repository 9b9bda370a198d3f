//! Limits of the results of window functions. A frame of n rows whose function returns one of their
//! values, or all of them as a list, makes n copies of that for n rows, and no memory pool counts
//! them: `array_agg(value) OVER ()` over 100,000 rows makes 80 GB.
//!
//! | module | question |
//! |---|---|
//! | this one | Which calls have a limit? |
//! | `result_budget` | How many bytes have the results of a call? |
//! | `aggregates` | Aggregates over a window |
//! | `functions` | Window functions |

mod aggregates;
mod functions;
mod result_budget;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawWindowExpr};
use datafusion::logical_expr::{AggregateUDF, WindowFunctionDefinition, WindowUDF};

use self::aggregates::LimitedAggregate;
use self::functions::LimitedWindowFunction;
use self::result_budget::{ResultBudget, ResultRows};

/// Functions that return values of a frame, or all of them.
const COPYING: [&str; 7] = [
    "array_agg",
    "string_agg",
    "min",
    "max",
    "first_value",
    "last_value",
    "nth_value",
];

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
        if COPYING.contains(&call.func_def.name()) {
            let rows = ResultRows::of(&call, self.batch_rows);
            let budget = ResultBudget::new(self.memory, rows);
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
