//! The keyring file: JSON with sealed secrets.

use std::fmt;
use std::path::{Path, PathBuf};

use aes_gcm::aead::{Aead, Generate, Key, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use argon2::{Algorithm, Argon2, Params, Version};
use chrono::Utc;
use gristmill_schemas::sign::{SigningKey, did_of_key};
use hkdf::Hkdf;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::lock::{KeyringLock, replace_file};
use crate::error::{Context, EngineError, Result};

/// 32 bytes that nobody should see.
pub type Secret = Zeroizing<[u8; 32]>;

/// The version of the file's form.
const FORMAT: &str = "gristmill-keyring/1";

/// The entry from which keys for single purposes are derived.
const MASTER: &str = "master";

/// Argon2id's cost: memory in KiB, passes, lanes.
const COST: (u32, u32, u32) = (19_456, 2, 1);

/// The highest cost that a file may ask for, so that a hostile file can't take all memory: 1 GiB,
/// 16 passes, 16 lanes.
const COST_LIMIT: (u32, u32, u32) = (1 << 20, 16, 16);

/// A keyring that was unlocked.
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

#[derive(Serialize, Deserialize)]
struct KeyringFile {
    format: String,
    kdf: KdfParams,
    keys: Vec<KeyEntry>,
}

#[derive(Serialize, Deserialize)]
struct KdfParams {
    name: String,
    salt: String,
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// One entry of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeyEntry {
    /// Its name.
    pub name: String,
    /// `master` or `ed25519`.
    pub kind: String,
    /// The DID of a signing key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did: Option<String>,
    /// When it was made, as an RFC 3339 date-time.
    pub created_at: String,
    nonce: String,
    sealed: String,
}

/// What anyone may know of a key.
#[derive(Debug, Clone, Serialize)]
pub struct PublicKey {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// The DID of a signing key.
    pub did: Option<String>,
    /// When it was made.
    pub created_at: String,
}

impl Keyring {
    /// Opens the keyring in the file `path`.
    ///
    /// # Errors
    /// [`EngineError::Key`] if there is none, it can't be understood, or the passphrase isn't its
    /// own.
    pub fn open(path: &Path, passphrase: &str) -> Result<Keyring> {
        let file = read(path)?;
        let key = passphrase_key(passphrase, &file.kdf)?;
        let keyring = Keyring {
            path: path.to_owned(),
            file,
            key,
        };
        keyring.secret(MASTER)?;
        Ok(keyring)
    }

    /// Opens the keyring in the file `path`, or makes one there. Of several processes that do so at
    /// once one makes it and the others open that one.
    ///
    /// # Errors
    /// As [`Keyring::open`]; [`EngineError::Key`] if there is no keyring but a file of people's
    /// keys, which belongs to a keyring that was lost; [`EngineError::File`] if it can't be
    /// written.
    pub fn open_or_create(path: &Path, passphrase: &str) -> Result<Keyring> {
        if exists(path)? {
            return Keyring::open(path, passphrase);
        }
        if passphrase.is_empty() {
            return Err(EngineError::Key(
                "an empty passphrase protects nothing".to_owned(),
            ));
        }
        let _lock = KeyringLock::acquire(path)?;
        if exists(path)? {
            return Keyring::open(path, passphrase);
        }
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

    /// Makes `change` to what the file has at that moment, while no other process can change it,
    /// and writes the outcome.
    fn update<T>(&mut self, change: impl FnOnce(&mut Keyring) -> Result<T>) -> Result<T> {
        let _lock = KeyringLock::acquire(&self.path)?;
        let mut changed = self.reread()?;
        let outcome = change(&mut changed)?;
        changed.write()?;
        *self = changed;
        Ok(outcome)
    }

    /// Returns the keyring as the file has it now.
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

    /// Fails if the file isn't the keyring any more that was opened.
    ///
    /// # Errors
    /// [`EngineError::Key`].
    pub(super) fn check_unreplaced(&self) -> Result<()> {
        let now = read(&self.path)?;
        let master = |file: &KeyringFile| {
            file.keys
                .iter()
                .find(|entry| entry.name == MASTER)
                .map(|entry| entry.sealed.clone())
        };
        // The same bytes are the same secret; after a change of the passphrase only the passphrase
        // could show it.
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

    /// Gives the keyring another passphrase: all its secrets are sealed anew, none changes.
    ///
    /// # Errors
    /// [`EngineError::Key`] if it is empty; [`EngineError::File`], and then the old one stays.
    pub fn change_passphrase(&mut self, passphrase: &str) -> Result<()> {
        if passphrase.is_empty() {
            return Err(EngineError::Key(
                "an empty passphrase protects nothing".to_owned(),
            ));
        }
        let kdf = KdfParams::fresh();
        let key = passphrase_key(passphrase, &kdf)?;
        self.update(|current| {
            let mut keys = Vec::with_capacity(current.file.keys.len());
            for entry in &current.file.keys {
                let secret = current.secret(&entry.name)?;
                let nonce = Nonce::generate();
                let payload = Payload {
                    msg: secret.as_slice(),
                    aad: &entry.bound(),
                };
                let sealed = cipher(&key)?.encrypt(&nonce, payload);
                let sealed =
                    sealed.map_err(|_| EngineError::Key("a key can't be sealed".to_owned()))?;
                keys.push(KeyEntry {
                    nonce: hex::encode(nonce),
                    sealed: hex::encode(sealed),
                    ..entry.clone()
                });
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

    /// Returns what anyone may know of the keys in the file `path`.
    ///
    /// # Errors
    /// [`EngineError::Key`].
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

    /// Makes a signing key; returns its DID.
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
            let did = did_of_key(&SigningKey::from_seed(&seed).verifying_key());
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

    /// Returns the key for one purpose, derived from the master secret.
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
        let nonce = Nonce::generate();
        let mut entry = KeyEntry {
            name: name.to_owned(),
            kind: kind.to_owned(),
            did,
            created_at: Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            nonce: hex::encode(nonce),
            sealed: String::new(),
        };
        let payload = Payload {
            msg: secret.as_slice(),
            aad: &entry.bound(),
        };
        let sealed = cipher(&self.key)?.encrypt(&nonce, payload);
        entry.sealed =
            hex::encode(sealed.map_err(|_| EngineError::Key("a key can't be sealed".to_owned()))?);
        self.file.keys.push(entry);
        Ok(())
    }

    /// Replaces the file as a whole.
    fn write(&self) -> Result<()> {
        let text =
            serde_json::to_vec_pretty(&self.file).file("can't write", self.path.display())?;
        replace_file(&self.path, &[&text])
    }
}

impl KdfParams {
    /// Returns the parameters for a new passphrase, with a salt of its own.
    fn fresh() -> KdfParams {
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

/// Returns the file of people's keys of the keyring at `path`.
pub(super) fn people_file_of(path: &Path) -> PathBuf {
    let mut people = path.as_os_str().to_owned();
    people.push(".people");
    people.into()
}

/// Returns whether there is something at `path`. That it can't be seen is no reason to make a new
/// keyring in its place.
fn exists(path: &Path) -> Result<bool> {
    path.try_exists()
        .file("can't look for the keyring", path.display())
}

impl KeyEntry {
    /// Returns what the seal vouches for beside the secret: an entry can't be given another name,
    /// kind or DID.
    fn bound(&self) -> Vec<u8> {
        format!(
            "{FORMAT}\n{}\n{}\n{}",
            self.name,
            self.kind,
            self.did.as_deref().unwrap_or_default()
        )
        .into_bytes()
    }
}

fn read(path: &Path) -> Result<KeyringFile> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => EngineError::NoKeyring(path.to_owned()),
        _ => EngineError::Key(format!("can't read the keyring `{shown}`: {error}")),
    })?;
    let file: KeyringFile = serde_json::from_slice(&text)
        .map_err(|error| EngineError::Key(format!("`{shown}` isn't a keyring: {error}")))?;
    if file.format != FORMAT {
        return Err(EngineError::Key(format!(
            "`{shown}` has the form `{}`; `{FORMAT}` is known",
            file.format
        )));
    }
    Ok(file)
}

/// Returns the key that Argon2id makes of a passphrase.
fn passphrase_key(passphrase: &str, kdf: &KdfParams) -> Result<Secret> {
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

fn cipher(key: &Secret) -> Result<Aes256Gcm> {
    Aes256Gcm::new_from_slice(&**key)
        .map_err(|_| EngineError::Key("a key has the wrong length".to_owned()))
}

/// 32 bytes from the system's generator.
pub(crate) fn random() -> [u8; 32] {
    Key::<Aes256Gcm>::generate().into()
}

/// Seals `clear` under `key`: nonce, then ciphertext.
pub(crate) fn seal(key: &Secret, clear: &[u8]) -> Result<Vec<u8>> {
    seal_bound(key, &[], clear)
}

/// Opens what [`seal`] sealed; `None` if it was another key or was changed.
pub(crate) fn unseal(key: &Secret, sealed: &[u8]) -> Option<Vec<u8>> {
    unseal_bound(key, &[], sealed)
}

/// [`seal`], which only opens again together with the same `bound`.
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

/// Opens what [`seal_bound`] sealed.
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
    fn a_keyring_opens_with_its_passphrase_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/keyring.json");
        let mut made = Keyring::open_or_create(&path, "correct horse").unwrap();
        let did = made.generate("erasure").unwrap();
        let derived = made.derive("pseudonyms").unwrap();
        assert!(made.generate("erasure").is_err());
        let again = Keyring::open(&path, "correct horse").unwrap();
        assert_eq!(
            did_of_key(&again.signing_key("erasure").unwrap().verifying_key()),
            did
        );
        assert_eq!(again.derive("pseudonyms").unwrap(), derived);
        assert_ne!(again.derive("other").unwrap(), derived);
        assert!(again.signing_key("nobody").is_err() && again.signing_key("master").is_err());
        let error = Keyring::open(&path, "wrong").unwrap_err().to_string();
        assert!(error.contains("passphrase"), "{error}");
        assert_eq!(Keyring::public(&path).unwrap().len(), 2);
    }

    #[test]
    fn what_two_handles_of_a_keyring_add_is_in_it_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keyring.json");
        let mut one = Keyring::open_or_create(&path, "p").unwrap();
        let mut two = Keyring::open_or_create(&path, "p").unwrap();
        one.generate("a").unwrap();
        two.generate("b").unwrap();
        assert!(one.generate("b").is_err(), "the other handle made it");
        two.change_passphrase("new").unwrap();
        let error = one.generate("c").unwrap_err().to_string();
        assert!(error.contains("another passphrase"), "{error}");
        let names: Vec<_> = Keyring::public(&path)
            .unwrap()
            .into_iter()
            .map(|key| key.name)
            .collect();
        assert_eq!(names, ["master", "a", "b"]);
        Keyring::open(&path, "new")
            .unwrap()
            .signing_key("b")
            .unwrap();
    }

    #[test]
    fn threads_that_use_a_new_keyring_at_once_all_have_the_same_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/keyring.json");
        let masters: Vec<_> = std::thread::scope(|scope| {
            let open = || {
                Keyring::open_or_create(&path, "p")
                    .unwrap()
                    .derive("purpose")
                    .unwrap()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(masters.iter().all(|master| *master == masters[0]));
    }

    #[test]
    fn a_keyring_that_was_lost_is_not_replaced_by_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keyring.json");
        std::fs::write(people_file_of(&path), b"gristmill-people").unwrap();
        let error = Keyring::open_or_create(&path, "p").unwrap_err().to_string();
        assert!(
            error.contains("restore the keyring from a backup"),
            "{error}"
        );
        assert!(!path.exists());
    }

    #[test]
    fn another_passphrase_changes_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keyring.json");
        let mut keyring = Keyring::open_or_create(&path, "old").unwrap();
        let did = keyring.generate("a").unwrap();
        let derived = keyring.derive("purpose").unwrap();
        assert!(keyring.change_passphrase("").is_err());
        keyring.change_passphrase("new").unwrap();
        assert!(Keyring::open(&path, "old").is_err());
        let again = Keyring::open(&path, "new").unwrap();
        assert_eq!(again.derive("purpose").unwrap(), derived);
        assert_eq!(
            did_of_key(&again.signing_key("a").unwrap().verifying_key()),
            did
        );
    }

    #[test]
    fn an_entry_that_was_renamed_or_changed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keyring.json");
        Keyring::open_or_create(&path, "p")
            .unwrap()
            .generate("a")
            .unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"name\": \"a\"", "\"name\": \"b\"")).unwrap();
        assert!(Keyring::open(&path, "p").unwrap().signing_key("b").is_err());
        std::fs::write(&path, text.replace("argon2id", "md5")).unwrap();
        assert!(Keyring::open(&path, "p").is_err());
    }

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
