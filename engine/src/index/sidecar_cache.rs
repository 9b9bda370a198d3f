//! Cache of open sidecars. Each is checked once, when it is first used, and then shared by all
//! queries of the process.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::{StreamExt, TryStreamExt, stream};
use gristmill_connectors::source::SourceBytes;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::GRAINS;
use object_store::path::Path;
use tokio::sync::OnceCell;

use super::builder::IndexKinds;
use super::domain_fields::DomainFieldIndex;
use super::fast_columns::{FastColumnRequests, FastColumns, ROW_BYTES};
use super::fulltext::{FULLTEXT_FILE, LakeTextIndex, SegmentTextIndex};
use super::hexastore::Hexastore;
use super::partial_index::PartialTextIndex;
use super::reindex::build_again;
use super::subject_filter::{LoadedSubjects, SubjectFilters};
use super::vectors::VectorIndex;
use super::word_filter::WordFilter;
use crate::error::{Context, EngineError};
use crate::lake::{Lake, LakeLocation, Segment, SegmentCache, open_cached_sidecar};
use crate::segment::{
    ADDRESSES_FILE, AddressIndex, SegmentId, Sidecar, SidecarBinding, without_trailer,
};

/// Number of sidecars that are opened at the same time.
const OPENING: usize = 8;

/// Maximal number of bytes of fast columns: that of 32 million rows.
const FAST_COLUMNS_BYTES_LIMIT: u64 = 256 << 20;

/// Cache of the open sidecars of a lake. Clones of a lake's handle share it. Segments never change,
/// so an open sidecar is valid for the lifetime of its segment.
#[derive(Debug, Default)]
pub struct SidecarCache {
    by_segment: Mutex<HashMap<SegmentId, Arc<SegmentSidecars>>>,
    /// The full-text index of the segments of the last request.
    lake_text: Cached<LakeTextIndex>,
    /// The same for the segments whose index is usable.
    partial_text: Cached<PartialTextIndex>,
    subjects: LoadedSubjects,
}

/// A value that was computed from the sidecars of some segments.
type Cached<T> = tokio::sync::Mutex<Option<(Vec<SegmentId>, Arc<T>)>>;

/// The sidecars of one segment; `None` once opening one has failed.
#[derive(Debug, Default)]
struct SegmentSidecars {
    /// The binding of the sidecars to the data file; `None` if the data file can't be read.
    binding: OnceCell<Option<SidecarBinding>>,
    /// Set once a sidecar was usable, whose rows may have been selected since then.
    used: AtomicBool,
    /// Set once the data file is known to have the footer of the binding.
    confirmed: OnceCell<()>,
    addresses: OnceCell<Option<Arc<AddressIndex>>>,
    unchecked_addresses: OnceLock<Option<AddressIndex>>,
    hexastore: OnceCell<Option<Arc<Hexastore>>>,
    text: OnceCell<Option<Arc<SegmentTextIndex>>>,
    words: OnceCell<Option<Arc<WordFilter>>>,
    fields: OnceCell<Option<Arc<DomainFieldIndex>>>,
    /// An index in memory that replaces an unusable one.
    read_text: OnceCell<Arc<SegmentTextIndex>>,
    fast_columns: OnceCell<Option<Arc<FastColumns>>>,
    fast_column_requests: FastColumnRequests,
    /// By file name.
    vectors: tokio::sync::Mutex<HashMap<String, Arc<VectorIndex>>>,
}

impl SegmentSidecars {
    async fn binding(&self, location: &LakeLocation, segment: &Segment) -> Option<SidecarBinding> {
        *self
            .binding
            .get_or_init(|| async { segment.logged_binding(location).await.ok() })
            .await
    }
}

impl SegmentCache for SidecarCache {
    fn retain(&self, segments: &[Segment]) {
        let live: HashSet<&SegmentId> = segments.iter().map(|segment| &segment.id).collect();
        self.lock().retain(|id, _| live.contains(id));
        self.subjects.retain(segments);
    }
}

impl SidecarCache {
    /// Returns the cache that `lake` and all clones of its handle share.
    pub fn of(lake: &Lake) -> Arc<SidecarCache> {
        lake.segment_cache()
    }

