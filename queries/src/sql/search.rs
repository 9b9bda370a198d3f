//! `search(text [, k])`: the best matches of a full-text search, with score, snippet and matched
//! fields in front of all columns of `grains`.
//!
//! [`TextQuery`] describes the syntax of `text`. The function returns the `k` best grains (default
//! 10) that pass the query's conditions: those that WHERE puts on the columns of the function. A
//! join applies to the result.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, ListBuilder, RecordBatch, RecordBatchOptions,
    StringArray, StringBuilder, UInt32Array,
};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field as ArrowField, Float64Type, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{
    Result, ScalarValue, exec_err, internal_datafusion_err, plan_datafusion_err,
};
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{DataFrame, SessionContext};
use gristmill_engine::index::SidecarCache;
use gristmill_engine::index::fulltext::{Highlight, SearchTerms, TextHit, TextQuery, highlight};
use gristmill_engine::lake::Lake;
use gristmill_engine::text::with_grain;
use gristmill_schemas::columns::{IdentityColumn, grains_schema};
use serde::Serialize;

use super::as_of::literal_value;
use super::external;
use super::filtered_search::{RankedSearch, filter_pushdown, top_matching};
use super::lake_table::LakeTable;

pub(super) const SEARCH: &str = "search";

/// Default number of results.
const DEFAULT_LIMIT: usize = 10;

/// Maximum number of results.
pub(super) const LIMIT: usize = 10_000;

/// The standard response to a search (§28.1).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchEnvelope {
    /// The best matches, best first.
    pub results: Vec<SearchResult>,
    /// Exact number of grains that contain the terms of the search; at least the number of results.
    pub total: u64,
    /// Always `None`: searches have no cursor (§28.4); a larger limit returns more results.
    pub next_cursor: Option<String>,
}

/// One result of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchResult {
    /// The whole grain.
    pub grain: serde_json::Value,
    /// Relevance, in [0, 1].
    pub score: f64,
    /// Fields that contain search terms.
    pub matched_fields: Vec<String>,
    /// The content address.
    pub content_address: String,
    /// Text around the match; an extension of the standard response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
}

/// How a text is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchMode {
    /// By its terms (full text).
    #[default]
    Text,
    /// By the similarity of embeddings.
    Vector,
    /// By both, with fused ranks.
    Hybrid,
}

impl SearchMode {
    /// Returns the name of the table function of this mode.
    pub const fn function(self) -> &'static str {
        match self {
            SearchMode::Text => SEARCH,
            SearchMode::Vector => "vector_search",
            SearchMode::Hybrid => "hybrid_search",
        }
    }
}

/// Searches `lake` for `text`; returns the `limit` best matches and the number of grains that
/// contain the terms.
///
/// # Errors
/// An invalid search ([`TextQueryError`](gristmill_engine::index::fulltext::TextQueryError)) or an
/// error of reading the lake, as [`DataFusionError`](datafusion::error::DataFusionError).
pub async fn search(
    context: &SessionContext,
    lake: &Lake,
    text: &str,
    limit: usize,
    mode: SearchMode,
) -> Result<SearchEnvelope> {
    let query = TextQuery::parse(text).map_err(external)?;
    let columns = "grain_json(blob) AS grain, score, matched_fields, content_address, snippet";
    let found = search_rows(context, columns, text, limit, mode)
        .await?
        .collect()
        .await?;
    let words = SidecarCache::of(lake)
        .lake_text(lake)
        .await
        .map_err(external)?;
    let total = tokio::task::spawn_blocking(move || words.count(&query))
        .await
        .map_err(external)?
        .map_err(external)?;
    let mut results = Vec::new();
    for batch in found {
        for row in 0..batch.num_rows() {
            results.push(result(&batch, row)?);
        }
    }
    let total = total.max(results.len()) as u64;
    Ok(SearchEnvelope {
        results,
        total,
        next_cursor: None,
    })
}

