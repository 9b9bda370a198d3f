//! Lifecycle states of grains, cached in memory: the non-default rows of the fold of `state`
//! (`sql::lifecycle`), by address.
//!
//! The cache is filled once for each version of the lake. A lake with more than [`MAX_EVENTS`]
//! events isn't cached; queries join `state` instead.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::internal_err;
use datafusion::logical_expr::{ColumnarValue, Expr, Volatility, col, create_udf};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::StreamExt;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::lifecycle::LifecycleState as FoldedLifecycle;
use tokio::sync::OnceCell;

use super::columns::ADDRESS;
use super::error::{ExecutionError, Result};
use crate::sql::lifecycle::{Copies, status_query};

/// Maximum number of events of a cached lake. A grain with a state takes about 100 bytes.
const MAX_EVENTS: usize = 2_000_000;

/// The state of one grain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LifecycleState {
    /// True if it was superseded or expired.
    ended: bool,
    /// The superseding grain, if the event names one.
    pub(super) successor: Option<ContentAddress>,
    /// True if it was contradicted.
    pub(super) contradicted: bool,
    /// Index of the verification status in [`LifecycleStates::statuses`].
    verification: Option<u32>,
}

/// The states of the grains of a lake.
#[derive(Debug, Default)]
pub(super) struct LifecycleStates {
    by_address: HashMap<ContentAddress, LifecycleState>,
    /// The distinct verification statuses.
    statuses: Vec<String>,
    /// Supersessions from the newer grain to the older, sorted. Built on first use.
    predecessors: OnceLock<Vec<(ContentAddress, ContentAddress)>>,
}

/// The cached states of a context; an inner `None` means that there are too many.
#[derive(Debug, Default)]
pub(crate) struct LifecycleCache(OnceCell<Option<Arc<LifecycleStates>>>);

impl LifecycleCache {
    /// Returns the states of the grains of `context`; `None` if there are too many to hold.
    pub(super) async fn get(
        &self,
        context: &SessionContext,
    ) -> Result<Option<Arc<LifecycleStates>>> {
        let load = || async { Ok::<_, ExecutionError>(load(context).await?.map(Arc::new)) };
        Ok(self.0.get_or_try_init(load).await?.clone())
    }
}

/// Returns the cache that all executors over the context share, or an empty one for a context
/// without the extension.
pub(super) fn lifecycle_cache_of(context: &SessionContext) -> Arc<LifecycleCache> {
    context
        .state_ref()
        .read()
        .config()
        .get_extension()
        .unwrap_or_default()
}

async fn load(context: &SessionContext) -> Result<Option<LifecycleStates>> {
    if count_events(context).await? > MAX_EVENTS as u64 {
        return Ok(None);
    }
    let copies = Copies::of(&context.copied_config());
    LifecycleStates::of_rows(fold(context, copies).await?)
        .await
        .map(Some)
}

/// Returns the fold of `state` with the columns `content_address`, `superseded_by`, `ended`,
/// `contradicted` and `verification_status`. `copies` states whether grains may be disclosed
/// copies.
pub(super) async fn fold(context: &SessionContext, copies: Copies) -> Result<DataFrame> {
    Ok(context.sql(&status_query(copies)).await?)
}

/// Returns an upper bound of the number of grains with a state.
async fn count_events(context: &SessionContext) -> Result<u64> {
    let copies = match Copies::of(&context.copied_config()) {
        Copies::None => "",
        Copies::Possible => "+ (SELECT count(*) FROM grains WHERE _disclosure_of IS NOT NULL)",
    };
    let query = format!(
        "SELECT (SELECT count(*) FROM state WHERE event <> 'accessed')
              + (SELECT count(*) FROM grains WHERE supersedes IS NOT NULL) {copies}"
    );
    let counted = context.sql(&query).await?.collect().await?;
    let count = counted
        .first()
        .map(|batch| cast(batch.column(0), &DataType::UInt64))
        .transpose()?;
    Ok(count.map_or(0, |count| count.as_primitive::<UInt64Type>().value(0)))
}

impl LifecycleStates {
    /// Returns the states of these grains.
    pub(super) fn of_folds(folds: &BTreeMap<ContentAddress, FoldedLifecycle>) -> LifecycleStates {
        let mut states = LifecycleStates::default();
        let mut indexes: HashMap<String, u32> = HashMap::new();
        for (address, fold) in folds {
            let verification = fold.verification();
            let state = LifecycleState {
                ended: fold.ended().is_some(),
                successor: fold.superseded_by(),
                contradicted: fold.is_contradicted(),
                verification: verification.map(|status| index_of(status.name(), &mut indexes)),
            };
            if state != LifecycleState::default() {
                states.by_address.insert(*address, state);
            }
        }
        states.set_statuses(indexes);
        states
    }