    /// Checks that the data file of `segment` is the one to which its sidecars are bound. Rows that
    /// a sidecar selects are read only after this check, which reads the footer once: the binding
    /// is known from the log, and excluded segments aren't opened. Without a usable sidecar there
    /// is nothing to check.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if it has another footer than the log states;
    /// [`EngineError::File`](crate::error::EngineError::File) if it can't be read.
    pub async fn confirm(
        &self,
        location: &LakeLocation,
        segment: &Segment,
    ) -> crate::error::Result<()> {
        let entry = self.entry(&segment.id);
        // Without a footer in the log, the binding was read from the file.
        if segment.file.footer.is_none() || !entry.used.load(Ordering::Acquire) {
            return Ok(());
        }
        let check = || async { segment.binding(location).await.map(drop) };
        entry.confirmed.get_or_try_init(check).await.copied()
    }

    /// Returns the address index of `segment`. Returns `None` if there is no usable one, and logs a
    /// warning the first time.
    pub async fn addresses(
        &self,
        location: &LakeLocation,
        segment: &Segment,
    ) -> Option<Arc<AddressIndex>> {
        self.opened(location, segment, |entry| &entry.addresses)
            .await
    }

    /// Returns the sidecar of `segment` that `cell` keeps. A sealed segment has none by design
    /// besides its addresses.
    async fn opened<S: Sidecar>(
        &self,
        location: &LakeLocation,
        segment: &Segment,
        cell: impl Fn(&SegmentSidecars) -> &OnceCell<Option<Arc<S>>>,
    ) -> Option<Arc<S>> {
        if segment.id.is_sealed() && S::FILE != ADDRESSES_FILE {
            return None;
        }
        let entry = self.entry(&segment.id);
        cell(&entry)
            .get_or_init(|| open(location, segment, &entry))
            .await
            .clone()
    }

    /// Returns true if the address index of `segment` is open.
    pub fn has_addresses(&self, segment: &SegmentId) -> bool {
        let entry = self.lock().get(segment).cloned();
        entry.is_some_and(|entry| matches!(entry.addresses.get(), Some(Some(_))))
    }

    /// Returns true if the address index of `segment`, unless it is open, seems to have none of
    /// `addresses`. It isn't checked, which would read all of it: only the order in which segments
    /// are searched may depend on this.
    pub fn seems_without(
        &self,
        location: &LakeLocation,
        segment: &Segment,
        addresses: &BTreeSet<ContentAddress>,
    ) -> bool {
        let entry = self.entry(&segment.id);
        if entry.addresses.initialized() {
            return false;
        }
        let unchecked = entry.unchecked_addresses.get_or_init(|| {
            let path = location.local_path(&segment.id.sidecar(ADDRESSES_FILE))?;
            AddressIndex::open_unchecked(without_trailer(SourceBytes::map(&path).ok()?)).ok()
        });
        let is_unknown =
            |index: &AddressIndex| addresses.iter().all(|it| index.row_of(it).is_none());
        unchecked.as_ref().is_some_and(is_unknown)
    }

    /// Returns the fast columns of each of `segments`. Returns `None` if some have no usable
    /// address index or aren't on this machine, if all together exceed `FAST_COLUMNS_BYTES_LIMIT`,
    /// or if some have rarely been requested: a process with few queries reads the pages of the
    /// rows instead.
    pub async fn fast_columns(
        &self,
        location: &LakeLocation,
        segments: &[Segment],
    ) -> Option<Vec<Arc<FastColumns>>> {
        let rows: u64 = segments.iter().map(|segment| segment.file.rows).sum();
        if rows.saturating_mul(ROW_BYTES) > FAST_COLUMNS_BYTES_LIMIT {
            return None;
        }
        // Every segment counts the request.
        let rare = segments.iter().filter(|segment| {
            let entry = self.entry(&segment.id);
            !entry
                .fast_column_requests
                .are_worth_reading(segment.file.rows)
        });
        if rare.count() > 0 {
            return None;
        }
        let read: Vec<_> = segments
            .iter()
            .map(|segment| self.fast_columns_of(location, segment))
            .collect();
        stream::iter(read)
            .buffered(OPENING)
            .collect::<Vec<_>>()
            .await
            .into_iter()
            .collect()
    }

    async fn fast_columns_of(
        &self,
        location: &LakeLocation,
        segment: &Segment,
    ) -> Option<Arc<FastColumns>> {
        let entry = self.entry(&segment.id);
        let read = || async {
            let addresses = self.addresses(location, segment).await?;
            self.confirm(location, segment).await.ok()?;
            let path =
                location.local_path(&Path::from(format!("{GRAINS}/{}", segment.file.name)))?;
            let bytes = SourceBytes::map(&path).ok()?;
            let read = tokio::task::spawn_blocking(|| FastColumns::read(bytes, addresses))
                .await
                .ok()?;
            read.ok().map(Arc::new)
        };
        entry.fast_columns.get_or_init(read).await.clone()
    }

