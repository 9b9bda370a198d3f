//! The content of a keyring file, and its entries.

use std::fmt;
use std::path::Path;

use aes_gcm::Nonce;
use aes_gcm::aead::{Aead, Generate, Payload};
use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};

use crate::error::{EngineError, Result};
use crate::keys::sealing::{Secret, cipher, random};

/// Name and version of the file format.
pub(super) const FORMAT: &str = "gristmill-keyring/1";

/// Cost of Argon2id for new keyrings: memory in KiB, passes, lanes.
const COST: (u32, u32, u32) = (19_456, 2, 1);

/// Maximal cost that is accepted from a file, so that a hostile file can't exhaust memory: 1 GiB,
/// 16 passes, 16 lanes.
const COST_LIMIT: (u32, u32, u32) = (1 << 20, 16, 16);

#[derive(Serialize, Deserialize)]
pub(super) struct KeyringFile {
    pub(super) format: String,
    pub(super) kdf: KdfParams,
    pub(super) keys: Vec<KeyEntry>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct KdfParams {
    name: String,
    salt: String,
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// One entry of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeyEntry {
    /// Name of the key.
    pub name: String,
    /// `master` or `ed25519`.
    pub kind: String,
    /// DID of a signing key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did: Option<String>,
    /// Time of creation, as an RFC 3339 date-time.
    pub created_at: String,
    pub(super) nonce: String,
    pub(super) sealed: String,
}

/// The public part of a key.
#[derive(Debug, Clone, Serialize)]
pub struct PublicKey {
    /// Name of the key.
    pub name: String,
    /// `master` or `ed25519`.
    pub kind: String,
    /// DID of a signing key.
    pub did: Option<String>,
    /// Time of creation, as an RFC 3339 date-time.
    pub created_at: String,
}

impl KdfParams {
    /// Returns parameters for a new passphrase, with a new salt.
    pub(super) fn fresh() -> KdfParams {
        let (memory_kib, passes, lanes) = COST;
        KdfParams {
            name: "argon2id".to_owned(),
            salt: hex::encode(random()),
            memory_kib,
            passes,
            lanes,
        }
    }
}

impl KeyEntry {
    /// Seals `secret` under `key` with a new nonce.
    pub(super) fn sealed(mut self, key: &Secret, secret: &[u8]) -> Result<KeyEntry> {
        let nonce = Nonce::generate();
        let payload = Payload {
            msg: secret,
            aad: &self.bound(),
        };
        let sealed = cipher(key)?.encrypt(&nonce, payload);
        let sealed = sealed.map_err(|_| EngineError::Key("a key can't be sealed".to_owned()))?;
        self.nonce = hex::encode(nonce);
        self.sealed = hex::encode(sealed);
        Ok(self)
    }

    /// Returns the associated data of the seal, which prevents that an entry gets another name,
    /// kind or DID.
    pub(super) fn bound(&self) -> Vec<u8> {
        format!(
            "{FORMAT}\n{}\n{}\n{}",
            self.name,
            self.kind,
            self.did.as_deref().unwrap_or_default()
        )
        .into_bytes()
    }
}

pub(super) fn read(path: &Path) -> Result<KeyringFile> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => EngineError::NoKeyring(path.to_owned()),
        _ => EngineError::Key(format!("can't read the keyring `{shown}`: {error}")),
    })?;
    let file: KeyringFile = serde_json::from_slice(&text)
        .map_err(|error| EngineError::Key(format!("`{shown}` isn't a keyring: {error}")))?;
    if file.format != FORMAT {
        return Err(EngineError::Key(format!(
            "`{shown}` has the format `{}`; only `{FORMAT}` is supported",
            file.format
        )));
    }
    Ok(file)
}

/// Derives a key from a passphrase with Argon2id.
pub(super) fn passphrase_key(passphrase: &str, kdf: &KdfParams) -> Result<Secret> {
    let fault =
        |what: &dyn fmt::Display| EngineError::Key(format!("the keyring's key derivation: {what}"));
    let cost = (kdf.memory_kib, kdf.passes, kdf.lanes);
    if kdf.name != "argon2id"
        || cost.0 > COST_LIMIT.0
        || cost.1 > COST_LIMIT.1
        || cost.2 > COST_LIMIT.2
    {
        return Err(fault(&format!(
            "`{}` at cost {cost:?} isn't accepted",
            kdf.name
        )));
    }
    let salt = hex::decode(&kdf.salt).map_err(|error| fault(&error))?;
    let params = Params::new(cost.0, cost.1, cost.2, Some(32)).map_err(|error| fault(&error))?;
    let mut key = Secret::default();
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.as_bytes(), &salt, &mut *key)
        .map_err(|error| fault(&error))?;
    Ok(key)
}
