//! Builds the context of an ASSEMBLE from the grains of its sources: removes duplicates, shares the
//! budget, renders the rest (CAL 1.0, section 8.2).

use std::collections::{HashMap, HashSet};

use super::RenderStyle;
use super::budget::{SourceAllocation, budget_of, fill, priority_order, token_cost};
use super::custom_template::{CustomTemplate, SourceFacts, TemplateContext};
use super::document::{AssemblyHeading, GrainEntry, render_assembly};
use super::field_value::value_of;
use super::grain::RenderGrain;
use crate::cal::GrainType;
use crate::cal::ast::{
    Assemble, Budget, Field, FormatSpec, Projection, Source, SourceBody, WithOption,
};
use crate::cal::vocabulary::{BudgetUnit, Format};

/// One source with its grains, in order.
#[derive(Debug)]
pub struct SourceInput<'i, G> {
    /// Its label.
    pub label: Option<&'i str>,
    /// Its grains; empty if the source [failed](SourceInput::failed).
    pub grains: &'i [G],
    /// The PROJECT clause of its RECALL.
    pub projection: Option<&'i Projection>,
    /// True if the source could not be run; it gets no share of the budget.
    pub failed: bool,
}

impl<'i, G> SourceInput<'i, G> {
    /// Creates the input of a source that returned `grains`.
    pub fn of(source: &'i Source, grains: &'i [G]) -> Self {
        let projection = match &source.body {
            SourceBody::Recall(recall) => recall.projection(),
            SourceBody::Binding(_) => None,
        };
        SourceInput {
            label: source.label.as_deref(),
            grains,
            projection,
            failed: false,
        }
    }
}

/// Output form of the context.
#[derive(Debug, Clone, Copy)]
pub enum OutputLayout<'i> {
    /// A built-in format.
    Format(Format),
    /// A user's template.
    Template(&'i CustomTemplate<'i>),
}

/// Complete input of an assembly.
#[derive(Debug)]
pub struct AssemblyInput<'i, G> {
    /// The name of the context.
    pub name: Option<&'i str>,
    /// The text of the FOR clause.
    pub intent: Option<&'i str>,
    /// The sources in the order of FROM.
    pub sources: Vec<SourceInput<'i, G>>,
    /// The sources by priority, see [`super::budget::priority_order`].
    pub order: Vec<usize>,
    /// The budget, see [`super::budget::budget_of`].
    pub budget: Budget,
    /// `WITH dedup(field)`
    pub dedup: Option<&'i Field>,
    /// Rendering options.
    pub style: RenderStyle,
    /// Output form of the context.
    pub layout: OutputLayout<'i>,
}

impl<'i, G> AssemblyInput<'i, G> {
    /// Creates the input of `statement` for these sources, which are in the order of its FROM.
    /// `template` is the one that its FORMAT names or contains.
    pub fn of(
        statement: &'i Assemble,
        sources: Vec<SourceInput<'i, G>>,
        template: Option<&'i CustomTemplate<'i>>,
        now_ms: i64,
    ) -> Self {
        let layout = match (&statement.format, template) {
            (_, Some(template)) => OutputLayout::Template(template),
            (Some(FormatSpec::Format(format)), _) => OutputLayout::Format(*format),
            (Some(FormatSpec::Preset(preset)), _) => OutputLayout::Format(preset.format()),
            _ => OutputLayout::Format(Format::Sml),
        };
        let tokens = statement
            .budget
            .filter(|budget| budget.unit == BudgetUnit::Tokens);
        AssemblyInput {
            name: statement.name.as_deref(),
            intent: statement.intent.as_deref(),
            sources,
            order: priority_order(statement),
            budget: budget_of(statement),
            dedup: statement.options.iter().find_map(|option| match option {
                WithOption::Dedup(field) => Some(field),
                _ => None,
            }),
            style: RenderStyle::new(
                now_ms,
                &statement.options,
                tokens.map(|budget| budget.amount),
            ),
            layout,
        }
    }
}

/// Reference to a grain of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrainRef {
    /// Index of its source in FROM.
    pub source: usize,
    /// Index of the grain in the source.
    pub grain: usize,
    /// Estimated tokens.
    pub tokens: u64,
}

/// Result of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceUsage {
    /// Initial share, in the unit of the budget.
    pub allocated: u64,
    /// Number of its grains that were included.
    pub included: usize,
    /// Number of duplicates that were dropped.
    pub duplicates: usize,
    /// Number of grains that exceeded the budget.
    pub cut: usize,
    /// Estimated tokens of the included grains.
    pub tokens_used: u64,
}

