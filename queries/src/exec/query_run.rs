//! One execution of one query: LETs, then the function of each statement. RECALL, EXISTS, COALESCE
//! and BATCH are here, the other statements in the modules named after them.

use std::collections::BTreeMap;
use std::sync::Arc;

use gristmill_schemas::json::Json;

use super::answer::{Answer, Hit, ResultEntry};
use super::diversity::diversify;
use super::error::Result;
use super::executor::Executor;
use super::grain_reader::{GrainReader, ScoredAddress, target_address};
use super::indexed_search::{are_of_best, are_of_count};
use super::least_addresses::page_of_least;
use super::pipeline::{self, Pipeline, VALUE};
use super::recall::{LetScope, RecallPlan, RecallPlanner, RecalledGrains};
use super::{assembly, response};
use crate::cal::ast::*;
use crate::cal::{CalError, Code, ResultShape, result_shape};
use crate::render::field_value::value_of;

/// One query that is being executed.
pub(super) struct QueryRun<'r, 'e> {
    pub(super) executor: &'r Executor,
    pub(super) reader: &'r GrainReader<'e>,
    pub(super) planner: RecallPlanner<'r, 'e>,
}

impl<'r, 'e> QueryRun<'r, 'e> {
    pub(super) fn new(
        executor: &'r Executor,
        reader: &'r GrainReader<'e>,
        query: &Query,
    ) -> QueryRun<'r, 'e> {
        let explain_only = matches!(query.statement, Statement::Explain(_));
        QueryRun {
            executor,
            reader,
            planner: RecallPlanner {
                reader,
                explain_only,
                scope: None,
            },
        }
    }
}

impl QueryRun<'_, '_> {
    pub(super) async fn execute(&self, query: &Query) -> Result<Answer> {
        let lets = assembly::lets_with_inherited_options(query);
        let scope = self.evaluate_lets(&lets, &LetScope::default()).await?;
        let mut answer = self.execute_statement(query, &lets, &scope).await?;
        let warnings = response::warnings_of_parts(query);
        answer.warnings.splice(0..0, warnings);
        Ok(answer)
    }

    async fn execute_statement(
        &self,
        query: &Query,
        lets: &[Let],
        scope: &LetScope,
    ) -> Result<Answer> {
        match &query.statement {
            Statement::Recall(recall) => self.recall(recall, scope).await,
            Statement::Assemble(assemble) => self.assemble(assemble, scope).await,
            Statement::SetOperation(operation) => self.set_operation(operation, scope).await,
            Statement::Exists(exists) => self.exists(exists).await,
            Statement::History(history) => self.history(history).await,
            Statement::Explain(explained) => self.explain(explained, lets, scope).await,
            Statement::Describe(describe) => Ok(self.executor.describe(describe)),
            Statement::Batch(batch) => self.batch(batch, scope).await,
            Statement::Coalesce(coalesce) => self.coalesce(coalesce, scope).await,
            Statement::DefineTemplate(definition) => self.executor.define_template(definition),
            Statement::Add(add) => self.add(add).await,
            Statement::Supersede(supersede) => self.supersede(supersede).await,
            Statement::Revert(revert) => self.revert(revert).await,
        }
    }

    /// Returns `outer` extended by what `lets` bind. A LET with an extractor becomes a plan; one
    /// without is executed at once, except for EXPLAIN.
    pub(super) async fn evaluate_lets(&self, lets: &[Let], outer: &LetScope) -> Result<LetScope> {
        let mut scope = outer.clone();
        for binding in lets {
            let name = binding.name.clone();
            match binding.extract {
                Some(extract) => {
                    let values = self.planner.values(&binding.query, extract, &scope).await?;
                    scope.values.insert(name, values);
                }
                None if self.planner.explain_only => {
                    scope.grains.insert(name, Arc::default());
                }
                None => {
                    let grains = self.recalled_grains(&binding.query, &scope).await?;
                    scope.grains.insert(name, Arc::new(grains));
                }
            }
        }
        Ok(scope)
    }

    /// Executes a RECALL whose result must be grains.
    ///
    /// # Errors
    /// E021 if its result is a count, values or groups.
    pub(super) async fn recalled_grains(
        &self,
        recall: &Recall,
        scope: &LetScope,
    ) -> Result<RecalledGrains> {
        if !result_shape(&recall.stages).is_of_grains() {
            let message = "A source holds grains, not a count, values or groups.";
            let advice = "Leave COUNT, GROUP BY, SUBJECTS, OBJECTS and HASHES out of it.";
            return Err(CalError::new(Code::E021, message)
                .at(recall.span)
                .suggest(advice)
                .into());
        }
        let planned = self.planner.plan(recall, scope).await?;
        let pipeline = pipeline_of(&planned)?;
        let (hits, total) = self.page_of(pipeline, &planned).await?;
        Ok(RecalledGrains {
            hits: diversify(hits, &recall.options)?,
            total,
            desugared: planned.desugared,
        })
    }

