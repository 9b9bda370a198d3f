//! `search(text [, k])`: the best matches of a full-text search, with score, snippet and matched
//! fields in front of all columns of `grains`.
//!
//! [`TextQuery`] describes the syntax of `text`. The function returns the `k` best grains (default
//! 10) that pass the query's conditions: those that WHERE puts on the columns of the function. A
//! join applies to the result.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err};
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{DataFrame, SessionContext};
use gristmill_engine::index::SidecarCache;
use gristmill_engine::index::fulltext::{SearchTerms, TextQuery};
use gristmill_engine::lake::Lake;
use serde::Serialize;

use super::as_of::literal_value;
use super::external;
use super::filtered_search::{RankedSearch, filter_pushdown, top_matching};
use super::search_results::{GrainSource, ScoredRow, search_schema};

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

/// Kind of matching.
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
    let total = count_matches(lake, query).await?;
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

/// Returns the number of grains of `lake` that contain the terms of `query`.
async fn count_matches(lake: &Lake, query: TextQuery) -> Result<usize> {
    let words = SidecarCache::of(lake)
        .lake_text(lake)
        .await
        .map_err(external)?;
    tokio::task::spawn_blocking(move || words.count(&query))
        .await
        .map_err(external)?
        .map_err(external)
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
