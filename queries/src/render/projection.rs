//! Selects the text and the attributes that are rendered of a grain (CAL 1.0, section 10.3; digest,
//! sections 9.1 and 9.3).

use gristmill_schemas::json::Json;

use super::field_value::{time_of, value_of};
use super::grain::RenderGrain;
use super::text_format::{
    comma_joined, humanize, iso_date, iso_time, numbered, one_line, relative_time, text_of,
};
use super::{DetailLevel, RenderStyle};
use crate::cal::GrainType;
use crate::cal::ast::{Field, ProjectField, Projection};
use crate::cal::fields::{FieldKind, KnownField};

/// An attribute rendered in addition to the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// The name.
    pub name: String,
    /// The value as text.
    pub value: String,
    /// True if the value is a number or a boolean, which JSON and TOON write without quotes.
    pub is_literal: bool,
}

/// Text and attributes of a grain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectedGrain {
    /// Its type.
    pub grain_type: GrainType,
    /// Its text; `None` if a PROJECT names no field for it.
    pub content: Option<String>,
    /// The attributes, in order.
    pub attributes: Vec<Attribute>,
    /// Attributes that the summary level leaves out. TOON tables still have columns for some of
    /// them.
    pub hidden: Vec<Attribute>,
    /// Names of the attributes in a PROJECT clause, including those that the grain doesn't have.
    pub named: Vec<String>,
    /// True if a PROJECT clause determined the selection.
    pub is_explicit: bool,
}

impl ProjectedGrain {
    /// Returns the text, empty if there is none.
    pub fn content(&self) -> &str {
        self.content.as_deref().unwrap_or_default()
    }

    /// Returns the value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|attribute| attribute.name == name)
            .map(|attribute| attribute.value.as_str())
    }
}

/// Selects text and attributes by the PROJECT clause if there is one, otherwise by the type and
/// `style`.
pub fn project(
    grain: &(impl RenderGrain + ?Sized),
    projection: Option<&Projection>,
    style: &RenderStyle,
) -> ProjectedGrain {
    match projection {
        Some(projection) => explicit_projection(grain, projection, style),
        None => {
            let (attributes, hidden) = attributes(grain, style);
            ProjectedGrain {
                grain_type: grain.grain_type(),
                content: Some(content(grain)),
                attributes,
                hidden,
                named: Vec::new(),
                is_explicit: false,
            }
        }
    }
}

/// Returns the default text of a grain, which depends on its type.
pub fn content(grain: &(impl RenderGrain + ?Sized)) -> String {
    match grain.grain_type() {
        GrainType::Belief => {
            let relation = grain
                .field("relation")
                .map(text_of)
                .map(|relation| humanize(&relation));
            // An empty object is a value, before which the space remains.
            let parts = relation
                .into_iter()
                .chain(grain.field("object").map(text_of));
            parts.collect::<Vec<_>>().join(" ")
        }
        GrainType::Event => event_text(grain),
        GrainType::Goal => first(grain, &["object", "description"]),
        GrainType::Action => first(
            grain,
            &[
                "object",
                "content",
                "error",
                "stdout",
                "tool_description",
                "input",
            ],
        ),
        GrainType::Observation => first(grain, &["object", "content"]),
        GrainType::Reasoning => first(grain, &["conclusion"]),
        GrainType::State => list(grain, "plan"),
        GrainType::Workflow => list(grain, "steps"),
        GrainType::Consensus => first(grain, &["object", "agreed_content"]),
        GrainType::Consent => value_of(grain, &KnownField::Purpose.into())
            .map_or_else(String::new, |purpose| text_of(&purpose)),
    }
}

/// Returns the object of a grain, or the field that its type has in place of one; `None` if it is
/// empty.
pub fn object_of(grain: &(impl RenderGrain + ?Sized)) -> Option<String> {
    let text = match grain.grain_type() {
        GrainType::Goal | GrainType::Action | GrainType::Observation | GrainType::Consensus => {
            content(grain)
        }
        _ => grain.field("object").map_or_else(String::new, text_of),
    };
    (!text.is_empty()).then_some(text)
}

/// Returns the first field that isn't empty.
fn first(grain: &(impl RenderGrain + ?Sized), names: &[&str]) -> String {
    let texts = names
        .iter()
        .filter_map(|name| grain.field(name))
        .map(text_of);
    texts
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}

