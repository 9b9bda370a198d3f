//! Rows of search results: scores, snippets and matched fields in front of the columns of `grains`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Float64Array, ListBuilder, RecordBatch, RecordBatchOptions, StringArray,
    StringBuilder, UInt32Array,
};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{Result, exec_err, internal_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use gristmill_engine::index::fulltext::{Highlight, SearchTerms, TextHit, highlight};
use gristmill_engine::lake::Lake;
use gristmill_engine::text::with_grain;
use gristmill_schemas::columns::{SystemColumn, grains_schema};
use roaring::RoaringBitmap;

use super::lake_table::LakeTable;
use super::leaf_scan::LeafScanExec;

/// The lake and its `grains` table, which searches read.
#[derive(Clone)]
pub(super) struct GrainSource {
    pub(super) lake: Lake,
    pub(super) grains: Arc<LakeTable>,
}

impl fmt::Debug for GrainSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "grains of {}", self.lake.location().name())
    }
}

/// Returns the schema of search results: score, snippet and matched fields, then the columns of
/// `grains`.
pub(super) fn search_schema() -> SchemaRef {
    let list = DataType::List(Arc::new(ArrowField::new("element", DataType::Utf8, true)));
    let own = [
        ArrowField::new("score", DataType::Float64, false),
        ArrowField::new("snippet", DataType::Utf8, true),
        ArrowField::new("matched_fields", list, false),
    ];
    let grains = grains_schema();
    let grains = grains.fields().iter().map(|field| field.as_ref().clone());
    Arc::new(Schema::new(
        own.into_iter().chain(grains).collect::<Vec<_>>(),
    ))
}

/// Sets of rows, one for each segment of the lake.
pub(super) type RowSets = Arc<Vec<RoaringBitmap>>;

/// Returns the number of columns of [`search_schema`] before those of `grains`.
pub(super) fn own_columns() -> usize {
    search_schema().fields().len() - grains_schema().fields().len()
}

/// A matching row with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ScoredRow {
    /// Position of its segment in the lake.
    pub(super) segment: usize,
    pub(super) row: u32,
    pub(super) score: f64,
}

impl From<&TextHit> for ScoredRow {
    fn from(hit: &TextHit) -> ScoredRow {
        ScoredRow {
            segment: hit.segment,
            row: hit.row,
            score: hit.score,
        }
    }
}

/// Rows that a search found.
pub(super) struct SearchRows {
    /// Where they are, in the order of the rows.
    pub(super) found: Vec<ScoredRow>,
    pub(super) batch: RecordBatch,
    /// The memory of the batch.
    pub(super) memory: MemoryReservation,
}

impl SearchRows {
    /// Returns a plan that returns the rows.
    ///
    /// # Errors
    /// As [`LeafScanExec::search`].
    pub(super) fn into_scan(self) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(LeafScanExec::search(self.batch, self.memory)?))
    }
}

impl GrainSource {
    /// Returns the rows of `found` with the columns of [`search_schema`] that `projection` selects,
    /// best first; rows of equal score are ordered by address.
    ///
    /// # Errors
    /// `ResourcesExhausted` if the rows don't fit in the memory of the session; errors of reading
    /// them.
    pub(super) async fn rows(
        &self,
        state: &dyn Session,
        found: &[ScoredRow],
        terms: &SearchTerms,
        projection: Option<&Vec<usize>>,
    ) -> Result<SearchRows> {
        let memory = MemoryConsumer::new("SearchRows").register(&state.runtime_env().memory_pool);
        let schema = search_schema();
        let wanted: Vec<usize> = projection
            .cloned()
            .unwrap_or_else(|| (0..schema.fields().len()).collect());
        let shows = wanted.contains(&SNIPPET) || wanted.contains(&MATCHED_FIELDS);
        let (found, grains) = self
            .read(state, found, &grain_columns(&wanted, shows), &memory)
            .await?;
        let scores = Float64Array::from_iter_values(found.iter().map(|found| found.score));
        let shown = match shows {
            true => highlights(&grains, terms),
            false => Vec::new(),
        };
        let own = search_columns(scores, &shown, grains.num_rows());
        let column = |column: &usize| match own.get(*column) {
            Some(column) => Some(Arc::clone(column)),
            None => grains
                .column_by_name(schema.fields().get(*column)?.name())
                .cloned(),
        };
        let columns: Option<Vec<ArrayRef>> = wanted.iter().map(column).collect();
        let columns = columns.ok_or_else(|| {
            internal_datafusion_err!("a column of `grains` is missing in the batch")
        })?;
        let rows = RecordBatchOptions::new().with_row_count(Some(grains.num_rows()));
        let schema = Arc::new(schema.project(&wanted)?);
        let batch = RecordBatch::try_new_with_options(schema, columns, &rows)?;
        drop((grains, shown));
        memory.try_resize(batch.get_array_memory_size())?;
        Ok(SearchRows {
            found,
            batch,
            memory,
        })
    }

    /// Returns the rows that satisfy `condition`, which reads `columns` of [`search_schema`], all
    /// of them columns of `grains`. Costs a pass over these columns; memory holds a part of a
    /// segment.
    pub(super) async fn rows_where(
        &self,
        state: &dyn Session,
        condition: &Arc<dyn PhysicalExpr>,
        columns: &[usize],
    ) -> Result<RowSets> {
        let columns: Vec<usize> = columns
            .iter()
            .filter_map(|column| column.checked_sub(own_columns()))
            .collect();
        let mut sets = Vec::with_capacity(self.grains.files());
        for segment in 0..self.grains.files() {
            let rows = self
                .grains
                .rows_where(state, segment, &**condition, &columns);
            sets.push(rows.await?);
        }
        Ok(Arc::new(sets))
    }

