//! Reads the grains that a session may see: plans over `grains` and `state`, and the execution of
//! plans. Grains themselves are fetched in [`fetch`](super::fetch).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, UInt64Type};
use datafusion::common::{JoinType, internal_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::{Expr, col, lit};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{DataFrame, SessionContext};
use gristmill_engine::index::lifecycle_mask::HiddenRows;
use gristmill_schemas::columns::{GRAINS, SystemColumn};
use gristmill_schemas::grain::GrainType;

use super::columns::{ADDRESS, CONTRADICTED, SCORE, VERIFICATION, is_one_of};
use super::error::Result;
use super::lifecycle::{
    LifecycleCache, LifecycleStates, fold, is_contradicted, is_superseded, verification_status,
};
use super::pipeline::VALUE;
use super::session::Session;
use crate::cal::ast::{Address, Target};
use crate::cal::{CalError, Code};
use crate::sql::lifecycle::{Copies, closing_events_query};
use crate::sql::{LakeTable, hide_rows};

/// Maximum number of addresses in one IN list.
const MAX_LISTED: usize = 1_000;

/// Column of the superseded grain.
pub(super) const OLD: &str = "__old";
/// Column of the superseding grain; NULL if none is named.
pub(super) const NEW: &str = "__new";

/// Reads grains for one query of a session, and counts the rows that it reads.
pub(super) struct GrainReader<'e> {
    pub(super) context: &'e SessionContext,
    pub(super) session: &'e Session,
    lifecycle: &'e LifecycleCache,
    scanned: AtomicU64,
}

/// An address with its score.
pub(super) type ScoredAddress = (String, f64);

