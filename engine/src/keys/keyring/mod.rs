//! The keyring file: JSON with sealed secrets.

mod file;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use aes_gcm::Nonce;
use aes_gcm::aead::{Aead, Payload};
use chrono::Utc;
use gristmill_schemas::sign::{SigningKey, did_from_key};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::lock::{KeyringLock, replace_file};
use super::sealing::{Secret, cipher, random};
use crate::error::{Context, EngineError, Result};

use file::{FORMAT, KdfParams, KeyringFile, passphrase_key, read};
pub use file::{KeyEntry, PublicKey};

/// Name of the entry from which keys for single purposes are derived.
const MASTER: &str = "master";

/// An unlocked keyring.
pub struct Keyring {
    path: PathBuf,
    file: KeyringFile,
    key: Secret,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Keyring({}, {} entries)",
            self.path.display(),
            self.file.keys.len()
        )
    }
}

impl Keyring {
    /// Opens the keyring in the file `path`.
    ///
    /// # Errors
    /// [`EngineError::NoKeyring`] if the file doesn't exist; [`EngineError::Key`] if it isn't a
    /// keyring, or the passphrase is wrong or empty.
    pub fn open(path: &Path, passphrase: &str) -> Result<Keyring> {
        let file = read(path)?;
        check_passphrase(passphrase)?;
        let key = passphrase_key(passphrase, &file.kdf)?;
        let keyring = Keyring {
            path: path.to_owned(),
            file,
            key,
        };
        keyring.secret(MASTER)?;
        Ok(keyring)
    }

    /// Opens the keyring in the file `path`, or creates it. If several processes do so at the same
    /// time, one creates the keyring and the others open it.
    ///
    /// # Errors
    /// As [`Keyring::open`]; [`EngineError::Key`] if there is no keyring but a file of people's
    /// keys, which belongs to a lost keyring; [`EngineError::File`] if it can't be written.
    pub fn open_or_create(path: &Path, passphrase: &str) -> Result<Keyring> {
        if exists(path)? {
            return Keyring::open(path, passphrase);
        }
        check_passphrase(passphrase)?;
        let _lock = KeyringLock::acquire(path)?;
        if exists(path)? {
            return Keyring::open(path, passphrase);
        }
        check_not_lost(path)?;
        let kdf = KdfParams::fresh();
        let key = passphrase_key(passphrase, &kdf)?;
        let file = KeyringFile {
            format: FORMAT.to_owned(),
            kdf,
            keys: Vec::new(),
        };
        let mut keyring = Keyring {
            path: path.to_owned(),
            file,
            key,
        };
        keyring.add(MASTER, MASTER, None, &random())?;
        keyring.write()?;
        Ok(keyring)
    }

    /// Applies `change` to the current content of the file under the keyring's lock, and writes the
    /// result.
    fn update<T>(&mut self, change: impl FnOnce(&mut Keyring) -> Result<T>) -> Result<T> {
        let _lock = KeyringLock::acquire(&self.path)?;
        let mut changed = self.reread()?;
        let outcome = change(&mut changed)?;
        changed.write()?;
        *self = changed;
        Ok(outcome)
    }

    /// Reads the file again.
    fn reread(&self) -> Result<Keyring> {
        let now = Keyring {
            path: self.path.clone(),
            file: read(&self.path)?,
            key: self.key.clone(),
        };
        match now.secret(MASTER) {
            Ok(master) if master == self.secret(MASTER)? => Ok(now),
            _ => Err(EngineError::Key(format!(
                "the keyring `{}` got another passphrase, or was replaced by another one, while \
                 this command ran: run it again",
                self.path.display()
            ))),
        }
    }

