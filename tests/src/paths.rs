//! Folders of case files and other test data.

use std::path::{Path, PathBuf};

/// Returns the workspace's root folder.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
        .to_path_buf()
}

/// Returns the folder of material that is not ours to publish: `$GRISTMILL_SHARED`, else `shared`
/// next to the checkout; `None` if it is missing.
pub fn shared() -> Option<PathBuf> {
    let folder = match std::env::var_os("GRISTMILL_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => workspace().join("../shared"),
    };
    folder.is_dir().then_some(folder)
}

/// Returns [`shared`] joined with `path`. If it is missing, prints that the test skips and returns
/// `None`.
pub fn shared_or_skip(path: &str) -> Option<PathBuf> {
    let found = shared()
        .map(|folder| folder.join(path))
        .filter(|path| path.exists());
    if found.is_none() {
        eprintln!(
            "skipped: `{path}` is not in `../shared` (set GRISTMILL_SHARED to the folder that has \
             it)"
        );
    }
    found
}