fn list(grain: &(impl RenderGrain + ?Sized), name: &str) -> String {
    grain.field(name).map_or_else(String::new, numbered)
}

/// Returns the content of an event, or else its text blocks.
fn event_text(grain: &(impl RenderGrain + ?Sized)) -> String {
    if let Some(content) = grain.field("content") {
        return text_of(content);
    }
    let blocks = grain
        .field("content_blocks")
        .and_then(Json::as_array)
        .unwrap_or_default();
    let is_text = |block: &&Json| block.get("type").and_then(Json::as_str) == Some("text");
    let texts = blocks
        .iter()
        .filter(is_text)
        .filter_map(|block| block.get("text"))
        .map(text_of);
    texts.collect::<Vec<_>>().join(" ")
}

/// Collects the attributes that the grain has.
struct AttributeCollector<'g, G: ?Sized> {
    grain: &'g G,
    style: &'g RenderStyle,
    attributes: Vec<Attribute>,
    hidden: Vec<Attribute>,
    /// If true, attributes are added to `hidden`.
    hiding: bool,
}

impl<G: RenderGrain + ?Sized> AttributeCollector<'_, G> {
    fn add(&mut self, name: &str, value: Option<String>, is_literal: bool) {
        let Some(value) = value else { return };
        let into = if self.hiding {
            &mut self.hidden
        } else {
            &mut self.attributes
        };
        into.push(Attribute {
            name: name.to_owned(),
            value,
            is_literal,
        });
    }

    /// Adds an attribute with the value of a payload field.
    fn payload(&mut self, name: &str, field: &str) {
        let value = self.grain.field(field);
        self.add(name, value.map(comma_joined), value.is_some_and(is_literal));
    }

    /// Adds attributes that the summary level leaves out.
    fn unless_summary(&mut self, add: impl FnOnce(&mut Self)) {
        self.hiding = self.style.level == DetailLevel::Summary;
        add(self);
        self.hiding = false;
    }

    fn time(&mut self, name: &str) {
        let text = format_time(time_of(self.grain), self.style);
        self.add(name, Some(text), false);
    }

    fn deadline(&mut self) {
        let deadline = self.grain.field("deadline");
        self.add(
            "deadline",
            deadline.map(|deadline| {
                deadline
                    .as_i64()
                    .map_or_else(|| text_of(deadline), iso_date)
            }),
            false,
        );
    }
}

/// Returns the attributes of a grain, and those that the summary level leaves out.
fn attributes(
    grain: &(impl RenderGrain + ?Sized),
    style: &RenderStyle,
) -> (Vec<Attribute>, Vec<Attribute>) {
    let mut out = AttributeCollector {
        grain,
        style,
        attributes: Vec::new(),
        hidden: Vec::new(),
        hiding: false,
    };
    match grain.grain_type() {
        GrainType::Belief => {
            out.payload("subject", "subject");
            out.unless_summary(|out| out.payload("confidence", "confidence"));
        }
        GrainType::Event => {
            out.payload("role", "role");
            out.unless_summary(|out| out.time("time"));
        }
        GrainType::Goal => {
            out.payload("subject", "subject");
            out.unless_summary(|out| {
                out.payload("state", "goal_state");
                out.deadline();
            });
        }
        GrainType::Action => {
            out.payload("tool", "tool_name");
            out.unless_summary(|out| out.add("phase", Some(phase(grain)), false));
        }
        GrainType::Observation => out.unless_summary(|out| out.payload("observer", "observer_id")),
        GrainType::Reasoning => out.unless_summary(|out| out.payload("type", "inference_method")),
        GrainType::State => out.unless_summary(|out| {
            let context =
                value_of(grain, &KnownField::Context.into()).map(|context| text_of(&context));
            out.add("context", context, false);
        }),
        GrainType::Workflow => out.unless_summary(|out| out.payload("trigger", "trigger")),
        GrainType::Consensus => out.unless_summary(|out| {
            out.payload("threshold", "threshold");
            out.payload("count", "agreement_count");
        }),
        GrainType::Consent => {
            out.add("action", consent_action(grain), false);
            out.payload("grantor", "subject_did");
            out.payload("grantee", "grantee_did");
        }
    }
    if style.level == DetailLevel::Full {
        out.payload("source", "source_type");
        out.time("observed");
        out.payload("importance", "importance");
        out.payload("tags", "structural_tags");
        out.add(
            "verification_status",
            grain.verification_status().map(one_line),
            false,
        );
    }
    (out.attributes, out.hidden)
}

