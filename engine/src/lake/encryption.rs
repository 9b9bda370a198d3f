//! The encryption of a lake: whether it is encrypted, and with which keys.
//!
//! The file `encryption.json` in the lake's folder states that everything is encrypted from now on,
//! and contains a check value of the right keys. Which files are encrypted is in their names, and
//! so in the log: `part-<id>.sealed.parquet`.

use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload};
use serde::{Deserialize, Serialize};

use super::open_checks::{MARKER_LOST, damaged_marker};
use super::{DataFile, Lake, LakeLocation, SegmentId};
use crate::error::{Context, EngineError, Result};
use crate::keys::{KeyStore, LakeKeys, TombstoneSet, random};

/// The file that makes a lake encrypted.
pub const ENCRYPTION: &str = "encryption.json";

const FORMAT: &str = "gristmill-encryption/1";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Marker {
    format: String,
    /// The lake's own name, by which its keys differ from those of other lakes of the same keyring.
    lake: String,
    /// The [`LakeKeys::check`] of the right keys.
    check: String,
}

/// The encryption state of a handle.
#[derive(Debug, Clone, Default)]
pub(super) struct Encryption {
    marker: Option<Marker>,
    keys: Option<Arc<LakeKeys>>,
    sealed_left_out: bool,
    hidden: Hidden,
}

/// Erased grains that encrypted files hide, even if their keys are restored from an old copy of the
/// keyring.
#[derive(Debug, Clone, Default)]
struct Hidden {
    grains: TombstoneSet,
    /// The version of the table `erased` that was read; `None` if none was.
    version: Option<u64>,
    /// Why the table can't be read.
    fault: Option<Arc<EngineError>>,
    /// True while an erasure works, which has to find what it removes.
    revealed: bool,
}

impl Encryption {
    /// Reads the encryption of the lake at `location`.
    ///
    /// # Errors
    /// [`EngineError::Key`] if its format is unknown.
    pub(super) async fn load(location: &LakeLocation) -> Result<Encryption> {
        let path = Path::from(ENCRYPTION);
        let found = match location.store().get(&path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(Encryption::default()),
            found => found
                .file("can't read", &path)?
                .bytes()
                .await
                .file("can't read", &path)?,
        };
        let marker: Marker = serde_json::from_slice(&found).file("can't read", &path)?;
        match marker.format == FORMAT {
            true => Ok(Encryption {
                marker: Some(marker),
                ..Encryption::default()
            }),
            false => Err(EngineError::Key(format!(
                "the lake is encrypted in the format `{}`; this program reads `{FORMAT}`",
                marker.format
            ))),
        }
    }
}

