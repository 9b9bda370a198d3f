//! A stored table of the lake as a DataFusion `TableProvider`: the live Parquet files of one
//! version. Statistics, Bloom filters, sidecar indexes and the page layout decide which files,
//! pages and columns a scan reads.
//!
//! Not in this module: which files are live (the engine's lake); views and functions over the
//! tables.

//!
//! | module | question |
//! |---|---|
//! | `scan` | How is a scan planned? |
//! | `rows` | How are rows read whose positions are known? |
//! | `hidden` | Which rows are left out because of their lifecycle? |
//! | `kept` | Which rows has a search chosen? |

mod hidden;
mod kept;
mod rows;
mod scan;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics as PlanStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use gristmill_engine::CreatedSpan;
use gristmill_engine::index::SidecarCache;
use gristmill_engine::index::lifecycle_mask::HiddenRows;
use gristmill_engine::keys::LakeKeys;
use gristmill_engine::lake::{DataFile, Lake, Segment, Table};
use gristmill_engine::segment::SegmentId;
use gristmill_schemas::grain::Field;
use parquet::arrow::arrow_reader::RowSelection;
use tokio::sync::Mutex;

pub(crate) use hidden::hide_rows;
pub(crate) use kept::{RowsByFile, TextMatches, keep_rows};

use super::external;
use super::index_pruning::ranges;
use super::page_index_reader::PageIndexReaderFactory;
use super::point_lookup::PointReader;
use super::unseal::Unsealer;

/// One stored table at one version.
#[derive(Debug, Clone)]
pub struct LakeTable {
    table: Table,
    schema: SchemaRef,
    store: ObjectStoreUrl,
    files: Vec<DataFile>,
    /// Sidecar indexes that prune files and rows; only `grains` has them.
    sidecars: Option<Arc<SidecarCache>>,
    /// The lake, if its lifecycle masks apply; only `grains` has them.
    lake: Option<Lake>,
    /// Rows that scans leave out.
    hidden: Option<HiddenRows>,
    /// The only rows that scans read; `None` for all.
    kept: Option<Arc<RowsByFile>>,
    /// Keys of sealed files; `None` if the table has none.
    keys: Option<Arc<LakeKeys>>,
    point_reader: Arc<PointReader>,
    namespaces: Arc<Mutex<NamespaceRanges>>,
}

/// Cache of row ranges by namespace and marked files; one list of ranges for each file.
type NamespaceRanges = HashMap<(String, Vec<bool>), Arc<Vec<Vec<Range<u32>>>>>;

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
        files.retain(|file| !lake.skips(&file.name));
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
            lake: None,
            hidden: None,
            kept: None,
            keys,
            point_reader: Arc::default(),
            namespaces: Arc::default(),
        })
    }

    /// Returns the table with the sidecars of its segments, which are those of `lake`; they prune
    /// its scans.
    pub fn with_sidecars(self, lake: &Lake) -> LakeTable {
        LakeTable {
            sidecars: Some(SidecarCache::of(lake)),
            lake: Some(lake.clone()),
            ..self
        }
    }

    /// Returns the table restricted to the files that satisfy `keep`.
    pub fn limited_to(mut self, keep: impl Fn(&DataFile) -> bool) -> LakeTable {
        self.files.retain(keep);
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

    /// Returns true if scans read every row.
    fn has_all_rows(&self) -> bool {
        self.hidden.is_none() && self.kept.is_none()
    }

    /// Returns the file for a plan, with statistics of `rows` rows.
    fn partitioned(&self, file: &DataFile, rows: Precision<usize>) -> PartitionedFile {
        let mut statistics = row_statistics(&self.schema, rows, file.size);
        if let Some(span) = file.created {
            self.state_times(&mut statistics, span);
        }
        PartitionedFile::new(self.table.path_of(&file.name).to_string(), file.size)
            .with_statistics(Arc::new(statistics))
    }

    /// States between which times the grains of a file were created, so that scans for others and
    /// for the newest don't open it.
    fn state_times(&self, statistics: &mut PlanStatistics, span: CreatedSpan) {
        let Ok(at) = self.schema.index_of(Field::CreatedAt.name()) else {
            return;
        };
        let DataType::Timestamp(TimeUnit::Microsecond, zone) = self.schema.field(at).data_type()
        else {
            return;
        };
        let bound = |micros| {
            let value = ScalarValue::TimestampMicrosecond(Some(micros), zone.clone());
            Precision::Exact(value)
        };
        if let Some(column) = statistics.column_statistics.get_mut(at) {
            // Readers ignore bounds that aren't exact. Nothing takes these for values of rows.
            column.min_value = bound(span.first);
            column.max_value = bound(span.last);
            column.null_count = Precision::Exact(0);
        }
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

    /// Returns the factory of Parquet readers, with the session's metadata cache.
    fn readers(&self, state: &dyn Session) -> Result<PageIndexReaderFactory> {
        PageIndexReaderFactory::of_session(state, &self.store)
    }
}

/// Returns the row selection of `rows` (ascending) in `file`.
pub(super) fn selection_of(rows: &[u32], file: &DataFile) -> RowSelection {
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
fn row_statistics(schema: &SchemaRef, rows: Precision<usize>, bytes: u64) -> PlanStatistics {
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
        match self.has_all_rows() {
            true => TableType::Base,
            false => TableType::View,
        }
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
        // Sealed rows may be erased, so their count is an upper bound, as it is of fewer rows.
        Some(row_statistics(
            &self.schema,
            if self.keys.is_some() || !self.has_all_rows() {
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
        let open = self.plan_scan(false, state, projection, filters, limit);
        match self.keys {
            None => open
                .await?
                .ok_or_else(|| internal_datafusion_err!("the scan of plain files is missing")),
            Some(_) => {
                let sealed = self
                    .plan_scan(true, state, projection, filters, limit)
                    .await?;
                let both: Vec<_> = open.await?.into_iter().chain(sealed).collect();
                UnionExec::try_new(both)
            }
        }
    }
}
