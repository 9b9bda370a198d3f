//! What the entries of a compound field must have: references, blocks and the legal entity behind
//! an agent.
//!
//! Only writers are held to it. A reader has no use for refusing a grain because a reference in it
//! leads nowhere.

use super::fields::Field;
use super::raw::RawValue;
use crate::error::{ErrorCode, GrainError};

/// A part by its full name, its key in the payload, and whether a value will do for it.
type Part = (&'static str, &'static str, fn(&RawValue<'_>) -> bool);

fn is_text(value: &RawValue<'_>) -> bool {
    value.as_text().is_some()
}

fn is_integer(value: &RawValue<'_>) -> bool {
    matches!(value, RawValue::Int(_) | RawValue::BigInt(_))
}

/// §7.1.
const CONTENT_REF: &[Part] = &[("uri", "u", is_text), ("modality", "m", is_text)];

/// §27.5: a citation stands among the content references and has parts of its own.
const CITATION: &[Part] = &[
    ("citation_type", "citation_type", is_text),
    ("identifier", "identifier", is_text),
];

/// §7.2.
const EMBEDDING_REF: &[Part] = &[
    ("vector_id", "vi", is_text),
    ("model", "mo", is_text),
    ("dimensions", "dm", is_integer),
];

/// §12.5.1.
const LEGAL_ENTITY: &[Part] = &[("type", "type", is_text), ("name", "name", is_text)];

/// §6.2.
const CONTENT_BLOCK: &[Part] = &[("type", "type", is_text)];

/// Checks that `value`, which is of the field's kind, has what each of its entries must have.
pub(super) fn check(field: Field, value: &RawValue<'_>) -> Result<(), GrainError> {
    let parts_of = |entry: &RawValue<'_>| match field {
        Field::ContentRefs if CITATION.iter().any(|(_, key, _)| entry.get(key).is_some()) => {
            CITATION
        }
        Field::ContentRefs => CONTENT_REF,
        Field::EmbeddingRefs => EMBEDDING_REF,
        Field::ContentBlocks => CONTENT_BLOCK,
        Field::Owner => LEGAL_ENTITY,
        _ => &[],
    };
    match field {
        Field::Owner => check_entry(value, parts_of(value), &field.name()),
        Field::ContentRefs | Field::EmbeddingRefs | Field::ContentBlocks => {
            let mut entries = value.as_array().into_iter().flatten().enumerate();
            entries.try_for_each(|(at, entry)| {
                check_entry(
                    &entry,
                    parts_of(&entry),
                    &format_args!("{}[{at}]", field.name()),
                )
            })
        }
        _ => Ok(()),
    }
}

fn check_entry(
    entry: &RawValue<'_>,
    parts: &[Part],
    path: &dyn std::fmt::Display,
) -> Result<(), GrainError> {
    for (name, key, fits) in parts {
        let message = match entry.get(key) {
            Some(value) if fits(&value) => continue,
            Some(value) => format!("can't be {}", value.kind_name()),
            None => format!("missing required part: {name}"),
        };
        return Err(GrainError::new(ErrorCode::Schema, message).field(format!("{path}.{name}")));
    }
    Ok(())
}
