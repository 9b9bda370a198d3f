//! A stored table of the lake as a DataFusion `TableProvider`: the live Parquet files of one
//! version. Statistics, Bloom filters, sidecar indexes and the page layout decide which files,
//! pages and columns a scan reads.
//!
//! Not in this module: which files are live (the engine's lake); views and functions over the
//! tables.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::Statistics as PlanStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{internal_datafusion_err, project_schema};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    CachedParquetFileReaderFactory, ParquetRowSelection,
};
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfigBuilder, FileSource, ParquetFileReaderFactory, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::union::UnionExec;
use gristmill_engine::index::SidecarCache;
use gristmill_engine::keys::{ErasedRows, LakeKeys};
use gristmill_engine::lake::{DataFile, Lake, Segment, Table, is_sealed_file};
use gristmill_engine::segment::SegmentId;
use gristmill_engine::text::{Statistics, Terms};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::IdentityColumn;
use gristmill_schemas::grain::Field;
use parquet::arrow::arrow_reader::RowSelection;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::external;
use super::index_only_scan::{IndexOnlyScanExec, read_from_indexes};
use super::index_predicate::IndexPredicate;
use super::index_pruning::{CandidateRows, PruningStats, candidate_rows, ranges};
use super::indexed_file_source::IndexedFileSource;
use super::page_index_reader::PageIndexReaderFactory;
use super::point_lookup::PointReader;
use super::unseal::{UnsealExec, Unsealer};

/// One stored table at one version.
#[derive(Debug, Clone)]
pub struct LakeTable {
    table: Table,
    schema: SchemaRef,
    store: ObjectStoreUrl,
    files: Vec<DataFile>,
    /// Sidecar indexes that prune files and rows; only `grains` has them.
    sidecars: Option<Arc<SidecarCache>>,
    /// Keys of sealed files; `None` if the table has none.
    keys: Option<Arc<LakeKeys>>,
    point_reader: Arc<PointReader>,
    namespaces: Arc<Mutex<NamespaceRanges>>,
}

/// Cache of row ranges by namespace; one list of ranges for each file.
type NamespaceRanges = HashMap<String, Arc<Vec<Vec<Range<u32>>>>>;

/// Result of pruning a scan with the sidecars.
struct PrunedSegments {
    conditions: IndexPredicate,
    segments: Vec<Segment>,
    /// Candidate rows of each segment.
    chosen: Vec<CandidateRows>,
}

impl PrunedSegments {
    fn spared(&self) -> PruningStats {
        PruningStats::of(&self.conditions, &self.segments, &self.chosen)
    }
}

/// Files and rows that a scan reads.
struct ScanFiles {
    files: FileGroup,
    /// Upper bound of the rows that are read.
    rows: Precision<usize>,
    spared: Option<PruningStats>,
}

impl LakeTable {
    /// Creates the provider of `table` of `lake`, whose rows have `schema`; `store` contains the
    /// files of the lake.
    ///
    /// # Errors
    /// [`datafusion::error::DataFusionError::External`] if the log can't be read, or if the lake is
    /// locked and has sealed files.
    pub fn new(
        lake: &Lake,
        table: Table,
        schema: SchemaRef,
        store: ObjectStoreUrl,
    ) -> Result<LakeTable> {
        let mut files = table.files().map_err(external)?;
        files.retain(|file| !lake.leaves_out(&file.name));
        let keys = files
            .iter()
            .map(|file| lake.keys_to_read(&file.name))
            .find(|keys| !matches!(keys, Ok(None)));
        let keys = keys.transpose().map_err(external)?.flatten();
        Ok(LakeTable {
            table,
            schema,
            store,
            files,
            sidecars: None,
            keys,
            point_reader: Arc::default(),
            namespaces: Arc::default(),
        })
    }

    /// Returns the table with the sidecars of its segments, which prune its scans.
    pub fn with_sidecars(self, sidecars: Arc<SidecarCache>) -> LakeTable {
        LakeTable {
            sidecars: Some(sidecars),
            ..self
        }
    }

    /// Returns the table restricted to the files whose names satisfy `keep`.
    pub fn limited_to(mut self, keep: impl Fn(&str) -> bool) -> LakeTable {
        self.files.retain(|file| keep(&file.name));
        // The cache is indexed by position in `files`.
        self.namespaces = Arc::default();
        self
    }

