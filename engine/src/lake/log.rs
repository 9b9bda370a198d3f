//! The files of a table's transaction log: commits, checkpoints, and the hint that references the
//! newest checkpoint.

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};
use serde::de::IgnoredAny;

use super::location::LakeLocation;
use crate::error::{Context, EngineError, Result};

/// What can be done about a log that can't be read, or an entry that isn't what was written.
pub(crate) const REMEDY_OF_LOGS: &str =
    "restore this file from a backup of the lake: no command can tell what it had";

/// A commit or a checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct LogFile {
    /// The version of the table after it.
    pub(crate) version: u64,
    /// True for a checkpoint, false for a commit.
    pub(crate) is_checkpoint: bool,
    /// Its path, from the lake's root.
    pub(crate) path: Path,
}

impl LogFile {
    /// Parses `<version>.json` or `<version>.checkpoint….parquet`. Returns `None` for every other
    /// name.
    fn of(path: &Path) -> Option<LogFile> {
        let (version, rest) = path.filename()?.split_once('.')?;
        let is_checkpoint = rest.starts_with("checkpoint") && rest.ends_with("parquet");
        let known = version.len() == 20 && (is_checkpoint || rest == "json");
        Some(LogFile {
            version: version.parse().ok().filter(|_| known)?,
            is_checkpoint,
            path: path.clone(),
        })
    }

    /// Returns true if the log of `table` can be read up to `version`: it contains that commit, and
    /// either all before it or a checkpoint.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(super) async fn reaches(
        location: &LakeLocation,
        table: &str,
        version: u64,
    ) -> Result<bool> {
        let files = LogFile::list(location, table).await?;
        let has =
            |file: &LogFile| (file.is_checkpoint && file.version <= version) || file.version == 0;
        Ok(files.iter().any(has) && files.iter().any(|file| file.version == version))
    }

    /// Returns what makes the log of `table` unreadable: the first commit that is missing among the
    /// others, or whose lines aren't JSON. `None` if its files can't be read, or if there is no
    /// such commit.
    pub(super) async fn damage(location: &LakeLocation, table: &str) -> Option<EngineError> {
        let damaged = |path: &Path, cause: String| EngineError::Damaged {
            what: format!("`{path}`"),
            cause,
            remedy: REMEDY_OF_LOGS,
        };
        let mut previous = None;
        let files = LogFile::list(location, table).await.ok()?;
        for file in files.iter().filter(|file| !file.is_checkpoint) {
            if let Some(missing) = previous.filter(|version| *version != file.version) {
                let cause = format!("it is missing, and the log has version {}", file.version);
                return Some(damaged(&commit_path(table, missing), cause));
            }
            previous = Some(file.version + 1);
            let bytes = location.read_small(&file.path).await.ok()??;
            let mut lines = serde_json::Deserializer::from_slice(&bytes).into_iter::<IgnoredAny>();
            if let Some(Err(error)) = lines.find(Result::is_err) {
                return Some(damaged(&file.path, format!("it isn't JSON: {error}")));
            }
        }
        None
    }

    /// Lists the commits and checkpoints of `table`, in the order of their names.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn list(location: &LakeLocation, table: &str) -> Result<Vec<LogFile>> {
        let files = location.list(&format!("{table}/{LOG}")).await?;
        Ok(LogFile::among(&files, table))
    }

    /// Returns the commits and checkpoints of `table` among `files`, in their order.
    pub(crate) fn among(files: &[ObjectMeta], table: &str) -> Vec<LogFile> {
        let log = Path::from(format!("{table}/{LOG}"));
        let paths = files.iter().map(|file| &file.location);
        paths
            .filter(|path| path.prefix_matches(&log))
            .filter_map(LogFile::of)
            .collect()
    }
}

/// The folder of the log in a table's folder.
pub(super) const LOG: &str = "_delta_log";

/// Returns the path of the commit of `version` of `table`.
pub(crate) fn commit_path(table: &str, version: u64) -> Path {
    Path::from(format!("{table}/{LOG}/{version:020}.json"))
}

/// Returns the path of the checkpoint of `version` of `table`, if that is one file.
pub(crate) fn checkpoint_path(table: &str, version: u64) -> Path {
    Path::from(format!("{table}/{LOG}/{version:020}.checkpoint.parquet"))
}

/// Returns the path of the file that references the newest checkpoint of `table`.
pub(crate) fn hint_path(table: &str) -> Path {
    Path::from(format!("{table}/{LOG}/_last_checkpoint"))
}

impl LakeLocation {
    /// Reads the small file `path`, or returns `None` if it is missing.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn read_small(&self, path: &Path) -> Result<Option<Bytes>> {
        match self.store().get(path).await {
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            found => found
                .file("can't read", path)?
                .bytes()
                .await
                .file("can't read", path)
                .map(Some),
        }
    }
}