/// Returns the `limit` best matches of `text`, best first, with `columns` (SQL over the columns of
/// `search`).
///
/// # Errors
/// Like [`search`].
pub async fn search_rows(
    context: &SessionContext,
    columns: &str,
    text: &str,
    limit: usize,
    mode: SearchMode,
) -> Result<DataFrame> {
    let (function, text, limit) = (mode.function(), text.replace('\'', "''"), limit.min(LIMIT));
    context
        .sql(&format!(
            "SELECT {columns} FROM {function}('{text}', {limit})"
        ))
        .await
}

fn result(batch: &RecordBatch, row: usize) -> Result<SearchResult> {
    let text = |column: usize| cast(batch.column(column), &DataType::Utf8);
    let cell = |column: &ArrayRef| {
        column
            .is_valid(row)
            .then(|| column.as_string::<i32>().value(row).to_owned())
    };
    let fields = batch.column(2).as_list::<i32>().value(row);
    let fields = fields
        .as_string::<i32>()
        .iter()
        .flatten()
        .map(str::to_owned)
        .collect();
    let grain = cell(&text(0)?)
        .and_then(|json| serde_json::from_str(&json).ok())
        .unwrap_or_default();
    Ok(SearchResult {
        grain,
        score: batch.column(1).as_primitive::<Float64Type>().value(row),
        matched_fields: fields,
        content_address: cell(&text(3)?).unwrap_or_default(),
        snippet: cell(&text(4)?),
    })
}

/// Registers the function.
pub(super) fn register(context: &SessionContext, source: &GrainSource) {
    context.register_udtf(
        SEARCH,
        Arc::new(SearchFunction {
            source: source.clone(),
        }),
    );
}

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

#[derive(Debug)]
struct SearchFunction {
    source: GrainSource,
}

impl TableFunctionImpl for SearchFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage = || {
            plan_datafusion_err!(
                "{SEARCH} takes a text and an optional number of results (default {DEFAULT_LIMIT})"
            )
        };
        let (text, limit) = match args.exprs() {
            [text] => (text, DEFAULT_LIMIT),
            [text, limit] => (text, limit_literal(limit).ok_or_else(usage)?),
            _ => return Err(usage()),
        };
        let query = TextQuery::parse(&text_literal(text).ok_or_else(usage)?).map_err(external)?;
        Ok(Arc::new(SearchTable {
            source: self.source.clone(),
            query,
            limit,
        }))
    }
}

/// Returns the text of a literal.
pub(super) fn text_literal(expr: &Expr) -> Option<String> {
    match literal_value(expr)? {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => {
            text
        }
        _ => None,
    }
}

/// Returns the limit that a literal states, at most [`LIMIT`].
pub(super) fn limit_literal(expr: &Expr) -> Option<usize> {
    match literal_value(expr)?.cast_to(&DataType::Int64).ok()? {
        ScalarValue::Int64(Some(limit)) => {
            usize::try_from(limit).ok().map(|limit| limit.min(LIMIT))
        }
        _ => None,
    }
}

/// A search as a table.
#[derive(Debug)]
struct SearchTable {
    source: GrainSource,
    query: TextQuery,
    limit: usize,
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

#[async_trait]
impl TableProvider for SearchTable {
    fn schema(&self) -> SchemaRef {
        search_schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filter_pushdown(filters))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (terms, hits) = top_matching(&self.source, state, filters, self.limit, self).await?;
        let batch = self.source.rows(state, &hits, &terms, projection).await?;
        let schema = batch.schema();
        Ok(MemorySourceConfig::try_new_exec(
            &[vec![batch]],
            schema,
            None,
        )?)
    }
}

