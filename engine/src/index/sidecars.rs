//! The sidecars that are open. Each is checked once, when it is first asked for, and then serves every query of the process.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use gristmill_connectors::source::SourceBytes;
use tokio::sync::OnceCell;

use super::fulltext::{FULLTEXT_FILE, SegmentText};
use super::hexastore::{HEXASTORE_FILE, Hexastore};
use crate::lake::{LakeLocation, Segment};
use crate::segment::{ADDRESSES_FILE, AddressIndex, SegmentId};

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
    let bytes = location.read(&segment.id.sidecar(S::FILE)).await?;
    let sidecar = tokio::task::spawn_blocking(|| S::check(bytes)).await??;
    match sidecar.segment_rows() == segment.file.rows {
        true => Ok(sidecar),
        false => Err("it is of another segment".into()),
    }
}

/// The sidecars of a lake that were asked for. Clones of a lake's handle share them; segments never change, so an open sidecar
/// stays right for as long as its segment lives.
#[derive(Debug, Default)]
pub struct Sidecars {
    shelves: Mutex<HashMap<SegmentId, Arc<Shelf>>>,
}

/// The sidecars of one segment; `None` once opening one has failed.
#[derive(Debug, Default)]
struct Shelf {
    addresses: OnceCell<Option<Arc<AddressIndex>>>,
    hexastore: OnceCell<Option<Arc<Hexastore>>>,
    text: OnceCell<Option<Arc<SegmentText>>>,
}

impl Sidecars {
    /// The address index of `segment`; `None`, with a warning the first time, if there is none that can be used.
    pub async fn addresses(&self, location: &LakeLocation, segment: &Segment) -> Option<Arc<AddressIndex>> {
        let shelf = self.shelf(&segment.id);
        shelf.addresses.get_or_init(|| open(location, segment)).await.clone()
    }

    /// The hexastore of `segment`; `None`, with a warning the first time, if there is none that can be used.
    pub async fn hexastore(&self, location: &LakeLocation, segment: &Segment) -> Option<Arc<Hexastore>> {
        let shelf = self.shelf(&segment.id);
        shelf.hexastore.get_or_init(|| open(location, segment)).await.clone()
    }

    /// The full-text index of `segment`; `None`, with a warning the first time, if there is none that can be used.
    pub async fn text(&self, location: &LakeLocation, segment: &Segment) -> Option<Arc<SegmentText>> {
        let shelf = self.shelf(&segment.id);
        shelf.text.get_or_init(|| open(location, segment)).await.clone()
    }

    /// Closes the sidecars of `segment`: they were made again, or the segment is gone.
    pub fn forget(&self, segment: &SegmentId) {
        self.lock().remove(segment);
    }

    /// Closes all sidecars of segments that aren't among `live`.
    pub fn keep(&self, live: &[Segment]) {
        self.lock().retain(|id, _| live.iter().any(|segment| segment.id == *id));
    }

    fn shelf(&self, segment: &SegmentId) -> Arc<Shelf> {
        Arc::clone(self.lock().entry(segment.clone()).or_default())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SegmentId, Arc<Shelf>>> {
        // Nothing that can panic happens while it is held.
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn open<S: Sidecar>(location: &LakeLocation, segment: &Segment) -> Option<Arc<S>> {
    match open_sidecar::<S>(location, segment).await {
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
