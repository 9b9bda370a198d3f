//! The holds of a lake: those that were placed, from `state`, and those that grains state
//! themselves, from the grains.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, SystemColumn};
use gristmill_schemas::lifecycle::{HoldEntry, HoldIndex};
use gristmill_schemas::message::time::Timestamp;
use serde::Serialize;

use crate::error::{Context, Result};
use crate::index::SidecarCache;
use crate::index::word_filter::WordFilter;
use crate::lake::{Lake, LakeFile, address_at, text_at, texts};
use crate::policy::{HOLD_REFERENCE, HOLD_TAG, PolicyMode, StatedHold};
use crate::text::with_grain_if_any;

/// What a list contains.
#[derive(Debug, Clone, Default)]
pub struct HoldListOptions {
    /// The only hold to list, if any.
    pub name: Option<String>,
    /// Whether holds that ended or were lifted are listed, too.
    pub ended: bool,
    /// The instant in microseconds since 1970.
    pub now: i64,
}

/// A hold with the number of its grains.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HoldSummary {
    /// The name of a placed hold; `stated` for those that grains state themselves.
    pub hold: String,
    /// `placed`; or how grains state it: `policy`, `tag`, `reference`.
    pub origin: &'static str,
    /// Grains on which it is in force.
    pub grains: u64,
    /// Grains on which it ended by itself.
    pub ended: u64,
    /// Grains from which it was lifted.
    pub lifted: u64,
    /// The latest end, if it ends on all grains.
    pub until: Option<String>,
    /// The instant of its last event.
    pub changed_at: Option<String>,
    /// Who ordered that event.
    pub authority: Option<String>,
    /// The reason of that event.
    pub reason: Option<String>,
}

/// A grain under hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldGrain {
    /// Its address.
    pub content_address: String,
    /// The name of the hold, as in [`HoldSummary`].
    pub hold: String,
    /// The origin of the hold, as in [`HoldSummary`].
    pub origin: &'static str,
    /// `in_force`, `ended` or `lifted`.
    pub status: &'static str,
    /// The end, if there is one.
    pub until: Option<String>,
}

/// The origin of a hold that was placed.
const PLACED: &str = "placed";

/// Returns every hold on every grain of `lake`, ascending by address, then the holds that grains
/// state. Holds about 200 bytes for each.
///
/// # Errors
/// Those of the lake.
pub async fn held_grains(lake: &Lake, options: &HoldListOptions) -> Result<Vec<HeldGrain>> {
    let holds = lake.holds().await?;
    let placed = holds.iter().filter(|entry| entry.name != STATED);
    let mut out: Vec<HeldGrain> = placed
        .map(|entry| HeldGrain::placed(&entry, options.now))
        .collect();
    if options.takes(STATED) {
        let stated = stated_holds(lake, options.now).await?;
        out.extend(
            stated
                .into_iter()
                .map(|(address, origin)| HeldGrain::stated(address, origin, &holds)),
        );
    }
    out.retain(|grain| options.takes(&grain.hold));
    out.retain(|grain| options.ended || grain.status == "in_force");
    Ok(out)
}

/// Returns the holds of `lake`, each with the number of its grains: those that were placed by name,
/// then those that grains state by origin.
///
/// # Errors
/// Those of the lake.
pub async fn summaries(lake: &Lake, options: &HoldListOptions) -> Result<Vec<HoldSummary>> {
    let all = HoldListOptions {
        ended: true,
        ..options.clone()
    };
    let mut summaries: BTreeMap<(bool, String, &'static str), HoldSummary> = BTreeMap::new();
    for grain in held_grains(lake, &all).await? {
        let key = (grain.origin != PLACED, grain.hold.clone(), grain.origin);
        summaries.entry(key).or_default().count(grain);
    }
    let mut summaries: Vec<_> = summaries.into_values().collect();
    summaries.retain(|summary| options.ended || summary.grains > 0);
    add_orders(lake, &mut summaries).await?;
    Ok(summaries)
}

/// The name under which holds that grains state are listed.
const STATED: &str = "stated";

impl HoldListOptions {
    fn takes(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|wanted| wanted == name)
    }
}

impl HeldGrain {
    fn placed(entry: &HoldEntry<'_>, now: i64) -> HeldGrain {
        HeldGrain {
            content_address: entry.address.to_string(),
            hold: entry.name.to_owned(),
            origin: PLACED,
            status: match (entry.is_in_force(now), entry.is_lifted) {
                (true, _) => "in_force",
                (_, true) => "lifted",
                _ => "ended",
            },
            until: entry.until.map(date_time),
        }
    }

    fn stated(address: ContentAddress, origin: StatedHold, holds: &HoldIndex) -> HeldGrain {
        let is_lifted = holds.status(&address).stated_is_lifted;
        HeldGrain {
            content_address: address.to_string(),
            hold: STATED.to_owned(),
            origin: origin.name(),
            status: if is_lifted { "lifted" } else { "in_force" },
            until: None,
        }
    }
}

