//! Compressed files in the lake's folder, which somebody has put there.

use gristmill_connectors::source::{SourceBytes, for_each_decompressed};

use super::{Attribution, ByteSearchResult, FileSearch, OVERLAP, PIECE};

impl FileSearch<'_> {
    /// Searches the content of the file `path`, if its `bytes` are compressed: it isn't of the lake.
    /// What can't be read counts as a remnant.
    pub(super) fn decompressed(
        &self,
        path: &str,
        bytes: &SourceBytes,
        attribution: Attribution,
        found: &mut ByteSearchResult,
    ) {
        let (mut window, mut scratch) = (Vec::new(), Vec::new());
        let mut search = |window: &[u8]| {
            found.note(self.patterns.count(window, &mut scratch), attribution);
        };
        let mut bytes_read = 0;
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
        if let Err(error) = read {
            tracing::warn!(%error, "a file in the lake's folder can't be searched for the people");
            found.remnants += 1;
        }
    }
}
