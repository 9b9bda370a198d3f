//! Name resolution of fields (digest of CAL 1.0, section 4, "Resolution").

use gristmill_schemas::columns::SystemColumn;

use crate::cal::ast::{DomainField, DomainPrefix, Field, ProjectField};
use crate::cal::error::{CalError, Code, Result, WarningCode};
use crate::cal::fields::{FIELDS, FieldSource, KnownField, available};
use crate::cal::grain_type::{GrainType, TypeName};
use crate::cal::keywords::is_identifier;
use crate::cal::span::Span;
use crate::cal::suggest::nearest;

use super::Checker;

/// Output names of attributes, which PROJECT accepts (digest of CAL 1.0, section 9.1).
pub(crate) const ATTRIBUTES: &[&str] = &[
    "subject",
    "confidence",
    "role",
    "time",
    "state",
    "deadline",
    "tool",
    "phase",
    "observer",
    "type",
    "context",
    "trigger",
    "threshold",
    "count",
    "action",
    "grantor",
    "grantee",
    "source",
    "observed",
    "importance",
    "tags",
    "verification_status",
];

/// Returns the field `name` in a query over grains of `grain_type`.
///
/// # Errors
/// E060 for a field of another type, E061 for a field of one type in a query without type, E004 for
/// an unknown field.
pub(crate) fn resolve(name: &str, grain_type: Option<GrainType>, span: Span) -> Result<Field> {
    let field = KnownField::from_name(name).ok_or_else(|| unknown(name, grain_type).at(span))?;
    match (field.spec().owner, grain_type) {
        (None, _) => Ok(Field::Known(field)),
        (Some(owner), Some(declared)) if owner == declared => Ok(Field::Known(field)),
        (Some(owner), Some(declared)) => Err(of_other_type(field, owner, declared).at(span)),
        (Some(owner), None) => Err(without_type(field, owner).at(span)),
    }
}

/// Returns the field `prefix:name`. Warns about prefixes of no domain.
pub(crate) fn domain(checker: &mut Checker, prefix: &str, name: &str, span: Span) -> Field {
    if DomainPrefix::of(prefix).is_none() {
        let message =
            format!("\"{prefix}\" is no domain; the field is looked up as \"{prefix}:{name}\".");
        checker.warn(WarningCode::W003, message, span);
    }
    Field::Domain(DomainField {
        prefix: prefix.to_owned(),
        name: name.to_owned(),
    })
}

/// Returns a field of PROJECT: an attribute by its output name, an `x_` key, or any field that is
/// valid in a condition.
///
/// # Errors
/// Those of [`resolve`].
pub(crate) fn projected(
    name: &str,
    grain_type: Option<GrainType>,
    span: Span,
) -> Result<ProjectField> {
    if is_identifier(name) && name.starts_with("x_") {
        return Ok(ProjectField::Extension(name.to_owned()));
    }
    let here =
        |field: &KnownField| field.spec().owner.is_none() || field.spec().owner == grain_type;
    match KnownField::from_name(name).filter(here) {
        Some(field) => Ok(ProjectField::Field(field.into())),
        None if ATTRIBUTES.contains(&name) => Ok(ProjectField::Attribute(name.to_owned())),
        None => resolve(name, grain_type, span).map(ProjectField::Field),
    }
}

fn unknown(name: &str, grain_type: Option<GrainType>) -> CalError {
    let shown: String = name.chars().take(64).collect();
    let error = CalError::new(Code::E004, format!("Unknown field \"{shown}\"."))
        .valid_values(available(grain_type).map(|spec| spec.name));
    if let Some(own) = name_of_stored(name, grain_type) {
        return error.suggest(format!("In CAL its name is \"{own}\"."));
    }
    let near = nearest(name, available(grain_type).map(|spec| spec.name))
        .or_else(|| nearest(name, FIELDS.iter().map(|spec| spec.name)));
    match near {
        Some(meant) => error.suggest(format!("Did you mean \"{meant}\"?")),
        None => error,
    }
}

/// Returns the name in queries of a field that grains and SQL call `stored`, such as `time` for
/// `created_at`.
fn name_of_stored(stored: &str, grain_type: Option<GrainType>) -> Option<&'static str> {
    if stored == SystemColumn::ContentAddress.name() {
        return Some(KnownField::Hash.name());
    }
    let is_source = |source| match source {
        FieldSource::Payload(names) => names.contains(&stored),
        FieldSource::Index | FieldSource::Engine => false,
    };
    let mut specs = available(grain_type);
    specs
        .find(|spec| is_source(spec.source))
        .map(|spec| spec.name)
}

fn of_other_type(field: KnownField, owner: GrainType, declared: GrainType) -> CalError {
    let message = format!(
        "{} have no field \"{}\"; {} do.",
        capital(declared.plural()),
        field.name(),
        owner.plural()
    );
    CalError::new(Code::E060, message)
        .suggest(format!(
            "RECALL {}, or use a field of {}.",
            owner.plural(),
            declared.plural()
        ))
        .valid_values(available(Some(declared)).map(|spec| spec.name))
}

fn without_type(field: KnownField, owner: GrainType) -> CalError {
    CalError::new(
        Code::E061,
        format!(
            "Only {} have the field \"{}\".",
            owner.plural(),
            field.name()
        ),
    )
    .suggest(format!("Name the type: RECALL {} …", owner.plural()))
    .example(format!(
        "RECALL {} WHERE {} {} …",
        owner.plural(),
        field.name(),
        first_operator(field)
    ))
}

fn first_operator(field: KnownField) -> &'static str {
    field
        .spec()
        .operators
        .iter()
        .next()
        .map_or("=", |operator| operator.name())
}

/// Returns `word` with a capital.
pub(crate) fn capital(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + characters.as_str()
    })
}
