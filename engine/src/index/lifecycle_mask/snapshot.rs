//! The lifecycle masks of one version of the lake, with the events that came after them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt, stream};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::lifecycle::{LifecycleState, TimedEffect, reduce};
use roaring::RoaringBitmap;

use super::event_source::{EventSource, SourceDigest, each_copy_effect};
use super::file::{LIFECYCLE_FILE, LifecycleMask, MaskEntries};
use super::fold::{address_index, fold_group, groups};
use super::tail::Tail;
use super::{HiddenRows, MaskEntry, hidden_bitmap, state_of};
use crate::error::Result;
use crate::index::SidecarCache;
use crate::lake::{Lake, LakeLocation, Segment, SegmentCache};
use crate::segment::{BindingError, SegmentId};

/// Number of masks that are opened at the same time.
const OPENING: usize = 8;

/// The masks of a lake at one version.
#[derive(Debug, Default)]
pub struct LifecycleSnapshot {
    /// The files with events at this version, ascending.
    live: Vec<SourceDigest>,
    /// True if no file has events: no mask was opened, and none is needed.
    is_eventless: bool,
    /// The segments whose masks were opened, if there is a usable one.
    opened: HashSet<SegmentId>,
    /// The usable masks.
    masks: HashMap<SegmentId, Arc<LifecycleMask>>,
    /// The effects that some mask doesn't contain.
    tail: HashMap<ContentAddress, Vec<TimedEffect>>,
    /// The number of files of the tail.
    pub(super) tail_files: usize,
    /// Rows that queries left out so far.
    known: Mutex<HashMap<HiddenRows, RowsBySegment>>,
}

/// Rows of segments.
type RowsBySegment = HashMap<SegmentId, Arc<RoaringBitmap>>;

/// The rows of some segments that a query leaves out.
#[derive(Debug, Clone, Default)]
pub struct HiddenSelection {
    /// The rows of each segment.
    pub rows: Vec<Arc<RoaringBitmap>>,
    /// The number of segments without a usable mask, for which all events were read.
    pub without_mask: usize,
    /// The number of files with newer events than the masks.
    pub tail_files: usize,
}

/// The snapshot of the version that was used last.
#[derive(Debug, Default)]
struct SnapshotCache(tokio::sync::Mutex<Option<Arc<LifecycleSnapshot>>>);

impl SegmentCache for SnapshotCache {
    fn retain(&self, live: &[Segment]) {
        let live: HashSet<&SegmentId> = live.iter().map(|segment| &segment.id).collect();
        // A holder of the lock is replacing the snapshot anyway.
        if let Ok(mut cached) = self.0.try_lock()
            && let Some(snapshot) = &*cached
            && snapshot.opened.iter().any(|id| !live.contains(id))
        {
            *cached = None;
        }
    }
}

/// Drops the masks that `lake` and the clones of its handle have opened.
pub(super) async fn forget(lake: &Lake) {
    *lake.segment_cache::<SnapshotCache>().0.lock().await = None;
}

/// Opens the mask of `segment`, and checks its bitmaps but not its entries. The data file of a
/// segment is read only if the log doesn't state its footer.
///
/// # Errors
/// Why the mask can't be used.
async fn open_mask(
    location: &LakeLocation,
    segment: &Segment,
) -> Result<LifecycleMask, Box<dyn Error + Send + Sync>> {
    let binding = segment.logged_binding(location).await?;
    let bytes = location.read(&segment.id.sidecar(LIFECYCLE_FILE)).await?;
    let mask = LifecycleMask::open(binding.unwrap(bytes)?)?;
    match mask.rows() == segment.file.rows {
        true => Ok(mask),
        false => Err(BindingError::Other.into()),
    }
}

impl LifecycleSnapshot {
    /// Returns the snapshot at the version of the handle. The clones of the handle share it.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if a file with events can't be read.
    pub async fn of(lake: &Lake) -> Result<Arc<LifecycleSnapshot>> {
        let all = lake.segments()?;
        Self::cached(lake, |_| Ok(all.clone())).await
    }

    /// Returns a snapshot for the rows of `segments`. In a lake in an object store it has the masks
    /// of these segments and of those of earlier calls only.
    ///
    /// # Errors
    /// As [`LifecycleSnapshot::of`].
    pub async fn of_segments(lake: &Lake, segments: &[Segment]) -> Result<Arc<LifecycleSnapshot>> {
        if !lake.location().is_remote() {
            return Self::of(lake).await;
        }
        let wanted: HashSet<&SegmentId> = segments.iter().map(|segment| &segment.id).collect();
        let with_known = |known: &LifecycleSnapshot| {
            let mut all = lake.segments()?;
            all.retain(|it| wanted.contains(&it.id) || known.opened.contains(&it.id));
            Ok(all)
        };
        Self::cached(lake, with_known).await
    }