/// An assembled context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    /// The text for the model.
    pub text: String,
    /// The included grains, in priority order.
    pub grains: Vec<GrainRef>,
    /// The grains that exceeded the budget, in priority order.
    pub cut: Vec<GrainRef>,
    /// Results of the sources, in the order of FROM.
    pub sources: Vec<SourceUsage>,
    /// Estimated tokens of all included grains.
    pub tokens_used: u64,
    /// Used part of the budget, in its unit.
    pub used: u64,
    /// True if the output of a template was truncated.
    pub truncated: bool,
}

/// Assembles a context. Equal input gives equal bytes.
pub fn assemble<G: RenderGrain>(input: &AssemblyInput<'_, G>) -> Assembled {
    let runs = |at: &usize| input.sources.get(*at).is_some_and(|source| !source.failed);
    let order: Vec<usize> = input.order.iter().copied().filter(runs).collect();
    let kept: Vec<Vec<GrainRef>> = deduplicate(input, &order);
    let costs: Vec<Vec<u64>> = kept
        .iter()
        .map(|grains| {
            grains
                .iter()
                .map(|placed| cost(input.budget, placed))
                .collect()
        })
        .collect();
    let filled = fill(u64::from(input.budget.amount), &costs);
    let mut chosen = BudgetSelection {
        shown: Vec::new(),
        cut: Vec::new(),
        outcomes: vec![SourceUsage::default(); input.sources.len()],
    };
    for ((source, grains), filled) in order.into_iter().zip(kept).zip(filled) {
        let duplicates = input.sources[source].grains.len() - grains.len();
        chosen.add(source, grains, filled, duplicates);
    }
    chosen.write(input)
}

/// Returns the estimated tokens of all grains of the sources, which decides whether a compact
/// format is worthwhile.
pub fn estimate<G: RenderGrain>(input: &AssemblyInput<'_, G>) -> u64 {
    deduplicate(input, &input.order)
        .iter()
        .flatten()
        .map(|placed| placed.tokens)
        .sum()
}

/// Returns true if an ASSEMBLE without FORMAT should use `toon` (CAL 1.0, section 10.9.5, for
/// servers that opt in and then report W005): its BUDGET is in tokens, the estimate exceeds 85 % of
/// it, and no source mixes types.
pub fn auto_toon<G: RenderGrain>(input: &AssemblyInput<'_, G>) -> bool {
    let one_type = |source: &SourceInput<'_, G>| {
        source
            .grains
            .windows(2)
            .all(|pair| pair[0].grain_type() == pair[1].grain_type())
    };
    input.budget.unit == BudgetUnit::Tokens
        && estimate(input) * 100 > u64::from(input.budget.amount) * 85
        && input.sources.iter().all(one_type)
}

/// Returns the cost of a grain in the unit of the budget.
fn cost(budget: Budget, placed: &GrainRef) -> u64 {
    match budget.unit {
        BudgetUnit::Tokens => placed.tokens,
        BudgetUnit::Grains => 1,
    }
}

/// Returns the grains of the sources in `order` without duplicates of sources with higher priority:
/// the same address, or with `dedup` the same type and value. Grains of one source are not
/// duplicates of each other by value, and grains without the value are kept.
fn deduplicate<G: RenderGrain>(
    input: &AssemblyInput<'_, G>,
    order: &[usize],
) -> Vec<Vec<GrainRef>> {
    let mut addresses: HashSet<&str> = HashSet::new();
    // The first source that has a value.
    let mut values: HashMap<(GrainType, String), usize> = HashMap::new();
    let mut kept = Vec::with_capacity(order.len());
    for &source in order {
        let mut of_source = Vec::new();
        for (at, grain) in input.sources[source].grains.iter().enumerate() {
            let value = input
                .dedup
                .and_then(|field| value_of(grain, field))
                .map(|value| value.to_canonical_string());
            let is_new = value.is_none_or(|value| {
                *values.entry((grain.grain_type(), value)).or_insert(source) == source
            });
            if is_new && addresses.insert(grain.address()) {
                of_source.push(price(input, source, at));
            }
        }
        kept.push(of_source);
    }
    kept
}

