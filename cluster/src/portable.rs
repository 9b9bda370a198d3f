//! Which plans mean the same on executors. A plan is rewritten to one that every process can run,
//! or refused: by name, before anything is submitted.
//!
//! An operator is on the list here if DataFusion's protobuf carries all of it, and if Ballista
//! gives each task its part of the input, or all of it where it must see all. Tests compare the
//! answers of every kind of plan on this list.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, JoinType, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::logical_expr::expr::{NullTreatment, WindowFunction};
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::{HigherOrderFunctionExpr, PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};
use gristmill_queries::exec::encode_function;
use gristmill_queries::packs::RulesExec;
use gristmill_queries::sql::{IndexedFileSource, LAKE_STORE, PortableNode, portable_node};

use crate::codec::lake_scan;
use crate::error::ClusterError;
use crate::lake_url;
use crate::session::Functions;

/// Largest limit that the protobuf of a scan carries; a larger one would wrap around.
const MAX_LIMIT: usize = u32::MAX as usize;

/// Rewrites plans over one lake for executors.
#[derive(Debug)]
pub struct PlanCheck {
    /// Location of the lake, the same for all processes.
    location: String,
    /// The functions that executors have.
    functions: Functions,
}

impl PlanCheck {
    /// Returns the check of plans over the lake at `location`: an absolute path, or a URI.
    ///
    /// # Errors
    /// [`DataFusionError`] if the functions of executors can't be listed.
    pub fn new(location: &str) -> Result<PlanCheck> {
        Ok(PlanCheck {
            location: location.to_owned(),
            functions: Functions::of_executors()?,
        })
    }

    /// Returns `plan`, which was made of `logical`, in the form that executors run; `None` if it
    /// reads nothing of the lake, so that there is nothing to distribute.
    ///
    /// # Errors
    /// [`ClusterError::NotPortable`] if anything of it isn't known to return the same rows there.
    pub fn portable(
        &self,
        logical: &LogicalPlan,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if !reads_lake(plan)? {
            return Ok(None);
        }
        check_windows(logical)?;
        self.rewritten(Arc::clone(plan)).map(Some)
    }

    fn rewritten(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        match portable_node(&plan) {
            PortableNode::Replaced(plan) => return self.rewritten(plan),
            PortableNode::Bound(reason) => return Err(refused(plan.name(), reason)),
            PortableNode::Unchanged => {}
        }
        self.check_functions(&plan)?;
        if plan.is::<DataSourceExec>() {
            return self.source(plan);
        }
        check_operator(&plan)?;
        let children = plan.children().into_iter().cloned();
        let children = children.map(|child| self.rewritten(child));
        let children = children.collect::<Result<Vec<_>>>()?;
        replace_children_if_necessary(plan, children)
    }

    /// Returns the scan `plan` with the URL of its lake.
    fn source(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(scan) = lake_scan(&plan) else {
            return check_memory(&plan).map(|fetch| limited(plan, fetch));
        };
        check_filters(&plan)?;
        if scan.object_store_url.as_str().trim_end_matches('/') != LAKE_STORE {
            return Err(refused(plan.name(), "executors don't have the files"));
        }
        check_scan(scan)?;
        let source = match scan.file_source().downcast_ref::<IndexedFileSource>() {
            Some(_) => Arc::clone(scan.file_source()),
            None => Arc::new(IndexedFileSource::new(Arc::clone(scan.file_source()), "")),
        };
        let inner = source.downcast_ref::<IndexedFileSource>();
        if !inner.is_some_and(|source| source.inner().is::<ParquetSource>()) {
            return Err(refused(plan.name(), "it doesn't read Parquet files"));
        }
        let mut scan = FileScanConfigBuilder::from(scan.clone())
            .with_source(source)
            .build();
        scan.object_store_url = lake_url::url_of(&self.location)?;
        Ok(DataSourceExec::from_data_source(scan))
    }

