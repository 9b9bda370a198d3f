//! Grains that are encoded before one of the addresses in them is known.

use super::{
    EncodeOptions, EncodedGrain, assemble, encode_payload, fields_from_json, overwrite_text,
};
use crate::address::{BlobHasher, ContentAddress};
use crate::error::{ErrorCode, GrainError};
use crate::grain::{Field, FieldKind};
use crate::json::{Json, Object};

/// An encoded grain with a placeholder for one address.
///
/// All addresses have the same length, so filling the placeholder changes no other byte of the
/// blob: [`GrainTemplate::fill`] costs one hash from the placeholder on, not an encoding.
#[derive(Debug, Clone)]
pub struct GrainTemplate {
    blob: Vec<u8>,
    /// The offset of the placeholder's digits in `blob`.
    placeholder: usize,
    /// The hash of the bytes before the placeholder.
    prefix_hash: BlobHasher,
}

impl GrainTemplate {
    /// Encodes `grain`, uncompressed, with the placeholder as the text of `field`, or as its only
    /// item if the field holds a list. Replaces the field's value in `grain`.
    ///
    /// # Errors
    /// As [`encode_json`](super::encode_json).
    pub fn encode(mut grain: Object<'_>, field: Field) -> Result<GrainTemplate, GrainError> {
        let zeros = Json::from("0".repeat(ContentAddress::TEXT_LENGTH));
        let value = match field.kind() {
            FieldKind::Text => zeros,
            _ => Json::Array(vec![zeros]),
        };
        grain.insert(field.name(), value);
        let options = EncodeOptions::default();
        let payload = encode_payload(fields_from_json(grain)?, options.encoding)?;
        let (blob, placeholder) = assemble(payload, options, Some(field))?;
        let placeholder = placeholder.ok_or_else(|| {
            GrainError::new(ErrorCode::Schema, "can't hold an address").field(field.name())
        })?;
        let prefix_hash = BlobHasher::with_prefix(blob.get(..placeholder).unwrap_or_default());
        Ok(GrainTemplate {
            blob,
            placeholder,
            prefix_hash,
        })
    }

    /// Returns the grain with `address` in the placeholder.
    pub fn fill(mut self, address: ContentAddress) -> EncodedGrain {
        let digits = self
            .blob
            .get_mut(self.placeholder..)
            .and_then(<[u8]>::first_chunk_mut);
        digits
            .into_iter()
            .for_each(|digits| _ = address.write_hex(digits));
        let rest = self.blob.get(self.placeholder..).unwrap_or_default();
        EncodedGrain {
            address: self.prefix_hash.finish(rest),
            blob: self.blob,
        }
    }

    /// As [`EncodedGrain::replace_equal_length_text`], before the placeholder is filled.
    pub fn replace_equal_length_text(mut self, field: Field, text: &str) -> Option<GrainTemplate> {
        overwrite_text(&mut self.blob, field, text)?;
        let prefix_hash = BlobHasher::with_prefix(self.blob.get(..self.placeholder)?);
        Some(GrainTemplate {
            prefix_hash,
            ..self
        })
    }

    /// Returns the blob with an arbitrary address in the placeholder.
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }
}
