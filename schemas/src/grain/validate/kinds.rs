//! Checks that each field holds a value of its kind and within its range.

use super::{CheckLevel, action, compound, error, header_seconds, required};
use crate::error::{ErrorCode, GrainError};
use crate::grain::elide::is_sha256_reference;
use crate::grain::{Field, FieldAccess, FieldKind, Grain, GrainType, Mark, RawValue};

/// Checks all known fields. A reader marks a wrong kind in a field that is not essential.
pub(super) fn check(grain: &mut Grain<'_>, level: CheckLevel) -> Result<(), GrainError> {
    let mut deviates = false;
    for (field, value) in grain.known() {
        if let Err(error) = check_field(*field, value, grain.grain_type(), level) {
            if level == CheckLevel::Write || !is_tolerable(grain, *field, value, &error) {
                return Err(error);
            }
            deviates = true;
        }
    }
    grain.marks_mut().insert_if(Mark::FieldKind, deviates);
    Ok(())
}

/// Returns true if a reader accepts a value of the wrong kind: because the grain's type has no
/// schema, because the value has only one possible interpretation, or because the field is not
/// essential.
fn is_tolerable(grain: &Grain<'_>, field: Field, value: &RawValue<'_>, error: &GrainError) -> bool {
    match grain.grain_type() {
        None => true,
        Some(kind) => {
            error.code == ErrorCode::Schema
                && (is_convertible(field, value)
                    || is_text_map_of_hashes(field, value)
                    || !is_essential(grain, kind, field))
        }
    }
}

/// Returns true for values of another kind that some writers use and that have only one possible
/// interpretation: an integer as a double, a fraction as a count, a string as a list of one.
fn is_convertible(field: Field, value: &RawValue<'_>) -> bool {
    match field.kind() {
        FieldKind::UnitFloat | FieldKind::Float => value.as_number().is_some(),
        FieldKind::Count => matches!(value, RawValue::Float(_)),
        FieldKind::TextList | FieldKind::CitationList => value.as_text().is_some(),
        _ => false,
    }
}

/// Returns true for hashes of hidden fields that are texts, well-formed or not: a field with a
/// malformed one isn't hidden, so the grain is refused if its type requires the field.
fn is_text_map_of_hashes(field: Field, value: &RawValue<'_>) -> bool {
    field == Field::Elided
        && value
            .as_map()
            .is_some_and(|mut entries| entries.all(|(_, hash)| hash.as_text().is_some()))
}

/// Returns true for fields that must have the right kind in a grain of type `kind`: required
/// fields, and the fields that identity, time, trust and protection depend on.
fn is_essential(grain: &Grain<'_>, kind: GrainType, field: Field) -> bool {
    let in_every_type = matches!(
        field,
        Field::CreatedAt
            | Field::Confidence
            | Field::Importance
            | Field::Namespace
            | Field::UserId
            | Field::StructuralTags
            | Field::InvalidationPolicy
            | Field::Elided
    );
    let in_this_type = match kind {
        GrainType::Event => required::EVENT_FIELDS.contains(&field),
        GrainType::Action => {
            matches!(field, Field::ActionPhase | Field::ExecutionMode)
                || action::requires(grain, field)
        }
        GrainType::Consent => field == Field::PriorConsent,
        _ => false,
    };
    in_every_type || in_this_type || required::fields_of(kind).contains(&field)
}

fn check_field(
    field: Field,
    value: &RawValue<'_>,
    kind: Option<GrainType>,
    level: CheckLevel,
) -> Result<(), GrainError> {
    if level == CheckLevel::Write && field.access() == FieldAccess::Index {
        return Err(error(
            ErrorCode::Schema,
            field,
            "belongs to the index layer, a writer must not set it",
        ));
    }
    match field.kind() {
        FieldKind::UnitFloat => check_unit_float(field, value),
        FieldKind::Count => check_count(field, value),
        FieldKind::Byte => check_byte(field, value),
        FieldKind::ByteList => check_bytes(field, value),
        FieldKind::Timestamp => check_timestamp(field, value),
        _ if !has_kind(field, value, kind) => Err(wrong_kind(field, value)),
        _ if level == CheckLevel::Write => compound::check(field, value),
        _ => Ok(()),
    }
}

