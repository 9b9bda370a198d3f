//! The location of a lake, and its files outside the transaction logs.

use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use gristmill_connectors::source::is_lake_folder;
use gristmill_connectors::storage::{
    ObjectVersions, RemovedVersions, StoreLocation, file_url, has_scheme, resolve_uri,
};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};
use tokio::task::JoinSet;
use url::Url;

use super::heads::HEADS;
use super::local_cache::LocalCache;
use super::location_checks::{check_folder, check_slashes};
use super::log::LOG;
use super::read_ahead::ReadAheadStore;
use super::staged_files::is_staged;
use crate::destination::without_temporary_name;
use crate::error::{Context, EngineError, Result};
use crate::keys::random;

/// The folder or prefix of a lake.
#[derive(Debug, Clone)]
pub struct LakeLocation {
    url: Url,
    /// Its paths begin at the lake.
    store: Arc<dyn ObjectStore>,
    /// The store with paths that begin at its own root, for `deltalake`; `None` for local folders.
    root: Option<Arc<dyn ObjectStore>>,
    /// The path of the lake in that store.
    prefix: Path,
    folder: Option<PathBuf>,
    /// The cache of sidecars on the local disk; clones share it.
    pub(super) cache: Arc<OnceLock<Arc<LocalCache>>>,
}

impl LakeLocation {
    /// Returns the location `uri`: a folder, or an `s3://`, `gs://` or `az://` URI. A missing
    /// folder is created.
    ///
    /// # Errors
    /// [`EngineError::Connector`](crate::error::EngineError::Connector) if no store supports the
    /// URI, [`EngineError::Request`](crate::error::EngineError::Request) if it lacks slashes, or is
    /// a folder whose name Delta's reader takes for another one.
    pub fn new(uri: &str) -> Result<LakeLocation> {
        check_slashes(uri)?;
        match uri.strip_prefix("file://") {
            Some(path) => Self::local(FilePath::new(path)),
            None if has_scheme(uri) => Self::remote(uri),
            None => Self::local(FilePath::new(uri)),
        }
    }

    fn local(path: &FilePath) -> Result<LakeLocation> {
        let folder = std::path::absolute(path).file("can't resolve", path.display().to_string())?;
        check_folder(&folder)?;
        std::fs::create_dir_all(&folder)
            .file("can't make the folder", folder.display().to_string())?;
        let store = LocalFileSystem::new_with_prefix(&folder)
            .file("can't use the folder", folder.display().to_string())?;
        Ok(LakeLocation {
            url: file_url(&folder)?,
            store: Arc::new(store),
            root: None,
            prefix: Path::default(),
            folder: Some(folder),
            cache: Arc::default(),
        })
    }

    fn remote(uri: &str) -> Result<LakeLocation> {
        resolve_uri(uri.trim_end_matches('/'))
            .map(Self::in_store)
            .map_err(Into::into)
    }

    /// Returns the location of a lake in an object store that the caller has made, whatever the
    /// scheme of its URL.
    pub fn in_store(location: StoreLocation) -> LakeLocation {
        let StoreLocation { store, path, url } = location;
        let store: Arc<dyn ObjectStore> = Arc::new(ReadAheadStore::over(store));
        LakeLocation {
            url,
            store: Arc::new(PrefixStore::new(Arc::clone(&store), path.clone())),
            root: Some(store),
            prefix: path,
            folder: None,
            cache: Arc::default(),
        }
    }

