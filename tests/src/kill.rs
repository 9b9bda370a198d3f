//! Kills the binary during its work, over copies of a lake.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

/// Default number of kills.
const KILLS: usize = 20;

/// Returns the number of kills per test: the environment variable `GRISTMILL_KILLS`, else 20.
pub fn kills() -> usize {
    std::env::var("GRISTMILL_KILLS")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(KILLS)
}

/// Kills the process after `delay`; returns true if it was still running then.
///
/// # Errors
/// If the system doesn't let it be waited for or killed.
pub fn kill_after(mut child: Child, delay: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + delay;
    while Instant::now() < deadline {
        if child.try_wait()?.is_some() {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // SIGKILL: the process can't run any cleanup.
    let was_running = child.try_wait()?.is_none();
    child.kill()?;
    child.wait()?;
    Ok(was_running)
}

/// Returns a number between 0 and 1 that depends only on `run`.
pub fn share(run: usize) -> f64 {
    let digest = Sha256::digest(run.to_le_bytes());
    f64::from(u32::from_le_bytes([
        digest[0], digest[1], digest[2], digest[3],
    ])) / f64::from(u32::MAX)
}

/// Copies a folder recursively.
///
/// # Errors
/// Those of the file system.
pub fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
