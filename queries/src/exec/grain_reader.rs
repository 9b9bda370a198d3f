//! The grains that a session can see, as plans: scans of `grains`, what became of them, and the way
//! from addresses to grains.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, UInt64Type};
use datafusion::common::{JoinType, internal_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::{Expr, col, in_list, lit};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{DataFrame, SessionContext};
use gristmill_engine::text::{Terms, text_fields, with_grain};
use gristmill_schemas::columns::{GRAINS, IdentityColumn};
use gristmill_schemas::grain::GrainType;

use super::answer::Hit;
use super::blob_functions::view_of;
use super::columns::{ADDRESS, BLOB, CONTRADICTED, SCORE, VERIFICATION};
use super::error::{ExecutionError, Result};
use super::lifecycle::{
    LifecycleCache, LifecycleStates, fold, is_contradicted, is_superseded, verification_status,
};
use super::session::Session;
use crate::cal::ast::{Address, Target};
use crate::cal::{CalError, Code};
use crate::sql::LakeTable;
use crate::sql::lifecycle::closing_events_query;

/// Bytes of grains that one answer holds; more is E030.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// Addresses that one plan lists at most.
const LISTED: usize = 1_000;

/// The column of the grain that is superseded.
pub(super) const OLD: &str = "__old";
/// The column of the grain that supersedes it; NULL if none is named.
pub(super) const NEW: &str = "__new";

/// What one query of a session reads, and how much it has read.
pub(super) struct GrainReader<'e> {
    pub(super) context: &'e SessionContext,
    pub(super) session: &'e Session,
    lifecycle: &'e LifecycleCache,
    scanned: AtomicU64,
}

