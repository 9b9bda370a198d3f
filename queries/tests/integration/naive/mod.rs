//! A reference executor of CAL, simple and slow: it reads every grain for every condition.
//!
//! Tests compare plans with it, and use it to render the grains of the conformance cases. It has no
//! ADD, SUPERSEDE and REVERT.

mod comparison;
mod conditions;
mod pipeline;

use std::collections::BTreeMap;

use gristmill_queries::cal::ast::*;
use gristmill_queries::cal::time::TimePoint;
use gristmill_queries::cal::vocabulary::{Format, SetOperator};
use gristmill_queries::cal::{CalError, Code, desugar};
use gristmill_queries::render::{
    AssemblyInput, CustomTemplate, GrainEntry, GrainView, RenderGrain, RenderStyle, SourceInput,
    assemble, render_recall,
};
use gristmill_schemas::json::{Json, Object};

use comparison::ordered;

/// A grain of the store.
pub struct Stored {
    pub key: String,
    pub view: GrainView<'static>,
    pub superseded_by: Option<String>,
}

/// All grains, and the session.
pub struct Store {
    pub grains: Vec<Stored>,
    pub now_ms: i64,
    pub namespace: String,
    pub user: Option<String>,
}

/// The result of a query.
#[derive(Debug, Default)]
pub struct Answer {
    /// Indexes of the grains, in order.
    pub grains: Vec<usize>,
    pub total: usize,
    pub value: Option<Json<'static>>,
    pub rows: Vec<Object<'static>>,
    pub groups: Option<BTreeMap<String, Vec<usize>>>,
    pub text: Option<String>,
    pub branch: Option<usize>,
    pub source_counts: BTreeMap<String, usize>,
}

impl Answer {
    /// Returns true if the pipeline has a result: a grain, a value, a count or a group.
    fn has_grains(&self) -> bool {
        let has_value = match &self.value {
            None | Some(Json::Null) => false,
            Some(Json::Array(values)) => !values.is_empty(),
            Some(value) => value.as_u64() != Some(0),
        };
        has_value
            || !self.grains.is_empty()
            || self
                .groups
                .as_ref()
                .is_some_and(|groups| !groups.is_empty())
    }
}

type Lists = BTreeMap<String, Vec<String>>;
type Scored = Vec<(usize, f64)>;
type Result<T> = std::result::Result<T, CalError>;

/// Bindings of a query: lists of values and lists of grains.
#[derive(Default, Clone)]
struct Scope {
    values: Lists,
    grains: BTreeMap<String, Vec<usize>>,
}

impl Store {
    /// Executes the query for a session of `user`.
    pub fn run(&self, query: &Query, user: Option<&str>) -> Result<Answer> {
        Session { store: self, user }.run(query)
    }
}

/// One execution.
struct Session<'s> {
    store: &'s Store,
    user: Option<&'s str>,
}

impl std::ops::Deref for Session<'_> {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.store
    }
}

