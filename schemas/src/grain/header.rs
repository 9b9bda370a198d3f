//! The nine-byte header in front of every payload (§3.1).

use sha2::{Digest, Sha256};

use super::types::TypeByte;
use crate::error::{ErrorCode, GrainError};

/// The length of a header in bytes.
pub const HEADER_LENGTH: usize = 9;

/// The length of the shortest blob in bytes: a header and an empty map.
pub const MIN_BLOB_LENGTH: usize = HEADER_LENGTH + 1;

/// The format version.
pub const VERSION: u8 = 1;

/// The sensitivity class in the header's two top flag bits (§13.1). Ordered: a higher class
/// includes the duties of the lower ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Sensitivity {
    /// No constraints.
    #[default]
    Public = 0,
    /// Internal to an organization.
    Internal = 1,
    /// Personally identifiable information.
    Pii = 2,
    /// Protected health information.
    Phi = 3,
}

impl Sensitivity {
    /// Returns the class encoded in the two low bits of `bits`.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0 => Sensitivity::Public,
            1 => Sensitivity::Internal,
            2 => Sensitivity::Pii,
            _ => Sensitivity::Phi,
        }
    }

    /// Returns `public`, `internal`, `pii` or `phi`.
    pub const fn name(self) -> &'static str {
        match self {
            Sensitivity::Public => "public",
            Sensitivity::Internal => "internal",
            Sensitivity::Pii => "pii",
            Sensitivity::Phi => "phi",
        }
    }

    /// Returns the minimum class that a structural tag requires (§13.4). Tag prefixes are lowercase
    /// and end in a colon.
    pub fn from_tag(tag: &str) -> Sensitivity {
        match tag.split_once(':').map(|(prefix, _)| prefix) {
            Some("phi") => Sensitivity::Phi,
            Some("pii" | "sec" | "legal") => Sensitivity::Pii,
            Some("reg") => Sensitivity::Internal,
            _ => Sensitivity::Public,
        }
    }
}

/// The flags byte of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HeaderFlags(u8);

impl HeaderFlags {
    const SIGNED: u8 = 1;
    const ENCRYPTED: u8 = 1 << 1;
    const COMPRESSED: u8 = 1 << 2;
    const CONTENT_REFS: u8 = 1 << 3;
    const EMBEDDING_REFS: u8 = 1 << 4;
    const CBOR: u8 = 1 << 5;

    /// Wraps a flags byte.
    pub const fn from_byte(byte: u8) -> Self {
        HeaderFlags(byte)
    }

    /// Returns the byte.
    pub const fn byte(self) -> u8 {
        self.0
    }

    /// True if a COSE_Sign1 envelope wraps the grain.
    pub const fn signed(self) -> bool {
        self.0 & Self::SIGNED != 0
    }

    /// True if the payload is encrypted.
    pub const fn encrypted(self) -> bool {
        self.0 & Self::ENCRYPTED != 0
    }

    /// True if the payload is compressed with zstd (before encryption).
    pub const fn compressed(self) -> bool {
        self.0 & Self::COMPRESSED != 0
    }

    /// True if the grain references external content.
    pub const fn has_content_refs(self) -> bool {
        self.0 & Self::CONTENT_REFS != 0
    }

    /// True if the grain references external embeddings.
    pub const fn has_embedding_refs(self) -> bool {
        self.0 & Self::EMBEDDING_REFS != 0
    }

    /// True if the header declares a CBOR payload. Some writers use the bit for another purpose, so
    /// readers must check the payload's first byte.
    pub const fn cbor(self) -> bool {
        self.0 & Self::CBOR != 0
    }

    /// Returns the sensitivity class.
    pub const fn sensitivity(self) -> Sensitivity {
        Sensitivity::from_bits(self.0 >> 6)
    }

    pub(super) fn set_signed(&mut self, on: bool) {
        self.set(Self::SIGNED, on);
    }

    pub(super) fn set_compressed(&mut self, on: bool) {
        self.set(Self::COMPRESSED, on);
    }

    pub(super) fn set_content_refs(&mut self, on: bool) {
        self.set(Self::CONTENT_REFS, on);
    }

    pub(super) fn set_embedding_refs(&mut self, on: bool) {
        self.set(Self::EMBEDDING_REFS, on);
    }

    pub(super) fn set_cbor(&mut self, on: bool) {
        self.set(Self::CBOR, on);
    }