    /// Returns the number of live files.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Returns the exact number of rows, as recorded in the Delta log.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    fn partitioned(&self, file: &DataFile, rows: Precision<usize>) -> PartitionedFile {
        let statistics = counted(&self.schema, rows, file.size);
        PartitionedFile::new(self.table.path_of(&file.name).to_string(), file.size)
            .with_statistics(Arc::new(statistics))
    }

    /// Prunes the segments `own` with the sidecars; `None` if `filters` restrict no indexed column.
    async fn asked(&self, own: &[&DataFile], filters: &[Expr]) -> Option<PrunedSegments> {
        let conditions = IndexPredicate::of(filters);
        let sidecars = self.sidecars.as_ref().filter(|_| !conditions.is_empty())?;
        let segments = segments(own)?;
        let chosen = candidate_rows(sidecars, self.table.location(), &segments, &conditions).await;
        Some(PrunedSegments {
            conditions,
            segments,
            chosen,
        })
    }

    /// Reads the columns of `schema` for the candidate rows from the sidecars alone; `None` if they
    /// don't contain all of it. Sealed tables always return `None`: sidecars have no values of
    /// sealed rows, and some of these rows may be erased.
    async fn covered(&self, asked: &PrunedSegments, schema: SchemaRef) -> Option<RecordBatch> {
        let PrunedSegments {
            conditions,
            segments,
            chosen,
        } = asked;
        let sidecars = self.sidecars.as_ref().filter(|_| self.keys.is_none())?;
        read_from_indexes(
            sidecars,
            self.table.location(),
            segments,
            conditions,
            chosen,
            &schema,
        )
        .await
    }

    /// Returns the files of `own` that have candidate rows, with these rows selected.
    fn selected(&self, own: &[&DataFile], asked: Option<&PrunedSegments>) -> ScanFiles {
        let whole = |file: &DataFile| self.partitioned(file, Precision::Exact(file.rows as usize));
        let Some(asked) = asked else {
            let rows = Precision::Exact(own.iter().map(|file| file.rows).sum::<u64>() as usize);
            return ScanFiles {
                files: own.iter().map(|file| whole(file)).collect(),
                rows,
                spared: None,
            };
        };
        let spared = asked.spared();
        let mut files = FileGroup::default();
        for (file, rows) in own.iter().zip(&asked.chosen) {
            match rows {
                CandidateRows::All => files.push(whole(file)),
                CandidateRows::Listed(rows) if rows.is_empty() => {}
                CandidateRows::Listed(rows) => files.push(self.chosen(file, rows)),
            }
        }
        ScanFiles {
            files,
            rows: Precision::Inexact(spared.rows as usize),
            spared: Some(spared),
        }
    }

    /// Opens and checks the sidecars that nearly every look-up needs, unless this has been done.
    pub(crate) async fn open_sidecars(&self) {
        let all: Vec<&DataFile> = self.files.iter().collect();
        let sidecars = self.sidecars.as_ref().filter(|_| self.keys.is_none());
        if let Some((sidecars, segments)) = sidecars.zip(segments(&all)) {
            sidecars
                .row_metadata(self.table.location(), &segments)
                .await;
        }
    }

    /// Returns the blobs of the grains at `addresses`, each with its address, in no order; `None`
    /// if the sidecars can't locate them or rows are sealed. Segments are read concurrently.
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
        let mut reads = JoinSet::new();
        for (number, segment) in segments.iter().enumerate() {
            let Some(index) = sidecars.addresses(self.table.location(), segment).await else {
                return Ok(None);
            };
            let mut found: Vec<(u32, ContentAddress)> = addresses
                .iter()
                .filter_map(|address| Some((index.row_of(address)?, *address)))
                .collect();
            found.sort_unstable();
            // `addresses` may contain duplicates; each row is read once.
            found.dedup();
            let rows: Vec<u32> = found.iter().map(|(row, _)| *row).collect();
            let Some(file) = self.files.get(number).filter(|_| !rows.is_empty()) else {
                continue;
            };
            let read = self.rows_of(state, file, &rows, &[IdentityColumn::Blob as usize])?;
            reads.spawn(async move { Ok::<_, DataFusionError>((found, read.await?)) });
        }
        let mut blobs = Vec::with_capacity(addresses.len());
        while let Some(read) = reads.join_next().await {
            let (found, batches) = read.map_err(external)??;
            let cells = batches
                .iter()
                .flat_map(|batch| (0..batch.num_rows()).map(|row| batch.column(0).slice(row, 1)));
            blobs.extend(found.into_iter().map(|(_, address)| address).zip(cells));
        }
        Ok(Some(blobs))
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
            Some(namespace) => Some(
                self.rows_of_namespace(state, namespace, text.covered())
                    .await
                    .ok()?,
            ),
            None => None,
        };
        let asked = (Arc::clone(&text), terms.clone());
        let count = move || match within {
            Some(within) => asked.0.statistics_within(&asked.1, &within),
            None => asked.0.statistics(&asked.1),
        };
        let known = tokio::task::spawn_blocking(count).await.ok()?.ok()?;
        let mut rest = self.clone();
        let mut covered = text.covered().iter();
        rest.files
            .retain(|_| !covered.next().copied().unwrap_or_default());
        Some((known, rest))
    }

    /// Returns the rows of `namespace` in each file that `wanted` marks, as ranges. There are few
    /// ranges because rows are sorted by namespace first. Cached for the session.
    async fn rows_of_namespace(
        &self,
        state: &SessionState,
        namespace: &str,
        wanted: &[bool],
    ) -> Result<Arc<Vec<Vec<Range<u32>>>>> {
        let mut known = self.namespaces.lock().await;
        if let Some(ranges) = known.get(namespace) {
            return Ok(Arc::clone(ranges));
        }
        let column = self.schema.index_of(Field::Namespace.name())?;
        let mut ranges = Vec::with_capacity(self.files.len());
        for (file, wanted) in self.files.iter().zip(wanted) {
            let mut own: Vec<Range<u32>> = Vec::new();
            if *wanted {
                let rows = RowSelection::from_consecutive_ranges(
                    std::iter::once(0..file.rows as usize),
                    file.rows as usize,
                );
                let mut at = 0;
                for batch in self
                    .selection_of_file(state, file, rows, &[column])?
                    .await?
                {
                    let names = cast(batch.column(0), &DataType::Utf8)?;
                    for name in names.as_string::<i32>() {
                        match own.last_mut().filter(|last| last.end == at) {
                            Some(last) if name == Some(namespace) => last.end += 1,
                            _ if name == Some(namespace) => own.push(at..at + 1),
                            _ => {}
                        }
                        at += 1;
                    }
                }
            }
            ranges.push(own);
        }
        let ranges = Arc::new(ranges);
        known.insert(namespace.to_owned(), Arc::clone(&ranges));
        Ok(ranges)
    }

    /// Reads the rows `rows` (ascending) of the file at position `number`, in order, with the
    /// columns `columns`; sealed rows are opened.
    ///
    /// # Errors
    /// [`DataFusionError`] if a segment can't be read.
    pub(super) async fn rows_at(
        &self,
        state: &dyn Session,
        number: usize,
        rows: &[u32],
        columns: &[usize],
    ) -> Result<Vec<RecordBatch>> {
        let Some(file) = self.files.get(number) else {
            return Ok(Vec::new());
        };
        let batches = self.rows_of(state, file, rows, columns)?.await?;
        match self.unsealer(is_sealed_file(&file.name), Some(columns))? {
            Some(unsealer) => batches
                .iter()
                .map(|batch| unsealer.open(batch, ErasedRows::Kept))
                .collect(),
            None => Ok(batches),
        }
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
        let reader = self.readers(state)?.create_reader(
            0,
            partitioned,
            None,
            &ExecutionPlanMetricsSet::new(),
        )?;
        Ok(Arc::clone(&self.point_reader).read(file.name.clone(), reader, selection, schema))
    }

    /// Returns the decryption of the columns `projection`; `None` if the rows aren't `sealed`.
    fn unsealer(&self, sealed: bool, projection: Option<&[usize]>) -> Result<Option<Unsealer>> {
        let Some(keys) = self.keys.clone().filter(|_| sealed) else {
            return Ok(None);
        };
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        Ok(Some(Unsealer::new(keys, self.table.name(), schema)))
    }

    /// Plans the scan of the sealed files, or of the plain ones; `None` if the table has no sealed
    /// files.
    async fn scan_of(
        &self,
        sealed: bool,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let own: Vec<&DataFile> = self
            .files
            .iter()
            .filter(|file| is_sealed_file(&file.name) == sealed)
            .collect();
        let asked = self.asked(&own, filters).await;
        if let Some(asked) = &asked {
            let schema = project_schema(&self.schema, projection)?;
            if let Some(rows) = self.covered(asked, schema).await {
                return Ok(Some(Arc::new(IndexOnlyScanExec::new(
                    rows,
                    format!("{}; no segment is read", asked.spared()),
                )?)));
            }
        }
        let ScanFiles {
            files,
            rows,
            spared,
        } = self.selected(&own, asked.as_ref());
        if files.is_empty() && sealed {
            return Ok(None);
        }
        let unsealer = self.unsealer(sealed, projection.map(Vec::as_slice))?;
        let rows = if sealed { rows.to_inexact() } else { rows };
        let statistics = counted(
            &self.schema,
            rows,
            files.iter().map(|file| file.object_meta.size).sum(),
        );
        let mut groups = files.split_files(state.config_options().execution.target_partitions);
        if groups.is_empty() {
            groups.push(FileGroup::default());
        }
        let mut parquet = self.source(state)?;
        let predicate = unsealer
            .as_ref()
            .map(|unsealer| unsealer.predicate(state, filters))
            .transpose()?
            .flatten();
        if let Some(predicate) = predicate {
            parquet = parquet.with_predicate(predicate);
        }
        let mut source: Arc<dyn FileSource> = Arc::new(parquet);
        if let Some(spared) = spared {
            source = Arc::new(IndexedFileSource {
                inner: source,
                note: spared.to_string().into(),
            });
        }
        let stored = unsealer
            .as_ref()
            .map(|unsealer| unsealer.stored(&self.schema))
            .transpose()?;
        let scan = FileScanConfigBuilder::new(self.store.clone(), source)
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(stored.or_else(|| projection.cloned()))?
            // With a filter above the scan, or erased rows among sealed ones, the scan must read
            // beyond the limit.
            .with_limit(limit.filter(|_| filters.is_empty() && !sealed))
            .build();
        let scan = DataSourceExec::from_data_source(scan);
        Ok(Some(match unsealer {
            Some(unsealer) => Arc::new(UnsealExec::new(scan, unsealer)),
            None => scan,
        }))
    }

    /// Returns the file with a row selection.
    fn chosen(&self, file: &DataFile, rows: &[u32]) -> PartitionedFile {
        let partitioned = self.partitioned(file, Precision::Inexact(rows.len()));
        partitioned.with_extension(ParquetRowSelection::new(selection_of(rows, file)))
    }

    /// Returns the Parquet source: late materialisation is on, and the session caches footers and
    /// page indexes.
    fn source(&self, state: &dyn Session) -> Result<ParquetSource> {
        let options = TableParquetOptions {
            global: state.config_options().execution.parquet.clone(),
            ..TableParquetOptions::default()
        };
        Ok(ParquetSource::new(Arc::clone(&self.schema))
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(self.readers(state)?)))
    }

    fn readers(&self, state: &dyn Session) -> Result<PageIndexReaderFactory> {
        let runtime = state.runtime_env();
        let cache = runtime.cache_manager.get_file_metadata_cache();
        Ok(PageIndexReaderFactory(CachedParquetFileReaderFactory::new(
            runtime.object_store(&self.store)?,
            cache,
        )))
    }
}

