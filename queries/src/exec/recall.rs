//! RECALL as one plan over `grains`.
//!
//! The plan first narrows the grains (namespace, type, conditions, supersession), then keeps of
//! each only its address, its score and what the stages need; grains are fetched by address when
//! the answer is known. Subqueries and LETs with an extractor are part of the plan: they become
//! joins.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::logical_expr::{Expr, col, lit};
use datafusion::prelude::DataFrame;
use futures::FutureExt;
use futures::future::BoxFuture;
use gristmill_engine::text::{Scorer, Terms};
use gristmill_schemas::columns::IdentityColumn;
use gristmill_schemas::grain::Field as GrainField;

use super::answer::Hit;
use super::columns::{ADDRESS, BLOB, SCORE, key_name, needs_state, single};
use super::condition;
use super::error::Result;
use super::grain_reader::GrainReader;
use super::pipeline::{Pipeline, VALUE, keys};
use super::{blob_functions, message_thread, search_statistics};
use crate::cal::ast::*;
use crate::cal::desugar::{Desugared, desugar};
use crate::cal::fields::{FieldKind, KnownField};
use crate::cal::{CalError, Code};

/// What LETs bind: plans of values, and grains.
#[derive(Clone, Default)]
pub(super) struct Scope {
    pub(super) values: BTreeMap<String, DataFrame>,
    pub(super) grains: BTreeMap<String, Arc<Grains>>,
}

/// The grains of a RECALL.
#[derive(Default)]
pub(super) struct Grains {
    /// The grains, in order.
    pub(super) hits: Vec<Hit>,
    /// The query that found them, without shortcuts.
    pub(super) plain: Recall,
}

/// A RECALL that is ready to run.
pub(super) struct RecallPlan {
    /// Every match: address, score and keys.
    pub(super) matched: DataFrame,
    /// What was searched for.
    pub(super) terms: Option<Terms>,
    /// The fields of the conditions.
    pub(super) fields: Vec<String>,
    /// The stages, shortcuts included.
    pub(super) stages: Vec<Stage>,
    /// The query whose plan it is, without shortcuts.
    pub(super) plain: Recall,
}

/// Plans RECALLs. One that only explains asks the store nothing: where the plan depends on what is
/// stored, it shows the plan for the usual case.
pub(super) struct RecallPlanner<'p, 'e> {
    pub(super) reader: &'p GrainReader<'e>,
    /// Planning reads nothing from the store.
    pub(super) explain_only: bool,
}

impl<'p, 'e> RecallPlanner<'p, 'e> {
    /// Plans `recall`; ABOUT becomes a search if there is no such subject.
    pub(super) async fn plan(&self, recall: &Recall, scope: &Scope) -> Result<RecallPlan> {
        let Desugared {
            recall: plain,
            fallback,
            thread_from,
        } = desugar(recall, self.reader.session.user.as_deref())?;
        let thread = match &thread_from {
            Some(address) => {
                Some(message_thread::around(self.reader, address, self.explain_only).await?)
            }
            None => None,
        };
        let planned = self.matches(plain, thread.clone(), scope).await?;
        match fallback {
            Some(fallback)
                if !self.explain_only && self.reader.is_empty(planned.matched.clone()).await? =>
            {
                self.matches(fallback, thread, scope).await
            }
            _ => Ok(planned),
        }
    }

