//! ASSEMBLE: sources run at the same time, then a budget is shared among their grains and the
//! context is written.
//!
//! What its WITH says of how grains are found and told, it says to each of its sources.

use std::borrow::Cow;
use std::mem::discriminant;
use std::sync::Arc;

use futures::future::join_all;

use super::error::{ExecutionError, Result};
use super::recall::{Grains, Scope, unbound};
use super::{Answer, Hit, QueryRun, response};
use crate::cal::ast::*;
use crate::cal::template::registry::Registry;
use crate::cal::vocabulary::Format;
use crate::cal::{CalError, Code, Warning, WarningCode};
use crate::render::assemble::{GrainRef, auto_toon};
use crate::render::{
    AssemblyInput, CustomTemplate, OutputLayout, SourceInput, assemble, stream_events,
};

/// What a source yielded.
type SourceResult = Result<Arc<Grains>>;

impl QueryRun<'_, '_> {
    pub(super) async fn assemble(&self, statement: &Assemble, scope: &Scope) -> Result<Answer> {
        // A template that isn't there is told before anything is read.
        let sections = sections(statement, &self.executor.templates())?;
        let template = sections
            .as_ref()
            .map(|(sections, preset)| CustomTemplate::new(sections, *preset))
            .transpose()?;
        let running = statement
            .sources
            .iter()
            .map(|source| self.source(source, &statement.options, scope));
        let found: Vec<SourceResult> = join_all(running).await;
        let mut warnings = response::warnings(&options_without_dedup(&statement.options));
        warnings.extend(failures(statement, &found)?);
        let sources = statement
            .sources
            .iter()
            .zip(&found)
            .map(|(source, found)| SourceInput {
                failed: found.is_err(),
                ..SourceInput::of(
                    source,
                    found.as_ref().map_or(&[][..], |grains| &grains.hits),
                )
            });
        let now_ms = self.executor.session.now_ms;
        let mut input = AssemblyInput::of(statement, sources.collect(), template.as_ref(), now_ms);
        let may_choose = self.executor.session.auto_toon
            && statement.format.is_none()
            && statement.budget.is_some();
        if may_choose && auto_toon(&input) {
            input.layout = OutputLayout::Format(Format::Toon);
            let message = "The budget is tight, so the context is written as toon.".to_owned();
            warnings.push(Warning {
                code: WarningCode::W005,
                message,
                span: None,
            });
        }
        Ok(answer(statement, &input, &found, warnings))
    }

    async fn source(&self, source: &Source, options: &[WithOption], scope: &Scope) -> SourceResult {
        match &source.body {
            SourceBody::Recall(recall) => Ok(Arc::new(
                self.grains(&handed_down(recall, options), scope).await?,
            )),
            SourceBody::Binding(parameter) => Ok(Arc::clone(
                scope
                    .grains
                    .get(&parameter.name)
                    .ok_or_else(|| unbound(parameter))?,
            )),
        }
    }
}

/// `recall` as a source of an ASSEMBLE with these options: it takes over those that speak of how
/// grains are found and what is told of each, unless it says the same itself. The others are about
/// the context.
pub(super) fn handed_down<'r>(recall: &'r Recall, options: &[WithOption]) -> Cow<'r, Recall> {
    let of_grains = |option: &&WithOption| {
        matches!(
            option,
            WithOption::Superseded
                | WithOption::ScoreBreakdown
                | WithOption::Explanation
                | WithOption::Provenance
                | WithOption::ContradictionDetection
                | WithOption::Diversity(_)
        )
    };
    let said = |option: &&WithOption| {
        recall
            .options
            .iter()
            .any(|own| discriminant(own) == discriminant(*option))
    };
    let new: Vec<WithOption> = options
        .iter()
        .filter(of_grains)
        .filter(|option| !said(option))
        .cloned()
        .collect();
    if new.is_empty() {
        return Cow::Borrowed(recall);
    }
    let mut recall = recall.clone();
    recall.options.extend(new);
    Cow::Owned(recall)
}

