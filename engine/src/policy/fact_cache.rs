//! The facts that the gate needs about the grains of a batch of operations, looked up together.

mod delegations;
mod dependencies;

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::array::{AsArray, RecordBatch};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, SystemColumn};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};
use gristmill_schemas::lifecycle::{HoldIndex, HoldName, LifecycleState};

use super::gate::{FactSource, GrainFacts, HOPS};
use crate::error::Result;
use crate::lake::{
    EVENT_COLUMNS, KnownAddresses, Lake, LakeFile, Segment, address_at, events_of, links, texts,
};

/// Facts about grains of the lake and of the batch, and the lifecycle of the targets of operations.
#[derive(Debug, Default)]
pub(crate) struct FactCache {
    facts: HashMap<ContentAddress, GrainFacts>,
    lifecycles: HashMap<ContentAddress, LifecycleState>,
    /// The supersessions in the events of `state`: the new grain and the old one, ascending.
    recorded: Vec<(ContentAddress, ContentAddress)>,
    /// Supersessions with a note in `state`: the old grain and the new one.
    noted: HashSet<(ContentAddress, ContentAddress)>,
    /// The holds on all grains.
    holds: HoldIndex,
    /// The successor of each grain that is known to be superseded.
    successors: HashMap<ContentAddress, ContentAddress>,
}

/// Maximum number of segments that stay open while ancestors are looked up. A chain is followed one
/// version at a time, and its versions are often in the same segments.
const OPEN_SEGMENTS: usize = 64;

/// The segments of a lake, some of them open.
struct OpenSegments<'l> {
    lake: &'l Lake,
    segments: Vec<Segment>,
    open: HashMap<usize, LakeFile>,
}

/// The columns from which facts are read.
const FACT_COLUMNS: [&str; 3] = [
    SystemColumn::ContentAddress.name(),
    SystemColumn::Blob.name(),
    SystemColumn::Supersedes.name(),
];

impl OpenSegments<'_> {
    /// Returns the rows of those of `wanted` that the lake contains, ascending, by the numbers of
    /// their segments.
    fn rows_of(
        &self,
        known: &KnownAddresses,
        wanted: &HashSet<ContentAddress>,
    ) -> Vec<(usize, Vec<u32>)> {
        let mut by_segment: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (segment, row) in wanted.iter().filter_map(|address| known.find(address)) {
            by_segment.entry(segment.as_str()).or_default().push(row);
        }
        let segments = self.segments.iter().enumerate();
        segments
            .filter_map(|(number, segment)| {
                let mut rows = by_segment.remove(segment.id.as_str())?;
                rows.sort_unstable();
                Some((number, rows))
            })
            .collect()
    }

    async fn get(&mut self, number: usize) -> Result<Option<LakeFile>> {
        if let Some(file) = self.open.get(&number) {
            return Ok(Some(file.clone()));
        }
        let Some(segment) = self.segments.get(number) else {
            return Ok(None);
        };
        let file = LakeFile::open(self.lake, &self.lake.grains.path_of(&segment.file.name)).await?;
        if self.open.len() >= OPEN_SEGMENTS {
            self.open.clear();
        }
        self.open.insert(number, file.clone());
        Ok(Some(file))
    }
}

impl FactSource for FactCache {
    fn facts(&self, address: &ContentAddress) -> Option<&GrainFacts> {
        self.facts.get(address)
    }
}

impl FactCache {
    /// Returns an empty cache with capacity for so many grains.
    pub(crate) fn with_capacity(grains: usize) -> FactCache {
        FactCache {
            facts: HashMap::with_capacity(grains),
            ..FactCache::default()
        }
    }

