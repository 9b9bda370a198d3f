//! The addresses of a lake for a run of ingest, which opens the address indexes of those segments
//! only that may contain the grains of a batch.
//!
//! The log states the creation seconds of each segment's grains. Grains of the last days are looked
//! up in the segments of the last days, whatever else the lake contains. Segments whose seconds the
//! log doesn't state may contain any grain.

use std::collections::HashSet;
use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{GRAINS, StateRow};
use gristmill_schemas::grain::GrainHeader;
use tokio::sync::OnceCell;

use super::known_addresses::{KnownAddresses, KnownSegment, open_index};
use super::rejects::blob_of;
use super::{DataFile, Lake, LakeLocation, Segment, Table};
use crate::error::{Context, Result};
use crate::keys::TombstoneSet;
use crate::segment::{AddressIndex, SegmentId};

/// The segments of a lake, and their address indexes as far as they were needed. Clones share the
/// indexes.
#[derive(Debug, Clone)]
pub(crate) struct AddressCatalog {
    location: LakeLocation,
    segments: Vec<CatalogEntry>,
    /// Segments that a dry run would have written.
    dry_run: Vec<Arc<AddressIndex>>,
    erased: TombstoneSet,
}

#[derive(Debug, Clone)]
struct CatalogEntry {
    segment: Segment,
    index: Arc<OnceCell<Arc<AddressIndex>>>,
}

impl CatalogEntry {
    /// Returns false if no grain of the segment was created at one of `seconds`, which ascend.
    fn may_contain(&self, seconds: &[u32]) -> bool {
        let own = self.segment.file.seconds.as_ref();
        own.is_none_or(|own| own.intersects(seconds))
    }
}

impl AddressCatalog {
    /// Lists the segments of `lake`, and reads the tombstones. Opens no index.
    ///
    /// # Errors
    /// As [`Lake::tombstone_set`].
    pub(crate) async fn load(lake: &Lake) -> Result<AddressCatalog> {
        let mut catalog = AddressCatalog {
            location: lake.location().clone(),
            segments: Vec::new(),
            dry_run: Vec::new(),
            erased: TombstoneSet::default(),
        };
        catalog.refresh(lake).await?;
        Ok(catalog)
    }

    /// Lists the segments that `lake` has now. Open indexes of those that it still has are kept.
    ///
    /// # Errors
    /// As [`Lake::tombstone_set`].
    pub(crate) async fn refresh(&mut self, lake: &Lake) -> Result<()> {
        self.refresh_erased(lake).await?;
        let mut before = std::mem::take(&mut self.segments);
        let entries = lake.segments()?.into_iter().map(|segment| {
            let known = before
                .iter()
                .position(|entry| entry.segment.id == segment.id);
            let index = known.map(|at| before.swap_remove(at).index);
            CatalogEntry {
                segment,
                index: index.unwrap_or_default(),
            }
        });
        self.segments = entries.collect();
        Ok(())
    }

    /// Returns a catalog of the same lake without segments and tombstones.
    pub(crate) fn without_segments(&self) -> AddressCatalog {
        AddressCatalog {
            location: self.location.clone(),
            segments: Vec::new(),
            dry_run: Vec::new(),
            erased: TombstoneSet::default(),
        }
    }

    /// Opens the address index of `segment`, which another process has published.
    ///
    /// # Errors
    /// As [`KnownAddresses::load`].
    pub(crate) async fn open_published(&self, segment: &Segment) -> Result<Arc<AddressIndex>> {
        let index = open_index(&self.location, segment).await?;
        index.release();
        Ok(Arc::new(index))
    }

    /// Returns true if a grain of `segment`, whose address index is `index`, is in a segment of the
    /// catalog or was erased. Looks up every address, in the segments with grains of the same
    /// seconds.
    ///
    /// # Errors
    /// As [`AddressCatalog::of_seconds`].
    pub(crate) async fn has_any(
        &self,
        segment: &Segment,
        index: &Arc<AddressIndex>,
    ) -> Result<bool> {
        let search = |known: &KnownAddresses, index: &AddressIndex| {
            let mut addresses = index.addresses();
            addresses.any(|address| known.is_erased(&address) || known.contains(&address))
        };
        self.searched(segment, index, search).await
    }

