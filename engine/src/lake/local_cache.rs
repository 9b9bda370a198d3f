//! A cache of sidecars on the local disk, for lakes in object stores.
//!
//! ```text
//! DIR/CACHEDIR.TAG
//! DIR/<16 bytes of BLAKE3 of the lake's URL, hex>/<segment>/<sidecar>
//! ```
//!
//! A sidecar is kept as it is in the store: those of encrypted lakes are sealed here too. Files
//! appear by renaming, so several processes may share a folder. Each use sets a file's time of
//! modification; when all files together exceed the limit, the least recently used are removed. A
//! process that has mapped a removed file keeps its bytes.
//!
//! The folder has a file `CACHEDIR.TAG`, by which backup programs recognise a cache. A folder that
//! has other files and not this one isn't used, so that none of them is removed.
//!
//! A file of another user isn't used: what a sidecar is bound to isn't secret, so this user could
//! hide rows with one, in a folder that others can write to.
//!
//! What a sidecar is bound to and its checksum are checked whenever it is opened, from here or from
//! the store, so a damaged or outdated file is only fetched again.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::Write;
use std::path::{Path as FilePath, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use gristmill_connectors::source::SourceBytes;
use object_store::path::Path;

use crate::error::{Context, Result};

/// The size of a cache in bytes unless another is given.
pub const DEFAULT_CACHE_BYTES: u64 = 10 << 30;

/// Files of more than this part of the limit aren't kept: one in so many.
const LARGEST: u64 = 4;

/// Part of the limit that stays after a removal, in tenths.
const TENTHS_KEPT: u64 = 9;

/// The time of a use is recorded again after this time only.
const USE_INTERVAL: Duration = Duration::from_secs(60);

/// Temporary files that are older were left by a killed process.
const ABANDONED: Duration = Duration::from_secs(3_600);

/// The file that marks a folder as a cache, and its content (https://bford.info/cachedir/).
const TAG: &str = "CACHEDIR.TAG";
const TAG_CONTENT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# Sidecars of gristmill \
                           lakes; may be removed at any time.\n";

/// The beginning of the names of temporary files.
const TEMPORARY: &str = ".fetching-";

/// A folder with sidecars, and the limit of their size.
#[derive(Debug)]
pub struct LocalCache {
    folder: PathBuf,
    limit: u64,
    /// The user who owns the files of this process there, where the system has such users.
    owner: Option<u32>,
    /// The size of all files, roughly: other processes change them, too. It is counted again
    /// before anything is removed.
    size: AtomicU64,
}

/// A file of the cache.
struct CachedFile {
    path: PathBuf,
    size: u64,
    used: SystemTime,
}

impl LocalCache {
    /// Opens the cache in `folder`, which is created if it is missing, for `limit` bytes.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if the folder can't be used, or has
    /// other files.
    pub fn open(folder: &FilePath, limit: u64) -> Result<LocalCache> {
        tag(folder).file("can't use as a cache", folder.display())?;
        let size = files(folder).iter().map(|file| file.size).sum();
        let cache = LocalCache {
            folder: folder.to_owned(),
            limit,
            owner: owner_of_new_files(folder),
            size: AtomicU64::new(size),
        };
        cache.remove_oldest();
        Ok(cache)
    }

    /// Returns the folder of the lake `url`.
    fn folder_of(&self, url: &str) -> PathBuf {
        let name = blake3::hash(url.as_bytes());
        let name = name.as_bytes().get(..16).unwrap_or_default();
        self.folder.join(hex::encode(name))
    }

    /// Returns the place of the sidecar `path` of the lake `url`; `None` if it isn't a path of one.
    fn place(&self, url: &str, path: &Path) -> Option<PathBuf> {
        let parts: Vec<_> = path.parts().collect();
        let [_, segment, name] = parts.as_slice() else {
            return None;
        };
        Some(
            self.folder_of(url)
                .join(segment.as_ref())
                .join(name.as_ref()),
        )
    }

    /// Maps the sidecar `path` of the lake `url`, if it is here.
    pub(super) fn get(&self, url: &str, path: &Path) -> Option<SourceBytes> {
        let place = self.place(url, path)?;
        let file = std::fs::File::open(&place).ok()?;
        let metadata = file.metadata().ok()?;
        if owner_of(&metadata) != self.owner {
            return None;
        }
        let now = SystemTime::now();
        let used = metadata.modified().ok();
        let is_recent =
            used.is_some_and(|used| now.duration_since(used).is_ok_and(|age| age < USE_INTERVAL));
        if !is_recent {
            // Without the time, the file is removed sooner.
            let _ = filetime_set(&place, now);
        }
        SourceBytes::map_file(&file).ok()
    }

    /// Keeps `bytes` as the sidecar `path` of the lake `url`, and removes others if there is no
    /// room. A failure is only logged.
    pub(super) fn put(&self, url: &str, path: &Path, bytes: &[u8]) {
        let size = bytes.len() as u64;
        let Some(place) = self
            .place(url, path)
            .filter(|_| size <= self.limit / LARGEST)
        else {
            return;
        };
        match write_whole(&place, bytes) {
            Ok(()) => {
                self.size.fetch_add(size, Ordering::Relaxed);
                self.remove_oldest();
            }
            Err(error) => {
                let folder = self.folder.display();
                tracing::warn!(%folder, %error, "a sidecar can't be kept in the cache");
            }
        }
    }

    /// Removes the sidecar `path` of the lake `url`.
    pub(super) fn forget(&self, url: &str, path: &Path) {
        if let Some(place) = self.place(url, path) {
            let _ = std::fs::remove_file(&place);
            // A folder that isn't empty stays.
            let _ = place.parent().map(std::fs::remove_dir);
        }
    }

    /// Removes the sidecars of all segments of the lake `url` for which `is_live` is false.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if one can't be removed.
    pub(super) fn retain(&self, url: &str, is_live: impl Fn(&str) -> bool) -> Result<()> {
        let Ok(segments) = std::fs::read_dir(self.folder_of(url)) else {
            return Ok(());
        };
        for segment in segments.flatten() {
            let is_gone = segment
                .file_name()
                .to_str()
                .is_none_or(|name| !is_live(name));
            if is_gone {
                let path = segment.path();
                match std::fs::remove_dir_all(&path) {
                    // Another process was faster.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    removed => removed.file("can't remove from the cache", path.display())?,
                }
            }
        }
        Ok(())
    }

    /// Removes the least recently used files if all together exceed the limit.
    fn remove_oldest(&self) {
        if self.size.load(Ordering::Relaxed) <= self.limit {
            return;
        }
        let mut all = files(&self.folder);
        all.sort_by_key(|file| file.used);
        let mut size: u64 = all.iter().map(|file| file.size).sum();
        let goal = self.limit / 10 * TENTHS_KEPT;
        for file in all {
            if size <= goal {
                break;
            }
            if !is_being_written(&file) && std::fs::remove_file(&file.path).is_ok() {
                size -= file.size;
                let _ = file.path.parent().map(std::fs::remove_dir);
            }
        }
        self.size.store(size, Ordering::Relaxed);
    }
}

/// Creates `folder`, and marks it as a cache.
fn tag(folder: &FilePath) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(TAG);
    if path.exists() {
        return Ok(());
    }
    match std::fs::read_dir(folder)?.next() {
        None => std::fs::write(path, TAG_CONTENT),
        // Another process was faster.
        Some(_) if path.exists() => Ok(()),
        Some(_) => Err(std::io::Error::other(format!(
            "it has files and no `{TAG}`, so it isn't a cache; name a new or an empty folder"
        ))),
    }
}

