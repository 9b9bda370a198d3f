//! The addresses that grains had before migrations: `erasures/<id>.former`, one file for each
//! migration.
//!
//! ```text
//! "GMFORM01"   8
//! key          32       of the keyed hashes
//! pairs        64 × n   keyed hashes of the address of a grain, and of the one that it had before
//! BLAKE3       32       over everything before
//! ```
//!
//! A grain that was migrated has another address, so a tombstone of it doesn't bar the form that
//! sources have. An erasure therefore adds the second hash of each pair whose first one is of an
//! erased grain: it is the tombstone of the earlier address. As tombstones do, the file reveals no
//! address, so nothing of it is removed when a grain is erased. Migrations of a migrated lake copy
//! its files and use their key, so that an erasure finds all earlier addresses.

use std::collections::HashSet;
use std::io::Write;

use gristmill_schemas::address::ContentAddress;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};

use super::{ERASURES, Lake};
use crate::error::{Context, EngineError, Result};
use crate::keys::{Tombstone, random};

const MAGIC: &[u8; 8] = b"GMFORM01";

/// The ending of the files' names.
const ENDING: &str = ".former";

/// Lengths in bytes.
const HEAD: usize = 40;
const PAIR: usize = 64;
const DIGEST: usize = 32;

/// Bytes that are read at a time: whole pairs.
const BLOCK: u64 = 8 << 20;

/// Writes the former addresses of a migration.
pub(crate) struct FormerAddresses {
    file: tempfile::NamedTempFile,
    path: Path,
    key: [u8; 32],
    /// Bytes that aren't written yet.
    pending: Vec<u8>,
    digest: blake3::Hasher,
    pairs: u64,
}

impl FormerAddresses {
    /// Begins the file of the migration `id` from `lake`, in a temporary file of `target`.
    ///
    /// # Errors
    /// [`EngineError::File`], [`EngineError::Damaged`].
    pub(crate) async fn begin(lake: &Lake, target: &Lake, id: &str) -> Result<FormerAddresses> {
        let key = match lake.former_files().await?.first() {
            Some(file) => lake.former_key(file).await?,
            None => lake.tombstone_set().await?.key().unwrap_or_else(random),
        };
        Ok(FormerAddresses {
            file: target.location.scratch_file()?,
            path: Path::from(format!("{ERASURES}/{id}{ENDING}")),
            key,
            pending: [&MAGIC[..], &key].concat(),
            digest: blake3::Hasher::new(),
            pairs: 0,
        })
    }

    /// Adds that the grain `address` was called `before`.
    ///
    /// # Errors
    /// [`EngineError::File`].
    pub(crate) fn add(&mut self, address: &ContentAddress, before: &ContentAddress) -> Result<()> {
        if address == before {
            return Ok(());
        }
        for address in [address, before] {
            let hash = Tombstone::new(self.key, address).token;
            self.pending.extend(hash);
        }
        self.pairs += 1;
        match self.pending.len() < BLOCK as usize {
            true => Ok(()),
            false => self.write(),
        }
    }

    fn write(&mut self) -> Result<()> {
        self.digest.update(&self.pending);
        let written = self.file.as_file_mut().write_all(&self.pending);
        self.pending.clear();
        written.file("can't write", &self.path)
    }

    /// Publishes the file in `target`, unless no address changed.
    ///
    /// # Errors
    /// [`EngineError::File`].
    pub(crate) async fn publish(mut self, target: &Lake) -> Result<()> {
        if self.pairs == 0 {
            return Ok(());
        }
        self.write()?;
        self.pending.extend(self.digest.finalize().as_bytes());
        self.write()?;
        target.location.publish(self.file, &self.path).await
    }
}

impl Lake {
    async fn former_files(&self) -> Result<Vec<ObjectMeta>> {
        let mut files = self.location.list(ERASURES).await?;
        files.retain(|file| file.location.as_ref().ends_with(ENDING));
        Ok(files)
    }

