//! Checks what references to content, to vectors and to works outside of memory say (§7, §27.5).
//! Nothing here is refused: what is unusual is marked.

use crate::grain::citation::{CitationFault, citation_faults, is_citation};
use crate::grain::elide::is_sha256_reference;
use crate::grain::{Field, Grain, Mark, RawValue};

/// The modalities of referenced content (§7.1).
const MODALITIES: [&str; 8] = [
    "image",
    "audio",
    "video",
    "point_cloud",
    "3d_mesh",
    "document",
    "binary",
    "embedding",
];

/// The metrics of distance between vectors (§7.2).
const METRICS: [&str; 3] = ["cosine", "l2", "dot"];

/// Deviations of references.
#[derive(Debug, Clone, Copy, Default)]
struct Deviations {
    /// A value is outside its vocabulary.
    vocabulary: bool,
    /// A value isn't of its form.
    form: bool,
}

/// Marks references whose values are outside their vocabularies or not of their forms.
pub(super) fn check(grain: &mut Grain<'_>) {
    let mut found = Deviations::default();
    for (field, value) in grain.known() {
        let entries = || value.as_array().into_iter().flatten();
        match field {
            Field::ContentRefs => entries().for_each(|entry| found.add_content(&entry)),
            Field::EmbeddingRefs => entries().for_each(|entry| {
                found.vocabulary |= is_other(&entry, "di", &METRICS);
            }),
            Field::DerivedFrom => entries()
                .filter(|entry| entry.as_map().is_some())
                .for_each(|entry| found.add_citation(&entry)),
            _ => {}
        }
    }
    let marks = grain.marks_mut();
    marks.insert_if(Mark::Vocabulary, found.vocabulary);
    marks.insert_if(Mark::FieldKind, found.form);
}

impl Deviations {
    /// Adds those of an entry of `content_refs`: a reference, or a citation.
    fn add_content(&mut self, entry: &RawValue<'_>) {
        if is_citation(entry) {
            return self.add_citation(entry);
        }
        self.vocabulary |= is_other(entry, "m", &MODALITIES);
        self.form |= is_no_hash(entry, "ck")
            || !has_kind(entry, "sz", is_size)
            || !has_kind(entry, "mt", is_media_type)
            || entry.get("md").is_some_and(|metadata| {
                METADATA
                    .iter()
                    .any(|(name, fits)| !has_kind(&metadata, name, *fits))
            });
    }

    fn add_citation(&mut self, citation: &RawValue<'_>) {
        for fault in citation_faults(citation) {
            match fault {
                CitationFault::Vocabulary(_) => self.vocabulary = true,
                CitationFault::Form(_) | CitationFault::Identifier(_) => self.form = true,
            }
        }
    }
}

/// A member of metadata, and a predicate on its value.
type MetadataMember = (&'static str, fn(&RawValue<'_>) -> bool);

/// The members of metadata that §7.3 names, of all modalities: each has one meaning only.
const METADATA: [MetadataMember; 11] = [
    ("width", is_size),
    ("height", is_size),
    ("color_space", is_text),
    ("sample_rate_hz", is_size),
    ("channels", is_size),
    ("duration_ms", is_size),
    ("fps", is_positive),
    ("codec", is_text),
    ("point_count", is_size),
    ("format", is_text),
    ("has_color", is_boolean),
];

/// Returns true if the text `key` of `entry` is none of `values`.
fn is_other(entry: &RawValue<'_>, key: &str, values: &[&str]) -> bool {
    let text = entry.get(key).and_then(|value| value.as_text());
    text.is_some_and(|text| !values.contains(&text))
}

/// Returns true if the text `key` of `entry` isn't a SHA-256 with its prefix.
fn is_no_hash(entry: &RawValue<'_>, key: &str) -> bool {
    let text = entry.get(key).and_then(|value| value.as_text());
    text.is_some_and(|text| !is_sha256_reference(text))
}

/// Returns true if `entry` has no member `key`, or one that `fits`.
fn has_kind(entry: &RawValue<'_>, key: &str, fits: fn(&RawValue<'_>) -> bool) -> bool {
    entry.get(key).is_none_or(|value| fits(&value))
}

fn is_size(value: &RawValue<'_>) -> bool {
    matches!(value, RawValue::BigInt(_)) || value.as_int().is_some_and(|size| size >= 0)
}

fn is_positive(value: &RawValue<'_>) -> bool {
    value.as_number().is_some_and(|number| number > 0.0)
}

fn is_text(value: &RawValue<'_>) -> bool {
    value.as_text().is_some()
}

fn is_boolean(value: &RawValue<'_>) -> bool {
    value.as_bool().is_some()
}

/// Returns true for a type and a subtype (RFC 6838).
fn is_media_type(value: &RawValue<'_>) -> bool {
    let parts = value.as_text().and_then(|text| text.split_once('/'));
    parts.is_some_and(|(kind, subtype)| !kind.is_empty() && !subtype.is_empty())
}
