//! What isn't recognised by its place as a file of the lake: somebody may have put it there.

use gristmill_connectors::source::{SourceBytes, for_each_decompressed, is_lake_folder};

use super::{Attribution, ByteSearchResult, FileSearch, OVERLAP, PIECE};
use crate::lake::{ERASURES, SCRATCH, is_sealed_file, is_staged};
use crate::segment::{MappedFile, SIDECARS};

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

/// Returns true for control characters that text doesn't have: all but BEL, BS, HT, LF, VT, FF, CR
/// and ESC.
fn is_binary(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, 7..=13 | 0x1b)
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
        let begun = begun.filter(|_| !bytes.iter().copied().any(is_binary));
        self.is_other = begun.is_none();
        self.begun = begun.unwrap_or_default().to_vec();
    }

    /// Returns whether all pieces together are text.
    fn is_text(&self) -> bool {
        !self.is_other && self.begun.is_empty()
    }
}

impl FileSearch<'_> {
    /// Searches the Parquet file `path` by its pages. One that isn't of the lake and can't be read,
    /// or is encrypted, counts as a remnant, because it may be a copy.
    ///
    /// # Errors
    /// [`crate::error::EngineError::File`] if a file of the lake is damaged.
    pub(super) fn parquet_file(
        &self,
        path: &str,
        bytes: MappedFile,
        attribution: Attribution,
    ) -> crate::error::Result<ByteSearchResult> {
        if !is_foreign(path) {
            return self.parquet(path, bytes, attribution);
        }
        let raw = || self.raw_bytes(bytes.as_ref(), &[], Attribution::Nothing);
        Ok(
            match self.parquet(path, bytes.clone(), Attribution::Nothing) {
                Ok(found) if is_sealed_file(path) => unsearchable(path, found, &"it is encrypted"),
                Ok(found) => found,
                Err(error) => unsearchable(path, raw(), &error),
            },
        )
    }

    /// Searches the file `path`, which is of none of the lake's own formats: text, also if gzip or
    /// zstd has compressed it. Anything else can't be searched and counts as a remnant, because it
    /// may be a copy, an archive or in an encoding that isn't known.
    pub(super) fn text_file(&self, path: &str, bytes: &MappedFile) -> ByteSearchResult {
        let mut found = self.raw_bytes(bytes.as_ref(), &[], Attribution::Nothing);
        let mut check = TextCheck::default();
        let is_text = match self.decompressed(path, &bytes.0, &mut found, &mut check) {
            Err(error) => return unsearchable(path, found, &error),
            Ok(true) => check.is_text(),
            Ok(false) => {
                check.add(bytes.as_ref());
                check.is_text()
            }
        };
        match is_text {
            true => found,
            false => unsearchable(path, found, &"it is neither text in UTF-8 nor Parquet"),
        }
    }

    /// Searches the content of the file `path`, if all of its `bytes` are compressed, and passes it
    /// to `check`. Returns false if they aren't.
    fn decompressed(
        &self,
        path: &str,
        bytes: &SourceBytes,
        found: &mut ByteSearchResult,
        check: &mut TextCheck,
    ) -> Result<bool, String> {
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

/// Returns `found` with one more remnant, because the file `path` can't be searched.
fn unsearchable(
    path: &str,
    mut found: ByteSearchResult,
    cause: &dyn std::fmt::Display,
) -> ByteSearchResult {
    tracing::warn!(
        path,
        "a file in the lake's folder can't be searched: {cause}"
    );
    found.remnants += 1;
    found
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