    /// The values that a RECALL with an extractor yields, as a plan with the column [`VALUE`].
    pub(super) fn values<'a>(
        &'a self,
        query: &'a Recall,
        extract: crate::cal::vocabulary::Extractor,
        scope: &'a Scope,
    ) -> BoxFuture<'a, Result<DataFrame>> {
        async move {
            let mut query = query.clone();
            query.stages.push(Stage {
                kind: StageKind::Extract(extract),
                span: query.span,
            });
            let planned = self.plan(&query, scope).await?;
            Pipeline::new(planned.matched)
                .through(&planned.stages)?
                .into_values()
        }
        .boxed()
    }

    async fn matches(
        &self,
        plain: Recall,
        thread: Option<Expr>,
        scope: &Scope,
    ) -> Result<RecallPlan> {
        let stages = plain.stages.clone();
        let keys = keys(&stages);
        let mut frame = self.candidates(&plain).await?;
        if let Some(thread) = thread {
            frame = frame.filter(thread)?;
        }
        let sorted_by_state = keys.iter().any(|key| needs_state(&(*key).into()));
        if sorted_by_state
            || plain
                .conditions
                .iter()
                .any(|condition| needs_state(&condition.field))
        {
            frame = self.reader.with_state(frame, self.explain_only).await?;
        }
        let mut terms = None;
        let mut scores = Vec::new();
        for condition in &plain.conditions {
            match (&condition.field, &condition.test) {
                (Field::Known(KnownField::Score), test) => scores.push(Condition {
                    test: test.clone(),
                    ..condition.clone()
                }),
                (Field::Known(KnownField::Query), Test::Compare(_, Value::Text(text))) => {
                    if Terms::of(text).is_empty() {
                        // A search that says nothing finds nothing.
                        frame = frame.filter(lit(false))?;
                    }
                    // Several searches are one for all their words.
                    terms = Some(match terms {
                        Some(before) => format!("{before} {text}"),
                        None => text.clone(),
                    });
                }
                _ => frame = self.narrow(frame, condition, scope).await?,
            }
        }
        let terms = terms.map(|text| Terms::of(&text));
        let score = match &terms {
            Some(terms) => self.score(terms).await?,
            None => lit(1.0_f64),
        };
        if terms.is_some() {
            frame = frame.filter(score.clone().is_not_null())?;
        }
        // A superseded grain is left out late, when few are left to ask about.
        if !plain.options.contains(&WithOption::Superseded) {
            frame = self.reader.current(frame, self.explain_only).await?;
        }
        let mut columns = vec![col(ADDRESS), score.alias(SCORE)];
        columns.extend(keys.iter().map(|key| single(*key).alias(key_name(*key))));
        let mut matched = frame.select(columns)?;
        for condition in &scores {
            if let Some(filter) = condition::filter(condition, self.reader.session.now_ms)? {
                matched = matched.filter(filter)?;
            }
        }
        let fields = fields_of(&plain.conditions);
        Ok(RecallPlan {
            matched,
            terms,
            fields,
            stages,
            plain,
        })
    }

    /// The grains that conditions choose from.
    async fn candidates(&self, plain: &Recall) -> Result<DataFrame> {
        let mut frame = self.reader.visible().await?;
        if let Some(grain_type) = plain.grain_type {
            let byte = i16::from(grain_type as u8);
            frame = frame.filter(col(IdentityColumn::TypeByte.name()).eq(lit(byte)))?;
        }
        match within(
            plain.namespace.as_ref(),
            self.reader.session.namespace.is_some(),
        ) {
            Some(filter) => Ok(frame.filter(filter)?),
            None => Ok(frame),
        }
    }

    async fn narrow(
        &self,
        frame: DataFrame,
        condition: &Condition,
        scope: &Scope,
    ) -> Result<DataFrame> {
        match (&condition.field, &condition.test) {
            (Field::Known(KnownField::Namespace), Test::Compare(_, Value::Text(namespace))) => {
                // The session's namespace stands in the place of any that a statement names.
                match self.reader.session.namespace {
                    Some(_) => Ok(frame),
                    None => Ok(frame.filter(col("namespace").eq(lit(namespace.as_str())))?),
                }
            }
            (Field::Known(known), Test::Compare(_, Value::Text(text)))
                if known.spec().kind == FieldKind::Search =>
            {
                let words = blob_functions::has_words(Terms::of(text), searched(*known))
                    .call(vec![col(BLOB)]);
                Ok(frame.filter(words)?)
            }
            (Field::Known(KnownField::Hash), Test::Compare(_, Value::Hash(address)))
                if !self.explain_only =>
            {
                let named = match address.is_whole() {
                    true => Some(address.digits().to_owned()),
                    false => self.reader.look_up(address).await?,
                };
                Ok(frame.filter(
                    named.map_or_else(|| lit(false), |address| col(ADDRESS).eq(lit(address))),
                )?)
            }
            (_, Test::In(InSet::Subquery(subquery))) => {
                let values = self
                    .values(&subquery.query, subquery.extract, scope)
                    .await?;
                condition::one_of(frame, condition, values)
            }
            (_, Test::In(InSet::Values(values)))
                if values
                    .iter()
                    .any(|value| matches!(value, Value::Parameter(_))) =>
            {
                let values = self.members(values, scope)?;
                condition::one_of(frame, condition, values)
            }
            _ => match condition::filter(condition, self.reader.session.now_ms)? {
                Some(filter) => Ok(frame.filter(filter)?),
                None => Err(CalError::new(
                    Code::E020,
                    format!("\"{condition}\" can't be searched for."),
                )
                .at(condition.span)
                .into()),
            },
        }
    }

    /// Literals and the values of LETs as one plan.
    fn members(&self, values: &[Value], scope: &Scope) -> Result<DataFrame> {
        let mut literals = Vec::new();
        let mut plans = Vec::new();
        for value in values {
            match value {
                Value::Parameter(parameter) => {
                    let bound = scope
                        .values
                        .get(&parameter.name)
                        .ok_or_else(|| unbound(parameter))?;
                    plans.push(bound.clone().select(vec![col(VALUE)])?);
                }
                Value::Text(text) => literals.push(lit(text.as_str())),
                other => {
                    let message = format!("A list of texts can't hold {}.", other.kind());
                    return Err(CalError::new(Code::E020, message).into());
                }
            }
        }
        if !literals.is_empty() {
            plans.push(self.reader.values(literals)?);
        }
        let mut plans = plans.into_iter();
        let first = plans
            .next()
            .ok_or_else(|| CalError::new(Code::E002, "IN has no values."))?;
        plans.try_fold(first, |all, next| Ok(all.union(next)?))
    }

    /// How well a grain fits a search, weighed by all grains that the session may see.
    async fn score(&self, terms: &Terms) -> Result<Expr> {
        let statistics = match self.explain_only {
            false => search_statistics::search_statistics(self.reader, terms).await?,
            true => gristmill_engine::text::Statistics::new(terms.words().len()),
        };
        Ok(blob_functions::score(terms.clone(), Scorer::new(&statistics)).call(vec![col(BLOB)]))
    }
}

