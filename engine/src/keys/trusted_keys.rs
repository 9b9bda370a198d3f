//! The trust store: public keys of DIDs that don't contain their key (§9.3), in a file next to the
//! keyring.
//!
//! It holds no secrets and needs no passphrase. The keys of a DID are those that its operator gave
//! with `keys trust`. [`TrustedFirst`] queries another resolver for the rest; without one, nothing
//! is fetched over the network.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use chrono::Utc;
use gristmill_schemas::identifier::is_did;
use gristmill_schemas::sign::{
    DidError, KEY_FILE_LIMIT, KeyResolver, PublishedKey, VerifyingKey, did_from_key,
    did_without_fragment, key_from_did, keys_named, read_published_keys,
};
use serde::{Deserialize, Serialize};

use super::lock::{KeyringLock, replace_file};
use crate::error::{Context, EngineError, Result};

/// Name and version of the file format.
const FORMAT: &str = "gristmill-trusted-keys/1";

/// A trusted key of a DID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedKey {
    /// The DID, without fragment.
    pub did: String,
    /// The fragment by which the DID's document names the key; `None` stands for any.
    pub fragment: Option<String>,
    /// The key in the form of a `did:key`.
    pub key: String,
    /// Time of the command that added it, as an RFC 3339 date-time.
    pub trusted_at: String,
}

#[derive(Serialize, Deserialize)]
struct TrustFile {
    format: String,
    keys: Vec<TrustedKey>,
}

/// The trusted keys. Resolves these, and every `did:key`.
#[derive(Debug, Default)]
pub struct TrustStore {
    keys: Vec<TrustedKey>,
    /// The keys of each DID with their fragments.
    by_did: HashMap<String, Vec<PublishedKey>>,
}

impl TrustStore {
    /// Opens the trust store next to the keyring file `keyring`; an empty one if there is none.
    ///
    /// # Errors
    /// [`EngineError::Key`] if the file can't be read, or isn't a trust store.
    pub fn next_to(keyring: &Path) -> Result<TrustStore> {
        let path = trust_file_of(keyring);
        let damaged = |cause: &dyn std::fmt::Display| {
            EngineError::Key(format!(
                "`{}` isn't a readable file of trusted keys: {cause}; restore it from a backup, or \
                 remove it and run `gristmill keys trust` again for each DID",
                path.display()
            ))
        };
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(TrustStore::default());
            }
            Err(error) => return Err(damaged(&error)),
        };
        let file: TrustFile = serde_json::from_slice(&text).map_err(|error| damaged(&error))?;
        if file.format != FORMAT {
            return Err(damaged(&format!(
                "its format is `{}`, and only `{FORMAT}` is supported",
                file.format
            )));
        }
        TrustStore::of(file.keys).map_err(|error| damaged(&error))
    }

    /// Returns a store of `keys` that is in no file.
    ///
    /// # Errors
    /// [`DidError`] if one of them isn't a `did:key`.
    pub fn of(keys: Vec<TrustedKey>) -> std::result::Result<TrustStore, DidError> {
        let mut by_did: HashMap<String, Vec<PublishedKey>> = HashMap::new();
        for trusted in &keys {
            let published = PublishedKey {
                fragment: trusted.fragment.clone(),
                key: key_from_did(&trusted.key)?,
            };
            by_did
                .entry(trusted.did.clone())
                .or_default()
                .push(published);
        }
        Ok(TrustStore { keys, by_did })
    }

    /// Returns the trusted keys in the order of their DIDs.
    pub fn keys(&self) -> &[TrustedKey] {
        &self.keys
    }

    /// Adds the keys of the `content` of a key file (see [`read_published_keys`]) to those of
    /// `did`, and returns all of them. Earlier keys of the DID stay, so that older signatures
    /// remain valid when its owner changes keys.
    ///
    /// # Errors
    /// [`EngineError::Key`] if `did` needs no trust or isn't a DID, or the file gives no key;
    /// [`EngineError::File`] if the store can't be written.
    pub fn trust(keyring: &Path, did: &str, content: &[u8]) -> Result<Vec<TrustedKey>> {
        check_did(did)?;
        let published = read_published_keys(did, content)
            .map_err(|error| EngineError::Key(format!("the key file of {did:?}: {error}")))?;
        let _lock = KeyringLock::acquire(keyring)?;
        let mut store = TrustStore::next_to(keyring)?;
        for key in published {
            store.add(did, key);
        }
        store.write(keyring)?;
        Ok(store.of_did(did))
    }

    /// Adds a key of `did`, unless the store has it.
    fn add(&mut self, did: &str, PublishedKey { fragment, key }: PublishedKey) {
        let key = did_from_key(&key);
        let is_known =
            |known: &TrustedKey| known.did == did && known.key == key && known.fragment == fragment;
        if !self.keys.iter().any(is_known) {
            self.keys.push(TrustedKey {
                did: did.to_owned(),
                fragment,
                key,
                trusted_at: Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            });
        }
    }

    /// Removes all keys of `did`, and returns them.
    ///
    /// # Errors
    /// [`EngineError::Key`] if there are none; [`EngineError::File`] if the store can't be written.
    pub fn untrust(keyring: &Path, did: &str) -> Result<Vec<TrustedKey>> {
        let _lock = KeyringLock::acquire(keyring)?;
        let mut store = TrustStore::next_to(keyring)?;
        let removed = store.of_did(did);
        if removed.is_empty() {
            return Err(EngineError::Key(format!(
                "no key of {did:?} is trusted; `gristmill keys trusted` lists those that are"
            )));
        }
        store.keys.retain(|known| known.did != did);
        store.write(keyring)?;
        Ok(removed)
    }

    fn of_did(&self, did: &str) -> Vec<TrustedKey> {
        let own = self.keys.iter().filter(|known| known.did == did);
        own.cloned().collect()
    }

    fn write(&mut self, keyring: &Path) -> Result<()> {
        self.keys.sort_by(|a, b| a.did.cmp(&b.did));
        let path = trust_file_of(keyring);
        let file = TrustFile {
            format: FORMAT.to_owned(),
            keys: self.keys.clone(),
        };
        let text = serde_json::to_vec_pretty(&file).file("can't write", path.display())?;
        replace_file(&path, &[&text])
    }
}