    /// Returns a snapshot that has the lifecycles of `addresses`. If the segments of earlier
    /// queries contain all of these grains, their masks suffice: a grain is in one segment.
    ///
    /// # Errors
    /// As [`LifecycleSnapshot::of`].
    pub async fn of_addresses(
        lake: &Lake,
        addresses: &[ContentAddress],
    ) -> Result<Arc<LifecycleSnapshot>> {
        if !lake.location().is_remote() {
            return Self::of(lake).await;
        }
        let known = Self::of_segments(lake, &[]).await?;
        let has_all = known.is_eventless
            || known.opened.len() == lake.segments()?.len()
            || known.has_rows_of(lake, addresses).await?;
        match has_all {
            true => Ok(known),
            false => Self::of(lake).await,
        }
    }

    /// Returns true if each of `addresses` is in a segment whose mask was opened.
    async fn has_rows_of(&self, lake: &Lake, addresses: &[ContentAddress]) -> Result<bool> {
        let mut missing: Vec<&ContentAddress> = addresses.iter().collect();
        for segment in lake.segments()? {
            if self.opened.contains(&segment.id) && !missing.is_empty() {
                let index = address_index(lake, &segment).await?;
                missing.retain(|address| index.row_of(address).is_none());
            }
        }
        Ok(missing.is_empty())
    }

