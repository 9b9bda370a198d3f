//! Upgrading lakes of format 1, by the first command that writes an audit entry.
//!
//! Afterwards every table has its head in `heads.json`, and every data file of the small tables its
//! digest in the log. Data files of `grains` aren't read for the upgrade: they get digests when
//! they are rewritten, and until then `verify` uses the hashes of their blobs.

use std::collections::HashMap;

use deltalake::DeltaTable;
use gristmill_schemas::columns::GRAINS;
use object_store::path::Path;

use super::encryption::ENCRYPTION;
use super::heads::Heads;
use super::table::{Change, FORMAT_VERSION_KEY, Table, delta_error};
use super::{FORMAT_VERSION, Lake};
use crate::error::{EngineError, Result};
use crate::file_digest::FileDigest;

/// The name of the work of commits that add digests.
pub(super) const UPGRADE: &str = "upgrade";

/// How often a table is retried whose files another writer changed meanwhile.
const ATTEMPTS: usize = 5;

impl Lake {
    /// Upgrades the lake to the current format, if necessary. Reads the small tables once. A
    /// process that is killed meanwhile leaves a lake of format 1, which the next command upgrades.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if other writers were faster every time; [`EngineError::File`],
    /// [`EngineError::Delta`].
    pub(super) async fn upgrade(&mut self) -> Result<()> {
        if self.grains.format_version() >= FORMAT_VERSION {
            return Ok(());
        }
        for table in self.tables_mut() {
            if table.name() != GRAINS {
                table.add_digests().await?;
            }
            table.record_head(table.version()).await?;
        }
        self.record_encryption().await?;
        self.grains.set_format_version().await
    }

    /// Writes the digest of `encryption.json` into the heads, if the lake has that file.
    ///
    /// # Errors
    /// [`EngineError::File`].
    pub(super) async fn record_encryption(&self) -> Result<()> {
        let Some(bytes) = self.location().read_small(&Path::from(ENCRYPTION)).await? else {
            return Ok(());
        };
        let digest = FileDigest::of(&bytes);
        Heads::update(self.location(), move |heads| {
            heads.encryption = Some(digest)
        })
        .await
    }
}

impl Table {
    /// Computes the digests of the files without one. Returns those whose size is the recorded one.
    async fn digested(&self) -> Result<Vec<super::DataFile>> {
        let mut digested = Vec::new();
        for file in self
            .files()?
            .into_iter()
            .filter(|file| file.digest.is_none())
        {
            let bytes = self.location().read(&self.path_of(&file.name)).await?;
            if bytes.len() as u64 == file.size {
                digested.push(super::DataFile {
                    digest: Some(FileDigest::of(&bytes)),
                    ..file
                });
            }
        }
        Ok(digested)
    }

    /// Adds the files without a digest again, with one.
    async fn add_digests(&mut self) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let change = Change {
                added: self.digested().await?,
                ..Change::default()
            };
            if change.added.is_empty() {
                return Ok(());
            }
            // Without retries: a commit in between may have removed such a file.
            match self.commit(change, UPGRADE, 0).await {
                Err(EngineError::Conflict(_)) => self.refresh().await?,
                committed => return committed.map(drop),
            }
        }
        Err(EngineError::Conflict(format!(
            "the table `{}` was busy {ATTEMPTS} times",
            self.name()
        )))
    }

    /// Writes the current format into the table's properties.
    async fn set_format_version(&mut self) -> Result<()> {
        let fault = delta_error("can't write the format's version", self.name());
        let before = self.version();
        let properties =
            HashMap::from([(FORMAT_VERSION_KEY.to_owned(), FORMAT_VERSION.to_string())]);
        let delta: DeltaTable = self.delta().clone();
        delta
            .set_tbl_properties()
            .with_properties(properties)
            .with_raise_if_not_exists(false)
            .await
            .map_err(fault)?;
        self.refresh().await?;
        self.record_head(before + 1).await
    }
}
