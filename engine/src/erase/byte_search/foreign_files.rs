//! What isn't recognised by its place as a file of the lake: somebody may have put it there.

use std::sync::Arc;

use gristmill_connectors::source::{SourceBytes, for_each_decompressed, is_lake_folder};
use gristmill_schemas::columns::{GRAINS, REJECTS, SOURCES, STATE};

use super::{
    Attribution, ByteSearchResult, FileSearch, OVERLAP, PARQUET_MAGIC, PIECE, RetainedRows,
};
use crate::erase::identifier_search::IdentifierSearch;
use crate::erase::pattern_search::PatternSearch;
use crate::erase::request::SubjectRequest;
use crate::error::{EngineError, Result};
use crate::lake::{ERASURES, Lake, SCRATCH, is_sealed_file, is_staged};
use crate::segment::{MappedFile, SIDECARS};
use crate::text::is_control;

/// The endings of what erasures and rounds of retention write into their folder.
const OF_ERASURES: [&str; 6] = [
    ".cose",
    ".former",
    ".journal",
    ".leaves",
    ".round",
    ".tombstones",
];

/// Returns true for a path, from the lake's root, that only a file of the lake has which is neither
/// text nor Parquet: one of the formats of this program, whose bytes tell what they contain.
pub(super) fn is_binary_of_lake(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or_default();
    match path.split('/').next() {
        Some(SIDECARS) => name.ends_with(".bin"),
        Some(SCRATCH) => folder == SCRATCH && name.starts_with("gristmill-"),
        Some(ERASURES) => {
            folder == ERASURES && OF_ERASURES.iter().any(|ending| name.ends_with(ending))
        }
        _ => false,
    }
}

/// Returns true for a Parquet file that no version of the lake can have, from the lake's root.
/// Damage of the others ends the search.
pub(super) fn is_foreign(path: &str) -> bool {
    let (folder, name) = path.split_once('/').unwrap_or_default();
    !is_lake_folder(folder) || folder == SCRATCH || is_staged(name)
}

/// Whether bytes that arrive in pieces are text, in which a name is found as it is: UTF-8 without
/// other control characters than terminals and line breaks need.
#[derive(Debug, Default)]
struct TextCheck {
    /// The beginning of a character at the end of the last piece.
    begun: Vec<u8>,
    is_other: bool,
}

impl TextCheck {
    /// Takes the next piece.
    fn add(&mut self, piece: &[u8]) {
        if self.is_other {
            return;
        }
        let joined;
        let bytes = match self.begun.is_empty() {
            true => piece,
            false => {
                joined = [self.begun.as_slice(), piece].concat();
                &joined
            }
        };
        let begun = match std::str::from_utf8(bytes) {
            Ok(_) => Some(&[][..]),
            Err(error) if error.error_len().is_none() => bytes.get(error.valid_up_to()..),
            Err(_) => None,
        };
        let begun = begun.filter(|_| !bytes.iter().copied().any(is_control));
        self.is_other = begun.is_none();
        self.begun = begun.unwrap_or_default().to_vec();
    }

    /// Returns whether all pieces together are text.
    fn is_text(&self) -> bool {
        !self.is_other && self.begun.is_empty()
    }
}

/// Why a file can't be searched as a whole.
type Unsearchable = String;

impl FileSearch<'_> {
    /// Searches the file `path`, which isn't one of the lake's own formats. One that can't be
    /// searched counts as a remnant, because it may be a copy, an archive or in an encoding that
    /// isn't known.
    pub(super) fn foreign_file(&self, path: &str, bytes: &MappedFile) -> ByteSearchResult {
        let (mut found, cause) = self.foreign_content(path, bytes);
        if let Some(cause) = cause {
            tracing::warn!(
                path,
                "a file in the lake's folder can't be searched: {cause}"
            );
            found.remnants += 1;
        }
        found
    }

    /// Searches the content of the file `path`, and returns why not all of it could be.
    fn foreign_content(
        &self,
        path: &str,
        bytes: &MappedFile,
    ) -> (ByteSearchResult, Option<Unsearchable>) {
        match bytes.as_ref().starts_with(PARQUET_MAGIC) {
            true => self.foreign_parquet(path, bytes),
            false => self.text(path, bytes),
        }
    }

    /// Searches a Parquet file by its pages, unless it can't be read or is encrypted.
    fn foreign_parquet(
        &self,
        path: &str,
        bytes: &MappedFile,
    ) -> (ByteSearchResult, Option<Unsearchable>) {
        match self.parquet(path, bytes.clone(), Attribution::Nothing) {
            Ok(found) => {
                let is_sealed = is_sealed_file(path);
                (found, is_sealed.then(|| "it is encrypted".to_owned()))
            }
            Err(error) => {
                let found = self.raw_bytes(bytes.as_ref(), &[], Attribution::Nothing);
                (found, Some(error.to_string()))
            }
        }
    }

    /// Searches text, also if gzip or zstd has compressed it.
    fn text(&self, path: &str, bytes: &MappedFile) -> (ByteSearchResult, Option<Unsearchable>) {
        let mut found = self.raw_bytes(bytes.as_ref(), &[], Attribution::Nothing);
        let mut check = TextCheck::default();
        match self.decompressed(path, &bytes.0, &mut found, &mut check) {
            Err(error) => return (found, Some(error)),
            Ok(true) => {}
            Ok(false) => check.add(bytes.as_ref()),
        }
        let cause = "it is neither text in UTF-8 nor Parquet";
        (found, (!check.is_text()).then(|| cause.to_owned()))
    }

    /// Searches the content of the file `path`, if all of its `bytes` are compressed, and passes it
    /// to `check`. Returns false if they aren't.
    fn decompressed(
        &self,
        path: &str,
        bytes: &SourceBytes,
        found: &mut ByteSearchResult,
        check: &mut TextCheck,
    ) -> std::result::Result<bool, Unsearchable> {
        let (mut window, mut scratch) = (Vec::new(), Vec::new());
        let mut bytes_read = 0_u64;
        let mut search = |window: &[u8]| {
            let counts = self.patterns.count(window, &mut scratch);
            found.note(counts, Attribution::Nothing);
        };
        let read = for_each_decompressed(path, bytes, &mut |piece| {
            bytes_read += piece.len() as u64;
            check.add(piece);
            window.extend_from_slice(piece);
            if window.len() >= PIECE {
                search(&window);
                window.drain(..window.len() - OVERLAP);
            }
        });
        search(&window);
        found.bytes += bytes_read;
        read.map_err(|error| error.to_string())
    }
}

