//! Decentralized identifiers (DIDs) and the keys that they name.
//!
//! A `did:key` contains its key. Other methods need an external source (a document on the web, a
//! keyring), which implements [`KeyResolver`]. This module performs no lookups.

use super::key::VerifyingKey;

/// The multicodec prefix of Ed25519 public keys.
const ED25519: u64 = 0xed;

/// The multicodec prefix of compressed P-256 public keys.
const P256: u64 = 0x1200;

/// The most base58 digits of a key, far more than the largest kind has. Decoding takes time
/// proportional to the square of their number.
const MAX_KEY_DIGITS: usize = 2048;

/// The reason why a DID yields no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DidError {
    /// The DID uses another method than `did:key`, and the resolver has no key of it.
    #[error("the key of {0} is unknown; `gristmill keys trust DID FILE` adds it")]
    Unresolved(String),
    /// The document of the DID can't be fetched or used.
    #[error(
        "the document of {did} can't be used: {cause}; `gristmill keys trust DID FILE` adds its \
         keys"
    )]
    Document {
        /// The DID.
        did: String,
        /// What is wrong, for people.
        cause: String,
    },
    /// The DID is not a well-formed `did:key`.
    #[error("not a well-formed did:key: {0}")]
    Malformed(&'static str),
    /// The key is of a kind that can't sign grains.
    #[error("a key of kind 0x{0:x} can't sign grains; Ed25519 (0xed) and P-256 (0x1200) can")]
    KeyKind(u64),
    /// The key is of a curve that can't sign grains.
    #[error("a key of the curve `{0}` can't sign grains; Ed25519 and P-256 can")]
    Curve(String),
}

/// Resolves DIDs to keys.
pub trait KeyResolver: Send + Sync {
    /// Returns the keys of `did`, at least one. A signature of any of them is one of the DID.
    ///
    /// # Errors
    /// [`DidError`] if there is none or it is unknown to this resolver.
    fn resolve(&self, did: &str) -> Result<Vec<VerifyingKey>, DidError>;
}

/// Resolves only `did:key`, whose identifiers contain the key.
#[derive(Debug, Clone, Copy, Default)]
pub struct DidKeyResolver;

impl KeyResolver for DidKeyResolver {
    fn resolve(&self, did: &str) -> Result<Vec<VerifyingKey>, DidError> {
        Ok(vec![key_from_did(did)?])
    }
}

/// Returns the key in a `did:key`. The fragment of a verification method (`did:key:z…#z…`) is
/// ignored.
///
/// # Errors
/// [`DidError`].
pub fn key_from_did(did: &str) -> Result<VerifyingKey, DidError> {
    let encoded = did_without_fragment(did)
        .strip_prefix("did:key:")
        .ok_or_else(|| DidError::Unresolved(did.to_owned()))?;
    key_from_multicodec(encoded)
}

/// Returns a DID without the fragment that names one of its keys.
pub fn did_without_fragment(did: &str) -> &str {
    did.split('#').next().unwrap_or(did)
}

/// Returns the key in a multibase text (`z…`) with a multicodec prefix.
///
/// # Errors
/// [`DidError`], except [`DidError::Unresolved`].
pub(super) fn key_from_multicodec(encoded: &str) -> Result<VerifyingKey, DidError> {
    let digits = encoded
        .strip_prefix('z')
        .ok_or(DidError::Malformed("its key must be base58btc (z…)"))?;
    if digits.len() > MAX_KEY_DIGITS {
        return Err(DidError::Malformed("it has more than 2048 digits"));
    }
    let bytes = bs58::decode(digits)
        .into_vec()
        .map_err(|_| DidError::Malformed("not base58btc"))?;
    let (kind, key) = unsigned_varint::decode::u64(&bytes)
        .map_err(|_| DidError::Malformed("no multicodec prefix"))?;
    match kind {
        ED25519 => {
            let key: &[u8; 32] = key
                .try_into()
                .map_err(|_| DidError::Malformed("an Ed25519 key has 32 bytes"))?;
            VerifyingKey::from_ed25519(key)
        }
        P256 => VerifyingKey::from_p256(key),
        kind => Err(DidError::KeyKind(kind)),
    }
}

/// Returns the `did:key` of a public key.
pub fn did_from_key(key: &VerifyingKey) -> String {
    let (kind, bytes) = match key {
        VerifyingKey::Ed25519(key) => (ED25519, key.as_bytes().to_vec()),
        VerifyingKey::P256(key) => (P256, key.to_sec1_point(true).as_bytes().to_vec()),
    };
    let mut prefix = unsigned_varint::encode::u64_buffer();
    let prefixed = [unsigned_varint::encode::u64(kind, &mut prefix), &bytes].concat();
    format!("did:key:z{}", bs58::encode(prefixed).into_string())
}

#[cfg(test)]
mod tests {
    use super::super::key::SigningKey;
    use super::*;

    #[test]
    fn the_example_of_the_specification_is_an_ed25519_key() {
        let key = key_from_did("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK").unwrap();
        let VerifyingKey::Ed25519(bytes) = key else {
            panic!()
        };
        assert_eq!(
            hex::encode(bytes.as_bytes()),
            "2e6fcce36701dc791488e0d0b1745cc1e33a4c1c9fcc41c63bd343dbbe0970e6"
        );
    }

    #[test]
    fn a_key_round_trips_through_its_did() {
        let ed25519 = SigningKey::from_seed(&[7; 32]).verifying_key();
        let p256 = SigningKey::P256(p256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap())
            .verifying_key();
        for key in [ed25519, p256] {
            assert_eq!(key_from_did(&did_from_key(&key)), Ok(key));
        }
    }

    #[test]
    fn a_key_of_a_million_digits_is_malformed() {
        let did = |digits: usize| format!("did:key:z{}", "2".repeat(digits));
        let error = key_from_did(&did(MAX_KEY_DIGITS)).unwrap_err().to_string();
        assert!(!error.contains("more than"), "{error}");
        // Decoding it would take minutes.
        let error = key_from_did(&did(1_000_000)).unwrap_err().to_string();
        assert!(
            error.contains(&format!("more than {MAX_KEY_DIGITS} digits")),
            "{error}"
        );
    }

    #[test]
    fn errors_name_the_reason() {
        for (did, expected) in [
            ("did:web:example.com", "is unknown"),
            ("did:key:m123", "base58btc"),
            ("did:key:z0OIl", "not base58btc"),
            ("did:key:z6", "can't sign grains"),
            ("alice", "is unknown"),
        ] {
            let error = key_from_did(did).unwrap_err().to_string();
            assert!(error.contains(expected), "{did}: {error}");
        }
    }
}
