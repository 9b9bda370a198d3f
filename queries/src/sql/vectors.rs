//! `vector_search(vector or text, k [, model])` and `hybrid_search(text, k [, model])`.
//!
//! A vector is a JSON array of numbers; any other text is embedded by the session's embedder. A
//! hybrid search fuses the ranks of full text and vectors (reciprocal rank fusion): a grain's score
//! is the mean of 61 / (60 + rank) over both.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use gristmill_engine::index::SidecarCache;
use gristmill_engine::index::fulltext::{SearchTerms, TextQuery};
use gristmill_engine::index::vectors::LakeVectors;
use gristmill_engine::index::vectors::embed::Embedder;

use super::external;
use super::filtered_search::{RankedSearch, filter_pushdown, top_matching};
use super::search::{limit_literal, text_literal};
use super::search_results::{GrainSource, ScoredRow, search_schema};

/// Registers both functions.
pub(super) fn register(
    context: &SessionContext,
    source: &GrainSource,
    embedder: Option<Arc<dyn Embedder>>,
) {
    for kind in [VectorFunctionKind::Vector, VectorFunctionKind::Hybrid] {
        let function = VectorFunction {
            kind,
            source: source.clone(),
            embedder: embedder.clone(),
        };
        context.register_udtf(kind.name(), Arc::new(function));
    }
}

/// Returns the names of the functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    [VectorFunctionKind::Vector, VectorFunctionKind::Hybrid]
        .into_iter()
        .map(VectorFunctionKind::name)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VectorFunctionKind {
    Vector,
    Hybrid,
}

impl VectorFunctionKind {
    const fn name(self) -> &'static str {
        match self {
            VectorFunctionKind::Vector => "vector_search",
            VectorFunctionKind::Hybrid => "hybrid_search",
        }
    }

    /// Returns the full-text half of a search for `text`; `None` if it searches only vectors.
    fn text_query(self, text: &str) -> Result<Option<TextQuery>> {
        match self {
            VectorFunctionKind::Vector => Ok(None),
            VectorFunctionKind::Hybrid => TextQuery::parse(text).map(Some).map_err(external),
        }
    }
}

#[derive(Debug)]
struct VectorFunction {
    kind: VectorFunctionKind,
    source: GrainSource,
    embedder: Option<Arc<dyn Embedder>>,
}

/// The query of a vector search.
#[derive(Debug, Clone)]
enum VectorQuery {
    Vector(Vec<f32>),
    Text(String, Arc<dyn Embedder>),
}

impl VectorQuery {
    /// Returns the vector; embeds a text, which blocks.
    fn into_vector(self) -> Result<Vec<f32>> {
        match self {
            VectorQuery::Vector(vector) => Ok(vector),
            VectorQuery::Text(text, embedder) => Ok(embedder
                .embed(&[text])
                .map_err(external)?
                .pop()
                .unwrap_or_default()),
        }
    }
}

impl VectorFunction {
    /// Interprets the first argument: a vector, or a text for the session's embedder.
    fn query_of(&self, text: &str) -> Result<VectorQuery> {
        let name = self.kind.name();
        match (serde_json::from_str::<Vec<f32>>(text), &self.embedder) {
            (Ok(vector), _) if self.kind == VectorFunctionKind::Vector => {
                Ok(VectorQuery::Vector(vector))
            }
            (_, Some(embedder)) => Ok(VectorQuery::Text(text.to_owned(), Arc::clone(embedder))),
            (_, None) => {
                plan_err!("{name} needs an embedder for a text; set it with `--embedder`")
            }
        }
    }
}

impl TableFunctionImpl for VectorFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let name = self.kind.name();
        let usage = || {
            plan_datafusion_err!(
                "{name} takes a text, the number of results and, if the lake has vectors of \
                 several models, a model"
            )
        };
        let (wanted, limit, model) = match args.exprs() {
            [wanted, limit] => (wanted, limit, None),
            [wanted, limit, model] => (wanted, limit, Some(text_literal(model).ok_or_else(usage)?)),
            _ => return Err(usage()),
        };
        let text = text_literal(wanted).ok_or_else(usage)?;
        let wanted = self.query_of(&text)?;
        let words = self.kind.text_query(&text)?;
        let limit = limit_literal(limit).ok_or_else(usage)?;
        Ok(Arc::new(VectorTable {
            source: self.source.clone(),
            wanted,
            words,
            limit,
            model,
        }))
    }
}

/// A search as a table.
#[derive(Debug)]
struct VectorTable {
    source: GrainSource,
    wanted: VectorQuery,
    /// The full-text half of a hybrid search.
    words: Option<TextQuery>,
    limit: usize,
    model: Option<String>,
}

#[async_trait]
impl TableProvider for VectorTable {
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
        let (terms, found) = top_matching(&self.source, state, filters, self.limit, self).await?;
        let batch = self.source.rows(state, &found, &terms, projection).await?;
        let schema = batch.schema();
        Ok(MemorySourceConfig::try_new_exec(
            &[vec![batch]],
            schema,
            None,
        )?)
    }
}

