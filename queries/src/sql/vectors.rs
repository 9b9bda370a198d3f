//! `vector_search(vector or text, k [, model])` and `hybrid_search(text, k [, model])`.
//!
//! A vector is a JSON array of numbers; any other text is embedded by the session's embedder, and
//! grains whose similarity is below [`Embedder::least_similarity`] aren't found. `hybrid` has the
//! combination with a search by words.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use gristmill_engine::index::fulltext::{SearchTerms, TextQuery};
use gristmill_engine::index::vectors::LakeVectors;
use gristmill_engine::index::vectors::embed::Embedder;

use super::external;
use super::filtered_search::{RankedSearch, filter_pushdown, top_matching};
use super::hybrid::WordHits;
use super::search::{lake_text, limit_literal, text_literal};
use super::search_results::{GrainSource, RowSets, ScoredRow, search_schema};

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
    /// Returns the similarity below which a grain isn't found.
    fn least_similarity(&self) -> f64 {
        match self {
            VectorQuery::Vector(_) => 0.0,
            VectorQuery::Text(_, embedder) => embedder.least_similarity(),
        }
    }

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
        let words = match (TextQuery::parse(&text), self.kind) {
            (Err(error), VectorFunctionKind::Hybrid) => return Err(external(error)),
            // A text that is too long for a search by words still has a meaning.
            (words, _) => words.unwrap_or_default(),
        };
        let limit = limit_literal(limit, usage)?;
        Ok(Arc::new(VectorTable {
            kind: self.kind,
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
    kind: VectorFunctionKind,
    source: GrainSource,
    wanted: VectorQuery,
    /// The words of the query: searched for by a hybrid search, highlighted by both.
    words: TextQuery,
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
        let rows = self.source.rows(state, &found, &terms, projection).await?;
        rows.into_scan()
    }
}

/// Each of the two searches of a hybrid search returns `DEPTH` times the limit, and at least
/// `MIN_DEPTH` rows, before their scores are combined.
const DEPTH: usize = 4;
const MIN_DEPTH: usize = 50;

#[async_trait]
impl RankedSearch for VectorTable {
    async fn top(
        &self,
        limit: usize,
        within: Option<RowSets>,
    ) -> Result<(SearchTerms, Vec<ScoredRow>)> {
        match self.kind {
            VectorFunctionKind::Vector => {
                let terms = SearchTerms::literal(&self.words);
                Ok((terms, self.nearest(limit, within).await?))
            }
            VectorFunctionKind::Hybrid => {
                let each = limit.saturating_mul(DEPTH).max(MIN_DEPTH);
                let nearest = self.nearest(each, within.clone()).await?;
                let words = self.word_hits(each, within).await?;
                let combined = words.combined_with(&nearest, nearest.len() >= each, limit);
                Ok((words.terms, combined))
            }
        }
    }
}

impl VectorTable {
    /// Returns the `limit` best rows with any of the words.
    async fn word_hits(&self, limit: usize, within: Option<RowSets>) -> Result<WordHits> {
        let text = lake_text(&self.source.lake).await?;
        let query = self.words.clone();
        let found = tokio::task::spawn_blocking(move || {
            WordHits::find(&text, &query, limit, within.as_deref().map(Vec::as_slice))
        });
        found.await.map_err(external)?
    }

    /// Returns the `limit` rows nearest to the query.
    async fn nearest(&self, limit: usize, within: Option<RowSets>) -> Result<Vec<ScoredRow>> {
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
                _ => Ok(vectors.search(&vector, limit, within.as_deref().map(Vec::as_slice))),
            }
        });
        let hits = found.await.map_err(external)??;
        let least = self.wanted.least_similarity();
        Ok(hits
            .iter()
            .filter(|hit| hit.score >= least)
            .map(|hit| ScoredRow {
                segment: hit.segment,
                row: hit.row,
                score: hit.score,
            })
            .collect())
    }
}