    /// Returns the hexastore of `segment`. Returns `None` if there is no usable one, and logs a
    /// warning the first time.
    pub async fn hexastore(
        &self,
        location: &LakeLocation,
        segment: &Segment,
    ) -> Option<Arc<Hexastore>> {
        self.opened(location, segment, |entry| &entry.hexastore)
            .await
    }

    /// Returns the subject filters of the lake at `location`, which may lack segments. `None` if
    /// the lake is in a folder: opening its sidecars makes no requests.
    pub async fn subjects(&self, location: &LakeLocation) -> Option<Arc<SubjectFilters>> {
        match location.is_remote() {
            true => self.subjects.get(location).await,
            false => None,
        }
    }

    /// Returns the full-text index of `segment`. Returns `None` if there is no usable one, and logs
    /// a warning the first time.
    pub async fn text(
        &self,
        location: &LakeLocation,
        segment: &Segment,
    ) -> Option<Arc<SegmentTextIndex>> {
        self.opened(location, segment, |entry| &entry.text).await
    }

    /// Returns the word filter of `segment`, or `None` if there is no usable one. What it rules out
    /// isn't read by erasures and holds, so the data file is checked as by [`Self::confirm`].
    pub async fn words(
        &self,
        location: &LakeLocation,
        segment: &Segment,
    ) -> Option<Arc<WordFilter>> {
        let words = self.opened(location, segment, |entry| &entry.words).await;
        self.confirm(location, segment).await.ok()?;
        words
    }

    /// Returns the domain field index of `segment`. Returns `None` if there is no usable one, and
    /// logs a warning the first time.
    pub async fn fields(
        &self,
        location: &LakeLocation,
        segment: &Segment,
    ) -> Option<Arc<DomainFieldIndex>> {
        self.opened(location, segment, |entry| &entry.fields).await
    }

    /// Returns the full-text index of all segments of `lake`. Segments without a usable index are
    /// tokenised now, and their index is cached in memory.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if such a segment can't be read.
    pub async fn lake_text(&self, lake: &Lake) -> crate::error::Result<Arc<LakeTextIndex>> {
        let segments = lake.segments()?;
        let ids: Vec<SegmentId> = segments.iter().map(|segment| segment.id.clone()).collect();
        let mut cached = self.lake_text.lock().await;
        if let Some((known, text)) = &*cached
            && *known == ids
        {
            return Ok(Arc::clone(text));
        }
        let usable = self.partial_text(lake.location(), &segments).await?;
        let text = match usable.whole() {
            Some(text) => Arc::clone(text),
            None => {
                let opened: Vec<_> = segments
                    .iter()
                    .map(|segment| self.text_or_read(lake, segment))
                    .collect();
                let texts: Vec<Arc<SegmentTextIndex>> =
                    stream::iter(opened).buffered(OPENING).try_collect().await?;
                Arc::new(LakeTextIndex::new(&texts).file("can't open", "the full-text index")?)
            }
        };
        *cached = Some((ids, Arc::clone(&text)));
        Ok(text)
    }

    /// Returns the full-text index of those of `segments` whose sidecar is usable; logs a warning
    /// once for each of the others.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if tantivy can't read its own files.
    pub async fn partial_text(
        &self,
        location: &LakeLocation,
        segments: &[Segment],
    ) -> crate::error::Result<Arc<PartialTextIndex>> {
        let ids: Vec<SegmentId> = segments.iter().map(|segment| segment.id.clone()).collect();
        let mut cached = self.partial_text.lock().await;
        if let Some((known, text)) = &*cached
            && *known == ids
        {
            return Ok(Arc::clone(text));
        }
        let texts = self.texts(location, segments).await;
        let text =
            Arc::new(PartialTextIndex::new(&texts).file("can't open", "the full-text index")?);
        *cached = Some((ids, Arc::clone(&text)));
        Ok(text)
    }

    /// Returns the full-text index of each of `segments`, if there is a usable one.
    async fn texts(
        &self,
        location: &LakeLocation,
        segments: &[Segment],
    ) -> Vec<Option<Arc<SegmentTextIndex>>> {
        let opened: Vec<_> = segments
            .iter()
            .map(|segment| self.text(location, segment))
            .collect();
        stream::iter(opened).buffered(OPENING).collect().await
    }

    async fn text_or_read(
        &self,
        lake: &Lake,
        segment: &Segment,
    ) -> crate::error::Result<Arc<SegmentTextIndex>> {
        if let Some(text) = self.text(lake.location(), segment).await {
            return Ok(text);
        }
        let entry = self.entry(&segment.id);
        let read = entry
            .read_text
            .get_or_try_init(|| text_built_again(lake, segment));
        read.await.cloned()
    }

