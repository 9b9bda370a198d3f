//! The store of people's keys in a file next to the keyring.
//!
//! ```text
//! magic    "gristmill-people"                                                     16
//! records  key id 16 · generation 4 · state 1 · zeros 3 · instant 8 · nonce 12 · sealed salt 48
//! ```
//!
//! Numbers are big-endian, the instant is in seconds since 1970. A record's salt is sealed under a
//! key of the keyring and bound to its id and generation. Every change is made under the keyring's
//! lock to what the file has at that moment, and replaces the file as a whole. A last record that
//! isn't whole, which earlier versions could leave, counts as none.

use std::collections::HashMap;
use std::path::PathBuf;

use zeroize::Zeroizing;

use super::Secret;
use super::keyring::{Keyring, people_file_of};
use super::lock::{KeyringLock, replace_file};
use super::sealing::{random, seal_bound, unseal_bound};
use super::store::{Decide, KeyChange, KeyDisposition, KeyId, KeyStatus, KeyStore, PersonKey};
use crate::error::{Context, EngineError, Result};

const MAGIC: &[u8; 16] = b"gristmill-people";

/// Length of a record in bytes.
const RECORD: usize = 92;

/// Length of the associated data of a record's seal: id and generation.
const BOUND: usize = 20;

/// Start of the sealed salt in a record.
const SEAL: usize = 32;

/// Purpose of the key that seals the salts.
const SALTS: &str = "gristmill/people/salts/1";

/// A keyring, and the keys of people next to it.
#[derive(Debug)]
pub struct FileKeys {
    keyring: Keyring,
    path: PathBuf,
    salts: Secret,
}

impl FileKeys {
    /// Opens the store next to `keyring`; the file need not exist.
    ///
    /// # Errors
    /// [`EngineError::Key`].
    pub fn next_to(keyring: Keyring) -> Result<FileKeys> {
        let path = people_file_of(keyring.path());
        let salts = keyring.derive(SALTS)?;
        Ok(FileKeys {
            keyring,
            path,
            salts,
        })
    }

    fn read(&self) -> Result<Vec<[u8; RECORD]>> {
        let bytes = match std::fs::read(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.file("can't read", self.path.display())?,
        };
        // A process that was killed before the first record, or a full disk, may leave part of the
        // magic.
        if MAGIC.starts_with(&bytes) {
            return Ok(Vec::new());
        }
        let records = bytes
            .strip_prefix(MAGIC)
            .ok_or_else(|| self.fault("isn't a file of people's keys"))?;
        Ok(records.as_chunks().0.to_vec())
    }

    fn fault(&self, what: &str) -> EngineError {
        EngineError::Key(format!("`{}` {what}", self.path.display()))
    }

    fn open(&self, record: &[u8; RECORD]) -> Result<PersonKey> {
        let KeyStatus {
            id,
            generation,
            ending,
        } = self.status(record)?;
        let salt = match ending {
            None => {
                let clear = unseal_bound(&self.salts, &record[..BOUND], &record[SEAL..])
                    .map(Zeroizing::new);
                let salt = clear.and_then(|clear| <[u8; 32]>::try_from(clear.as_slice()).ok());
                Ok(Zeroizing::new(salt.ok_or_else(|| {
                    self.fault("is damaged, or of another keyring")
                })?))
            }
            Some(ending) => Err(ending),
        };
        Ok(PersonKey {
            id,
            generation,
            salt,
        })
    }

    fn status(&self, record: &[u8; RECORD]) -> Result<KeyStatus> {
        let (id, generation) = name_of(record);
        let ending = match record[BOUND] {
            0 => None,
            1 => Some(KeyDisposition::Destroyed),
            2 => Some(KeyDisposition::Retired),
            _ => return Err(self.fault("is damaged, or of a later version")),
        };
        Ok(KeyStatus {
            id,
            generation,
            ending,
        })
    }

    /// Returns the record of a new key with a random salt.
    fn record(&self, id: KeyId, generation: u32) -> Result<[u8; RECORD]> {
        let mut record = unsealed(id, generation);
        let salt = Zeroizing::new(random());
        let sealed = seal_bound(&self.salts, &record[..BOUND], &*salt)?;
        if sealed.len() != RECORD - SEAL {
            return Err(self.fault("can't hold such a seal"));
        }
        record[SEAL..].copy_from_slice(&sealed);
        Ok(record)
    }