    /// Returns true if all grains of `segment`, whose address index is `index`, are in segments of
    /// the catalog or were erased. Costs as much as [`AddressCatalog::has_any`].
    ///
    /// # Errors
    /// As [`AddressCatalog::of_seconds`].
    pub(crate) async fn has_all(
        &self,
        segment: &Segment,
        index: &Arc<AddressIndex>,
    ) -> Result<bool> {
        let search = |known: &KnownAddresses, index: &AddressIndex| {
            let mut addresses = index.addresses();
            addresses.all(|address| known.is_erased(&address) || known.contains(&address))
        };
        self.searched(segment, index, search).await
    }

    /// Returns, for the grains of `segment`, whose address index is `index`, the data files of the
    /// first segments of the catalog that have them. Costs as much as [`AddressCatalog::has_any`].
    ///
    /// # Errors
    /// As [`AddressCatalog::of_seconds`].
    pub(crate) async fn first_files(
        &self,
        segment: &Segment,
        index: &Arc<AddressIndex>,
    ) -> Result<Vec<DataFile>> {
        let search = |known: &KnownAddresses, index: &AddressIndex| {
            let mut found: HashSet<SegmentId> = HashSet::new();
            for address in index.addresses() {
                if let Some((id, _)) = known.find(&address)
                    && !found.contains(id)
                {
                    found.insert(id.clone());
                }
            }
            found
        };
        let found = self.searched(segment, index, search).await?;
        let files = self.segments.iter().map(|entry| &entry.segment);
        let files = files.filter(|segment| found.contains(&segment.id));
        Ok(files.map(|segment| segment.file.clone()).collect())
    }

