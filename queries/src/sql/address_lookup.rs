//! Look-ups of joins on `content_address`: the address indexes give the rows of `grains` that can
//! have a partner on the small side of a join, and only these are read.
//!
//! DataFusion pushes a filter into the scan of the side of a hash join that isn't held in memory,
//! and fills it when the other side has been read: with a list of its keys if they are few,
//! otherwise with a reference to the hash table. So the keys are known when the scan opens its
//! files. A file of which the index isn't usable, and all files if the keys are too many, are read
//! whole. The filter is applied to the rows that are read in any case, and only by joins that don't
//! return rows of `grains` without a partner.
//!
//! Not in this module: what the filter of a join allows (`join_keys`).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion_datasource::morsel::{MorselPlan, MorselPlanner, Morselizer};
use gristmill_engine::index::SidecarCache;
use gristmill_engine::lake::{LakeLocation, Segment};
use gristmill_schemas::address::ContentAddress;
use parquet::arrow::arrow_reader::RowSelection;

use super::external;
use super::index_pruning::rows_of;
use super::join_keys::{address_filters, allowed_addresses};
use super::lake_table::selection_of;

/// Number of keys up to which the small side of a join is looked up, in each partition of the plan.
/// Their list is copied into the filter, and each file that is opened costs a pass over it.
pub(super) const MAX_KEYS: usize = 4_096;

/// Memory of these keys in each partition, in bytes: that of [`MAX_KEYS`] addresses and as much
/// again for keys of several columns. The copies in the filter take about four times as much.
pub(super) const MAX_KEY_BYTES: usize = 1 << 20;

/// What EXPLAIN shows of a scan whose rows may be looked up.
pub(super) const NOTE: &str = "lookup=addresses";

/// The address indexes of the segments that a scan reads.
#[derive(Debug)]
pub(super) struct AddressLookup {
    sidecars: Arc<SidecarCache>,
    location: LakeLocation,
    /// By the path of the data file.
    segments: HashMap<String, Segment>,
}

impl AddressLookup {
    /// Creates the look-up in `segments`, by the paths of their data files.
    pub(super) fn new(
        sidecars: Arc<SidecarCache>,
        location: LakeLocation,
        segments: HashMap<String, Segment>,
    ) -> AddressLookup {
        AddressLookup {
            sidecars,
            location,
            segments,
        }
    }

    /// Returns `inner`, whose scan has the condition `predicate`, with look-ups of the keys that a
    /// join fills into it. Counts them in `metrics`.
    pub(super) fn over(
        self: &Arc<Self>,
        inner: Box<dyn Morselizer>,
        predicate: &Arc<dyn PhysicalExpr>,
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
    ) -> Box<dyn Morselizer> {
        let filters = address_filters(predicate);
        if filters.is_empty() {
            return inner;
        }
        let counter = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Box::new(LookupMorselizer {
            inner: Arc::from(inner),
            lookup: Arc::clone(self),
            filters,
            keys: OnceLock::new(),
            counts: LookupCounts {
                segments: counter("segments_looked_up"),
                rows: counter("rows_looked_up"),
            },
        })
    }

    /// Returns the rows of the file at `path` that have one of `keys`; `None` if that isn't known.
    ///
    /// # Errors
    /// If there are any, and the file isn't the one to which its index is bound.
    async fn rows(&self, path: &str, keys: &[ContentAddress]) -> Result<Option<LookedUpRows>> {
        let Some(segment) = self.segments.get(path) else {
            return Ok(None);
        };
        if keys.is_empty() {
            return Ok(Some(LookedUpRows::default()));
        }
        let Some(index) = self.sidecars.addresses(&self.location, segment).await else {
            return Ok(None);
        };
        let rows = rows_of(&index, keys);
        if rows.is_empty() {
            return Ok(Some(LookedUpRows::default()));
        }
        let confirmed = self.sidecars.confirm(&self.location, segment).await;
        confirmed.map_err(external)?;
        Ok(Some(LookedUpRows {
            count: rows.len(),
            selection: Some(selection_of(&rows, &segment.file)),
        }))
    }
}

/// Rows of a file that were looked up.
#[derive(Default)]
struct LookedUpRows {
    count: usize,
    /// `None` if there are none.
    selection: Option<RowSelection>,
}

impl LookedUpRows {
    /// Returns `file` without other rows; `None` if no row is left.
    fn of(self, file: PartitionedFile) -> Option<PartitionedFile> {
        let found = self.selection?;
        let selection = match file.extension::<ParquetRowSelection>() {
            Some(known) => known.selection().intersection(&found),
            None => found,
        };
        let has_rows = selection.selects_any();
        has_rows.then(|| file.with_extension(ParquetRowSelection::new(selection)))
    }
}

#[derive(Debug, Clone)]
struct LookupCounts {
    segments: Count,
    rows: Count,
}

/// A morselizer that restricts each file to the rows that were looked up.
#[derive(Debug)]
struct LookupMorselizer {
    inner: Arc<dyn Morselizer>,
    lookup: Arc<AddressLookup>,
    /// The filters that a join fills with addresses.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Their keys, once they are known. Filters never become wider.
    keys: OnceLock<Arc<[ContentAddress]>>,
    counts: LookupCounts,
}

impl LookupMorselizer {
    /// Returns the only addresses that rows may have; `None` if they may have any.
    fn keys(&self) -> Option<Arc<[ContentAddress]>> {
        if let Some(known) = self.keys.get() {
            return Some(Arc::clone(known));
        }
        let keys = self.filters.iter().filter_map(allowed_addresses);
        let keys = keys.reduce(|one, other| one.intersection(&other).copied().collect())?;
        let keys = self.keys.get_or_init(|| keys.into_iter().collect());
        Some(Arc::clone(keys))
    }
}

impl Morselizer for LookupMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let Some(keys) = self.keys() else {
            return self.inner.plan_file(file);
        };
        Ok(Box::new(LookupPlanner {
            inner: Arc::clone(&self.inner),
            lookup: Arc::clone(&self.lookup),
            keys,
            file,
            counts: self.counts.clone(),
        }))
    }
}

/// Looks up the rows of one file, then plans the reads of these.
#[derive(Debug)]
struct LookupPlanner {
    inner: Arc<dyn Morselizer>,
    lookup: Arc<AddressLookup>,
    keys: Arc<[ContentAddress]>,
    file: PartitionedFile,
    counts: LookupCounts,
}

impl LookupPlanner {
    /// Returns the planner of the rows that were found, or of all rows if that isn't known.
    async fn looked_up(self) -> Result<Box<dyn MorselPlanner>> {
        let path: &str = self.file.object_meta.location.as_ref();
        let Some(found) = self.lookup.rows(path, &self.keys).await? else {
            return self.inner.plan_file(self.file);
        };
        // Several partitions may read parts of one file.
        let range = self.file.range.as_ref();
        if range.is_none_or(|range| range.start == 0) {
            self.counts.segments.add(1);
            self.counts.rows.add(found.count);
        }
        match found.of(self.file) {
            Some(file) => self.inner.plan_file(file),
            None => Ok(Box::new(NoRows)),
        }
    }
}

impl MorselPlanner for LookupPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let plan = MorselPlan::new().with_pending_planner((*self).looked_up());
        Ok(Some(plan))
    }
}

/// The planner of a file without rows, which isn't opened.
#[derive(Debug)]
struct NoRows;

impl MorselPlanner for NoRows {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        Ok(None)
    }
}
