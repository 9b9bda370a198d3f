//! Sealed rows: the readable columns of a row in an encrypted lake, and the content of its
//! encrypted envelope.
//!
//! A sealed row keeps the columns that the grain header exposes anyway, the address, and the
//! metadata of ingestion. The column `blob` holds the encrypted envelope. No other column holds any
//! part of the payload, except those of [`BLIND_TOKEN_FIELDS`], which hold a blind token of the
//! text for lookups by equality. The engine creates tokens and envelopes.
//!
//! ```text
//! plaintext of an envelope:
//! n        length of the blob                               u32, big-endian
//! blob                                                      n
//! m        length of the cell `envelope` plus 1             u32, big-endian; 0 if the cell is null
//! cell     the column `envelope`                            m - 1
//! signer   the column `signer_did`: a byte 1 and the text; nothing if it is null
//! ```

use super::grains::SystemColumn;
use super::projection::RowMetadata;
use crate::grain::Field;

/// The magic number of an envelope. No grain starts with it, since the first byte of a grain is a
/// version.
pub const SEALED_MAGIC: [u8; 4] = *b"GMS1";

/// The fields whose columns hold a blind token of the text.
pub const BLIND_TOKEN_FIELDS: [Field; 7] = [
    Field::Namespace,
    Field::UserId,
    Field::Subject,
    Field::SessionId,
    Field::RunId,
    Field::SubjectDid,
    Field::EntityId,
];

/// Returns true if the cell `blob` is an encrypted envelope.
pub fn is_sealed(blob: &[u8]) -> bool {
    blob.starts_with(&SEALED_MAGIC)
}

/// Returns true if the column `name` of a sealed row is the same as in a plaintext row.
pub fn is_plaintext_column(name: &str) -> bool {
    let hidden = [
        SystemColumn::Blob,
        SystemColumn::Envelope,
        SystemColumn::SignerDid,
    ];
    SystemColumn::ALL
        .iter()
        .any(|column| column.name() == name && !hidden.contains(column))
}

/// The content of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedContent<'a> {
    /// The blob of the grain.
    pub blob: &'a [u8],
    /// The cell of the column `envelope`.
    pub envelope: Option<&'a [u8]>,
    /// The cell of the column `signer_did`.
    pub signer: Option<&'a str>,
}

impl<'a> SealedContent<'a> {
    /// Encodes the plaintext of an envelope for `blob` with the metadata `row`.
    pub fn encode_row(blob: &[u8], row: &RowMetadata<'_>) -> Vec<u8> {
        let cell = row.envelope.as_ref().map(super::envelope::envelope_cell);
        SealedContent {
            blob,
            envelope: cell.as_deref(),
            signer: row.signer,
        }
        .to_bytes()
    }

    /// Encodes the plaintext of the envelope.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.blob.len() + 8);
        out.extend((self.blob.len() as u32).to_be_bytes());
        out.extend(self.blob);
        out.extend(
            self.envelope
                .map_or(0, |cell| cell.len() as u32 + 1)
                .to_be_bytes(),
        );
        out.extend(self.envelope.unwrap_or_default());
        if let Some(signer) = self.signer {
            out.push(1);
            out.extend(signer.as_bytes());
        }
        out
    }

    /// Parses the plaintext of an envelope; `None` if it is malformed.
    pub fn parse(bytes: &'a [u8]) -> Option<SealedContent<'a>> {
        let (_, blob, rest) = split_part(bytes, 0)?;
        let (length, cell, rest) = split_part(rest, 1)?;
        let signer = match rest.split_first() {
            None => None,
            Some((1, text)) => Some(std::str::from_utf8(text).ok()?),
            Some(_) => return None,
        };
        Some(SealedContent {
            blob,
            envelope: (length > 0).then_some(cell),
            signer,
        })
    }
}

/// Splits off a part behind its length, whose number exceeds that of the part's bytes by `excess`.
/// Returns the number, the part and the rest.
fn split_part(bytes: &[u8], excess: u32) -> Option<(u32, &[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = u32::from_be_bytes(*length);
    let (part, rest) = rest.split_at_checked(length.saturating_sub(excess) as usize)?;
    Some((length, part, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_s_content_round_trips() {
        for clear in [
            SealedContent {
                blob: b"",
                envelope: None,
                signer: None,
            },
            SealedContent {
                blob: b"grain",
                envelope: Some(b""),
                signer: Some(""),
            },
            SealedContent {
                blob: b"grain",
                envelope: Some(b"cell"),
                signer: Some("did:key:z6Mk"),
            },
        ] {
            assert_eq!(SealedContent::parse(&clear.to_bytes()), Some(clear));
        }
        assert_eq!(SealedContent::parse(b""), None);
        assert_eq!(SealedContent::parse(&[0, 0, 0, 9, 1]), None);
        assert_eq!(SealedContent::parse(&[0, 0, 0, 0, 0, 0, 0, 0, 7]), None);
    }

    #[test]
    fn columns_of_the_payload_and_the_signer_are_not_plaintext() {
        assert!(
            is_plaintext_column("content_address")
                && is_plaintext_column("type")
                && is_plaintext_column("supersedes")
        );
        assert!(
            ![
                "blob",
                "envelope",
                "signer_did",
                "subject",
                "created_at",
                "nothing"
            ]
            .iter()
            .any(|name| is_plaintext_column(name))
        );
    }
}
