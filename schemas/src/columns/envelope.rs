//! The column `envelope`: a COSE_Sign1 envelope without the blob that it wraps.
//!
//! ```text
//! n        number of bytes before the blob          u32, big-endian
//! before   the envelope's bytes before the blob     n
//! after    the envelope's bytes after the blob      the rest
//! ```

use std::borrow::Cow;

use crate::error::{ErrorCode, GrainError};
use crate::sign::EnvelopeParts;

/// Encodes the cell of an envelope.
pub(super) fn envelope_cell(parts: &EnvelopeParts<'_>) -> Vec<u8> {
    let before = (parts.before.len() as u32).to_be_bytes();
    [&before[..], &parts.before, &parts.after].concat()
}

/// Returns the bytes in which a grain was delivered: `blob`, wrapped in the envelope of the cell
/// `envelope` if there is one.
///
/// # Errors
/// [`ErrorCode::Corrupt`] if the cell is not an encoded [`EnvelopeParts`].
pub fn delivered_bytes<'a>(
    blob: &'a [u8],
    envelope: Option<&[u8]>,
) -> Result<Cow<'a, [u8]>, GrainError> {
    let Some(cell) = envelope else {
        return Ok(Cow::Borrowed(blob));
    };
    let corrupt =
        || GrainError::new(ErrorCode::Corrupt, "the stored envelope is corrupt").field("envelope");
    let (length, parts) = cell.split_first_chunk::<4>().ok_or_else(corrupt)?;
    let (before, after) = parts
        .split_at_checked(u32::from_be_bytes(*length) as usize)
        .ok_or_else(corrupt)?;
    Ok(Cow::Owned([before, blob, after].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_cell_round_trips() {
        let parts = EnvelopeParts {
            before: b"head".into(),
            after: b"tail!".into(),
        };
        let cell = envelope_cell(&parts);
        assert_eq!(
            &*delivered_bytes(b"blob", Some(&cell)).unwrap(),
            b"headblobtail!"
        );
        assert_eq!(&*delivered_bytes(b"blob", None).unwrap(), b"blob");
        assert!(delivered_bytes(b"blob", Some(b"abc")).is_err());
        assert!(delivered_bytes(b"blob", Some(&[0, 0, 0, 9, 1])).is_err());
    }
}
