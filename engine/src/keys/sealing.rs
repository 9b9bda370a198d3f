//! Encryption of short secrets and records with AES-256-GCM.

use aes_gcm::aead::{Aead, Generate, Key, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use zeroize::Zeroizing;

use crate::error::{EngineError, Result};

/// 32 secret bytes, which are zeroed when dropped.
pub type Secret = Zeroizing<[u8; 32]>;

pub(super) fn cipher(key: &Secret) -> Result<Aes256Gcm> {
    Aes256Gcm::new_from_slice(&**key)
        .map_err(|_| EngineError::Key("a key has the wrong length".to_owned()))
}

/// Returns 32 bytes from the random generator of the system.
pub(crate) fn random() -> [u8; 32] {
    Key::<Aes256Gcm>::generate().into()
}

/// Encrypts `clear` under `key`: nonce, then ciphertext.
pub(crate) fn seal(key: &Secret, clear: &[u8]) -> Result<Vec<u8>> {
    seal_bound(key, &[], clear)
}

/// Decrypts what [`seal`] encrypted; `None` if the key differs or the data were changed.
pub(crate) fn unseal(key: &Secret, sealed: &[u8]) -> Option<Vec<u8>> {
    unseal_bound(key, &[], sealed)
}

/// As [`seal`], with the associated data `bound`.
pub(super) fn seal_bound(key: &Secret, bound: &[u8], clear: &[u8]) -> Result<Vec<u8>> {
    let nonce = Nonce::generate();
    let sealed = cipher(key)?.encrypt(
        &nonce,
        Payload {
            msg: clear,
            aad: bound,
        },
    );
    let sealed = sealed.map_err(|_| EngineError::Key("can't seal".to_owned()))?;
    Ok([nonce.as_slice(), &sealed].concat())
}

/// Decrypts what [`seal_bound`] encrypted.
pub(super) fn unseal_bound(key: &Secret, bound: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = sealed.split_first_chunk::<12>()?;
    cipher(key)
        .ok()?
        .decrypt(
            &Nonce::from(*nonce),
            Payload {
                msg: sealed,
                aad: bound,
            },
        )
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_the_same_key_only() {
        let (key, other) = (Zeroizing::new(random()), Zeroizing::new(random()));
        let mut sealed = seal(&key, b"journal").unwrap();
        assert_eq!(unseal(&key, &sealed).unwrap(), b"journal");
        assert!(unseal(&other, &sealed).is_none());
        sealed[15] ^= 1;
        assert!(unseal(&key, &sealed).is_none());
    }
}
