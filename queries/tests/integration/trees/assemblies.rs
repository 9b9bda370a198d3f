//! Random ASSEMBLEs: sources, budgets, formats, templates, streams.

use gristmill_queries::cal::ast::*;
use gristmill_queries::cal::span::Span;
use gristmill_queries::cal::vocabulary::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::recalls::{Use, option, recall};
use super::values::{context_name, name, text};

fn section_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z <>=\"']{0,6}",
        Just("{{grain.type}}".to_owned()),
        Just("{{#grain.tags}}x{{/grain.tags}}".to_owned()),
        Just("{{! } }}".to_owned()),
        Just("{ nested }".to_owned()),
        Just("\n".to_owned()),
    ];
    vec(piece, 0..5).prop_map(|pieces| {
        let text = pieces.concat();
        if text.is_empty() || text.ends_with('\n') {
            text
        } else {
            text + "\n"
        }
    })
}

fn sections() -> impl Strategy<Value = Sections> {
    let section = (select(SectionName::ALL.to_vec()), section_text());
    vec(section, 1..4).prop_map(|list| {
        let mut sections = Sections::default();
        for (name, text) in list {
            sections.define(name, text);
        }
        sections
    })
}

fn format_spec() -> impl Strategy<Value = FormatSpec> {
    prop_oneof![
        select(Format::ALL.to_vec()).prop_map(FormatSpec::Format),
        select(Preset::ALL.to_vec()).prop_map(FormatSpec::Preset),
        name().prop_map(FormatSpec::Template),
        sections().prop_map(FormatSpec::Inline),
    ]
}

fn stream() -> impl Strategy<Value = Stream> {
    (
        vec(select(StreamEvent::ALL.to_vec()), 0..3),
        of(20u32..=1000),
    )
        .prop_map(
            |(events, chunk_size)| match events.is_empty() && chunk_size.is_none() {
                true => Stream::all(),
                false => Stream { events, chunk_size },
            },
        )
}

fn budget() -> impl Strategy<Value = Budget> {
    prop_oneof![
        (1u32..=16_000).prop_map(|amount| Budget {
            amount,
            unit: BudgetUnit::Tokens
        }),
        (1u32..=200).prop_map(|amount| Budget {
            amount,
            unit: BudgetUnit::Grains
        }),
    ]
}

pub(super) fn assemble() -> impl Strategy<Value = Assemble> {
    let source = (any::<bool>(), recall(1, Use::Grains));
    let head = (
        of(context_name()),
        of(text()),
        vec(source, 1..4),
        of(budget()),
        any::<bool>(),
    );
    (
        head,
        of(format_spec()),
        of(stream()),
        vec(option(None), 0..3),
    )
        .prop_map(|(head, format, stream, options)| {
            let (name, intent, sources, budget, with_priority) = head;
            let sources: Vec<Source> = sources
                .into_iter()
                .enumerate()
                .map(|(at, (labelled, recall))| Source {
                    label: labelled.then(|| format!("l{at}")),
                    body: SourceBody::Recall(Box::new(recall)),
                    span: Span::default(),
                })
                .collect();
            let labels = sources
                .iter()
                .rev()
                .filter_map(|source| source.label.clone());
            let priority = labels.take(if with_priority { 8 } else { 0 }).collect();
            Assemble {
                name,
                intent,
                sources,
                budget,
                priority,
                format,
                stream,
                options,
                span: Span::default(),
            }
        })
}

pub(super) fn definition() -> impl Strategy<Value = TemplateDefinition> {
    let presets = vec![Preset::Structured, Preset::Readable, Preset::Compact];
    (name(), of(select(presets)), sections()).prop_map(|(name, extends, sections)| {
        TemplateDefinition {
            name,
            extends,
            sections,
            span: Span::default(),
        }
    })
}