    pub(super) fn set_sensitivity(&mut self, sensitivity: Sensitivity) {
        self.0 = self.0 & 0x3F | (sensitivity as u8) << 6;
    }

    fn set(&mut self, bit: u8, on: bool) {
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }
}

/// The fixed header of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrainHeader {
    /// Byte 1.
    pub flags: HeaderFlags,
    /// Byte 2.
    pub type_byte: TypeByte,
    /// Bytes 3–4: a routing hint (see [`namespace_hash`]), not to be relied on for decisions.
    pub namespace_hash: [u8; 2],
    /// Bytes 5–8: the creation time in whole seconds since 1970, also a routing hint.
    pub created_at_seconds: u32,
}

impl GrainHeader {
    /// Reads the header of `blob`.
    ///
    /// # Errors
    /// [`ErrorCode::TooShort`] below ten bytes, [`ErrorCode::Version`], [`ErrorCode::UnknownType`]
    /// for type byte 0.
    pub fn read(blob: &[u8]) -> Result<GrainHeader, GrainError> {
        let &[version, flags, type_byte, n0, n1, c0, c1, c2, c3, _, ..] = blob else {
            let message = format!(
                "a blob has at least {MIN_BLOB_LENGTH} bytes, found {}",
                blob.len()
            );
            return Err(GrainError::new(ErrorCode::TooShort, message));
        };
        if version != VERSION {
            let message = format!("unsupported format version: {version}");
            return Err(GrainError::new(ErrorCode::Version, message).at(0));
        }
        let type_byte = TypeByte::from_byte(type_byte).ok_or_else(|| {
            GrainError::new(ErrorCode::UnknownType, "the type byte 0x00 is reserved").at(2)
        })?;
        Ok(GrainHeader {
            flags: HeaderFlags(flags),
            type_byte,
            namespace_hash: [n0, n1],
            created_at_seconds: u32::from_be_bytes([c0, c1, c2, c3]),
        })
    }

    /// Returns the nine bytes.
    pub fn to_bytes(self) -> [u8; HEADER_LENGTH] {
        let [n0, n1] = self.namespace_hash;
        let [c0, c1, c2, c3] = self.created_at_seconds.to_be_bytes();
        [
            VERSION,
            self.flags.0,
            self.type_byte.byte(),
            n0,
            n1,
            c0,
            c1,
            c2,
            c3,
        ]
    }
}

/// Returns the header's two bytes for a namespace: the first two of its SHA-256, or zeros without a
/// namespace.
pub fn namespace_hash(namespace: Option<&str>) -> [u8; 2] {
    match namespace {
        Some(namespace) => {
            let digest = Sha256::digest(namespace.as_bytes());
            [digest[0], digest[1]]
        }
        None => [0, 0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_round_trips() {
        let blob = [1, 0b1010_1001, 5, 0xa4, 0xd2, 0x69, 0x68, 0xba, 0xa0, 0x80];
        let header = GrainHeader::read(&blob).unwrap();
        assert!(header.flags.signed() && header.flags.has_content_refs() && header.flags.cbor());
        assert!(
            !header.flags.encrypted()
                && !header.flags.compressed()
                && !header.flags.has_embedding_refs()
        );
        assert_eq!(header.flags.sensitivity(), Sensitivity::Pii);
        assert_eq!(header.created_at_seconds, 1_768_471_200);
        assert_eq!(header.to_bytes(), blob[..9]);
        assert_eq!(header.namespace_hash, namespace_hash(Some("shared")));
    }

    #[test]
    fn length_is_checked_before_version() {
        assert_eq!(
            GrainHeader::read(&[2; 9]).unwrap_err().code,
            ErrorCode::TooShort
        );
        assert_eq!(
            GrainHeader::read(&[2; 10]).unwrap_err().code,
            ErrorCode::Version
        );
    }

    #[test]
    fn only_lowercase_prefixes_with_a_colon_raise_the_class() {
        for (tag, class) in [
            ("phi:mrn", Sensitivity::Phi),
            ("pii:email", Sensitivity::Pii),
            ("sec:token", Sensitivity::Pii),
            ("legal:privilege", Sensitivity::Pii),
            ("reg:sox", Sensitivity::Internal),
            ("phi", Sensitivity::Public),
            ("PHI:x", Sensitivity::Public),
            ("ui", Sensitivity::Public),
        ] {
            assert_eq!(Sensitivity::from_tag(tag), class, "{tag}");
        }
    }
}