impl Session<'_> {
    fn run(&self, query: &Query) -> Result<Answer> {
        let scope = self.bindings(&query.lets, &Scope::default())?;
        match &query.statement {
            Statement::Recall(recall) => self.recall(recall, &scope),
            Statement::Assemble(assemble) => self.assemble(assemble, &scope),
            Statement::SetOperation(operation) => {
                let scored = ordered(self.store, self.set_operation(operation, &scope)?);
                let grains: Vec<usize> = scored.iter().map(|(at, _)| *at).collect();
                Ok(Answer {
                    total: grains.len(),
                    grains,
                    ..Answer::default()
                })
            }
            Statement::Coalesce(coalesce) => {
                for (branch, recall) in coalesce.branches.iter().enumerate() {
                    let answer = self.recall(recall, &scope)?;
                    if answer.has_grains() {
                        return Ok(Answer {
                            branch: Some(branch),
                            ..answer
                        });
                    }
                }
                Ok(Answer::default())
            }
            Statement::Exists(exists) => Ok(Answer {
                value: Some(Json::from(self.find(&exists.target).is_ok())),
                ..Answer::default()
            }),
            Statement::History(history) => self.history(history),
            other => panic!("the naive executor doesn't run {}", other.name()),
        }
    }

    fn bindings(&self, lets: &[Let], outer: &Scope) -> Result<Scope> {
        let mut scope = outer.clone();
        for binding in lets {
            let answer = self.recall_unlimited(&binding.query, &scope)?;
            match binding.extract {
                Some(extract) => {
                    scope
                        .values
                        .insert(binding.name.clone(), self.extract(&answer, extract));
                }
                None => {
                    scope.grains.insert(
                        binding.name.clone(),
                        self.recall(&binding.query, &scope)?.grains,
                    );
                }
            }
        }
        Ok(scope)
    }

    /// Returns the grain of a target.
    fn find(&self, target: &Target) -> Result<usize> {
        let Target::Address(address) = target else {
            panic!("unbound target")
        };
        let visible = self
            .grains
            .iter()
            .enumerate()
            .filter(|(_, grain)| self.is_visible(grain));
        let mut found = visible
            .filter(|(_, grain)| grain.view.address.starts_with(address.digits()))
            .map(|(at, _)| at);
        found
            .next()
            .ok_or_else(|| CalError::new(Code::E046, "not found"))
    }

    fn is_visible(&self, grain: &Stored) -> bool {
        grain.view.field("namespace").and_then(Json::as_str) == Some(self.namespace.as_str())
    }

    fn history(&self, history: &History) -> Result<Answer> {
        let mut grains: Vec<usize> = match history {
            History::Versions { target, .. } => {
                let start = self.find(target)?;
                let linked = |older: usize, newer: usize| {
                    self.grains[older].superseded_by.as_deref()
                        == Some(self.grains[newer].view.address.as_str())
                };
                let mut chain = vec![start];
                loop {
                    let next = (0..self.grains.len()).find(|at| {
                        !chain.contains(at)
                            && chain
                                .iter()
                                .any(|member| linked(*at, *member) || linked(*member, *at))
                    });
                    match next {
                        Some(next) => chain.push(next),
                        None => break chain,
                    }
                }
            }
            History::Triple {
                subject,
                relation,
                as_of,
                ..
            } => {
                let is = |at: &usize, name: &str, value: &Value| {
                    self.grains[*at].view.field(name).and_then(Json::as_str) == value.as_text()
                };
                let until = as_of
                    .as_deref()
                    .map(|text| TimePoint::parse(text).unwrap().resolve(self.now_ms));
                let all = (0..self.grains.len()).filter(|at| self.is_visible(&self.grains[*at]));
                all.filter(|at| is(at, "subject", subject) && is(at, "relation", relation))
                    .filter(|at| {
                        until.is_none_or(|until| self.grains[*at].view.created_at() <= until)
                    })
                    .collect()
            }
        };
        grains.sort_by_key(|at| {
            let view = &self.grains[*at].view;
            (std::cmp::Reverse(view.created_at()), view.address.clone())
        });
        Ok(Answer {
            total: grains.len(),
            grains: self.after_successors(grains),
            ..Answer::default()
        })
    }

    /// Returns the versions in their order, except that each one comes after the one that
    /// superseded it.
    fn after_successors(&self, mut left: Vec<usize>) -> Vec<usize> {
        let mut placed = Vec::new();
        while !left.is_empty() {
            let waits = |at: usize| {
                let successor = self.grains[at].superseded_by.as_deref();
                let is_successor =
                    |other: usize| successor == Some(self.grains[other].view.address.as_str());
                left.iter()
                    .any(|other| *other != at && is_successor(*other))
            };
            let next = left.iter().position(|at| !waits(*at)).unwrap_or(0);
            placed.push(left.remove(next));
        }
        placed
    }

    fn set_operation(&self, operation: &SetOperation, scope: &Scope) -> Result<Scored> {
        let side = |operand: &SetOperand| {
            let scope = self.bindings(&operand.lets, scope)?;
            match &operand.body {
                SetBody::Recall(recall) => {
                    let answer = self.recall(recall, &scope)?;
                    Ok(answer.grains.into_iter().map(|at| (at, 1.0)).collect())
                }
                SetBody::SetOperation(inner) => self.set_operation(inner, &scope),
            }
        };
        let (left, right): (Scored, Scored) = (side(&operation.left)?, side(&operation.right)?);
        let score = |list: &Scored, at: usize| {
            list.iter()
                .find(|(one, _)| *one == at)
                .map(|(_, score)| *score)
        };
        Ok(match operation.operator {
            SetOperator::Union => {
                let all = left
                    .iter()
                    .chain(right.iter().filter(|(at, _)| score(&left, *at).is_none()));
                all.map(|&(at, own)| (at, own.max(score(&right, at).unwrap_or(own))))
                    .collect()
            }
            SetOperator::Intersect => left
                .iter()
                .filter_map(|&(at, own)| Some((at, own.min(score(&right, at)?))))
                .collect(),
            SetOperator::Except => left
                .iter()
                .copied()
                .filter(|(at, _)| score(&right, *at).is_none())
                .collect(),
        })
    }

    fn recall(&self, recall: &Recall, scope: &Scope) -> Result<Answer> {
        self.recall_with(recall, scope, true)
    }

    fn recall_unlimited(&self, recall: &Recall, scope: &Scope) -> Result<Vec<usize>> {
        Ok(self.recall_with(recall, scope, false)?.grains)
    }

    fn recall_with(&self, recall: &Recall, scope: &Scope, limited: bool) -> Result<Answer> {
        let plain = desugar(recall, self.user)?;
        let mut found = self.candidates(&plain.recall, plain.thread_from.as_ref(), scope)?;
        if let Some(fallback) = plain.fallback.as_ref().filter(|_| found.is_empty()) {
            found = self.candidates(fallback, plain.thread_from.as_ref(), scope)?;
        }
        let total = found.len();
        let found = ordered(self.store, found)
            .into_iter()
            .map(|(at, _)| at)
            .collect();
        let mut answer = self.stages(&plain.recall.stages, found, limited);
        answer.total = total;
        if let Some(format) = recall.format {
            answer.text = Some(self.render(&plain.recall, &answer.grains, format));
        }
        Ok(answer)
    }

    fn render(&self, recall: &Recall, grains: &[usize], format: Format) -> String {
        let style = RenderStyle::new(self.now_ms, &recall.options, None);
        let entry =
            |at: &usize| GrainEntry::new(&self.grains[*at].view, recall.projection(), &style);
        render_recall(
            &grains.iter().map(entry).collect::<Vec<_>>(),
            format,
            &style,
        )
    }

    fn assemble(&self, statement: &Assemble, scope: &Scope) -> Result<Answer> {
        let found: Vec<Vec<usize>> = statement
            .sources
            .iter()
            .map(|source| match &source.body {
                SourceBody::Recall(recall) => Ok(self.recall(recall, scope)?.grains),
                SourceBody::Binding(parameter) => Ok(scope.grains[&parameter.name].clone()),
            })
            .collect::<Result<_>>()?;
        let views: Vec<Vec<&GrainView>> = found
            .iter()
            .map(|grains| grains.iter().map(|at| &self.grains[*at].view).collect())
            .collect();
        let inline = match &statement.format {
            Some(FormatSpec::Inline(sections)) => Some(CustomTemplate::new(sections, None)?),
            _ => None,
        };
        let sources = statement
            .sources
            .iter()
            .zip(&views)
            .map(|(source, grains)| SourceInput::of(source, grains));
        let input = AssemblyInput::of(statement, sources.collect(), inline.as_ref(), self.now_ms);
        let assembled = assemble(&input);
        let labels = statement
            .sources
            .iter()
            .map(|source| source.label.clone().unwrap_or_default());
        Ok(Answer {
            grains: assembled
                .grains
                .iter()
                .map(|placed| found[placed.source][placed.grain])
                .collect(),
            source_counts: labels
                .zip(assembled.sources.iter().map(|source| source.included))
                .collect(),
            text: Some(assembled.text),
            ..Answer::default()
        })
    }
}
