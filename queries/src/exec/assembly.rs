//! ASSEMBLE: runs the sources concurrently, shares a budget among their grains and renders the
//! context.
//!
//! Sources inherit the WITH options that concern grains; the other options concern the context.

use std::borrow::Cow;
use std::mem::discriminant;
use std::sync::Arc;

use futures::future::join_all;

use super::assembly_usage::AssemblyUsage;
use super::error::{ExecutionError, Result};
use super::recall::{LetScope, RecalledGrains, unbound_parameter};
use super::{Answer, Hit, QueryRun, response};
use crate::cal::ast::*;
use crate::cal::template::registry::Registry;
use crate::cal::vocabulary::{Format, Preset};
use crate::cal::{CalError, Code, Warning, WarningCode};
use crate::render::assemble::{GrainRef, auto_toon};
use crate::render::{
    AssemblyInput, CustomTemplate, OutputLayout, SourceInput, assemble, stream_events,
};

/// The result of one source.
type SourceResult = Result<Arc<RecalledGrains>>;

impl QueryRun<'_, '_> {
    pub(super) async fn assemble(&self, statement: &Assemble, scope: &LetScope) -> Result<Answer> {
        // An unknown or broken template is an error before anything is read.
        let sections = template_sections(statement, &self.executor.templates())?;
        let template = sections
            .as_ref()
            .map(|(sections, preset)| CustomTemplate::new(sections, *preset))
            .transpose()?;
        let running = statement
            .sources
            .iter()
            .map(|source| self.source(source, &statement.options, scope));
        let mut results: Vec<SourceResult> = join_all(running).await;
        let mut warnings = response::warnings(&options_without_dedup(&statement.options));
        warnings.extend(source_failures(statement, &results)?);
        let session = &self.executor.session;
        if !session.unreviewed {
            warnings.extend(without_unreviewed(&mut results));
        }
        let inputs = source_inputs(statement, &results);
        let mut input = AssemblyInput::of(statement, inputs, template.as_ref(), session.now_ms);
        let may_choose =
            session.auto_toon && statement.format.is_none() && statement.budget.is_some();
        if may_choose && auto_toon(&input) {
            input.layout = OutputLayout::Format(Format::Toon);
            warnings.push(Warning {
                code: WarningCode::W005,
                message: "The budget is tight, so the context is written as toon.".to_owned(),
                span: None,
            });
        }
        Ok(answer(statement, &input, &results, warnings))
    }

    /// Returns the grains of a source. Its error becomes a part of a warning or of another error,
    /// so it is already one that the session may see.
    async fn source(
        &self,
        source: &Source,
        options: &[WithOption],
        scope: &LetScope,
    ) -> SourceResult {
        match &source.body {
            SourceBody::Recall(recall) => {
                let recall = inherit_options(recall, options);
                let grains = self.recalled_grains(&recall, scope).await;
                grains
                    .map(Arc::new)
                    .map_err(|error| self.executor.disclosed(error))
            }
            SourceBody::Binding(parameter) => Ok(Arc::clone(
                scope
                    .grains
                    .get(&parameter.name)
                    .ok_or_else(|| unbound_parameter(parameter))?,
            )),
        }
    }
}

/// Removes reasoning that a human must review first from the sources. Returns a warning with the
/// number of removed grains, if there are any.
fn without_unreviewed(results: &mut [SourceResult]) -> Option<Warning> {
    let mut removed = 0;
    for grains in results.iter_mut().flatten() {
        let unreviewed = grains.hits.iter().filter(|hit| hit.needs_review()).count();
        if unreviewed > 0 {
            // A binding may be shared with other sources.
            let grains = Arc::make_mut(grains);
            grains.hits.retain(|hit| !hit.needs_review());
            removed += unreviewed;
        }
    }
    (removed > 0).then(|| Warning {
        code: WarningCode::W103,
        message: format!(
            "{removed} grains of reasoning that a human must review first were left out."
        ),
        span: None,
    })
}

fn source_inputs<'s>(
    statement: &'s Assemble,
    results: &'s [SourceResult],
) -> Vec<SourceInput<'s, Hit>> {
    let sources = statement.sources.iter().zip(results);
    let inputs = sources.map(|(source, result)| {
        let hits = result.as_ref().map_or(&[][..], |grains| &grains.hits);
        let recalled = result.as_ref().ok();
        SourceInput {
            failed: recalled.is_none(),
            // The PROJECT of a bound source is in the RECALL of its LET.
            projection: recalled.and_then(|grains| grains.desugared.projection()),
            ..SourceInput::of(source, hits)
        }
    });
    inputs.collect()
}

/// Returns `recall` as a source of an ASSEMBLE with these options: it inherits those that concern
/// the selection and annotation of grains, except for options that it sets itself.
pub(super) fn inherit_options<'r>(recall: &'r Recall, options: &[WithOption]) -> Cow<'r, Recall> {
    let sets_itself = |option: &WithOption| {
        recall
            .options
            .iter()
            .any(|own| discriminant(own) == discriminant(option))
    };
    let inherited: Vec<WithOption> = options
        .iter()
        .filter(|option| is_inherited(option) && !sets_itself(option))
        .cloned()
        .collect();
    if inherited.is_empty() {
        return Cow::Borrowed(recall);
    }
    let mut recall = recall.clone();
    recall.options.extend(inherited);
    Cow::Owned(recall)
}

/// Returns true for options that concern grains, and false for those that concern the context.
fn is_inherited(option: &WithOption) -> bool {
    matches!(
        option,
        WithOption::Superseded
            | WithOption::ScoreBreakdown
            | WithOption::Explanation
            | WithOption::Provenance
            | WithOption::ContradictionDetection
            | WithOption::Diversity(_)
    )
}