/// Returns the owner of a file, where the system has users with numbers.
#[cfg(unix)]
fn owner_of(metadata: &Metadata) -> Option<u32> {
    Some(std::os::unix::fs::MetadataExt::uid(metadata))
}

/// Returns `None`: the system has no users with numbers.
#[cfg(not(unix))]
fn owner_of(_: &Metadata) -> Option<u32> {
    None
}

/// Returns the owner of files that this process makes in `folder`. One that can't be written to may
/// have been filled by this user before.
fn owner_of_new_files(folder: &FilePath) -> Option<u32> {
    let made = tempfile::tempfile_in(folder).or_else(|_| tempfile::tempfile());
    owner_of(&made.and_then(|file| file.metadata()).ok()?)
}

fn name_of(path: &FilePath) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

/// Returns true if a process may still be writing `file`.
fn is_being_written(file: &CachedFile) -> bool {
    name_of(&file.path).starts_with(TEMPORARY)
        && file.used.elapsed().is_ok_and(|age| age < ABANDONED)
}

/// Sets the time at which the file `place` was used.
fn filetime_set(place: &FilePath, used: SystemTime) -> std::io::Result<()> {
    let file = std::fs::File::options().append(true).open(place)?;
    file.set_modified(used)
}

/// Writes the file `place` under a temporary name in the same folder, and renames it.
fn write_whole(place: &FilePath, bytes: &[u8]) -> std::io::Result<()> {
    let folder = place.parent().unwrap_or(place);
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new()
        .prefix(TEMPORARY)
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(place).map_err(|error| error.error).map(drop)
}

