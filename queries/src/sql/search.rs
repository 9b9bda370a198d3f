//! `search(text [, k])`: the best matches of a full-text search, with score, snippet and matched
//! fields in front of all columns of `grains`.
//!
//! [`TextQuery`] describes the syntax of `text`. The function returns the `k` best grains (default
//! 10) that pass the query's conditions: those that WHERE puts on the columns of the function. A
//! join applies to the result. A grain must contain every word; if none does, those with enough of
//! them are returned ([`WordsNeeded`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::datasource::TableType;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{DataFrame, SessionContext};
use gristmill_engine::index::SidecarCache;
use gristmill_engine::index::fulltext::{LakeTextIndex, SearchTerms, TextQuery, WordsNeeded};
use gristmill_engine::lake::Lake;
use roaring::RoaringBitmap;
use serde::Serialize;

use super::as_of::literal_value;
use super::external;
use super::filtered_search::{RankedSearch, filter_pushdown, top_matching};
use super::search_filter::{SearchFilter, quoted};
use super::search_results::{GrainSource, RowSets, ScoredRow, search_schema};

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
    /// Number of grains that match by their words, or of the results if there are more. Exact
    /// without a filter; with one it counts at most 10,000.
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

/// Kind of matching.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchMode {
    /// By its terms (full text).
    #[default]
    Text,
    /// By the similarity of embeddings.
    Vector,
    /// By both; the score is the mean of theirs.
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

/// A search and its conditions.
#[derive(Debug, Clone, Copy)]
pub struct SearchRequest<'r> {
    /// Words, or a question.
    pub text: &'r str,
    /// Number of results. More than 10,000 are refused.
    pub limit: usize,
    /// How to match.
    pub mode: SearchMode,
    /// Conditions on the results.
    pub filter: &'r SearchFilter,
}

/// Searches `lake`; returns the best matches and the number of grains that contain the terms.
///
/// # Errors
/// An invalid search ([`TextQueryError`](gristmill_engine::index::fulltext::TextQueryError)) or an
/// error of reading the lake, as [`DataFusionError`].
pub async fn search(
    context: &SessionContext,
    lake: &Lake,
    request: SearchRequest<'_>,
) -> Result<SearchEnvelope> {
    let query = TextQuery::parse(request.text).map_err(external)?;
    let columns = "grain_json(blob) AS grain, score, matched_fields, content_address, snippet";
    let found = search_rows(context, columns, request)
        .await?
        .collect()
        .await?;
    let total = match request.filter.condition() {
        Some(_) => count_filtered(context, request).await?,
        None => count_matches(lake, query).await?,
    };
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

/// Returns the number of grains of `lake` that a search by words finds.
async fn count_matches(lake: &Lake, query: TextQuery) -> Result<usize> {
    let words = lake_text(lake).await?;
    let count = tokio::task::spawn_blocking(move || words.count_matches(&query));
    let count = count.await.map_err(external)?.map_err(external)?;
    Ok(count as usize)
}

/// Returns the number of grains that match a search by words and pass its filter, at most
/// [`LIMIT`].
async fn count_filtered(context: &SessionContext, request: SearchRequest<'_>) -> Result<usize> {
    let request = SearchRequest {
        limit: LIMIT,
        mode: SearchMode::Text,
        ..request
    };
    search_rows(context, "content_address", request)
        .await?
        .count()
        .await
}

/// Returns the full-text indexes of a lake.
pub(super) async fn lake_text(lake: &Lake) -> Result<Arc<LakeTextIndex>> {
    SidecarCache::of(lake)
        .lake_text(lake)
        .await
        .map_err(external)
}

/// Returns the best matches, best first, with `columns` (SQL over the columns of `search`).
///
/// # Errors
/// Like [`search`].
pub async fn search_rows(
    context: &SessionContext,
    columns: &str,
    request: SearchRequest<'_>,
) -> Result<DataFrame> {
    let (function, text) = (request.mode.function(), quoted(request.text));
    let limit = request.limit;
    let condition = request.filter.condition();
    let condition = condition.map_or_else(String::new, |condition| format!(" WHERE {condition}"));
    context
        .sql(&format!(
            "SELECT {columns} FROM {function}({text}, {limit}){condition}"
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
            [text, limit] => (text, limit_literal(limit, usage)?),
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

/// Returns the limit that a literal states.
///
/// # Errors
/// That of `usage` if it states none; if it is above [`LIMIT`].
pub(super) fn limit_literal(expr: &Expr, usage: impl FnOnce() -> DataFusionError) -> Result<usize> {
    let number = literal_value(expr).and_then(|value| value.cast_to(&DataType::Int64).ok());
    let limit = match number {
        Some(ScalarValue::Int64(Some(number))) => usize::try_from(number).ok(),
        _ => None,
    };
    match limit {
        Some(limit) if limit > LIMIT => {
            plan_err!("a search has at most {LIMIT} results, and {limit} were asked for")
        }
        limit => limit.ok_or_else(usage),
    }
}

/// A search as a table.
#[derive(Debug)]
struct SearchTable {
    source: GrainSource,
    query: TextQuery,
    limit: usize,
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
        let top = async |words| {
            let search = WordSearch { table: self, words };
            top_matching(&self.source, state, filters, self.limit, &search).await
        };
        let (mut terms, mut hits) = top(WordsOfHit::All).await?;
        if hits.is_empty() {
            (terms, hits) = top(WordsOfHit::Enough).await?;
        }
        let rows = self.source.rows(state, &hits, &terms, projection).await?;
        rows.into_scan()
    }
}

/// Which words a hit contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordsOfHit {
    All,
    Enough,
}

/// A search by words.
struct WordSearch<'t> {
    table: &'t SearchTable,
    words: WordsOfHit,
}

#[async_trait]
impl RankedSearch for WordSearch<'_> {
    async fn top(
        &self,
        limit: usize,
        within: Option<RowSets>,
    ) -> Result<(SearchTerms, Vec<ScoredRow>)> {
        let source = &self.table.source;
        let text = lake_text(&source.lake).await?;
        let (query, words) = (self.table.query.clone(), self.words);
        let search = move || {
            let within = within.as_deref().map(Vec::as_slice);
            match words {
                WordsOfHit::All => text.search_within(&query, WordsNeeded::All, limit, within),
                WordsOfHit::Enough => {
                    let enough = text.rows_with_enough(&query)?;
                    let enough = match within {
                        Some(within) => intersection(&enough, within),
                        None => enough,
                    };
                    text.search_within(&query, WordsNeeded::Any, limit, Some(&enough))
                }
            }
        };
        let found = tokio::task::spawn_blocking(search)
            .await
            .map_err(external)?;
        let (terms, hits) = found.map_err(external)?;
        Ok((terms, hits.iter().map(ScoredRow::from).collect()))
    }
}

/// Returns the rows that are in both sets of each segment.
fn intersection(left: &[RoaringBitmap], right: &[RoaringBitmap]) -> Vec<RoaringBitmap> {
    left.iter()
        .zip(right)
        .map(|(left, right)| left & right)
        .collect()
}
