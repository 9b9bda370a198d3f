//! Names of files in the lake's folder, which may name a person too.

use super::foreign_files::is_binary_of_lake;
use super::{Attribution, ByteSearchResult, LakeSearch};
use crate::lake::{ENCRYPTION, HEADS, TABLES};
use crate::segment::SegmentId;

/// Returns true if a file of the lake can have the path `path`. Its words, such as `state`, are no
/// name of a person.
fn is_of_lake(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or_default();
    let is_entry = || {
        let (stem, ending) = name.split_once('.').unwrap_or_default();
        let is_version = stem.len() == 20 && stem.bytes().all(|digit| digit.is_ascii_digit());
        is_version && ["json", "checkpoint.parquet"].contains(&ending) || name == "_last_checkpoint"
    };
    match folder.strip_suffix("/_delta_log") {
        Some(table) => TABLES.contains(&table) && is_entry(),
        None if TABLES.contains(&folder) => SegmentId::of_file(name).is_some(),
        None => [HEADS, ENCRYPTION].contains(&path) || is_binary_of_lake(path),
    }
}

impl LakeSearch<'_> {
    /// Searches the name of the file `path`, unless it is one that the program gives.
    pub(super) fn name(&self, path: &str) -> ByteSearchResult {
        let mut found = ByteSearchResult::default();
        if is_of_lake(path) {
            return found;
        }
        let counts = self.patterns.count(path.as_bytes(), &mut Vec::new());
        found.note(counts, Attribution::Nothing);
        if found.remnants > 0 {
            found.remnant_files.push(self.shown(path));
        }
        found
    }

    /// Returns `path` as a certificate may contain it: only the folders before a name of a person.
    pub(super) fn shown(&self, path: &str) -> String {
        let mut scratch = Vec::new();
        let mut names = |text: &str| self.patterns.count(text.as_bytes(), &mut scratch) != (0, 0);
        if !names(path) {
            return path.to_owned();
        }
        let ends = path.match_indices('/').map(|(end, _)| end);
        let folders = ends.filter_map(|end| path.get(..end));
        let folders = folders.take_while(|folders| !names(folders)).last();
        format!("{}/…", folders.unwrap_or("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_the_program_gives_are_passed_over() {
        for own in [
            "heads.json",
            "state/part-01m8q4m41nhv312f2xv1q57p54.parquet",
            "state/_delta_log/00000000000000000001.json",
            "state/_delta_log/00000000000000000020.checkpoint.parquet",
            "state/_delta_log/_last_checkpoint",
            "index/01m8q4m363xet7rqzkywcmym9e/words.bin",
        ] {
            assert!(is_of_lake(own), "{own}");
        }
        for other in [
            "Ada.json",
            "state/Ada.parquet",
            "state/_delta_log/Ada.json",
            "backup/state/_delta_log/00000000000000000001.json",
            "erasures/Ada.txt",
        ] {
            assert!(!is_of_lake(other), "{other}");
        }
    }
}
