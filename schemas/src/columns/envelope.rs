//! The column `envelope`: a COSE_Sign1 around a blob, without the blob.
//!
//! ```text
//! n        how many bytes stand before the blob     u32, big-endian
//! before   the envelope's bytes before the blob     n
//! after    the envelope's bytes after the blob      the rest
//! ```

use std::borrow::Cow;

use crate::error::{ErrorCode, GrainError};
use crate::sign::EnvelopeParts;

/// The cell of an envelope.
pub(super) fn envelope_cell(parts: &EnvelopeParts<'_>) -> Vec<u8> {
    let before = (parts.before.len() as u32).to_be_bytes();
    [&before[..], &parts.before, &parts.after].concat()
}

/// The bytes in which a grain was delivered: `blob` alone, or inside the envelope of the cell
/// `envelope`.
///
/// # Errors
/// [`ErrorCode::Corrupt`] if the cell isn't what [`EnvelopeParts`] are stored as.
pub fn delivered_bytes<'a>(
    blob: &'a [u8],
    envelope: Option<&[u8]>,
) -> Result<Cow<'a, [u8]>, GrainError> {
    let Some(cell) = envelope else {
        return Ok(Cow::Borrowed(blob));
    };
    let damaged =
        || GrainError::new(ErrorCode::Corrupt, "the stored envelope is damaged").field("envelope");
    let (length, parts) = cell.split_first_chunk::<4>().ok_or_else(damaged)?;
    let (before, after) = parts
        .split_at_checked(u32::from_be_bytes(*length) as usize)
        .ok_or_else(damaged)?;
    Ok(Cow::Owned([before, blob, after].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_comes_out_of_its_cell_around_the_blob() {
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
