//! A file source that adds to EXPLAIN which sidecars pruned its rows, and the file to errors of
//! reading it, and that looks up the keys of joins. Everything else is delegated to the wrapped
//! source.
//!
//! It is also what marks a scan of a lake for other processes: their codec sends the row selections
//! of its files along, which the codec of Parquet scans would drop. Look-ups stay in this process:
//! plans of others have no filters that a join fills.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use datafusion_datasource::morsel::Morselizer;

use super::address_lookup::{self, AddressLookup};
use super::file_errors::NamingMorselizer;
use super::join_keys::address_filters;
use super::leaf_scan::LeafScanExec;

/// Returns the pruning note of each scan in `plan`.
pub(crate) fn index_notes(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let source = plan
        .downcast_ref::<DataSourceExec>()
        .map(DataSourceExec::data_source);
    let scan = source.and_then(|source| source.downcast_ref::<FileScanConfig>());
    let own = scan.and_then(|scan| scan.file_source().downcast_ref::<IndexedFileSource>());
    let own = own.filter(|source| !source.note.is_empty());
    let own = own.map(|source| source.note.to_string());
    let covered = plan
        .downcast_ref::<LeafScanExec>()
        .and_then(LeafScanExec::note)
        .map(str::to_owned);
    let below = plan.children().into_iter().flat_map(index_notes);
    own.or(covered).into_iter().chain(below).collect()
}

/// The wrapped source and its note.
#[derive(Clone)]
pub struct IndexedFileSource {
    inner: Arc<dyn FileSource>,
    note: Arc<str>,
    /// Where the keys of joins are looked up; `None` if they aren't.
    lookup: Option<Arc<AddressLookup>>,
}

impl IndexedFileSource {
    /// Wraps `inner`; an empty `note` isn't shown.
    pub fn new(inner: Arc<dyn FileSource>, note: impl Into<Arc<str>>) -> IndexedFileSource {
        IndexedFileSource {
            inner,
            note: note.into(),
            lookup: None,
        }
    }

    /// Returns the source with look-ups of the keys of joins.
    pub(super) fn with_lookup(self, lookup: Option<Arc<AddressLookup>>) -> IndexedFileSource {
        IndexedFileSource { lookup, ..self }
    }

    /// Returns the wrapped source.
    pub fn inner(&self) -> &Arc<dyn FileSource> {
        &self.inner
    }

    /// Returns the note, which may be empty.
    pub fn note(&self) -> &str {
        &self.note
    }

    fn wrap(&self, inner: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        Arc::new(IndexedFileSource {
            inner,
            ..self.clone()
        })
    }

    /// Returns true if a join fills addresses into the filter, which are looked up.
    fn looks_up(&self) -> bool {
        let filter = self.lookup.as_ref().and_then(|_| self.inner.filter());
        filter.is_some_and(|filter| !address_filters(&filter).is_empty())
    }
}

impl FileSource for IndexedFileSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.inner.create_file_opener(store, config, partition)
    }

    fn create_morselizer(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let inner = self.inner.create_morselizer(store, config, partition)?;
        let inner = match self.lookup.as_ref().zip(self.inner.filter()) {
            Some((lookup, filter)) => lookup.over(inner, &filter, self.inner.metrics(), partition),
            None => inner,
        };
        Ok(Box::new(NamingMorselizer(inner)))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, size: usize) -> Arc<dyn FileSource> {
        self.wrap(self.inner.with_batch_size(size))
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.inner.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn fmt_extra(&self, kind: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lookup = self.looks_up().then_some(address_lookup::NOTE);
        let notes = [Some(&*self.note), lookup].into_iter().flatten();
        for note in notes.filter(|note| !note.is_empty()) {
            match kind {
                DisplayFormatType::TreeRender => writeln!(out, "{note}")?,
                _ => write!(out, ", {note}")?,
            }
        }
        self.inner.fmt_extra(kind, out)
    }

    fn supports_repartitioning(&self) -> bool {
        self.inner.supports_repartitioning()
    }

    fn repartitioned(
        &self,
        partitions: usize,
        least_size: usize,
        ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        self.inner
            .repartitioned(partitions, least_size, ordering, config)
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let pushed = self.inner.try_pushdown_filters(filters, config)?;
        Ok(FilterPushdownPropagation {
            filters: pushed.filters,
            updated_node: pushed.updated_node.map(|node| self.wrap(node)),
        })
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        properties: &EquivalenceProperties,
    ) -> Result<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        Ok(self
            .inner
            .try_pushdown_sort(order, properties)?
            .map(|inner| self.wrap(inner)))
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    /// Takes columns and fields of columns. What computes stays above the scan, where a session
    /// may evaluate it in parts: a scan does so for whole batches.
    fn try_pushdown_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn FileSource>>> {
        let mut expressions = projection.iter().map(|computed| &computed.expr);
        if !expressions.all(|computed| computed.placement().should_push_to_leaves()) {
            return Ok(None);
        }
        Ok(self
            .inner
            .try_pushdown_projection(projection)?
            .map(|inner| self.wrap(inner)))
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(visit)
    }
}
