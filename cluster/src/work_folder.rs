//! The folder in which an executor keeps the rows between the stages of queries, which aren't
//! encrypted.
//!
//! ```text
//! WORK_DIR/starting.lock
//! WORK_DIR/executor-……/lock     held as long as the process runs
//! WORK_DIR/executor-……/rows/    Ballista's
//! ```
//!
//! Each process has a folder of its own that only its user can open: Ballista removes every folder
//! in the one that it is given. Nothing but its executor removes what a killed one has left, so the
//! next one that is started does.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The beginning of the names of folders of executors.
const PREFIX: &str = "executor-";

/// The file in such a folder that its executor has locked.
const LOCK: &str = "lock";

/// The folder of the rows in it.
const ROWS: &str = "rows";

/// The file that is locked while an executor looks for folders of others and makes its own.
const STARTING: &str = "starting.lock";

/// The folder of this process. It is removed when dropped.
#[derive(Debug)]
pub(crate) struct WorkFolder {
    // Closed before the folder is removed.
    _lock: File,
    folder: TempDir,
}

impl WorkFolder {
    /// Removes the folders of executors that have ended from `parent`, which is created if it is
    /// missing, and makes the one of this process there.
    ///
    /// # Errors
    /// Those of the system, also if the file system has no locks.
    pub(crate) fn create_in(parent: &Path) -> io::Result<WorkFolder> {
        private_folders().recursive(true).create(parent)?;
        let starting = open_lock(&parent.join(STARTING))?;
        starting.lock()?;
        remove_abandoned(parent)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let folder = builder.tempdir_in(parent)?;
        let lock = open_lock(&folder.path().join(LOCK))?;
        lock.lock()?;
        private_folders().create(folder.path().join(ROWS))?;
        Ok(WorkFolder {
            _lock: lock,
            folder,
        })
    }

    /// Returns the folder of the rows.
    pub(crate) fn rows(&self) -> PathBuf {
        self.folder.path().join(ROWS)
    }
}

/// Returns a builder of folders that only this user can open.
fn private_folders() -> DirBuilder {
    #[cfg_attr(
        not(unix),
        expect(unused_mut, reason = "permissions are those of Unix")
    )]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).open(path)
}

/// Removes the folders of executors in `parent` whose process has ended.
fn remove_abandoned(parent: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(parent)? {
        let entry = entry?;
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        // A link isn't followed.
        if is_ours && entry.file_type()?.is_dir() && !is_in_use(&entry.path())? {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Returns true if the process of the folder `executor` runs.
fn is_in_use(executor: &Path) -> io::Result<bool> {
    let lock = match OpenOptions::new().write(true).open(executor.join(LOCK)) {
        // It ended before it had the lock.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        lock => lock?,
    };
    match lock.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_ended_executors_are_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().join("work");
        let running = WorkFolder::create_in(&parent).unwrap();
        let killed = parent.join("executor-killed");
        for (folder, file) in [
            (killed.clone(), "rows/job/1/0/data.arrow"),
            (running.rows(), "job/1/0/data.arrow"),
            (parent.join("mine"), "notes.txt"),
        ] {
            let file = folder.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "Anna Smith").unwrap();
        }
        File::create(killed.join(LOCK)).unwrap();
        let next = WorkFolder::create_in(&parent).unwrap();
        assert!(!killed.exists());
        assert!(running.rows().join("job/1/0/data.arrow").exists());
        assert!(parent.join("mine/notes.txt").exists());
        let (rows, other) = (running.rows(), next.rows());
        drop(running);
        assert!(!rows.exists() && other.exists());
    }

    #[cfg(unix)]
    #[test]
    fn other_users_cannot_open_the_rows() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        std::fs::set_permissions(parent.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let folder = WorkFolder::create_in(parent.path()).unwrap();
        let mode = std::fs::metadata(folder.folder.path())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