    /// Looks up `wanted` in `lake`, and the ancestors that the gate visits, in addition to the
    /// facts that are here: all ancestors within [`HOPS`], and superseded grains at any distance,
    /// because the terms of a goal bind all that follows it. Reads `state` once, and the rows of
    /// each generation from the segments at a time. No grain is read twice, so that a cycle of
    /// claims ends the walk.
    pub(crate) async fn look_up(
        &mut self,
        lake: &Lake,
        known: &KnownAddresses,
        wanted: HashSet<ContentAddress>,
        targets: &HashSet<ContentAddress>,
    ) -> Result<()> {
        let mut missing = wanted;
        missing.extend(self.read_states(lake, targets).await?);
        let mut segments = OpenSegments {
            lake,
            segments: lake.segments()?,
            open: HashMap::new(),
        };
        let mut hops = 0;
        while !missing.is_empty() {
            // A grain that isn't in the lake may be known as a successor nevertheless.
            let superseded = missing
                .iter()
                .flat_map(|address| superseded_by(&self.recorded, address));
            let superseded: Vec<_> = superseded
                .filter(|old| !self.facts.contains_key(old))
                .collect();
            missing.extend(superseded);
            let fresh = self.read(&mut segments, known, &missing).await?;
            let fresh = fresh.iter().filter_map(|address| self.facts.get(address));
            let ancestors = fresh.flat_map(|facts| {
                let parents = facts.parents.iter().filter(|_| hops < HOPS);
                parents.chain(&facts.supersedes).copied()
            });
            missing = ancestors
                .filter(|address| !self.facts.contains_key(address))
                .collect();
            hops += 1;
        }
        Ok(())
    }

    /// Adds a grain of the batch itself. Its supersessions and holds in `state` count as well.
    pub(crate) fn add(&mut self, address: ContentAddress, mut facts: GrainFacts) {
        facts.holds = self.holds.status(&address);
        facts
            .supersedes
            .extend(superseded_by(&self.recorded, &address));
        for old in &facts.supersedes {
            self.successors.entry(*old).or_insert(address);
        }
        self.facts.insert(address, facts);
    }

    /// Records that `successor` supersedes `target`, if facts about it are known.
    pub(crate) fn add_superseded(&mut self, successor: &ContentAddress, target: ContentAddress) {
        self.successors.entry(target).or_insert(*successor);
        if let Some(facts) = self.facts.get_mut(successor) {
            facts.supersedes.push(target);
        }
    }

    /// Returns the lifecycle of `address`, if it is one of the targets that were looked up or an
    /// event of it was added.
    pub(crate) fn lifecycle(&self, address: &ContentAddress) -> Option<&LifecycleState> {
        self.lifecycles.get(address)
    }

    /// Returns the holds on all grains.
    pub(crate) fn holds(&self) -> &HoldIndex {
        &self.holds
    }

    /// Adds an event of the hold `name` on `address` at `now`, or right after the last one, so that
    /// it takes effect. Returns its time.
    pub(crate) fn add_hold_event(
        &mut self,
        address: ContentAddress,
        name: &HoldName,
        (event, value): (LifecycleEvent, &str),
        now: i64,
    ) -> i64 {
        let last = self.holds.find(&address, name).map(|entry| entry.at);
        let at = last.map_or(now, |last| last.saturating_add(1).max(now));
        self.holds.add(address, event, Some(value), at);
        if let Some(facts) = self.facts.get_mut(&address) {
            facts.holds = self.holds.status(&address);
        }
        at
    }

    /// Adds an event of the batch, at `now` or right after the last event of its kind, so that it
    /// takes effect. Returns its time.
    pub(crate) fn add_event(
        &mut self,
        address: ContentAddress,
        event: LifecycleEvent,
        value: &str,
        now: i64,
    ) -> i64 {
        let lifecycle = self.lifecycles.entry(address).or_default();
        let at = lifecycle
            .next_effective_at(event)
            .map_or(now, |next| next.max(now));
        lifecycle.add(event, Some(value), at);
        at
    }

    /// Records that there is a note on the supersession of `old` by `new`. Returns false if there
    /// was one.
    pub(crate) fn add_note(&mut self, old: ContentAddress, new: ContentAddress) -> bool {
        self.noted.insert((old, new))
    }

