//! Reads of rows whose positions are known, and statistics that sidecars provide.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::stats::Precision;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use gristmill_engine::index::SidecarCache;
use gristmill_engine::keys::ErasedRows;
use gristmill_engine::lake::{DataFile, Segment, is_sealed_file};
use gristmill_engine::segment::AddressIndex;
use gristmill_engine::text::{Statistics, Terms};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field;
use parquet::arrow::arrow_reader::RowSelection;
use parquet::arrow::async_reader::AsyncFileReader;
use roaring::RoaringBitmap;
use tokio::task::JoinSet;

use super::super::external;
use super::{LakeTable, segments, selection_of};

/// Number of rows of a file that a filter reads at a time.
const FILTERED_ROWS: u32 = 1 << 16;

impl LakeTable {
    /// Returns the blobs of the grains at `addresses`, each with its address, in no order; `None`
    /// if the sidecars can't locate them or rows are sealed. Segments are read concurrently, those
    /// first that seem to have grains, and no further address index is checked once all are found.
    ///
    /// # Errors
    /// [`DataFusionError`] if a segment can't be read.
    pub(crate) async fn blobs(
        &self,
        state: &SessionState,
        addresses: &[ContentAddress],
    ) -> Result<Option<Vec<(ContentAddress, ArrayRef)>>> {
        let all: Vec<&DataFile> = self.files.iter().collect();
        let sidecars = self.sidecars.as_ref().filter(|_| self.keys.is_none());
        let Some((sidecars, segments)) = sidecars.zip(segments(&all)) else {
            return Ok(None);
        };
        let mut wanted: BTreeSet<ContentAddress> = addresses.iter().copied().collect();
        let mut reads = JoinSet::new();
        let files = self.likely_first(state, sidecars, &segments);
        // The other segments are searched if these don't have all grains.
        for seems_needed in [true, false] {
            for (file, segment) in &files {
                let location = self.table.location();
                if wanted.is_empty() {
                    break;
                }
                if seems_needed && sidecars.seems_without(location, segment, &wanted) {
                    continue;
                }
                let Some(index) = sidecars.addresses(location, segment).await else {
                    return Ok(None);
                };
                let found = locate(&index, &wanted);
                if found.is_empty() {
                    continue;
                }
                found.iter().for_each(|(_, address)| {
                    wanted.remove(address);
                });
                self.confirm(file).await?;
                let rows: Vec<u32> = found.iter().map(|(row, _)| *row).collect();
                let read = self.rows_of(state, file, &rows, &[SystemColumn::Blob as usize])?;
                reads.spawn(async move { Ok::<_, DataFusionError>((found, read.await?)) });
            }
        }
        let mut blobs = Vec::with_capacity(addresses.len());
        while let Some(read) = reads.join_next().await {
            let (found, batches) = read.map_err(external)??;
            let addresses = found.into_iter().map(|(_, address)| address);
            blobs.extend(addresses.zip(cells(&batches)));
        }
        Ok(Some(blobs))
    }

