//! `heads.json`: the newest version of every table, which detects a log that lost its end.
//!
//! The entries of a log can't state that others follow. This file contains, for each table, the
//! version after the newest commit, a digest over the table's list of files at that version, and
//! the digests of the newest entries of its log. It is replaced atomically after each commit, and
//! merged by the higher version, so that concurrent writers never move it back.
//!
//! A log that is **ahead** of its head is sound: a process was killed between its commit and the
//! update, or another engine wrote. A log that is **behind**, or differs at that version, is
//! damaged.

use std::collections::BTreeMap;

use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use serde::{Deserialize, Serialize};

use super::conditional_put::{read_with_version, refuses_to_replace, replace_unchanged};
use super::location::LakeLocation;
use super::table::DataFile;
use crate::error::{Context, EngineError, Result};
use crate::file_digest::FileDigest;

/// The name of the file, in the lake's root.
pub const HEADS: &str = "heads.json";

/// The remedy for damaged heads.
pub(crate) const ACCEPT: &str =
    "restore the lake from a backup, or accept it as it is now: `gristmill repair --accept-logs`";

/// The file that processes lock while they replace the heads, if the lake is a folder. It is empty
/// and is never removed.
pub(super) const LOCK: &str = "heads.lock";

const FORMAT: &str = "gristmill-heads/1";

/// How many log entries of a table have their digests here.
pub(super) const ENTRIES: usize = 8;

/// How often an update is retried because another writer was faster.
const ATTEMPTS: usize = 100;

/// What the lake's tables contain at least.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Heads {
    format: String,
    /// The digest of `encryption.json`, if the lake is encrypted.
    pub(crate) encryption: Option<FileDigest>,
    /// The head of each table, by its name.
    pub(crate) tables: BTreeMap<String, TableHead>,
    /// The digest of this file with an empty text here.
    checksum: String,
}

/// The newest known version of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableHead {
    /// The version.
    pub(crate) version: u64,
    /// The digest over its list of files, as computed by [`digest_of_files`].
    pub(crate) files: FileDigest,
    /// The digests of the newest commits, by their versions.
    pub(crate) entries: BTreeMap<u64, FileDigest>,
    /// The newest checkpoint, if there is one.
    pub(crate) checkpoint: Option<CheckpointHead>,
}

/// The newest known checkpoint of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckpointHead {
    /// The version of the checkpoint.
    pub(crate) version: u64,
    /// The digest of its file.
    pub(crate) file: FileDigest,
    /// The digest of `_last_checkpoint`, which references it.
    pub(crate) hint: FileDigest,
}

/// Returns the digest over `files`, which are in the order of their names: BLAKE3 of the name, a
/// zero byte, size and rows as little-endian u64, and the 32 bytes of the content digest (zeros if
/// there is none) of each file.
pub(crate) fn digest_of_files(files: &[DataFile]) -> FileDigest {
    let mut hasher = blake3::Hasher::new();
    for file in files {
        hasher.update(file.name.as_bytes()).update(&[0]);
        hasher
            .update(&file.size.to_le_bytes())
            .update(&file.rows.to_le_bytes());
        hasher.update(
            file.digest
                .as_ref()
                .map_or(&[0; 32], |digest| digest.as_bytes()),
        );
    }
    hasher.finalize().into()
}

impl Default for Heads {
    fn default() -> Self {
        Heads {
            format: FORMAT.to_owned(),
            encryption: None,
            tables: BTreeMap::new(),
            checksum: String::new(),
        }
    }
}

impl TableHead {
    /// Adds what `found` contains beyond this.
    fn merge(&mut self, found: TableHead) {
        if found.version > self.version {
            (self.version, self.files) = (found.version, found.files);
        }
        for (version, digest) in found.entries {
            self.entries.entry(version).or_insert(digest);
        }
        while self.entries.len() > ENTRIES {
            self.entries.pop_first();
        }
        let newest =
            |head: &Option<CheckpointHead>| head.as_ref().map(|checkpoint| checkpoint.version);
        if newest(&found.checkpoint) >= newest(&self.checkpoint) {
            self.checkpoint = found.checkpoint;
        }
    }
}

