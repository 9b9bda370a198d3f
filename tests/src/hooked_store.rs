//! An object store in memory whose requests are observed, counted, or fail.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{BoxStream, once};
use futures::{StreamExt, TryStreamExt};
use gristmill_connectors::storage::{CountingStore, RequestCounters, RequestCounts, StoreLocation};
use gristmill_engine::lake::LakeLocation;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart,
};

/// Runs before a request, with its kind and path. The request fails with the returned error.
type Reaction = dyn Fn(&str, &str) -> Option<object_store::Error> + Send + Sync;

/// When a failing request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    /// Before it reaches the store: nothing happens.
    Before,
    /// After the store has carried it out: only its answer is lost.
    After,
}

/// Which requests fail.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// The number of the first request that fails, from 1 on.
    pub first: u64,
    /// After how many further requests another fails.
    pub every: u64,
    /// Whether the store carries it out.
    pub when: Failing,
}

/// The requests to a hooked store, and which of them fail.
#[derive(Default)]
struct Hook {
    calls: Mutex<Vec<String>>,
    faults: Option<Faults>,
    reaction: Option<Box<Reaction>>,
    ignores_conditions: bool,
    behind: Duration,
}

impl fmt::Debug for Hook {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = out.debug_struct("Hook");
        fields.field("calls", &self.calls);
        fields.field("faults", &self.faults).finish_non_exhaustive()
    }
}

impl Hook {
    /// Records a request, and returns when it fails, if it does.
    fn call(&self, kind: &str, path: &str) -> Option<Failing> {
        let mut calls = self.calls.lock().expect("no panic under the lock");
        calls.push(format!("{kind} {path}"));
        let number = calls.len() as u64;
        let faults = self.faults?;
        let since = number.checked_sub(faults.first)?;
        (since % faults.every == 0).then_some(faults.when)
    }

    /// Runs `request`, or fails in its place or after it.
    async fn run<T>(
        &self,
        kind: &str,
        path: &str,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let failing = self.call(kind, path);
        if let Some(reaction) = &self.reaction
            && let Some(error) = reaction(kind, path)
        {
            return Err(error);
        }
        match failing {
            None => request.await,
            Some(Failing::Before) => Err(fault(kind, path)),
            Some(Failing::After) => {
                request.await?;
                Err(fault(kind, path))
            }
        }
    }
}

fn fault(kind: &str, path: &str) -> object_store::Error {
    object_store::Error::Generic {
        store: "hooked",
        source: format!("injected fault of {kind} {path}").into(),
    }
}

/// A bucket in memory. Each client of it has faults and counts of its own.
#[derive(Debug, Clone, Default)]
pub struct Bucket(Arc<InMemory>);

/// A client of a [`Bucket`].
#[derive(Debug, Clone)]
pub struct BucketClient {
    bucket: Bucket,
    hook: Arc<Hook>,
    counters: Arc<RequestCounters>,
}

impl Bucket {
    /// Returns a client whose requests succeed.
    pub fn client(&self) -> BucketClient {
        self.client_with(None, None)
    }

    /// Returns a client that runs `reaction` before each request but lists, with the kind and the
    /// path of the request, which fails with the error that it returns.
    pub fn reacting(
        &self,
        reaction: impl Fn(&str, &str) -> Option<object_store::Error> + Send + Sync + 'static,
    ) -> BucketClient {
        self.client_with(None, Some(Box::new(reaction)))
    }

    /// Returns a client some of whose requests fail.
    pub fn failing(&self, faults: Faults) -> BucketClient {
        self.client_with(Some(faults), None)
    }

    /// Returns a client of a store that ignores the conditions of puts, as some servers with S3's
    /// interface do.
    pub fn ignoring_conditions(&self) -> BucketClient {
        self.client_of(Hook {
            ignores_conditions: true,
            ..Hook::default()
        })
    }

    /// Returns a client of a store that dates objects earlier by `behind` than this machine.
    pub fn behind(&self, behind: Duration) -> BucketClient {
        self.client_of(Hook {
            behind,
            ..Hook::default()
        })
    }

    fn client_with(&self, faults: Option<Faults>, reaction: Option<Box<Reaction>>) -> BucketClient {
        self.client_of(Hook {
            faults,
            reaction,
            ..Hook::default()
        })
    }

    fn client_of(&self, hook: Hook) -> BucketClient {
        BucketClient {
            bucket: self.clone(),
            hook: Arc::new(hook),
            counters: Arc::default(),
        }
    }