    /// Returns the vectors of `segment` in the file `name`.
    ///
    /// # Errors
    /// [`EngineError::Vectors`] if they aren't usable: there is no fallback.
    pub async fn vectors(
        &self,
        location: &LakeLocation,
        segment: &Segment,
        name: &str,
    ) -> crate::error::Result<Arc<VectorIndex>> {
        let entry = self.entry(&segment.id);
        let mut opened = entry.vectors.lock().await;
        if let Some(index) = opened.get(name) {
            return Ok(Arc::clone(index));
        }
        let unusable = |reason: String| {
            EngineError::Vectors(format!("those of {}: {reason}", segment.id.as_str()))
        };
        let binding = entry.binding(location, segment).await;
        let binding =
            binding.ok_or_else(|| unusable("the segment's data file can't be read".to_owned()))?;
        let path = segment.id.sidecar(name);
        let cached = match location.cached(&path) {
            Some(bytes) => open_vectors(bytes, segment, &binding).await.ok(),
            None => None,
        };
        let index = match cached {
            Some(index) => index,
            None => {
                let bytes = location.read_cached(&path).await?;
                let opened = open_vectors(bytes, segment, &binding).await;
                opened.map_err(|reason| unusable(reason.to_string()))?
            }
        };
        let index = Arc::new(index);
        entry.used.store(true, Ordering::Release);
        opened.insert(name.to_owned(), Arc::clone(&index));
        Ok(index)
    }

    /// Closes the sidecars of `segment`, which were rebuilt or whose segment was removed.
    pub fn evict(&self, segment: &SegmentId) {
        let before = self.lock().remove(segment);
        // Its lifecycle mask may be in use.
        if before.is_some_and(|before| before.used.load(Ordering::Acquire)) {
            self.set_used(segment);
        }
        // A holder of the lock is reopening the value anyway.
        if let Ok(mut cached) = self.lake_text.try_lock() {
            *cached = None;
        }
        if let Ok(mut cached) = self.partial_text.try_lock() {
            *cached = None;
        }
    }

    /// Records that a sidecar of `segment` is usable that this cache doesn't open.
    pub(super) fn set_used(&self, segment: &SegmentId) {
        self.entry(segment).used.store(true, Ordering::Release);
    }

    fn entry(&self, segment: &SegmentId) -> Arc<SegmentSidecars> {
        Arc::clone(self.lock().entry(segment.clone()).or_default())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SegmentId, Arc<SegmentSidecars>>> {
        // No code panics while it is cached.
        self.by_segment
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the vectors of `segment` in `bytes`.
async fn open_vectors(
    bytes: SourceBytes,
    segment: &Segment,
    binding: &SidecarBinding,
) -> Result<VectorIndex, Box<dyn Error + Send + Sync>> {
    let content = binding.unwrap(bytes)?;
    let index = tokio::task::spawn_blocking(|| VectorIndex::open(content)).await??;
    match index.segment_rows() == segment.file.rows {
        true => Ok(index),
        false => Err("they are of another segment".into()),
    }
}

async fn open<S: Sidecar>(
    location: &LakeLocation,
    segment: &Segment,
    entry: &SegmentSidecars,
) -> Option<Arc<S>> {
    let opened = match entry.binding(location, segment).await {
        Some(binding) => open_cached_sidecar::<S>(location, segment, &binding).await,
        None => Err("the segment's data file can't be read".into()),
    };
    match opened {
        Ok(sidecar) => {
            entry.used.store(true, Ordering::Release);
            Some(Arc::new(sidecar))
        }
        Err(reason) => {
            tracing::warn!(
                segment = segment.id.as_str(),
                %reason,
                "no usable {}; the segment is read instead (`gristmill reindex` repairs it)", S::NAME
            );
            None
        }
    }
}

/// Builds the full-text index of `segment` in memory.
async fn text_built_again(
    lake: &Lake,
    segment: &Segment,
) -> crate::error::Result<Arc<SegmentTextIndex>> {
    let kinds = IndexKinds {
        full_text: true,
        ..IndexKinds::NONE
    };
    let files = build_again(lake, segment, kinds).await?.into_iter();
    let bytes = files
        .filter(|file| file.name == FULLTEXT_FILE)
        .map(|file| file.parts.concat())
        .next();
    let text = SegmentTextIndex::open(bytes.unwrap_or_default().into());
    Ok(Arc::new(text.file("can't index", segment.id.as_str())?))
}
