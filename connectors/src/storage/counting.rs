//! An object store that counts its requests.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, RenameOptions, Result, UploadPart, coalesce_ranges,
};

use super::requests::{RequestCounters, RequestKind};
use super::single_deletes::SingleDeletes;

/// Names in one page of a listing.
const PAGE: usize = 1_000;

/// A store that counts the requests to the store below it. Clones share the counters.
///
/// Several ranges of an object are merged into few requests here, so that each of them is counted.
#[derive(Debug, Clone)]
pub struct CountingStore {
    store: Arc<dyn ObjectStore>,
    counters: Arc<RequestCounters>,
    single_deletes: Option<Arc<SingleDeletes>>,
}

impl CountingStore {
    /// Returns `store` with its requests counted by `counters`.
    pub fn new(store: Arc<dyn ObjectStore>, counters: Arc<RequestCounters>) -> CountingStore {
        CountingStore {
            store,
            counters,
            single_deletes: None,
        }
    }

    /// Returns the store with its objects deleted by `deletes`, if given.
    pub(super) fn with_deletes(self, deletes: Option<SingleDeletes>) -> CountingStore {
        CountingStore {
            single_deletes: deletes.map(Arc::new),
            ..self
        }
    }

    /// Counts the pages of a listing: the first at once, others as their names arrive.
    fn counted_list(
        &self,
        names: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.counters.count(RequestKind::List);
        let counters = Arc::clone(&self.counters);
        names
            .enumerate()
            .map(move |(at, name)| {
                if at > 0 && at % PAGE == 0 {
                    counters.count(RequestKind::List);
                }
                name
            })
            .boxed()
    }
}

impl fmt::Display for CountingStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(out)
    }
}

/// Returns `found` with the bytes counted that are read from it.
fn counted_result(mut found: GetResult, counters: &Arc<RequestCounters>) -> GetResult {
    let counters = Arc::clone(counters);
    found.payload = match found.payload {
        GetResultPayload::Stream(bytes) => {
            let counted = bytes.inspect(move |chunk| {
                if let Ok(chunk) = chunk {
                    counters.count_read(chunk.len());
                }
            });
            GetResultPayload::Stream(counted.boxed())
        }
        file @ GetResultPayload::File(..) => file,
    };
    found
}

#[async_trait::async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for CountingStore {
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let kind = match options.head {
            true => RequestKind::Head,
            false => RequestKind::Get,
        };
        self.counters.count(kind);
        let found = self.store.get_opts(path, options).await?;
        Ok(match kind {
            RequestKind::Head => found,
            _ => counted_result(found, &self.counters),
        })
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = |range: Range<u64>| async {
            let options = GetOptions {
                range: Some(GetRange::Bounded(range)),
                ..GetOptions::default()
            };
            self.get_opts(path, options).await?.bytes().await
        };
        coalesce_ranges(ranges, read, OBJECT_STORE_COALESCE_DEFAULT).await
    }

    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.counters.count(RequestKind::Put);
        self.counters.count_written(payload.content_length());
        self.store.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.counters.count(RequestKind::Multipart);
        let upload = self.store.put_multipart_opts(path, options).await?;
        Ok(Box::new(CountingUpload {
            upload,
            counters: Arc::clone(&self.counters),
        }))
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let counters = Arc::clone(&self.counters);
        let counted = paths.inspect(move |_| counters.count(RequestKind::Delete));
        match &self.single_deletes {
            Some(deletes) => deletes.delete_stream(&self.store, counted.boxed()),
            None => self.store.delete_stream(counted.boxed()),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.counted_list(self.store.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.counted_list(self.store.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.counters.count(RequestKind::List);
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.counters.count(RequestKind::Copy);
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.counters.count(RequestKind::Copy);
        self.counters.count(RequestKind::Delete);
        self.store.rename_opts(from, to, options).await
    }
}

/// A multipart upload that counts its parts.
#[derive(Debug)]
struct CountingUpload {
    upload: Box<dyn MultipartUpload>,
    counters: Arc<RequestCounters>,
}

#[async_trait::async_trait]
impl MultipartUpload for CountingUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.counters.count(RequestKind::Multipart);
        self.counters.count_written(data.content_length());
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.counters.count(RequestKind::Multipart);
        self.upload.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.counters.count(RequestKind::Multipart);
        self.upload.abort().await
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutMode, WriteMultipart};

    use super::*;
    use crate::storage::RequestCounts;

    fn store() -> (CountingStore, Arc<RequestCounters>) {
        let counters = Arc::new(RequestCounters::default());
        let store = CountingStore::new(Arc::new(InMemory::new()), Arc::clone(&counters));
        (store, counters)
    }

    #[tokio::test]
    async fn every_kind_of_request_is_counted_with_its_bytes() {
        let (store, counters) = store();
        let path = Path::from("lake/a");
        store
            .put(&path, b"0123456789".to_vec().into())
            .await
            .unwrap();
        let create = PutOptions::from(PutMode::Create);
        store
            .put_opts(&path, b"x".to_vec().into(), create)
            .await
            .unwrap_err();
        store.get(&path).await.unwrap().bytes().await.unwrap();
        store.get_range(&path, 2..4).await.unwrap();
        store.head(&path).await.unwrap();
        store.copy(&path, &Path::from("lake/b")).await.unwrap();
        let upload = store.put_multipart(&Path::from("lake/c")).await.unwrap();
        let mut upload = WriteMultipart::new(upload);
        upload.write(b"abc");
        upload.finish().await.unwrap();
        let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
        assert_eq!(listed.len(), 3);
        store.list_with_delimiter(None).await.unwrap();
        store.delete(&path).await.unwrap();
        let expected = RequestCounts {
            get: 2,
            head: 1,
            put: 2,
            // Begin, one part, complete.
            multipart: 3,
            list: 2,
            delete: 1,
            copy: 1,
            bytes_read: 12,
            bytes_written: 14,
        };
        assert_eq!((counters.counts(), expected.total()), (expected, 12));
    }

    #[tokio::test]
    async fn near_ranges_are_one_request_and_a_long_listing_has_pages() {
        let (store, counters) = store();
        let path = Path::from("a");
        store.put(&path, vec![0; 1_000].into()).await.unwrap();
        let ranges = [0..10, 500..510, 900..910];
        let read = store.get_ranges(&path, &ranges).await.unwrap();
        assert!(read.len() == 3 && read.iter().all(|bytes| bytes.len() == 10));
        assert_eq!(counters.counts().get, 1);
        for number in 0..1_500 {
            let path = Path::from(format!("many/{number}"));
            store.put(&path, PutPayload::default()).await.unwrap();
        }
        let before = counters.counts();
        assert_eq!(store.list(None).count().await, 1_501);
        assert_eq!(counters.counts().since(&before).list, 2);
    }
}
