//! The keys of people in a file beside the keyring.
//!
//! ```text
//! magic    "gristmill-people"                                                     16
//! records  key id 16 · generation 4 · state 1 · zeros 3 · instant 8 · nonce 12 · sealed salt 48
//! ```
//!
//! Numbers are big-endian, the instant is in seconds since 1970. A record's salt is sealed under a key of the keyring and bound
//! to its id and generation. New records are appended; ending a key writes the file anew without its salt and replaces it as a
//! whole. What a killed process left of a record is no record: nothing was sealed with it yet.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use zeroize::Zeroizing;

use super::Secret;
use super::keyring::{Keyring, random, seal_bound, sync_folder_of, unseal_bound};
use super::store::{Ending, KeyId, KeyStore, PersonKey};
use crate::destination::folder_of;
use crate::error::{Context, EngineError, Result};

const MAGIC: &[u8; 16] = b"gristmill-people";

/// Bytes of a record.
const RECORD: usize = 92;

/// Bytes of a record that its seal vouches for: id and generation.
const BOUND: usize = 20;

/// Where a record's seal begins.
const SEAL: usize = 32;

/// The purpose of the key that salts are sealed with.
const SALTS: &str = "gristmill/people/salts/1";

/// A keyring and the keys of people beside it.
#[derive(Debug)]
pub struct FileKeys {
    keyring: Keyring,
    path: PathBuf,
    salts: Secret,
}

impl FileKeys {
    /// The keys of people beside `keyring`; the file need not be there.
    ///
    /// # Errors
    /// [`EngineError::Key`].
    pub fn beside(keyring: Keyring) -> Result<FileKeys> {
        let mut path = keyring.path().as_os_str().to_owned();
        path.push(".people");
        let salts = keyring.derive(SALTS)?;
        Ok(FileKeys { keyring, path: path.into(), salts })
    }

    /// Holds off other processes until what it answers is dropped.
    fn lock(&self) -> Result<File> {
        let path = self.path.with_extension("people.lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.file("can't lock", path.display())?;
        lock.lock().file("can't lock", path.display())?;
        Ok(lock)
    }

    fn read(&self) -> Result<Vec<[u8; RECORD]>> {
        let bytes = match std::fs::read(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.file("can't read", self.path.display())?,
        };
        // A process that was killed before the first record, or whose disk was full, left no more than this.
        if MAGIC.starts_with(&bytes) {
            return Ok(Vec::new());
        }
        let records = bytes.strip_prefix(MAGIC).ok_or_else(|| self.fault("isn't a file of people's keys"))?;
        Ok(records.as_chunks().0.to_vec())
    }

    fn fault(&self, what: &str) -> EngineError {
        EngineError::Key(format!("`{}` {what}", self.path.display()))
    }

    fn open(&self, record: &[u8; RECORD]) -> Result<PersonKey> {
        let salt = match record[BOUND] {
            0 => {
                let clear = unseal_bound(&self.salts, &record[..BOUND], &record[SEAL..]).map(Zeroizing::new);
                let salt = clear.and_then(|clear| <[u8; 32]>::try_from(clear.as_slice()).ok());
                Ok(Zeroizing::new(salt.ok_or_else(|| self.fault("is damaged, or of another keyring"))?))
            }
            1 => Err(Ending::Destroyed),
            2 => Err(Ending::Retired),
            _ => return Err(self.fault("is damaged, or of a later version")),
        };
        let (id, generation) = name_of(record);
        Ok(PersonKey { id, generation, salt })
    }

    fn record(&self, id: KeyId, generation: u32) -> Result<[u8; RECORD]> {
        let mut record = [0; RECORD];
        record[..16].copy_from_slice(&id.0);
        record[16..BOUND].copy_from_slice(&generation.to_be_bytes());
        record[24..SEAL].copy_from_slice(&chrono::Utc::now().timestamp().to_be_bytes());
        let salt = Zeroizing::new(random());
        let sealed = seal_bound(&self.salts, &record[..BOUND], &*salt)?;
        if sealed.len() != RECORD - SEAL {
            return Err(self.fault("can't hold such a seal"));
        }
        record[SEAL..].copy_from_slice(&sealed);
        Ok(record)
    }

    /// Appends `records` behind the whole records that are there.
    fn append(&self, whole: usize, records: &[[u8; RECORD]]) -> Result<()> {
        let shown = self.path.display();
        let mut file = private().append(false).open(&self.path).file("can't write", &shown)?;
        let end = match whole {
            0 => 0,
            whole => (MAGIC.len() + whole * RECORD) as u64,
        };
        file.set_len(end).file("can't write", &shown)?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).file("can't write", &shown)?;
        let mut bytes = if end == 0 { MAGIC.to_vec() } else { Vec::new() };
        bytes.extend(records.as_flattened());
        file.write_all(&bytes).and_then(|()| file.sync_all()).file("can't write", &shown)?;
        match end {
            0 => sync_folder_of(&self.path),
            _ => Ok(()),
        }
    }