/// Returns the row selection of `rows` (ascending) in `file`.
fn selection_of(rows: &[u32], file: &DataFile) -> RowSelection {
    RowSelection::from_consecutive_ranges(ranges(rows), file.rows as usize)
}

/// Returns the files as segments; `None` if a file name isn't that of a segment.
fn segments(files: &[&DataFile]) -> Option<Vec<Segment>> {
    let segment = |file: &&DataFile| {
        Some(Segment {
            id: SegmentId::of_file(&file.name)?,
            file: (*file).clone(),
        })
    };
    files.iter().map(segment).collect()
}

/// Returns statistics with the number of rows and bytes, and nothing about columns.
fn counted(schema: &SchemaRef, rows: Precision<usize>, bytes: u64) -> PlanStatistics {
    PlanStatistics {
        num_rows: rows,
        total_byte_size: Precision::Inexact(bytes as usize),
        ..PlanStatistics::new_unknown(schema)
    }
}

#[async_trait]
impl TableProvider for LakeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Filters are reported as inexact: DataFusion applies them again and also pushes them into the
    /// Parquet reader.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    fn statistics(&self) -> Option<PlanStatistics> {
        let bytes = self.files.iter().map(|file| file.size).sum();
        let rows = Precision::Exact(self.rows() as usize);
        // Sealed rows may be erased, so their count is an upper bound.
        Some(counted(
            &self.schema,
            if self.keys.is_some() {
                rows.to_inexact()
            } else {
                rows
            },
            bytes,
        ))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let open = self.scan_of(false, state, projection, filters, limit);
        match self.keys {
            None => open.await?.ok_or_else(|| {
                internal_datafusion_err!(
                    "the plain files of a table were not \
                                                         planned"
                )
            }),
            Some(_) => {
                let sealed = self
                    .scan_of(true, state, projection, filters, limit)
                    .await?;
                let both: Vec<_> = open.await?.into_iter().chain(sealed).collect();
                UnionExec::try_new(both)
            }
        }
    }
}