    /// Returns the grains of one page and the number of matches.
    async fn page_of(&self, pipeline: Pipeline, planned: &RecallPlan) -> Result<(Vec<Hit>, u64)> {
        let best = pipeline.row_limit.filter(|_| are_of_best(&planned.stages));
        // Conditions leave few rows, which other indexes find.
        if let Some(limit) = best.filter(|_| planned.desugared.conditions.is_empty()) {
            return self.page_by_address(pipeline, limit, planned).await;
        }
        let (limit, has_offset) = (pipeline.row_limit, pipeline.has_offset);
        let scored = self.scored_page(pipeline, best, planned).await?;
        // The matches are counted while the grains are read.
        let total = self.total_matches(limit, has_offset, scored.len() as u64, planned);
        tokio::try_join!(self.hits(scored, planned), total)
    }

    /// Returns what [`page_of`](Self::page_of) does for a RECALL without conditions, whose page has
    /// the least addresses. The number of matches tells among how many rows they are.
    async fn page_by_address(
        &self,
        pipeline: Pipeline,
        limit: u64,
        planned: &RecallPlan,
    ) -> Result<(Vec<Hit>, u64)> {
        let total = self.count_matches(planned).await?;
        if total == 0 {
            return Ok((Vec::new(), 0));
        }
        let frame = pipeline.into_frame();
        let scored = match page_of_least(self.reader, &frame, limit, total).await? {
            Some(scored) => scored,
            None => self.reader.scored_addresses(frame).await?,
        };
        Ok((self.hits(scored, planned).await?, total))
    }

    /// Returns the addresses and scores of one page. The `best` matches of a search, if the page
    /// has these, are found by the full-text sidecars, if these have all of them.
    async fn scored_page(
        &self,
        pipeline: Pipeline,
        best: Option<u64>,
        planned: &RecallPlan,
    ) -> Result<Vec<ScoredAddress>> {
        let frame = pipeline.into_frame();
        if let Some((search, limit)) = planned.search.as_ref().zip(best)
            && let Some(page) = search.page(self.reader, &frame, limit).await?
        {
            return Ok(page);
        }
        self.reader.scored_addresses(frame).await
    }

    async fn hits(&self, scored: Vec<ScoredAddress>, planned: &RecallPlan) -> Result<Vec<Hit>> {
        self.reader
            .hits(scored, planned.terms.as_ref(), &planned.fields)
            .await
    }

    async fn hits_of(&self, pipeline: Pipeline, planned: &RecallPlan) -> Result<Vec<Hit>> {
        let scored = self.reader.scored_addresses(pipeline.into_frame()).await?;
        self.hits(scored, planned).await
    }

    async fn recall(&self, recall: &Recall, scope: &LetScope) -> Result<Answer> {
        let planned = self.planner.plan(recall, scope).await?;
        let pipeline = pipeline_of(&planned)?;
        let mut answer = Answer {
            warnings: response::recall_warnings(recall, pipeline.shape),
            ..Answer::default()
        };
        match pipeline.shape {
            ResultShape::Grains | ResultShape::First => {
                self.recall_page(pipeline, recall, planned, &mut answer)
                    .await?;
                return Ok(answer);
            }
            ResultShape::Count => {
                let total = self.count_matches(&planned).await?;
                let value = match are_of_count(&planned.stages) {
                    true => total,
                    false => self.count_value(pipeline).await?,
                };
                answer.value = Some(Json::from(value));
                answer.total = total;
                return Ok(answer);
            }
            ResultShape::Values => {
                let values = self.extracted_values(pipeline).await?;
                answer.value = Some(Json::Array(values.into_iter().map(Json::from).collect()));
            }
            ResultShape::FirstValue => {
                let first = self.extracted_values(pipeline).await?.into_iter().next();
                answer.value = Some(first.map_or(Json::Null, Json::from));
            }
            ResultShape::Groups => {
                answer.groups = Some(self.groups(pipeline, recall, &planned).await?)
            }
        }
        answer.total = self.count_matches(&planned).await?;
        Ok(answer)
    }

    /// Fills `answer` with the grains of one page.
    async fn recall_page(
        &self,
        pipeline: Pipeline,
        recall: &Recall,
        planned: RecallPlan,
        answer: &mut Answer,
    ) -> Result<()> {
        let (hits, total) = self.page_of(pipeline, &planned).await?;
        answer.total = total;
        let hits = diversify(hits, &recall.options)?;
        let now_ms = self.executor.session.now_ms;
        response::fill(answer, &hits, recall, &planned.desugared, now_ms);
        Ok(())
    }