impl<'e> GrainReader<'e> {
    pub(super) fn new(
        context: &'e SessionContext,
        session: &'e Session,
        lifecycle: &'e LifecycleCache,
    ) -> GrainReader<'e> {
        GrainReader {
            context,
            session,
            lifecycle,
            scanned: AtomicU64::new(0),
        }
    }

    /// Loads what every query of a version of the lake needs: the lifecycle masks, or the states of
    /// all grains that aren't in a lake. It runs before the query's time limit starts.
    pub(super) async fn open(&self) -> Result<()> {
        match self.lake_table().await? {
            Some(table) => table.open_masks().await?,
            None => drop(self.lifecycle.get(self.context).await?),
        }
        Ok(())
    }

    /// Returns the number of rows read so far.
    pub(super) fn scanned(&self) -> u64 {
        self.scanned.load(Ordering::Relaxed)
    }

    /// Adds to the number of rows read.
    pub(super) fn add_scanned(&self, rows: u64) {
        self.scanned.fetch_add(rows, Ordering::Relaxed);
    }

    /// Returns a plan of all rows of `grains`, of every namespace.
    pub(super) async fn everything(&self) -> Result<DataFrame> {
        Ok(self.context.table(GRAINS).await?)
    }

    /// Returns the table `grains` of a lake; `None` if `grains` is some other table.
    pub(super) async fn lake_table(&self) -> Result<Option<LakeTable>> {
        Ok(self
            .context
            .table_provider(GRAINS)
            .await?
            .downcast_ref::<LakeTable>()
            .cloned())
    }

    /// Returns a plan of the visible grains: of the session's namespace, readable, of one of the
    /// ten types.
    pub(super) async fn visible(&self) -> Result<DataFrame> {
        self.visible_in(GRAINS).await
    }

    /// Returns a plan of the visible ones of the grains in `table`, which has the columns of
    /// `grains`.
    pub(super) async fn visible_in(&self, table: &str) -> Result<DataFrame> {
        let types = col(SystemColumn::TypeByte.name());
        let first = i16::from(GrainType::ALL[0] as u8);
        let last = i16::from(GrainType::ALL[GrainType::ALL.len() - 1] as u8);
        let readable = types
            .between(lit(first), lit(last))
            .and(col(SystemColumn::Encoding.name()).is_not_null());
        let grains = self.context.table(table).await?.filter(readable)?;
        Ok(match &self.session.namespace {
            Some(namespace) => grains.filter(col("namespace").eq(lit(namespace.as_str())))?,
            None => grains,
        })
    }

    /// Returns whether grains may be disclosed copies. What the log of the lake states about that
    /// covers all namespaces, so a plan that a session with a namespace is shown doesn't depend on
    /// it.
    pub(super) fn copies(&self, explain_only: bool) -> Copies {
        match explain_only && self.session.namespace.is_some() {
            true => Copies::Possible,
            false => Copies::of(&self.context.copied_config()),
        }
    }

    /// Returns a plan of all supersessions as [`OLD`] and [`NEW`], from the rows of superseding
    /// grains and from `state`.
    async fn supersessions(&self, copies: Copies) -> Result<DataFrame> {
        let closed = self.context.sql(&closing_events_query(copies)).await?;
        Ok(closed.select(vec![col(ADDRESS).alias(OLD), col("value").alias(NEW)])?)
    }

    /// Returns the lifecycle states of all grains; `None` if there are too many to hold, or with
    /// `explain_only`. Callers then join `state`, which the plan reads when it runs.
    pub(super) async fn lifecycle_states(
        &self,
        explain_only: bool,
    ) -> Result<Option<Arc<LifecycleStates>>> {
        match explain_only {
            true => Ok(None),
            false => self.lifecycle.get(self.context).await,
        }
    }

    /// Returns the plan of `grains` without superseded and expired ones, by the lifecycle masks;
    /// `None` if the grains aren't those of a lake.
    pub(super) fn without_ended(&self, grains: DataFrame) -> Result<Option<DataFrame>> {
        let (state, plan) = grains.into_parts();
        let plan = hide_rows(plan, HiddenRows::Ended)?;
        Ok(plan.map(|plan| DataFrame::new(state, plan)))
    }

    /// Removes superseded and expired grains.
    pub(super) async fn current(&self, grains: DataFrame, explain_only: bool) -> Result<DataFrame> {
        match self.lifecycle_states(explain_only).await? {
            Some(states) if states.is_empty() => Ok(grains),
            Some(states) => Ok(grains.filter(is_superseded(states).is_not_true())?),
            None => {
                let closed = self.supersessions(self.copies(explain_only)).await?;
                let old = closed.select(vec![col(OLD)])?;
                Ok(grains.join(old, JoinType::LeftAnti, &[ADDRESS], &[OLD], None)?)
            }
        }
    }

    /// Adds the columns [`CONTRADICTED`] and [`VERIFICATION`].
    pub(super) async fn with_lifecycle(
        &self,
        grains: DataFrame,
        explain_only: bool,
    ) -> Result<DataFrame> {
        if let Some(states) = self.lifecycle_states(explain_only).await? {
            let grains = grains.with_column(CONTRADICTED, is_contradicted(Arc::clone(&states)))?;
            return Ok(grains.with_column(VERIFICATION, verification_status(states))?);
        }
        let fold = fold(self.context, self.copies(explain_only)).await?;
        lifecycle_joined(grains, fold)
    }

    /// Does the same by `table`, whose rows are those of `lifecycle` about the grains.
    pub(super) async fn with_lifecycle_of(
        &self,
        grains: DataFrame,
        table: &str,
    ) -> Result<DataFrame> {
        lifecycle_joined(grains, self.context.table(table).await?)
    }

    /// Executes a plan and counts the rows that its scans yield. A session with a namespace doesn't
    /// count them, because scans also read other namespaces and the count would reveal their size;
    /// only the grains of its answers count there.
    pub(super) async fn collect(&self, frame: DataFrame) -> Result<Vec<RecordBatch>> {
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await?;
        self.execute(plan, task).await
    }

    async fn execute(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
    ) -> Result<Vec<RecordBatch>> {
        let batches = collect(Arc::clone(&plan), task).await?;
        if self.session.namespace.is_none() {
            self.add_scanned(rows_of_leaves(&*plan));
        }
        Ok(batches)
    }

    /// Returns the number of rows of a plan.
    pub(super) async fn count(&self, frame: DataFrame) -> Result<u64> {
        let counted = frame.aggregate(vec![], vec![count(lit(1_i64)).alias("__count")])?;
        let batches = self.collect(counted).await?;
        let first = batches.iter().find(|batch| batch.num_rows() > 0);
        let counts = first
            .map(|batch| cast(batch.column(0), &DataType::UInt64))
            .transpose()?;
        Ok(counts.map_or(0, |counts| counts.as_primitive::<UInt64Type>().value(0)))
    }

    /// Returns true if a plan has no rows. It stops at the first one.
    pub(super) async fn is_empty(&self, frame: DataFrame) -> Result<bool> {
        let batches = self
            .collect(frame.select(vec![col(ADDRESS)])?.limit(0, Some(1))?)
            .await?;
        Ok(batches.iter().all(|batch| batch.num_rows() == 0))
    }

    /// Returns the addresses and scores of a plan's rows.
    ///
    /// # Errors
    /// If the plan lacks one of the columns, so that values are never mistaken for addresses.
    pub(super) async fn scored_addresses(&self, frame: DataFrame) -> Result<Vec<ScoredAddress>> {
        let mut scored = Vec::new();
        for batch in self.collect(frame).await? {
            let (addresses, scores) = batch
                .column_by_name(ADDRESS)
                .zip(batch.column_by_name(SCORE))
                .ok_or_else(|| internal_datafusion_err!("rows without address and score"))?;
            let addresses = cast(addresses, &DataType::Utf8)?;
            let scores = cast(scores, &DataType::Float64)?;
            let scores = scores.as_primitive::<Float64Type>().values().iter();
            let addresses = addresses.as_string::<i32>().iter().flatten();
            scored.extend(addresses.map(str::to_owned).zip(scores.copied()));
        }
        Ok(scored)
    }

    /// Returns the texts in the column `name` of a plan's rows, without NULLs.
    pub(super) async fn texts(&self, frame: DataFrame, name: &str) -> Result<Vec<String>> {
        let mut texts = Vec::new();
        for batch in self.collect(frame.select(vec![col(name)])?).await? {
            let column = cast(batch.column(0), &DataType::Utf8)?;
            let column = column.as_string::<i32>().iter().flatten();
            texts.extend(column.map(str::to_owned));
        }
        Ok(texts)
    }

    /// Returns those of `addresses` that the session may see; `None` for a session over the whole
    /// lake, which sees all.
    pub(super) async fn visible_among(
        &self,
        addresses: Vec<String>,
    ) -> Result<Option<BTreeSet<String>>> {
        match self.session.namespace {
            None => Ok(None),
            Some(_) => self.found_among(&addresses).await.map(Some),
        }
    }

    /// Returns those of `addresses` whose grains exist for the session.
    async fn found_among(&self, addresses: &[String]) -> Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        for part in addresses.chunks(MAX_LISTED) {
            let frame = self.visible().await?.filter(is_one_of(ADDRESS, part))?;
            found.extend(self.texts(frame, ADDRESS).await?);
        }
        Ok(found)
    }

    /// Returns the first of `addresses` whose grain doesn't exist for a session that sees a part of
    /// the lake: one of a namespace, or over confined tables. `None` if there is none, and for
    /// sessions over the whole lake.
    pub(super) async fn first_invisible(&self, addresses: Vec<String>) -> Result<Option<String>> {
        if addresses.is_empty() {
            return Ok(None);
        }
        if self.session.namespace.is_none() && self.lake_table().await?.is_some() {
            return Ok(None);
        }
        let found = self.found_among(&addresses).await?;
        let mut addresses = addresses.into_iter();
        Ok(addresses.find(|address| !found.contains(address)))
    }

    /// Resolves an address or address prefix to the one visible grain that it names.
    ///
    /// # Errors
    /// E046 if there is none, E015 if a prefix is ambiguous, E008 for an unbound parameter.
    pub(super) async fn resolve(&self, target: &Target) -> Result<String> {
        let address = target_address(target)?;
        self.look_up(address)
            .await?
            .ok_or_else(|| not_found(address).into())
    }

    /// Like [`GrainReader::resolve`], but returns `None` if there is no such grain.
    pub(super) async fn look_up(&self, address: &Address) -> Result<Option<String>> {
        let named = self
            .visible()
            .await?
            .filter(address_filter(address))?
            .select(vec![col(ADDRESS)])?
            .distinct()?
            .limit(0, Some(2))?;
        let mut addresses = self.texts(named, ADDRESS).await?;
        match addresses.len() {
            0 | 1 => Ok(addresses.pop()),
            _ => Err(ambiguous(address).into()),
        }
    }

    /// Returns the supersessions that pass `filter`, sorted and distinct.
    pub(super) async fn links(&self, filter: Expr) -> Result<Vec<(String, Option<String>)>> {
        let mut links = Vec::new();
        let frame = self
            .supersessions(self.copies(false))
            .await?
            .filter(filter)?
            .select(vec![col(OLD), col(NEW)])?;
        for batch in self.collect(frame).await? {
            add_links(&batch, &mut links)?;
        }
        links.sort();
        links.dedup();
        Ok(links)
    }

    /// Returns literals as a plan with the column [`VALUE`].
    pub(super) fn values(&self, literals: Vec<Expr>) -> Result<DataFrame> {
        let one_row = self
            .context
            .read_empty()?
            .select(vec![make_array(literals).alias(VALUE)])?;
        Ok(one_row.unnest_columns(&[VALUE])?)
    }
}

