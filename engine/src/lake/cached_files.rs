//! The local cache of a lake's location: which sidecars are read through it.

use std::collections::HashSet;
use std::sync::Arc;

use gristmill_connectors::source::SourceBytes;
use object_store::path::Path;

use super::{LakeLocation, LocalCache, Segment};
use crate::error::{Context, Result};

impl LakeLocation {
    /// Reads sidecars through `cache` from now on, for all clones of this location. A lake in a
    /// folder needs none, and the first cache that is set stays.
    pub fn use_cache(&self, cache: Arc<LocalCache>) {
        if self.is_remote() {
            // The cache of a location is set where it is opened.
            let _ = self.cache.set(cache);
        }
    }

    /// Returns the sidecar `path` if the cache has it.
    pub(crate) fn cached(&self, path: &Path) -> Option<SourceBytes> {
        self.cache.get()?.get(&self.name(), path)
    }

    /// Reads the sidecar `path` from the store, and keeps it in the cache if there is one.
    ///
    /// # Errors
    /// As [`LakeLocation::read`].
    pub(crate) async fn read_cached(&self, path: &Path) -> Result<SourceBytes> {
        let bytes = self.read(path).await?;
        let Some(cache) = self.cache.get().cloned() else {
            return Ok(bytes);
        };
        let (lake, kept) = (self.name(), path.clone());
        let keep = move || {
            cache.put(&lake, &kept, &bytes);
            bytes
        };
        tokio::task::spawn_blocking(keep)
            .await
            .file("can't read", path)
    }

    /// Removes the sidecar `path` from the cache.
    pub(super) fn forget_cached(&self, path: &Path) {
        if let Some(cache) = self.cache.get() {
            cache.forget(&self.name(), path);
        }
    }

    /// Removes the sidecars of all segments but `live` from the cache.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) fn retain_cached(&self, live: &[Segment]) -> Result<()> {
        let Some(cache) = self.cache.get() else {
            return Ok(());
        };
        let live: HashSet<&str> = live.iter().map(|segment| segment.id.as_str()).collect();
        cache.retain(&self.name(), |segment| live.contains(segment))
    }
}