    /// Returns the number of matches. It is only counted where the page doesn't already show it.
    async fn total_matches(
        &self,
        limit: Option<u64>,
        has_offset: bool,
        returned: u64,
        planned: &RecallPlan,
    ) -> Result<u64> {
        match page_is_complete(limit, has_offset, returned) {
            true => Ok(returned),
            false => self.count_matches(planned).await,
        }
    }

    async fn count_matches(&self, planned: &RecallPlan) -> Result<u64> {
        let matched = match &planned.search {
            Some(search) => &search.matched,
            None => &planned.matched,
        };
        self.reader.count(matched.clone()).await
    }

    async fn extracted_values(&self, pipeline: Pipeline) -> Result<Vec<String>> {
        self.reader.texts(pipeline.into_frame(), VALUE).await
    }

    /// Returns the number in the one row of a counted pipeline.
    async fn count_value(&self, pipeline: Pipeline) -> Result<u64> {
        let counts = self
            .reader
            .texts(pipeline.into_frame(), pipeline::COUNT)
            .await?;
        Ok(counts
            .first()
            .and_then(|count| count.parse().ok())
            .unwrap_or_default())
    }

    /// Groups grains by the value of a field, in the order of the values.
    async fn groups(
        &self,
        pipeline: Pipeline,
        recall: &Recall,
        planned: &RecallPlan,
    ) -> Result<Vec<(String, Vec<ResultEntry>)>> {
        let Some(field) = pipeline.group else {
            return Ok(Vec::new());
        };
        let hits = self.hits_of(pipeline, planned).await?;
        let fields = response::selected_fields(recall);
        let mut groups: BTreeMap<String, Vec<ResultEntry>> = BTreeMap::new();
        for hit in &hits {
            if let Some(value) = value_of(hit, &field.into()) {
                let key = group_key(&value);
                let entry = response::entry(hit, fields.as_deref(), &planned.desugared);
                groups.entry(key).or_default().push(entry);
            }
        }
        Ok(groups.into_iter().collect())
    }

    async fn exists(&self, exists: &Exists) -> Result<Answer> {
        let address = target_address(&exists.target)?;
        Ok(Answer::of_value(
            self.reader.look_up(address).await?.is_some(),
        ))
    }

    /// Returns the answer of the first branch that has a result, or an empty one with the warnings
    /// of all branches.
    async fn coalesce(&self, coalesce: &Coalesce, scope: &LetScope) -> Result<Answer> {
        let mut empty = Answer::default();
        for (branch, recall) in coalesce.branches.iter().enumerate() {
            let answer = self.recall(recall, scope).await?;
            if answer.has_result() {
                return Ok(Answer {
                    branch: Some(branch),
                    ..answer
                });
            }
            empty.warnings.extend(answer.warnings);
        }
        Ok(empty)
    }

    /// Executes the entries of a BATCH. Each has its own answer or error; a failing entry doesn't
    /// affect the others.
    async fn batch(&self, batch: &Batch, scope: &LetScope) -> Result<Answer> {
        let mut entries = Vec::with_capacity(batch.entries.len());
        for entry in &batch.entries {
            let answer = match &entry.query {
                BatchQuery::Recall(recall) => self.recall(recall, scope).await,
                BatchQuery::Exists(exists) => self.exists(exists).await,
                BatchQuery::History(history) => self.history(history).await,
                BatchQuery::Describe(describe) => Ok(self.executor.describe(describe)),
                BatchQuery::Coalesce(coalesce) => self.coalesce(coalesce, scope).await,
            };
            let object = match answer {
                Ok(answer) => answer.to_object(),
                Err(error) => {
                    let error = self.executor.disclosed(error);
                    [("error", error.to_json())].into_iter().collect()
                }
            };
            entries.push((entry.label.clone(), Json::Object(object)));
        }
        Ok(Answer {
            entries: Some(entries),
            ..Answer::default()
        })
    }
}

/// Returns the pipeline of a planned RECALL with all its stages and the default limits.
fn pipeline_of(planned: &RecallPlan) -> Result<Pipeline> {
    Pipeline::new(planned.matched.clone())
        .apply_stages(&planned.stages)?
        .finish()
}

/// Returns a text unchanged, and any other value as canonical JSON.
fn group_key(value: &Json<'_>) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_canonical_string(), str::to_owned)
}

/// Returns true if a page of `returned` grains holds every match: it starts at the first match and
/// has fewer grains than its limit allows.
fn page_is_complete(limit: Option<u64>, has_offset: bool, returned: u64) -> bool {
    !has_offset && limit.is_some_and(|limit| returned < limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_below_its_limit_and_without_offset_is_complete() {
        assert!(page_is_complete(Some(20), false, 19));
        assert!(page_is_complete(Some(20), false, 0));
        assert!(!page_is_complete(Some(20), false, 20));
        assert!(!page_is_complete(Some(20), true, 19));
        assert!(!page_is_complete(None, false, 3));
    }
}
