//! How many rows a plan returns: what is expected, and what can't be exceeded. The leaves are the
//! exact row counts of the lake's logs, so small tables are known to be small.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::JoinType;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, JoinOnRef, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;

use super::join_keys::is_address;
use super::selectivity::kept_one_in;

/// Bytes that a text or binary value is assumed to take.
const TEXT_BYTES: usize = 64;

/// Bytes that a value of a nested type is assumed to take.
const NESTED_BYTES: usize = 128;

/// Bytes of a hash table's entry for one row.
const ENTRY_BYTES: usize = 32;

/// Rows of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowEstimate {
    /// The expected number; `None` if nothing is known.
    pub(super) expected: Option<usize>,
    /// The number that can't be exceeded; `None` if there is no such number.
    pub(super) most: Option<usize>,
}

/// What an estimate assumes of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conditions {
    /// They keep a part of the rows ([`kept_one_in`]).
    Selective,
    /// They keep all rows.
    True,
}

impl Conditions {
    /// Returns a number: of so many rows, one is expected that passes `condition`.
    fn kept_one_in(self, condition: &Arc<dyn PhysicalExpr>) -> usize {
        match self {
            Conditions::Selective => kept_one_in(condition),
            Conditions::True => 1,
        }
    }
}

impl RowEstimate {
    /// Returns the estimate of `plan`. Costs a walk over its operators; reads nothing.
    pub(super) fn of(plan: &dyn ExecutionPlan) -> RowEstimate {
        RowEstimate::with(plan, Conditions::Selective)
    }

    /// Returns the rows that are expected of `plan` if its conditions leave out none; `None` if
    /// nothing is known. How selective a condition is isn't known, so rarely there are more rows.
    /// Costs the same.
    pub(super) fn without_conditions(plan: &dyn ExecutionPlan) -> Option<usize> {
        RowEstimate::with(plan, Conditions::True).expected
    }

    fn with(plan: &dyn ExecutionPlan, conditions: Conditions) -> RowEstimate {
        let inputs: Vec<RowEstimate> = plan
            .children()
            .into_iter()
            .map(|child| RowEstimate::with(child.as_ref(), conditions))
            .collect();
        let estimate = match inputs.as_slice() {
            [] => RowEstimate::of_leaf(plan, conditions),
            [input] => input.through(plan, conditions),
            [left, right] => RowEstimate::of_pair(plan, *left, *right),
            more => RowEstimate::sum(more),
        };
        estimate.limited(plan.fetch())
    }