    async fn former_key(&self, file: &ObjectMeta) -> Result<[u8; 32]> {
        let path = &file.location;
        if file.size < (HEAD + DIGEST) as u64 {
            return Err(damaged(path));
        }
        let store = self.location.store();
        let head = store.get_range(path, 0..HEAD as u64).await;
        let head = head.file("can't read", path)?;
        let key = head.strip_prefix(MAGIC).and_then(|key| key.try_into().ok());
        key.ok_or_else(|| damaged(path))
    }

    /// Copies the former addresses of the grains of `lake` to this one.
    ///
    /// # Errors
    /// [`EngineError::File`].
    pub(crate) async fn copy_former_addresses(&self, lake: &Lake) -> Result<()> {
        let store = lake.location.store();
        for file in lake.former_files().await? {
            let mut copy = self.location.scratch_file()?;
            let mut at = 0;
            while at < file.size {
                let end = file.size.min(at + BLOCK);
                let block = store.get_range(&file.location, at..end).await;
                let block = block.file("can't read", &file.location)?;
                let written = copy.as_file_mut().write_all(&block);
                written.file("can't write", &file.location)?;
                at = end;
            }
            self.location.publish(copy, &file.location).await?;
        }
        Ok(())
    }

    /// Returns the tombstones of the addresses that the grains `addresses` had before migrations.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if a file isn't what was written; [`EngineError::File`].
    pub(crate) async fn former_tombstones(
        &self,
        addresses: &[ContentAddress],
    ) -> Result<HashSet<Tombstone>> {
        let files = self.former_files().await?;
        let mut found = HashSet::new();
        loop {
            let before = found.len();
            for file in &files {
                self.search_former(file, addresses, &mut found).await?;
            }
            // A former address of one file may be the address in another one.
            if files.len() < 2 || found.len() == before {
                return Ok(found);
            }
        }
    }

    /// Adds to `found` what `file` has about `addresses`, and about those of `found`.
    async fn search_former(
        &self,
        file: &ObjectMeta,
        addresses: &[ContentAddress],
        found: &mut HashSet<Tombstone>,
    ) -> Result<()> {
        let path = &file.location;
        let key = self.former_key(file).await?;
        let of_addresses = addresses.iter().map(|one| Tombstone::new(key, one).token);
        let of_found = found.iter().filter(|one| one.key == key);
        let wanted: HashSet<[u8; 32]> = of_addresses.chain(of_found.map(|one| one.token)).collect();
        let mut digest = blake3::Hasher::new();
        digest.update(MAGIC).update(&key);
        let (mut at, end) = (HEAD as u64, file.size - DIGEST as u64);
        while at < end {
            let next = end.min(at + BLOCK);
            let block = self.location.store().get_range(path, at..next).await;
            let block = block.file("can't read", path)?;
            digest.update(&block);
            let (pairs, rest) = block.as_chunks::<PAIR>();
            if !rest.is_empty() {
                return Err(damaged(path));
            }
            for pair in pairs {
                if let Some((address, before)) = halves(pair)
                    && wanted.contains(address)
                {
                    let token = *before;
                    found.insert(Tombstone { key, token });
                }
            }
            at = next;
        }
        let expected = self.location.store().get_range(path, end..file.size).await;
        let expected = expected.file("can't read", path)?;
        match digest.finalize().as_bytes()[..] == expected[..] {
            true => Ok(()),
            false => Err(damaged(path)),
        }
    }
}

fn halves(pair: &[u8; PAIR]) -> Option<(&[u8; 32], &[u8; 32])> {
    let (address, before) = pair.split_first_chunk()?;
    Some((address, before.try_into().ok()?))
}

fn damaged(path: &Path) -> EngineError {
    EngineError::Damaged {
        what: format!("`{path}`"),
        cause: "its checksum isn't that of its content".to_owned(),
        remedy: "restore the file from a backup of the lake; without it, the grains that are \
                 erased aren't refused in the form that they had before the migration",
    }
}