/// Returns the files of the cache in `folder`. Those that another process removes meanwhile may be
/// missing.
fn files(folder: &FilePath) -> Vec<CachedFile> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            match (metadata.is_dir(), depth) {
                (true, 0 | 1) => folders.push((entry.path(), depth + 1)),
                // Files elsewhere in the folder aren't ours.
                (false, 2) => found.push(CachedFile {
                    path: entry.path(),
                    size: metadata.len(),
                    used: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                }),
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAKE: &str = "s3://bucket/lake";

    fn sidecar(segment: &str) -> Path {
        Path::from(format!("index/{segment}/hexastore.bin"))
    }

    fn bytes_of(cache: &LocalCache, segment: &str) -> Option<Vec<u8>> {
        cache
            .get(LAKE, &sidecar(segment))
            .map(|bytes| bytes.to_vec())
    }

    /// Makes the sidecar of `segment` the least recently used one.
    fn age(cache: &LocalCache, segment: &str) {
        let place = cache.place(LAKE, &sidecar(segment)).unwrap();
        filetime_set(&place, SystemTime::now() - Duration::from_secs(7_200)).unwrap();
    }

    #[test]
    fn the_least_recently_used_files_are_removed_beyond_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let cache = LocalCache::open(folder.path(), 1_000).unwrap();
        for segment in ["a", "b", "c", "d", "e"] {
            cache.put(LAKE, &sidecar(segment), &[segment.as_bytes()[0]; 190]);
        }
        age(&cache, "a");
        age(&cache, "b");
        assert_eq!(bytes_of(&cache, "a"), Some(vec![b'a'; 190]), "used again");
        cache.put(LAKE, &sidecar("f"), &[b'f'; 190]);
        assert_eq!(bytes_of(&cache, "b"), None);
        assert!(bytes_of(&cache, "a").is_some() && bytes_of(&cache, "f").is_some());
        // A file that would replace most others isn't kept.
        cache.put(LAKE, &sidecar("large"), &[0; 300]);
        assert_eq!(bytes_of(&cache, "large"), None);
        // Another process with less room removes more; the lake of another URL isn't this one.
        let smaller = LocalCache::open(folder.path(), 400).unwrap();
        let size: u64 = files(folder.path()).iter().map(|file| file.size).sum();
        assert!(size <= 400, "{size}");
        assert!(smaller.get("s3://bucket/other", &sidecar("f")).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_of_another_user_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let mut cache = LocalCache::open(folder.path(), 10_000).unwrap();
        cache.put(LAKE, &sidecar("a"), b"bytes");
        assert!(bytes_of(&cache, "a").is_some());
        cache.owner = cache.owner.map(|user| user + 1);
        assert!(bytes_of(&cache, "a").is_none());
    }

    #[test]
    fn sidecars_of_removed_segments_are_forgotten_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let cache = LocalCache::open(folder.path(), 10_000).unwrap();
        std::fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        for segment in ["a", "b", "c"] {
            cache.put(LAKE, &sidecar(segment), b"bytes");
        }
        cache.retain(LAKE, |segment| segment == "a").unwrap();
        cache.retain("s3://bucket/other", |_| false).unwrap();
        assert!(bytes_of(&cache, "a").is_some() && bytes_of(&cache, "b").is_none());
        cache.forget(LAKE, &sidecar("a"));
        assert!(bytes_of(&cache, "a").is_none());
        LocalCache::open(folder.path(), 1).unwrap();
        assert!(folder.path().join("notes.txt").exists());
        // Another folder with files isn't taken for a cache.
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("notes.txt"), "mine").unwrap();
        let error = LocalCache::open(other.path(), 1).unwrap_err();
        assert!(error.to_string().contains(TAG), "{error}");
        // What isn't a sidecar has no place.
        cache.put(LAKE, &Path::from("heads.json"), b"{}");
        assert!(cache.get(LAKE, &Path::from("heads.json")).is_none());
    }
}
