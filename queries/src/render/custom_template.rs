//! Evaluates a user's template (CAL 1.0, sections 10.5 to 10.8; digest, section 10).

use super::assemble::GrainRef;
use super::document::GrainEntry;
use super::grain::RenderGrain;
use super::projection::object_of;
use super::text_format::{comma_joined, humanize, iso_time, relative_time, shortest_f64, text_of};
use super::{DetailLevel, RenderStyle};
use crate::cal::ast::{Budget, Sections};
use crate::cal::error::Result;
use crate::cal::limits;
use crate::cal::template::{BoundedOutput, Node, TemplateScope, Variable, evaluate, parse};
use crate::cal::vocabulary::{BudgetUnit, Format, Preset, SectionName};

/// Characters per token in estimates.
const CHARACTERS_PER_TOKEN: usize = 4;

/// A parsed template. Sections that it doesn't define come from its preset.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomTemplate<'t> {
    header: Option<Vec<Node<'t>>>,
    element: Option<Vec<Node<'t>>>,
    element_summary: Option<Vec<Node<'t>>>,
    element_omit: Option<Vec<Node<'t>>>,
    source_break: Option<Vec<Node<'t>>>,
    footer: Option<Vec<Node<'t>>>,
    preset: Preset,
}

impl<'t> CustomTemplate<'t> {
    /// Parses the sections of a template; without a preset it extends `readable`.
    ///
    /// # Errors
    /// E090 to E094, for sections that have not been checked.
    pub fn new(sections: &'t Sections, extends: Option<Preset>) -> Result<CustomTemplate<'t>> {
        let section = |name| sections.get(name).map(parse).transpose();
        Ok(CustomTemplate {
            header: section(SectionName::Header)?,
            element: section(SectionName::Element)?,
            element_summary: section(SectionName::ElementSummary)?,
            element_omit: section(SectionName::ElementOmit)?,
            source_break: section(SectionName::SourceBreak)?,
            footer: section(SectionName::Footer)?,
            preset: extends.unwrap_or(Preset::Readable),
        })
    }

    /// Returns the section that renders a grain; `None` if the preset's format applies.
    fn element(&self, level: DetailLevel) -> Option<&[Node<'t>]> {
        let summary = self
            .element_summary
            .as_ref()
            .filter(|_| level == DetailLevel::Summary);
        summary.or(self.element.as_ref()).map(Vec::as_slice)
    }

    /// Returns the format of grains without a section.
    fn preset_format(&self) -> Format {
        self.preset.format()
    }

    /// Renders one grain; this text determines its cost against a budget.
    pub(super) fn cost_text<G: RenderGrain>(
        &self,
        context: &TemplateContext<'_, G>,
        placed: GrainRef,
    ) -> String {
        let mut output = BoundedOutput::new(output_cap(context.budget));
        self.push_grain(context, placed, &mut output);
        let text = output.into_string();
        text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
    }

    fn push_grain<G: RenderGrain>(
        &self,
        context: &TemplateContext<'_, G>,
        placed: GrainRef,
        output: &mut BoundedOutput,
    ) {
        let scope = GrainScope {
            context,
            source: Some(placed.source),
            grains: &[placed],
            grain: Some(placed),
        };
        match self.element(context.style.level) {
            Some(nodes) => evaluate(nodes, &scope, output),
            None => {
                let entry = context.entry(placed);
                output.push(&entry.element(self.preset_format(), context.style));
                output.push("\n");
            }
        }
    }

    /// Renders the grains of a source that exceeded the budget.
    fn push_omitted<G: RenderGrain>(
        &self,
        context: &TemplateContext<'_, G>,
        source: usize,
        output: &mut BoundedOutput,
    ) {
        let Some(nodes) = &self.element_omit else {
            return;
        };
        for placed in context.omitted(source) {
            let scope = GrainScope {
                context,
                source: Some(source),
                grains: &[placed],
                grain: Some(placed),
            };
            evaluate(nodes, &scope, output);
        }
    }

    /// Renders the whole output; returns true if it was truncated.
    pub(super) fn render<G: RenderGrain>(
        &self,
        context: &TemplateContext<'_, G>,
    ) -> (String, bool) {
        let mut output = BoundedOutput::new(output_cap(context.budget));
        let all: Vec<GrainRef> = context
            .shown
            .iter()
            .flat_map(|(_, grains)| grains.iter().copied())
            .collect();
        push_section(&self.header, context, None, &all, &mut output);
        let mut first = true;
        for &(source, ref grains) in context.shown {
            if !grains.is_empty() && !std::mem::take(&mut first) {
                push_section(
                    &self.source_break,
                    context,
                    Some(source),
                    grains,
                    &mut output,
                );
            }
            for placed in grains {
                self.push_grain(context, *placed, &mut output);
            }
            self.push_omitted(context, source, &mut output);
        }
        push_section(&self.footer, context, None, &all, &mut output);
        let truncated = output.is_truncated();
        (output.into_string(), truncated)
    }
}

fn push_section<G: RenderGrain>(
    section: &Option<Vec<Node>>,
    context: &TemplateContext<'_, G>,
    source: Option<usize>,
    grains: &[GrainRef],
    output: &mut BoundedOutput,
) {
    if let Some(nodes) = section {
        evaluate(
            nodes,
            &GrainScope {
                context,
                source,
                grains,
                grain: None,
            },
            output,
        );
    }
}

/// Returns the limit of the output in characters: twice the budget. A budget in grains uses the
/// largest token budget.
fn output_cap(budget: Budget) -> usize {
    let tokens = match budget.unit {
        BudgetUnit::Tokens => budget.amount,
        BudgetUnit::Grains => limits::MAX_BUDGET_TOKENS,
    };
    2 * CHARACTERS_PER_TOKEN * tokens as usize
}

/// Template variables of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SourceFacts<'s> {
    pub label: Option<&'s str>,
    pub rank: usize,
    pub included: usize,
    pub tokens_used: u64,
    pub truncated: bool,
}