    /// Refuses functions that executors have in another form: but for those of one statement, the
    /// protobuf has only their names.
    fn check_functions(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let mut unknown = None;
        let mut visit = |root: &Arc<dyn PhysicalExpr>| {
            root.apply(|expression| {
                if let Some(name) = self.unknown_function(expression) {
                    unknown.get_or_insert(name);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        };
        plan.apply_expressions(&mut visit)?;
        let aggregates = plan.downcast_ref::<AggregateExec>();
        for aggregate in aggregates.into_iter().flat_map(|it| it.aggr_expr()) {
            if !self.functions.has_aggregate(aggregate.fun()) {
                unknown.get_or_insert(aggregate.fun().name().to_owned());
            }
        }
        match unknown {
            Some(name) => Err(refused(
                &format!("the function {name}"),
                "executors have no equal one, because it depends on --prices or on a setting",
            )),
            None => Ok(()),
        }
    }

    /// Returns the name of the function that `expression` calls, if executors don't have it.
    fn unknown_function(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<String> {
        if let Some(call) = expression.downcast_ref::<HigherOrderFunctionExpr>() {
            return Some(call.name().to_owned());
        }
        let call = expression.downcast_ref::<ScalarFunctionExpr>()?;
        let is_known =
            self.functions.has_scalar(call.fun()) || encode_function(call.fun()).is_some();
        (!is_known).then(|| call.fun().name().to_owned())
    }
}

/// Refuses window functions of which the protobuf drops a part. The physical ones don't show it.
fn check_windows(logical: &LogicalPlan) -> Result<()> {
    let mut dropped = None;
    logical.apply_with_subqueries(|node| {
        let LogicalPlan::Window(window) = node else {
            return Ok(TreeNodeRecursion::Continue);
        };
        for root in &window.window_expr {
            root.apply(|expression| {
                if let Expr::WindowFunction(call) = expression
                    && let Some(part) = dropped_part(call)
                {
                    dropped.get_or_insert((call.fun.name().to_owned(), part));
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    match dropped {
        Some((name, part)) => Err(refused(&format!("{name} over a window"), part)),
        None => Ok(()),
    }
}

/// Returns why executors would compute another window function than `call`.
fn dropped_part(call: &WindowFunction) -> Option<&'static str> {
    let ignores_nulls = call.params.null_treatment == Some(NullTreatment::IgnoreNulls);
    let is_aggregate = matches!(call.fun, WindowFunctionDefinition::AggregateUDF(_));
    if call.params.filter.is_some() {
        Some("executors don't get the condition of FILTER")
    } else if ignores_nulls && !is_aggregate {
        Some("executors don't get IGNORE NULLS")
    } else {
        None
    }
}

/// Returns true if `plan` scans files of a lake.
fn reads_lake(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut reads = false;
    plan.apply(|plan| {
        reads |= lake_scan(plan).is_some() || bound_to_files(plan);
        Ok(match reads {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(reads)
}

/// Returns true for the scans of ours that hide the files which they read.
fn bound_to_files(plan: &Arc<dyn ExecutionPlan>) -> bool {
    matches!(portable_node(plan), PortableNode::Bound(_))
}

/// Refuses scans with filters that another operator fills while the query runs: it may do so in
/// another process.
fn check_filters(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let mut is_dynamic = false;
    plan.apply_expressions(&mut |root| {
        root.apply(|expression| {
            is_dynamic |= expression.is::<DynamicFilterPhysicalExpr>();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    match is_dynamic {
        true => Err(refused(plan.name(), "another operator fills its filter")),
        false => Ok(()),
    }
}

/// Refuses scans of which the protobuf drops something that matters.
fn check_scan(scan: &FileScanConfig) -> Result<()> {
    let limit = scan.limit.unwrap_or_default();
    match scan {
        _ if limit > MAX_LIMIT => Err(refused("a scan", "its limit is too large")),
        _ if !scan.output_ordering.is_empty() || scan.output_partitioning.is_some() => Err(
            refused("a scan", "its files are in an order that tasks don't keep"),
        ),
        _ if scan.preserve_order && scan.limit.is_some() => {
            Err(refused("a scan", "its limit depends on the order of files"))
        }
        _ if scan.expr_adapter_factory.is_some() => Err(refused(
            "a scan",
            "it adapts expressions in a way of its own",
        )),
        _ => Ok(()),
    }
}

/// Returns the limit of rows in memory, and refuses other sources.
fn check_memory(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<usize>> {
    let source = plan.downcast_ref::<DataSourceExec>();
    let memory = source.and_then(|it| it.data_source().downcast_ref::<MemorySourceConfig>());
    match memory.map(MemorySourceConfig::fetch) {
        Some(fetch) if fetch.unwrap_or_default() <= MAX_LIMIT => Ok(fetch),
        Some(_) => Err(refused(plan.name(), "its limit is too large")),
        None => Err(refused(plan.name(), "its rows are in this process")),
    }
}

/// Returns `plan` below its limit, if it has one: Ballista gives each task its part of rows in
/// memory without the limit.
fn limited(plan: Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Arc<dyn ExecutionPlan> {
    match fetch {
        Some(fetch) => Arc::new(LocalLimitExec::new(plan, fetch)),
        None => plan,
    }
}

/// Refuses operators that aren't known to be the same when they are cut into tasks.
fn check_operator(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        return check_nested_loop(join);
    }
    if plan.is::<PlaceholderRowExec>() || plan.is::<EmptyExec>() {
        return match plan.output_partitioning().partition_count() {
            1 => Ok(()),
            // The protobuf has one partition.
            _ => Err(refused(plan.name(), "it has several partitions")),
        };
    }
    let known = plan.is::<AggregateExec>()
        || plan.is::<BoundedWindowAggExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<FilterExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<InterleaveExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<RulesExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<UnionExec>()
        || plan.is::<UnnestExec>()
        || plan.is::<WindowAggExec>();
    match known {
        true => Ok(()),
        false => Err(refused(
            plan.name(),
            "it isn't known to return the same rows there",
        )),
    }
}

/// Refuses joins whose tasks would each return the rows of the left side that they didn't match
/// themselves: DataFusion collects the matches of all partitions in one process.
fn check_nested_loop(join: &NestedLoopJoinExec) -> Result<()> {
    let returns_left = matches!(
        join.join_type(),
        JoinType::Left
            | JoinType::Full
            | JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::LeftMark
    );
    let partitions = join.right().output_partitioning().partition_count();
    match returns_left && partitions > 1 {
        true => Err(refused(
            join.name(),
            "a join without an equality compares one side with all of the other",
        )),
        false => Ok(()),
    }
}

fn refused(operator: &str, reason: &'static str) -> DataFusionError {
    let operator = operator.to_owned();
    ClusterError::NotPortable { operator, reason }.into()
}
