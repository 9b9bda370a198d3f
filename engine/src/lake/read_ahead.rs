//! A store that reads the end of a Parquet file with one request.
//!
//! A reader of Parquet requests the last eight bytes, the footer, the page index and then for
//! pages, one after the other. In an object store each of them is a request of some tens of
//! milliseconds, whatever its size. Here the first small read also fetches what precedes it, and
//! later reads within it are answered from memory: a file smaller than [`BLOCK`], such as a
//! checkpoint of a log or the segment of a small batch, is fetched once.
//!
//! Data files and checkpoints never change, so what was read stays valid; a file that this process
//! writes or deletes is forgotten.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{BoxStream, once};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result,
};

use super::commit_cache::has_condition;

/// Bytes that are read at once.
const BLOCK: u64 = 512 << 10;

/// Larger reads aren't extended.
const SMALL: u64 = 64 << 10;

/// Bytes that are held at most, over all files.
const MAX_BYTES: usize = 32 << 20;

/// The end of a file, or a part before it.
#[derive(Debug, Clone)]
struct Block {
    meta: ObjectMeta,
    start: u64,
    bytes: Bytes,
}

impl Block {
    /// Returns the bytes of `range`, if they are in the block.
    fn slice(&self, range: &Range<u64>) -> Option<Bytes> {
        let first = range.start.checked_sub(self.start)?;
        let end = range.end.checked_sub(self.start)?;
        let is_inside = first <= end && end <= self.bytes.len() as u64;
        is_inside.then(|| self.bytes.slice(first as usize..end as usize))
    }
}

/// The blocks of files, the least recently used first. The lock is held for no request.
#[derive(Debug, Default)]
struct Blocks(Mutex<VecDeque<Block>>);

impl Blocks {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Block>> {
        // No code that runs under the lock can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the block of `path`.
    fn get(&self, path: &Path) -> Option<Block> {
        let mut blocks = self.lock();
        let at = blocks
            .iter()
            .position(|block| block.meta.location == *path)?;
        let block = blocks.remove(at)?;
        blocks.push_back(block.clone());
        Some(block)
    }

    fn hold(&self, block: Block) {
        let mut blocks = self.lock();
        blocks.retain(|known| known.meta.location != block.meta.location);
        blocks.push_back(block);
        let mut held: usize = blocks.iter().map(|block| block.bytes.len()).sum();
        while held > MAX_BYTES {
            let Some(oldest) = blocks.pop_front() else {
                return;
            };
            held -= oldest.bytes.len();
        }
    }

    fn forget(&self, path: &Path) {
        self.lock().retain(|block| block.meta.location != *path);
    }
}

/// See the module. Clones share the blocks.
#[derive(Debug, Clone)]
pub(super) struct ReadAheadStore {
    store: Arc<dyn ObjectStore>,
    blocks: Arc<Blocks>,
}

impl ReadAheadStore {
    pub(super) fn over(store: Arc<dyn ObjectStore>) -> ReadAheadStore {
        ReadAheadStore {
            store,
            blocks: Arc::default(),
        }
    }

    /// Reads a small `range` with what precedes it.
    async fn read_block(&self, path: &Path, range: &GetRange) -> Result<Block> {
        let extended = match range {
            GetRange::Bounded(range) => {
                GetRange::Bounded(range.end.saturating_sub(BLOCK)..range.end)
            }
            GetRange::Suffix(_) | GetRange::Offset(_) => GetRange::Suffix(BLOCK),
        };
        let options = GetOptions {
            range: Some(extended),
            ..GetOptions::default()
        };
        let found = self.store.get_opts(path, options).await?;
        let (meta, start) = (found.meta.clone(), found.range.start);
        let bytes = found.bytes().await?;
        let block = Block { meta, start, bytes };
        self.blocks.hold(block.clone());
        Ok(block)
    }

    /// Returns the result of reading `range` of `path` if the block of the file has it, after
    /// reading the block if the range is small.
    async fn read(&self, path: &Path, range: &GetRange) -> Result<Option<GetResult>> {
        let known = self.blocks.get(path);
        let known = known.and_then(|block| result_of(&block, range));
        if known.is_some() || !is_small(range) {
            return Ok(known);
        }
        let block = self.read_block(path, range).await?;
        Ok(result_of(&block, range))
    }
}

/// Returns true for a data file or a checkpoint.
fn is_parquet(path: &Path) -> bool {
    path.as_ref().ends_with(".parquet")
}

fn is_small(range: &GetRange) -> bool {
    match range {
        GetRange::Bounded(range) => range.end.saturating_sub(range.start) <= SMALL,
        GetRange::Suffix(length) => *length <= SMALL,
        GetRange::Offset(_) => false,
    }
}

/// Returns the result of reading `range`, if it is in `block`.
fn result_of(block: &Block, range: &GetRange) -> Option<GetResult> {
    let size = block.meta.size;
    let range = match range {
        GetRange::Bounded(range) => range.start..range.end.min(size),
        GetRange::Suffix(length) => size.saturating_sub(*length)..size,
        GetRange::Offset(start) => *start..size,
    };
    let bytes = block.slice(&range)?;
    Some(GetResult {
        range,
        payload: GetResultPayload::Stream(once(async { Ok(bytes) }).boxed()),
        meta: block.meta.clone(),
        attributes: object_store::Attributes::default(),
    })
}

impl fmt::Display for ReadAheadStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(out)
    }
}

