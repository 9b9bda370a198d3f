//! Small files that several writers replace in an object store, none of which overwrites what it
//! hasn't read.

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};

use super::LakeLocation;
use crate::error::{Context, Result};

/// Reads the file `path`, or returns `None` if it is missing. Returns also how it is replaced if
/// it isn't changed meanwhile.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File).
pub(crate) async fn read_with_version(
    location: &LakeLocation,
    path: &Path,
) -> Result<(Option<Bytes>, PutMode)> {
    let found = match location.store().get(path).await {
        Err(object_store::Error::NotFound { .. }) => return Ok((None, PutMode::Create)),
        found => found.file("can't read", path)?,
    };
    let version = UpdateVersion {
        e_tag: found.meta.e_tag.clone(),
        version: found.meta.version.clone(),
    };
    let bytes = found.bytes().await.file("can't read", path)?;
    Ok((Some(bytes), PutMode::Update(version)))
}

/// Writes the file `path`. Returns false if another writer changed it meanwhile.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File).
pub(crate) async fn replace_unchanged(
    location: &LakeLocation,
    path: &Path,
    bytes: Vec<u8>,
    mode: PutMode,
) -> Result<bool> {
    let replaced = replace_version(location, path, bytes, mode).await?;
    Ok(replaced.is_some())
}

/// Writes the file `path`. Returns how it is replaced next if it isn't changed meanwhile, or
/// `None` if another writer changed or removed it.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File).
pub(crate) async fn replace_version(
    location: &LakeLocation,
    path: &Path,
    bytes: Vec<u8>,
    mode: PutMode,
) -> Result<Option<PutMode>> {
    let (store, payload) = (location.store(), PutPayload::from(bytes));
    let is_update = matches!(mode, PutMode::Update(_));
    let put = store
        .put_opts(path, payload.clone(), PutOptions::from(mode))
        .await;
    let put = match put {
        Err(
            object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. },
        ) => return Ok(None),
        // A file that isn't there any more; for a new one, the bucket is missing.
        Err(object_store::Error::NotFound { .. }) if is_update => return Ok(None),
        // A store without conditional puts: the last of two concurrent writers wins, and the next
        // commit corrects it.
        Err(object_store::Error::NotImplemented { .. }) => store.put(path, payload).await,
        put => put,
    };
    let put = put.file("can't write", path)?;
    Ok(Some(PutMode::Update(put.into())))
}

/// Returns true if the store refuses to create the file `path`, which exists, with `bytes`. In a
/// store that ignores the condition, or has none, a writer would replace commits of others.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File).
pub(super) async fn refuses_to_replace(
    location: &LakeLocation,
    path: &Path,
    bytes: Vec<u8>,
) -> Result<bool> {
    let only_new = PutOptions::from(PutMode::Create);
    let put = location
        .store()
        .put_opts(path, PutPayload::from(bytes), only_new)
        .await;
    match put {
        Err(
            object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. },
        ) => Ok(true),
        Err(object_store::Error::NotImplemented { .. }) => Ok(false),
        put => put.file("can't write", path).map(|_| false),
    }
}