    /// Returns the URL of the table folder `name`.
    pub(super) fn table_url(&self, name: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!(
            "{}/{name}/",
            self.url.path().trim_end_matches('/')
        ));
        url
    }

    /// Returns the store for `deltalake`, unless it can find the store itself.
    pub(super) fn root_store(&self) -> Option<Arc<dyn ObjectStore>> {
        self.root.clone()
    }

    /// Returns the path of the table folder `name` in that store.
    pub(super) fn path_in_store(&self, name: &str) -> Path {
        self.prefix
            .parts()
            .chain(Path::from(name).parts())
            .collect()
    }

    /// Returns true if the lake is in an object store, where each access is a request.
    pub fn is_remote(&self) -> bool {
        self.folder.is_none()
    }

    /// Returns the path or URI of the lake for messages.
    pub fn name(&self) -> String {
        match &self.folder {
            Some(folder) => folder.display().to_string(),
            None => self.url.to_string(),
        }
    }

    /// Returns the store whose paths begin at the lake.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store)
    }

    /// Returns the local path of `path`, if the lake is a folder.
    pub(crate) fn local_path(&self, path: &Path) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| {
            path.parts()
                .fold(folder.clone(), |folder, part| folder.join(part.as_ref()))
        })
    }

    /// Creates a temporary file that [`LakeLocation::publish`] can publish. If the lake is a
    /// folder, it is in [`SCRATCH`]. Otherwise it is in the system's folder of temporary files,
    /// where nothing would remove what a killed process leaves, so it has no name on Unix: it is
    /// written through its handle, never through its path.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) fn scratch_file(&self) -> Result<tempfile::NamedTempFile> {
        let made = match &self.folder {
            Some(folder) => {
                let scratch = folder.join(SCRATCH);
                std::fs::create_dir_all(&scratch)
                    .and_then(|()| scratch_builder().tempfile_in(scratch))
            }
            None => scratch_builder().tempfile().and_then(unlinked),
        };
        made.map_err(without_temporary_name)
            .file("can't make a temporary file in", self.name())
    }

    /// Publishes `file` as the lake's file `path`, atomically: by renaming, or by an upload that
    /// becomes visible when it is complete. Its bytes are synced to the disk before it is visible.
    /// An upload that fails is aborted, so that the store doesn't keep its parts.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub async fn publish(&self, file: tempfile::NamedTempFile, path: &Path) -> Result<()> {
        if let Some(target) = self.local_path(path) {
            return tokio::task::spawn_blocking(move || publish_local(file, &target))
                .await
                .file("can't write", path)?
                .file("can't write", path.to_string());
        }
        let bytes = gristmill_connectors::source::SourceBytes::map_file(file.as_file())
            .file("can't read what is written to", path)?;
        let upload = self
            .store
            .put_multipart(path)
            .await
            .file("can't write", path)?;
        upload_all(upload, &bytes).await.file("can't write", path)
    }

    /// Returns the names at the location: files and folders, or the first components of object
    /// paths.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(super) async fn names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = match &self.folder {
            Some(folder) => {
                let entries = std::fs::read_dir(folder).file("can't list", folder.display())?;
                let names =
                    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
                names
                    .collect::<std::io::Result<_>>()
                    .file("can't list", folder.display())?
            }
            None => {
                let found = self
                    .store
                    .list_with_delimiter(None)
                    .await
                    .file("can't list", self.name())?;
                let objects = found.objects.into_iter().map(|object| object.location);
                let paths = found.common_prefixes.into_iter().chain(objects);
                paths
                    .filter_map(|path| path.parts().next().map(|part| part.as_ref().to_owned()))
                    .collect()
            }
        };
        names.sort_unstable();
        Ok(names)
    }

    /// Returns false if the lake is a folder without a folder `name`.
    pub(super) fn may_have(&self, name: &str) -> bool {
        self.folder
            .as_ref()
            .is_none_or(|folder| folder.join(name).is_dir())
    }

    /// Lists the files below `folder`, in the order of their paths.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub async fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>> {
        let prefix = Path::from(folder);
        let found = self.store.list(Some(&prefix)).try_collect().await;
        let mut files: Vec<_> = match folder {
            "" => found.file("can't list", self.name())?,
            folder => found.file("can't list", folder)?,
        };
        files.sort_by(|left: &ObjectMeta, right| left.location.cmp(&right.location));
        Ok(files)
    }

    /// Returns false for a file in another folder than the lake's own ones, or that was found
    /// through a link below these: it may be somebody else's, and isn't removed. The lake's own
    /// folders, and those of the logs, may be links.
    pub(crate) fn is_own(&self, file: &ObjectMeta) -> bool {
        let Some(mut place) = self.folder.clone() else {
            return true;
        };
        let mut folders: Vec<_> = file.location.parts().collect();
        folders.pop();
        let is_inside = folders
            .first()
            .is_none_or(|first| is_lake_folder(first.as_ref()));
        is_inside
            && !folders.iter().enumerate().any(|(depth, part)| {
                place.push(part.as_ref());
                depth > 0 && part.as_ref() != LOG && place.is_symlink()
            })
    }

    /// Returns true if the file `path` exists.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(super) async fn has(&self, path: &Path) -> Result<bool> {
        match self.store.head(path).await {
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            found => found.file("can't inspect", path).map(|_| true),
        }
    }

    /// Deletes the file `path`. A missing file isn't an error.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub async fn delete(&self, path: &Path) -> Result<()> {
        self.forget_cached(path);
        if let Some(local) = self.local_path(path)
            && path.filename().is_some_and(is_staged)
        {
            // The store refuses such names.
            return match std::fs::remove_file(local) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                removed => removed.file("can't delete", path),
            };
        }
        match self.store.delete(path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            failed => failed.file("can't delete", path),
        }
    }

    /// Returns the time to which the ages of files are related: that of the store, which dates
    /// them, or that of this machine if it is earlier. Files of running writers would be old for a
    /// machine whose clock is ahead. Costs three requests.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn file_time(&self) -> Result<DateTime<Utc>> {
        let dated = if self.is_remote() {
            let path = Path::from(format!("{SCRATCH}/clock-{}", hex::encode(random())));
            let put = self.store.put(&path, PutPayload::new()).await;
            put.file("can't write", &path)?;
            let found = self.store.head(&path).await;
            self.delete(&path).await?;
            found.file("can't inspect", &path)?.last_modified
        } else {
            let file = self.scratch_file()?;
            let modified = file.as_file().metadata().and_then(|file| file.modified());
            modified.file("can't inspect", self.name())?.into()
        };
        Ok(dated.min(Utc::now()))
    }

    /// Returns true if the lake is in a store that states versions of its objects, so that it may
    /// keep those of changed and deleted ones: a bucket of S3 or a container of Azure with
    /// versioning, and every bucket of Google Cloud, whose generations don't indicate it.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn states_versions(&self) -> Result<bool> {
        if !self.is_remote() {
            return Ok(false);
        }
        match self.store.head(&Path::from(HEADS)).await {
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            found => {
                let version = found.file("can't inspect", HEADS)?.version;
                // Objects that S3 stored while versioning was off or suspended.
                Ok(version.is_some_and(|version| version != "null"))
            }
        }
    }

    /// Returns the versions of the lake's objects, if it is in a bucket of S3; `None` elsewhere.
    ///
    /// # Errors
    /// [`EngineError::Connector`](crate::error::EngineError::Connector) if the configuration of the
    /// store is incomplete.
    pub fn object_versions(&self) -> Result<Option<ObjectVersions>> {
        match self.is_remote() {
            true => Ok(ObjectVersions::below(&self.url, &self.prefix)?),
            false => Ok(None),
        }
    }

    /// Removes the earlier versions of the lake's objects, in a bucket of S3 with versioning.
    ///
    /// # Errors
    /// [`EngineError::Request`](crate::error::EngineError::Request) if the lake isn't in a bucket
    /// of S3; errors of the store.
    pub async fn remove_earlier_versions(&self) -> Result<RemovedVersions> {
        let versions = self
            .object_versions()?
            .ok_or_else(|| EngineError::Request(NO_VERSIONS.to_owned()))?;
        Ok(versions.remove_earlier().await?)
    }

    /// Removes the folder of the file `path` if it is empty. Object stores have no folders.
    pub(super) fn remove_empty_folder(&self, path: &Path) {
        if let Some(folder) = self.local_path(path).as_deref().and_then(FilePath::parent) {
            // A folder that isn't empty stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Why earlier versions can't be removed.
pub(crate) const NO_VERSIONS: &str = "earlier versions of objects can be removed from buckets of S3 \
                                      only; elsewhere use the store's own rules for versions";

/// The folder of files that aren't part of the lake yet. `gc` removes what a killed process leaves
/// here.
pub(crate) const SCRATCH: &str = "_scratch";

/// The size of one part of an upload in bytes.
const UPLOAD_PART: usize = 8 << 20;

/// Parts that are uploaded concurrently.
const UPLOADS: usize = 4;

/// Uploads `bytes`; aborts the upload if that fails.
async fn upload_all(
    mut upload: Box<dyn MultipartUpload>,
    bytes: &[u8],
) -> object_store::Result<()> {
    let mut parts = JoinSet::new();
    let uploaded = upload_parts(&mut *upload, &mut parts, bytes).await;
    if uploaded.is_err() {
        // A part that is still on its way could be stored after the upload was aborted.
        parts.shutdown().await;
        if let Err(error) = upload.abort().await {
            tracing::debug!(%error, "a failed upload can't be aborted");
        }
    }
    uploaded
}

async fn upload_parts(
    upload: &mut dyn MultipartUpload,
    parts: &mut JoinSet<object_store::Result<()>>,
    bytes: &[u8],
) -> object_store::Result<()> {
    for part in bytes.chunks(UPLOAD_PART) {
        if parts.len() >= UPLOADS
            && let Some(uploaded) = parts.join_next().await
        {
            uploaded??;
        }
        parts.spawn(upload.put_part(part.to_vec().into()));
    }
    while let Some(uploaded) = parts.join_next().await {
        uploaded??;
    }
    upload.complete().await?;
    Ok(())
}

fn publish_local(file: tempfile::NamedTempFile, target: &FilePath) -> std::io::Result<()> {
    file.as_file().sync_data()?;
    if let Some(folder) = target.parent() {
        std::fs::create_dir_all(folder)?;
    }
    file.persist(target).map_err(|error| error.error)?;
    Ok(())
}

/// Returns a builder of temporary files with ordinary permissions: other engines read the lake's
/// files too.
fn scratch_builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("gristmill-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    builder
}

/// Removes the name of `file`; its bytes stay as long as it is open.
#[cfg(unix)]
fn unlinked(mut file: tempfile::NamedTempFile) -> std::io::Result<tempfile::NamedTempFile> {
    std::fs::remove_file(file.path())?;
    // The name may be that of another file when this one is dropped.
    file.disable_cleanup(true);
    Ok(file)
}

/// Returns `file`, which has a name until it is dropped: an open file can't be removed.
#[cfg(not(unix))]
fn unlinked(file: tempfile::NamedTempFile) -> std::io::Result<tempfile::NamedTempFile> {
    Ok(file)
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::lake::{ERASURES, TABLES};
    use crate::segment::SIDECARS;

    #[test]
    fn the_folders_of_lakes_are_known_to_the_search_for_sources() {
        let folders = TABLES.into_iter().chain([SIDECARS, ERASURES, SCRATCH]);
        let unknown: Vec<&str> = folders.filter(|name| !is_lake_folder(*name)).collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }

    #[tokio::test]
    async fn a_file_for_an_object_store_has_no_name_that_a_kill_could_leave() {
        let location = LakeLocation::in_store(StoreLocation {
            store: Arc::new(InMemory::new()),
            path: Path::from("lake"),
            url: Url::parse("memory:///lake").unwrap(),
        });
        let scratch = location.scratch_file().unwrap();
        assert_eq!(scratch.path().exists(), cfg!(not(unix)));
        std::io::Write::write_all(&mut scratch.as_file(), b"rows").unwrap();
        let path = Path::from("grains/a.parquet");
        location.publish(scratch, &path).await.unwrap();
        assert_eq!(&*location.read(&path).await.unwrap(), b"rows");
    }
}