/// An address that a plan found, and its score.
pub(super) type Found = (String, f64);

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

    /// Reads what a session keeps of a lake, if it hasn't yet: what became of grains, and what is
    /// asked of nearly every row. A query's time limit is for the query, not for opening the lake.
    pub(super) async fn open(&self) -> Result<()> {
        self.lifecycle.get(self.context).await?;
        if let Some(table) = self.lake_table().await? {
            table.open_sidecars().await;
        }
        Ok(())
    }

    /// How many rows were read so far.
    pub(super) fn scanned(&self) -> u64 {
        self.scanned.load(Ordering::Relaxed)
    }

    /// Every row of `grains`, whoever it belongs to.
    pub(super) async fn everything(&self) -> Result<DataFrame> {
        Ok(self.context.table(GRAINS).await?)
    }

    /// What `grains` is in a lake; nothing if it is another table.
    pub(super) async fn lake_table(&self) -> Result<Option<LakeTable>> {
        Ok(self
            .context
            .table_provider(GRAINS)
            .await?
            .downcast_ref::<LakeTable>()
            .cloned())
    }

    /// The grains that the session may see: of its namespace, readable, of one of the ten types.
    pub(super) async fn visible(&self) -> Result<DataFrame> {
        let types = col(IdentityColumn::TypeByte.name());
        let first = i16::from(GrainType::ALL[0] as u8);
        let last = i16::from(GrainType::ALL[GrainType::ALL.len() - 1] as u8);
        let readable = types
            .between(lit(first), lit(last))
            .and(col(IdentityColumn::Encoding.name()).is_not_null());
        let grains = self.everything().await?.filter(readable)?;
        Ok(match &self.session.namespace {
            Some(namespace) => grains.filter(col("namespace").eq(lit(namespace.as_str())))?,
            None => grains,
        })
    }

    /// Who took whose place: [`OLD`] and [`NEW`], from the rows of superseding grains and from
    /// `state`.
    pub(super) async fn supersessions(&self) -> Result<DataFrame> {
        let ended = self.context.sql(&closing_events_query()).await?;
        Ok(ended.select(vec![col(ADDRESS).alias(OLD), col("value").alias(NEW)])?)
    }

    /// What became of all grains; `None` if that is too much to hold, or if the store may not be
    /// asked: a plan that is made without asking joins what the tables say when it runs.
    pub(super) async fn lifecycle_states(
        &self,
        explain_only: bool,
    ) -> Result<Option<Arc<LifecycleStates>>> {
        match explain_only {
            false => self.lifecycle.get(self.context).await,
            true => Ok(None),
        }
    }

    /// `grains` without those that were superseded.
    pub(super) async fn current(&self, grains: DataFrame, explain_only: bool) -> Result<DataFrame> {
        match self.lifecycle_states(explain_only).await? {
            Some(states) if states.is_empty() => Ok(grains),
            Some(states) => Ok(grains.filter(is_superseded(states).is_not_true())?),
            None => {
                let old = self.supersessions().await?.select(vec![col(OLD)])?;
                Ok(grains.join(old, JoinType::LeftAnti, &[ADDRESS], &[OLD], None)?)
            }
        }
    }

    /// `grains` with [`CONTRADICTED`] and [`VERIFICATION`]: what `state` said last.
    pub(super) async fn with_state(
        &self,
        grains: DataFrame,
        explain_only: bool,
    ) -> Result<DataFrame> {
        if let Some(states) = self.lifecycle_states(explain_only).await? {
            let grains = grains.with_column(CONTRADICTED, is_contradicted(Arc::clone(&states)))?;
            return Ok(grains.with_column(VERIFICATION, verification_status(states))?);
        }
        let fold = fold(self.context).await?.select(vec![
            col(ADDRESS).alias("__address"),
            col("contradicted").alias(CONTRADICTED),
            col("verification_status").alias(VERIFICATION),
        ])?;
        Ok(grains.join(fold, JoinType::Left, &[ADDRESS], &["__address"], None)?)
    }

    /// Runs a plan and counts the rows that its scans yield. Not in a session of one namespace: how
    /// many rows a scan yields depends on what others have, so that only grains count there that
    /// were read for the answer.
    pub(super) async fn collect(&self, frame: DataFrame) -> Result<Vec<RecordBatch>> {
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await?;
        self.run(plan, task).await
    }

    async fn run(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
    ) -> Result<Vec<RecordBatch>> {
        let batches = collect(Arc::clone(&plan), task).await?;
        if self.session.namespace.is_none() {
            self.scanned
                .fetch_add(rows_of_leaves(&*plan), Ordering::Relaxed);
        }
        Ok(batches)
    }

    /// How many rows a plan yields.
    pub(super) async fn count(&self, frame: DataFrame) -> Result<u64> {
        let counted = frame.aggregate(vec![], vec![count(lit(1_i64)).alias("__count")])?;
        let batches = self.collect(counted).await?;
        let first = batches.iter().find(|batch| batch.num_rows() > 0);
        let counts = first
            .map(|batch| cast(batch.column(0), &DataType::UInt64))
            .transpose()?;
        Ok(counts.map_or(0, |counts| counts.as_primitive::<UInt64Type>().value(0)))
    }

    /// True if a plan yields nothing.
    pub(super) async fn is_empty(&self, frame: DataFrame) -> Result<bool> {
        let batches = self
            .collect(frame.select(vec![col(ADDRESS)])?.limit(0, Some(1))?)
            .await?;
        Ok(batches.iter().all(|batch| batch.num_rows() == 0))
    }

    /// The addresses and scores of a plan's rows.
    ///
    /// # Errors
    /// If it has no such columns: values are never taken for addresses.
    pub(super) async fn found(&self, frame: DataFrame) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        for batch in self.collect(frame).await? {
            let (addresses, scores) = batch
                .column_by_name(ADDRESS)
                .zip(batch.column_by_name(SCORE))
                .ok_or_else(|| internal_datafusion_err!("rows without address and score"))?;
            let (addresses, scores) = (
                cast(addresses, &DataType::Utf8)?,
                cast(scores, &DataType::Float64)?,
            );
            let (addresses, scores) = (
                addresses.as_string::<i32>(),
                scores.as_primitive::<Float64Type>(),
            );
            found.extend(
                addresses
                    .iter()
                    .flatten()
                    .map(str::to_owned)
                    .zip(scores.values().iter().copied()),
            );
        }
        Ok(found)
    }

    /// The texts in the column `name` of a plan's rows, without NULLs.
    pub(super) async fn texts(&self, frame: DataFrame, name: &str) -> Result<Vec<String>> {
        let mut texts = Vec::new();
        for batch in self.collect(frame.select(vec![col(name)])?).await? {
            let column = cast(batch.column(0), &DataType::Utf8)?;
            texts.extend(
                column
                    .as_string::<i32>()
                    .iter()
                    .flatten()
                    .map(str::to_owned),
            );
        }
        Ok(texts)
    }

    /// Those of `addresses` whose grains the session may see; `None` for all of them, if it sees
    /// the whole lake.
    pub(super) async fn seen(&self, addresses: Vec<String>) -> Result<Option<BTreeSet<String>>> {
        if self.session.namespace.is_none() {
            return Ok(None);
        }
        let mut seen = BTreeSet::new();
        for part in addresses.chunks(LISTED) {
            let listed = in_list(
                col(ADDRESS),
                part.iter().map(|one| lit(one.as_str())).collect(),
                false,
            );
            seen.extend(
                self.texts(self.visible().await?.filter(listed)?, ADDRESS)
                    .await?,
            );
        }
        Ok(Some(seen))
    }

    /// The one visible grain that an address or its beginning names.
    ///
    /// # Errors
    /// E046 if there is none, E015 if a beginning names several, E008 for an unbound parameter.
    pub(super) async fn resolve(&self, target: &Target) -> Result<String> {
        let address = target_address(target)?;
        self.look_up(address)
            .await?
            .ok_or_else(|| no_such(address).into())
    }

    /// As [`GrainReader::resolve`], with `None` for no grain.
    pub(super) async fn look_up(&self, address: &Address) -> Result<Option<String>> {
        let named = self
            .visible()
            .await?
            .filter(names(address))?
            .select(vec![col(ADDRESS)])?
            .distinct()?
            .limit(0, Some(2))?;
        let mut found = self.texts(named, ADDRESS).await?;
        match found.len() {
            0 | 1 => Ok(found.pop()),
            _ => Err(ambiguous(address).into()),
        }
    }

    /// The grains with these addresses, in this order, with what `state` says of them. Words of a
    /// search tell which fields matched; otherwise `fields` did.
    ///
    /// # Errors
    /// E030 if the grains are too many bytes together.
    pub(super) async fn hits(
        &self,
        found: Vec<Found>,
        terms: Option<&Terms>,
        fields: &[String],
    ) -> Result<Vec<Hit>> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let named = |column: &str| {
            let addresses: Vec<Expr> = found
                .iter()
                .map(|(address, _)| lit(address.as_str()))
                .collect();
            in_list(col(column), addresses, false)
        };
        let states = match self.lifecycle_states(false).await? {
            Some(states) => states,
            None => Arc::new(
                LifecycleStates::of_rows(fold(self.context).await?.filter(named(ADDRESS))?).await?,
            ),
        };
        // What took a grain's place is named only to those who may see it.
        let successors = found
            .iter()
            .filter_map(|(address, _)| Some(states.of(address).successor?.to_string()))
            .collect();
        let seen = self.seen(successors).await?;
        let mut hits: HashMap<String, Hit> = HashMap::with_capacity(found.len());
        let mut bytes = 0;
        for (address, blob) in self.blobs(&found, named(ADDRESS)).await? {
            let blob = cast(&blob, &DataType::Binary)?;
            for blob in blob.as_binary::<i32>().iter().flatten() {
                bytes += blob.len();
                if bytes > MAX_ANSWER_BYTES {
                    return Err(too_large());
                }
                if let Some(hit) = read(&address, blob, terms, fields) {
                    hits.insert(address.clone(), hit);
                }
            }
        }
        let mut finish = |(address, score): (String, f64)| {
            let mut hit = hits.remove(&address)?;
            hit.score = score;
            hit.view.score = Some(score);
            let state = states.of(&address);
            hit.view.contradicted = state.contradicted;
            hit.view.verification_status = states.verification(state).map(str::to_owned);
            hit.is_superseded = state.successor.is_some();
            hit.superseded_by = state.successor.map(|successor| successor.to_string());
            hit.superseded_by = hit
                .superseded_by
                .filter(|successor| seen.as_ref().is_none_or(|seen| seen.contains(successor)));
            Some(hit)
        };
        Ok(found.into_iter().filter_map(&mut finish).collect())
    }

    /// The blobs of the grains `found`, for which `filter` holds, each with its address: straight
    /// from where the sidecars say that they are, or by a scan.
    async fn blobs(&self, found: &[Found], filter: Expr) -> Result<Vec<(String, ArrayRef)>> {
        let addresses = found
            .iter()
            .map(|(address, _)| address.parse().ok())
            .collect::<Option<Vec<_>>>();
        if let Some((table, addresses)) = self.lake_table().await?.zip(addresses)
            && let Some(blobs) = table.blobs(&self.context.state(), &addresses).await?
        {
            self.scanned
                .fetch_add(blobs.len() as u64, Ordering::Relaxed);
            return Ok(blobs
                .into_iter()
                .map(|(address, blob)| (address.to_string(), blob))
                .collect());
        }
        let rows = self
            .everything()
            .await?
            .filter(filter)?
            .select(vec![col(ADDRESS), col(BLOB)])?;
        let mut blobs = Vec::new();
        for batch in self.collect(rows).await? {
            let addresses = cast(batch.column(0), &DataType::Utf8)?;
            for (row, address) in addresses.as_string::<i32>().iter().enumerate() {
                blobs.extend(
                    address.map(|address| (address.to_owned(), batch.column(1).slice(row, 1))),
                );
            }
        }
        if self.session.namespace.is_some() {
            self.scanned
                .fetch_add(blobs.len() as u64, Ordering::Relaxed);
        }
        Ok(blobs)
    }

    /// The supersessions for which `filter` holds, in order.
    pub(super) async fn links(&self, filter: Expr) -> Result<Vec<(String, Option<String>)>> {
        let mut links = Vec::new();
        let frame = self
            .supersessions()
            .await?
            .filter(filter)?
            .select(vec![col(OLD), col(NEW)])?;
        for batch in self.collect(frame).await? {
            let (old, new) = (
                cast(batch.column(0), &DataType::Utf8)?,
                cast(batch.column(1), &DataType::Utf8)?,
            );
            let pairs = old
                .as_string::<i32>()
                .iter()
                .zip(new.as_string::<i32>().iter());
            links.extend(
                pairs.filter_map(|(old, new)| Some((old?.to_owned(), new.map(str::to_owned)))),
            );
        }
        links.sort();
        links.dedup();
        Ok(links)
    }

    /// The values `list` as a plan with one column, [`VALUE`](super::pipeline::VALUE).
    pub(super) fn values(&self, list: Vec<Expr>) -> Result<DataFrame> {
        let one = self
            .context
            .read_empty()?
            .select(vec![make_array(list).alias(super::pipeline::VALUE)])?;
        Ok(one.unnest_columns(&[super::pipeline::VALUE])?)
    }
}