    /// The rows of a scan or of values.
    fn of_leaf(plan: &dyn ExecutionPlan, conditions: Conditions) -> RowEstimate {
        let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new());
        let rows = statistics
            .ok()
            .and_then(|statistics| statistics.num_rows.get_value().copied());
        RowEstimate {
            expected: rows.map(|rows| rows.div_ceil(scan_keeps_one_in(plan, conditions))),
            most: rows,
        }
    }

    /// The rows of an operator with this input.
    fn through(self, plan: &dyn ExecutionPlan, conditions: Conditions) -> RowEstimate {
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let kept = conditions.kept_one_in(filter.predicate());
            return RowEstimate {
                expected: self.expected.map(|rows| rows.div_ceil(kept)),
                ..self
            };
        }
        if plan.downcast_ref::<UnnestExec>().is_some() {
            return RowEstimate { most: None, ..self };
        }
        match plan.downcast_ref::<AggregateExec>() {
            Some(aggregate) if aggregate.group_expr().is_empty() => self.limited(Some(1)),
            Some(aggregate) if !aggregate.group_expr().is_single() => {
                RowEstimate { most: None, ..self }
            }
            _ => self,
        }
    }

    /// The rows of an operator with two inputs.
    fn of_pair(plan: &dyn ExecutionPlan, left: RowEstimate, right: RowEstimate) -> RowEstimate {
        let nested = || plan.downcast_ref::<NestedLoopJoinExec>();
        let join = Join::of(plan);
        let join_type = join
            .as_ref()
            .map(|join| join.kind)
            .or_else(|| nested().map(|join| *join.join_type()));
        let [left_addresses, right_addresses] = join.map_or([false; 2], |join| join.addresses());
        match join_type {
            Some(JoinType::LeftSemi) if left_addresses => left.least(right),
            Some(JoinType::RightSemi) if right_addresses => right.least(left),
            Some(JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark) => left,
            Some(JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark) => right,
            // A row of one side finds few rows of the other that have the same address.
            Some(JoinType::Inner | JoinType::Left) if right_addresses && !left_addresses => {
                RowEstimate { most: None, ..left }
            }
            Some(JoinType::Inner | JoinType::Right) if left_addresses && !right_addresses => {
                RowEstimate {
                    most: None,
                    ..right
                }
            }
            Some(_) => RowEstimate {
                expected: left.expected.max(right.expected),
                most: None,
            },
            None if plan.downcast_ref::<UnionExec>().is_some() => RowEstimate::sum(&[left, right]),
            None if plan.downcast_ref::<CrossJoinExec>().is_some() => RowEstimate {
                expected: product(left.expected, right.expected),
                most: product(left.most, right.most),
            },
            None => RowEstimate {
                expected: None,
                most: None,
            },
        }
    }

    /// The rows of a semi join on the address of this side: at most a few have the same address, so
    /// not many more than the other side has are expected.
    fn least(self, other: RowEstimate) -> RowEstimate {
        let expected = [self.expected, other.expected].into_iter().flatten().min();
        RowEstimate { expected, ..self }
    }

    fn sum(inputs: &[RowEstimate]) -> RowEstimate {
        let sum = |rows: fn(&RowEstimate) -> Option<usize>| {
            inputs
                .iter()
                .try_fold(0_usize, |sum, input| Some(sum.saturating_add(rows(input)?)))
        };
        RowEstimate {
            expected: sum(|input| input.expected),
            most: sum(|input| input.most),
        }
    }

    /// Applies a limit.
    fn limited(self, limit: Option<usize>) -> RowEstimate {
        let Some(limit) = limit else { return self };
        let least = |rows: Option<usize>| Some(rows.map_or(limit, |rows| rows.min(limit)));
        RowEstimate {
            expected: least(self.expected),
            most: least(self.most),
        }
    }
}

/// A join on equal keys.
struct Join<'p> {
    kind: JoinType,
    keys: JoinOnRef<'p>,
}

impl<'p> Join<'p> {
    /// Returns the join that `plan` is.
    fn of(plan: &'p dyn ExecutionPlan) -> Option<Join<'p>> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return Some(Join {
                kind: *join.join_type(),
                keys: join.on(),
            });
        }
        let join = plan.downcast_ref::<SortMergeJoinExec>()?;
        Some(Join {
            kind: join.join_type(),
            keys: join.on(),
        })
    }

    /// Returns for each side whether one of its keys is the address of a grain.
    fn addresses(&self) -> [bool; 2] {
        [
            self.keys.iter().any(|(left, _)| is_address(left)),
            self.keys.iter().any(|(_, right)| is_address(right)),
        ]
    }
}

/// Returns a number: of so many rows, the conditions that a scan checks are expected to keep one.
/// Its statistics are those of the files.
fn scan_keeps_one_in(plan: &dyn ExecutionPlan, conditions: Conditions) -> usize {
    let scan = plan.downcast_ref::<DataSourceExec>();
    let files = scan.and_then(|scan| scan.data_source().downcast_ref::<FileScanConfig>());
    let condition = files.and_then(|files| files.file_source().filter());
    condition.map_or(1, |condition| conditions.kept_one_in(&condition))
}

fn product(left: Option<usize>, right: Option<usize>) -> Option<usize> {
    Some(left?.saturating_mul(right?))
}

/// Returns the bytes that a row with `schema` takes in a hash table, roughly.
pub(super) fn row_bytes(schema: &Schema) -> usize {
    let columns = schema.fields().iter().map(|field| match field.data_type() {
        kind if kind.primitive_width().is_some() => kind.primitive_width().unwrap_or_default(),
        kind if kind.is_nested() => NESTED_BYTES,
        DataType::Boolean | DataType::Null => 1,
        _ => TEXT_BYTES,
    });
    columns.sum::<usize>() + ENTRY_BYTES
}
