//! Names of files in the lake's folder, which may name a person too.

use super::{Attribution, ByteSearchResult, LakeSearch};

impl LakeSearch<'_> {
    /// Searches the name of the file `path`. Nothing that the program writes has a person's name.
    pub(super) fn name(&self, path: &str) -> ByteSearchResult {
        let mut found = ByteSearchResult::default();
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
