//! Renders many grains as one text (CAL 1.0, sections 10.4 and 14.2; digest, section 9.2; SML 1.0).

use std::fmt::Write;

use gristmill_schemas::json::{Json, Object};

use super::grain::RenderGrain;
use super::projection::{ProjectedGrain, project};
use super::text_format::one_line;
use super::{RenderStyle, element, toon, yaml};
use crate::cal::ast::Projection;
use crate::cal::check::field::capital;
use crate::cal::vocabulary::{BudgetUnit, Format};
use crate::cal::{GrainType, TypeName};

/// A grain prepared for rendering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrainEntry {
    /// Its text and attributes.
    pub projected: ProjectedGrain,
    /// Its triple in words; `None` if it has none.
    pub triple: Option<String>,
}

impl GrainEntry {
    /// Prepares a grain according to `style` and a PROJECT clause.
    pub fn new(
        grain: &(impl RenderGrain + ?Sized),
        projection: Option<&Projection>,
        style: &RenderStyle,
    ) -> GrainEntry {
        GrainEntry {
            projected: project(grain, projection, style),
            triple: element::triple(grain),
        }
    }

    /// Renders the grain alone, without indent or newline. This text determines its cost against a
    /// budget.
    pub fn element(&self, format: Format, style: &RenderStyle) -> String {
        match format {
            Format::Sml => element::sml(&self.projected, style),
            Format::Markdown => format!("- {}", element::markdown(&self.projected)),
            Format::Text => element::text(&self.projected),
            Format::Triples => self.triple.clone().unwrap_or_default(),
            Format::Json => Json::Object(element::json(&self.projected)).to_string(),
            Format::Yaml => yaml::item(&element::json(&self.projected)),
            Format::Toon => toon::row(&self.projected, style),
        }
    }
}

/// The heading of an assembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssemblyHeading<'h> {
    /// The name of the context.
    pub name: Option<&'h str>,
    /// The text of the FOR clause.
    pub intent: Option<&'h str>,
    /// Unit of the budget.
    pub unit: BudgetUnit,
    /// Used part of the budget.
    pub used: u64,
    /// The budget.
    pub total: u64,
}

/// Groups entries by type, in order of first appearance.
pub(super) fn grouped(entries: &[GrainEntry]) -> Vec<(GrainType, Vec<&GrainEntry>)> {
    let mut groups: Vec<(GrainType, Vec<&GrainEntry>)> = Vec::new();
    for entry in entries {
        let grain_type = entry.projected.grain_type;
        match groups.iter_mut().find(|(known, _)| *known == grain_type) {
            Some((_, group)) => group.push(entry),
            None => groups.push((grain_type, vec![entry])),
        }
    }
    groups
}

/// Renders the result of a RECALL, without a trailing newline.
pub fn render_recall(entries: &[GrainEntry], format: Format, style: &RenderStyle) -> String {
    match format {
        Format::Markdown => {
            let groups = grouped(entries).into_iter();
            let groups = groups.map(|(grain_type, group)| {
                let lines = group.iter().map(|entry| entry.element(format, style));
                format!(
                    "## {}\n{}",
                    capital(grain_type.plural()),
                    lines.collect::<Vec<_>>().join("\n")
                )
            });
            groups.collect::<Vec<_>>().join("\n\n")
        }
        Format::Sml => lines(entries.iter(), format, style),
        Format::Toon => toon::recall(entries, style),
        Format::Text | Format::Triples | Format::Json | Format::Yaml => {
            flat(entries, format, style)
        }
    }
}

/// Renders the result of an ASSEMBLE, without a trailing newline.
pub fn render_assembly(
    heading: &AssemblyHeading,
    entries: &[GrainEntry],
    format: Format,
    style: &RenderStyle,
) -> String {
    match format {
        Format::Sml => sml_context(heading, entries, style),
        Format::Markdown => markdown_context(heading, entries, style),
        Format::Toon => toon::assembly(heading, entries, style),
        Format::Text | Format::Triples | Format::Json | Format::Yaml => {
            flat(entries, format, style)
        }
    }
}

fn sml_context(heading: &AssemblyHeading, entries: &[GrainEntry], style: &RenderStyle) -> String {
    let mut out = match heading.intent {
        Some(intent) => format!(
            "<context intent=\"{}\">\n\n",
            one_line(intent).replace('"', "'")
        ),
        None => "<context>\n\n".to_owned(),
    };
    for (_, group) in grouped(entries) {
        for entry in group {
            let _ = writeln!(out, "  {}", entry.element(Format::Sml, style));
        }
        out.push('\n');
    }
    out + "</context>"
}

fn markdown_context(
    heading: &AssemblyHeading,
    entries: &[GrainEntry],
    style: &RenderStyle,
) -> String {
    let title = heading.intent.or(heading.name).map(one_line);
    let mut parts = vec![title.map_or_else(
        || "## Context".to_owned(),
        |title| format!("## Context: {title}"),
    )];
    parts.extend(grouped(entries).into_iter().map(|(grain_type, group)| {
        format!(
            "**{}**\n{}",
            capital(grain_type.plural()),
            lines(group.into_iter(), Format::Markdown, style)
        )
    }));
    parts.join("\n\n")
}

/// Renders one result in several formats: the member `formats` of a response, keyed by alias or
/// else by the name of the format. If a key occurs twice, the first is kept.
pub fn render_formats(
    wanted: &[(Option<&str>, Format)],
    render: impl Fn(Format) -> String,
) -> Object<'static> {
    let mut formats = Object::new();
    for &(alias, format) in wanted {
        let key = alias.unwrap_or(format.name());
        if !formats.contains_key(key) {
            formats.insert(key.to_owned(), render(format));
        }
    }
    formats
}

/// Renders the formats that are the same for RECALL and ASSEMBLE.
fn flat(entries: &[GrainEntry], format: Format, style: &RenderStyle) -> String {
    match format {
        Format::Json => {
            let objects = entries
                .iter()
                .map(|entry| Json::Object(element::json(&entry.projected)));
            Json::Array(objects.collect()).to_string()
        }
        Format::Yaml if entries.is_empty() => "[]".to_owned(),
        Format::Triples => entries
            .iter()
            .filter_map(|entry| entry.triple.clone())
            .collect::<Vec<_>>()
            .join("\n"),
        Format::Text => lines(
            grouped(entries).into_iter().flat_map(|(_, group)| group),
            format,
            style,
        ),
        _ => lines(entries.iter(), format, style),
    }
}

fn lines<'e>(
    entries: impl Iterator<Item = &'e GrainEntry>,
    format: Format,
    style: &RenderStyle,
) -> String {
    entries
        .map(|entry| entry.element(format, style))
        .collect::<Vec<_>>()
        .join("\n")
}