/// Each of the two searches of a hybrid search returns `DEPTH` times the limit, and at least
/// `MIN_DEPTH` rows, before the ranks are fused.
const DEPTH: usize = 4;
const MIN_DEPTH: usize = 50;

#[async_trait]
impl RankedSearch for VectorTable {
    async fn top(&self, limit: usize) -> Result<(SearchTerms, Vec<ScoredRow>)> {
        let Some(words) = self.words.clone() else {
            return Ok((SearchTerms::default(), self.nearest(limit).await?));
        };
        let each = limit.saturating_mul(DEPTH).max(MIN_DEPTH);
        let nearest = self.nearest(each).await?;
        let (terms, hits) = self.search_text(words, each).await?;
        Ok((terms, fuse_ranks([&hits, &nearest], limit)))
    }
}

impl VectorTable {
    /// Returns the terms of `query` and the `limit` best rows of its full-text search.
    async fn search_text(
        &self,
        query: TextQuery,
        limit: usize,
    ) -> Result<(SearchTerms, Vec<ScoredRow>)> {
        let text = SidecarCache::of(&self.source.lake)
            .lake_text(&self.source.lake)
            .await
            .map_err(external)?;
        let hits = tokio::task::spawn_blocking(move || text.search(&query, limit))
            .await
            .map_err(external)?;
        let (terms, hits) = hits.map_err(external)?;
        Ok((terms, hits.iter().map(ScoredRow::from).collect()))
    }

    /// Returns the `limit` rows nearest to the query.
    async fn nearest(&self, limit: usize) -> Result<Vec<ScoredRow>> {
        let model = match (&self.model, &self.wanted) {
            (Some(model), _) => Some(model.as_str()),
            (None, VectorQuery::Text(_, embedder)) => Some(embedder.model()),
            (None, VectorQuery::Vector(_)) => None,
        };
        let vectors = LakeVectors::open(&self.source.lake, model)
            .await
            .map_err(external)?;
        let query = self.wanted.clone();
        let found = tokio::task::spawn_blocking(move || {
            let vector = query.into_vector()?;
            match vectors.dimensions() {
                Some(dimensions) if dimensions != vector.len() => {
                    plan_err!(
                        "the vector has {} dimensions, those of the lake have {dimensions}",
                        vector.len()
                    )
                }
                _ => Ok(vectors.search(&vector, limit)),
            }
        });
        let hits = found.await.map_err(external)??;
        Ok(hits
            .iter()
            .map(|hit| ScoredRow {
                segment: hit.segment,
                row: hit.row,
                score: hit.score,
            })
            .collect())
    }
}

/// Constant k of reciprocal rank fusion: larger values flatten the difference between ranks.
const RANK_OFFSET: f64 = 60.0;

/// Returns the `limit` rows with the highest fused score of both lists.
fn fuse_ranks(lists: [&[ScoredRow]; 2], limit: usize) -> Vec<ScoredRow> {
    let mut fused: Vec<ScoredRow> = fused_scores(lists)
        .into_iter()
        .map(|((segment, row), score)| ScoredRow {
            segment,
            row,
            score,
        })
        .collect();
    fused.sort_by(|left, right| {
        right
            .score
            .total_cmp(&left.score)
            .then((left.segment, left.row).cmp(&(right.segment, right.row)))
    });
    fused.truncate(limit);
    fused
}

/// Returns the fused score of each row, identified by its segment and its number.
fn fused_scores(lists: [&[ScoredRow]; 2]) -> HashMap<(usize, u32), f64> {
    let mut scores: HashMap<(usize, u32), f64> = HashMap::new();
    for list in lists {
        for (rank, found) in (1_u32..).zip(list) {
            let part = (RANK_OFFSET + 1.0) / (RANK_OFFSET + f64::from(rank)) / lists.len() as f64;
            *scores.entry((found.segment, found.row)).or_default() += part;
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rows: &[u32]) -> Vec<ScoredRow> {
        rows.iter()
            .map(|row| ScoredRow {
                segment: 0,
                row: *row,
                score: 0.5,
            })
            .collect()
    }

    #[test]
    fn rows_ranked_high_in_both_lists_come_first() {
        let fuse_ranks = fuse_ranks([&found(&[1, 2, 3]), &found(&[2, 4])], 3);
        assert_eq!(
            fuse_ranks.iter().map(|found| found.row).collect::<Vec<_>>(),
            [2, 1, 4]
        );
        assert!(fuse_ranks[0].score < 1.0);
        assert_eq!(
            super::fuse_ranks([&found(&[9]), &found(&[9])], 5),
            [ScoredRow {
                segment: 0,
                row: 9,
                score: 1.0
            }]
        );
    }
}