/// Returns the LETs of a query. Those of an ASSEMBLE that bind grains are its sources, so they
/// inherit its options.
pub(super) fn lets_with_inherited_options(query: &Query) -> Cow<'_, [Let]> {
    let (Statement::Assemble(assemble) | Statement::Explain(Explainable::Assemble(assemble))) =
        &query.statement
    else {
        return Cow::Borrowed(&query.lets);
    };
    let mut lets = query.lets.clone();
    for binding in lets.iter_mut().filter(|binding| binding.extract.is_none()) {
        if let Cow::Owned(recall) = inherit_options(&binding.query, &assemble.options) {
            binding.query = recall;
        }
    }
    Cow::Owned(lets)
}

/// Renders the context and describes it.
fn answer(
    statement: &Assemble,
    input: &AssemblyInput<'_, Hit>,
    results: &[SourceResult],
    warnings: Vec<Warning>,
) -> Answer {
    let assembled = assemble(input);
    let total = |result: &SourceResult| result.as_ref().map_or(0, |grains| grains.total);
    let matched: Vec<u64> = results.iter().map(total).collect();
    let entry = |placed: &GrainRef| {
        let source = results.get(placed.source)?.as_ref().ok()?;
        let hit = source.hits.get(placed.grain)?;
        Some(response::entry(hit, None, &source.desugared))
    };
    let entries: Vec<_> = assembled.grains.iter().filter_map(entry).collect();
    let events = statement.stream.as_ref().map(|stream| {
        let name = statement.name.as_deref().unwrap_or("assembly");
        stream_events::events(name, stream, input, &assembled)
    });
    let format = match input.layout {
        OutputLayout::Format(format) => format.name(),
        OutputLayout::Template(_) => "template",
    };
    Answer {
        total: entries.len() as u64,
        results: entries,
        assembly: Some(AssemblyUsage::of(statement, input, &matched, &assembled)),
        events,
        tokens_used: assembled.tokens_used,
        context: Some((format.to_owned(), assembled.text)),
        warnings,
        ..Answer::default()
    }
}

/// Returns a warning for each failed source.
///
/// # Errors
/// E076 if all sources failed.
fn source_failures(statement: &Assemble, results: &[SourceResult]) -> Result<Vec<Warning>> {
    let sources = statement.sources.iter().zip(results);
    let failed: Vec<(&Source, &ExecutionError)> = sources
        .filter_map(|(source, result)| Some((source, result.as_ref().err()?)))
        .collect();
    if let Some((_, error)) = failed.first().filter(|_| failed.len() == results.len()) {
        let message = format!("All sources failed; the first because: {error}");
        return Err(CalError::new(Code::E076, message).into());
    }
    let warnings = failed
        .into_iter()
        .map(|(source, error)| source_failure(source, error));
    Ok(warnings.collect())
}

fn source_failure(source: &Source, error: &ExecutionError) -> Warning {
    let label = source.label.as_deref().unwrap_or("without label");
    Warning {
        code: WarningCode::W102,
        message: format!("The source {label} failed and was left out: {error}"),
        span: Some(source.span),
    }
}

/// Removes dedup, which has an effect in an ASSEMBLE and needs no warning.
fn options_without_dedup(options: &[WithOption]) -> Vec<WithOption> {
    options
        .iter()
        .filter(|option| !matches!(option, WithOption::Dedup(_)))
        .cloned()
        .collect()
}

/// Returns the sections of the template that FORMAT names or contains.
fn template_sections(
    statement: &Assemble,
    templates: &Registry,
) -> Result<Option<(Sections, Option<Preset>)>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::testing::{query, recall};

    fn assembly(text: &str) -> Assemble {
        match query(text).statement {
            Statement::Assemble(assemble) => *assemble,
            other => panic!("{text} is a {}", other.name()),
        }
    }

    fn failed() -> SourceResult {
        Err(CalError::new(Code::E031, "slow").into())
    }

    #[test]
    fn a_source_inherits_options_about_grains_and_no_others() {
        let assemble =
            assembly("ASSEMBLE x FROM (RECALL) WITH superseded, provenance, dedup(subject)");
        let source = recall("RECALL beliefs");
        let inherited = inherit_options(&source, &assemble.options);
        assert_eq!(
            inherited.options,
            [WithOption::Superseded, WithOption::Provenance]
        );
    }

    #[test]
    fn an_option_of_the_source_overrides_the_inherited_one() {
        let assemble = assembly("ASSEMBLE x FROM (RECALL) WITH diversity(mmr)");
        let source = recall("RECALL beliefs WITH diversity(threshold, 0.5)");
        let inherited = inherit_options(&source, &assemble.options);
        assert_eq!(inherited.options, source.options);
        assert!(matches!(inherited, Cow::Borrowed(_)));
    }

    #[test]
    fn lets_of_grains_inherit_and_lets_of_values_do_not() {
        let query = query(
            "LET $v = RECALL beliefs | SUBJECTS; LET $g = RECALL WHERE subject IN ($v); \
             ASSEMBLE x FROM $g WITH superseded",
        );
        let lets = lets_with_inherited_options(&query);
        assert!(lets[0].query.options.is_empty());
        assert_eq!(lets[1].query.options, [WithOption::Superseded]);
    }

    #[test]
    fn one_failed_source_is_a_warning_and_all_of_them_an_error() {
        let statement = assembly("ASSEMBLE x FROM a: (RECALL), b: (RECALL)");
        let one = [failed(), Ok(Arc::default())];
        let warnings = source_failures(&statement, &one).unwrap();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].message.starts_with("The source a failed"));
        let all = [failed(), failed()];
        let error = source_failures(&statement, &all).unwrap_err();
        assert_eq!(error.code(), Code::E076.as_str());
    }
}
