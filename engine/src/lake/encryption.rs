//! Whether a lake is encrypted, and with whose keys.
//!
//! The file `encryption.json` in the lake's folder says that everything that is written from now on
//! is sealed, and what tells the right keys from all others. Which files are sealed is in their
//! names, and so in the log: `part-<id>.sealed.parquet`.

use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload};
use serde::{Deserialize, Serialize};

use super::{Lake, LakeLocation, SegmentId};
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
    /// What [`LakeKeys::check`] of the right keys is.
    check: String,
}

/// What a handle of a lake knows of its encryption.
#[derive(Debug, Clone, Default)]
pub(super) struct Encryption {
    marker: Option<Marker>,
    keys: Option<Arc<LakeKeys>>,
    sealed_left_out: bool,
    hidden: Hidden,
}

/// The grains that sealed files hide because they were erased, even if their keys come back with an
/// old copy of the keyring.
#[derive(Debug, Clone, Default)]
struct Hidden {
    grains: TombstoneSet,
    /// The version of the table `erased` that they are of; `None` before they were read.
    version: Option<u64>,
    /// Why they can't be told.
    fault: Option<Arc<EngineError>>,
    /// True while an erasure works, which has to find what it removes.
    revealed: bool,
}

impl Encryption {
    /// That of the lake at `location`.
    ///
    /// # Errors
    /// [`EngineError::Key`] if its form isn't known.
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
                "the lake is encrypted as `{}`; `{FORMAT}` is known",
                marker.format
            ))),
        }
    }
}

impl Lake {
    /// True if everything that is written to the lake is sealed.
    pub fn is_encrypted(&self) -> bool {
        self.encryption.marker.is_some()
    }

    /// Opens what is sealed in the lake with the keys in `store`.
    ///
    /// # Errors
    /// [`EngineError::Key`] if the lake was encrypted with others.
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
                "has none of the keys of people that the lake is sealed with",
            ));
        }
        self.encryption.keys = Some(Arc::new(keys));
        self.hide();
        Ok(())
    }

    /// Reads which grains sealed files must hide, if the lake is encrypted and they aren't known as
    /// of this version. That they can't be read is an error of those who read sealed rows, so that
    /// a check of the lake can name the damage.
    pub(super) async fn read_hidden(&mut self) {
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

    /// With `revealed` the handle reads grains that were erased and whose keys are there
    /// nevertheless: those of an erasure that was interrupted, or those that an old copy of the
    /// keyring opens.
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

    /// Makes the lake one that is encrypted with the keys in `store`; only opens it if it is
    /// already. What it holds stays as it is: [`crate::encrypt::encrypt`] seals that.
    ///
    /// # Errors
    /// As [`Lake::unlock`]; [`EngineError::File`] if it can't be written.
    pub async fn seal_from_now_on(&mut self, store: Box<dyn KeyStore>) -> Result<()> {
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
                // Another process was faster: the lake has the name that it gave.
                Err(object_store::Error::AlreadyExists { .. }) => {
                    self.encryption = Encryption::load(&self.location).await?;
                    self.read_hidden().await;
                    return self.unlock_with(keys.store());
                }
                written => written.file("can't write", &path)?,
            };
            self.encryption = Encryption {
                marker: Some(marker),
                keys: Some(Arc::new(keys)),
                ..Encryption::default()
            };
            self.read_hidden().await;
            return self.record_encryption().await;
        }
        self.unlock(store)
    }

    /// The error of a keyring `name` that doesn't open this encrypted lake, because it `is`
    /// something. To make a new keyring is never the remedy.
    pub fn foreign_keyring(&self, name: &str, is: &str) -> EngineError {
        EngineError::Key(format!(
            "the lake `{}` is encrypted, and the keyring `{name}` {is}: name the keyring that the \
             lake was encrypted with (--keyring, GRISTMILL_KEYRING); if it was lost, restore it \
             and its file `….people` from a backup, since no other keyring opens the lake",
            self.location.name()
        ))
    }

    /// Leaves out what is sealed, so that the rest can be read without a key.
    pub fn leave_out_sealed(&mut self) {
        self.encryption.sealed_left_out = true;
    }

    /// True if the file `name` is sealed and is to be left out.
    pub fn leaves_out(&self, name: &str) -> bool {
        self.encryption.sealed_left_out && is_sealed_file(name)
    }

    /// The keys, if they were opened.
    pub fn keys(&self) -> Option<&Arc<LakeKeys>> {
        self.encryption.keys.as_ref()
    }

    /// The keys to write with; `None` if the lake isn't encrypted.
    ///
    /// # Errors
    /// [`EngineError::Key`] if it is and they weren't opened: nothing goes into it in the clear.
    pub fn keys_to_write(&self) -> Result<Option<Arc<LakeKeys>>> {
        match (&self.encryption.marker, self.keys()) {
            (None, _) => Ok(None),
            (Some(_), Some(keys)) => Ok(Some(Arc::clone(keys))),
            (Some(_), None) => Err(self.locked("written to")),
        }
    }

    /// The keys to read the data file `name` with; `None` if it isn't sealed.
    ///
    /// # Errors
    /// [`EngineError::Key`] if it is and they weren't opened; [`EngineError::File`] if the table of
    /// erased grains can't be read, some of which may be in the file.
    pub fn keys_to_read(&self, name: &str) -> Result<Option<Arc<LakeKeys>>> {
        match &self.encryption.hidden.fault {
            Some(fault) if is_sealed_file(name) => {
                Err(fault.to_string()).file("without knowing what was erased, won't read", name)
            }
            _ => self.keys_to_check(name),
        }
    }

    /// The keys to check the data file `name` with, also where the table of erased grains is
    /// damaged; `None` if it isn't sealed.
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
        EngineError::Key(format!(
            "the lake `{}` is encrypted and can't be {what} without its keyring: give --keyring \
             and its passphrase (--passphrase-file or GRISTMILL_PASSPHRASE)",
            self.location.name()
        ))
    }
}

/// True if the data file `name` is sealed.
pub fn is_sealed_file(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    SegmentId::of_file(name).is_some_and(|id| id.is_sealed())
}