impl Lake {
    /// Returns true if everything that is written to the lake is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.encryption.marker.is_some()
    }

    /// Reads the marker again if the lake has encrypted segments and no marker: another process may
    /// have encrypted it since the marker was read. Without a marker, everything would be written
    /// in plain text.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if there is none; as [`Encryption::load`].
    pub(super) async fn find_marker(&mut self) -> Result<()> {
        let is_sealed = |file: &DataFile| is_sealed_file(&file.name);
        if self.is_encrypted() || !self.grains.files()?.iter().any(is_sealed) {
            return Ok(());
        }
        self.encryption = Encryption::load(&self.location).await?;
        match self.is_encrypted() {
            true => Ok(()),
            false => Err(damaged_marker(&self.location, MARKER_LOST)),
        }
    }

    /// Opens the lake's keys in `store`.
    ///
    /// # Errors
    /// [`EngineError::Key`] if the lake was encrypted with other keys.
    pub fn unlock(&mut self, store: Box<dyn KeyStore>) -> Result<()> {
        self.unlock_with(store.into())
    }

    fn unlock_with(&mut self, store: Arc<dyn KeyStore>) -> Result<()> {
        let Some(marker) = &self.encryption.marker else {
            return Ok(());
        };
        let name = store.name();
        let keys = LakeKeys::open(store, &marker.lake)?;
        if keys.check() != marker.check {
            return Err(self.foreign_keyring(&name, "is another one"));
        }
        if keys.is_empty()
            && self
                .segments()?
                .iter()
                .any(|segment| segment.id.is_sealed())
        {
            return Err(self.foreign_keyring(
                &name,
                "has none of the personal keys with which the lake is encrypted",
            ));
        }
        self.encryption.keys = Some(Arc::new(keys));
        self.hide();
        Ok(())
    }

    /// Reads which grains encrypted files must hide, if the lake is encrypted and the table
    /// `erased` has a new version. If it can't be read, readers of encrypted rows get the error
    /// later, so that a check of the lake can report the damage.
    pub(super) async fn load_tombstones(&mut self) {
        let version = Some(self.erased.version());
        if !self.is_encrypted() || self.encryption.hidden.version == version {
            return;
        }
        let (grains, fault) = match self.tombstone_set().await {
            Ok(grains) => (grains, None),
            Err(error) => (TombstoneSet::default(), Some(Arc::new(error))),
        };
        let revealed = self.encryption.hidden.revealed;
        self.encryption.hidden = Hidden {
            grains,
            version,
            fault,
            revealed,
        };
        self.hide();
    }

    /// With `revealed`, the handle reads erased grains whose keys exist nevertheless: those of an
    /// interrupted erasure, or those that an old copy of the keyring opens.
    pub(crate) fn reveal_erased(&mut self, revealed: bool) {
        self.encryption.hidden.revealed = revealed;
        self.hide();
    }

    fn hide(&mut self) {
        let hidden = &self.encryption.hidden;
        let grains = if hidden.revealed {
            TombstoneSet::default()
        } else {
            hidden.grains.clone()
        };
        let keys = self
            .encryption
            .keys
            .as_ref()
            .map(|keys| Arc::new(keys.with_tombstones(grains)));
        self.encryption.keys = keys;
    }

    /// Makes the lake encrypted with the keys in `store`, or opens these if it is already. Existing
    /// files stay as they are: [`crate::encrypt::encrypt`] encrypts them.
    ///
    /// # Errors
    /// As [`Lake::unlock`]; [`EngineError::File`] if it can't be written.
    pub async fn enable_encryption(&mut self, store: Box<dyn KeyStore>) -> Result<()> {
        if !self.is_encrypted() {
            let lake = hex::encode(random());
            let keys = LakeKeys::open(store, &lake)?;
            let marker = Marker {
                format: FORMAT.to_owned(),
                lake,
                check: keys.check().to_owned(),
            };
            let path = Path::from(ENCRYPTION);
            let text = serde_json::to_vec_pretty(&marker).file("can't write", &path)?;
            let only_new = PutOptions::from(PutMode::Create);
            match self
                .location
                .store()
                .put_opts(&path, PutPayload::from(text), only_new)
                .await
            {
                // Another process was faster: the lake has the name that it chose.
                Err(object_store::Error::AlreadyExists { .. }) => {
                    self.encryption = Encryption::load(&self.location).await?;
                    self.load_tombstones().await;
                    return self.unlock_with(keys.store());
                }
                written => written.file("can't write", &path)?,
            };
            self.encryption = Encryption {
                marker: Some(marker),
                keys: Some(Arc::new(keys)),
                ..Encryption::default()
            };
            self.load_tombstones().await;
            return self.record_encryption().await;
        }
        self.unlock(store)
    }

    /// Returns the error of a keyring `name` that doesn't open this encrypted lake, with the reason
    /// `is`. Creating a new keyring is never the remedy.
    pub fn foreign_keyring(&self, name: &str, is: &str) -> EngineError {
        EngineError::Key(format!(
            "the lake `{}` is encrypted, and the keyring `{name}` {is}: name the keyring that the \
             lake was encrypted with (--keyring, GRISTMILL_KEYRING); if it was lost, restore it \
             and its file `….people` from a backup, since no other keyring opens the lake",
            self.location.name()
        ))
    }

    /// Skips encrypted files, so that the others can be read without a key.
    pub fn skip_sealed(&mut self) {
        self.encryption.sealed_left_out = true;
    }

    /// Returns true if the file `name` is encrypted and skipped.
    pub fn skips(&self, name: &str) -> bool {
        self.encryption.sealed_left_out && is_sealed_file(name)
    }

    /// Returns the keys, if they were opened.
    pub fn keys(&self) -> Option<&Arc<LakeKeys>> {
        self.encryption.keys.as_ref()
    }

    /// Returns the keys to write with, or `None` if the lake isn't encrypted.
    ///
    /// # Errors
    /// [`EngineError::Key`] if it is and they weren't opened: nothing is written in plain text.
    pub(crate) fn keys_to_write(&self) -> Result<Option<Arc<LakeKeys>>> {
        match (&self.encryption.marker, self.keys()) {
            (None, _) => Ok(None),
            (Some(_), Some(keys)) => Ok(Some(Arc::clone(keys))),
            (Some(_), None) => Err(self.locked("written to")),
        }
    }

    /// Returns the keys to read the data file `name` with, or `None` if it isn't encrypted.
    ///
    /// # Errors
    /// [`EngineError::Key`] if it is and they weren't opened; [`EngineError::File`] if the table of
    /// erased grains can't be read, because the file may contain some of them.
    pub fn keys_to_read(&self, name: &str) -> Result<Option<Arc<LakeKeys>>> {
        match &self.encryption.hidden.fault {
            Some(fault) if is_sealed_file(name) => {
                Err(fault.to_string()).file("without knowing what was erased, won't read", name)
            }
            _ => self.keys_to_check(name),
        }
    }

    /// Returns the keys to check the data file `name` with, or `None` if it isn't encrypted. Works
    /// even if the table of erased grains is damaged.
    ///
    /// # Errors
    /// [`EngineError::Key`] if it is and they weren't opened.
    pub(crate) fn keys_to_check(&self, name: &str) -> Result<Option<Arc<LakeKeys>>> {
        match (is_sealed_file(name), self.keys()) {
            (false, _) => Ok(None),
            (true, Some(keys)) => Ok(Some(Arc::clone(keys))),
            (true, None) => Err(self.locked("read")),
        }
    }

    fn locked(&self, what: &str) -> EngineError {
        if !self.is_encrypted() {
            // A handle of an encrypted lake has the marker that is written before its first file.
            return EngineError::Key(format!(
                "the lake `{}` was encrypted while this command ran, which began without its keys \
                 and so can't go on: run the command again",
                self.location.name()
            ));
        }
        EngineError::Key(format!(
            "the lake `{}` is encrypted and can't be {what} without its keyring: give --keyring \
             and its passphrase (--passphrase-file or GRISTMILL_PASSPHRASE)",
            self.location.name()
        ))
    }
}

/// Returns true if the data file `name` is encrypted.
pub fn is_sealed_file(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    SegmentId::of_file(name).is_some_and(|id| id.is_sealed())
}
