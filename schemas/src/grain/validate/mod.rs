//! Schema rules: required fields per type and permitted values per field (§8, §13.4, §19.3,
//! §27.1).
//!
//! Readers and writers share one set of rules. A writer must satisfy all of them. A reader rejects
//! only what makes a grain unusable or unsafe, and marks the rest. Types of later versions and of
//! domain profiles have no schema here: their fields may hold any value (§19.4).
//!
//! | module | rules |
//! |---|---|
//! | `kinds`, `compound` | kind and range of each value, and the members of compound values |
//! | `required` | required fields per type |
//! | `action` | fields per phase of an action |
//! | `vocabulary` | closed vocabularies, and the syntax of DIDs |
//! | `references` | references to content, vectors and works |
//! | `profiles` | fields of domain profiles |

mod action;
mod compound;
mod kinds;
mod profiles;
mod references;
mod required;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::borrow::Cow;

use super::decode::Grain;
use super::fields::Field;
use super::header::Sensitivity;
use super::marks::Mark;
use super::types::{GrainType, TypeByte};
use crate::error::{ErrorCode, GrainError};

/// How strictly a grain is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckLevel {
    /// The rules for lenient readers: an incomplete grain is marked.
    LenientRead,
    /// The rules for strict readers.
    StrictRead,
    /// The rules for writers.
    Write,
}

/// Checks `grain` and adds marks for anomalies.
pub(super) fn check(grain: &mut Grain<'_>, level: CheckLevel) -> Result<(), GrainError> {
    check_type(grain)?;
    kinds::check(grain, level)?;
    if let Some(kind) = grain.grain_type() {
        match required::check(grain, kind) {
            Err(error)
                if level == CheckLevel::LenientRead
                    && matches!(error.code, ErrorCode::Schema | ErrorCode::Empty) =>
            {
                grain.marks_mut().insert(Mark::Incomplete);
            }
            checked => checked?,
        }
        vocabulary::check(grain, level)?;
        references::check(grain);
        profiles::check(grain);
    }
    check_sensitivity(grain)?;
    check_header(grain);
    Ok(())
}

/// Returns true if the type of `grain` requires `field`, by itself or with others.
pub(super) fn requires(grain: &Grain<'_>, field: Field) -> bool {
    match grain.grain_type() {
        Some(GrainType::Event) => required::EVENT_FIELDS.contains(&field),
        Some(GrainType::Action) => action::requires(grain, field),
        Some(GrainType::Consent) if field == Field::PriorConsent => true,
        Some(kind) => required::fields_of(kind).contains(&field),
        None => false,
    }
}

/// Returns true unless the phase of an action forbids `field`.
pub(super) fn permits(grain: &Grain<'_>, field: Field) -> bool {
    grain.grain_type() != Some(GrainType::Action) || action::permits(grain, field)
}

fn error(code: ErrorCode, field: Field, message: impl Into<Cow<'static, str>>) -> GrainError {
    GrainError::new(code, message).field(field.name())
}

/// Checks that the payload's `type` is a name of the header's type byte.
fn check_type(grain: &Grain<'_>) -> Result<(), GrainError> {
    let value = grain
        .get(Field::Type)
        .ok_or_else(|| GrainError::new(ErrorCode::NoType, "missing required field: type"))?;
    let Some(name) = value.as_text() else {
        return Err(error(
            ErrorCode::Schema,
            Field::Type,
            format!("must be a string, is {}", value.kind_name()),
        ));
    };
    match TypeByte::from_name(name) {
        Some(named) if named == grain.header().type_byte => Ok(()),
        // A type that 1.3 does not define may have any name except that of a standard type.
        Some(named) if named.standard().is_none() && grain.grain_type().is_none() => Ok(()),
        Some(_) => {
            let message = format!(
                "the header's type byte is 0x{:02x}, the payload's type is `{name}`",
                grain.header().type_byte.byte()
            );
            Err(error(ErrorCode::Corrupt, Field::Type, message))
        }
        None if grain.grain_type().is_some() => Err(error(
            ErrorCode::UnknownType,
            Field::Type,
            format!("unknown memory type: {name}"),
        )),
        None => Ok(()),
    }
}

/// Returns true if the grain has `field`, visible or elided.
fn has(grain: &Grain<'_>, field: Field) -> bool {
    grain.get(field).is_some() || grain.is_elided(field)
}

fn check_present(grain: &Grain<'_>, field: Field) -> Result<(), GrainError> {
    if has(grain, field) {
        return Ok(());
    }
    Err(error(
        ErrorCode::Schema,
        field,
        format!("missing required field: {}", field.name()),
    ))
}

fn check_not_empty(grain: &Grain<'_>, field: Field) -> Result<(), GrainError> {
    if grain.text(field) == Some("") {
        return Err(error(ErrorCode::Empty, field, "must not be empty"));
    }
    Ok(())
}

/// Converts `created_at` to the header's whole seconds; `None` outside 1970 to 2106.
pub(crate) fn header_seconds(milliseconds: i64) -> Option<u32> {
    u32::try_from(milliseconds.div_euclid(1000)).ok()
}

/// Returns the minimum sensitivity class that the grain's tags require.
pub(super) fn required_sensitivity(grain: &Grain<'_>) -> Sensitivity {
    grain
        .tags()
        .map(Sensitivity::from_tag)
        .max()
        .unwrap_or_default()
}

fn check_sensitivity(grain: &Grain<'_>) -> Result<(), GrainError> {
    let declared = grain.header().flags.sensitivity();
    let required = required_sensitivity(grain);
    if declared >= required {
        return Ok(());
    }
    let message = format!(
        "the header's class is {}, the tags require {}",
        declared.name(),
        required.name()
    );
    Err(error(
        ErrorCode::SensitivityMismatch,
        Field::StructuralTags,
        message,
    ))
}

/// Compares the header's hints with the payload. Differences are only marked, because the payload
/// is authoritative.
fn check_header(grain: &mut Grain<'_>) {
    let header = *grain.header();
    let seconds = grain
        .get(Field::CreatedAt)
        .and_then(|value| value.as_int())
        .and_then(header_seconds);
    let is_filled = |field| grain.get(field).is_some_and(|value| value.count() > 0);
    let references_differ = header.flags.has_content_refs() != is_filled(Field::ContentRefs)
        || header.flags.has_embedding_refs() != is_filled(Field::EmbeddingRefs);
    let namespace_differs =
        !grain.is_elided(Field::Namespace) && header.namespace_hash != grain.namespace_hash();
    let marks = grain.marks_mut();
    marks.insert_if(
        Mark::HeaderTime,
        seconds.is_some_and(|seconds| seconds != header.created_at_seconds),
    );
    marks.insert_if(Mark::ReferenceFlags, references_differ);
    marks.insert_if(Mark::HeaderNamespace, namespace_differs);
}