pub(super) fn unbound(parameter: &Parameter) -> CalError {
    CalError::new(
        Code::E008,
        format!(
            "\"${}\" is bound to nothing that can stand here.",
            parameter.name
        ),
    )
    .at(parameter.span)
}

/// What `IN …` leaves of the grains. A session of one namespace decides by itself: a name changes
/// nothing, a scope that the namespace isn't in leaves nothing. A session over the whole lake may
/// narrow itself.
pub(super) fn within(scope: Option<&NamespaceScope>, session_decides: bool) -> Option<Expr> {
    match scope? {
        NamespaceScope::Exactly(_) if session_decides => None,
        NamespaceScope::Exactly(name) => Some(col("namespace").eq(lit(name.as_str()))),
        NamespaceScope::Below(name) => {
            let below = datafusion::functions::expr_fn::starts_with(
                col("namespace"),
                lit(format!("{name}:")),
            );
            Some(col("namespace").eq(lit(name.as_str())).or(below))
        }
    }
}

/// The fields of the grain that a searched field of CAL stands for.
fn searched(field: KnownField) -> Vec<GrainField> {
    match field {
        KnownField::Content => vec![GrainField::Content, GrainField::ContentBlocks],
        KnownField::Plan => vec![GrainField::Plan],
        KnownField::Steps => vec![GrainField::Steps],
        KnownField::Premises => vec![GrainField::Premises],
        _ => Vec::new(),
    }
}

/// The names of the fields that conditions are about, each once. `namespace` isn't told.
fn fields_of(conditions: &[Condition]) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for condition in conditions
        .iter()
        .filter(|condition| condition.field != KnownField::Namespace.into())
    {
        let name = condition.field.to_string();
        if !fields.contains(&name) {
            fields.push(name);
        }
    }
    fields
}
