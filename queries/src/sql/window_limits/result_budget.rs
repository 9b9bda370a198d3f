//! Counts the bytes of the results of a window function.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::WindowFrameUnits;
use datafusion::logical_expr::planner::RawWindowExpr;
use datafusion::physical_expr::PhysicalExpr;

/// How many results are in memory at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ResultRows {
    /// One value stands for all rows of its partition, and those of all partitions are in memory.
    OnePerPartition,
    /// Those of all rows.
    All,
    /// Those of about so many rows, because results are passed on before the input ends.
    Batch(usize),
}

impl ResultRows {
    /// Returns the results of `call`, where batches have `batch_rows` rows.
    pub(super) fn of(call: &RawWindowExpr, batch_rows: usize) -> ResultRows {
        let frame = &call.window_frame;
        // Without an order, all rows of a partition are peers of the current row.
        let has_peers_only = frame.units == WindowFrameUnits::Range && call.order_by.is_empty();
        let [starts_open, ends_open] = [&frame.start_bound, &frame.end_bound]
            .map(|bound| bound.is_unbounded() || has_peers_only);
        match (starts_open, ends_open) {
            (true, true) => ResultRows::OnePerPartition,
            (false, true) => ResultRows::All,
            (_, false) => ResultRows::Batch(batch_rows),
        }
    }
}

/// The bytes that the results of one call in a statement may have. Two budgets are equal if they
/// have the same limits.
#[derive(Debug)]
pub(super) struct ResultBudget {
    limit: u64,
    rows: ResultRows,
    spent: Mutex<Option<SpentInPlan>>,
}

/// What was spent while one physical plan is executed.
#[derive(Debug)]
struct SpentInPlan {
    /// The first argument of the call, which each plan has its own of.
    argument: Arc<dyn PhysicalExpr>,
    bytes: Arc<AtomicU64>,
}

impl ResultBudget {
    pub(super) fn new(limit: usize, rows: ResultRows) -> ResultBudget {
        ResultBudget {
            limit: limit as u64,
            rows,
            spent: Mutex::default(),
        }
    }

    /// Returns the account of an execution of the function `name` with `arguments`, which the
    /// partitions of a plan share.
    pub(super) fn account(&self, name: &str, arguments: &[Arc<dyn PhysicalExpr>]) -> ResultAccount {
        let bytes = match arguments.first() {
            Some(argument) => self.spent_in_plan(argument),
            None => Arc::default(),
        };
        ResultAccount {
            function: name.to_owned(),
            limit: self.limit,
            rows: self.rows,
            bytes,
        }
    }

    fn spent_in_plan(&self, argument: &Arc<dyn PhysicalExpr>) -> Arc<AtomicU64> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spent) = &*spent
            && Arc::ptr_eq(&spent.argument, argument)
        {
            return Arc::clone(&spent.bytes);
        }
        let bytes = Arc::<AtomicU64>::default();
        *spent = Some(SpentInPlan {
            argument: Arc::clone(argument),
            bytes: Arc::clone(&bytes),
        });
        bytes
    }
}

impl PartialEq for ResultBudget {
    fn eq(&self, other: &ResultBudget) -> bool {
        (self.limit, self.rows) == (other.limit, other.rows)
    }
}

impl Eq for ResultBudget {}

impl Hash for ResultBudget {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.limit, self.rows).hash(state);
    }
}

/// The account of one execution.
#[derive(Debug)]
pub(super) struct ResultAccount {
    function: String,
    limit: u64,
    rows: ResultRows,
    bytes: Arc<AtomicU64>,
}

impl ResultAccount {
    /// Returns `value`, a result in a partition of which `rows` rows were read, unless the results
    /// become too large with it.
    ///
    /// # Errors
    /// [`DataFusionError::ResourcesExhausted`] if they do.
    pub(super) fn charge(&self, value: ScalarValue, rows: u64) -> Result<ScalarValue> {
        // What a value has on the heap.
        let size = value.size().saturating_sub(size_of::<ScalarValue>()) as u64;
        let needed = match self.rows {
            ResultRows::Batch(rows) => size.saturating_mul(rows as u64),
            ResultRows::OnePerPartition => self.spend(size.saturating_mul(rows)),
            ResultRows::All => self.spend(size),
        };
        match needed <= self.limit {
            true => Ok(value),
            false => Err(self.too_large(needed)),
        }
    }

    /// Returns the sum of `bytes` and what was spent before.
    fn spend(&self, bytes: u64) -> u64 {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        before.saturating_add(bytes)
    }

    fn too_large(&self, bytes: u64) -> DataFusionError {
        let (name, limit) = (&self.function, self.limit);
        DataFusionError::ResourcesExhausted(format!(
            "the results of {name} over a window would have {bytes} bytes or more, beyond the \
             memory limit of {limit}: use a smaller frame or PARTITION BY, shorten the values, or \
             join with an aggregate"
        ))
    }
}