impl Heads {
    /// Reads the heads of the lake at `location`, or returns `None` if the file is missing.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if it isn't what was written; [`EngineError::File`].
    pub(crate) async fn load(location: &LakeLocation) -> Result<Option<Heads>> {
        let found = location.read_small(&Path::from(HEADS)).await?;
        found
            .map(|bytes| Heads::parse(&bytes, location))
            .transpose()
    }

    /// Merges `found` into the head of `table`.
    pub(crate) fn merge(&mut self, table: &str, found: TableHead) {
        match self.tables.get_mut(table) {
            Some(head) => head.merge(found),
            None => {
                self.tables.insert(table.to_owned(), found);
            }
        }
    }

    fn parse(bytes: &[u8], location: &LakeLocation) -> Result<Heads> {
        let damaged = |cause: String| EngineError::Damaged {
            what: format!("`{}/{HEADS}`", location.name()),
            cause,
            remedy: ACCEPT,
        };
        let heads: Heads =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if heads.format != FORMAT {
            return Err(damaged(format!(
                "its format is `{}`, but this program reads `{FORMAT}`",
                heads.format
            )));
        }
        // Compared as bytes: a changed space or digit is damage, too.
        match heads.clone().into_bytes().ok().as_deref() == Some(bytes) {
            true => Ok(heads),
            false => Err(damaged("its checksum isn't that of its content".to_owned())),
        }
    }

    /// Returns the bytes of the file.
    fn into_bytes(mut self) -> Result<Vec<u8>, serde_json::Error> {
        self.checksum.clear();
        self.checksum = FileDigest::of(&serde_json::to_vec_pretty(&self)?).to_string();
        serde_json::to_vec_pretty(&self)
    }

    /// Writes `heads`, whatever the file contains. Waits for those who update it.
    ///
    /// # Errors
    /// [`EngineError::File`].
    pub(crate) async fn replace(location: &LakeLocation, heads: Heads) -> Result<()> {
        let path = Path::from(HEADS);
        let bytes = heads.into_bytes().file("can't write", HEADS)?;
        let locked = location.clone();
        let lock = tokio::task::spawn_blocking(move || locked.lock(LOCK)).await;
        let _lock = lock.file("can't write", HEADS)??;
        location
            .store()
            .put(&path, PutPayload::from(bytes))
            .await
            .file("can't write", &path)
            .map(drop)
    }

    /// Creates the heads of a new lake at `location`, unless it has some.
    ///
    /// # Errors
    /// [`EngineError::Request`] if the lake is in a store without conditional puts; as
    /// [`Heads::update`].
    pub(super) async fn create(location: &LakeLocation) -> Result<()> {
        Self::update(location, |_| ()).await?;
        if !location.is_remote() {
            return Ok(());
        }
        let path = Path::from(HEADS);
        let bytes = Heads::default().into_bytes().file("can't write", HEADS)?;
        if refuses_to_replace(location, &path, bytes).await? {
            return Ok(());
        }
        location.delete(&path).await?;
        Err(EngineError::Request(format!(
            "no lake can be created at `{}`: the store has no conditional puts (`If-None-Match`), \
             so writers at the same time would replace the commits of each other; name a bucket of \
             a store that has them, and don't set AWS_CONDITIONAL_PUT",
            location.name()
        )))
    }

    /// Replaces the heads of the lake at `location` by the result of `change`, unless it is the
    /// same. `change` may be called several times. It gets empty heads if there are none.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if the file isn't what was written; [`EngineError::File`];
    /// [`EngineError::Conflict`] if other writers were faster every time.
    pub(crate) async fn update(
        location: &LakeLocation,
        change: impl Fn(&mut Heads) + Send + Sync + 'static,
    ) -> Result<()> {
        if location.local_path(&Path::from(HEADS)).is_none() {
            return Self::update_object(location, change).await;
        }
        let location = location.clone();
        let update = move || Self::update_local(&location, change);
        tokio::task::spawn_blocking(update)
            .await
            .file("can't write", HEADS)?
    }

