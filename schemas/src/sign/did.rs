//! Decentralized identifiers: from a DID to the key that it names.
//!
//! `did:key` holds its key in itself. Every other method needs somebody who knows (a document on
//! the web, a keyring): that is what [`KeyResolver`] is for. Nothing here looks anything up.

use super::key::VerifyingKey;

/// Multicodec prefix of Ed25519 public keys.
const ED25519: u64 = 0xed;

/// Multicodec prefix of P-256 public keys, compressed.
const P256: u64 = 0x1200;

/// Why a DID gives no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DidError {
    /// Another method than `did:key`, which this resolver doesn't know.
    #[error("the key of {0} can't be known without resolving it; give it to the keyring")]
    Unresolved(String),
    /// Not a well-formed `did:key`.
    #[error("not a well-formed did:key: {0}")]
    Malformed(&'static str),
    /// A kind of key that signs no grains.
    #[error("a key of kind 0x{0:x} can't sign grains; Ed25519 (0xed) and P-256 (0x1200) can")]
    KeyKind(u64),
}

/// Who knows which key a DID names.
pub trait KeyResolver: Send + Sync {
    /// The key of `did`.
    ///
    /// # Errors
    /// [`DidError`] if there is none or it isn't known here.
    fn resolve(&self, did: &str) -> Result<VerifyingKey, DidError>;
}

/// Resolves `did:key` only: the identifier is the key.
#[derive(Debug, Clone, Copy, Default)]
pub struct SelfContained;

impl KeyResolver for SelfContained {
    fn resolve(&self, did: &str) -> Result<VerifyingKey, DidError> {
        key_of_did(did)
    }
}

/// The key inside a `did:key`. A verification method's fragment (`did:key:z…#z…`) is allowed and
/// ignored.
///
/// # Errors
/// [`DidError`].
pub fn key_of_did(did: &str) -> Result<VerifyingKey, DidError> {
    let bare = did.split('#').next().unwrap_or(did);
    let encoded = bare
        .strip_prefix("did:key:")
        .ok_or_else(|| DidError::Unresolved(did.to_owned()))?;
    let digits = encoded
        .strip_prefix('z')
        .ok_or(DidError::Malformed("only base58btc (z…) is defined"))?;
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
            let key = ed25519_dalek::VerifyingKey::from_bytes(key);
            key.map(VerifyingKey::Ed25519)
                .map_err(|_| DidError::Malformed("not a point of the curve"))
        }
        P256 => {
            let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(key);
            key.map(VerifyingKey::P256)
                .map_err(|_| DidError::Malformed("not a point of the curve"))
        }
        kind => Err(DidError::KeyKind(kind)),
    }
}

/// The `did:key` of a public key.
pub fn did_of_key(key: &VerifyingKey) -> String {
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
    fn the_specification_s_example_names_an_ed25519_key() {
        let key = key_of_did("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK").unwrap();
        let VerifyingKey::Ed25519(bytes) = key else {
            panic!()
        };
        assert_eq!(
            hex::encode(bytes.as_bytes()),
            "2e6fcce36701dc791488e0d0b1745cc1e33a4c1c9fcc41c63bd343dbbe0970e6"
        );
    }

    #[test]
    fn a_key_and_its_did_lead_to_each_other() {
        let ed25519 = SigningKey::from_seed(&[7; 32]).verifying_key();
        let p256 = SigningKey::P256(p256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap())
            .verifying_key();
        for key in [ed25519, p256] {
            assert_eq!(key_of_did(&did_of_key(&key)), Ok(key));
        }
    }

    #[test]
    fn what_holds_no_key_says_why() {
        for (did, expected) in [
            ("did:web:example.com", "can't be known"),
            ("did:key:m123", "base58btc"),
            ("did:key:z0OIl", "not base58btc"),
            ("did:key:z6", "can't sign grains"),
            ("alice", "can't be known"),
        ] {
            let error = key_of_did(did).unwrap_err().to_string();
            assert!(error.contains(expected), "{did}: {error}");
        }
    }
}