    /// Applies one change to `records`. Returns the key that it reads or adds.
    fn change(&self, records: &mut PersonRecords, change: KeyChange) -> Result<Option<PersonKey>> {
        match change {
            KeyChange::Read(id, generation) => match records.get(id, generation) {
                Some(record) => self.open(record).map(Some),
                None => Err(self.fault(&format!("has no key {id} of generation {generation}"))),
            },
            KeyChange::Add(id, generation) => {
                if records.get(id, generation).is_some() {
                    return Err(self.fault(&format!(
                        "has a key {id} of generation {generation} already"
                    )));
                }
                let record = self.record(id, generation)?;
                records.push(record);
                self.open(&record).map(Some)
            }
            KeyChange::End(id, generation, ending) => {
                records.end(id, generation, ending);
                Ok(None)
            }
        }
    }
}

/// Returns a record without a salt.
fn unsealed(id: KeyId, generation: u32) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..16].copy_from_slice(&id.0);
    record[16..BOUND].copy_from_slice(&generation.to_be_bytes());
    record[24..SEAL].copy_from_slice(&chrono::Utc::now().timestamp().to_be_bytes());
    record
}

fn name_of(record: &[u8; RECORD]) -> (KeyId, u32) {
    let (mut id, mut generation) = ([0; 16], [0; 4]);
    id.copy_from_slice(&record[..16]);
    generation.copy_from_slice(&record[16..BOUND]);
    (KeyId(id), u32::from_be_bytes(generation))
}

/// The records of the file during a change.
struct PersonRecords {
    all: Vec<[u8; RECORD]>,
    places: HashMap<(KeyId, u32), usize>,
    changed: bool,
}

impl PersonRecords {
    fn new(all: Vec<[u8; RECORD]>) -> PersonRecords {
        let places = all
            .iter()
            .enumerate()
            .map(|(place, record)| (name_of(record), place))
            .collect();
        PersonRecords {
            all,
            places,
            changed: false,
        }
    }

    fn get(&self, id: KeyId, generation: u32) -> Option<&[u8; RECORD]> {
        self.all.get(*self.places.get(&(id, generation))?)
    }

    fn push(&mut self, record: [u8; RECORD]) {
        self.places.insert(name_of(&record), self.all.len());
        self.all.push(record);
        self.changed = true;
    }

    /// Overwrites the salt of a key. A destroyed key doesn't become a replaced one.
    fn end(&mut self, id: KeyId, generation: u32, ending: KeyDisposition) {
        let state = if ending == KeyDisposition::Destroyed {
            1
        } else {
            2
        };
        match self
            .places
            .get(&(id, generation))
            .and_then(|place| self.all.get_mut(*place))
        {
            Some(record) if record[BOUND] == 1 => return,
            Some(record) => {
                record[BOUND] = state;
                record[SEAL..].fill(0);
            }
            None => {
                let mut record = unsealed(id, generation);
                record[BOUND] = state;
                self.push(record);
            }
        }
        self.changed = true;
    }
}

impl KeyStore for FileKeys {
    fn name(&self) -> String {
        self.keyring.path().display().to_string()
    }

    fn derive(&self, purpose: &str) -> Result<Secret> {
        self.keyring.derive(purpose)
    }

    fn load(&self) -> Result<Vec<PersonKey>> {
        self.read()?
            .iter()
            .map(|record| self.open(record))
            .collect()
    }