/// Returns a reference to a grain with its estimated tokens in the requested layout.
fn price<G: RenderGrain>(input: &AssemblyInput<'_, G>, source: usize, grain: usize) -> GrainRef {
    let placed = GrainRef {
        source,
        grain,
        tokens: 0,
    };
    let tokens = match input.layout {
        OutputLayout::Format(format) => {
            token_cost(&entry(input, placed).element(format, &input.style))
        }
        OutputLayout::Template(template) => {
            let nothing = BudgetSelection {
                shown: Vec::new(),
                cut: Vec::new(),
                outcomes: vec![SourceUsage::default(); input.sources.len()],
            };
            token_cost(&nothing.in_context(input, 0, |context| template.cost_text(context, placed)))
        }
    };
    GrainRef { tokens, ..placed }
}

/// Grains that the budget includes and excludes.
struct BudgetSelection {
    /// Included grains by source, in priority order.
    shown: Vec<(usize, Vec<GrainRef>)>,
    cut: Vec<GrainRef>,
    /// In the order of FROM.
    outcomes: Vec<SourceUsage>,
}

impl BudgetSelection {
    fn add(
        &mut self,
        source: usize,
        mut grains: Vec<GrainRef>,
        filled: SourceAllocation,
        duplicates: usize,
    ) {
        let cut = grains.split_off(filled.included);
        self.outcomes[source] = SourceUsage {
            allocated: filled.allocated,
            included: filled.included,
            duplicates,
            cut: cut.len(),
            tokens_used: grains.iter().map(|placed| placed.tokens).sum(),
        };
        self.shown.push((source, grains));
        self.cut.extend(cut);
    }

    fn write<G: RenderGrain>(self, input: &AssemblyInput<'_, G>) -> Assembled {
        let grains: Vec<GrainRef> = self
            .shown
            .iter()
            .flat_map(|(_, grains)| grains.iter().copied())
            .collect();
        let tokens_used = grains.iter().map(|placed| placed.tokens).sum();
        let used = used_part(input.budget.unit, &grains, tokens_used);
        let (text, truncated) = match input.layout {
            OutputLayout::Format(format) => (format_context(input, format, &grains, used), false),
            OutputLayout::Template(template) => {
                self.in_context(input, used, |context| template.render(context))
            }
        };
        Assembled {
            text,
            grains,
            cut: self.cut,
            sources: self.outcomes,
            tokens_used,
            used,
            truncated,
        }
    }

    /// Calls `render` with the template variables of this selection.
    fn in_context<G: RenderGrain, T>(
        &self,
        input: &AssemblyInput<'_, G>,
        used: u64,
        render: impl FnOnce(&TemplateContext<'_, G>) -> T,
    ) -> T {
        let grain = |placed: GrainRef| &input.sources[placed.source].grains[placed.grain];
        let make_entry = |placed: GrainRef| entry(input, placed);
        let sources = input.sources.iter().zip(&self.outcomes).enumerate();
        let sources = sources.map(|(at, (source, outcome))| SourceFacts {
            label: source.label,
            rank: rank_of(input, at),
            included: outcome.included,
            tokens_used: outcome.tokens_used,
            truncated: outcome.cut > 0,
        });
        render(&TemplateContext {
            name: input.name,
            intent: input.intent,
            budget: input.budget,
            used,
            style: &input.style,
            sources: sources.collect(),
            grain: &grain,
            make_entry: &make_entry,
            shown: &self.shown,
            cut: &self.cut,
        })
    }
}

/// Returns the used part of a budget in `unit`: that of `grains` with `tokens` tokens.
fn used_part(unit: BudgetUnit, grains: &[GrainRef], tokens: u64) -> u64 {
    match unit {
        BudgetUnit::Tokens => tokens,
        BudgetUnit::Grains => grains.len() as u64,
    }
}

/// Returns the position of a source in the order of priority.
fn rank_of<G>(input: &AssemblyInput<'_, G>, source: usize) -> usize {
    let mut order = input.order.iter();
    order
        .position(|&ordered| ordered == source)
        .unwrap_or(source)
}

/// Renders the included grains in a built-in format; `used` is the used part of the budget.
fn format_context<G: RenderGrain>(
    input: &AssemblyInput<'_, G>,
    format: Format,
    grains: &[GrainRef],
    used: u64,
) -> String {
    let entries: Vec<GrainEntry> = grains.iter().map(|placed| entry(input, *placed)).collect();
    let heading = AssemblyHeading {
        name: input.name,
        intent: input.intent,
        unit: input.budget.unit,
        used,
        total: u64::from(input.budget.amount),
    };
    render_assembly(&heading, &entries, format, &input.style)
}

fn entry<G: RenderGrain>(input: &AssemblyInput<'_, G>, placed: GrainRef) -> GrainEntry {
    let source = &input.sources[placed.source];
    GrainEntry::new(
        &source.grains[placed.grain],
        source.projection,
        &input.style,
    )
}
