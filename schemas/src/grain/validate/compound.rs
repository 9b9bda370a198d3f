//! Required members in the entries of compound fields: references, content blocks and the legal
//! entity that owns an agent.
//!
//! Only writers are checked. A reader gains nothing from rejecting a grain because of an unusable
//! reference.

use crate::error::{ErrorCode, GrainError};
use crate::grain::{Field, RawValue};

/// A required member: its full name, its key in the payload, and a predicate on its value.
type RequiredMember = (&'static str, &'static str, fn(&RawValue<'_>) -> bool);

fn is_text(value: &RawValue<'_>) -> bool {
    value.as_text().is_some()
}

fn is_integer(value: &RawValue<'_>) -> bool {
    matches!(value, RawValue::Int(_) | RawValue::BigInt(_))
}

/// §7.1.
const CONTENT_REF: &[RequiredMember] = &[("uri", "u", is_text), ("modality", "m", is_text)];

/// §27.5: a citation, an entry of `content_refs` with members of its own.
const CITATION: &[RequiredMember] = &[
    ("citation_type", "citation_type", is_text),
    ("identifier", "identifier", is_text),
];

/// §7.2.
const EMBEDDING_REF: &[RequiredMember] = &[
    ("vector_id", "vi", is_text),
    ("model", "mo", is_text),
    ("dimensions", "dm", is_integer),
];

/// §14.1.
const CROSS_LINK: &[RequiredMember] = &[("hash", "h", is_text), ("relation_type", "rl", is_text)];

/// §12.5.1.
const LEGAL_ENTITY: &[RequiredMember] = &[("type", "type", is_text), ("name", "name", is_text)];

/// §6.2.
const CONTENT_BLOCK: &[RequiredMember] = &[("type", "type", is_text)];

/// Checks that each entry of `value`, which is of the field's kind, has its required members.
pub(super) fn check(field: Field, value: &RawValue<'_>) -> Result<(), GrainError> {
    match field {
        Field::Owner => check_entry(value, members_of(field, value), &field.name()),
        Field::ContentRefs
        | Field::EmbeddingRefs
        | Field::ContentBlocks
        | Field::RelatedTo
        | Field::DerivedFrom => {
            let is_map = |(_, entry): &(usize, RawValue<'_>)| entry.as_map().is_some();
            let entries = value.as_array().into_iter().flatten().enumerate();
            let mut entries = entries.filter(is_map);
            entries.try_for_each(|(at, entry)| {
                check_entry(
                    &entry,
                    members_of(field, &entry),
                    &format_args!("{}[{at}]", field.name()),
                )
            })
        }
        _ => Ok(()),
    }
}

/// Returns the required members of `entry`, one of those of `field`.
fn members_of(field: Field, entry: &RawValue<'_>) -> &'static [RequiredMember] {
    match field {
        Field::ContentRefs if CITATION.iter().any(|(_, key, _)| entry.get(key).is_some()) => {
            CITATION
        }
        Field::ContentRefs => CONTENT_REF,
        Field::DerivedFrom => CITATION,
        Field::EmbeddingRefs => EMBEDDING_REF,
        Field::RelatedTo => CROSS_LINK,
        Field::ContentBlocks => CONTENT_BLOCK,
        Field::Owner => LEGAL_ENTITY,
        _ => &[],
    }
}

fn check_entry(
    entry: &RawValue<'_>,
    members: &[RequiredMember],
    path: &dyn std::fmt::Display,
) -> Result<(), GrainError> {
    for (name, key, fits) in members {
        let message = match entry.get(key) {
            Some(value) if fits(&value) => continue,
            Some(value) => format!("must not be {}", value.kind_name()),
            None => format!("missing required member: {name}"),
        };
        return Err(GrainError::new(ErrorCode::Schema, message).field(format!("{path}.{name}")));
    }
    Ok(())
}