    /// Checks that the file is still the keyring that was opened.
    ///
    /// # Errors
    /// [`EngineError::Key`] if the keyring was replaced or has another passphrase.
    pub(super) fn check_unreplaced(&self) -> Result<()> {
        let now = read(&self.path)?;
        let master = |file: &KeyringFile| {
            file.keys
                .iter()
                .find(|entry| entry.name == MASTER)
                .map(|entry| entry.sealed.clone())
        };
        // Equal bytes are the same secret. After a change of the passphrase, only decryption can
        // compare the secrets.
        if master(&now) == master(&self.file) {
            Ok(())
        } else {
            self.reread().map(drop)
        }
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes the passphrase: reseals all secrets, which don't change.
    ///
    /// # Errors
    /// [`EngineError::Key`] if it is empty; [`EngineError::File`] if the file can't be written,
    /// which then keeps the old passphrase.
    pub fn change_passphrase(&mut self, passphrase: &str) -> Result<()> {
        check_passphrase(passphrase)?;
        let kdf = KdfParams::fresh();
        let key = passphrase_key(passphrase, &kdf)?;
        self.update(|current| {
            let mut keys = Vec::with_capacity(current.file.keys.len());
            for entry in &current.file.keys {
                let secret = current.secret(&entry.name)?;
                keys.push(entry.clone().sealed(&key, secret.as_slice())?);
            }
            current.file = KeyringFile {
                format: FORMAT.to_owned(),
                kdf,
                keys,
            };
            current.key = key;
            Ok(())
        })
    }

    /// Returns the public parts of the keys in the file `path`. Needs no passphrase.
    ///
    /// # Errors
    /// [`EngineError::Key`] if the file isn't a keyring.
    pub fn public(path: &Path) -> Result<Vec<PublicKey>> {
        let keys = read(path)?.keys.into_iter();
        Ok(keys
            .map(
                |KeyEntry {
                     name,
                     kind,
                     did,
                     created_at,
                     ..
                 }| PublicKey {
                    name,
                    kind,
                    did,
                    created_at,
                },
            )
            .collect())
    }

    /// Generates a signing key. Returns its DID.
    ///
    /// # Errors
    /// [`EngineError::Key`] if the name is taken; [`EngineError::File`].
    pub fn generate(&mut self, name: &str) -> Result<String> {
        self.update(|current| {
            if current.file.keys.iter().any(|entry| entry.name == name) {
                return Err(EngineError::Key(format!(
                    "the keyring has a key `{name}` already"
                )));
            }
            let seed = random();
            let did = did_from_key(&SigningKey::from_seed(&seed).verifying_key());
            current.add(name, "ed25519", Some(did.clone()), &seed)?;
            Ok(did)
        })
    }

    /// Returns the signing key `name`.
    ///
    /// # Errors
    /// [`EngineError::Key`] if there is none.
    pub fn signing_key(&self, name: &str) -> Result<SigningKey> {
        match self.file.keys.iter().find(|entry| entry.name == name) {
            Some(entry) if entry.kind == "ed25519" => {
                Ok(SigningKey::from_seed(&*self.secret(name)?))
            }
            _ => Err(EngineError::Key(format!(
                "the keyring `{}` has no signing key `{name}`; `gristmill keys generate {name}` \
                 makes one",
                self.path.display()
            ))),
        }
    }

    /// Derives the key for one purpose from the master secret (HKDF-SHA256).
    ///
    /// # Errors
    /// [`EngineError::Key`] if the master secret is missing.
    pub fn derive(&self, purpose: &str) -> Result<Secret> {
        let master = self.secret(MASTER)?;
        let mut key = Secret::default();
        Hkdf::<Sha256>::new(None, &*master)
            .expand(purpose.as_bytes(), &mut *key)
            .map_err(|_| EngineError::Key("a key can't be derived".to_owned()))?;
        Ok(key)
    }

    fn secret(&self, name: &str) -> Result<Secret> {
        let entry = self.file.keys.iter().find(|entry| entry.name == name);
        let entry =
            entry.ok_or_else(|| EngineError::Key(format!("the keyring has no key `{name}`")))?;
        let wrong = || {
            EngineError::Key(format!(
                "the passphrase doesn't open the keyring `{}`, or the file is damaged",
                self.path.display()
            ))
        };
        let (nonce, sealed) = (
            hex::decode(&entry.nonce).map_err(|_| wrong())?,
            hex::decode(&entry.sealed).map_err(|_| wrong())?,
        );
        let nonce: [u8; 12] = nonce.try_into().map_err(|_| wrong())?;
        let payload = Payload {
            msg: &sealed,
            aad: &entry.bound(),
        };
        let clear = Zeroizing::new(
            cipher(&self.key)?
                .decrypt(&Nonce::from(nonce), payload)
                .map_err(|_| wrong())?,
        );
        let bytes: [u8; 32] = clear.as_slice().try_into().map_err(|_| wrong())?;
        Ok(Zeroizing::new(bytes))
    }

    fn add(
        &mut self,
        name: &str,
        kind: &str,
        did: Option<String>,
        secret: &[u8; 32],
    ) -> Result<()> {
        let entry = KeyEntry {
            name: name.to_owned(),
            kind: kind.to_owned(),
            did,
            created_at: Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            nonce: String::new(),
            sealed: String::new(),
        };
        self.file.keys.push(entry.sealed(&self.key, secret)?);
        Ok(())
    }

    /// Replaces the file atomically.
    fn write(&self) -> Result<()> {
        let text =
            serde_json::to_vec_pretty(&self.file).file("can't write", self.path.display())?;
        replace_file(&self.path, &[&text])
    }
}

/// Returns the path of the file of people's keys of the keyring at `path`.
pub(super) fn people_file_of(path: &Path) -> PathBuf {
    let mut people = path.as_os_str().to_owned();
    people.push(".people");
    people.into()
}

/// Returns whether `path` exists. If that can't be determined, the error is returned, so that no
/// new keyring is created in its place.
fn exists(path: &Path) -> Result<bool> {
    path.try_exists()
        .file("can't look for the keyring", path.display())
}

/// Refuses an empty passphrase, which no keyring has: it comes from an empty variable or file, and
/// isn't evidence that the keyring is damaged.
fn check_passphrase(passphrase: &str) -> Result<()> {
    match passphrase.is_empty() {
        true => Err(EngineError::Key(
            "the passphrase is empty, which protects nothing: set it to that of the keyring, or \
             for a new keyring to one of your choice"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

/// Refuses to create a keyring next to a file of people's keys, which belongs to a lost keyring.
fn check_not_lost(path: &Path) -> Result<()> {
    let people = people_file_of(path);
    if std::fs::metadata(&people).is_ok_and(|found| found.len() > 0) {
        return Err(EngineError::Key(format!(
            "there is no keyring `{}`, but `{}`, which belongs to one: restore the keyring \
             from a backup (a new one can't open what the lost one sealed), or move that file \
             away",
            path.display(),
            people.display()
        )));
    }
    Ok(())
}
