//! Counts the bytes of the results of a window function.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::WindowFrameUnits;
use datafusion::logical_expr::planner::RawWindowExpr;
use datafusion::physical_expr::PhysicalExpr;

use super::super::wide_rows::value_bytes;
use super::held_rows::{self, ResultBytes};

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
    /// True if the call reads only some rows of a partition, and has a result for all.
    is_filtered: bool,
    spent: Mutex<Option<SpentInPlan>>,
}

/// What was spent while one physical plan is executed, where no operator counts what it passes on.
#[derive(Debug)]
struct SpentInPlan {
    /// The first argument of the call, which each plan has its own of.
    argument: Arc<dyn PhysicalExpr>,
    spent: Arc<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    results: AtomicU64,
    bytes: AtomicU64,
}

impl ResultBudget {
    /// Returns the budget of `call`, whose results may have `limit` bytes in batches of
    /// `batch_rows` rows.
    pub(super) fn of(call: &RawWindowExpr, limit: usize, batch_rows: usize) -> ResultBudget {
        ResultBudget {
            limit: limit as u64,
            rows: ResultRows::of(call, batch_rows),
            is_filtered: call.filter.is_some(),
            spent: Mutex::default(),
        }
    }

    /// Returns the account of an execution of the function `name` with `arguments`, which the
    /// partitions of a plan share.
    pub(super) fn account(&self, name: &str, arguments: &[Arc<dyn PhysicalExpr>]) -> ResultAccount {
        let spent = match arguments.first() {
            Some(argument) => self.spent_in_plan(argument),
            None => Arc::default(),
        };
        ResultAccount {
            function: name.to_owned(),
            limit: self.limit,
            rows: self.rows,
            is_filtered: self.is_filtered,
            spent,
        }
    }

    fn spent_in_plan(&self, argument: &Arc<dyn PhysicalExpr>) -> Arc<Spent> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spent) = &*spent
            && Arc::ptr_eq(&spent.argument, argument)
        {
            return Arc::clone(&spent.spent);
        }
        let fresh = Arc::<Spent>::default();
        *spent = Some(SpentInPlan {
            argument: Arc::clone(argument),
            spent: Arc::clone(&fresh),
        });
        fresh
    }
}

impl PartialEq for ResultBudget {
    fn eq(&self, other: &ResultBudget) -> bool {
        let of = |it: &ResultBudget| (it.limit, it.rows, it.is_filtered);
        of(self) == of(other)
    }
}

impl Eq for ResultBudget {}

impl Hash for ResultBudget {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.limit, self.rows, self.is_filtered).hash(state);
    }
}

/// The account of one execution.
#[derive(Debug)]
pub(super) struct ResultAccount {
    function: String,
    limit: u64,
    rows: ResultRows,
    is_filtered: bool,
    spent: Arc<Spent>,
}

impl ResultAccount {
    /// Returns `value`, a result in a partition of which `rows` rows were read, unless the results
    /// become too large with it.
    ///
    /// # Errors
    /// [`DataFusionError::ResourcesExhausted`] if they do.
    pub(super) fn charge(&self, value: ScalarValue, rows: u64) -> Result<ScalarValue> {
        let rows = match self.rows {
            ResultRows::OnePerPartition if self.is_filtered => {
                held_rows::partition_rows().map_or(rows, |all| all.max(rows))
            }
            ResultRows::OnePerPartition => rows,
            ResultRows::All | ResultRows::Batch(_) => 1,
        };
        self.charge_bytes(bytes_of(&value).saturating_mul(rows))?;
        Ok(value)
    }

    /// Counts `bytes` of results.
    ///
    /// # Errors
    /// As [`charge`](Self::charge).
    pub(super) fn charge_bytes(&self, bytes: u64) -> Result<()> {
        let results = held_rows::add_results(bytes).unwrap_or_else(|| ResultBytes {
            needed: self.spend(bytes),
            limit: self.limit,
        });
        match results.needed <= results.limit {
            true => Ok(()),
            false => Err(self.too_large(results)),
        }
    }

    /// Returns the sum of `bytes` and what was spent before; of the last batch, if batches are
    /// passed on.
    fn spend(&self, bytes: u64) -> u64 {
        let spent = &*self.spent;
        let results = spent.results.fetch_add(1, Ordering::Relaxed);
        if let ResultRows::Batch(rows) = self.rows
            && results.is_multiple_of(rows.max(1) as u64)
        {
            spent.bytes.store(0, Ordering::Relaxed);
        }
        let before = spent.bytes.load(Ordering::Relaxed);
        let needed = before.saturating_add(bytes);
        spent.bytes.store(needed, Ordering::Relaxed);
        needed
    }

    fn too_large(&self, results: ResultBytes) -> DataFusionError {
        let ResultBytes { needed, limit } = results;
        DataFusionError::ResourcesExhausted(format!(
            "the results of {} over a window would have {needed} bytes or more, beyond the memory \
             limit of {limit}: use a smaller frame or PARTITION BY, shorten the values, or join \
             with an aggregate",
            self.function
        ))
    }
}

/// Returns the bytes of a value as [`value_bytes`] counts them in a column; 0 for one of a fixed
/// width.
pub(super) fn bytes_of(value: &ScalarValue) -> u64 {
    let bytes = match value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::Utf8View(Some(text))
        | ScalarValue::LargeUtf8(Some(text)) => text.len(),
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::FixedSizeBinary(_, Some(bytes)) => bytes.len(),
        ScalarValue::List(list) => value_bytes(list.as_ref()),
        ScalarValue::LargeList(list) => value_bytes(list.as_ref()),
        ScalarValue::FixedSizeList(list) => value_bytes(list.as_ref()),
        ScalarValue::Struct(fields) => value_bytes(fields.as_ref()),
        ScalarValue::Map(entries) => value_bytes(entries.as_ref()),
        ScalarValue::Dictionary(_, value) => return bytes_of(value),
        other => other.size().saturating_sub(size_of::<ScalarValue>()),
    };
    bytes as u64
}