    /// Returns a bucket with the same objects, which changes independently.
    pub fn fork(&self) -> Bucket {
        Bucket(Arc::new(self.0.fork()))
    }
}

impl BucketClient {
    /// Returns the location of a lake in the bucket, whose requests are this client's.
    ///
    /// # Panics
    /// Never: the URL is valid.
    pub fn lake(&self) -> LakeLocation {
        let hooked = HookedStore {
            store: Arc::clone(&self.bucket.0),
            hook: Arc::clone(&self.hook),
        };
        LakeLocation::in_store(StoreLocation {
            store: Arc::new(CountingStore::new(
                Arc::new(hooked),
                Arc::clone(&self.counters),
            )),
            path: Path::from("lakes/one"),
            url: "memory:///lakes/one".parse().expect("a valid URL"),
        })
    }

    /// Returns the counts of the requests so far.
    pub fn counts(&self) -> RequestCounts {
        self.counters.counts()
    }

    /// Returns the requests so far, each with its kind and path.
    ///
    /// # Panics
    /// If a request panicked.
    pub fn calls(&self) -> Vec<String> {
        self.hook.calls.lock().expect("no panic").clone()
    }
}

#[derive(Debug)]
struct HookedStore {
    store: Arc<InMemory>,
    hook: Arc<Hook>,
}

impl HookedStore {
    /// Returns `listed` with the dates of the store.
    fn dated(
        &self,
        listed: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let behind = self.hook.behind;
        let dated = listed.map_ok(move |mut file| {
            file.last_modified -= behind;
            file
        });
        dated.boxed()
    }
}

impl fmt::Display for HookedStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(out)
    }
}

#[async_trait::async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for HookedStore {
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let kind = if options.head { "HEAD" } else { "GET" };
        let request = self.store.get_opts(path, options);
        let mut found = self.hook.run(kind, path.as_ref(), request).await?;
        found.meta.last_modified -= self.hook.behind;
        Ok(found)
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let request = self.store.get_ranges(path, ranges);
        self.hook.run("GET", path.as_ref(), request).await
    }

    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        if self.hook.ignores_conditions {
            options.mode = PutMode::Overwrite;
        }
        let request = self.store.put_opts(path, payload, options);
        self.hook.run("PUT", path.as_ref(), request).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let request = self.store.put_multipart_opts(path, options);
        let upload = self.hook.run("BEGIN", path.as_ref(), request).await?;
        Ok(Box::new(HookedUpload {
            upload,
            hook: Arc::clone(&self.hook),
            path: path.to_string(),
        }))
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (hook, store) = (Arc::clone(&self.hook), Arc::clone(&self.store));
        paths
            .then(move |path| {
                let (hook, store) = (Arc::clone(&hook), Arc::clone(&store));
                async move {
                    let path = path?;
                    let request = object_store::ObjectStoreExt::delete(&*store, &path);
                    hook.run("DELETE", path.as_ref(), request).await?;
                    Ok(path)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let shown = prefix.map(ToString::to_string).unwrap_or_default();
        match self.hook.call("LIST", &shown) {
            None => self.dated(self.store.list(prefix)),
            Some(_) => once(async move { Err(fault("LIST", &shown)) }).boxed(),
        }
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let shown = prefix.map(ToString::to_string).unwrap_or_default();
        match self.hook.call("LIST", &shown) {
            None => self.dated(self.store.list_with_offset(prefix, offset)),
            Some(_) => once(async move { Err(fault("LIST", &shown)) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let shown = prefix.map(ToString::to_string).unwrap_or_default();
        let request = self.store.list_with_delimiter(prefix);
        self.hook.run("LIST", &shown, request).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let request = self.store.copy_opts(from, to, options);
        self.hook.run("COPY", to.as_ref(), request).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let request = self.store.rename_opts(from, to, options);
        self.hook.run("RENAME", to.as_ref(), request).await
    }
}

#[derive(Debug)]
struct HookedUpload {
    upload: Box<dyn MultipartUpload>,
    hook: Arc<Hook>,
    path: String,
}

#[async_trait::async_trait]
impl MultipartUpload for HookedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let part = self.upload.put_part(data);
        let (hook, path) = (Arc::clone(&self.hook), self.path.clone());
        Box::pin(async move { hook.run("PART", &path, part).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.hook
            .run("COMPLETE", &self.path, self.upload.complete())
            .await
    }

    async fn abort(&mut self) -> Result<()> {
        self.hook
            .run("ABORT", &self.path, self.upload.abort())
            .await
    }
}