    /// Calls `search` with the segments of the catalog that may have grains of `segment`, whose
    /// address index is `index`.
    async fn searched<R: Send + 'static>(
        &self,
        segment: &Segment,
        index: &Arc<AddressIndex>,
        search: impl FnOnce(&KnownAddresses, &AddressIndex) -> R + Send + 'static,
    ) -> Result<R> {
        let may_meet =
            |entry: &CatalogEntry| match (&entry.segment.file.seconds, &segment.file.seconds) {
                (Some(known), Some(own)) => known.overlaps_any(own),
                _ => true,
            };
        let (known, index) = (self.opened(may_meet).await?, Arc::clone(index));
        let search = move || {
            let found = search(&known, &index);
            index.release();
            known.release();
            found
        };
        tokio::task::spawn_blocking(search)
            .await
            .task("a search of addresses")
    }

    /// Reads the tombstones of `lake` again.
    ///
    /// # Errors
    /// As [`Lake::tombstone_set`].
    pub(crate) async fn refresh_erased(&mut self, lake: &Lake) -> Result<()> {
        self.erased = lake.tombstone_set().await?;
        Ok(())
    }

    /// Adds a segment that was just written.
    pub(crate) fn add(&mut self, segment: Segment, index: impl Into<Arc<AddressIndex>>) {
        let index: Arc<AddressIndex> = index.into();
        let index = Arc::new(OnceCell::from(index));
        self.segments.push(CatalogEntry { segment, index });
    }

    /// Adds a segment that a dry run would have written.
    pub(crate) fn add_dry_run(&mut self, index: AddressIndex) {
        self.dry_run.push(Arc::new(index));
    }

    /// Returns the addresses of the grains that were created at one of `seconds`, which ascend, and
    /// perhaps of others. Opens the indexes of these segments.
    ///
    /// # Errors
    /// As [`KnownAddresses::load`].
    pub(crate) async fn of_seconds(&self, seconds: &[u32]) -> Result<KnownAddresses> {
        self.opened(|entry| entry.may_contain(seconds)).await
    }

    /// Returns all addresses. Opens the indexes of all segments.
    ///
    /// # Errors
    /// As [`KnownAddresses::load`].
    pub(crate) async fn all(&self) -> Result<KnownAddresses> {
        self.opened(|_| true).await
    }

    async fn opened(&self, is_wanted: impl Fn(&CatalogEntry) -> bool) -> Result<KnownAddresses> {
        let mut segments = Vec::new();
        for entry in self.segments.iter().filter(|entry| is_wanted(entry)) {
            if let Some(index) = self.open(entry).await? {
                segments.push(KnownSegment {
                    id: entry.segment.id.clone(),
                    seconds: entry.segment.file.seconds.clone(),
                    index,
                });
            }
        }
        Ok(KnownAddresses {
            segments,
            dry_run: self.dry_run.clone(),
            erased: self.erased.clone(),
        })
    }

    /// Opens the index of a segment, or returns `None` if another writer removed the segment. A
    /// plan without its rows is outdated, and the commit of it a conflict.
    async fn open(&self, entry: &CatalogEntry) -> Result<Option<Arc<AddressIndex>>> {
        let open = async || -> Result<Arc<AddressIndex>> {
            let index = open_index(&self.location, &entry.segment).await?;
            // The check has touched all of its pages.
            index.release();
            Ok(Arc::new(index))
        };
        match entry.index.get_or_try_init(open).await {
            Err(error) if error.is_not_found() && !self.is_live(&entry.segment).await? => Ok(None),
            opened => opened.map(|index| Some(Arc::clone(index))),
        }
    }

    async fn is_live(&self, segment: &Segment) -> Result<bool> {
        let grains = Table::open(&self.location, GRAINS).await?;
        let files = grains.map_or(Ok(Vec::new()), |grains| grains.files())?;
        Ok(files.iter().any(|file| file.name == segment.file.name))
    }

    /// Returns true if refused bytes were erased. Entries of a document are refused without bytes,
    /// so that no bytes say nothing about which of them was erased.
    pub(crate) fn is_erased_part(&self, bytes: &[u8]) -> bool {
        let is_known = !bytes.is_empty() && !self.erased.is_empty();
        is_known && self.erased.contains(&ContentAddress::of(blob_of(bytes)))
    }

    /// Returns true if the lake contains refused bytes as a grain.
    ///
    /// # Errors
    /// As [`AddressCatalog::of_seconds`].
    pub(crate) async fn contains_part(&self, bytes: &[u8]) -> Result<bool> {
        let blob = blob_of(bytes);
        // The lake has no grain whose header can't be read.
        let Ok(header) = GrainHeader::read(blob) else {
            return Ok(false);
        };
        let known = self.of_seconds(&[header.created_at_seconds]).await?;
        Ok(known.contains(&ContentAddress::of(blob)))
    }

    /// Returns a lifecycle event that comes with a source, without the names of erased grains.
    /// `None` if it is of an erased grain.
    pub(crate) fn permitted(&self, mut row: StateRow) -> Option<StateRow> {
        let erased = |text: &str| {
            text.parse()
                .is_ok_and(|address| !self.erased.is_empty() && self.erased.contains(&address))
        };
        if erased(&row.content_address) {
            return None;
        }
        row.value = row.value.filter(|value| !erased(value));
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::segment::CreationSeconds;

    /// A grain: its creation second, and what distinguishes it from others of the same second.
    type TestGrain = (u32, u8);

    fn address_of((second, number): TestGrain) -> ContentAddress {
        ContentAddress::of(&[&second.to_be_bytes()[..], &[number]].concat())
    }

    fn grains() -> impl Strategy<Value = Vec<TestGrain>> {
        let day = prop_oneof![
            Just(1_700_000_000_u32),
            Just(1_700_086_400),
            Just(1_600_000_000)
        ];
        let near = (day, 0..300_u32).prop_map(|(day, second)| day + second);
        let second = prop_oneof![6 => near, 1 => Just(0), 1 => Just(u32::MAX), 1 => any::<u32>()];
        prop::collection::vec((second, 0..4_u8), 0..120)
    }

    /// A segment; `states_seconds` as the log of an encrypted segment, or of an earlier release.
    fn segment(number: usize, grains: &[TestGrain], states_seconds: bool) -> Segment {
        let seconds = CreationSeconds::of(grains.iter().map(|(second, _)| *second).collect());
        let file = DataFile {
            seconds: states_seconds.then_some(seconds),
            ..DataFile::untagged(format!("part-{number}.parquet"), 1, grains.len() as u64)
        };
        Segment {
            id: SegmentId::of_folder(&number.to_string()),
            file,
        }
    }

    fn catalog(segments: &[(Vec<TestGrain>, bool)]) -> (tempfile::TempDir, AddressCatalog) {
        let folder = tempfile::tempdir().unwrap();
        let mut catalog = AddressCatalog {
            location: LakeLocation::new(&folder.path().display().to_string()).unwrap(),
            segments: Vec::new(),
            dry_run: Vec::new(),
            erased: TombstoneSet::default(),
        };
        for (number, (grains, states_seconds)) in segments.iter().enumerate() {
            let addresses: Vec<_> = grains.iter().copied().map(address_of).collect();
            let index = AddressIndex::open(AddressIndex::build(&[addresses]).into()).unwrap();
            catalog.add(segment(number, grains, *states_seconds), index);
        }
        (folder, catalog)
    }

    proptest! {
        #[test]
        fn look_ups_by_second_find_what_look_ups_in_all_segments_find(
            segments in prop::collection::vec((grains(), any::<bool>()), 0..8),
            fresh in grains(),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let stored: HashSet<TestGrain> =
                segments.iter().flat_map(|(grains, _)| grains).copied().collect();
            let (_folder, catalog) = catalog(&segments);
            let all = runtime.block_on(catalog.all()).unwrap();
            // The last segment again, and grains of which some are stored.
            let again = segments.last().map(|(grains, _)| grains.clone()).unwrap_or_default();
            for batch in [again, fresh, stored.iter().copied().collect()] {
                let mut seconds: Vec<u32> = batch.iter().map(|(second, _)| *second).collect();
                seconds.sort_unstable();
                seconds.dedup();
                let known = runtime.block_on(catalog.of_seconds(&seconds)).unwrap();
                for grain in batch {
                    let address = address_of(grain);
                    let found = known.contains_created(&address, grain.0);
                    prop_assert_eq!(found, stored.contains(&grain), "{:?}", grain);
                    prop_assert_eq!(found, all.contains(&address), "{:?}", grain);
                }
            }
        }
    }

    #[tokio::test]
    async fn the_first_segments_with_grains_of_another_are_found() {
        let grains = |numbers: &[u32]| -> Vec<TestGrain> {
            let seconds = numbers.iter().map(|number| 1_700_000_000 + number);
            seconds.map(|second| (second, 0)).collect()
        };
        let segments = [&[1, 2][..], &[2, 3], &[3, 4]];
        let segments = segments.map(|numbers| (grains(numbers), true));
        let (_folder, catalog) = catalog(&segments);
        let own = |numbers: &[u32]| {
            let grains = grains(numbers);
            let addresses: Vec<_> = grains.iter().copied().map(address_of).collect();
            let index = AddressIndex::open(AddressIndex::build(&[addresses]).into()).unwrap();
            (segment(9, &grains, true), Arc::new(index))
        };
        for (numbers, first, has_all) in [
            (&[2, 9][..], &[0][..], false),
            (&[3, 4][..], &[1, 2][..], true),
            (&[9][..], &[][..], false),
            (&[1, 2, 3, 4][..], &[0, 1, 2][..], true),
        ] {
            let (segment, index) = own(numbers);
            let found = catalog.first_files(&segment, &index).await.unwrap();
            let found: Vec<String> = found.into_iter().map(|file| file.name).collect();
            let names = first.iter().map(|number| format!("part-{number}.parquet"));
            assert_eq!(found, names.collect::<Vec<String>>(), "{numbers:?}");
            assert_eq!(catalog.has_all(&segment, &index).await.unwrap(), has_all);
        }
    }

    #[tokio::test]
    async fn segments_of_other_seconds_are_not_opened() {
        let day = |day: u32| -> Vec<TestGrain> {
            (0..50)
                .map(|second| (1_700_000_000 + 86_400 * day + second, 0))
                .collect()
        };
        let nights: Vec<_> = (0..20).map(|night| (day(night), true)).collect();
        let (_folder, mut catalog) = catalog(&nights);
        // Without their indexes, opening them is an error.
        catalog
            .segments
            .iter_mut()
            .take(19)
            .for_each(|entry| entry.index = Arc::default());
        let known = catalog
            .of_seconds(&[1_700_000_000 + 86_400 * 19])
            .await
            .unwrap();
        assert_eq!(known.segments.len(), 1);
    }
}