    /// Reads the rows of those of `wanted` that the lake contains. Returns their addresses.
    async fn read(
        &mut self,
        segments: &mut OpenSegments<'_>,
        known: &KnownAddresses,
        wanted: &HashSet<ContentAddress>,
    ) -> Result<Vec<ContentAddress>> {
        let mut fresh = Vec::new();
        for (number, rows) in segments.rows_of(known, wanted) {
            let Some(file) = segments.get(number).await? else {
                continue;
            };
            for batch in file.read_rows(&FACT_COLUMNS, &rows)? {
                self.add_rows(&batch, &mut fresh);
            }
        }
        Ok(fresh)
    }

    /// Adds the facts of the grains in `batch`, and their addresses to `fresh`.
    fn add_rows(&mut self, batch: &RecordBatch, fresh: &mut Vec<ContentAddress>) {
        let mut supersedes: Vec<Vec<ContentAddress>> = vec![Vec::new(); batch.num_rows()];
        links(batch, |row, _, old| {
            if let Some(all) = supersedes.get_mut(row) {
                all.push(old);
            }
        });
        let [address, blob, _] = FACT_COLUMNS;
        let addresses = texts(batch, address);
        let blobs = batch
            .column_by_name(blob)
            .and_then(|column| column.as_binary_opt::<i32>());
        for (row, supersedes) in supersedes.into_iter().enumerate() {
            let Some((address, blobs)) = address_at(addresses, row).zip(blobs) else {
                continue;
            };
            let payload = Payload::open(blobs.value(row), DEFAULT_PAYLOAD_LIMIT);
            let grain = payload
                .as_ref()
                .ok()
                .and_then(|payload| Grain::decode(payload, DecodeMode::Lenient).ok());
            if let Some(grain) = grain {
                self.add(address, GrainFacts::of(&grain, supersedes));
                fresh.push(address);
            }
        }
    }

    /// Reads the events of `targets`, and all supersessions, from `state`, a file at a time.
    /// Returns the grains that the known grains superseded.
    async fn read_states(
        &mut self,
        lake: &Lake,
        targets: &HashSet<ContentAddress>,
    ) -> Result<Vec<ContentAddress>> {
        let note = |batch: RecordBatch| {
            for row in events_of(&batch) {
                let successor = || row.value.and_then(|value| value.parse().ok());
                match row.event {
                    LifecycleEvent::Superseded => self
                        .recorded
                        .extend(successor().map(|successor| (successor, row.address))),
                    LifecycleEvent::Noted => self
                        .noted
                        .extend(successor().map(|successor| (row.address, successor))),
                    LifecycleEvent::Held | LifecycleEvent::Released => {
                        self.holds.add(row.address, row.event, row.value, row.at);
                    }
                    _ => {}
                }
                if targets.contains(&row.address) {
                    self.lifecycles
                        .entry(row.address)
                        .or_default()
                        .add(row.event, row.value, row.at);
                }
            }
        };
        lake.state.each_batch(&EVENT_COLUMNS, note).await?;
        self.recorded.sort_unstable();
        let mut superseded = Vec::new();
        for (address, facts) in &mut self.facts {
            let own = superseded_by(&self.recorded, address);
            facts.supersedes.extend(own.clone());
            facts.holds = self.holds.status(address);
            superseded.extend(own);
        }
        Ok(superseded)
    }
}

/// Returns what `new` supersedes by `recorded`, pairs of a new grain and an old one, ascending.
fn superseded_by(
    recorded: &[(ContentAddress, ContentAddress)],
    new: &ContentAddress,
) -> impl Iterator<Item = ContentAddress> + Clone {
    let first = recorded.partition_point(|(successor, _)| successor < new);
    let from_first = recorded.get(first..).unwrap_or_default();
    let count = from_first.partition_point(|(successor, _)| successor <= new);
    from_first.iter().take(count).map(|(_, old)| *old)
}
