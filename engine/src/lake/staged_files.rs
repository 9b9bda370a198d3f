//! Files that the store of a folder passes over.
//!
//! [`LocalFileSystem`](object_store::local::LocalFileSystem) writes a file under its name with `#`
//! and a number until it is complete, and neither lists nor opens files with such names. A killed
//! process leaves one, with the bytes that it had written.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::Path as FilePath;

use gristmill_connectors::source::is_lake_folder;
use object_store::ObjectMeta;
use object_store::path::Path;

use super::LakeLocation;
use crate::error::{Context, Result};

impl LakeLocation {
    /// Lists the files of the lake that weren't completely written, or still are being written.
    /// Object stores have none.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn staged_files(&self) -> Result<Vec<ObjectMeta>> {
        let Some(folder) = self.local_path(&Path::default()) else {
            return Ok(Vec::new());
        };
        self.listed(move || staged_below(&folder, Extent::OfLake))
            .await
    }

    /// Lists these files, and all others in the lake's folder that have such names: the store
    /// doesn't list them either.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn hidden_files(&self) -> Result<Vec<ObjectMeta>> {
        let Some(folder) = self.local_path(&Path::default()) else {
            return Ok(Vec::new());
        };
        self.listed(move || staged_below(&folder, Extent::Everything))
            .await
    }

    async fn listed(
        &self,
        list: impl FnOnce() -> std::io::Result<Vec<ObjectMeta>> + Send + 'static,
    ) -> Result<Vec<ObjectMeta>> {
        let listed = tokio::task::spawn_blocking(list).await;
        listed
            .file("can't list", self.name())?
            .file("can't list", self.name())
    }
}

/// Returns true for names that the store gives to files until they are complete.
pub(crate) fn is_staged(name: &str) -> bool {
    let number = name.split_once('#').map(|(_, number)| number);
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    })
}

/// Which folders are searched for files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Those of the lake: the others have none of its files.
    OfLake,
    /// Also the others, except those that are closed to this process (`lost+found`).
    Everything,
}

/// Returns the staged files below `root`, in the order of their paths. Names that aren't Unicode
/// are passed over: listing the other files fails because of them.
fn staged_below(root: &FilePath, extent: Extent) -> std::io::Result<Vec<ObjectMeta>> {
    let mut found = Vec::new();
    let mut folders = vec![(root.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let is_of_lake = prefix.split('/').nth(1).is_none_or(is_lake_folder);
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !is_of_lake => continue,
            entries => present(entries)?,
        };
        let Some(entries) = entries else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                continue;
            };
            let is_elsewhere = prefix.is_empty() && !is_lake_folder(name);
            let is_passed_over = is_elsewhere && extent == Extent::OfLake;
            if is_passed_over && !is_staged(name) {
                continue;
            }
            let place = entry.path();
            // Links are followed, as by the store, which refuses those that lead in a circle.
            let Some(metadata) = present(std::fs::metadata(&place))? else {
                continue;
            };
            let path = format!("{prefix}/{name}");
            match metadata.is_dir() {
                true if is_passed_over => {}
                true => folders.push((place, path)),
                false if is_staged(name) => found.push(listed(&path, &metadata)?),
                false => {}
            }
        }
    }
    found.sort_by(|left, right| left.location.cmp(&right.location));
    Ok(found)
}

/// Returns the file `path`, from the lake's root, as the store would list it.
fn listed(path: &str, metadata: &Metadata) -> std::io::Result<ObjectMeta> {
    Ok(ObjectMeta {
        location: Path::parse(path).map_err(std::io::Error::other)?,
        last_modified: metadata.modified()?.into(),
        size: metadata.len(),
        e_tag: None,
        version: None,
    })
}

/// Returns `found`, or `None` if it was removed since it was listed.
fn present<T>(found: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}
