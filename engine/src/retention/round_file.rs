//! The round that is being erased. A run that was killed resumes with exactly its request, whatever
//! the rules and the clock are by then.
//!
//! The file is sealed with a key of the keyring, because rules name namespaces and tags.

use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};

use crate::erase::RetentionSelection;
use crate::error::{Context, EngineError, Result};
use crate::keys::{Keyring, Secret, seal, unseal};
use crate::lake::{ERASURES, Lake};

/// Purpose of the key of the file.
const PURPOSE: &str = "gristmill/retention/round";

/// The file of the round in progress, in one lake.
pub(super) struct RoundFile {
    path: Path,
    key: Secret,
}

/// The request of a round, and its approvals.
pub(super) type StoredRound = (RetentionSelection, Vec<String>);

impl RoundFile {
    /// Returns the file, which may not exist.
    ///
    /// # Errors
    /// [`EngineError::Key`].
    pub(super) fn new(keyring: &Keyring) -> Result<RoundFile> {
        Ok(RoundFile {
            path: Path::from(format!("{ERASURES}/retention.round")),
            key: keyring.derive(PURPOSE)?,
        })
    }

    /// Returns the round in progress, if there is one.
    ///
    /// # Errors
    /// [`EngineError::Key`] if another keyring began it; errors of the store.
    pub(super) async fn load(&self, lake: &Lake) -> Result<Option<StoredRound>> {
        let path = &self.path;
        let sealed = match lake.location().store().get(path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found
                .file("can't read", path)?
                .bytes()
                .await
                .file("can't read", path)?,
        };
        let other_key = || {
            EngineError::Key(format!(
                "`{path}` can't be opened with the keyring's key: another keyring began the round"
            ))
        };
        let clear = unseal(&self.key, &sealed).ok_or_else(other_key)?;
        serde_json::from_slice(&clear)
            .map(Some)
            .file("can't read", path)
    }

    /// Writes the round in progress atomically.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn store(&self, lake: &Lake, round: &StoredRound) -> Result<()> {
        let path = &self.path;
        let clear = serde_json::to_vec(round).file("can't write", path)?;
        let sealed = PutPayload::from(seal(&self.key, &clear)?);
        let put = lake.location().store().put(path, sealed).await;
        put.map(drop).file("can't write", path)
    }

    /// Removes the file.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn remove(&self, lake: &Lake) -> Result<()> {
        lake.location().delete(&self.path).await
    }
}