    fn update(&self, decide: &mut Decide<'_>) -> Result<Vec<PersonKey>> {
        let _lock = KeyringLock::acquire(self.keyring.path())?;
        self.keyring.check_unreplaced()?;
        let mut records = PersonRecords::new(self.read()?);
        let current = records
            .all
            .iter()
            .map(|record| self.status(record))
            .collect::<Result<Vec<_>>>()?;
        let mut keys = Vec::new();
        for change in decide(&current) {
            keys.extend(self.change(&mut records, change)?);
        }
        if records.changed {
            replace_file(&self.path, &[MAGIC, records.all.as_flattened()])?;
        }
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn store(folder: &Path) -> FileKeys {
        FileKeys::next_to(Keyring::open_or_create(&folder.join("keyring.json"), "p").unwrap())
            .unwrap()
    }

    fn salt(keys: &[PersonKey]) -> [u8; 32] {
        **keys[0].salt.as_ref().unwrap()
    }

    #[test]
    fn a_key_persists_until_it_is_destroyed_and_its_salt_is_then_erased() {
        let folder = tempfile::tempdir().unwrap();
        let keys = store(folder.path());
        let (ann, bob) = (KeyId([1; 16]), KeyId([2; 16]));
        assert!(keys.load().unwrap().is_empty());
        let first = keys.make(&[ann, bob], false).unwrap();
        assert_eq!(salt(&keys.make(&[ann], false).unwrap()), salt(&first));
        let renewed = keys.make(&[ann], true).unwrap();
        assert_eq!(renewed[0].generation, 2);
        assert_ne!(salt(&renewed), salt(&first));
        keys.end(&[(ann, 1)], KeyDisposition::Retired).unwrap();
        keys.end(&[(bob, 1)], KeyDisposition::Destroyed).unwrap();
        let found = store(folder.path()).load().unwrap();
        let endings: Vec<_> = found
            .iter()
            .map(|key| key.salt.as_ref().err().copied())
            .collect();
        assert_eq!(
            endings,
            [
                Some(KeyDisposition::Retired),
                Some(KeyDisposition::Destroyed),
                None
            ]
        );
        // A person who returns gets a new key.
        assert_eq!(keys.make(&[bob], false).unwrap()[0].generation, 2);
    }

    #[test]
    fn truncated_records_are_ignored_and_another_keyring_opens_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let keys = store(folder.path());
        keys.make(&[KeyId([1; 16])], false).unwrap();
        let half = [std::fs::read(&keys.path).unwrap(), vec![7; 50]].concat();
        std::fs::write(&keys.path, half).unwrap();
        keys.make(&[KeyId([2; 16])], false).unwrap();
        assert_eq!(keys.load().unwrap().len(), 2);
        for left in [&b""[..], b"grist"] {
            std::fs::write(&keys.path, left).unwrap();
            assert!(keys.load().unwrap().is_empty());
            keys.make(&[KeyId([3; 16])], false).unwrap();
            assert_eq!(keys.load().unwrap().len(), 1);
        }
        let other = tempfile::tempdir().unwrap();
        drop(store(other.path()));
        std::fs::rename(
            &keys.path,
            people_file_of(&other.path().join("keyring.json")),
        )
        .unwrap();
        let error = store(other.path()).load().unwrap_err().to_string();
        assert!(error.contains("another keyring"), "{error}");
    }

    #[test]
    fn an_update_decides_on_the_current_file_not_on_an_earlier_load() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (store(folder.path()), store(folder.path()));
        let ann = KeyId([1; 16]);
        assert!(one.load().unwrap().is_empty() && two.load().unwrap().is_empty());
        let first = one.make(&[ann], false).unwrap();
        assert_eq!(salt(&two.make(&[ann], false).unwrap()), salt(&first));
        two.end(&[(ann, 1)], KeyDisposition::Destroyed).unwrap();
        assert_eq!(one.make(&[ann], false).unwrap()[0].generation, 2);
        // A key that the store doesn't have, because an older copy of the file was restored,
        // becomes known as destroyed.
        one.end(&[(ann, 7)], KeyDisposition::Destroyed).unwrap();
        assert_eq!(
            two.load().unwrap().last().unwrap().salt,
            Err(KeyDisposition::Destroyed)
        );
        assert_eq!(two.make(&[ann], false).unwrap()[0].generation, 8);
    }

    #[test]
    fn nothing_is_written_for_a_keyring_that_was_replaced_by_another() {
        let folder = tempfile::tempdir().unwrap();
        let keys = store(folder.path());
        keys.make(&[KeyId([1; 16])], false).unwrap();
        let before = std::fs::read(&keys.path).unwrap();
        let other = tempfile::tempdir().unwrap();
        drop(store(other.path()));
        std::fs::rename(
            other.path().join("keyring.json"),
            folder.path().join("keyring.json"),
        )
        .unwrap();
        assert!(keys.make(&[KeyId([2; 16])], false).is_err());
        assert_eq!(std::fs::read(&keys.path).unwrap(), before);
    }
}