    /// Returns the files with their segments. Those come first that are likely to have the rows of
    /// an answer: segments whose address index is open, then those whose footer this session has
    /// read.
    fn likely_first<'f>(
        &'f self,
        state: &SessionState,
        sidecars: &SidecarCache,
        segments: &'f [Segment],
    ) -> Vec<(&'f DataFile, &'f Segment)> {
        let footers = state.runtime_env().cache_manager.get_file_metadata_cache();
        let mut files: Vec<_> = self.files.iter().zip(segments).collect();
        files.sort_by_cached_key(|(file, segment)| {
            let is_open = sidecars.has_addresses(&segment.id);
            (
                !is_open,
                !footers.contains_key(&self.table.path_of(&file.name)),
            )
        });
        files
    }

    /// Returns the term statistics of a search from the full-text sidecars, over all grains or
    /// those of one namespace, and the table of the files without a usable sidecar. `None` if no
    /// sidecar is usable.
    pub(crate) async fn text_statistics(
        &self,
        state: &SessionState,
        terms: &Terms,
        namespace: Option<&str>,
    ) -> Option<(Statistics, LakeTable)> {
        let segments = segments(&self.files.iter().collect::<Vec<_>>())?;
        let text = self
            .sidecars
            .as_ref()?
            .partial_text(self.table.location(), &segments)
            .await
            .ok()?;
        let within = match namespace {
            Some(namespace) => {
                let rows = self.rows_of_namespace(state, namespace, text.covered());
                Some(rows.await.ok()?)
            }
            None => None,
        };
        let (index, terms) = (Arc::clone(&text), terms.clone());
        let count = move || match within {
            Some(within) => index.statistics_within(&terms, &within),
            None => index.statistics(&terms),
        };
        let statistics = tokio::task::spawn_blocking(count).await.ok()?.ok()?;
        let mut rest = self.clone();
        let mut covered = text.covered().iter();
        rest.files
            .retain(|_| !covered.next().copied().unwrap_or_default());
        Some((statistics, rest))
    }

    /// Returns the rows of `namespace` in each file that `wanted` marks, as ranges. There are few
    /// ranges because rows are sorted by namespace first. Cached for the session.
    pub(super) async fn rows_of_namespace(
        &self,
        state: &SessionState,
        namespace: &str,
        wanted: &[bool],
    ) -> Result<Arc<Vec<Vec<Range<u32>>>>> {
        let mut cache = self.namespaces.lock().await;
        let key = (namespace.to_owned(), wanted.to_vec());
        if let Some(ranges) = cache.get(&key) {
            return Ok(Arc::clone(ranges));
        }
        let mut ranges = Vec::with_capacity(self.files.len());
        for (file, wanted) in self.files.iter().zip(wanted) {
            ranges.push(match wanted {
                true => self.namespace_in_file(state, file, namespace).await?,
                false => Vec::new(),
            });
        }
        let ranges = Arc::new(ranges);
        cache.insert(key, Arc::clone(&ranges));
        Ok(ranges)
    }

    /// Returns the rows of `namespace` in `file`, as ranges.
    async fn namespace_in_file(
        &self,
        state: &SessionState,
        file: &DataFile,
        namespace: &str,
    ) -> Result<Vec<Range<u32>>> {
        let column = self.schema.index_of(Field::Namespace.name())?;
        let count = file.rows as usize;
        let all = RowSelection::from_consecutive_ranges(std::iter::once(0..count), count);
        let batches = self.selection_of_file(state, file, all, &[column])?.await?;
        let mut ranges: Vec<Range<u32>> = Vec::new();
        let mut row = 0;
        for batch in batches {
            let names = cast(batch.column(0), &DataType::Utf8)?;
            for name in names.as_string::<i32>() {
                match ranges.last_mut().filter(|last| last.end == row) {
                    Some(last) if name == Some(namespace) => last.end += 1,
                    _ if name == Some(namespace) => ranges.push(row..row + 1),
                    _ => {}
                }
                row += 1;
            }
        }
        Ok(ranges)
    }

    /// Reads the rows `rows` (ascending) of the file at position `number`, in order, with the
    /// columns `columns`; sealed rows are opened.
    ///
    /// # Errors
    /// [`DataFusionError`] if a segment can't be read.
    pub(in crate::sql) async fn rows_at(
        &self,
        state: &dyn Session,
        number: usize,
        rows: &[u32],
        columns: &[usize],
    ) -> Result<Vec<RecordBatch>> {
        let Some(file) = self.files.get(number) else {
            return Ok(Vec::new());
        };
        self.confirm(file).await?;
        let batches = self.rows_of(state, file, rows, columns)?.await?;
        match self.unsealer(is_sealed_file(&file.name), Some(columns))? {
            Some(unsealer) => batches
                .iter()
                .map(|batch| unsealer.open(batch, ErasedRows::Kept))
                .collect(),
            None => Ok(batches),
        }
    }

    /// Returns the rows of the file at position `number` that satisfy `condition`, an expression
    /// over the columns `columns`; sealed rows are opened. Reads these columns of all rows, in
    /// parts.
    ///
    /// # Errors
    /// [`DataFusionError`] if a segment can't be read or the condition can't be evaluated.
    pub(in crate::sql) async fn rows_where(
        &self,
        state: &dyn Session,
        number: usize,
        condition: &dyn PhysicalExpr,
        columns: &[usize],
    ) -> Result<RoaringBitmap> {
        let mut found = RoaringBitmap::new();
        let count = self.files.get(number).map_or(0, |file| file.rows as u32);
        for start in (0..count).step_by(FILTERED_ROWS as usize) {
            let part: Vec<u32> = (start..count.min(start + FILTERED_ROWS)).collect();
            let mut rows = part.iter();
            for batch in self.rows_at(state, number, &part, columns).await? {
                let verdicts = condition.evaluate(&batch)?.into_array(batch.num_rows())?;
                let passed = verdicts.as_boolean().iter().zip(&mut rows);
                found.extend(
                    passed
                        .filter(|(pass, _)| *pass == Some(true))
                        .map(|(_, row)| *row),
                );
            }
        }
        Ok(found)
    }

    /// Checks that `file` is the one to which its sidecars are bound, before rows are read that
    /// they select.
    ///
    /// # Errors
    /// [`DataFusionError::External`] if it isn't, or can't be read.
    pub(super) async fn confirm(&self, file: &DataFile) -> Result<()> {
        let Some((sidecars, segments)) = self.sidecars.as_ref().zip(segments(&[file])) else {
            return Ok(());
        };
        for segment in &segments {
            let confirmed = sidecars.confirm(self.table.location(), segment).await;
            confirmed.map_err(external)?;
        }
        Ok(())
    }

    /// Reads `rows` (ascending) of `file` with the columns `columns`; sealed rows are returned
    /// sealed.
    ///
    /// # Errors
    /// [`DataFusionError`] if the reader can't be created; the future, if the file can't be read.
    fn rows_of(
        &self,
        state: &dyn Session,
        file: &DataFile,
        rows: &[u32],
        columns: &[usize],
    ) -> Result<impl Future<Output = Result<Vec<RecordBatch>>> + Send + 'static> {
        self.selection_of_file(state, file, selection_of(rows, file), columns)
    }

    /// Like [`LakeTable::rows_of`], with the rows as a Parquet row selection.
    fn selection_of_file(
        &self,
        state: &dyn Session,
        file: &DataFile,
        selection: RowSelection,
        columns: &[usize],
    ) -> Result<impl Future<Output = Result<Vec<RecordBatch>>> + Send + 'static> {
        let unsealer = self.unsealer(is_sealed_file(&file.name), Some(columns))?;
        let stored = unsealer
            .as_ref()
            .map(|unsealer| unsealer.stored(&self.schema))
            .transpose()?;
        let schema = Arc::new(self.schema.project(stored.as_deref().unwrap_or(columns))?);
        let partitioned = self.partitioned(file, Precision::Inexact(selection.row_count()));
        let reader = self.reader_of(state, partitioned)?;
        let path = self.table.path_of(&file.name).to_string();
        Ok(Arc::clone(&self.point_reader).read(path, reader, selection, schema))
    }

    /// Returns a reader of `file`, without metrics.
    fn reader_of(
        &self,
        state: &dyn Session,
        file: PartitionedFile,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let metrics = ExecutionPlanMetricsSet::new();
        self.readers(state)?.create_reader(0, file, None, &metrics)
    }
}

/// Returns the first column of `batches` as arrays of one value.
fn cells(batches: &[RecordBatch]) -> impl Iterator<Item = ArrayRef> {
    batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(|row| batch.column(0).slice(row, 1)))
}

/// Returns the rows of `addresses` in a segment, ascending.
fn locate(
    index: &AddressIndex,
    addresses: &BTreeSet<ContentAddress>,
) -> Vec<(u32, ContentAddress)> {
    let mut found: Vec<(u32, ContentAddress)> = addresses
        .iter()
        .filter_map(|address| Some((index.row_of(address)?, *address)))
        .collect();
    found.sort_unstable();
    found
}