    /// Returns `found`, best first, and the columns `needed` of `grains` in the same order, whose
    /// memory is reserved in `memory`.
    async fn read(
        &self,
        state: &dyn Session,
        found: &[ScoredRow],
        needed: &[usize],
        memory: &MemoryReservation,
    ) -> Result<(Vec<ScoredRow>, RecordBatch)> {
        let (mut ordered, mut batches) = (Vec::new(), Vec::new());
        for (segment, rows) in by_segment(found) {
            let places: Vec<u32> = rows.keys().copied().collect();
            let read = self.grains.rows_at(state, segment, &places, needed).await?;
            memory.try_grow(memory_of(&read))?;
            batches.extend(read);
            ordered.extend(rows.into_iter().map(|(row, score)| ScoredRow {
                segment,
                row,
                score,
            }));
        }
        // Rows and their copy are in memory at once.
        memory.try_grow(memory_of(&batches))?;
        let grains = concat_batches(&Arc::new(grains_schema().project(needed)?), &batches)?;
        drop(batches);
        if grains.num_rows() != ordered.len() {
            return exec_err!(
                "an index refers to rows that its segment doesn't have; `gristmill reindex --all` \
                 rebuilds it"
            );
        }
        let order = rank(&ordered, &grains)?;
        let ordered = order
            .iter()
            .filter_map(|at| ordered.get(*at as usize).copied())
            .collect();
        memory.try_resize(grains.get_array_memory_size().saturating_mul(2))?;
        let grains = take_record_batch(&grains, &UInt32Array::from(order))?;
        memory.try_resize(grains.get_array_memory_size())?;
        Ok((ordered, grains))
    }
}

/// Returns the memory of batches in bytes.
fn memory_of(batches: &[RecordBatch]) -> usize {
    let bytes = batches.iter().map(RecordBatch::get_array_memory_size);
    bytes.fold(0, usize::saturating_add)
}

/// Groups rows by segment; a row that was found several times is kept once.
fn by_segment(found: &[ScoredRow]) -> BTreeMap<usize, BTreeMap<u32, f64>> {
    let mut segments: BTreeMap<usize, BTreeMap<u32, f64>> = BTreeMap::new();
    for found in found {
        let rows = segments.entry(found.segment).or_default();
        rows.insert(found.row, found.score);
    }
    segments
}

/// Returns the columns of `grains` that a result with the columns `wanted` needs: these, the
/// address, by which rows are ordered, and the blob if the result `shows` snippets or matched
/// fields.
fn grain_columns(wanted: &[usize], shows: bool) -> Vec<usize> {
    let own = own_columns();
    (0..grains_schema().fields().len())
        .filter(|column| {
            wanted.contains(&(own + column))
                || *column == SystemColumn::ContentAddress as usize
                || (shows && *column == SystemColumn::Blob as usize)
        })
        .collect()
}

/// Positions of columns in [`search_schema`].
const SNIPPET: usize = 1;
const MATCHED_FIELDS: usize = 2;

/// Returns the positions of rows ordered by score, then by address.
fn rank(found: &[ScoredRow], grains: &RecordBatch) -> Result<Vec<u32>> {
    let addresses = addresses_of(grains)?;
    let mut order: Vec<u32> = (0..found.len() as u32).collect();
    order.sort_by(|left, right| {
        let (left, right) = (*left as usize, *right as usize);
        let score = |at: usize| found.get(at).map(|found| found.score);
        let by_score = score(right)
            .partial_cmp(&score(left))
            .unwrap_or(std::cmp::Ordering::Equal);
        by_score.then_with(|| addresses.value(left).cmp(addresses.value(right)))
    });
    Ok(order)
}

/// Returns the addresses of `grains`.
fn addresses_of(grains: &RecordBatch) -> Result<&StringArray> {
    grains
        .column_by_name(SystemColumn::ContentAddress.name())
        .and_then(|column| column.as_string_opt::<i32>())
        .ok_or_else(|| {
            internal_datafusion_err!("the column `content_address` is missing in the batch")
        })
}

fn highlights(grains: &RecordBatch, terms: &SearchTerms) -> Vec<Highlight> {
    let blobs = grains
        .column_by_name(SystemColumn::Blob.name())
        .and_then(|column| column.as_binary_opt::<i32>());
    let shown = |blob| with_grain(blob, |grain| Some(highlight(grain, terms))).unwrap_or_default();
    blobs
        .into_iter()
        .flatten()
        .map(|blob| blob.map(shown).unwrap_or_default())
        .collect()
}

/// Builds the columns score, snippet and matched fields of `rows` rows.
fn search_columns(scores: Float64Array, shown: &[Highlight], rows: usize) -> Vec<ArrayRef> {
    let mut fields = ListBuilder::new(StringBuilder::new()).with_field(ArrowField::new(
        "element",
        DataType::Utf8,
        true,
    ));
    for row in 0..rows {
        for field in shown.get(row).map_or(&[][..], |shown| &shown.fields) {
            fields.values().append_value(field.name());
        }
        fields.append(true);
    }
    let snippets = (0..rows).map(|row| {
        shown
            .get(row)
            .map(|shown| &*shown.snippet)
            .filter(|text| !text.is_empty())
    });
    vec![
        Arc::new(scores),
        Arc::new(StringArray::from_iter(snippets)),
        Arc::new(fields.finish()),
    ]
}