    fn replace(&self, records: &[[u8; RECORD]]) -> Result<()> {
        let shown = self.path.display().to_string();
        let mut file = tempfile::NamedTempFile::new_in(folder_of(&self.path)).file("can't write", &shown)?;
        file.write_all(MAGIC).and_then(|()| file.write_all(records.as_flattened())).file("can't write", &shown)?;
        file.as_file().sync_all().file("can't write", &shown)?;
        file.persist(&self.path).file("can't write", &shown)?;
        sync_folder_of(&self.path)
    }
}

/// A file that only its owner can read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn name_of(record: &[u8; RECORD]) -> (KeyId, u32) {
    let (mut id, mut generation) = ([0; 16], [0; 4]);
    id.copy_from_slice(&record[..16]);
    generation.copy_from_slice(&record[16..BOUND]);
    (KeyId(id), u32::from_be_bytes(generation))
}

impl KeyStore for FileKeys {
    fn name(&self) -> String {
        self.keyring.path().display().to_string()
    }

    fn derive(&self, purpose: &str) -> Result<Secret> {
        self.keyring.derive(purpose)
    }

    fn load(&self) -> Result<Vec<PersonKey>> {
        self.read()?.iter().map(|record| self.open(record)).collect()
    }

    fn make(&self, ids: &[KeyId], renew: bool) -> Result<Vec<PersonKey>> {
        let _lock = self.lock()?;
        let records = self.read()?;
        let mut newest: HashMap<KeyId, &[u8; RECORD]> = HashMap::new();
        for record in &records {
            let (id, generation) = name_of(record);
            if newest.get(&id).is_none_or(|known| name_of(known).1 < generation) {
                newest.insert(id, record);
            }
        }
        let (mut keys, mut added) = (Vec::new(), Vec::new());
        for id in ids {
            match newest.get(id) {
                Some(record) if record[BOUND] == 0 && !renew => keys.push(self.open(record)?),
                known => {
                    let generation = known.map_or(0, |record| name_of(record).1) + 1;
                    let record = self.record(*id, generation)?;
                    keys.push(self.open(&record)?);
                    added.push(record);
                }
            }
        }
        if !added.is_empty() {
            self.append(records.len(), &added)?;
        }
        Ok(keys)
    }

    fn end(&self, keys: &[(KeyId, u32)], ending: Ending) -> Result<()> {
        let _lock = self.lock()?;
        let ended: HashSet<_> = keys.iter().collect();
        let mut records = self.read()?;
        for record in &mut records {
            // A key that was destroyed doesn't become one that was merely replaced.
            if ended.contains(&name_of(record)) && record[BOUND] != 1 {
                record[BOUND] = if ending == Ending::Destroyed { 1 } else { 2 };
                record[SEAL..].fill(0);
            }
        }
        self.replace(&records)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn store(folder: &Path) -> FileKeys {
        FileKeys::beside(Keyring::open_or_create(&folder.join("keyring.json"), "p").unwrap()).unwrap()
    }

    fn salt(keys: &[PersonKey]) -> [u8; 32] {
        **keys[0].salt.as_ref().unwrap()
    }

    #[test]
    fn a_key_stays_until_it_is_ended_and_its_salt_is_then_in_no_byte() {
        let folder = tempfile::tempdir().unwrap();
        let keys = store(folder.path());
        let (ann, bob) = (KeyId([1; 16]), KeyId([2; 16]));
        assert!(keys.load().unwrap().is_empty());
        let first = keys.make(&[ann, bob], false).unwrap();
        assert_eq!(salt(&keys.make(&[ann], false).unwrap()), salt(&first));
        let renewed = keys.make(&[ann], true).unwrap();
        assert_eq!(renewed[0].generation, 2);
        assert_ne!(salt(&renewed), salt(&first));
        keys.end(&[(ann, 1)], Ending::Retired).unwrap();
        keys.end(&[(bob, 1)], Ending::Destroyed).unwrap();
        let found = store(folder.path()).load().unwrap();
        let endings: Vec<_> = found.iter().map(|key| key.salt.as_ref().err().copied()).collect();
        assert_eq!(endings, [Some(Ending::Retired), Some(Ending::Destroyed), None]);
        // Whoever comes back begins anew.
        assert_eq!(keys.make(&[bob], false).unwrap()[0].generation, 2);
    }

    #[test]
    fn half_a_record_or_half_a_file_is_none_and_another_keyring_opens_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let keys = store(folder.path());
        keys.make(&[KeyId([1; 16])], false).unwrap();
        let mut file = OpenOptions::new().append(true).open(&keys.path).unwrap();
        file.write_all(&[7; 50]).unwrap();
        keys.make(&[KeyId([2; 16])], false).unwrap();
        assert_eq!(keys.load().unwrap().len(), 2);
        for left in [&b""[..], b"grist"] {
            std::fs::write(&keys.path, left).unwrap();
            assert!(keys.load().unwrap().is_empty());
            keys.make(&[KeyId([3; 16])], false).unwrap();
            assert_eq!(keys.load().unwrap().len(), 1);
        }
        std::fs::remove_file(folder.path().join("keyring.json")).unwrap();
        let error = store(folder.path()).load().unwrap_err().to_string();
        assert!(error.contains("another keyring"), "{error}");
    }
}
