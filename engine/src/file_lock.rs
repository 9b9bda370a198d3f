//! Advisory locks (`flock`, `LockFileEx`) on empty files that stay where they are. The system
//! releases a lock when its holder ends, however that happens.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait before a warning.
const WARN_AFTER: Duration = Duration::from_secs(1);

/// The shortest and the longest time between two attempts.
const RETRY_INTERVALS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];

/// The exclusive lock of a file; released when dropped.
#[derive(Debug)]
pub(crate) struct FileLock {
    _file: File,
}

/// Opens the lock file `path`, which is created if it doesn't exist.
///
/// # Errors
/// Those of the system.
pub(crate) fn open_lock_file(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
}

/// Warns that another process has the lock of `file`, which protects `what`. The warning names the
/// process if the system states it.
fn warn_of_holder(file: &File, what: &str) {
    let holder = holder_of(file)
        .map(|process| format!(" (process {process})"))
        .unwrap_or_default();
    tracing::warn!("another gristmill process{holder} holds {what}; waiting");
}

impl FileLock {
    /// Waits for the lock of `file`, which protects `what`. After a second, a warning names the
    /// process that holds it, if the system states that. Attempts are repeated instead of left to
    /// the system, so that a signal ends the waiting process as usual.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if another process has the lock for longer than `timeout`;
    /// [`ErrorKind::Unsupported`] if the file system has no locks; others of the system.
    pub(crate) fn acquire(file: File, what: &str, timeout: Option<Duration>) -> Result<FileLock> {
        let started = Instant::now();
        let mut warn_pending = true;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(FileLock { _file: file }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let waited = started.elapsed();
            if timeout.is_some_and(|timeout| waited >= timeout) {
                return Err(Error::from(ErrorKind::TimedOut));
            }
            if warn_pending && waited >= WARN_AFTER {
                warn_of_holder(&file, what);
                warn_pending = false;
            }
            let [shortest, longest] = RETRY_INTERVALS;
            std::thread::sleep((waited / 10).clamp(shortest, longest));
        }
    }
}

/// Returns the process that has the lock of `file`, from the system's list of locks.
#[cfg(target_os = "linux")]
fn holder_of(file: &File) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let inode = file.metadata().ok()?.ino();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| holder_in(line, inode))
}

/// Returns the process that has the lock of `file`: other systems don't state it.
#[cfg(not(target_os = "linux"))]
fn holder_of(_file: &File) -> Option<u32> {
    None
}

/// Returns the process in a line of `/proc/locks` if it is about `inode`:
/// `1: FLOCK ADVISORY WRITE 4711 fd:01:1234 0 EOF`. Processes of other containers are 0.
#[cfg(target_os = "linux")]
fn holder_in(line: &str, inode: u64) -> Option<u32> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let ["FLOCK", _, _, process, place, ..] = fields.get(1..)? else {
        return None;
    };
    let locked: u64 = place.rsplit(':').next()?.parse().ok()?;
    let process = process.parse::<u32>().ok().filter(|process| *process > 0)?;
    (locked == inode).then_some(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_process_that_holds_a_lock_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        let held = FileLock::acquire(open_lock_file(&path).unwrap(), "it", None).unwrap();
        let line = "7: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF";
        assert_eq!(holder_in(line, 1234), Some(4711));
        assert_eq!(holder_in(line, 234), None);
        assert_eq!(
            holder_in("7: -> FLOCK ADVISORY WRITE 4 0:1:1234 0 EOF", 1234),
            None
        );
        assert_eq!(
            holder_in("7: POSIX ADVISORY WRITE 4 0:1:1234 0 EOF", 1234),
            None
        );
        assert_eq!(holder_in("", 1234), None);
        // Some file systems list other inodes than they state.
        let holder = holder_of(&open_lock_file(&path).unwrap());
        assert!(holder.is_none_or(|process| process == std::process::id()));
        drop(held);
    }

    #[test]
    fn waiting_ends_with_the_timeout_or_when_the_holder_releases_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let open = || open_lock_file(&folder.path().join("x.lock")).unwrap();
        let held = FileLock::acquire(open(), "it", None).unwrap();
        let timeout = Some(Duration::from_millis(20));
        let late = FileLock::acquire(open(), "it", timeout).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        let file = open();
        let waiting = std::thread::spawn(move || FileLock::acquire(file, "it", None).map(drop));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waiting.is_finished());
        drop(held);
        waiting.join().unwrap().unwrap();
    }
}