/// Adds the columns [`CONTRADICTED`] and [`VERIFICATION`] by `fold`, a row for each grain with
/// events.
fn lifecycle_joined(grains: DataFrame, fold: DataFrame) -> Result<DataFrame> {
    let fold = fold.select(vec![
        col(ADDRESS).alias("__address"),
        col("contradicted").alias(CONTRADICTED),
        col("verification_status").alias(VERIFICATION),
    ])?;
    Ok(grains.join(fold, JoinType::Left, &[ADDRESS], &["__address"], None)?)
}

fn add_links(batch: &RecordBatch, links: &mut Vec<(String, Option<String>)>) -> Result<()> {
    let old = cast(batch.column(0), &DataType::Utf8)?;
    let new = cast(batch.column(1), &DataType::Utf8)?;
    let pairs = old.as_string::<i32>().iter().zip(new.as_string::<i32>());
    links.extend(pairs.filter_map(|(old, new)| Some((old?.to_owned(), new.map(str::to_owned)))));
    Ok(())
}

/// Returns the address in a bound statement.
///
/// # Errors
/// E008 if it is still a parameter.
pub(super) fn target_address(target: &Target) -> Result<&Address> {
    match target {
        Target::Address(address) => Ok(address),
        Target::Parameter(parameter) => {
            let message = format!("\"${}\" has no value.", parameter.name);
            Err(CalError::new(Code::E008, message).at(parameter.span).into())
        }
    }
}

