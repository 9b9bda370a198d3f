//! What the clones of a lake's handle share in memory about its segments.
//!
//! Layers above `lake` cache what they derive from segments, such as open sidecars. The handle owns
//! these caches without depending on their types, and removes entries of segments that are no
//! longer in the lake.

use std::any::Any;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Lake, Segment};

/// A cache with entries by segment. Segments are immutable, so an entry stays valid for as long as
/// its segment is in the lake.
pub(crate) trait SegmentCache: Any + Debug + Send + Sync {
    /// Removes the entries of all segments that aren't among `live`.
    fn retain(&self, live: &[Segment]);
}

/// The caches of a handle, at most one of each type.
#[derive(Debug, Default)]
pub(super) struct SegmentCaches(Mutex<Vec<Arc<dyn SegmentCache + Send + Sync>>>);

impl SegmentCaches {
    /// Returns the cache of type `C`, which is created on first use.
    fn get<C: SegmentCache + Default>(&self) -> Arc<C> {
        // No code that runs under the lock can panic.
        let mut caches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = caches.iter().find_map(|cache| {
            let cache: Arc<dyn Any + Send + Sync> = Arc::clone(cache) as _;
            cache.downcast::<C>().ok()
        });
        known.unwrap_or_else(|| {
            let cache = Arc::new(C::default());
            caches.push(Arc::clone(&cache) as _);
            cache
        })
    }

    /// Removes the entries of all segments that aren't among `live` from all caches.
    pub(super) fn retain(&self, live: &[Segment]) {
        let caches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        caches.iter().for_each(|cache| cache.retain(live));
    }
}

impl Lake {
    /// Returns the cache of type `C` that all clones of this handle share. It is created on first
    /// use.
    pub(crate) fn segment_cache<C: SegmentCache + Default>(&self) -> Arc<C> {
        self.segment_caches.get()
    }
}