/// Checks that the byte search can read each file in the lake's folder that isn't of the lake: what
/// it can't read would leave an erasure unproven.
///
/// # Errors
/// [`EngineError::File`] with the first that it can't.
pub(in crate::erase) async fn check_searchable(lake: &Lake) -> Result<()> {
    let nobody = IdentifierSearch::new(&SubjectRequest::default(), |_| false, [])?;
    let search = FileSearch {
        patterns: &PatternSearch::new([], nobody),
        retained: &RetainedRows::default(),
    };
    let mut files = lake.location().list("").await?;
    files.extend(lake.location().hidden_files().await?);
    for file in files {
        let path: &str = file.location.as_ref();
        if file.size == 0 || is_of_lake(path) {
            continue;
        }
        let bytes = match lake.location().read(&file.location).await {
            Err(error) if error.is_not_found() => continue,
            bytes => MappedFile(Arc::new(bytes?)),
        };
        if let (_, Some(cause)) = search.foreign_content(path, &bytes) {
            let remedy = "move it out of the lake's folder, and run the command again";
            return Err(EngineError::File {
                what: "no erasure can be proven beside",
                path: path.to_owned(),
                cause: format!("{cause}; {remedy}").into(),
            });
        }
    }
    Ok(())
}

/// Returns whether the lake may have a file of its own at `path`, from its root, or one that an
/// erasure removes before the search.
fn is_of_lake(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or_default();
    let is_data = path.ends_with(".parquet") && !is_foreign(path);
    let is_removed =
        is_staged(name) || [GRAINS, REJECTS, STATE, SOURCES, SCRATCH].contains(&folder);
    let of_log = || {
        [".json", ".crc", "_last_checkpoint"]
            .iter()
            .any(|end| name.ends_with(end))
    };
    let is_log = folder.ends_with("/_delta_log") && of_log();
    is_data || is_removed || is_log || is_binary_of_lake(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_the_lake_have_known_places() {
        for own in [
            "index/01m8q4m363xet7rqzkywcmym9e/words.bin",
            "index/subjects.bin",
            "erasures/a.cose",
            "_scratch/gristmill-Ab12",
        ] {
            assert!(is_binary_of_lake(own), "{own}");
        }
        for other in [
            "heads.json",
            "old.bin",
            "audit/copy.gz",
            "grains/_delta_log/copy.gz",
            "grains/index/words.bin",
            "index/copy.gz",
            "erasures/copy.gz",
            "erasures/old/a.cose",
            "_scratch/copy.gz",
            "backup/index/a/words.bin",
        ] {
            assert!(!is_binary_of_lake(other), "{other}");
        }
    }

    #[test]
    fn damage_of_files_that_no_version_has_does_not_end_the_search() {
        for own in ["grains/part-a.parquet", "audit/_delta_log/1.parquet"] {
            assert!(!is_foreign(own), "{own}");
        }
        for other in [
            "old.parquet",
            "backup/grains/part-a.parquet",
            "_scratch/gristmill-Ab12",
            "grains/part-a.parquet#1",
        ] {
            assert!(is_foreign(other), "{other}");
        }
    }

    #[test]
    fn text_is_recognised_wherever_it_is_divided() {
        let is_text = |pieces: &[&[u8]]| {
            let mut check = TextCheck::default();
            pieces.iter().for_each(|piece| check.add(piece));
            check.is_text()
        };
        let text = "Ada: über alles, 🙂 PAR1".as_bytes();
        for end in 0..text.len() {
            let (start, rest) = text.split_at(end);
            assert!(is_text(&[start, rest]), "{end}");
        }
        assert!(is_text(&text.chunks(1).collect::<Vec<_>>()));
        assert!(!is_text(&[&text[..6]]), "a character has no end");
        let utf_16: Vec<u8> = "Ada".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for other in [&utf_16[..], b"\x04\x22\x4d\x18", b"caf\xe9"] {
            assert!(
                !is_text(&[other]) && !is_text(&[other, b"text"]),
                "{other:?}"
            );
        }
    }
}