/// Returns true if `value` is of the field's kind, for kinds without a range.
fn has_kind(field: Field, value: &RawValue<'_>, kind: Option<GrainType>) -> bool {
    let is_map = |value: RawValue<'_>| matches!(value, RawValue::Map(_));
    match field.kind() {
        FieldKind::Text => value.as_text().is_some(),
        // Only actions may have structured content. The content of an event is the text for
        // readers that do not support blocks.
        FieldKind::Any if field == Field::Content && kind == Some(GrainType::Event) => {
            value.as_text().is_some()
        }
        FieldKind::Any => true,
        FieldKind::Float => matches!(value, RawValue::Float(_)),
        FieldKind::Int => matches!(value, RawValue::Int(_) | RawValue::BigInt(_)),
        FieldKind::Bool => value.as_bool().is_some(),
        // Hashes by the names of the hidden fields (§10.3).
        FieldKind::Map if field == Field::Elided => value.as_map().is_some_and(|mut entries| {
            entries.all(|(_, hash)| hash.as_text().is_some_and(is_sha256_reference))
        }),
        FieldKind::Map | FieldKind::InvalidationPolicy | FieldKind::RetentionPolicy => {
            is_map(*value)
        }
        FieldKind::TextOrMap => is_text_or_map(*value),
        FieldKind::TextList => is_list(value, |item| item.as_text().is_some()),
        FieldKind::CitationList => is_list(value, is_text_or_map),
        FieldKind::AnyList => matches!(value, RawValue::Array(_)),
        FieldKind::MapList
        | FieldKind::ContentRefs
        | FieldKind::EmbeddingRefs
        | FieldKind::RelatedTo
        | FieldKind::ProvenanceChain => is_list(value, is_map),
        FieldKind::UnitFloat
        | FieldKind::Count
        | FieldKind::Byte
        | FieldKind::ByteList
        | FieldKind::Timestamp => false,
    }
}

fn is_text_or_map(value: RawValue<'_>) -> bool {
    matches!(value, RawValue::Text(_) | RawValue::Map(_))
}

fn is_list(value: &RawValue<'_>, fits: impl FnMut(RawValue<'_>) -> bool) -> bool {
    value.as_array().is_some_and(|mut items| items.all(fits))
}

fn wrong_kind(field: Field, value: &RawValue<'_>) -> GrainError {
    let expected = match field.kind() {
        FieldKind::Text | FieldKind::Any => "a string",
        FieldKind::UnitFloat | FieldKind::Float => "a float",
        FieldKind::Int | FieldKind::Count | FieldKind::Byte => "an integer",
        FieldKind::Timestamp => "an integer (milliseconds since 1970)",
        FieldKind::Bool => "a boolean",
        FieldKind::Map if field == Field::Elided => "a map of hashes (sha256: and 64 digits)",
        FieldKind::Map | FieldKind::InvalidationPolicy | FieldKind::RetentionPolicy => "a map",
        FieldKind::TextOrMap => "a string or a map",
        FieldKind::TextList => "an array of strings",
        FieldKind::CitationList => "an array of content addresses or citations",
        FieldKind::ByteList => "an array of bytes",
        FieldKind::AnyList => "an array",
        FieldKind::MapList
        | FieldKind::ContentRefs
        | FieldKind::EmbeddingRefs
        | FieldKind::RelatedTo
        | FieldKind::ProvenanceChain => "an array of maps",
    };
    error(
        ErrorCode::Schema,
        field,
        format!("must be {expected}, is {}", value.kind_name()),
    )
}

fn check_unit_float(field: Field, value: &RawValue<'_>) -> Result<(), GrainError> {
    match value.as_number() {
        Some(number) if !(0.0..=1.0).contains(&number) => Err(error(
            ErrorCode::Range,
            field,
            format!("must be in [0.0, 1.0], is {number}"),
        )),
        _ if matches!(value, RawValue::Float(_)) => Ok(()),
        _ => Err(wrong_kind(field, value)),
    }
}

fn check_count(field: Field, value: &RawValue<'_>) -> Result<(), GrainError> {
    if matches!(value, RawValue::Int(0..) | RawValue::BigInt(_)) {
        return Ok(());
    }
    match value.as_number() {
        Some(number) if number < 0.0 => Err(error(
            ErrorCode::Range,
            field,
            format!("must not be negative, is {number}"),
        )),
        _ => Err(wrong_kind(field, value)),
    }
}

fn check_byte(field: Field, value: &RawValue<'_>) -> Result<(), GrainError> {
    match value {
        RawValue::Int(0..=255) => Ok(()),
        RawValue::Int(_) | RawValue::BigInt(_) => {
            Err(error(ErrorCode::Range, field, "must be in 0..=255"))
        }
        _ => Err(wrong_kind(field, value)),
    }
}

fn check_bytes(field: Field, value: &RawValue<'_>) -> Result<(), GrainError> {
    let mut items = value.as_array().ok_or_else(|| wrong_kind(field, value))?;
    items.try_for_each(|item| match check_byte(field, &item) {
        Err(error) if error.code == ErrorCode::Schema => Err(wrong_kind(field, value)),
        checked => checked,
    })
}

/// Checks that an instant fits a signed 64-bit integer, and that `created_at` also fits the
/// header's unsigned 32-bit seconds (§3.1.1).
fn check_timestamp(field: Field, value: &RawValue<'_>) -> Result<(), GrainError> {
    match value {
        RawValue::Int(milliseconds)
            if field == Field::CreatedAt && header_seconds(*milliseconds).is_none() =>
        {
            let message =
                format!("must be between 1970 and 2106 to fit the header, is {milliseconds} ms");
            Err(error(ErrorCode::Range, field, message))
        }
        RawValue::Int(_) => Ok(()),
        RawValue::BigInt(_) => Err(error(
            ErrorCode::Range,
            field,
            "is beyond the range of a signed 64-bit integer",
        )),
        _ => Err(wrong_kind(field, value)),
    }
}
