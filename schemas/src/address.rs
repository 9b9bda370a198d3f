//! Content addresses: the SHA-256 of a blob's bytes (§5).

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::{ErrorCode, GrainError};

/// The identity of a grain: SHA-256 over its complete blob, written as 64 lowercase hex digits.
///
/// `==` runs in constant time (§20.4). Ordering and hashing don't: they serve sorting and lookup of
/// addresses, which are not secret, and never the integrity check of a blob.
#[derive(Clone, Copy, Eq, PartialOrd, Ord)]
pub struct ContentAddress([u8; 32]);

impl ContentAddress {
    /// The length of the text form in characters.
    pub const TEXT_LENGTH: usize = 64;

    /// Computes the address of `blob`.
    pub fn of(blob: &[u8]) -> Self {
        ContentAddress(Sha256::digest(blob).into())
    }

    /// Wraps a digest that the caller has computed.
    pub const fn from_digest(digest: [u8; 32]) -> Self {
        ContentAddress(digest)
    }

    /// Returns the digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Checks that `blob` hashes to this address.
    ///
    /// # Errors
    /// [`ErrorCode::Integrity`] if it does not.
    pub fn verify(&self, blob: &[u8]) -> Result<(), GrainError> {
        let found = ContentAddress::of(blob);
        if *self == found {
            return Ok(());
        }
        Err(GrainError::new(
            ErrorCode::Integrity,
            format!("the blob hashes to {found}, not to {self}"),
        ))
    }

    /// Writes the 64 hex digits into `text` and returns them as a string, without allocating.
    pub fn write_hex<'a>(&self, text: &'a mut [u8; Self::TEXT_LENGTH]) -> &'a str {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 0xf)];
        }
        std::str::from_utf8(text).unwrap_or_default()
    }
}

/// Computes the address of a blob in two steps: the hash of a prefix first, the rest later.
#[derive(Debug, Clone)]
pub(crate) struct BlobHasher(Sha256);

impl BlobHasher {
    /// Hashes the first bytes of a blob.
    pub(crate) fn with_prefix(prefix: &[u8]) -> Self {
        BlobHasher(Sha256::new_with_prefix(prefix))
    }

    /// Hashes the remaining bytes of the blob and returns its address.
    pub(crate) fn finish(self, rest: &[u8]) -> ContentAddress {
        ContentAddress(self.0.chain_update(rest).finalize().into())
    }
}

impl PartialEq for ContentAddress {
    fn eq(&self, other: &Self) -> bool {
        let (left, right) = (self.0.as_chunks::<8>().0, other.0.as_chunks::<8>().0);
        let pairs = left
            .iter()
            .zip(right)
            .map(|(left, right)| u64::from_ne_bytes(*left) ^ u64::from_ne_bytes(*right));
        pairs
            .fold(0, |differences, pair| differences | pair)
            .ct_eq(&0)
            .into()
    }
}

impl std::hash::Hash for ContentAddress {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl FromStr for ContentAddress {
    type Err = GrainError;

    /// Parses exactly 64 lowercase hex digits; uppercase is an error (§5).
    fn from_str(text: &str) -> Result<Self, GrainError> {
        decode_hex(text.as_bytes())
            .map(ContentAddress)
            .ok_or_else(|| parse_error(text))
    }
}

impl ContentAddress {
    /// Parses an address as it appears in references between grains: with or without the prefix
    /// `sha256:`.
    pub fn from_reference(text: &str) -> Option<ContentAddress> {
        text.strip_prefix("sha256:").unwrap_or(text).parse().ok()
    }
}

/// Decodes 64 lowercase hex digits; `None` for any other text. The loop has no early exit, so that
/// the compiler can vectorise it.
fn decode_hex(text: &[u8]) -> Option<[u8; 32]> {
    const VALUES: [u8; 256] = hex_digit_values();
    let text: &[u8; ContentAddress::TEXT_LENGTH] = text.try_into().ok()?;
    let (mut digest, mut seen) = ([0; 32], 0);
    for (byte, pair) in digest.iter_mut().zip(text.as_chunks::<2>().0) {
        let [high, low] = pair.map(|digit| VALUES[usize::from(digit)]);
        seen |= high | low;
        *byte = high << 4 | low & 0xf;
    }
    (seen < 16).then_some(digest)
}

/// Returns the value of each byte as a hex digit.
const fn hex_digit_values() -> [u8; 256] {
    /// Marks a byte that is no hex digit: its upper half is set, unlike that of any digit value.
    const NONE: u8 = 0xff;
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        value += 1;
    }
    values
}

/// Returns the error for `text`, which is not a valid address.
fn parse_error(text: &str) -> GrainError {
    let characters = text.chars().count();
    if characters != ContentAddress::TEXT_LENGTH {
        let message =
            format!("a content address has 64 hex digits, this has {characters} characters");
        return GrainError::new(ErrorCode::HashLength, message);
    }
    let wrong = text
        .bytes()
        .position(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        .unwrap_or_default();
    GrainError::new(
        ErrorCode::HashFormat,
        "a content address has only the digits 0-9 and a-f",
    )
    .at(wrong)
}

impl fmt::Display for ContentAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.write_hex(&mut [0; Self::TEXT_LENGTH]))
    }
}

impl fmt::Debug for ContentAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ContentAddress({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "3288d0d41cf49a1d428e404f0b6a6fe60388be9536937557f6139b813d53a520";

    fn code(text: &str) -> ErrorCode {
        text.parse::<ContentAddress>().unwrap_err().code
    }

    #[test]
    fn an_address_round_trips_through_text() {
        let address: ContentAddress = TEXT.parse().unwrap();
        assert_eq!(address.to_string(), TEXT);
        assert_eq!(ContentAddress::from_digest(*address.as_bytes()), address);
    }

    #[test]
    fn text_other_than_64_lowercase_hex_digits_is_an_error() {
        assert_eq!(code(&TEXT[1..]), ErrorCode::HashLength);
        assert_eq!(code(&format!("{TEXT}0")), ErrorCode::HashLength);
        assert_eq!(code(""), ErrorCode::HashLength);
        assert_eq!(code(&TEXT.to_uppercase()), ErrorCode::HashFormat);
        assert_eq!(code(&TEXT.replace('0', "g")), ErrorCode::HashFormat);
        assert_eq!(code(&"é".repeat(64)), ErrorCode::HashFormat);
        assert_eq!(code(&"é".repeat(32)), ErrorCode::HashLength);
    }

    #[test]
    fn a_reference_may_have_the_prefix_sha256() {
        let address = ContentAddress::of(b"grain");
        assert_eq!(
            ContentAddress::from_reference(&address.to_string()),
            Some(address)
        );
        assert_eq!(
            ContentAddress::from_reference(&format!("sha256:{address}")),
            Some(address)
        );
        for other in [
            "",
            "sha256:",
            "a hold",
            &format!("sha512:{address}"),
            &format!("sha256:sha256:{address}"),
        ] {
            assert_eq!(ContentAddress::from_reference(other), None, "{other}");
        }
    }

    #[test]
    fn verify_accepts_only_the_addressed_blob() {
        let address = ContentAddress::of(b"grain");
        assert!(address.verify(b"grain").is_ok());
        assert_eq!(
            address.verify(b"grein").unwrap_err().code,
            ErrorCode::Integrity
        );
    }
}
