//! A store that reads each commit of a log once while the log is loaded.
//!
//! `deltalake` replays a log twice: for the protocol and the metadata, then for the files. Both
//! times it reads all commits after the newest checkpoint. Commits are never changed, so the bytes
//! of the first replay serve the second, and are released when the log is loaded.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{BoxStream, once};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use super::log::LOG;

/// Bytes of commits that are held at most. Further commits are read twice.
const MAX_BYTES: u64 = 32 << 20;

/// The commits of a load that were read once. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct CommitCache(Arc<Mutex<HeldCommits>>);

#[derive(Debug, Default)]
struct HeldCommits {
    /// The number of loads that are running. Nothing is held between loads.
    loads: usize,
    bytes: u64,
    commits: HashMap<Path, (ObjectMeta, Bytes)>,
}

/// A load of a log. The commits are released when the last one ends.
pub(super) struct LogLoad(CommitCache);

impl Drop for LogLoad {
    fn drop(&mut self) {
        let mut held = self.0.lock();
        held.loads = held.loads.saturating_sub(1);
        if held.loads == 0 {
            *held = HeldCommits::default();
        }
    }
}

impl CommitCache {
    /// Begins a load: until it is dropped, commits are held that are read once.
    pub(super) fn load(&self) -> LogLoad {
        self.lock().loads += 1;
        LogLoad(self.clone())
    }

    /// Returns `store` with this cache.
    pub(super) fn over(&self, store: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(CommitCachingStore {
            store,
            cache: self.clone(),
        })
    }

    /// Returns the commit `path` if it was read, and releases it.
    fn take(&self, path: &Path) -> Option<(ObjectMeta, Bytes)> {
        let mut held = self.lock();
        let found = held.commits.remove(path)?;
        held.bytes -= found.1.len() as u64;
        Some(found)
    }

    /// Holds a commit that was read, if a load is running and there is room.
    fn hold(&self, path: &Path, meta: &ObjectMeta, bytes: &Bytes) {
        let mut held = self.lock();
        let size = bytes.len() as u64;
        let has_room = held.loads > 0 && held.bytes + size <= MAX_BYTES;
        if has_room && !held.commits.contains_key(path) {
            held.bytes += size;
            let commit = (meta.clone(), bytes.clone());
            held.commits.insert(path.clone(), commit);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HeldCommits> {
        // No code that runs under the lock can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true for the name of a commit in a log.
fn is_commit(path: &Path) -> bool {
    let mut parts = path.parts().rev();
    let name = parts.next();
    let version = name
        .as_ref()
        .and_then(|name| name.as_ref().strip_suffix(".json"));
    let is_version =
        |version: &str| version.len() == 20 && version.bytes().all(|digit| digit.is_ascii_digit());
    version.is_some_and(is_version) && parts.next().is_some_and(|folder| folder.as_ref() == LOG)
}

/// The result of reading all of an object.
fn read_result(meta: ObjectMeta, bytes: Bytes) -> GetResult {
    GetResult {
        range: 0..bytes.len() as u64,
        payload: GetResultPayload::Stream(once(async { Ok(bytes) }).boxed()),
        meta,
        attributes: object_store::Attributes::default(),
    }
}

/// See the module.
#[derive(Debug)]
struct CommitCachingStore {
    store: Arc<dyn ObjectStore>,
    cache: CommitCache,
}

impl fmt::Display for CommitCachingStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(out)
    }
}

impl CommitCachingStore {
    async fn read_commit(&self, path: &Path) -> Result<GetResult> {
        if let Some((meta, bytes)) = self.cache.take(path) {
            return Ok(read_result(meta, bytes));
        }
        let found = self.store.get_opts(path, GetOptions::default()).await?;
        let meta = found.meta.clone();
        let bytes = found.bytes().await?;
        self.cache.hold(path, &meta, &bytes);
        Ok(read_result(meta, bytes))
    }
}

/// Returns true if `options` request all of an object, whatever its version.
fn is_plain(options: &GetOptions) -> bool {
    !has_condition(options) && options.range.is_none() && !options.head
}

/// Returns true if the answer to `options` depends on the version of the object.
pub(super) fn has_condition(options: &GetOptions) -> bool {
    let GetOptions {
        if_match,
        if_none_match,
        if_modified_since,
        if_unmodified_since,
        version,
        ..
    } = options;
    if_match.is_some()
        || if_none_match.is_some()
        || if_modified_since.is_some()
        || if_unmodified_since.is_some()
        || version.is_some()
}

#[async_trait::async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for CommitCachingStore {
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        match is_commit(path) && is_plain(&options) {
            true => self.read_commit(path).await,
            false => self.store.get_opts(path, options).await,
        }
    }

    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.store.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(path, options).await
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store.get_ranges(path, ranges).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.store.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    async fn read(store: &dyn ObjectStore, path: &Path) -> Option<Bytes> {
        let found = store.get_opts(path, GetOptions::default()).await.ok()?;
        found.bytes().await.ok()
    }

    #[tokio::test]
    async fn a_commit_is_read_once_in_a_load_and_again_after_it() {
        let inner: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let commit = Path::from("lake/grains/_delta_log/00000000000000000007.json");
        let hint = Path::from("lake/grains/_delta_log/_last_checkpoint");
        for path in [&commit, &hint] {
            inner
                .put(path, PutPayload::from_static(b"first"))
                .await
                .unwrap();
        }
        let cache = CommitCache::default();
        let store = cache.over(Arc::clone(&inner));
        let first = Bytes::from_static(b"first");
        let load = cache.load();
        assert_eq!(read(&*store, &commit).await, Some(first.clone()));
        assert_eq!(read(&*store, &hint).await, Some(first.clone()));
        inner.delete(&commit).await.unwrap();
        inner.delete(&hint).await.unwrap();
        // The second replay has the commit, and nothing else is cached.
        assert_eq!(read(&*store, &commit).await, Some(first));
        assert_eq!(read(&*store, &hint).await, None);
        assert_eq!(read(&*store, &commit).await, None);
        drop(load);

        let second = PutPayload::from_static(b"second");
        inner.put(&commit, second.clone()).await.unwrap();
        assert!(read(&*store, &commit).await.is_some());
        inner.delete(&commit).await.unwrap();
        assert_eq!(read(&*store, &commit).await, None, "held without a load");
        inner.put(&commit, second).await.unwrap();
        let load = cache.load();
        assert!(read(&*store, &commit).await.is_some());
        drop(load);
        inner.delete(&commit).await.unwrap();
        assert_eq!(read(&*store, &commit).await, None, "held after the load");
    }

    #[test]
    fn commits_are_recognised_by_their_names() {
        let is = |path: &str| is_commit(&Path::from(path));
        assert!(is("a/_delta_log/00000000000000000000.json"));
        assert!(!is("a/_delta_log/00000000000000000000.checkpoint.parquet"));
        assert!(!is("a/_delta_log/0.json"));
        assert!(!is("a/heads/00000000000000000000.json"));
    }
}
