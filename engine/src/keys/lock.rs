//! Changes the files of a keyring: one process at a time, and each file atomically.
//!
//! The lock is an advisory lock on `<keyring>.lock`, an empty file that stays where it is. Readers
//! take no lock: a rename shows them the old file or the new one.

#[cfg(unix)]
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::destination::folder_of;
use crate::error::{Context, EngineError, Result};
use crate::file_lock::{FileLock, open_lock_file};

/// How long to wait for the lock. Its holder derives a key and writes two small files, which takes
/// a second at most.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// The exclusive lock of a keyring and its file of people's keys; released when dropped.
#[derive(Debug)]
pub(super) struct KeyringLock {
    _lock: FileLock,
}

impl KeyringLock {
    /// Waits for the lock of the keyring at `keyring`. Creates its folder if it doesn't exist.
    ///
    /// # Errors
    /// [`EngineError::Key`] if another process holds it for longer than a minute, or the file
    /// system has no locks; [`EngineError::File`] if the lock file can't be opened.
    pub(super) fn acquire(keyring: &Path) -> Result<KeyringLock> {
        KeyringLock::acquire_within(keyring, LOCK_TIMEOUT)
    }

    fn acquire_within(keyring: &Path, timeout: Duration) -> Result<KeyringLock> {
        let path = lock_file_of(keyring);
        let shown = path.display();
        std::fs::create_dir_all(folder_of(keyring))
            .file("can't make the folder of", keyring.display())?;
        let file = open_lock_file(&path).file("can't open the lock file", &shown)?;
        let what = format!("the keyring `{}`", keyring.display());
        match FileLock::acquire(file, &what, Some(timeout)) {
            Ok(lock) => Ok(KeyringLock { _lock: lock }),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                Err(lock_timeout_error(keyring, timeout))
            }
            Err(error) => Err(unsupported_locks_error(keyring, &error)),
        }
    }
}

fn lock_file_of(keyring: &Path) -> PathBuf {
    let mut path = keyring.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

fn lock_timeout_error(keyring: &Path, timeout: Duration) -> EngineError {
    EngineError::Key(format!(
        "another gristmill process has held the keyring `{}` for {} seconds; nothing was changed: \
         look for a process that was stopped or waits for its disk (`fuser {}` names it), end it, \
         and run this command again",
        keyring.display(),
        timeout.as_secs(),
        lock_file_of(keyring).display()
    ))
}

fn unsupported_locks_error(keyring: &Path, error: &std::io::Error) -> EngineError {
    EngineError::Key(format!(
        "can't lock the keyring `{}`: {error}; its file system must support advisory locks: mount \
         it with them (NFS: version 4, without `nolock`) or keep the keyring on a local disk",
        keyring.display()
    ))
}

/// Replaces the file at `path` by the concatenation of `parts`, readable by its owner only. The old
/// file stays until the new one is durable; after this returns, the old one can't come back after a
/// power failure. The caller holds the keyring's lock, so temporary files of processes that were
/// killed are removed: they have secrets that may be destroyed now.
///
/// # Errors
/// [`EngineError::File`]; the old file is then unchanged, unless only the last step (syncing the
/// folder) failed.
pub(super) fn replace_file(path: &Path, parts: &[&[u8]]) -> Result<()> {
    let shown = path.display().to_string();
    remove_temporary(path)?;
    let mut file = temporary(path).file("can't write", &shown)?;
    for part in parts {
        file.write_all(part).file("can't write", &shown)?;
    }
    file.as_file().sync_all().file("can't write", &shown)?;
    file.persist(path).file("can't write", &shown)?;
    #[cfg(unix)]
    File::open(folder_of(path))
        .and_then(|folder| folder.sync_all())
        .file("can't write", &shown)?;
    Ok(())
}

/// Creates a temporary file for the new content of the file at `path`. It has the permissions that
/// a secret needs: read and write for its owner only.
fn temporary(path: &Path) -> std::io::Result<NamedTempFile> {
    let prefix = temporary_prefix(path);
    tempfile::Builder::new()
        .prefix(&prefix)
        .tempfile_in(folder_of(path))
}

/// Removes the temporary files of the file at `path` that killed processes left.
fn remove_temporary(path: &Path) -> Result<()> {
    let folder = folder_of(path);
    let prefix = temporary_prefix(path);
    for entry in std::fs::read_dir(folder).file("can't list", folder.display())? {
        let entry = entry.file("can't list", folder.display())?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with(&prefix) {
            let left = entry.path();
            std::fs::remove_file(&left).file("can't remove", left.display())?;
        }
    }
    Ok(())
}

/// Returns how the names of the temporary files of the file at `path` begin.
fn temporary_prefix(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(".gristmill-{name}-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_lock_times_out_with_the_name_of_the_keyring() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = folder.path().join("keyring.json");
        let held = KeyringLock::acquire(&keyring).unwrap();
        let error = KeyringLock::acquire_within(&keyring, Duration::from_millis(30))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("keyring.json") && error.contains("another gristmill process"),
            "{error}"
        );
        let waiting = std::thread::spawn(move || KeyringLock::acquire(&keyring).map(drop));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waiting.is_finished());
        drop(held);
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn a_leftover_lock_file_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = folder.path().join("keyring.json");
        std::fs::write(lock_file_of(&keyring), b"left").unwrap();
        KeyringLock::acquire_within(&keyring, Duration::ZERO).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_of_a_secret_is_removed_with_the_next_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keyring.json");
        let mut killed = temporary(&path).unwrap();
        killed.write_all(b"a key").unwrap();
        killed.keep().unwrap();
        let other = folder.path().join(".keyring.json.swp");
        std::fs::write(&other, b"of an editor").unwrap();
        replace_file(&path, &[b"new ", b"keys"]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new keys");
        let left = std::fs::read_dir(folder.path()).unwrap();
        let mut left: Vec<PathBuf> = left.map(|entry| entry.unwrap().path()).collect();
        left.sort();
        assert_eq!(left, [other, path]);
    }
}
