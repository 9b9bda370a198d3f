//! Files in the lake's folder that aren't of the lake: somebody has put them there.

use gristmill_connectors::source::{SourceBytes, for_each_decompressed, is_lake_folder};
use memchr::memmem;

use super::{Attribution, ByteSearchResult, FileSearch, OVERLAP, PIECE};
use crate::lake::{ENCRYPTION, HEADS};
use crate::segment::MappedFile;

/// The beginning of a Parquet file.
pub(super) const PARQUET_MAGIC: &[u8] = b"PAR1";

/// The beginnings of compressed content, of archives and in them: zstd (also in containers of
/// grains), Parquet, xz, bzip2 with its first block, 7-Zip, and entries of zip. One of gzip is
/// shorter, see [`has_gzip`].
const COMPRESSED: [&[u8]; 6] = [
    &[0x28, 0xb5, 0x2f, 0xfd],
    PARQUET_MAGIC,
    &[0xfd, b'7', b'z', b'X', b'Z', 0],
    b"1AY&SY",
    &[b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c],
    &[b'P', b'K', 3, 4],
];

/// The length of the header of a member of gzip.
const GZIP_HEADER: usize = 10;

/// Returns true for a path that no file of the lake has, from the lake's root.
pub(super) fn is_foreign(path: &str) -> bool {
    match path.split_once('/') {
        Some((folder, _)) => !is_lake_folder(folder),
        None => path != HEADS && path != ENCRYPTION,
    }
}

/// Returns true if `bytes` contain the beginning of a member of gzip, whose header has few
/// possible values.
fn has_gzip(bytes: &[u8]) -> bool {
    memmem::find_iter(bytes, &[0x1f, 0x8b, 8]).any(|at| {
        let header = bytes.get(at..at + GZIP_HEADER);
        header.is_some_and(|header| {
            let (flags, level, system) = (header[3], header[8], header[9]);
            flags & 0xe0 == 0 && matches!(level, 0 | 2 | 4) && matches!(system, 0..=13 | 255)
        })
    })
}

/// Returns true if a part of `bytes` is compressed, so that a search of them tells nothing.
fn is_partly_compressed(bytes: &[u8]) -> bool {
    has_gzip(bytes)
        || COMPRESSED
            .iter()
            .any(|magic| memmem::find(bytes, magic).is_some())
}

impl FileSearch<'_> {
    /// Searches the file `path`, which isn't of the lake: a Parquet file by its pages, what gzip or
    /// zstd has compressed also decompressed. What can't be searched counts as a remnant, because
    /// it may be a copy of the lake.
    pub(super) fn foreign(&self, path: &str, bytes: MappedFile) -> ByteSearchResult {
        let unsearchable = |mut found: ByteSearchResult, cause: &dyn std::fmt::Display| {
            tracing::warn!(
                path,
                "a file in the lake's folder can't be searched: {cause}"
            );
            found.remnants += 1;
            found
        };
        if bytes.as_ref().starts_with(PARQUET_MAGIC) {
            let raw = self.raw_bytes(bytes.as_ref(), &[], Attribution::Nothing);
            return match self.parquet(path, bytes, Attribution::Nothing) {
                Ok(found) => found,
                Err(error) => unsearchable(raw, &error),
            };
        }
        let mut found = self.raw_bytes(bytes.as_ref(), &[], Attribution::Nothing);
        match self.decompressed(path, &bytes.0, &mut found) {
            Ok(true) => found,
            Ok(false) if is_partly_compressed(bytes.as_ref()) => {
                unsearchable(found, &"a part of it is compressed")
            }
            Ok(false) => found,
            Err(error) => unsearchable(found, &error),
        }
    }

    /// Searches the content of the file `path`, if all of its `bytes` are compressed. Returns false
    /// if they aren't.
    fn decompressed(
        &self,
        path: &str,
        bytes: &SourceBytes,
        found: &mut ByteSearchResult,
    ) -> Result<bool, String> {
        let (mut window, mut scratch) = (Vec::new(), Vec::new());
        let (mut bytes_read, mut is_opaque) = (0_u64, false);
        let mut search = |window: &[u8]| {
            is_opaque |= is_partly_compressed(window);
            let counts = self.patterns.count(window, &mut scratch);
            found.note(counts, Attribution::Nothing);
        };
        let read = for_each_decompressed(path, bytes, &mut |piece| {
            bytes_read += piece.len() as u64;
            window.extend_from_slice(piece);
            if window.len() >= PIECE {
                search(&window);
                window.drain(..window.len() - OVERLAP);
            }
        });
        search(&window);
        found.bytes += bytes_read;
        let is_compressed = read.map_err(|error| error.to_string())?;
        match is_opaque {
            true => Err("a part of its content is compressed itself".to_owned()),
            false => Ok(is_compressed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_lake_have_known_places() {
        for own in [
            "heads.json",
            "grains/part-a.parquet",
            "erasures/a.cose",
            "audit/b",
        ] {
            assert!(!is_foreign(own), "{own}");
        }
        for other in ["copy.tar", "backup/grains/part-a.parquet", "old.gz"] {
            assert!(is_foreign(other), "{other}");
        }
    }

    #[test]
    fn compressed_parts_are_recognised_anywhere() {
        let mut gzip = vec![b'x', 0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 0, 3];
        assert!(is_partly_compressed(&gzip));
        gzip[4] = 0xff;
        assert!(!is_partly_compressed(&gzip));
        for magic in COMPRESSED {
            assert!(
                is_partly_compressed(&[b"text", magic].concat()),
                "{magic:?}"
            );
        }
        assert!(!is_partly_compressed(
            "Ada wrote: über alles, PAR-1 and PK.".as_bytes()
        ));
    }
}