    /// Returns the snapshot of the last call if it is of this version of the lake and has opened
    /// the segments that `wanted` returns for it, and otherwise one that has.
    async fn cached(
        lake: &Lake,
        wanted: impl Fn(&LifecycleSnapshot) -> Result<Vec<Segment>>,
    ) -> Result<Arc<LifecycleSnapshot>> {
        let sources = EventSource::all(lake).await?;
        let cache = lake.segment_cache::<SnapshotCache>();
        let mut cached = cache.0.lock().await;
        let digests = || sources.iter().map(|source| &source.digest);
        let known = cached
            .clone()
            .filter(|snapshot| snapshot.live.iter().eq(digests()))
            .unwrap_or_default();
        let is_eventless = lake.location().is_remote()
            && !sources
                .iter()
                .any(|source| source.has_events || source.has_copies);
        let segments = wanted(&known)?;
        let has_all = |known: &LifecycleSnapshot| {
            let mut ids = segments.iter().map(|segment| &segment.id);
            ids.all(|id| known.opened.contains(id))
        };
        if known.is_eventless || (known.live.len() == sources.len() && has_all(&known)) {
            return Ok(known);
        }
        let snapshot = match is_eventless {
            true => LifecycleSnapshot {
                live: digests().copied().collect(),
                is_eventless,
                ..LifecycleSnapshot::default()
            },
            false => Self::load_segments(lake, &sources, segments).await?,
        };
        let snapshot = Arc::new(snapshot);
        *cached = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// Opens the masks of `lake`, whose files with events are `sources`, and reads their tail.
    pub(super) async fn load(lake: &Lake, sources: &[EventSource]) -> Result<LifecycleSnapshot> {
        Self::load_segments(lake, sources, lake.segments()?).await
    }

    /// Opens the masks of `segments` and reads their tail. An encrypted lake has none.
    async fn load_segments(
        lake: &Lake,
        sources: &[EventSource],
        segments: Vec<Segment>,
    ) -> Result<LifecycleSnapshot> {
        let mut snapshot = LifecycleSnapshot {
            live: sources.iter().map(|source| source.digest).collect(),
            opened: segments.iter().map(|segment| segment.id.clone()).collect(),
            ..LifecycleSnapshot::default()
        };
        if lake.is_encrypted() {
            return Ok(snapshot);
        }
        let sidecars = SidecarCache::of(lake);
        let opened: Vec<_> = segments
            .iter()
            .map(|segment| open_mask(lake.location(), segment))
            .collect();
        let opened: Vec<_> = stream::iter(opened).buffered(OPENING).collect().await;
        for (segment, mask) in segments.into_iter().zip(opened) {
            match mask {
                Ok(mask) if mask.is_covered_by(sources) => {
                    sidecars.set_used(&segment.id);
                    snapshot.masks.insert(segment.id, Arc::new(mask));
                }
                Ok(_) => tracing::debug!(segment = segment.id.as_str(), "stale lifecycle mask"),
                Err(reason) => {
                    tracing::debug!(segment = segment.id.as_str(), %reason, "no lifecycle mask");
                }
            }
        }
        snapshot.read_tail(lake, sources).await?;
        if !snapshot.tail.is_empty() {
            // The effects of the tail are added to those of the entries.
            snapshot.drop_damaged().await;
        }
        Ok(snapshot)
    }

    /// Reads the events that some mask doesn't contain. If there are too many, no mask is used.
    async fn read_tail(&mut self, lake: &Lake, sources: &[EventSource]) -> Result<()> {
        let masks = &self.masks;
        let is_new = |source: &EventSource| {
            let lacks =
                |mask: &Arc<LifecycleMask>| mask.sources().binary_search(&source.digest).is_err();
            masks.values().any(lacks)
        };
        let has_news = |source: &&EventSource| source.has_events && is_new(source);
        let new: Vec<&EventSource> = sources.iter().filter(has_news).collect();
        let mut tail = Tail::default();
        for source in &new {
            if !tail.is_too_long() {
                let add = |address, effect| tail.add(address, effect);
                source.each_effect(lake, |_| true, add).await?;
            }
        }
        let add = |address, effect| tail.add(address, effect);
        each_copy_effect(lake, sources, is_new, add).await?;
        match tail.is_too_long() {
            true => self.masks.clear(),
            false => {
                self.tail = tail.effects;
                self.tail_files = new.len();
            }
        }
        Ok(())
    }

    /// Drops the masks with damaged entries. Reads the entries that weren't read.
    pub(super) async fn drop_damaged(&mut self) {
        self.check_entries().await;
        self.masks.retain(|_, mask| mask.has_intact_entries());
    }

    /// Reads the entries of the masks whose entries weren't read, and compares their checksums.
    async fn check_entries(&self) {
        let unchecked = self
            .masks
            .values()
            .filter(|mask| !mask.entries_were_checked());
        let checks: Vec<_> = unchecked
            .cloned()
            .map(|mask| tokio::task::spawn_blocking(move || mask.has_intact_entries()))
            .collect();
        for check in checks {
            // One that doesn't end here is made where the entries are needed.
            let _ = check.await;
        }
    }

    /// Returns the mask of `segment` if its entries are usable, too.
    fn whole_mask(&self, segment: &SegmentId) -> Option<&LifecycleMask> {
        let mask = self.masks.get(segment)?;
        mask.has_intact_entries().then_some(&**mask)
    }

    /// Returns true if `segment` has a usable mask, whose entries may be damaged.
    pub(super) fn has_mask(&self, segment: &SegmentId) -> bool {
        self.masks.contains_key(segment)
    }

    /// Returns the number of grains in the tail.
    pub(super) fn tail_grains(&self) -> usize {
        self.tail.len()
    }

    /// Returns the rows of each of `segments` that `hidden` leaves out. Segments without a usable
    /// mask take a pass over all events for each 8 million of their rows.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if a file can't be read.
    pub async fn hidden_rows(
        &self,
        lake: &Lake,
        segments: &[Segment],
        hidden: HiddenRows,
    ) -> Result<HiddenSelection> {
        if self.is_eventless {
            return Ok(HiddenSelection {
                rows: vec![Arc::default(); segments.len()],
                ..HiddenSelection::default()
            });
        }
        let needs_entries = matches!(hidden, HiddenRows::NotCurrentAt(_));
        if needs_entries {
            self.check_entries().await;
        }
        let mut rows = self.known_rows(segments, hidden);
        let mut without = Vec::new();
        for segment in segments {
            if rows.contains_key(&segment.id) {
                continue;
            }
            let masked = match self.masks.get(&segment.id) {
                Some(mask) => self.masked_rows(lake, segment, mask, hidden).await?,
                None => None,
            };
            match masked {
                Some(masked) => {
                    rows.insert(segment.id.clone(), Arc::new(masked));
                }
                None => without.push(segment.clone()),
            }
        }
        if !without.is_empty() {
            let sources = EventSource::all(lake).await?;
            for group in groups(without) {
                let folded = fold_group(lake, &sources, &group).await?;
                for (segment, entries) in group.iter().zip(folded) {
                    let folded = hidden_bitmap(&entries, hidden);
                    rows.insert(segment.id.clone(), Arc::new(folded));
                }
            }
        }
        self.remember(&rows, hidden);
        let masked = segments.iter().filter(|segment| match needs_entries {
            true => self.whole_mask(&segment.id).is_some(),
            false => self.has_mask(&segment.id),
        });
        Ok(HiddenSelection {
            without_mask: segments.len() - masked.count(),
            tail_files: self.tail_files,
            rows: segments
                .iter()
                .map(|segment| rows.remove(&segment.id).unwrap_or_default())
                .collect(),
        })
    }

    /// Returns the rows of a segment that its mask and the tail leave out; `None` if the entries of
    /// the mask are needed and damaged.
    async fn masked_rows(
        &self,
        lake: &Lake,
        segment: &Segment,
        mask: &LifecycleMask,
        hidden: HiddenRows,
    ) -> Result<Option<RoaringBitmap>> {
        let Some(mut rows) = mask.hidden(hidden) else {
            return Ok(None);
        };
        for entry in self.changed_entries(lake, segment, mask).await? {
            match hidden.hides(&entry.effects) {
                true => rows.insert(entry.row),
                false => rows.remove(entry.row),
            };
        }
        Ok(Some(rows))
    }

    /// Returns the rows of `segment` on which the tail has effects, with all their effects.
    async fn changed_entries(
        &self,
        lake: &Lake,
        segment: &Segment,
        mask: &LifecycleMask,
    ) -> Result<Vec<MaskEntry>> {
        if self.tail.is_empty() {
            return Ok(Vec::new());
        }
        let index = address_index(lake, segment).await?;
        // Masks with damaged entries were dropped when the tail was read.
        let entries = mask.entries();
        let changed = self.tail.iter().filter_map(|(address, newer)| {
            let row = index.row_of(address)?;
            let known = entries.and_then(|entries| entries.find(address));
            let mut effects = known.map(|entry| entry.effects).unwrap_or_default();
            effects.extend(newer);
            Some(MaskEntry {
                address: *address,
                row,
                effects: reduce(effects),
            })
        });
        Ok(changed.collect())
    }

    /// Returns the rows of `segment` with effects, from its mask and the tail; `None` without a
    /// usable mask, or if its entries are damaged.
    pub(super) async fn entries(
        &self,
        lake: &Lake,
        segment: &Segment,
    ) -> Result<Option<Vec<MaskEntry>>> {
        let Some(mask) = self.whole_mask(&segment.id) else {
            return Ok(None);
        };
        let changed = self.changed_entries(lake, segment, mask).await?;
        let rows: HashSet<u32> = changed.iter().map(|entry| entry.row).collect();
        let known = mask.entries().into_iter().flat_map(MaskEntries::iter);
        let unchanged = known.filter(|entry| !rows.contains(&entry.row));
        Ok(Some(unchanged.chain(changed).collect()))
    }

    /// Returns the lifecycles of those of `addresses` that have any event. The snapshot must be one
    /// for them ([`LifecycleSnapshot::of_addresses`]). With a mask of every segment that it opened,
    /// this takes a binary search in each; otherwise all events are read.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if a file can't be read.
    pub async fn lifecycles(
        &self,
        lake: &Lake,
        addresses: &[ContentAddress],
    ) -> Result<BTreeMap<ContentAddress, LifecycleState>> {
        if self.is_eventless {
            return Ok(BTreeMap::new());
        }
        self.check_entries().await;
        let lacks = |segment: &SegmentId| self.whole_mask(segment).is_none();
        if self.opened.iter().any(lacks) {
            let wanted: HashSet<&ContentAddress> = addresses.iter().collect();
            return lake.lifecycles(|address| wanted.contains(address)).await;
        }
        let masks = self.masks.values();
        let masks: Vec<MaskEntries<'_>> = masks.filter_map(|mask| mask.entries()).collect();
        let lifecycle = |address: &ContentAddress| {
            let entries = masks.iter().filter_map(|entries| entries.find(address));
            let known: Vec<TimedEffect> = entries.flat_map(|entry| entry.effects).collect();
            let newer = self.tail.get(address).into_iter().flatten();
            let state = state_of(known.iter().chain(newer));
            (state != LifecycleState::default()).then_some((*address, state))
        };
        Ok(addresses.iter().filter_map(lifecycle).collect())
    }

    /// Returns the rows that are known already.
    fn known_rows(&self, segments: &[Segment], hidden: HiddenRows) -> RowsBySegment {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.get(&hidden) else {
            return RowsBySegment::new();
        };
        let ids = segments.iter().map(|segment| &segment.id);
        ids.filter_map(|id| Some((id.clone(), Arc::clone(known.get(id)?))))
            .collect()
    }

    /// Keeps `rows` for later queries, except those of an instant: there are too many instants.
    fn remember(&self, rows: &RowsBySegment, hidden: HiddenRows) {
        if !matches!(hidden, HiddenRows::NotCurrentAt(_)) {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let known = known.entry(hidden).or_default();
            known.extend(rows.iter().map(|(id, rows)| (id.clone(), Arc::clone(rows))));
        }
    }
}
