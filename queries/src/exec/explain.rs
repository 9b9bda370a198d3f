//! EXPLAIN: what would be done. Nothing but indexes is read, and nothing is written, for it.
//!
//! Where a plan depends on what is stored, the usual case is shown: ABOUT without its fallback, a
//! beginning of an address as a range, a search with the statistics of no grains.

use datafusion::prelude::DataFrame;
use gristmill_schemas::json::{Json, Object};

use super::assembly::handed_down;
use super::error::Result;
use super::pipeline::Pipeline;
use super::recall::Scope;
use super::{Answer, QueryRun};
use crate::cal::ast::*;
use crate::cal::desugar::desugar;
use crate::render::budget::{allocate, budget_of, priority_order};
use crate::sql::index_notes;

impl QueryRun<'_, '_> {
    pub(super) async fn explain(
        &self,
        explained: &Explainable,
        lets: &[Let],
        scope: &Scope,
    ) -> Result<Answer> {
        let mut plan = Object::new();
        let statement = statement_of(explained);
        plan.insert("statement", statement.name());
        plan.insert("tier", u64::from(statement.effect().tier()));
        plan.insert("query", statement.to_string());
        let bindings = self.explain_lets(lets).await?;
        if !bindings.is_empty() {
            plan.insert("let", bindings);
        }
        for (key, value) in self.steps(explained, scope).await?.iter() {
            plan.insert(key.to_owned(), value.clone());
        }
        Ok(Answer {
            plan: Some(Json::Object(plan)),
            ..Answer::default()
        })
    }

    async fn explain_lets(&self, lets: &[Let]) -> Result<Vec<Json<'static>>> {
        let mut told = Vec::new();
        let mut scope = Scope::default();
        for binding in lets {
            let mut object = Object::new();
            object.insert("name", binding.name.clone());
            object.insert("plan", self.explain_recall(&binding.query, &scope).await?);
            told.push(Json::Object(object));
            scope = self.bindings(std::slice::from_ref(binding), &scope).await?;
        }
        Ok(told)
    }

    async fn steps(&self, explained: &Explainable, scope: &Scope) -> Result<Object<'static>> {
        let mut steps = Object::new();
        match explained {
            Explainable::Recall(recall) => {
                steps.insert("plan", self.explain_recall(recall, scope).await?);
            }
            Explainable::SetOperation(operation) => {
                steps.insert(
                    "logical_plan",
                    lines(self.combined(operation, scope).await?)?,
                );
            }
            Explainable::Assemble(assemble) => {
                steps.insert("sources", self.explain_sources(assemble, scope).await?);
            }
            Explainable::Coalesce(coalesce) => {
                let mut branches = Vec::new();
                for recall in &coalesce.branches {
                    branches.push(Json::Object(self.explain_recall(recall, scope).await?));
                }
                steps.insert("branches", Json::Array(branches));
            }
            Explainable::Batch(batch) => {
                let mut entries = Object::new();
                for entry in &batch.entries {
                    entries.insert(
                        entry.label.clone(),
                        self.explain_entry(&entry.query, scope).await?,
                    );
                }
                steps.insert("entries", entries);
            }
            Explainable::Add(_) => {
                steps.insert("steps", Json::Array(vec![Json::from("append a new grain")]));
            }
            Explainable::Supersede(_) => {
                let done = [
                    "look up the grain",
                    "check that it is a belief, current and not protected",
                    "append its next version",
                ];
                steps.insert(
                    "steps",
                    Json::Array(done.into_iter().map(Json::from).collect()),
                );
            }
            Explainable::Revert(_) => {
                let done = [
                    "look up the grain and the version before it",
                    "append that version over the newest one",
                ];
                steps.insert(
                    "steps",
                    Json::Array(done.into_iter().map(Json::from).collect()),
                );
            }
        }
        Ok(steps)
    }

    async fn explain_entry(&self, query: &BatchQuery, scope: &Scope) -> Result<Object<'static>> {
        let named = |statement: Statement| {
            [("statement", Json::from(statement.name()))]
                .into_iter()
                .collect()
        };
        Ok(match query {
            BatchQuery::Recall(recall) => self.explain_recall(recall, scope).await?,
            BatchQuery::Exists(exists) => named(Statement::Exists(exists.clone())),
            BatchQuery::History(history) => named(Statement::History(history.clone())),
            BatchQuery::Describe(describe) => named(Statement::Describe(describe.clone())),
            BatchQuery::Coalesce(coalesce) => named(Statement::Coalesce(coalesce.clone())),
        })
    }

    /// The query without shortcuts, and the plan that DataFusion would run.
    async fn explain_recall(&self, recall: &Recall, scope: &Scope) -> Result<Object<'static>> {
        let plain = desugar(recall, self.reader.session.user.as_deref())?;
        let planned = self.planner.plan(recall, scope).await?;
        let flow = Pipeline::new(planned.matched)
            .through(&planned.stages)?
            .finish()?;
        let mut plan = Object::new();
        plan.insert("query", plain.recall.to_string());
        if let Some(fallback) = &plain.fallback {
            plan.insert("if_empty", fallback.to_string());
        }
        let frame = flow.into_frame();
        // What the indexes spare is counted over the whole lake, so only who sees all of it is
        // shown that.
        let indexes = match self.reader.session.namespace {
            None => index_notes(&frame.clone().create_physical_plan().await?),
            Some(_) => Vec::new(),
        };
        plan.insert("logical_plan", lines(frame)?);
        if !indexes.is_empty() {
            plan.insert(
                "indexes",
                Json::Array(indexes.into_iter().map(Json::from).collect()),
            );
        }
        Ok(plan)
    }

    async fn explain_sources(
        &self,
        assemble: &Assemble,
        scope: &Scope,
    ) -> Result<Vec<Json<'static>>> {
        let order = priority_order(assemble);
        let shares = allocate(u64::from(budget_of(assemble).amount), order.len());
        let mut sources = Vec::new();
        for (source, share) in order
            .into_iter()
            .filter_map(|at| assemble.sources.get(at))
            .zip(shares)
        {
            let mut object = Object::new();
            if let Some(label) = &source.label {
                object.insert("label", label.clone());
            }
            object.insert("allocated", share);
            match &source.body {
                SourceBody::Recall(recall) => {
                    let recall = handed_down(recall, &assemble.options);
                    object.insert("plan", self.explain_recall(&recall, scope).await?)
                }
                SourceBody::Binding(parameter) => object.insert("let", parameter.name.clone()),
            };
            sources.push(Json::Object(object));
        }
        Ok(sources)
    }
}

fn statement_of(explained: &Explainable) -> Statement {
    match explained.clone() {
        Explainable::Recall(one) => Statement::Recall(one),
        Explainable::Assemble(one) => Statement::Assemble(one),
        Explainable::SetOperation(one) => Statement::SetOperation(one),
        Explainable::Add(one) => Statement::Add(one),
        Explainable::Supersede(one) => Statement::Supersede(one),
        Explainable::Revert(one) => Statement::Revert(one),
        Explainable::Batch(one) => Statement::Batch(one),
        Explainable::Coalesce(one) => Statement::Coalesce(one),
    }
}

/// The optimised plan, a line per node.
fn lines(frame: DataFrame) -> Result<Vec<Json<'static>>> {
    let plan = frame.into_optimized_plan()?;
    Ok(plan
        .display_indent()
        .to_string()
        .lines()
        .map(|line| Json::from(line.to_owned()))
        .collect())
}
