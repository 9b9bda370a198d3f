//! The two kinds of signing keys: Ed25519 (the default) and ECDSA over P-256.

use ed25519_dalek::Signer as _;
use p256::ecdsa::signature::Verifier as _;

use super::did::DidError;

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifyingKey {
    /// Ed25519.
    Ed25519(ed25519_dalek::VerifyingKey),
    /// ECDSA over P-256.
    P256(p256::ecdsa::VerifyingKey),
}

/// A private key.
#[derive(Clone)]
pub enum SigningKey {
    /// Ed25519.
    Ed25519(ed25519_dalek::SigningKey),
    /// ECDSA over P-256.
    P256(p256::ecdsa::SigningKey),
}

impl VerifyingKey {
    /// Returns the Ed25519 key of 32 bytes.
    ///
    /// # Errors
    /// [`DidError::Malformed`] if they aren't a point of the curve.
    pub fn from_ed25519(bytes: &[u8; 32]) -> Result<Self, DidError> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(bytes);
        key.map(VerifyingKey::Ed25519)
            .map_err(|_| DidError::Malformed("not a point of the curve"))
    }

    /// Returns the P-256 key of a SEC1 point, compressed or not.
    ///
    /// # Errors
    /// [`DidError::Malformed`] if it isn't a point of the curve.
    pub fn from_p256(point: &[u8]) -> Result<Self, DidError> {
        let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(point);
        key.map(VerifyingKey::P256)
            .map_err(|_| DidError::Malformed("not a point of the curve"))
    }

    /// Returns true if `signature` (64 bytes in COSE's raw form) is valid for `message` and this
    /// key.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            VerifyingKey::Ed25519(key) => ed25519_dalek::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify_strict(message, &signature).is_ok()),
            VerifyingKey::P256(key) => p256::ecdsa::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
        }
    }
}

impl SigningKey {
    /// Creates an Ed25519 key from its 32-byte seed.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        SigningKey::Ed25519(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// Returns the public key.
    pub fn verifying_key(&self) -> VerifyingKey {
        match self {
            SigningKey::Ed25519(key) => VerifyingKey::Ed25519(key.verifying_key()),
            SigningKey::P256(key) => VerifyingKey::P256(*key.verifying_key()),
        }
    }

    /// Signs `message`; returns the signature in COSE's raw form, 64 bytes.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            SigningKey::Ed25519(key) => key.sign(message).to_bytes().to_vec(),
            SigningKey::P256(key) => {
                let signature: p256::ecdsa::Signature = key.sign(message);
                signature.to_bytes().to_vec()
            }
        }
    }
}