pub(super) fn not_found(address: &Address) -> CalError {
    CalError::new(Code::E046, format!("There is no grain {address}."))
}

fn ambiguous(address: &Address) -> CalError {
    let message = format!("{address} is the beginning of several addresses.");
    CalError::new(Code::E015, message).suggest("Write more digits.")
}

/// Returns the filter for an address or an address prefix. A prefix is a range, so that scans can
/// prune files.
pub(super) fn address_filter(address: &Address) -> Expr {
    let digits = address.digits();
    match address.is_whole() {
        true => col(ADDRESS).eq(lit(digits)),
        // `g` is greater than every hexadecimal digit.
        false => col(ADDRESS)
            .gt_eq(lit(digits))
            .and(col(ADDRESS).lt(lit(format!("{digits}g")))),
    }
}

/// Returns the number of rows that the scans of an executed plan yielded.
fn rows_of_leaves(plan: &dyn ExecutionPlan) -> u64 {
    let children = plan.children();
    if children.is_empty() {
        return plan
            .metrics()
            .and_then(|metrics| metrics.output_rows())
            .unwrap_or(0) as u64;
    }
    children
        .into_iter()
        .map(|child| rows_of_leaves(&**child))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cal::ast::Parameter;
    use crate::cal::span::Span;

    #[test]
    fn a_prefix_is_a_range_and_a_whole_address_an_equality() {
        let prefix = Address::from_digits("abcdef12").unwrap();
        let range = address_filter(&prefix).to_string();
        assert!(
            range.contains("abcdef12g") && range.contains(">="),
            "{range}"
        );
        let whole = Address::from_digits(&"ab".repeat(32)).unwrap();
        let equality = address_filter(&whole).to_string();
        assert!(!equality.contains(">="), "{equality}");
    }

    #[test]
    fn an_unbound_parameter_is_e008() {
        let parameter = Target::Parameter(Parameter {
            name: "x".to_owned(),
            span: Span::new(0, 2),
        });
        assert_eq!(
            target_address(&parameter).unwrap_err().code(),
            Code::E008.as_str()
        );
    }

    #[tokio::test]
    async fn values_become_a_row_each() {
        let context = SessionContext::new();
        let session = Session::at(0);
        let lifecycle = LifecycleCache::default();
        let reader = GrainReader::new(&context, &session, &lifecycle);
        let frame = reader.values(vec![lit("a"), lit("b"), lit("a")]).unwrap();
        assert_eq!(reader.texts(frame, VALUE).await.unwrap(), ["a", "b", "a"]);
    }

    #[tokio::test]
    async fn rows_without_address_and_score_are_refused() {
        let context = SessionContext::new();
        let session = Session::at(0);
        let lifecycle = LifecycleCache::default();
        let reader = GrainReader::new(&context, &session, &lifecycle);
        let frame = reader.values(vec![lit("a")]).unwrap();
        assert!(reader.scored_addresses(frame).await.is_err());
    }
}
