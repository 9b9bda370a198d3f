//! Locks of a lake in a folder. An object store has none: there, conditional puts decide between
//! concurrent writers.

use std::io::ErrorKind;

use object_store::path::Path;

use super::location::LakeLocation;
use crate::error::{Context, Result};
use crate::file_lock::{FileLock, open_lock_file};

/// The file that processes lock while they erase, if the lake is a folder. It is empty and is never
/// removed.
const ERASURES_LOCK: &str = "erasures.lock";

impl LakeLocation {
    /// Waits for the lock `name` of the lake, without a limit. `None` for an object store, and for
    /// a file system without locks, which has one writer, or none that would wait.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(super) fn lock(&self, name: &str) -> Result<Option<FileLock>> {
        let Some(path) = self.local_path(&Path::from(name)) else {
            return Ok(None);
        };
        let file = open_lock_file(&path).file("can't open", path.display())?;
        match FileLock::acquire(file, &format!("`{}`", path.display()), None) {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
            locked => locked.map(Some).file("can't lock", path.display()),
        }
    }

    /// Waits until no other process erases in the lake, without a limit, and keeps others from it
    /// as long as the lock is held. `None` as for [`LakeLocation::lock`].
    ///
    /// # Errors
    /// As [`LakeLocation::lock`].
    pub(crate) async fn lock_erasures(&self) -> Result<Option<FileLock>> {
        let location = self.clone();
        let lock = move || location.lock(ERASURES_LOCK);
        tokio::task::spawn_blocking(lock)
            .await
            .task("the wait for other erasures")?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn one_erasure_at_a_time_has_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let location = LakeLocation::new(&folder.path().display().to_string()).unwrap();
        let first = location.lock_erasures().await.unwrap();
        assert!(first.is_some());
        let other = location.clone();
        let waiting = tokio::spawn(async move { other.lock_erasures().await.map(drop) });
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        assert!(!waiting.is_finished());
        drop(first);
        waiting.await.unwrap().unwrap();
    }
}
