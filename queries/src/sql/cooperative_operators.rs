//! Operators that make many batches of one pause between them, so that a query that is cancelled,
//! or whose time is over, ends soon.
//!
//! A task ends at a pause, and DataFusion's operators pause after some batches of a scan. A join
//! may make millions of batches of one of a scan, and what reads them, such as an aggregate, would
//! go on for hours.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, Result};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use super::sliced_inputs::paced;

/// Puts a [`CooperativeExec`] over joins, whose side that is read row by row it slices, over other
/// operators with several inputs, and over `unnest`. It runs after the rules that look for these
/// operators.
#[derive(Debug)]
pub(super) struct CooperativeOperatorsRule;

impl PhysicalOptimizerRule for CooperativeOperatorsRule {
    fn name(&self) -> &str {
        "gristmill_cooperative_operators"
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
        plan.transform_up(|plan| with_pauses(plan, batch_rows))
            .data()
    }
}

/// Returns `plan` with pauses, if it is an operator that may make many batches of one, or compare
/// the rows of one with very many.
fn with_pauses(
    plan: Arc<dyn ExecutionPlan>,
    batch_rows: usize,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let children: Vec<_> = plan.children().into_iter().cloned().collect();
    let plan = match (children.as_slice(), probe_side(&plan)) {
        ([left, right], Some(side)) => {
            let inputs = match side {
                JoinSide::Left => vec![paced(left, batch_rows), Arc::clone(right)],
                _ => vec![Arc::clone(left), paced(right, batch_rows)],
            };
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            plan.replace_children(inputs, options)?
        }
        ([_, _, ..], _) => plan,
        _ if plan.is::<UnnestExec>() => plan,
        _ => return Ok(Transformed::no(plan)),
    };
    Ok(Transformed::yes(Arc::new(CooperativeExec::new(plan))))
}

/// Returns the side of which a join compares each row with those that it holds of the other; `None`
/// for other operators.
fn probe_side(plan: &Arc<dyn ExecutionPlan>) -> Option<JoinSide> {
    match plan.downcast_ref::<SortMergeJoinExec>() {
        Some(join) => Some(SortMergeJoinExec::probe_side(&join.join_type())),
        None => (plan.is::<HashJoinExec>() || plan.is::<NestedLoopJoinExec>())
            .then_some(JoinSide::Right),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use datafusion::prelude::SessionContext;

    use super::super::shared_memory::SharedMemory;
    use super::super::{SqlOptions, bare_context};

    /// Far less than the queries take, which is hours.
    const SOON: Duration = Duration::from_secs(20);

    /// Returns a session as a server has one for a query.
    fn session() -> SessionContext {
        let options = SqlOptions {
            threads: 2,
            memory: Some(256 << 20),
            ..SqlOptions::default()
        };
        let context = bare_context(&options).unwrap();
        let memory = SharedMemory::of(&context, 1);
        memory.session(&context, 128 << 20).unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn queries_of_many_rows_end_soon_after_they_are_dropped() {
        let numbers = |count: usize| format!("generate_series(1, {count})");
        let many = numbers(1_000_000);
        let on_few_keys = format!(
            "SELECT count(*) FROM {many} a JOIN {many} b ON a.value % 2 = b.value % 2 \
             WHERE a.value * b.value < 0"
        );
        let queries = [
            // A cross join, with and without an aggregate above it.
            format!("SELECT sum(a.value * b.value) FROM {many} a, {many} b"),
            format!("SELECT a.value FROM {many} a, {many} b WHERE a.value + b.value < 0"),
            // A nested-loop join without a result.
            format!("SELECT count(*) FROM {many} a JOIN {many} b ON a.value < b.value - 2000000"),
            on_few_keys.clone(),
            format!(
                "SELECT max(n) FROM (SELECT unnest(range(0, 1000000 + value)) AS n FROM {many})"
            ),
        ];
        let queries = queries.into_iter().map(|query| (query, true));
        for (query, prefers_hash_joins) in queries.chain([(on_few_keys, false)]) {
            let context = session();
            let setting =
                format!("SET datafusion.optimizer.prefer_hash_join = {prefers_hash_joins}");
            context.sql(&setting).await.unwrap();
            let text = query.clone();
            let run = tokio::spawn(async move { context.sql(&text).await?.collect().await });
            tokio::time::sleep(Duration::from_millis(500)).await;
            let begun = Instant::now();
            run.abort();
            assert!(run.await.is_err());
            // The tasks of its partitions have ended, too.
            let metrics = tokio::runtime::Handle::current().metrics();
            while metrics.num_alive_tasks() > 0 && begun.elapsed() < 2 * SOON {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let waited = begun.elapsed();
            assert!(waited < SOON, "{waited:?}: {query}");
        }
    }
}
