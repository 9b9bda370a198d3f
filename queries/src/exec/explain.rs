//! EXPLAIN: shows the plan of a statement. It reads indexes at most, and writes nothing.
//!
//! Plans that depend on stored data are those for the common case, see
//! [`RecallPlanner::explain_only`](super::recall::RecallPlanner::explain_only).

use datafusion::prelude::DataFrame;
use gristmill_schemas::json::{Json, Object};

use super::assembly::inherit_options;
use super::error::Result;
use super::pipeline::Pipeline;
use super::recall::LetScope;
use super::{Answer, QueryRun};
use crate::cal::ast::*;
use crate::cal::desugar::desugar;
use crate::render::budget::{allocate, budget_of, priority_order};
use crate::sql::index_notes;

/// The steps of statements that aren't one plan.
const ADD_STEPS: &[&str] = &["append a new grain"];
const SUPERSEDE_STEPS: &[&str] = &[
    "look up the grain",
    "check that it is a belief, current and not protected",
    "append its next version",
];
const REVERT_STEPS: &[&str] = &[
    "look up the grain and the version before it",
    "append that version over the newest one",
];

impl QueryRun<'_, '_> {
    pub(super) async fn explain(
        &self,
        explained: &Explainable,
        lets: &[Let],
        scope: &LetScope,
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
        let (key, value) = self.explain_statement(explained, scope).await?;
        plan.insert(key, value);
        Ok(Answer {
            plan: Some(Json::Object(plan)),
            ..Answer::default()
        })
    }

    async fn explain_lets(&self, lets: &[Let]) -> Result<Vec<Json<'static>>> {
        let mut plans = Vec::new();
        let mut scope = LetScope::default();
        for binding in lets {
            let mut object = Object::new();
            object.insert("name", binding.name.clone());
            object.insert("plan", self.explain_recall(&binding.query, &scope).await?);
            plans.push(Json::Object(object));
            scope = self
                .evaluate_lets(std::slice::from_ref(binding), &scope)
                .await?;
        }
        Ok(plans)
    }

    /// Returns the member of the plan that is specific to the statement.
    async fn explain_statement(
        &self,
        explained: &Explainable,
        scope: &LetScope,
    ) -> Result<(&'static str, Json<'static>)> {
        Ok(match explained {
            Explainable::Recall(recall) => {
                let plan = self.explain_recall(recall, scope).await?;
                ("plan", Json::Object(plan))
            }
            Explainable::SetOperation(operation) => {
                let frame = self.plan_set_operation(operation, scope).await?;
                ("logical_plan", Json::Array(plan_lines(frame)?))
            }
            Explainable::Assemble(assemble) => {
                let sources = self.explain_sources(assemble, scope).await?;
                ("sources", Json::Array(sources))
            }
            Explainable::Coalesce(coalesce) => {
                let mut branches = Vec::new();
                for recall in &coalesce.branches {
                    branches.push(Json::Object(self.explain_recall(recall, scope).await?));
                }
                ("branches", Json::Array(branches))
            }
            Explainable::Batch(batch) => {
                let mut entries = Object::new();
                for entry in &batch.entries {
                    let plan = self.explain_entry(&entry.query, scope).await?;
                    entries.insert(entry.label.clone(), plan);
                }
                ("entries", Json::Object(entries))
            }
            Explainable::Add(_) => ("steps", steps(ADD_STEPS)),
            Explainable::Supersede(_) => ("steps", steps(SUPERSEDE_STEPS)),
            Explainable::Revert(_) => ("steps", steps(REVERT_STEPS)),
        })
    }

    async fn explain_entry(&self, query: &BatchQuery, scope: &LetScope) -> Result<Object<'static>> {
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

    /// Returns the desugared query, the logical plan and the use of indexes.
    async fn explain_recall(&self, recall: &Recall, scope: &LetScope) -> Result<Object<'static>> {
        let desugared = desugar(recall, self.reader.session.user.as_deref())?;
        let planned = self.planner.plan(recall, scope).await?;
        let pipeline = Pipeline::new(planned.matched)
            .apply_stages(&planned.stages)?
            .finish()?;
        let mut plan = Object::new();
        plan.insert("query", desugared.recall.to_string());
        if let Some(fallback) = &desugared.fallback {
            plan.insert("if_empty", fallback.to_string());
        }
        let frame = pipeline.into_frame();
        // Index statistics cover the whole lake, so only sessions that see all of it may read them.
        let indexes = match self.reader.session.namespace {
            None => index_notes(&frame.clone().create_physical_plan().await?),
            Some(_) => Vec::new(),
        };
        plan.insert("logical_plan", plan_lines(frame)?);
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
        scope: &LetScope,
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
                    let recall = inherit_options(recall, &assemble.options);
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

fn steps(steps: &[&'static str]) -> Json<'static> {
    Json::Array(steps.iter().copied().map(Json::from).collect())
}

/// Returns the optimised plan, one line for each node.
fn plan_lines(frame: DataFrame) -> Result<Vec<Json<'static>>> {
    let plan = frame.into_optimized_plan()?;
    Ok(plan
        .display_indent()
        .to_string()
        .lines()
        .map(|line| Json::from(line.to_owned()))
        .collect())
}