/// Input of all template variables.
pub(super) struct TemplateContext<'c, G> {
    pub name: Option<&'c str>,
    pub intent: Option<&'c str>,
    pub budget: Budget,
    pub used: u64,
    pub style: &'c RenderStyle,
    /// Facts of each source, in the order of FROM.
    pub sources: Vec<SourceFacts<'c>>,
    /// Access to a grain, and its rendering.
    pub grain: &'c dyn Fn(GrainRef) -> &'c G,
    pub make_entry: &'c dyn Fn(GrainRef) -> GrainEntry,
    /// Included grains by source, in priority order.
    pub shown: &'c [(usize, Vec<GrainRef>)],
    /// Grains that exceeded the budget.
    pub cut: &'c [GrainRef],
}

impl<G: RenderGrain> TemplateContext<'_, G> {
    fn entry(&self, placed: GrainRef) -> GrainEntry {
        (self.make_entry)(placed)
    }

    fn omitted(&self, source: usize) -> impl Iterator<Item = GrainRef> {
        self.cut
            .iter()
            .copied()
            .filter(move |placed| placed.source == source)
    }

    fn grain_count(&self) -> usize {
        self.shown.iter().map(|(_, grains)| grains.len()).sum()
    }

    fn assembly_value(&self, variable: Variable) -> Option<String> {
        let total = u64::from(self.budget.amount);
        match variable {
            Variable::AssemblyName => self.name.map(str::to_owned),
            Variable::AssemblyIntent => self.intent.map(str::to_owned),
            Variable::AssemblySourceCount => Some(self.sources.len().to_string()),
            Variable::AssemblyGrainCount => Some(self.grain_count().to_string()),
            Variable::BudgetTotal => Some(total.to_string()),
            Variable::BudgetUsed => Some(self.used.to_string()),
            Variable::BudgetRemaining => Some(total.saturating_sub(self.used).to_string()),
            Variable::BudgetUnit => Some(self.budget.unit.name().to_owned()),
            Variable::BudgetUtilization => shortest_f64(self.used as f64 / total as f64),
            Variable::DisclosureLevel => Some(self.style.level.name().to_owned()),
            Variable::Timestamp => Some(iso_time(self.style.now_ms)),
            _ => None,
        }
    }

    fn source_value(&self, index: usize, variable: Variable) -> Option<String> {
        let facts = self.sources.get(index)?;
        match variable {
            Variable::SourceLabel => facts.label.map(str::to_owned),
            Variable::SourceIndex => Some(index.to_string()),
            Variable::SourcePriority => Some((facts.rank + 1).to_string()),
            Variable::SourceGrainCount => Some(facts.included.to_string()),
            Variable::SourceTokensUsed => Some(facts.tokens_used.to_string()),
            Variable::SourceTruncated => Some(facts.truncated.to_string()),
            _ => None,
        }
    }

    fn grain_value(&self, placed: GrainRef, variable: Variable) -> Option<String> {
        let grain = (self.grain)(placed);
        let field = |name: &str| grain.field(name).map(text_of);
        match variable {
            Variable::GrainContent => Some(self.entry(placed).projected.content().to_owned()),
            Variable::GrainType => Some(grain.grain_type().name().to_owned()),
            Variable::GrainSubject => field("subject"),
            Variable::GrainRelation => field("relation"),
            Variable::GrainHumanizedRelation => {
                field("relation").map(|relation| humanize(&relation))
            }
            Variable::GrainObject => object_of(grain),
            Variable::GrainConfidence => field("confidence"),
            Variable::GrainImportance => field("importance"),
            Variable::GrainTags => grain.field("structural_tags").map(comma_joined),
            Variable::GrainCreatedAt => Some(iso_time(grain.created_at())),
            Variable::GrainRelativeTime => Some(relative_time(
                super::field_value::time_of(grain),
                self.style.now_ms,
            )),
            Variable::GrainScore => grain.score().and_then(shortest_f64),
            Variable::GrainHash => Some(format!("sha256:{}", grain.address())),
            Variable::GrainIsFull => Some((self.style.level == DetailLevel::Full).to_string()),
            Variable::GrainIsSummary => {
                Some((self.style.level == DetailLevel::Summary).to_string())
            }
            _ => None,
        }
    }
}

/// The variables in scope of one section.
struct GrainScope<'s, 'c, G> {
    context: &'s TemplateContext<'c, G>,
    source: Option<usize>,
    grains: &'s [GrainRef],
    grain: Option<GrainRef>,
}

impl<G: RenderGrain> TemplateScope for GrainScope<'_, '_, G> {
    fn value(&self, variable: Variable) -> Option<String> {
        let of_source = || self.context.source_value(self.source?, variable);
        let of_grain = || self.context.grain_value(self.grain?, variable);
        self.context
            .assembly_value(variable)
            .or_else(of_source)
            .or_else(of_grain)
    }

    fn grains(&self) -> usize {
        self.grains.len()
    }

    fn with_grain(&self, index: usize) -> Box<dyn TemplateScope + '_> {
        let grain = self.grains.get(index).copied();
        let source = grain.map(|placed| placed.source).or(self.source);
        Box::new(GrainScope {
            context: self.context,
            source,
            grains: self.grains,
            grain,
        })
    }
}
