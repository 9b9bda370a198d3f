//! Renders one grain in each format (CAL 1.0, sections 10.4 and 14.2; digest, section 9.2).

use std::fmt::Write;

use gristmill_schemas::json::{Json, Object};

use super::RenderStyle;
use super::grain::RenderGrain;
use super::projection::ProjectedGrain;
use super::text_format::{humanize, text_of};
use crate::cal::GrainType;
use crate::cal::number::Number;

/// `<belief subject="alice">prefers dark mode</belief>`
///
/// Nothing is escaped, because SML has no escapes; a double quote in an attribute becomes an
/// apostrophe.
pub fn sml(projected: &ProjectedGrain, style: &RenderStyle) -> String {
    let safe = |text: &str| {
        if style.neutralize_tags {
            text.replace("</", "< /")
        } else {
            text.to_owned()
        }
    };
    let name = projected.grain_type.name();
    let mut out = format!("<{name}");
    for attribute in &projected.attributes {
        let _ = write!(
            out,
            " {}=\"{}\"",
            attribute.name,
            safe(&attribute.value).replace('"', "'")
        );
    }
    let _ = write!(out, ">{}</{name}>", safe(projected.content()));
    out
}

/// `alice prefers dark mode (confidence: 0.92)`, without a list marker.
pub fn markdown(projected: &ProjectedGrain) -> String {
    line(projected, "confidence: ")
}

/// `[belief] alice prefers dark mode (0.92)`
pub fn text(projected: &ProjectedGrain) -> String {
    format!("[{}] {}", projected.grain_type, line(projected, ""))
}

/// Writes lead, text and parenthetical. `confidence` is the prefix of a belief's confidence.
fn line(projected: &ProjectedGrain, confidence: &str) -> String {
    let mut out = String::new();
    if let Some(lead) = lead(projected) {
        // A belief reads as a sentence, other grains as a statement or act of the lead.
        out.push_str(&lead);
        out.push_str(if projected.grain_type == GrainType::Belief {
            " "
        } else {
            ": "
        });
    }
    out.push_str(projected.content());
    if let Some(parenthetical) = parenthetical(projected, confidence) {
        let _ = write!(out, " ({parenthetical})");
    }
    out
}

fn lead(projected: &ProjectedGrain) -> Option<String> {
    if projected.is_explicit {
        return None;
    }
    let attribute = |name| projected.attribute(name).map(str::to_owned);
    match projected.grain_type {
        GrainType::Belief | GrainType::Goal => attribute("subject"),
        GrainType::Event => attribute("role"),
        GrainType::Action => attribute("tool"),
        GrainType::Observation => attribute("observer"),
        GrainType::State => attribute("context"),
        GrainType::Workflow => attribute("trigger"),
        GrainType::Consent => joined([attribute("grantor"), attribute("grantee")], " -> "),
        GrainType::Reasoning | GrainType::Consensus => None,
    }
}

fn parenthetical(projected: &ProjectedGrain, confidence: &str) -> Option<String> {
    if projected.is_explicit {
        return named_attributes(projected);
    }
    let attribute = |name| projected.attribute(name).map(str::to_owned);
    match projected.grain_type {
        GrainType::Belief => attribute("confidence").map(|value| format!("{confidence}{value}")),
        GrainType::Goal => attribute("state"),
        GrainType::Event => attribute("time"),
        GrainType::Action => attribute("phase"),
        GrainType::Reasoning => attribute("type"),
        GrainType::Consensus => joined([attribute("count"), attribute("threshold")], "/"),
        GrainType::Consent => attribute("action"),
        GrainType::Observation | GrainType::State | GrainType::Workflow => None,
    }
}

/// Returns all attributes with their names; `None` if there are none.
fn named_attributes(projected: &ProjectedGrain) -> Option<String> {
    let pairs = projected
        .attributes
        .iter()
        .map(|attribute| format!("{}: {}", attribute.name, attribute.value));
    let pairs: Vec<String> = pairs.collect();
    (!pairs.is_empty()).then(|| pairs.join(", "))
}

fn joined(parts: [Option<String>; 2], separator: &str) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(separator))
}

/// Returns subject, relation in words and object, separated by tabs; `None` unless the grain has
/// all three. The object may be empty.
pub fn triple(grain: &(impl RenderGrain + ?Sized)) -> Option<String> {
    let part = |name| grain.field(name).map(text_of);
    let name = |name| part(name).filter(|text| !text.is_empty());
    Some(format!(
        "{}\t{}\t{}",
        name("subject")?,
        humanize(&name("relation")?),
        part("object")?
    ))
}

/// `{"type": …, attributes…, "content": …}`; numbers and booleans remain what they are.
pub fn json(projected: &ProjectedGrain) -> Object<'static> {
    let mut object = Object::new();
    object.insert("type", projected.grain_type.name());
    for attribute in &projected.attributes {
        let name = match attribute.name.as_str() {
            // A PROJECT of `type` means the type of the grain, which is written already.
            "type" if projected.is_explicit => continue,
            // The attribute `type` of a reasoning would collide with the type of the grain.
            "type" => "reasoning_type",
            name => name,
        };
        let text = attribute.value.as_str();
        let is_literal = attribute.is_literal
            && (matches!(text, "true" | "false") || Number::parse(text).is_some());
        let value = if is_literal {
            Json::parse(text.as_bytes()).map_or(Json::Null, Json::into_owned)
        } else {
            Json::from(text.to_owned())
        };
        object.insert(name.to_owned(), value);
    }
    if let Some(content) = &projected.content {
        object.insert("content", content.clone());
    }
    object
}
