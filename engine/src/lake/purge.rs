//! Physical removal of files that aren't part of a table any more, and of the log entries that
//! mention them.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use deltalake::checkpoints::create_checkpoint;
use object_store::ObjectMeta;
use object_store::path::Path;

use super::location::SCRATCH;
use super::log::{checkpoint_path, hint_path};
use super::table::{Table, delta_error};
use super::{Lake, LakeLocation};
use crate::error::Result;
use crate::segment::{SIDECARS, SegmentId};

/// What was physically removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Purged {
    /// The number of files.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

/// Unreferenced files that were changed within this time may belong to a running writer.
pub(crate) const GRACE: Duration = Duration::from_secs(3_600);

/// Which unreferenced files are removed: those that are an hour old at this time, or all of them.
#[derive(Debug, Clone, Copy)]
struct Removable(Option<DateTime<Utc>>);

impl Removable {
    /// Returns all of them if there is no other writer (`exclusive`).
    async fn in_lake(location: &LakeLocation, exclusive: bool) -> Result<Removable> {
        Ok(Removable(match exclusive {
            true => None,
            false => Some(location.file_time().await?),
        }))
    }

    fn is_everything(self) -> bool {
        self.0.is_none()
    }

    fn includes(self, file: &ObjectMeta) -> bool {
        self.0.is_none_or(|now| {
            let age = now.signed_duration_since(file.last_modified).to_std();
            age.is_ok_and(|age| age > GRACE)
        })
    }
}

impl std::ops::AddAssign for Purged {
    fn add_assign(&mut self, other: Purged) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

impl Purged {
    async fn remove(&mut self, location: &LakeLocation, file: &ObjectMeta) -> Result<()> {
        location.delete(&file.location).await?;
        self.files += 1;
        self.bytes += file.size;
        Ok(())
    }
}

impl Table {
    /// Writes a checkpoint of the newest version and removes everything that only earlier versions
    /// need: data files and log entries. Earlier versions can't be read afterwards. Unreferenced
    /// files are removed if they are an hour old, or at once if there is no other writer
    /// (`exclusive`).
    ///
    /// # Errors
    /// [`EngineError::Delta`](crate::error::EngineError::Delta),
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub async fn purge(&mut self, exclusive: bool) -> Result<Purged> {
        let removable = Removable::in_lake(self.location(), exclusive).await?;
        self.remove_unreferenced(removable).await
    }

    async fn remove_unreferenced(&mut self, removable: Removable) -> Result<Purged> {
        // Listed before the log is read, so that files of commits in between aren't removed.
        let mut files = self.location().list(self.name()).await?;
        files.retain(|file| self.location().is_own(file));
        self.refresh().await?;
        let version = self.version();
        self.ensure_checkpoint(&files).await?;
        self.record_head(version).await?;
        let live: HashSet<Path> = self
            .files()?
            .into_iter()
            .map(|file| self.path_of(&file.name))
            .collect();
        let retired: HashSet<Path> = self
            .tombstones()
            .await?
            .iter()
            .map(|(name, _)| self.path_of(name))
            .collect();
        let log = Path::from(format!("{}/_delta_log", self.name()));
        let mut purged = Purged::default();
        for file in files {
            let gone = match file.location.prefix_matches(&log) {
                true => is_older_entry(&file.location, version),
                false if live.contains(&file.location) => false,
                false if removable.is_everything() || retired.contains(&file.location) => true,
                false => removable.includes(&file) && !self.has_now(&file.location).await?,
            };
            if gone {
                purged.remove(self.location(), &file).await?;
            }
        }
        Ok(purged)
    }

    /// Returns true if the newest version has the file `path`: a slow writer may have committed it
    /// since this handle was read.
    async fn has_now(&mut self, path: &Path) -> Result<bool> {
        self.refresh().await?;
        let mut files = self.files()?.into_iter();
        Ok(files.any(|file| self.path_of(&file.name) == *path))
    }

    /// Writes a checkpoint of the newest version, unless it is among `files`. A second checkpoint
    /// of the same version could have other bytes, and `heads.json` contains their digest.
    async fn ensure_checkpoint(&self, files: &[ObjectMeta]) -> Result<()> {
        let has = |path| files.iter().any(|file| file.location == path);
        if has(checkpoint_path(self.name(), self.version())) && has(hint_path(self.name())) {
            return Ok(());
        }
        create_checkpoint(self.delta(), None)
            .await
            .map_err(delta_error("can't write a checkpoint", self.name()))
    }
}

impl Lake {
    /// Purges every table that an erasure changes, sidecars of removed segments, and files that
    /// killed processes left.
    ///
    /// # Errors
    /// As [`Table::purge`].
    pub async fn purge(&mut self, exclusive: bool) -> Result<Purged> {
        let removable = Removable::in_lake(self.location(), exclusive).await?;
        let sidecars = self.location().list(SIDECARS).await?;
        let retired = self.grains.tombstones().await?;
        let retired: HashSet<SegmentId> = retired
            .iter()
            .filter_map(|(name, _)| SegmentId::of_file(name))
            .collect();
        let mut purged = Purged::default();
        let tables = [&mut self.rejects, &mut self.state]
            .into_iter()
            .chain(self.sources.as_mut());
        for table in tables.chain([&mut self.grains]) {
            purged += table.remove_unreferenced(removable).await?;
        }
        self.purge_sidecars(sidecars, &retired, removable, &mut purged)
            .await?;
        self.location().retain_cached(&self.segments()?)?;
        let staged = self.location().staged_files().await?;
        for file in self.location().list(SCRATCH).await?.iter().chain(&staged) {
            if removable.includes(file) && self.location().is_own(file) {
                purged.remove(self.location(), file).await?;
            }
        }
        Ok(purged)
    }

    /// Removes those of `sidecars` whose segments were removed from the lake. The files of the
    /// segments `retired` are removed whatever their age.
    async fn purge_sidecars(
        &self,
        sidecars: Vec<ObjectMeta>,
        retired: &HashSet<SegmentId>,
        removable: Removable,
        purged: &mut Purged,
    ) -> Result<()> {
        let live: HashSet<SegmentId> = self
            .segments()?
            .into_iter()
            .map(|segment| segment.id)
            .collect();
        for file in sidecars {
            let is_garbage = segment_of(&file).is_some_and(|segment| {
                !live.contains(&segment)
                    && self.location().is_own(&file)
                    && (retired.contains(&segment) || removable.includes(&file))
            });
            if is_garbage {
                purged.remove(self.location(), &file).await?;
                self.location().remove_empty_folder(&file.location);
            }
        }
        Ok(())
    }
}

/// Returns the segment of a sidecar, or `None` for a file of the whole lake, which is outside of
/// the segments' folders.
fn segment_of(sidecar: &ObjectMeta) -> Option<SegmentId> {
    let segment = sidecar.location.parts().nth(1)?;
    sidecar.location.parts().nth(2)?;
    Some(SegmentId::of_folder(segment.as_ref()))
}

/// Returns true for commits and checkpoints before `version`.
fn is_older_entry(path: &Path, version: u64) -> bool {
    let entry = path
        .filename()
        .and_then(|name| name.split('.').next())
        .filter(|digits| digits.len() == 20);
    entry
        .and_then(|digits| digits.parse::<u64>().ok())
        .is_some_and(|entry| entry < version)
}