/// Returns the stored phase; an action without one is complete.
fn phase(grain: &(impl RenderGrain + ?Sized)) -> String {
    grain
        .field("action_phase")
        .map_or_else(|| "completed".to_owned(), text_of)
}

fn consent_action(grain: &(impl RenderGrain + ?Sized)) -> Option<String> {
    let withdrawn = grain.field("is_withdrawal")?.as_bool()?;
    Some(if withdrawn { "withdrawn" } else { "granted" }.to_owned())
}

/// Formats a time as the style requires: ISO 8601 or relative.
pub fn format_time(at_ms: i64, style: &RenderStyle) -> String {
    if style.iso_timestamps {
        iso_time(at_ms)
    } else {
        relative_time(at_ms, style.now_ms)
    }
}

/// Selects exactly what a PROJECT clause names.
fn explicit_projection(
    grain: &(impl RenderGrain + ?Sized),
    projection: &Projection,
    style: &RenderStyle,
) -> ProjectedGrain {
    let content = (!projection.content.is_empty()).then(|| {
        let parts = rendered(&projection.content)
            .filter_map(|field| projected_value(grain, field, style, true));
        parts
            .map(|(text, _)| text)
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    });
    let attributes = rendered(&projection.attributes).filter_map(|field| {
        let (value, is_literal) = projected_value(grain, field, style, false)?;
        Some(Attribute {
            name: field.to_string(),
            value,
            is_literal,
        })
    });
    ProjectedGrain {
        grain_type: grain.grain_type(),
        content,
        attributes: attributes.collect(),
        hidden: Vec::new(),
        named: rendered(&projection.attributes)
            .map(ToString::to_string)
            .collect(),
        is_explicit: true,
    }
}

/// Returns the fields that may be rendered.
fn rendered(fields: &[ProjectField]) -> impl Iterator<Item = &ProjectField> {
    fields.iter().filter(|field| !is_internal(field))
}

/// Returns true for storage fields, which are never rendered, even if a query names them.
fn is_internal(field: &ProjectField) -> bool {
    matches!(
        field,
        ProjectField::Field(Field::Known(KnownField::Hash | KnownField::Namespace))
    )
}

/// Returns true for a number or a boolean.
fn is_literal(value: &Json) -> bool {
    value.as_number().is_some() || value.as_bool().is_some()
}

/// Returns a projected field as text, and whether it is a number or a boolean.
fn projected_value(
    grain: &(impl RenderGrain + ?Sized),
    field: &ProjectField,
    style: &RenderStyle,
    in_content: bool,
) -> Option<(String, bool)> {
    let plain = |value: &Json| {
        let text = if in_content {
            numbered(value)
        } else {
            comma_joined(value)
        };
        (text, is_literal(value))
    };
    match field {
        ProjectField::Field(Field::Known(KnownField::Relation)) => {
            Some((humanize(&text_of(grain.field("relation")?)), false))
        }
        ProjectField::Field(Field::Known(KnownField::Time)) => {
            Some((format_time(time_of(grain), style), false))
        }
        ProjectField::Field(Field::Known(KnownField::Content)) => Some((event_text(grain), false)),
        ProjectField::Field(Field::Known(KnownField::Object))
            if grain.field("object").is_none() =>
        {
            Some((object_of(grain)?, false))
        }
        ProjectField::Field(field) => {
            let value = value_of(grain, field)?;
            let is_time = field
                .spec()
                .is_some_and(|spec| spec.kind == FieldKind::Time);
            match value.as_i64().filter(|_| is_time) {
                Some(at) => Some((iso_date(at), false)),
                None => Some(plain(&value)),
            }
        }
        ProjectField::Extension(key) => grain.field(key).map(plain),
        ProjectField::Attribute(name) => attribute(grain, name, style),
    }
}

/// Returns an attribute by its name in the output, at any level of detail.
fn attribute(
    grain: &(impl RenderGrain + ?Sized),
    name: &str,
    style: &RenderStyle,
) -> Option<(String, bool)> {
    let full = RenderStyle {
        level: DetailLevel::Full,
        ..*style
    };
    let found = attributes(grain, &full)
        .0
        .into_iter()
        .find(|attribute| attribute.name == name)?;
    Some((found.value, found.is_literal))
}
