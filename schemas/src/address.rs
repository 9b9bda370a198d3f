//! Content addresses: the SHA-256 of a blob's bytes (§5).

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::{ErrorCode, GrainError};

/// The identity of a grain: SHA-256 over its complete blob, written as 64 lowercase hex digits.
///
/// `==` takes the same time wherever two addresses first differ (§20.4). Ordering and hashing
/// don't: they serve sorting and look-up of addresses that are no secret, never the proof that a
/// blob is intact.
#[derive(Clone, Copy, Eq, PartialOrd, Ord)]
pub struct ContentAddress([u8; 32]);

impl ContentAddress {
    /// The length of the written form in characters.
    pub const TEXT_LENGTH: usize = 64;

    /// The address of `blob`.
    pub fn of(blob: &[u8]) -> Self {
        ContentAddress(Sha256::digest(blob).into())
    }

    /// Wraps a digest that was computed elsewhere.
    pub const fn from_digest(digest: [u8; 32]) -> Self {
        ContentAddress(digest)
    }

    /// The digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Proves that `blob` is what this address names.
    ///
    /// # Errors
    /// [`ErrorCode::Integrity`] if it isn't.
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

    /// Writes the 64 hex digits into `text` and answers them as a string, without allocating.
    pub fn write_hex<'a>(&self, text: &'a mut [u8; Self::TEXT_LENGTH]) -> &'a str {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 0xf)];
        }
        std::str::from_utf8(text).unwrap_or_default()
    }
}

/// The address of a blob whose end isn't known yet.
#[derive(Debug, Clone)]
pub(crate) struct BlobHash(Sha256);

impl BlobHash {
    /// Of a blob that begins so.
    pub(crate) fn of(begin: &[u8]) -> Self {
        BlobHash(Sha256::new_with_prefix(begin))
    }

    /// The address of the blob that ends so.
    pub(crate) fn end(self, end: &[u8]) -> ContentAddress {
        ContentAddress(self.0.chain_update(end).finalize().into())
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

    /// Exactly 64 lowercase hex digits; upper case is refused (§5).
    fn from_str(text: &str) -> Result<Self, GrainError> {
        digest_of(text.as_bytes())
            .map(ContentAddress)
            .ok_or_else(|| fault(text))
    }
}

impl ContentAddress {
    /// The address that `text` names, as grains refer to each other: with or without `sha256:`
    /// before it.
    pub fn of_reference(text: &str) -> Option<ContentAddress> {
        text.strip_prefix("sha256:").unwrap_or(text).parse().ok()
    }
}

/// The bytes that 64 lowercase hex digits stand for; `None` if `text` is anything else. Looks at
/// all digits whatever they are, which is what makes it fast.
fn digest_of(text: &[u8]) -> Option<[u8; 32]> {
    /// No digit: its upper half is set, as in no value of one.
    const NONE: u8 = 0xff;
    const VALUES: [u8; 256] = {
        let mut values = [NONE; 256];
        let mut value = 0;
        while value < 16 {
            values[b"0123456789abcdef"[value] as usize] = value as u8;
            value += 1;
        }
        values
    };
    let text: &[u8; ContentAddress::TEXT_LENGTH] = text.try_into().ok()?;
    let (mut digest, mut seen) = ([0; 32], 0);
    for (byte, pair) in digest.iter_mut().zip(text.as_chunks::<2>().0) {
        let [high, low] = pair.map(|digit| VALUES[usize::from(digit)]);
        seen |= high | low;
        *byte = high << 4 | low & 0xf;
    }
    (seen < 16).then_some(digest)
}

/// What is wrong with `text`, which is no address.
fn fault(text: &str) -> GrainError {
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
    fn an_address_reads_back_as_it_is_written() {
        let address: ContentAddress = TEXT.parse().unwrap();
        assert_eq!(address.to_string(), TEXT);
        assert_eq!(ContentAddress::from_digest(*address.as_bytes()), address);
    }

    #[test]
    fn anything_but_64_lowercase_hex_digits_is_refused_with_its_code() {
        assert_eq!(code(&TEXT[1..]), ErrorCode::HashLength);
        assert_eq!(code(&format!("{TEXT}0")), ErrorCode::HashLength);
        assert_eq!(code(""), ErrorCode::HashLength);
        assert_eq!(code(&TEXT.to_uppercase()), ErrorCode::HashFormat);
        assert_eq!(code(&TEXT.replace('0', "g")), ErrorCode::HashFormat);
        assert_eq!(code(&"é".repeat(64)), ErrorCode::HashFormat);
        assert_eq!(code(&"é".repeat(32)), ErrorCode::HashLength);
    }

    #[test]
    fn a_reference_may_say_what_hash_it_is() {
        let address = ContentAddress::of(b"grain");
        assert_eq!(
            ContentAddress::of_reference(&address.to_string()),
            Some(address)
        );
        assert_eq!(
            ContentAddress::of_reference(&format!("sha256:{address}")),
            Some(address)
        );
        for other in [
            "",
            "sha256:",
            "a hold",
            &format!("sha512:{address}"),
            &format!("sha256:sha256:{address}"),
        ] {
            assert_eq!(ContentAddress::of_reference(other), None, "{other}");
        }
    }

    #[test]
    fn a_blob_is_proven_by_its_address_alone() {
        let address = ContentAddress::of(b"grain");
        assert!(address.verify(b"grain").is_ok());
        assert_eq!(
            address.verify(b"grein").unwrap_err().code,
            ErrorCode::Integrity
        );
    }
}