    /// Reads the rows of a [`fold`].
    pub(super) async fn of_rows(fold: DataFrame) -> Result<LifecycleStates> {
        let mut states = LifecycleStates::default();
        let mut indexes: HashMap<String, u32> = HashMap::new();
        let mut rows = fold.execute_stream().await?;
        while let Some(batch) = rows.next().await {
            states.add_batch(&batch?, &mut indexes)?;
        }
        states.set_statuses(indexes);
        Ok(states)
    }

    fn set_statuses(&mut self, indexes: HashMap<String, u32>) {
        self.statuses = vec![String::new(); indexes.len()];
        for (status, index) in indexes {
            if let Some(slot) = self.statuses.get_mut(index as usize) {
                *slot = status;
            }
        }
    }

    fn add_batch(&mut self, batch: &RecordBatch, indexes: &mut HashMap<String, u32>) -> Result<()> {
        let text = |column: usize| cast(batch.column(column), &DataType::Utf8);
        let texts = [text(0)?, text(1)?, text(4)?];
        let [addresses, successors, statuses] =
            texts.each_ref().map(|column| column.as_string::<i32>());
        let [ended, contradicted] = [2, 3].map(|column| batch.column(column).as_boolean());
        for (row, address) in addresses.iter().enumerate() {
            // An event about something that is no address is about no grain.
            let Some(Ok(address)) = address.map(str::parse::<ContentAddress>) else {
                continue;
            };
            let state = LifecycleState {
                ended: ended.value(row),
                successor: value_at(successors, row).and_then(|address| address.parse().ok()),
                contradicted: contradicted.value(row),
                verification: value_at(statuses, row).map(|status| index_of(status, indexes)),
            };
            // Grains that were only read have the default state.
            if state != LifecycleState::default() {
                self.by_address.insert(address, state);
            }
        }
        Ok(())
    }

    /// Returns true if all grains have the default state.
    pub(super) fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// Returns the state of `address`, which is the default for grains without events.
    pub(super) fn of(&self, address: &str) -> LifecycleState {
        // Skips the parsing of addresses in the common case of a lake without events.
        if self.is_empty() {
            return LifecycleState::default();
        }
        address
            .parse()
            .ok()
            .and_then(|address| self.by_address.get(&address).copied())
            .unwrap_or_default()
    }

    /// Adds to `known` the grains linked with those of `frontier` by supersession, in both
    /// directions, until `known` has `max` elements. Returns `frontier` and what was added.
    ///
    /// Only grains that pass `is_visible` are followed. A grain with several successors leads to
    /// one of them.
    pub(super) fn linked(
        &self,
        frontier: Vec<String>,
        known: &mut BTreeSet<String>,
        max: usize,
        is_visible: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let mut reached = frontier;
        let mut at = 0;
        while let Some(address) = reached.get(at).filter(|_| known.len() < max) {
            at += 1;
            let Ok(address) = address.parse::<ContentAddress>() else {
                continue;
            };
            let successor = self
                .by_address
                .get(&address)
                .and_then(|state| state.successor);
            let neighbours = successor
                .into_iter()
                .chain(self.predecessors_of(address))
                .map(|neighbour| neighbour.to_string());
            reached.extend(
                neighbours
                    .filter(|neighbour| is_visible(neighbour) && known.insert(neighbour.clone())),
            );
        }
        reached
    }

    /// Returns the grains that `address` superseded.
    fn predecessors_of(&self, address: ContentAddress) -> impl Iterator<Item = ContentAddress> {
        let links = self.predecessors.get_or_init(|| {
            let links = self.by_address.iter();
            let mut links: Vec<_> = links
                .filter_map(|(old, state)| Some((state.successor?, *old)))
                .collect();
            links.sort_unstable();
            links
        });
        let first = links.partition_point(|(new, _)| *new < address);
        links
            .get(first..)
            .unwrap_or_default()
            .iter()
            .take_while(move |(new, _)| *new == address)
            .map(|(_, old)| *old)
    }

    /// Returns the verification status of a state.
    pub(super) fn verification(&self, state: LifecycleState) -> Option<&str> {
        self.statuses
            .get(state.verification? as usize)
            .map(String::as_str)
    }

    /// Returns states with only these supersessions, from old to new.
    #[cfg(test)]
    pub(super) fn of_supersessions(links: &[(&str, &str)]) -> LifecycleStates {
        let states = links.iter().map(|(old, new)| {
            let state = LifecycleState {
                ended: true,
                successor: new.parse().ok(),
                ..LifecycleState::default()
            };
            (old.parse().unwrap(), state)
        });
        LifecycleStates {
            by_address: states.collect(),
            ..LifecycleStates::default()
        }
    }
}

