//! What became of grains, held in memory: the rows of the fold of `state` (`sql::lifecycle`) that
//! say something, by address.
//!
//! It is read once for a version of the lake. A lake with more such events than [`MOST`] is asked
//! by joins instead.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::internal_err;
use datafusion::logical_expr::{ColumnarValue, Expr, Volatility, col, create_udf};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::StreamExt;
use gristmill_schemas::address::ContentAddress;
use tokio::sync::OnceCell;

use super::columns::ADDRESS;
use super::error::Result;
use crate::sql::lifecycle::status_query;

/// Events of which grains' states are held at most; a grain of which something is said takes about
/// 100 bytes.
const MOST: usize = 2_000_000;

/// What became of one grain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LifecycleState {
    /// It was superseded or it expired.
    ended: bool,
    /// What took its place, if that is the address of a grain.
    pub(super) successor: Option<ContentAddress>,
    /// It was found to be contradicted.
    pub(super) contradicted: bool,
    /// The place of the verification status among all that there are.
    verification: Option<u32>,
}

/// What became of the grains of a lake.
#[derive(Debug, Default)]
pub(super) struct LifecycleStates {
    of: HashMap<ContentAddress, LifecycleState>,
    /// The verification statuses.
    statuses: Vec<String>,
    /// Supersessions from the newer grain to the older, in order: made when first asked for.
    back: OnceLock<Vec<(ContentAddress, ContentAddress)>>,
}

/// What a context keeps of the states of its grains: nothing yet, all of them, or that there are too
/// many.
#[derive(Debug, Default)]
pub(crate) struct LifecycleCache(OnceCell<Option<Arc<LifecycleStates>>>);

impl LifecycleCache {
    /// The states of the grains of `context`; `None` if there are too many to hold.
    pub(super) async fn get(
        &self,
        context: &SessionContext,
    ) -> Result<Option<Arc<LifecycleStates>>> {
        let read = || async { Ok::<_, super::ExecutionError>(read(context).await?.map(Arc::new)) };
        Ok(self.0.get_or_try_init(read).await?.clone())
    }
}

/// Everything that says something, if it isn't too much.
async fn read(context: &SessionContext) -> Result<Option<LifecycleStates>> {
    if events(context).await? > MOST as u64 {
        return Ok(None);
    }
    LifecycleStates::of_rows(fold(context).await?)
        .await
        .map(Some)
}

/// The fold as CAL needs it: `content_address`, `superseded_by`, `ended`, `contradicted`,
/// `verification_status`.
pub(super) async fn fold(context: &SessionContext) -> Result<DataFrame> {
    Ok(context.sql(&status_query()).await?)
}

/// How many events may say what became of a grain.
async fn events(context: &SessionContext) -> Result<u64> {
    let query = "SELECT (SELECT count(*) FROM state WHERE event <> 'accessed')
                      + (SELECT count(*) FROM grains WHERE supersedes IS NOT NULL)";
    let counted = context.sql(query).await?.collect().await?;
    let count = counted
        .first()
        .map(|batch| cast(batch.column(0), &DataType::UInt64))
        .transpose()?;
    Ok(count.map_or(0, |count| count.as_primitive::<UInt64Type>().value(0)))
}

impl LifecycleStates {
    /// The states that the rows of a [`fold`] tell.
    pub(super) async fn of_rows(fold: DataFrame) -> Result<LifecycleStates> {
        let mut states = LifecycleStates::default();
        let mut places: HashMap<String, u32> = HashMap::new();
        let mut rows = fold.execute_stream().await?;
        while let Some(batch) = rows.next().await {
            states.add(&batch?, &mut places)?;
        }
        states.statuses = vec![String::new(); places.len()];
        for (status, place) in places {
            if let Some(own) = states.statuses.get_mut(place as usize) {
                *own = status;
            }
        }
        Ok(states)
    }

    fn add(&mut self, batch: &RecordBatch, places: &mut HashMap<String, u32>) -> Result<()> {
        let text = |column: usize| cast(batch.column(column), &DataType::Utf8);
        let texts = [text(0)?, text(1)?, text(4)?];
        let [addresses, successors, statuses] =
            texts.each_ref().map(|column| column.as_string::<i32>());
        let [ended, contradicted] = [2, 3].map(|column| batch.column(column).as_boolean());
        for (row, address) in addresses.iter().enumerate() {
            // Whoever speaks of something that is no address speaks of no grain.
            let Some(Ok(address)) = address.map(str::parse::<ContentAddress>) else {
                continue;
            };
            let status = statuses.is_valid(row).then(|| {
                let next = places.len() as u32;
                *places.entry(statuses.value(row).to_owned()).or_insert(next)
            });
            let state = LifecycleState {
                ended: ended.value(row),
                successor: successors
                    .is_valid(row)
                    .then(|| successors.value(row).parse().ok())
                    .flatten(),
                contradicted: contradicted.value(row),
                verification: status,
            };
            // Reading a grain is an event too, but nothing became of it.
            if state != LifecycleState::default() {
                self.of.insert(address, state);
            }
        }
        Ok(())
    }

