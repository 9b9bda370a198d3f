//! ASSEMBLE after its sources have run: duplicates go, the budget is shared, the rest is written
//! (CAL 1.0, section 8.2).

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

/// One source with its grains in order.
#[derive(Debug)]
pub struct SourceInput<'i, G> {
    /// Its label.
    pub label: Option<&'i str>,
    /// Its grains. A source that failed has none and [`SourceInput::failed`].
    pub grains: &'i [G],
    /// The PROJECT clause of its RECALL.
    pub projection: Option<&'i Projection>,
    /// It could not be run: it gets no share of the budget.
    pub failed: bool,
}

impl<'i, G> SourceInput<'i, G> {
    /// What `source` gave, which could be run.
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

/// How the context is written.
#[derive(Debug, Clone, Copy)]
pub enum OutputLayout<'i> {
    /// In a format.
    Format(Format),
    /// By a template.
    Template(&'i CustomTemplate<'i>),
}

/// Everything that an assembly depends on.
#[derive(Debug)]
pub struct AssemblyInput<'i, G> {
    /// The name of the context.
    pub name: Option<&'i str>,
    /// The FOR text.
    pub intent: Option<&'i str>,
    /// The sources in the order of FROM.
    pub sources: Vec<SourceInput<'i, G>>,
    /// The sources by priority, see [`super::budget::priority_order`].
    pub order: Vec<usize>,
    /// The budget, see [`super::budget::budget_of`].
    pub budget: Budget,
    /// `WITH dedup(field)`
    pub dedup: Option<&'i Field>,
    /// How grains are rendered.
    pub style: RenderStyle,
    /// How the context is written.
    pub layout: OutputLayout<'i>,
}

impl<'i, G> AssemblyInput<'i, G> {
    /// What `statement` asks for of these sources, which stand in the order of its FROM. `template`
    /// is the one that its FORMAT names or holds.
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

/// A grain by its place in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrainRef {
    /// The place of its source in FROM.
    pub source: usize,
    /// Its place in the source.
    pub grain: usize,
    /// Its estimated tokens.
    pub tokens: u64,
}

/// What became of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceUsage {
    /// What it was given, in the unit of the budget.
    pub allocated: u64,
    /// How many of its grains are shown.
    pub included: usize,
    /// How many duplicates were dropped.
    pub duplicates: usize,
    /// How many grains the budget cut.
    pub cut: usize,
    /// Estimated tokens of the shown grains.
    pub tokens_used: u64,
}

/// An assembled context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    /// The text for the model.
    pub text: String,
    /// The shown grains, in priority order.
    pub grains: Vec<GrainRef>,
    /// What became of each source, in the order of FROM.
    pub sources: Vec<SourceUsage>,
    /// Estimated tokens of all shown grains.
    pub tokens_used: u64,
    /// What of the budget is used, in its unit.
    pub used: u64,
    /// A template's output was cut at its cap.
    pub truncated: bool,
}

/// Puts a context together. The same input gives the same bytes.
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

/// Estimated tokens of everything that the sources have: what decides whether a compact format is
/// worth it.
pub fn estimate<G: RenderGrain>(input: &AssemblyInput<'_, G>) -> u64 {
    deduplicate(input, &input.order)
        .iter()
        .flatten()
        .map(|placed| placed.tokens)
        .sum()
}

/// True if an ASSEMBLE without FORMAT should use `toon` (CAL 1.0, section 10.9.5, for servers that
/// opt in; tell W005 then): its BUDGET is of tokens, the estimate is above 85 % of it, and no
/// source mixes types.
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

/// What a grain costs in the unit of the budget.
fn cost(budget: Budget, placed: &GrainRef) -> u64 {
    match budget.unit {
        BudgetUnit::Tokens => placed.tokens,
        BudgetUnit::Grains => 1,
    }
}

/// The grains of the sources in `order` that no more important source has: the same address
/// anywhere, or with `dedup` the same type and value. Grains of one source never knock each other
/// out by value, and grains without the value stay.
fn deduplicate<G: RenderGrain>(
    input: &AssemblyInput<'_, G>,
    order: &[usize],
) -> Vec<Vec<GrainRef>> {
    let mut addresses: HashSet<&str> = HashSet::new();
    // Which source has a value first.
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

/// A grain and its estimated tokens in the layout that is asked for.
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

/// What the budget decided.
struct BudgetSelection {
    /// Shown grains by source, in priority order.
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
        let used = match input.budget.unit {
            BudgetUnit::Tokens => tokens_used,
            BudgetUnit::Grains => grains.len() as u64,
        };
        let (text, truncated) = match input.layout {
            OutputLayout::Format(format) => {
                let entries: Vec<GrainEntry> =
                    grains.iter().map(|placed| entry(input, *placed)).collect();
                let heading = AssemblyHeading {
                    name: input.name,
                    intent: input.intent,
                    unit: input.budget.unit,
                    used,
                    total: u64::from(input.budget.amount),
                };
                (
                    render_assembly(&heading, &entries, format, &input.style),
                    false,
                )
            }
            OutputLayout::Template(template) => {
                self.in_context(input, used, |context| template.render(context))
            }
        };
        Assembled {
            text,
            grains,
            sources: self.outcomes,
            tokens_used,
            used,
            truncated,
        }
    }

    /// Calls `render` with what a template can tell of this choice.
    fn in_context<G: RenderGrain, T>(
        &self,
        input: &AssemblyInput<'_, G>,
        used: u64,
        render: impl FnOnce(&TemplateContext<'_, G>) -> T,
    ) -> T {
        let grain = |placed: GrainRef| &input.sources[placed.source].grains[placed.grain];
        let make_entry = |placed: GrainRef| entry(input, placed);
        let sources =
            input
                .sources
                .iter()
                .zip(&self.outcomes)
                .enumerate()
                .map(|(at, (source, outcome))| SourceFacts {
                    label: source.label,
                    rank: input
                        .order
                        .iter()
                        .position(|&ordered| ordered == at)
                        .unwrap_or(at),
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

fn entry<G: RenderGrain>(input: &AssemblyInput<'_, G>, placed: GrainRef) -> GrainEntry {
    let source = &input.sources[placed.source];
    GrainEntry::new(
        &source.grains[placed.grain],
        source.projection,
        &input.style,
    )
}