fn value_at(texts: &StringArray, row: usize) -> Option<&str> {
    texts.is_valid(row).then(|| texts.value(row))
}

/// Returns the index of a status, which is added if it is new.
fn index_of(status: &str, indexes: &mut HashMap<String, u32>) -> u32 {
    let next = indexes.len() as u32;
    *indexes.entry(status.to_owned()).or_insert(next)
}

/// Returns whether the grain of a row was superseded or expired.
pub(super) fn is_superseded(states: Arc<LifecycleStates>) -> Expr {
    address_function("is_superseded", DataType::Boolean, move |addresses| {
        let values = addresses
            .iter()
            .map(|address| Some(states.of(address?).ended));
        Arc::new(values.collect::<BooleanArray>())
    })
}

/// Returns whether the grain of a row was contradicted.
pub(super) fn is_contradicted(states: Arc<LifecycleStates>) -> Expr {
    address_function("is_contradicted", DataType::Boolean, move |addresses| {
        let values = addresses
            .iter()
            .map(|address| Some(states.of(address?).contradicted));
        Arc::new(values.collect::<BooleanArray>())
    })
}

/// Returns the verification status of the grain of a row.
pub(super) fn verification_status(states: Arc<LifecycleStates>) -> Expr {
    address_function("verification_status", DataType::Utf8, move |addresses| {
        let values = addresses
            .iter()
            .map(|address| states.verification(states.of(address?)));
        Arc::new(values.collect::<StringArray>())
    })
}

/// Returns a call of a scalar function on the address column.
fn address_function(
    name: &'static str,
    return_type: DataType,
    evaluate: impl Fn(&StringArray) -> ArrayRef + Send + Sync + 'static,
) -> Expr {
    let call = move |arguments: &[ColumnarValue]| {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let [addresses] = arrays.as_slice() else {
            return internal_err!("{name} takes one address");
        };
        let addresses = cast(addresses, &DataType::Utf8)?;
        Ok(ColumnarValue::Array(evaluate(addresses.as_string::<i32>())))
    };
    let function = create_udf(
        name,
        vec![DataType::Utf8],
        return_type,
        Volatility::Immutable,
        Arc::new(call),
    );
    function.call(vec![col(ADDRESS)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(byte: &str) -> String {
        byte.repeat(32)
    }

    /// A chain 01 → 02 → 03 in which 04 is superseded by 02 too.
    fn states() -> LifecycleStates {
        let [one, two, three, four] = ["01", "02", "03", "04"].map(address);
        LifecycleStates::of_supersessions(&[(&one, &two), (&two, &three), (&four, &two)])
    }

    fn linked(max: usize, is_visible: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let start = address("03");
        let mut known = BTreeSet::from([start.clone()]);
        states().linked(vec![start], &mut known, max, is_visible);
        known
    }

    #[test]
    fn links_are_followed_in_both_directions() {
        let all = ["01", "02", "03", "04"].map(address);
        assert_eq!(linked(100, |_| true), BTreeSet::from(all));
    }

    #[test]
    fn grains_behind_an_invisible_one_are_not_reached() {
        let hidden = address("02");
        assert_eq!(
            linked(100, |one| one != hidden),
            BTreeSet::from([address("03")])
        );
    }

    #[test]
    fn a_search_for_links_stops_at_its_maximum() {
        assert_eq!(linked(2, |_| true).len(), 2);
    }

    #[tokio::test]
    async fn rows_of_the_fold_become_states_and_default_rows_are_dropped() {
        let [one, two, three] = ["01", "02", "03"].map(address);
        let rows = format!(
            "SELECT * FROM (VALUES
                ('{one}', '{two}', true, false, NULL),
                ('{two}', NULL, false, true, 'verified'),
                ('{three}', NULL, false, false, NULL),
                ('no address', NULL, true, false, NULL)
            ) AS t(content_address, superseded_by, ended, contradicted, verification_status)"
        );
        let context = SessionContext::new();
        let frame = context.sql(&rows).await.unwrap();
        let states = LifecycleStates::of_rows(frame).await.unwrap();
        assert_eq!(states.by_address.len(), 2);
        assert!(states.of(&one).ended);
        assert_eq!(states.of(&one).successor, two.parse().ok());
        assert!(states.of(&two).contradicted);
        assert_eq!(states.verification(states.of(&two)), Some("verified"));
        assert_eq!(states.of(&three), LifecycleState::default());
        assert_eq!(states.of("no address"), LifecycleState::default());
    }
}
