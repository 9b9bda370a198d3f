//! The sidecars that are open. Each is checked once, when it is first asked for, and then serves
//! every query of the process.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt, TryStreamExt, stream};
use gristmill_connectors::source::SourceBytes;
use gristmill_schemas::columns::GRAINS;
use object_store::path::Path;
use tokio::sync::OnceCell;

use super::builder::IndexKinds;
use super::facts::{ROW_BYTES, RowFacts};
use super::fulltext::{FULLTEXT_FILE, LakeText, SegmentText};
use super::hexastore::{HEXASTORE_FILE, Hexastore};
use super::reindex::build_again;
use super::usable::UsableText;
use super::vectors::VectorIndex;
use super::words::WordFilter;
use crate::error::{Context, EngineError};
use crate::lake::{Lake, LakeLocation, Segment};
use crate::segment::{ADDRESSES_FILE, AddressIndex, Binding, SegmentId, Unbound};

/// A sidecar that is one file.
pub trait Sidecar: Sized + Send + Sync + 'static {
    /// The file's name in the segment's folder.
    const FILE: &'static str;
    /// What to call it.
    const NAME: &'static str;

    /// Opens it, checking all of it.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    fn check(bytes: SourceBytes) -> Result<Self, Box<dyn Error + Send + Sync>>;

    /// How many rows the segment had that it was made of.
    fn segment_rows(&self) -> u64;
}

impl Sidecar for AddressIndex {
    const FILE: &'static str = ADDRESSES_FILE;
    const NAME: &'static str = "address index";

    fn check(bytes: SourceBytes) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(AddressIndex::open(bytes)?)
    }

    fn segment_rows(&self) -> u64 {
        self.len() as u64
    }
}

impl Sidecar for Hexastore {
    const FILE: &'static str = HEXASTORE_FILE;
    const NAME: &'static str = "hexastore";

    fn check(bytes: SourceBytes) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Hexastore::open(bytes)?)
    }

    fn segment_rows(&self) -> u64 {
        self.rows()
    }
}

impl Sidecar for SegmentText {
    const FILE: &'static str = FULLTEXT_FILE;
    const NAME: &'static str = "full-text index";

    fn check(bytes: SourceBytes) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(SegmentText::open(bytes)?)
    }

    fn segment_rows(&self) -> u64 {
        self.rows()
    }
}

/// Opens the sidecar of `segment`. Reads every byte of it once.
///
/// # Errors
/// Why it can't be used: it is missing, damaged, or of other rows than the segment's.
pub async fn open_sidecar<S: Sidecar>(
    location: &LakeLocation,
    segment: &Segment,
) -> Result<S, Box<dyn Error + Send + Sync>> {
    open_bound(location, segment, &segment.binding(location).await?).await
}

/// [`open_sidecar`] of a segment whose `binding` is known.
async fn open_bound<S: Sidecar>(
    location: &LakeLocation,
    segment: &Segment,
    binding: &Binding,
) -> Result<S, Box<dyn Error + Send + Sync>> {
    let content = binding.unwrap(location.read(&segment.id.sidecar(S::FILE)).await?)?;
    let sidecar = tokio::task::spawn_blocking(|| S::check(content)).await??;
    match sidecar.segment_rows() == segment.file.rows {
        true => Ok(sidecar),
        false => Err(Unbound::Other.into()),
    }
}

/// Sidecars that are opened at the same time.
const OPENING: usize = 8;

/// Bytes of facts about rows that are held at most: those of 32 million rows.
const FACTS: u64 = 256 << 20;

/// The sidecars of a lake that were asked for. Clones of a lake's handle share them; segments never
/// change, so an open sidecar stays right for as long as its segment lives.
#[derive(Debug, Default)]
pub struct Sidecars {
    shelves: Mutex<HashMap<SegmentId, Arc<Shelf>>>,
    /// The full text of the segments for which it was last asked.
    lake_text: Held<LakeText>,
    /// The same without the segments whose full text can't be used.
    usable_text: Held<UsableText>,
}

/// What was made of the sidecars of some segments.
type Held<T> = tokio::sync::Mutex<Option<(Vec<SegmentId>, Arc<T>)>>;

/// The sidecars of one segment; `None` once opening one has failed.
#[derive(Debug, Default)]
struct Shelf {
    /// What the sidecars must be bound to; `None` if the data file can't be read.
    binding: OnceCell<Option<Binding>>,
    addresses: OnceCell<Option<Arc<AddressIndex>>>,
    hexastore: OnceCell<Option<Arc<Hexastore>>>,
    text: OnceCell<Option<Arc<SegmentText>>>,
    words: OnceCell<Option<Arc<WordFilter>>>,
    /// What stands for a full-text index that can't be used: one in memory.
    read_text: OnceCell<Arc<SegmentText>>,
    facts: OnceCell<Option<Arc<RowFacts>>>,
    /// By the names of their files.
    vectors: tokio::sync::Mutex<HashMap<String, Arc<VectorIndex>>>,
}