/// The LETs of a query. Those that hold grains are sources of an ASSEMBLE, and take over its
/// options as others do.
pub(super) fn lets(query: &Query) -> Cow<'_, [Let]> {
    let (Statement::Assemble(assemble) | Statement::Explain(Explainable::Assemble(assemble))) =
        &query.statement
    else {
        return Cow::Borrowed(&query.lets);
    };
    let mut lets = query.lets.clone();
    for binding in lets.iter_mut().filter(|binding| binding.extract.is_none()) {
        if let Cow::Owned(recall) = handed_down(&binding.query, &assemble.options) {
            binding.query = recall;
        }
    }
    Cow::Owned(lets)
}

/// Writes the context and tells about it.
fn answer(
    statement: &Assemble,
    input: &AssemblyInput<'_, Hit>,
    found: &[SourceResult],
    warnings: Vec<Warning>,
) -> Answer {
    let assembled = assemble(input);
    let entry = |placed: &GrainRef| {
        let source = found.get(placed.source)?.as_ref().ok()?;
        Some(response::entry(
            source.hits.get(placed.grain)?,
            None,
            &source.plain,
        ))
    };
    let results: Vec<_> = assembled.grains.iter().filter_map(entry).collect();
    let counts = statement.sources.iter().zip(&assembled.sources).enumerate();
    let counts = counts.map(|(at, (source, outcome))| {
        (
            source.label.clone().unwrap_or_else(|| at.to_string()),
            outcome.included,
        )
    });
    let events = statement.stream.as_ref().map(|wanted| {
        let name = statement.name.as_deref().unwrap_or("assembly");
        stream_events::events(name, wanted, input, &assembled)
    });
    let format = match input.layout {
        OutputLayout::Format(format) => format.name(),
        OutputLayout::Template(_) => "template",
    };
    Answer {
        total: results.len() as u64,
        results,
        source_counts: Some(counts.collect()),
        events,
        tokens_used: assembled.tokens_used,
        context: Some((format.to_owned(), assembled.text)),
        warnings,
        ..Answer::default()
    }
}

/// The sources that failed, as warnings.
///
/// # Errors
/// E076 if all of them did; problems of the environment as they are.
fn failures(statement: &Assemble, found: &[SourceResult]) -> Result<Vec<Warning>> {
    let mut warnings = Vec::new();
    let mut first = None;
    for (source, error) in statement
        .sources
        .iter()
        .zip(found)
        .filter_map(|(source, found)| Some((source, found.as_ref().err()?)))
    {
        let label = source.label.as_deref().unwrap_or("without label");
        let message = format!("The source {label} failed and was left out: {error}");
        first.get_or_insert_with(|| error.to_string());
        warnings.push(Warning {
            code: WarningCode::W102,
            message,
            span: Some(source.span),
        });
    }
    match first {
        Some(why) if warnings.len() == found.len() => Err(ExecutionError::Cal(CalError::new(
            Code::E076,
            format!("All sources failed; the first because: {why}"),
        ))),
        _ => Ok(warnings),
    }
}

fn options_without_dedup(options: &[WithOption]) -> Vec<WithOption> {
    options
        .iter()
        .filter(|option| !matches!(option, WithOption::Dedup(_)))
        .cloned()
        .collect()
}

type Body = (Sections, Option<crate::cal::vocabulary::Preset>);

/// The template that FORMAT names or holds.
fn sections(statement: &Assemble, templates: &Registry) -> Result<Option<Body>> {
    Ok(match &statement.format {
        Some(FormatSpec::Inline(sections)) => Some((sections.clone(), None)),
        Some(FormatSpec::Template(name)) => {
            let definition = templates
                .get(name)
                .map_err(|error| error.at(statement.span))?;
            Some((definition.sections.clone(), definition.extends))
        }
        _ => None,
    })
}
