//! Reads ASSEMBLE and DEFINE TEMPLATE from JSON.

use gristmill_schemas::json::{Json, Object};

use super::members::{
    NO_SPAN, array, members, name, number, optional, positive, required, string, text, with, word,
    wrong_shape,
};
use super::read::JsonReader;
use crate::cal::ast::*;
use crate::cal::check;
use crate::cal::error::{CalError, Code, Result};
use crate::cal::keywords::Keyword;
use crate::cal::template::{SectionReader, extends};
use crate::cal::vocabulary::{BudgetUnit, Format, Preset, SectionName, StreamEvent};

const ASSEMBLE_KEYS: [&str; 9] = [
    "statement",
    "name",
    "for",
    "from",
    "budget",
    "priority",
    "format",
    "stream",
    "with",
];

impl JsonReader {
    pub(super) fn definition(&mut self, json: &Json, outer: &[&str]) -> Result<TemplateDefinition> {
        let object = members(
            json,
            &with(&["statement", "name", "extends", "sections"], outer),
        )?;
        Ok(TemplateDefinition {
            name: required(object, "name", name)?,
            extends: optional(object, "extends", |preset| {
                extends(string(preset)?, NO_SPAN)
            })?,
            sections: required(object, "sections", sections)?,
            span: NO_SPAN,
        })
    }

    pub(super) fn assemble(&mut self, json: &Json, outer: &[&str]) -> Result<Assemble> {
        let object = members(json, &with(&ASSEMBLE_KEYS, outer))?;
        let assemble = Assemble {
            name: optional(object, "name", context_name)?,
            intent: optional(object, "for", |intent| {
                let intent = text(intent)?;
                check::intent(&intent, NO_SPAN)?;
                Ok(intent)
            })?,
            sources: required(object, "from", |from| self.sources(from))?,
            budget: optional(object, "budget", budget)?,
            priority: optional(object, "priority", |labels| array(labels, name))?
                .unwrap_or_default(),
            format: optional(object, "format", format_spec)?,
            stream: optional(object, "stream", stream)?,
            options: optional(object, "with", |list| {
                array(list, |option| self.option(option, None))
            })?
            .unwrap_or_default(),
            span: NO_SPAN,
        };
        check::assemble::whole_statement(&assemble)?;
        Ok(assemble)
    }

    fn sources(&mut self, json: &Json) -> Result<Vec<Source>> {
        let mut sources: Vec<Source> = Vec::new();
        array(json, |json| {
            check::assemble::sources(sources.len() + 1, NO_SPAN)?;
            let object = members(json, &["label", "query", "let"])?;
            let label = optional(object, "label", name)?;
            if let Some(label) = &label {
                check::assemble::label(&sources, label, NO_SPAN)?;
            }
            let body = self.source_body(object)?;
            sources.push(Source {
                label,
                body,
                span: NO_SPAN,
            });
            Ok(())
        })?;
        match sources.is_empty() {
            true => Err(CalError::new(
                Code::E002,
                "ASSEMBLE needs at least one source.",
            )),
            false => Ok(sources),
        }
    }

    fn source_body(&mut self, object: &Object) -> Result<SourceBody> {
        let query = optional(object, "query", |query| self.recall(query, &[], None))?;
        let binding = optional(object, "let", |name| {
            self.checker.parameter(string(name)?, NO_SPAN)
        })?;
        match (query, binding) {
            (Some(recall), None) => Ok(SourceBody::Recall(Box::new(recall))),
            (None, Some(parameter)) => Ok(SourceBody::Binding(parameter)),
            _ => Err(CalError::new(
                Code::E120,
                "A source has either \"query\" or \"let\".",
            )),
        }
    }
}

/// Returns a name that is valid after ASSEMBLE, where FOR and FROM are keywords.
fn context_name(json: &Json) -> Result<String> {
    let name = name(json)?;
    match Keyword::from_name(&name) {
        Some(Keyword::For | Keyword::From) => Err(CalError::new(
            Code::E002,
            format!("\"{name}\" can't name a context."),
        )),
        _ => Ok(name),
    }
}

fn budget(json: &Json) -> Result<Budget> {
    let object = members(json, &["n", "unit"])?;
    let amount = required(object, "n", positive)?;
    let unit = required(object, "unit", |unit| {
        word(unit, BudgetUnit::NAMES, BudgetUnit::from_name)
    })?;
    check::assemble::budget(amount, unit, NO_SPAN)
}

fn format_spec(json: &Json) -> Result<FormatSpec> {
    if json.as_str().is_some() {
        return format_or_preset(json);
    }
    let object = members(json, &["template", "template_body"])?;
    match (
        optional(object, "template", name)?,
        optional(object, "template_body", sections)?,
    ) {
        (Some(name), None) => Ok(FormatSpec::Template(name)),
        (None, Some(sections)) => Ok(FormatSpec::Inline(sections)),
        _ => Err(CalError::new(
            Code::E120,
            "Expected either \"template\" or \"template_body\".",
        )),
    }
}

/// Reads the name of a format or a preset.
fn format_or_preset(json: &Json) -> Result<FormatSpec> {
    let names: Vec<&str> = Format::NAMES.iter().chain(Preset::NAMES).copied().collect();
    word(json, &names, |name| {
        let format = Format::from_name(name).map(FormatSpec::Format);
        format.or_else(|| Preset::from_name(name).map(FormatSpec::Preset))
    })
}

fn sections(json: &Json) -> Result<Sections> {
    let object = json
        .as_object()
        .ok_or_else(|| wrong_shape("an object", json))?;
    let mut reader = SectionReader::default();
    for (key, value) in object.iter() {
        let name = SectionName::from_name(key).ok_or_else(|| {
            CalError::new(Code::E120, format!("Unknown section \"{key}\"."))
                .valid_values(SectionName::NAMES.iter().copied())
        })?;
        reader.begin(name, NO_SPAN)?;
        reader
            .finished_text(name, string(value)?)
            .map_err(|error| error.in_member(key))?;
    }
    if object.is_empty() {
        return Err(CalError::new(
            Code::E002,
            "A template has at least one section.",
        ));
    }
    Ok(reader.finish())
}

fn stream(json: &Json) -> Result<Stream> {
    let object = members(json, &["events", "chunk_size"])?;
    let events = optional(object, "events", |events| {
        array(events, |event| {
            let name = string(event)?;
            StreamEvent::from_name(name).ok_or_else(|| check::stream_option(name, NO_SPAN))
        })
    })?
    .unwrap_or_default();
    let chunk_size = optional(object, "chunk_size", |size| {
        check::chunk_size(&number(size)?, NO_SPAN)
    })?;
    match events.is_empty() && chunk_size.is_none() {
        true => Ok(Stream::all()),
        false => Ok(Stream { events, chunk_size }),
    }
}