#[async_trait]
impl RankedSearch for SearchTable {
    async fn top(&self, limit: usize) -> Result<(SearchTerms, Vec<ScoredRow>)> {
        let text = SidecarCache::of(&self.source.lake)
            .lake_text(&self.source.lake)
            .await
            .map_err(external)?;
        let query = self.query.clone();
        let found = tokio::task::spawn_blocking(move || text.search(&query, limit))
            .await
            .map_err(external)?;
        let (terms, hits) = found.map_err(external)?;
        Ok((terms, hits.iter().map(ScoredRow::from).collect()))
    }
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

impl GrainSource {
    /// Returns the rows of `found` with the columns of [`search_schema`] that `projection` selects,
    /// best first; rows of equal score are ordered by address.
    pub(super) async fn rows(
        &self,
        state: &dyn Session,
        found: &[ScoredRow],
        terms: &SearchTerms,
        projection: Option<&Vec<usize>>,
    ) -> Result<RecordBatch> {
        Ok(self.ordered_rows(state, found, terms, projection).await?.1)
    }

    /// Like [`GrainSource::rows`]; also returns `found` in the order of the rows.
    pub(super) async fn ordered_rows(
        &self,
        state: &dyn Session,
        found: &[ScoredRow],
        terms: &SearchTerms,
        projection: Option<&Vec<usize>>,
    ) -> Result<(Vec<ScoredRow>, RecordBatch)> {
        let schema = search_schema();
        let wanted: Vec<usize> = projection
            .cloned()
            .unwrap_or_else(|| (0..schema.fields().len()).collect());
        let own = schema.fields().len() - grains_schema().fields().len();
        let shows = wanted.contains(&SNIPPET) || wanted.contains(&MATCHED_FIELDS);
        let needed: Vec<usize> = (0..grains_schema().fields().len())
            .filter(|column| {
                wanted.contains(&(own + column))
                    || *column == IdentityColumn::ContentAddress as usize
                    || (shows && *column == IdentityColumn::Blob as usize)
            })
            .collect();
        let (found, grains) = self.read(state, found, &needed).await?;
        let scores = Float64Array::from_iter_values(found.iter().map(|found| found.score));
        let shown = if shows {
            highlights(&grains, terms)
        } else {
            Vec::new()
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
            internal_datafusion_err!(
                "a column of `grains` is missing in the \
                                                            batch"
            )
        })?;
        let rows = RecordBatchOptions::new().with_row_count(Some(grains.num_rows()));
        let rows =
            RecordBatch::try_new_with_options(Arc::new(schema.project(&wanted)?), columns, &rows)?;
        Ok((found, rows))
    }

    /// Returns `found`, best first, and the columns `needed` of `grains` in the same order.
    async fn read(
        &self,
        state: &dyn Session,
        found: &[ScoredRow],
        needed: &[usize],
    ) -> Result<(Vec<ScoredRow>, RecordBatch)> {
        let mut by_segment: BTreeMap<usize, BTreeMap<u32, f64>> = BTreeMap::new();
        for found in found {
            by_segment
                .entry(found.segment)
                .or_default()
                .insert(found.row, found.score);
        }
        let (mut ordered, mut batches) = (Vec::new(), Vec::new());
        for (segment, rows) in by_segment {
            let places: Vec<u32> = rows.keys().copied().collect();
            batches.extend(self.grains.rows_at(state, segment, &places, needed).await?);
            ordered.extend(rows.into_iter().map(|(row, score)| ScoredRow {
                segment,
                row,
                score,
            }));
        }
        let grains = concat_batches(&Arc::new(grains_schema().project(needed)?), &batches)?;
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
        Ok((
            ordered,
            take_record_batch(&grains, &UInt32Array::from(order))?,
        ))
    }
}

/// Positions of columns in [`search_schema`].
const SNIPPET: usize = 1;
const MATCHED_FIELDS: usize = 2;

/// Returns the positions of rows ordered by score, then by address.
fn rank(found: &[ScoredRow], grains: &RecordBatch) -> Result<Vec<u32>> {
    let addresses = grains.column_by_name(IdentityColumn::ContentAddress.name());
    let addresses = addresses.and_then(|column| column.as_string_opt::<i32>());
    let addresses = addresses.ok_or_else(|| {
        internal_datafusion_err!(
            "the column `content_address` \
        is missing in the batch"
        )
    })?;
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

fn highlights(grains: &RecordBatch, terms: &SearchTerms) -> Vec<Highlight> {
    let blobs = grains
        .column_by_name(IdentityColumn::Blob.name())
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
