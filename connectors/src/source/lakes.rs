//! Lakes among the sources: what is in one isn't read again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::discover::names;
use super::location::is_pattern;

/// Returns true if `path` is the folder of a lake. What is in one was read when it was taken in.
pub(super) fn is_lake(path: &Path) -> bool {
    ["grains", "state"]
        .iter()
        .all(|table| path.join(table).join("_delta_log").is_dir())
}

/// The lakes in the folders that a pattern matches.
pub(super) struct MatchedLakes {
    /// The number of names that the pattern begins with, and doesn't match.
    written: usize,
    /// Whether each folder that was met is a lake.
    folders: HashMap<PathBuf, bool>,
}

impl MatchedLakes {
    /// Returns those for `pattern`, of which nothing was met yet.
    pub(super) fn of(pattern: &str) -> MatchedLakes {
        let names = names(Path::new(pattern));
        let written = names.take_while(|name| !is_pattern(&name.to_string_lossy()));
        MatchedLakes {
            written: written.count(),
            folders: HashMap::new(),
        }
    }

    /// Returns true if `path`, which the pattern matches, is the folder of a lake or in one.
    pub(super) fn contain(&mut self, path: &Path) -> bool {
        if is_lake(path) {
            return true;
        }
        let folders = path.ancestors().skip(1);
        let mut matched = folders.take_while(|folder| names(folder).count() > self.written);
        matched.any(|folder| {
            let known = self.folders.get(folder).copied();
            known.unwrap_or_else(|| {
                let found = is_lake(folder);
                self.folders.insert(folder.to_path_buf(), found);
                found
            })
        })
    }
}
