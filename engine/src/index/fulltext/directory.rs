//! A read-only tantivy directory over packed files, without copying.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_connectors::source::SourceBytes;
use stable_deref_trait::StableDeref;
use tantivy::Directory;
use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    DirectoryLock, FileHandle, FileSlice, Lock, OwnedBytes, WatchCallback, WatchHandle, WritePtr,
};

use super::pack::SegmentTextIndex;

/// The files of all segments.
#[derive(Clone)]
pub(super) struct PackedDirectory {
    files: Arc<HashMap<PathBuf, (SharedBytes, Range<usize>)>>,
    meta: Arc<Vec<u8>>,
}

/// Name of tantivy's metadata file, which lists the segments.
const META: &str = "meta.json";

/// The bytes of one packed file.
#[derive(Clone)]
pub(super) struct SharedBytes(Arc<SourceBytes>);

impl SharedBytes {
    /// Returns the bytes of `text`.
    pub(super) fn of(text: &SegmentTextIndex) -> SharedBytes {
        SharedBytes(Arc::clone(text.bytes()))
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

// SAFETY: the bytes belong to a mapping or a vector behind an `Arc`, which nobody can change.
// Moving or cloning the `Arc` moves neither, and they live as long as any clone.
unsafe impl StableDeref for SharedBytes {}

impl PackedDirectory {
    /// Returns the files of `segments` with the metadata `meta`, which names all of them.
    pub(super) fn new<'s>(
        segments: impl Iterator<Item = &'s Arc<SegmentTextIndex>>,
        meta: Vec<u8>,
    ) -> PackedDirectory {
        let mut files = HashMap::new();
        for segment in segments {
            let shared = SharedBytes::of(segment);
            files.extend(
                segment
                    .files()
                    .map(|(name, range)| (PathBuf::from(name), (shared.clone(), range))),
            );
        }
        PackedDirectory {
            files: Arc::new(files),
            meta: Arc::new(meta),
        }
    }
}

impl fmt::Debug for PackedDirectory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PackedDirectory({} files)", self.files.len())
    }
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "sidecars never change")
}

impl Directory for PackedDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let (bytes, range) = self
            .files
            .get(path)
            .ok_or_else(|| OpenReadError::FileDoesNotExist(path.to_owned()))?;
        Ok(Arc::new(FileSlice::new(Arc::new(
            OwnedBytes::new(bytes.clone()).slice(range.clone()),
        ))))
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        Ok(path == Path::new(META) || self.files.contains_key(path))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        match path == Path::new(META) {
            true => Ok(self.meta.to_vec()),
            false => Err(OpenReadError::FileDoesNotExist(path.to_owned())),
        }
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        Err(DeleteError::IoError {
            io_error: Arc::new(read_only()),
            filepath: path.to_owned(),
        })
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        Err(OpenWriteError::IoError {
            io_error: Arc::new(read_only()),
            filepath: path.to_owned(),
        })
    }

    fn atomic_write(&self, _path: &Path, _data: &[u8]) -> io::Result<()> {
        Err(read_only())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    /// The directory is read-only, so that no lock is needed.
    fn acquire_lock(&self, _lock: &Lock) -> Result<DirectoryLock, LockError> {
        Ok(DirectoryLock::from(Box::new(())))
    }

    fn watch(&self, _callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }
}