    fn update_local(location: &LakeLocation, change: impl Fn(&mut Heads)) -> Result<()> {
        let _lock = location.lock(LOCK)?;
        let path = location.local_path(&Path::from(HEADS)).unwrap_or_default();
        let found = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            found => Some(Heads::parse(
                &found.file("can't read", path.display())?,
                location,
            )?),
        };
        if let Some(bytes) = changed(found.as_ref(), change)? {
            let scratch = location.scratch_file()?;
            std::fs::write(scratch.path(), bytes)
                .and_then(|()| scratch.as_file().sync_data())
                .file("can't write", path.display())?;
            scratch
                .persist(&path)
                .map_err(|error| error.error)
                .file("can't write", path.display())?;
        }
        Ok(())
    }

    async fn update_object(location: &LakeLocation, change: impl Fn(&mut Heads)) -> Result<()> {
        let path = Path::from(HEADS);
        for _ in 0..ATTEMPTS {
            let (found, mode) = read_with_version(location, &path).await?;
            let found = found.map(|bytes| Heads::parse(&bytes, location));
            let found = found.transpose()?;
            let Some(bytes) = changed(found.as_ref(), &change)? else {
                return Ok(());
            };
            if replace_unchanged(location, &path, bytes, mode).await? {
                return Ok(());
            }
        }
        Err(EngineError::Conflict(format!(
            "`{HEADS}` was busy {ATTEMPTS} times"
        )))
    }
}

/// Returns the bytes of the result of `change` on `found`, or `None` if it changes nothing.
fn changed(found: Option<&Heads>, change: impl Fn(&mut Heads)) -> Result<Option<Vec<u8>>> {
    let mut heads = found.cloned().unwrap_or_default();
    change(&mut heads);
    match found == Some(&heads) {
        true => Ok(None),
        false => heads.into_bytes().file("can't write", HEADS).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(version: u64, text: &str) -> TableHead {
        let entries = [(version, FileDigest::of(text.as_bytes()))].into();
        TableHead {
            version,
            files: FileDigest::of(text.as_bytes()),
            entries,
            checkpoint: None,
        }
    }

    async fn lake() -> (tempfile::TempDir, LakeLocation) {
        let folder = tempfile::tempdir().unwrap();
        let location = LakeLocation::new(&folder.path().display().to_string()).unwrap();
        (folder, location)
    }

    #[tokio::test]
    async fn heads_never_move_back() {
        let (_folder, location) = lake().await;
        for version in [1, 5, 3] {
            Heads::update(&location, move |heads| {
                heads.merge("state", head(version, &version.to_string()))
            })
            .await
            .unwrap();
        }
        let heads = Heads::load(&location).await.unwrap().unwrap();
        let state = heads.tables.get("state").unwrap();
        assert_eq!((state.version, state.files), (5, FileDigest::of(b"5")));
        assert_eq!(state.entries.keys().copied().collect::<Vec<_>>(), [1, 3, 5]);
        for version in 6..30 {
            Heads::update(&location, move |heads| {
                heads.merge("state", head(version, ""))
            })
            .await
            .unwrap();
        }
        let heads = Heads::load(&location).await.unwrap().unwrap();
        assert_eq!(heads.tables.get("state").unwrap().entries.len(), ENTRIES);
    }

    #[tokio::test]
    async fn every_flipped_bit_of_the_heads_is_detected() {
        let (folder, location) = lake().await;
        Heads::update(&location, |heads| heads.merge("state", head(7, "x")))
            .await
            .unwrap();
        let path = folder.path().join(HEADS);
        let sound = std::fs::read(&path).unwrap();
        for bit in 0..sound.len() * 8 {
            let mut damaged = sound.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, damaged).unwrap();
            assert!(
                matches!(
                    Heads::load(&location).await,
                    Err(EngineError::Damaged { .. })
                ),
                "bit {bit}"
            );
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn writers_at_the_same_time_lose_nothing() {
        let (_folder, location) = lake().await;
        let writers: Vec<_> = (0..16_u64)
            .map(|writer| {
                let location = location.clone();
                tokio::spawn(async move {
                    let table = format!("table-{writer}");
                    Heads::update(&location, move |heads| {
                        heads.merge(&table, head(writer, "x"))
                    })
                    .await
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap().unwrap();
        }
        assert_eq!(
            Heads::load(&location).await.unwrap().unwrap().tables.len(),
            16
        );
    }
}
