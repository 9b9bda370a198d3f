//! Grains in every output format: readings of the specification that its cases don't cover.

mod assemblies;
mod grains;
mod templates;

use gristmill_queries::cal::ast::{Assemble, FormatSpec, Statement};
use gristmill_queries::cal::{Options, parse};
use gristmill_queries::render::*;
use gristmill_schemas::json::Json;

/// 2026-01-15T12:00:00Z
const NOW: i64 = 1_768_478_400_000;

fn style() -> RenderStyle {
    RenderStyle::new(NOW, &[], None)
}

fn grain(json: &str) -> GrainView<'static> {
    let payload = Json::parse(json.as_bytes()).unwrap().into_owned();
    let address = format!(
        "{:064x}",
        json.len() as u64 * 7919 + json.bytes().map(u64::from).sum::<u64>()
    );
    GrainView::from_json(&address, payload.as_object().unwrap().clone()).unwrap()
}

fn belief(subject: &str, relation: &str, object: &str) -> GrainView<'static> {
    grain(&format!(
        r#"{{"type":"belief","subject":"{subject}","relation":"{relation}","object":"{object}","confidence":0.90,"created_at":{NOW}}}"#
    ))
}

/// Renders grains as the RECALL of `query` does.
fn rendered(query: &str, grains: &[GrainView]) -> String {
    let Statement::Recall(recall) = parse(query, Options::default()).unwrap().query.statement
    else {
        panic!("{query}")
    };
    let style = RenderStyle::new(NOW, &recall.options, None);
    let entries: Vec<GrainEntry> = grains
        .iter()
        .map(|grain| GrainEntry::new(grain, recall.projection(), &style))
        .collect();
    render_recall(&entries, recall.format.unwrap(), &style)
}

/// Runs an ASSEMBLE whose sources yield these grains.
fn assembled(query: &str, sources: &[Vec<GrainView<'static>>]) -> Assembled {
    let Statement::Assemble(statement) = parse(query, Options::default()).unwrap().query.statement
    else {
        panic!("{query}")
    };
    let template = match &statement.format {
        Some(FormatSpec::Inline(sections)) => Some(CustomTemplate::new(sections, None).unwrap()),
        _ => None,
    };
    assemble(&input(&statement, sources, template.as_ref()))
}

fn input<'i>(
    statement: &'i Assemble,
    sources: &'i [Vec<GrainView<'static>>],
    template: Option<&'i CustomTemplate<'i>>,
) -> AssemblyInput<'i, GrainView<'static>> {
    let found = statement
        .sources
        .iter()
        .zip(sources)
        .map(|(source, grains)| SourceInput::of(source, grains));
    AssemblyInput::of(statement, found.collect(), template, NOW)
}
