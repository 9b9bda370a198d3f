//! Where case files and other test data lie.

use std::path::{Path, PathBuf};

/// The workspace's root folder.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
        .to_path_buf()
}

/// The folder of material that is not ours to commit: `$GRISTMILL_SHARED`, else `shared` beside the
/// checkout. `None` where it isn't there; a test that needs it then says that it skips.
pub fn shared() -> Option<PathBuf> {
    let folder = match std::env::var_os("GRISTMILL_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => workspace().join("../shared"),
    };
    folder.is_dir().then_some(folder)
}

/// [`shared`] joined with `path`, printing why a test skips where it is absent.
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
