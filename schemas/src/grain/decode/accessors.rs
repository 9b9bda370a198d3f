//! Read access to the header and fields of a decoded grain.

use std::borrow::Cow;

use super::Grain;
use crate::grain::elide::is_sha256_reference;
use crate::grain::header::namespace_hash;
use crate::grain::{Encoding, Field, FieldAccess, GrainHeader, GrainType, Marks, RawValue};

impl<'a> Grain<'a> {
    /// Returns the header.
    pub fn header(&self) -> &GrainHeader {
        &self.header
    }

    /// Returns the actual encoding of the payload, regardless of the header.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns true if the payload is encrypted, in which case the grain has no fields.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Returns the standard type of the header's type byte, if it is one.
    pub fn grain_type(&self) -> Option<GrainType> {
        self.header.type_byte.standard()
    }

    /// Returns the name of the type: that of version 1.3 for a standard type byte, else the
    /// payload's `type`, else the display form of [`TypeByte`](crate::grain::TypeByte).
    pub fn type_name(&self) -> Cow<'a, str> {
        if let Some(kind) = self.grain_type() {
            return kind.name().into();
        }
        let declared = self.text(Field::Type);
        declared.map_or_else(|| self.header.type_byte.to_string().into(), Into::into)
    }

    /// Returns the value of `field` if the grain has it. Constant time.
    pub fn get(&self, field: Field) -> Option<RawValue<'a>> {
        self.known
            .get(usize::from(self.positions[field as usize]))
            .map(|(_, value)| *value)
    }

    /// Returns the text of `field` if the grain has it as a string.
    pub fn text(&self, field: Field) -> Option<&'a str> {
        self.get(field).and_then(|value| value.as_text())
    }

    /// Returns the grain's tags (§13): the strings in `structural_tags`, which some writers store
    /// as a single string instead of a list. All code that depends on tags must use this function.
    pub fn tags(&self) -> impl Iterator<Item = &'a str> {
        let value = self.get(Field::StructuralTags);
        let single = value.and_then(|value| value.as_text());
        let listed = value.and_then(|value| value.as_array());
        single
            .into_iter()
            .chain(listed.into_iter().flatten().filter_map(|tag| tag.as_text()))
    }

    /// Returns the fields of the specification in the order of the payload's keys, with fields
    /// under an alias last.
    pub fn known(&self) -> &[(Field, RawValue<'a>)] {
        &self.known
    }

    /// Returns the entries whose keys are not in the specification, in the order of the payload.
    pub fn unknown(&self) -> &[(&'a str, RawValue<'a>)] {
        &self.unknown
    }

    /// Returns all entries of the payload's own map in the order of its bytes, with the keys as
    /// they are written. Null entries and those of fields are among them. Reads the payload again.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, RawValue<'a>)> + use<'a> {
        self.entries.all_entries()
    }

    /// Returns the keys of null entries of the payload's own map that aren't in the specification.
    /// They have no meaning, and canonical form omits them, but they are part of the blob.
    pub fn null_keys(&self) -> &[&'a str] {
        &self.null_keys
    }

    /// Returns the anomalies found while decoding.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// Returns true if `field` was hidden by selective disclosure (§10). A hidden field counts as
    /// present where it is required. Fields that must stay visible are never hidden, whatever the
    /// grain declares; nor is a field without a well-formed hash (§10.1.1).
    pub fn is_elided(&self, field: Field) -> bool {
        field.access() == FieldAccess::Elidable
            && self
                .get(Field::Elided)
                .and_then(|elided| elided.get(field.name()))
                .is_some_and(|hash| hash.as_text().is_some_and(is_sha256_reference))
    }

    pub(in crate::grain) fn marks_mut(&mut self) -> &mut Marks {
        &mut self.marks
    }

    /// Returns the expected value of the header's namespace bytes. Caches the hash of the last
    /// namespace across [`Grain::redecode`].
    pub(in crate::grain) fn namespace_hash(&mut self) -> [u8; 2] {
        let namespace = self.text(Field::Namespace);
        match (namespace, self.hashed) {
            (Some(namespace), Some((hashed, hash))) if namespace == hashed => hash,
            _ => {
                let hash = namespace_hash(namespace);
                self.hashed = namespace.map(|namespace| (namespace, hash));
                hash
            }
        }
    }
}
