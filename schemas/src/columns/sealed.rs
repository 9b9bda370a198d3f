//! Sealed rows: what of a grain stands open in an encrypted lake, and what its envelope holds.
//!
//! A sealed row keeps the columns that the specification's header shows anyway, the address, and
//! where the grain came from. `blob` holds the envelope; no other column holds a word of the
//! payload, but for [`TOKENS`]: there a blind token stands for the text, so that rows can be found
//! by equality. How tokens and envelopes are made is the engine's.
//!
//! ```text
//! clear text of an envelope:
//! n        how many bytes the blob has                      u32, big-endian
//! blob                                                      n
//! m        how many bytes the cell `envelope` has, plus 1   u32, big-endian; 0 if it is null
//! cell     the column `envelope`                            m - 1
//! signer   the column `signer_did`: a byte 1 and the text; nothing if it is null
//! ```

use super::grains::IdentityColumn;
use super::project::RowIdentity;
use crate::grain::Field;

/// The first bytes of an envelope. No grain begins so: its first byte is a version.
pub const SEALED_MAGIC: [u8; 4] = *b"GMS1";

/// The fields whose columns hold a blind token of the text.
pub const TOKENS: [Field; 7] = [
    Field::Namespace,
    Field::UserId,
    Field::Subject,
    Field::SessionId,
    Field::RunId,
    Field::SubjectDid,
    Field::EntityId,
];

/// True if the cell of `blob` is an envelope.
pub fn is_sealed(blob: &[u8]) -> bool {
    blob.starts_with(&SEALED_MAGIC)
}

/// True if a sealed row has the column `name` as an open one has it.
pub fn stands_open(name: &str) -> bool {
    let hidden = [
        IdentityColumn::Blob,
        IdentityColumn::Envelope,
        IdentityColumn::SignerDid,
    ];
    IdentityColumn::ALL
        .iter()
        .any(|column| column.name() == name && !hidden.contains(column))
}

/// What an envelope holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clear<'a> {
    /// The grain's bytes.
    pub blob: &'a [u8],
    /// The cell of the column `envelope`.
    pub envelope: Option<&'a [u8]>,
    /// The cell of the column `signer_did`.
    pub signer: Option<&'a str>,
}

impl<'a> Clear<'a> {
    /// The clear text of `blob`, which came as `row` says.
    pub fn bytes_of(blob: &[u8], row: &RowIdentity<'_>) -> Vec<u8> {
        let cell = row.envelope.as_ref().map(super::envelope::envelope_cell);
        Clear {
            blob,
            envelope: cell.as_deref(),
            signer: row.signer,
        }
        .to_bytes()
    }

    /// As bytes.
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

    /// Out of bytes; `None` if they are none of ours.
    pub fn of(bytes: &'a [u8]) -> Option<Clear<'a>> {
        let part = |bytes: &'a [u8], less: u32| {
            let (length, rest) = bytes.split_first_chunk::<4>()?;
            let length = u32::from_be_bytes(*length);
            let (part, rest) = rest.split_at_checked(length.saturating_sub(less) as usize)?;
            Some((length, part, rest))
        };
        let (_, blob, rest) = part(bytes, 0)?;
        let (length, cell, rest) = part(rest, 1)?;
        let signer = match rest.split_first() {
            None => None,
            Some((1, text)) => Some(std::str::from_utf8(text).ok()?),
            Some(_) => return None,
        };
        Some(Clear {
            blob,
            envelope: (length > 0).then_some(cell),
            signer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clear_text_comes_back_as_it_was() {
        for clear in [
            Clear {
                blob: b"",
                envelope: None,
                signer: None,
            },
            Clear {
                blob: b"grain",
                envelope: Some(b""),
                signer: Some(""),
            },
            Clear {
                blob: b"grain",
                envelope: Some(b"cell"),
                signer: Some("did:key:z6Mk"),
            },
        ] {
            assert_eq!(Clear::of(&clear.to_bytes()), Some(clear));
        }
        assert_eq!(Clear::of(b""), None);
        assert_eq!(Clear::of(&[0, 0, 0, 9, 1]), None);
        assert_eq!(Clear::of(&[0, 0, 0, 0, 0, 0, 0, 0, 7]), None);
    }

    #[test]
    fn the_payload_s_columns_and_the_signer_do_not_stand_open() {
        assert!(stands_open("content_address") && stands_open("type") && stands_open("supersedes"));
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
            .any(|name| stands_open(name))
        );
    }
}