    /// True if nothing is said of any grain.
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// What became of `address`; the default for a grain of which nothing is said.
    pub(super) fn of(&self, address: &str) -> LifecycleState {
        // Most lakes say nothing of most grains, and an address is long to read.
        if self.is_empty() {
            return LifecycleState::default();
        }
        address
            .parse()
            .ok()
            .and_then(|address| self.of.get(&address).copied())
            .unwrap_or_default()
    }

    /// Adds to `known` the grains that supersession links with those of `frontier`, in both
    /// directions, until there are `most` of them; answers `frontier` and what was added. It goes
    /// over grains that `may` be seen only. A grain in whose place several others came leads to one
    /// of them here.
    pub(super) fn linked(
        &self,
        frontier: Vec<String>,
        known: &mut BTreeSet<String>,
        most: usize,
        may: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let mut reached = frontier;
        let mut at = 0;
        while let Some(address) = reached.get(at).filter(|_| known.len() < most) {
            at += 1;
            let Ok(address) = address.parse::<ContentAddress>() else {
                continue;
            };
            let successor = self.of.get(&address).and_then(|state| state.successor);
            let near = successor
                .into_iter()
                .chain(self.predecessors(address))
                .map(|near| near.to_string());
            reached.extend(near.filter(|near| may(near) && known.insert(near.clone())));
        }
        reached
    }

    /// The grains whose place `address` took first.
    fn predecessors(&self, address: ContentAddress) -> impl Iterator<Item = ContentAddress> {
        let back = self.back.get_or_init(|| {
            let links = self
                .of
                .iter()
                .filter_map(|(old, state)| Some((state.successor?, *old)));
            let mut links: Vec<_> = links.collect();
            links.sort_unstable();
            links
        });
        let first = back.partition_point(|(new, _)| *new < address);
        back.get(first..)
            .unwrap_or_default()
            .iter()
            .take_while(move |(new, _)| *new == address)
            .map(|(_, old)| *old)
    }

    /// The verification status that `state` says.
    pub(super) fn verification(&self, state: LifecycleState) -> Option<&str> {
        self.statuses
            .get(state.verification? as usize)
            .map(String::as_str)
    }
}

/// Whether the grain of a row was superseded or expired.
pub(super) fn is_superseded(states: Arc<LifecycleStates>) -> Expr {
    told("is_superseded", DataType::Boolean, move |addresses| {
        Arc::new(
            addresses
                .iter()
                .map(|address| Some(states.of(address?).ended))
                .collect::<BooleanArray>(),
        )
    })
}

/// Whether the grain of a row was contradicted.
pub(super) fn is_contradicted(states: Arc<LifecycleStates>) -> Expr {
    told("is_contradicted", DataType::Boolean, move |addresses| {
        Arc::new(
            addresses
                .iter()
                .map(|address| Some(states.of(address?).contradicted))
                .collect::<BooleanArray>(),
        )
    })
}

/// The verification status of the grain of a row.
pub(super) fn verification_status(states: Arc<LifecycleStates>) -> Expr {
    told("verification_status", DataType::Utf8, move |addresses| {
        Arc::new(
            addresses
                .iter()
                .map(|address| states.verification(states.of(address?)))
                .collect::<StringArray>(),
        )
    })
}

/// A function of the address of a row.
fn told(
    name: &'static str,
    answers: DataType,
    tell: impl Fn(&StringArray) -> ArrayRef + Send + Sync + 'static,
) -> Expr {
    let call = move |arguments: &[ColumnarValue]| {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let [addresses] = arrays.as_slice() else {
            return internal_err!("{name} takes one address");
        };
        Ok(ColumnarValue::Array(tell(
            cast(addresses, &DataType::Utf8)?.as_string::<i32>(),
        )))
    };
    let function = create_udf(
        name,
        vec![DataType::Utf8],
        answers,
        Volatility::Immutable,
        Arc::new(call),
    );
    function.call(vec![col(ADDRESS)])
}
