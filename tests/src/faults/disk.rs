//! A mounted file system with limited free space.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Fault, texts};

/// A mounted file system with limited free space.
pub(super) struct Disk {
    pub(super) folder: PathBuf,
}

impl Disk {
    /// Returns `None` without permission to mount.
    pub(super) fn mount(folder: &Path) -> Option<Disk> {
        fs::create_dir_all(folder).ok()?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1g", "tmpfs"])
            .arg(folder)
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then(|| Disk {
                folder: folder.to_owned(),
            })
    }

    pub(super) fn leave_kib(&self, free: u64) -> Result<(), Fault> {
        let output = Command::new("df")
            .args(["--output=used", "-k"])
            .arg(&self.folder)
            .output()?;
        let used = String::from_utf8_lossy(&output.stdout)
            .lines()
            .nth(1)
            .and_then(|line| line.trim().parse().ok());
        self.resize(&format!("{}k", used.unwrap_or(0_u64) + free))
    }

    pub(super) fn grow(&self) -> Result<(), Fault> {
        self.resize("1g")
    }

    fn resize(&self, size: &str) -> Result<(), Fault> {
        let option = format!("remount,size={size}");
        let output = Command::new("mount")
            .args(["-o", &option])
            .arg(&self.folder)
            .output()?;
        if output.status.success() {
            Ok(())
        } else {
            Err(texts(&output).1.into())
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A failed unmount leaks memory; `drop` can't report it.
        let _ = Command::new("umount").arg(&self.folder).output();
    }
}