impl KeyResolver for TrustStore {
    fn resolve(&self, did: &str) -> std::result::Result<Vec<VerifyingKey>, DidError> {
        let bare = did_without_fragment(did);
        if bare.starts_with("did:key:") {
            return Ok(vec![key_from_did(did)?]);
        }
        let known = self.by_did.get(bare).map(Vec::as_slice);
        let keys = keys_named(did, known.unwrap_or_default());
        match keys.is_empty() {
            true => Err(DidError::Unresolved(did.to_owned())),
            false => Ok(keys),
        }
    }
}

/// Resolves DIDs by the trust store, and those that it has no key of by another resolver.
pub struct TrustedFirst<R> {
    trusted: TrustStore,
    other: R,
}

impl<R: KeyResolver> TrustedFirst<R> {
    /// Returns a resolver that queries `other` for the keys of DIDs that `trusted` has none of.
    pub fn new(trusted: TrustStore, other: R) -> TrustedFirst<R> {
        TrustedFirst { trusted, other }
    }
}

impl<R: KeyResolver> KeyResolver for TrustedFirst<R> {
    fn resolve(&self, did: &str) -> std::result::Result<Vec<VerifyingKey>, DidError> {
        let bare = did_without_fragment(did);
        match bare.starts_with("did:key:") || self.trusted.by_did.contains_key(bare) {
            true => self.trusted.resolve(did),
            false => self.other.resolve(did),
        }
    }
}

/// Refuses what isn't a DID (method, colon, identifier; no fragment), and a `did:key`.
fn check_did(did: &str) -> Result<()> {
    if did.starts_with("did:key:") {
        return Err(EngineError::Key(format!(
            "{did:?} contains its key, so there is nothing to trust"
        )));
    }
    match is_did(did) && !did.contains(['/', '?', '#']) {
        true => Ok(()),
        false => Err(EngineError::Key(format!(
            "{did:?} isn't a DID without fragment, such as did:web:example.org"
        ))),
    }
}

fn trust_file_of(keyring: &Path) -> PathBuf {
    let mut path = keyring.as_os_str().to_owned();
    path.push(".trusted");
    path.into()
}

/// Reads a key file, at most one byte more than [`read_published_keys`] accepts.
///
/// # Errors
/// [`EngineError::File`] if it can't be read.
pub fn read_key_file(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read;
    let mut content = Vec::new();
    let file = std::fs::File::open(path).file("can't read", path.display())?;
    file.take(KEY_FILE_LIMIT as u64 + 1)
        .read_to_end(&mut content)
        .file("can't read", path.display())?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::sign::SigningKey;

    use super::*;

    const DID: &str = "did:web:example.org";

    fn key(seed: u8) -> VerifyingKey {
        SigningKey::from_seed(&[seed; 32]).verifying_key()
    }

    #[test]
    fn trusted_keys_resolve_until_the_did_is_no_longer_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = folder.path().join("keyring.json");
        let resolve = |did: &str| TrustStore::next_to(&keyring).unwrap().resolve(did);
        assert!(matches!(resolve(DID), Err(DidError::Unresolved(_))));

        let multibase = did_from_key(&key(2)).replace("did:key:", "");
        let document = format!(
            r##"{{"id": "{DID}", "verificationMethod": [
                {{"id": "#a", "publicKeyMultibase": "{multibase}"}}]}}"##
        );
        TrustStore::trust(&keyring, DID, did_from_key(&key(1)).as_bytes()).unwrap();
        for _ in 0..2 {
            let trusted = TrustStore::trust(&keyring, DID, document.as_bytes()).unwrap();
            assert_eq!(trusted.len(), 2);
        }
        assert_eq!(resolve(DID), Ok(vec![key(1), key(2)]));
        assert_eq!(resolve("did:web:example.org#a"), Ok(vec![key(1), key(2)]));
        assert_eq!(resolve("did:web:example.org#b"), Ok(vec![key(1)]));
        assert_eq!(resolve(&did_from_key(&key(3))), Ok(vec![key(3)]));

        assert_eq!(TrustStore::untrust(&keyring, DID).unwrap().len(), 2);
        assert!(matches!(resolve(DID), Err(DidError::Unresolved(_))));
        let error = TrustStore::untrust(&keyring, DID).unwrap_err();
        assert!(error.to_string().contains("keys trusted"), "{error}");
    }

    #[test]
    fn a_damaged_store_is_an_error_and_not_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = folder.path().join("keyring.json");
        for damaged in ["", "{}", r#"{"format": "other/1", "keys": []}"#] {
            std::fs::write(trust_file_of(&keyring), damaged).unwrap();
            let error = TrustStore::next_to(&keyring).unwrap_err().to_string();
            assert!(error.contains("restore it from a backup"), "{error}");
        }
    }

    #[test]
    fn what_is_no_did_can_not_be_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = folder.path().join("keyring.json");
        let file = did_from_key(&key(1));
        for did in [
            &file,
            "example.org",
            "did:web:",
            "did:web:a#b",
            "did:web:a b",
        ] {
            TrustStore::trust(&keyring, did, file.as_bytes()).unwrap_err();
        }
        assert!(!trust_file_of(&keyring).exists());
    }
}