impl Shelf {
    async fn binding(&self, location: &LakeLocation, segment: &Segment) -> Option<Binding> {
        *self
            .binding
            .get_or_init(|| async { segment.binding(location).await.ok() })
            .await
    }
}

impl Sidecars {
    /// The address index of `segment`; `None`, with a warning the first time, if there is none that
    /// can be used.
    pub async fn addresses(
        &self,
        location: &LakeLocation,
        segment: &Segment,
    ) -> Option<Arc<AddressIndex>> {
        let shelf = self.shelf(&segment.id);
        shelf
            .addresses
            .get_or_init(|| open(location, segment, &shelf))
            .await
            .clone()
    }

    /// What is asked of nearly every row, for each of `segments`; `None` if it isn't known of all
    /// of them, because their addresses can't be used, they have more than `FACTS` bytes of it
    /// together, or they are not on this machine.
    pub async fn facts(
        &self,
        location: &LakeLocation,
        segments: &[Segment],
    ) -> Option<Vec<Arc<RowFacts>>> {
        let rows: u64 = segments.iter().map(|segment| segment.file.rows).sum();
        if rows.saturating_mul(ROW_BYTES) > FACTS {
            return None;
        }
        let read: Vec<_> = segments
            .iter()
            .map(|segment| self.facts_of(location, segment))
            .collect();
        stream::iter(read)
            .buffered(OPENING)
            .collect::<Vec<_>>()
            .await
            .into_iter()
            .collect()
    }

    async fn facts_of(&self, location: &LakeLocation, segment: &Segment) -> Option<Arc<RowFacts>> {
        let shelf = self.shelf(&segment.id);
        let read = || async {
            let addresses = self.addresses(location, segment).await?;
            let path =
                location.local_path(&Path::from(format!("{GRAINS}/{}", segment.file.name)))?;
            let bytes = SourceBytes::map(&path).ok()?;
            let read = tokio::task::spawn_blocking(|| RowFacts::read(bytes, addresses))
                .await
                .ok()?;
            read.ok().map(Arc::new)
        };
        shelf.facts.get_or_init(read).await.clone()
    }

    /// The hexastore of `segment`; `None`, with a warning the first time, if there is none that can
    /// be used.
    pub async fn hexastore(
        &self,
        location: &LakeLocation,
        segment: &Segment,
    ) -> Option<Arc<Hexastore>> {
        // A sealed segment has none by design.
        if segment.id.is_sealed() {
            return None;
        }
        let shelf = self.shelf(&segment.id);
        shelf
            .hexastore
            .get_or_init(|| open(location, segment, &shelf))
            .await
            .clone()
    }

    /// The full-text index of `segment`; `None`, with a warning the first time, if there is none
    /// that can be used.
    pub async fn text(
        &self,
        location: &LakeLocation,
        segment: &Segment,
    ) -> Option<Arc<SegmentText>> {
        if segment.id.is_sealed() {
            return None;
        }
        let shelf = self.shelf(&segment.id);
        shelf
            .text
            .get_or_init(|| open(location, segment, &shelf))
            .await
            .clone()
    }

    /// The word filter of `segment`; `None` if there is none that can be used.
    pub async fn words(
        &self,
        location: &LakeLocation,
        segment: &Segment,
    ) -> Option<Arc<WordFilter>> {
        if segment.id.is_sealed() {
            return None;
        }
        let shelf = self.shelf(&segment.id);
        shelf
            .words
            .get_or_init(|| open(location, segment, &shelf))
            .await
            .clone()
    }

    /// The full text of all of `lake`'s segments. Of a segment without a usable index it is read
    /// now, and held in memory.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if such a segment can't be read.
    pub async fn lake_text(&self, lake: &Lake) -> crate::error::Result<Arc<LakeText>> {
        let segments = lake.segments()?;
        let ids: Vec<SegmentId> = segments.iter().map(|segment| segment.id.clone()).collect();
        let mut held = self.lake_text.lock().await;
        if let Some((known, text)) = &*held
            && *known == ids
        {
            return Ok(Arc::clone(text));
        }
        let usable = self.usable_text(lake.location(), &segments).await?;
        let text = match usable.whole() {
            Some(text) => Arc::clone(text),
            None => {
                let opened: Vec<_> = segments
                    .iter()
                    .map(|segment| self.text_or_read(lake, segment))
                    .collect();
                let texts: Vec<Arc<SegmentText>> =
                    stream::iter(opened).buffered(OPENING).try_collect().await?;
                Arc::new(LakeText::new(&texts).file("can't open", "the full-text index")?)
            }
        };
        *held = Some((ids, Arc::clone(&text)));
        Ok(text)
    }