fn read(address: &str, blob: &[u8], terms: Option<&Terms>, fields: &[String]) -> Option<Hit> {
    with_grain(blob, |grain| {
        let view = view_of(address.to_owned(), grain)?;
        let matched_fields = match terms {
            Some(terms) => {
                let touched = text_fields(view.grain_type)
                    .iter()
                    .filter(|field| terms.count_in(grain, &[**field]).touches());
                touched.map(|field| field.name().to_owned()).collect()
            }
            None => fields.to_vec(),
        };
        Some(Hit {
            view,
            score: 1.0,
            matched_fields,
            is_superseded: false,
            superseded_by: None,
        })
    })
}

fn too_large() -> ExecutionError {
    let message = format!(
        "The grains of the answer have more than {} MiB together.",
        MAX_ANSWER_BYTES >> 20
    );
    CalError::new(Code::E030, message)
        .suggest("Ask for fewer grains with LIMIT.")
        .into()
}

/// The address that a bound statement names.
pub(super) fn target_address(target: &Target) -> Result<&Address> {
    match target {
        Target::Address(address) => Ok(address),
        Target::Parameter(parameter) => {
            let message = format!("\"${}\" has no value.", parameter.name);
            Err(CalError::new(Code::E008, message).at(parameter.span).into())
        }
    }
}

pub(super) fn no_such(address: &Address) -> CalError {
    CalError::new(Code::E046, format!("There is no grain {address}."))
}

fn ambiguous(address: &Address) -> CalError {
    CalError::new(
        Code::E015,
        format!("{address} is the beginning of several addresses."),
    )
    .suggest("GrainWrite more digits.")
}

/// What holds of the column of addresses if it is, or begins with, `address`. A range, so that
/// scans can be narrowed.
pub(super) fn names(address: &Address) -> Expr {
    let digits = address.digits();
    match address.is_whole() {
        true => col(ADDRESS).eq(lit(digits)),
        // `g` comes behind every hexadecimal digit.
        false => col(ADDRESS)
            .gt_eq(lit(digits))
            .and(col(ADDRESS).lt(lit(format!("{digits}g")))),
    }
}

/// The rows that the scans of an executed plan yielded.
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
