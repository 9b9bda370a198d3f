//! Lakes among the sources: what is in one isn't read again.
//!
//! A lake in a folder is left out. To name it is an error, because its files aren't input.

use std::collections::HashMap;
#[cfg(feature = "object-store")]
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::discover::names;
use super::location::is_pattern;

/// Returns true if `path` is the folder of a lake. What is in one was read when it was taken in.
pub(super) fn is_lake(path: &Path) -> bool {
    ["grains", "state"]
        .iter()
        .all(|table| path.join(table).join("_delta_log").is_dir())
}

/// The folders of a lake, which the engine makes. Other files may be next to them.
const FOLDERS: [&str; 9] = [
    "grains", "state", "rejects", "sources", "audit", "erased", "index", "erasures", "_scratch",
];

/// Returns the lake to which `path` belongs: it is its folder, or is in one of its own.
pub fn lake_of(path: &Path) -> Option<&Path> {
    lake_around(path, is_lake)
}

/// As [`lake_of`], for folders that are lakes by `is_lake`.
fn lake_around(path: &Path, mut is_lake: impl FnMut(&Path) -> bool) -> Option<&Path> {
    path.ancestors().find(|folder| {
        let below = path.strip_prefix(folder).unwrap_or(path);
        let is_own = names(below).next().is_none_or(is_lake_folder);
        is_own && is_lake(folder)
    })
}

/// Returns true if `name` is that of a folder of lakes in their root.
pub fn is_lake_folder(name: impl AsRef<OsStr>) -> bool {
    FOLDERS.iter().any(|own| *own == name.as_ref())
}

/// The lakes among objects, by the paths of their folders.
#[cfg(feature = "object-store")]
pub(super) struct LakesOfObjects(HashSet<String>);

#[cfg(feature = "object-store")]
impl LakesOfObjects {
    /// Returns those to which the objects at `paths` belong.
    pub(super) fn among<'p>(paths: impl Iterator<Item = &'p str> + Clone) -> LakesOfObjects {
        let with_log = |log: &'static str| {
            let folders = paths
                .clone()
                .filter_map(move |path| folder_before(path, log));
            folders.map(str::to_owned).collect::<HashSet<_>>()
        };
        let [grains, state] = ["grains/_delta_log", "state/_delta_log"].map(with_log);
        LakesOfObjects(grains.intersection(&state).cloned().collect())
    }

    /// Returns the lake to which the object at `path` belongs.
    pub(super) fn lake_of<'p>(&self, path: &'p str) -> Option<&'p str> {
        if self.0.is_empty() {
            return None;
        }
        let lake = lake_around(Path::new(path), |folder| {
            folder
                .to_str()
                .is_some_and(|folder| self.0.contains(folder))
        });
        lake?.to_str()
    }
}

/// Returns what of `path` is before the folder `log`; empty if that is at its beginning.
#[cfg(feature = "object-store")]
fn folder_before<'p>(path: &'p str, log: &str) -> Option<&'p str> {
    let (folder, _name) = path.rsplit_once('/')?;
    let before = folder.strip_suffix(log)?;
    before
        .is_empty()
        .then_some(before)
        .or(before.strip_suffix('/'))
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
        let (folders, written) = (path.ancestors().skip(1), self.written);
        let mut matched = folders.take_while(|folder| names(folder).count() > written);
        matched.any(|folder| self.is_lake(folder))
    }

    /// Returns the lake to which `path` belongs, a file that the pattern matches in folders that it
    /// names.
    pub(super) fn named_around<'p>(&mut self, path: &'p Path) -> Option<&'p Path> {
        lake_around(path, |folder| folder != path && self.is_lake(folder))
    }

    fn is_lake(&mut self, folder: &Path) -> bool {
        let known = self.folders.get(folder).copied();
        known.unwrap_or_else(|| {
            let found = is_lake(folder);
            self.folders.insert(folder.to_path_buf(), found);
            found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConnectorError;
    use crate::source::{Source, discover, discover_all};

    fn names(sources: &[Source]) -> Vec<&str> {
        let uris = sources.iter().map(|source| source.uri.as_str());
        uris.map(|uri| uri.rsplit('/').next().unwrap_or_default())
            .collect()
    }

    #[tokio::test]
    async fn a_lake_in_a_folder_is_no_source() {
        let folder = tempfile::tempdir().unwrap();
        for table in ["lake/grains", "lake/state", "table"] {
            let table = folder.path().join(table);
            std::fs::create_dir_all(table.join("_delta_log")).unwrap();
            std::fs::write(table.join("part.parquet"), b"x").unwrap();
        }
        std::fs::write(folder.path().join("a.mg"), b"x").unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for name in ["", "*"] {
            let found = discover(&[at(name)]).await.unwrap();
            assert_eq!(names(&found), ["a.mg", "part.parquet"], "{name}");
        }
        for name in ["**", "**/*", "*/*"] {
            let found = discover_all(&[at(name)]).await.unwrap();
            let in_lake = |source: &&Source| source.uri.contains("/lake/");
            assert!(!found.is_empty(), "{name}");
            assert_eq!(found.iter().filter(in_lake).count(), 0, "{name}");
        }
        std::fs::write(folder.path().join("lake/notes.jsonl"), b"x").unwrap();
        for name in [
            "lake",
            "lake/",
            "lake/state",
            "lake/grains/_delta_log",
            "lake/*/*.parquet",
        ] {
            let refused = discover(&[at(name)]).await.unwrap_err();
            let is_of_lake = matches!(&refused, ConnectorError::OfLake { lake, .. }
                if Path::new(lake) == folder.path().join("lake"));
            assert!(is_of_lake, "{name}: {refused}");
        }
        for name in [
            "lake/*.jsonl",
            "lake/notes.jsonl",
            "lake/grains/part.parquet",
        ] {
            assert_eq!(discover(&[at(name)]).await.unwrap().len(), 1, "{name}");
        }
    }

    #[cfg(feature = "object-store")]
    #[test]
    fn objects_belong_to_a_lake_if_they_are_in_its_folders() {
        let paths = [
            "grains/_delta_log/0.json",
            "in/a.mg",
            "in/lake/grains/_delta_log/0.json",
            "in/lake/state/_delta_log/0.json",
            "in/lake/state/part.parquet",
            "in/lake/notes.jsonl",
            "in/other/grains/part.parquet",
        ];
        let lakes = LakesOfObjects::among(paths.into_iter());
        let belonging = paths.map(|path| lakes.lake_of(path));
        let lake = Some("in/lake");
        assert_eq!(belonging, [None, None, lake, lake, lake, None, None]);
        let root = [
            "grains/_delta_log/0.json",
            "state/_delta_log/0.json",
            "a.mg",
        ];
        let lakes = LakesOfObjects::among(root.into_iter());
        assert_eq!(
            root.map(|path| lakes.lake_of(path)),
            [Some(""), Some(""), None]
        );
    }
}
