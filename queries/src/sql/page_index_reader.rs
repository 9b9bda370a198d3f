//! Parquet readers that always load the page index, so that a row selection reads only the pages
//! that contain its rows.
//!
//! DataFusion loads the page index only if statistics of pages may prune some. Rows that sidecars
//! select come without such a predicate; without the page index, whole column chunks would be read
//! for them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use gristmill_engine::error::is_of_system;

use super::footer_cache;

/// Creates readers whose metadata includes the page index; the session caches footers and indexes.
#[derive(Debug)]
pub struct PageIndexReaderFactory(CachedParquetFileReaderFactory);

impl PageIndexReaderFactory {
    /// Creates the factory of readers of the files in `store`, with the metadata cache of
    /// `runtime`.
    ///
    /// # Errors
    /// If the store isn't registered in `runtime`.
    pub fn new(runtime: &RuntimeEnv, store: &ObjectStoreUrl) -> Result<PageIndexReaderFactory> {
        let cache = runtime.cache_manager.get_file_metadata_cache();
        PageIndexReaderFactory::with_cache(runtime, store, cache)
    }

    /// Creates the factory of readers for a session over a lake.
    ///
    /// # Errors
    /// As [`PageIndexReaderFactory::new`].
    pub(super) fn of_session(
        session: &dyn Session,
        store: &ObjectStoreUrl,
    ) -> Result<PageIndexReaderFactory> {
        let cache = footer_cache::of_session(session);
        PageIndexReaderFactory::with_cache(session.runtime_env(), store, cache)
    }

    fn with_cache(
        runtime: &RuntimeEnv,
        store: &ObjectStoreUrl,
        cache: Arc<FileMetadataCache>,
    ) -> Result<PageIndexReaderFactory> {
        let store = runtime.object_store(store)?;
        let readers = CachedParquetFileReaderFactory::new(store, cache);
        Ok(PageIndexReaderFactory(readers))
    }
}

impl ParquetFileReaderFactory for PageIndexReaderFactory {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let reader = self
            .0
            .create_reader(partition, file, metadata_size_hint, metrics)?;
        Ok(Box::new(PageIndexReader(reader)))
    }
}

struct PageIndexReader(Box<dyn AsyncFileReader + Send>);

impl PageIndexReader {
    /// Returns why the system or the store refuses to read the file, if it does. DataFusion's
    /// errors of footers have their causes as text only.
    async fn refusal(&mut self) -> Option<ParquetError> {
        let refused = self.0.get_bytes(0..1).await.err()?;
        is_of_system(&refused).then_some(refused)
    }
}

impl AsyncFileReader for PageIndexReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        self.0.get_bytes(range)
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        self.0.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        let options = options
            .cloned()
            .unwrap_or_default()
            .with_page_index_policy(PageIndexPolicy::Optional);
        async move {
            let loaded = self.0.get_metadata(Some(&options)).await;
            match loaded {
                Ok(metadata) => Ok(metadata),
                Err(error) => Err(self.refusal().await.unwrap_or(error)),
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    /// A file whose reads fail with an error of this kind.
    struct UnreadableFile(ErrorKind);

    impl AsyncFileReader for UnreadableFile {
        fn get_bytes(&mut self, _: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
            let error = ParquetError::from(Error::from(self.0));
            async move { Err(error) }.boxed()
        }

        fn get_metadata<'a>(
            &'a mut self,
            _: Option<&'a ArrowReaderOptions>,
        ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
            let error = ParquetError::General("can't fetch the footer".to_owned());
            async move { Err(error) }.boxed()
        }
    }

    #[tokio::test]
    async fn a_refusal_of_the_system_is_the_error_of_a_footer() {
        for (kind, is_refusal) in [
            (ErrorKind::PermissionDenied, true),
            (ErrorKind::NotFound, false),
            (ErrorKind::UnexpectedEof, false),
        ] {
            let mut reader = PageIndexReader(Box::new(UnreadableFile(kind)));
            let error = reader.get_metadata(None).await.unwrap_err();
            assert_eq!(is_of_system(&error), is_refusal, "{error}");
            let has_text = error.to_string().contains("can't fetch the footer");
            assert_eq!(has_text, !is_refusal, "{error}");
        }
    }
}
