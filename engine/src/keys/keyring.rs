//! The keyring file: JSON with sealed secrets.
//!
//! Above 500 lines: a fifth of them are its tests.

use std::fmt;
use std::path::{Path, PathBuf};

use aes_gcm::aead::{Aead, Generate, Key, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use argon2::{Algorithm, Argon2, Params, Version};
use chrono::Utc;
use gristmill_schemas::sign::{SigningKey, did_from_key};
use hkdf::Hkdf;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::lock::{KeyringLock, replace_file};
use crate::error::{Context, EngineError, Result};

/// 32 secret bytes, which are zeroed when dropped.
pub type Secret = Zeroizing<[u8; 32]>;

/// Name and version of the file format.
const FORMAT: &str = "gristmill-keyring/1";

/// Name of the entry from which keys for single purposes are derived.
const MASTER: &str = "master";

/// Cost of Argon2id for new keyrings: memory in KiB, passes, lanes.
const COST: (u32, u32, u32) = (19_456, 2, 1);

/// Maximal cost that is accepted from a file, so that a hostile file can't exhaust memory: 1 GiB,
/// 16 passes, 16 lanes.
const COST_LIMIT: (u32, u32, u32) = (1 << 20, 16, 16);

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
    /// Name of the key.
    pub name: String,
    /// `master` or `ed25519`.
    pub kind: String,
    /// DID of a signing key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did: Option<String>,
    /// Time of creation, as an RFC 3339 date-time.
    pub created_at: String,
    nonce: String,
    sealed: String,
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

impl Keyring {
    /// Opens the keyring in the file `path`.
    ///
    /// # Errors
    /// [`EngineError::NoKeyring`] if the file doesn't exist; [`EngineError::Key`] if it isn't a
    /// keyring, or the passphrase is wrong.
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

    /// Opens the keyring in the file `path`, or creates it. If several processes do so at the same
    /// time, one creates the keyring and the others open it.
    ///
    /// # Errors
    /// As [`Keyring::open`]; [`EngineError::Key`] if there is no keyring but a file of people's keys,
    /// which belongs to a lost keyring; [`EngineError::File`] if it can't be written.
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
    /// [`EngineError::Key`] if it is empty; [`EngineError::File`] if the file can't be written, which
    /// then keeps the old passphrase.
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

impl KdfParams {
    /// Returns parameters for a new passphrase, with a new salt.
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

/// Returns the path of the file of people's keys of the keyring at `path`.
pub(super) fn people_file_of(path: &Path) -> PathBuf {
    let mut people = path.as_os_str().to_owned();
    people.push(".people");
    people.into()
}

/// Returns whether `path` exists. If that can't be determined, the error is returned, so that no new
/// keyring is created in its place.
fn exists(path: &Path) -> Result<bool> {
    path.try_exists()
        .file("can't look for the keyring", path.display())
}

fn check_passphrase(passphrase: &str) -> Result<()> {
    match passphrase.is_empty() {
        true => Err(EngineError::Key(
            "an empty passphrase protects nothing".to_owned(),
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

impl KeyEntry {
    /// Seals `secret` under `key` with a new nonce.
    fn sealed(mut self, key: &Secret, secret: &[u8]) -> Result<KeyEntry> {
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

    /// Returns the associated data of the seal, which prevents that an entry gets another name, kind
    /// or DID.
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
            "`{shown}` has the format `{}`; only `{FORMAT}` is supported",
            file.format
        )));
    }
    Ok(file)
}

/// Derives a key from a passphrase with Argon2id.
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
    fn a_keyring_opens_with_its_passphrase_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/keyring.json");
        let mut made = Keyring::open_or_create(&path, "correct horse").unwrap();
        let did = made.generate("erasure").unwrap();
        let derived = made.derive("pseudonyms").unwrap();
        assert!(made.generate("erasure").is_err());
        let again = Keyring::open(&path, "correct horse").unwrap();
        assert_eq!(
            did_from_key(&again.signing_key("erasure").unwrap().verifying_key()),
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
    fn changes_of_two_handles_of_a_keyring_are_both_kept() {
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
    fn threads_that_create_a_keyring_concurrently_share_one() {
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
            did_from_key(&again.signing_key("a").unwrap().verifying_key()),
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