#[async_trait::async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for ReadAheadStore {
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let can_be_held = is_parquet(path) && !has_condition(&options) && !options.head;
        if can_be_held
            && let Some(found) = self
                .read(path, options.range.as_ref().unwrap_or(&GetRange::Offset(0)))
                .await?
        {
            return Ok(found);
        }
        self.store.get_opts(path, options).await
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if is_parquet(path) {
            if let [range] = ranges
                && let Some(found) = self.read(path, &GetRange::Bounded(range.clone())).await?
            {
                return Ok(vec![found.bytes().await?]);
            }
            let held = self.blocks.get(path).and_then(|block| {
                let slices = ranges.iter().map(|range| block.slice(range));
                slices.collect::<Option<Vec<Bytes>>>()
            });
            if let Some(held) = held {
                return Ok(held);
            }
        }
        self.store.get_ranges(path, ranges).await
    }

    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.blocks.forget(path);
        self.store.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.blocks.forget(path);
        self.store.put_multipart_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let blocks = Arc::clone(&self.blocks);
        let forgotten = paths.inspect(move |path| {
            if let Ok(path) = path {
                blocks.forget(path);
            }
        });
        self.store.delete_stream(forgotten.boxed())
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
        self.blocks.forget(to);
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.blocks.forget(from);
        self.blocks.forget(to);
        self.store.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use gristmill_connectors::storage::{CountingStore, RequestCounters};
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    fn store() -> (ReadAheadStore, Arc<RequestCounters>) {
        let counters = Arc::new(RequestCounters::default());
        let counting = CountingStore::new(Arc::new(InMemory::new()), Arc::clone(&counters));
        (ReadAheadStore::over(Arc::new(counting)), counters)
    }

    /// Bytes that differ from their neighbours.
    fn content(length: u64) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8).collect()
    }

    #[tokio::test]
    async fn the_end_of_a_file_is_one_request() {
        let (store, counters) = store();
        let (path, size) = (Path::from("grains/part-a.parquet"), 2 * BLOCK);
        let bytes = content(size);
        store.put(&path, bytes.clone().into()).await.unwrap();
        for range in [size - 8..size, size - 4_000..size - 8, size - BLOCK..size] {
            let read = store.get_range(&path, range.clone()).await.unwrap();
            assert_eq!(read, bytes[range.start as usize..range.end as usize]);
        }
        let near = [size - 900..size - 800, size - 500..size - 1];
        let read = store.get_ranges(&path, &near).await.unwrap();
        assert_eq!(read[1], bytes[size as usize - 500..size as usize - 1]);
        assert_eq!(counters.counts().get, 1);
        // What precedes the block is read by itself, and the whole file too.
        let first = store.get_range(&path, 0..SMALL + 1).await.unwrap();
        assert_eq!(first, bytes[..SMALL as usize + 1]);
        let whole = store.get(&path).await.unwrap().bytes().await.unwrap();
        assert_eq!((whole.to_vec() == bytes, counters.counts().get), (true, 3));
    }

    #[tokio::test]
    async fn a_file_that_was_written_again_is_read_again() {
        let (store, counters) = store();
        let path = Path::from("grains/_delta_log/9.checkpoint.parquet");
        for text in [b"first".as_slice(), b"other"] {
            store.put(&path, text.to_vec().into()).await.unwrap();
            assert_eq!(store.get_range(&path, 0..5).await.unwrap(), text);
            let suffix = GetOptions::new().with_range(Some(GetRange::Suffix(2)));
            let read = store.get_opts(&path, suffix).await.unwrap();
            assert_eq!(read.range, 3..5);
            assert_eq!(read.bytes().await.unwrap(), text[3..]);
        }
        assert_eq!(counters.counts().get, 2);
        store.delete(&path).await.unwrap();
        assert!(store.get_range(&path, 0..5).await.is_err());
        // Other files are read as they are requested.
        let hint = Path::from("grains/_delta_log/_last_checkpoint");
        store.put(&hint, b"{}".to_vec().into()).await.unwrap();
        for _ in 0..2 {
            store.get_range(&hint, 0..2).await.unwrap();
        }
        assert_eq!(counters.counts().get, 5);
    }
}