impl HoldSummary {
    fn count(&mut self, grain: HeldGrain) {
        match grain.status {
            "in_force" => {
                self.grains += 1;
                self.until = match (self.grains, self.until.take(), grain.until) {
                    (1, _, until) => until,
                    // RFC 3339 in UTC: the order of the texts is that of the instants.
                    (_, Some(known), Some(until)) => Some(known.max(until)),
                    _ => None,
                };
            }
            "lifted" => self.lifted += 1,
            _ => self.ended += 1,
        }
        (self.hold, self.origin) = (grain.hold, grain.origin);
    }
}

fn date_time(micros: i64) -> String {
    Timestamp::from_micros(micros).to_string()
}

/// Adds the authority and the reason of the last event to each of `summaries`.
async fn add_orders(lake: &Lake, summaries: &mut [HoldSummary]) -> Result<()> {
    const COLUMNS: [&str; 5] = ["event", "value", "at", "actor", "reason"];
    let mut last: BTreeMap<String, LastOrder> = BTreeMap::new();
    for file in lake
        .state
        .files()?
        .iter()
        .filter(|file| !lake.skips(&file.name))
    {
        let path = lake.state.path_of(&file.name);
        let file = LakeFile::open(lake, &path).await?;
        let read = move || file.map_batches(Some(&COLUMNS), |_, batch| Ok(orders_in(batch)));
        let orders = tokio::task::spawn_blocking(read).await;
        for (name, order) in orders.file("can't read", &path)??.into_iter().flatten() {
            let known = last.entry(name).or_default();
            *known = std::mem::take(known).max(order);
        }
    }
    for summary in summaries {
        if let Some((at, authority, reason)) = last.remove(&summary.hold) {
            summary.changed_at = Some(date_time(at));
            (summary.authority, summary.reason) = (authority, reason);
        }
    }
    Ok(())
}

/// Instant, authority and reason of an event.
type LastOrder = (i64, Option<String>, Option<String>);

/// Returns the last order of each hold in a batch of `state`.
fn orders_in(batch: &RecordBatch) -> BTreeMap<String, LastOrder> {
    let mut last: BTreeMap<String, LastOrder> = BTreeMap::new();
    let instants = batch
        .column_by_name("at")
        .and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
    let text = |name, row| text_at(texts(batch, name), row);
    for row in 0..batch.num_rows() {
        let event = text("event", row).and_then(LifecycleEvent::from_name);
        if !matches!(event, Some(LifecycleEvent::Held | LifecycleEvent::Released)) {
            continue;
        }
        let value = text("value", row).unwrap_or_default();
        let name = value.split(' ').next().unwrap_or_default().to_owned();
        let at = instants.map_or(i64::MIN, |instants| instants.value(row));
        let owned = |column| text(column, row).map(str::to_owned);
        let known = last.entry(name).or_default();
        if known.0 <= at {
            *known = (at, owned("actor"), owned("reason"));
        }
    }
    last
}

/// Returns the grains that state a hold in force at `now` (microseconds since 1970), and how.
/// Segments whose word filter excludes every form of a hold aren't read.
async fn stated_holds(lake: &Lake, now: i64) -> Result<Vec<(ContentAddress, StatedHold)>> {
    const COLUMNS: [&str; 2] = [
        SystemColumn::ContentAddress.name(),
        SystemColumn::Blob.name(),
    ];
    let now = (now / 1_000_000).max(0) as u64;
    let sidecars = SidecarCache::of(lake);
    let mut out = Vec::new();
    for segment in lake.segments()? {
        let filter = sidecars.words(lake.location(), &segment).await;
        if filter.is_some_and(excludes_holds) {
            continue;
        }
        let path = lake.grains.path_of(&segment.file.name);
        let file = LakeFile::open(lake, &path).await?;
        let read = move || {
            file.map_batches(Some(&COLUMNS), |_, batch| {
                let blobs = batch
                    .column_by_name(COLUMNS[1])
                    .and_then(|column| column.as_binary_opt::<i32>());
                let addresses = texts(batch, COLUMNS[0]);
                let stated = |row| {
                    let hold = with_grain_if_any(blobs?.value(row), |grain| {
                        grain.and_then(|grain| StatedHold::of(grain, now))
                    });
                    Some((address_at(addresses, row)?, hold?))
                };
                Ok((0..batch.num_rows()).filter_map(stated).collect::<Vec<_>>())
            })
        };
        let found = tokio::task::spawn_blocking(read).await;
        out.extend(found.file("can't read", &path)??.into_iter().flatten());
    }
    out.sort_unstable();
    Ok(out)
}

/// Returns true if no grain of a segment with `filter` states a hold.
fn excludes_holds(filter: Arc<WordFilter>) -> bool {
    [PolicyMode::Hold.name(), HOLD_TAG, HOLD_REFERENCE]
        .into_iter()
        .all(|words| !filter.may_hold(words))
}