    /// The full text of those of `segments` whose index can be used; there is a warning for each
    /// other one, once.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if tantivy can't read its own files.
    pub async fn usable_text(
        &self,
        location: &LakeLocation,
        segments: &[Segment],
    ) -> crate::error::Result<Arc<UsableText>> {
        let ids: Vec<SegmentId> = segments.iter().map(|segment| segment.id.clone()).collect();
        let mut held = self.usable_text.lock().await;
        if let Some((known, text)) = &*held
            && *known == ids
        {
            return Ok(Arc::clone(text));
        }
        let opened: Vec<_> = segments
            .iter()
            .map(|segment| self.text(location, segment))
            .collect();
        let texts: Vec<Option<Arc<SegmentText>>> =
            stream::iter(opened).buffered(OPENING).collect().await;
        let text = Arc::new(UsableText::new(&texts).file("can't open", "the full-text index")?);
        *held = Some((ids, Arc::clone(&text)));
        Ok(text)
    }

    async fn text_or_read(
        &self,
        lake: &Lake,
        segment: &Segment,
    ) -> crate::error::Result<Arc<SegmentText>> {
        if let Some(text) = self.text(lake.location(), segment).await {
            return Ok(text);
        }
        let shelf = self.shelf(&segment.id);
        let read = shelf.read_text.get_or_try_init(|| async {
            let kinds = IndexKinds {
                full_text: true,
                ..IndexKinds::NONE
            };
            let files = build_again(lake, segment, kinds).await?.into_iter();
            let bytes = files
                .filter(|file| file.name == FULLTEXT_FILE)
                .map(|file| file.parts.concat())
                .next();
            let text = SegmentText::open(bytes.unwrap_or_default().into());
            Ok::<_, EngineError>(Arc::new(text.file("can't index", segment.id.as_str())?))
        });
        read.await.cloned()
    }

    /// The vectors of `segment` in the file `name`.
    ///
    /// # Errors
    /// [`EngineError::Vectors`] if they can't be used: nothing else can stand for them.
    pub async fn vectors(
        &self,
        location: &LakeLocation,
        segment: &Segment,
        name: &str,
    ) -> crate::error::Result<Arc<VectorIndex>> {
        let shelf = self.shelf(&segment.id);
        let mut opened = shelf.vectors.lock().await;
        if let Some(index) = opened.get(name) {
            return Ok(Arc::clone(index));
        }
        let bytes = location.read(&segment.id.sidecar(name)).await?;
        let unusable = |reason: String| {
            EngineError::Vectors(format!("those of {}: {reason}", segment.id.as_str()))
        };
        let binding = shelf.binding(location, segment).await;
        let binding =
            binding.ok_or_else(|| unusable("the segment's data file can't be read".to_owned()))?;
        let content = binding
            .unwrap(bytes)
            .map_err(|reason| unusable(reason.to_string()))?;
        let index = tokio::task::spawn_blocking(|| VectorIndex::open(content))
            .await
            .file("can't open", name)?;
        let index = index.map_err(|damage| unusable(damage.to_string()))?;
        if index.segment_rows() != segment.file.rows {
            return Err(unusable("they are of another segment".to_owned()));
        }
        let index = Arc::new(index);
        opened.insert(name.to_owned(), Arc::clone(&index));
        Ok(index)
    }

    /// Closes the sidecars of `segment`: they were made again, or the segment is gone.
    pub fn forget(&self, segment: &SegmentId) {
        self.lock().remove(segment);
        // Whoever holds it is opening it anew just now.
        if let Ok(mut held) = self.lake_text.try_lock() {
            *held = None;
        }
        if let Ok(mut held) = self.usable_text.try_lock() {
            *held = None;
        }
    }

    /// Closes all sidecars of segments that aren't among `live`.
    pub fn keep(&self, live: &[Segment]) {
        let live: HashSet<&SegmentId> = live.iter().map(|segment| &segment.id).collect();
        self.lock().retain(|id, _| live.contains(id));
    }

    fn shelf(&self, segment: &SegmentId) -> Arc<Shelf> {
        Arc::clone(self.lock().entry(segment.clone()).or_default())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SegmentId, Arc<Shelf>>> {
        // Nothing that can panic happens while it is held.
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn open<S: Sidecar>(
    location: &LakeLocation,
    segment: &Segment,
    shelf: &Shelf,
) -> Option<Arc<S>> {
    let opened = match shelf.binding(location, segment).await {
        Some(binding) => open_bound::<S>(location, segment, &binding).await,
        None => Err("the segment's data file can't be read".into()),
    };
    match opened {
        Ok(sidecar) => Some(Arc::new(sidecar)),
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
