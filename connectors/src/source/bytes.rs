//! The bytes of a source: a memory-mapped file, or a buffer in memory.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use tempfile::TempPath;

use super::resident_limit;
use crate::ConnectorError;

/// The bytes of a source. Holding them is cheap: the system can reclaim pages of a mapping at any
/// time.
#[derive(Debug)]
pub struct SourceBytes {
    content: BytesContent,
    /// The number of bytes from the start that are visible.
    length: usize,
    /// The spooled copy, which is deleted when this is dropped.
    _spool: Option<TempPath>,
}

#[derive(Debug)]
enum BytesContent {
    Mapped(Arc<Mmap>),
    Owned(Vec<u8>),
}

/// The size of a chunk in bytes: several consumers can use it while it is in the CPU cache.
const CHUNK_BYTES: usize = 256 << 10;

/// The largest source in bytes whose pages aren't released after they were read.
const RESIDENT_LIMIT_BYTES: usize = 64 << 20;

/// The number of bytes of a larger source that are released together.
const RELEASE_BYTES: usize = 16 << 20;

impl SourceBytes {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// [`ConnectorError::Io`].
    pub fn map(path: &Path) -> Result<SourceBytes, ConnectorError> {
        let file = File::open(path).map_err(ConnectorError::io("can't open", path))?;
        SourceBytes::map_file(&file).map_err(ConnectorError::io("can't map", path))
    }

    /// Maps an open file, which may already be unlinked: the mapping keeps its bytes.
    ///
    /// # Errors
    /// If the file can't be inspected or mapped.
    pub fn map_file(file: &File) -> std::io::Result<SourceBytes> {
        let length = file.metadata()?.len();
        // An empty mapping is an error on some systems.
        let content = match length {
            0 => BytesContent::Owned(Vec::new()),
            _ => {
                let map = Arc::new(map_file(file)?);
                resident_limit::watch(&map);
                BytesContent::Mapped(map)
            }
        };
        Ok(SourceBytes {
            content,
            length: length as usize,
            _spool: None,
        })
    }

    /// Maps a spooled copy and deletes it when the bytes are dropped.
    ///
    /// # Errors
    /// [`ConnectorError::Io`].
    pub fn map_spooled(path: TempPath) -> Result<SourceBytes, ConnectorError> {
        let mapped = SourceBytes::map(&path)?;
        Ok(SourceBytes {
            _spool: Some(path),
            ..mapped
        })
    }

    /// Returns the first `length` bytes.
    #[must_use]
    pub fn truncate(self, length: usize) -> SourceBytes {
        SourceBytes {
            length: self.length.min(length),
            ..self
        }
    }

    /// Returns true for a source of up to 64 MiB, whose pages aren't released after they were read.
    pub fn stays_resident(&self) -> bool {
        self.len() <= RESIDENT_LIMIT_BYTES
    }

    /// Calls `consume` with the bytes in `range`, chunk by chunk and in order.
    ///
    /// Pages of a source above 64 MiB are released after they were read, so that reading occupies a
    /// few megabytes of memory, independent of the size of the source. Pages of a smaller one stay
    /// resident for the next reader.
    pub fn for_each_chunk(&self, range: Range<usize>, mut consume: impl FnMut(&[u8])) {
        let end = range.end.min(self.len());
        let (mut next, mut released) = (range.start, range.start);
        while next < end {
            let chunk = next..end.min(next + CHUNK_BYTES);
            next = chunk.end;
            consume(self.get(chunk).unwrap_or_default());
            if !self.stays_resident() && (next - released >= RELEASE_BYTES || next == end) {
                self.release(released..next);
                released = next;
            }
        }
    }

    /// Returns the lines, without their breaks. Like [`SourceBytes::for_each_chunk`], it releases
    /// pages of a large source behind it.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let (mut next, mut released) = (0, 0);
        self.split(|byte| *byte == b'\n').inspect(move |line| {
            if !self.stays_resident() && next - released >= RELEASE_BYTES {
                self.release(released..next);
                released = next;
            }
            next += line.len() + 1;
        })
    }

    /// Advises the system to drop the pages of `range` (`MADV_DONTNEED`), so that reading a large
    /// file once doesn't count as memory of this process. The bytes can still be read.
    pub fn release(&self, range: Range<usize>) {
        if let BytesContent::Mapped(map) = &self.content {
            resident_limit::release(map, range.start, range.len());
        }
    }
}

impl From<Vec<u8>> for SourceBytes {
    fn from(bytes: Vec<u8>) -> Self {
        SourceBytes {
            length: bytes.len(),
            content: BytesContent::Owned(bytes),
            _spool: None,
        }
    }
}

fn map_file(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read-only and all accesses are bounds-checked. The remaining risk is
    // that another process changes or truncates the file while it is mapped. Changed bytes are only
    // interpreted as bytes: every grain is hashed and decoded from what is read, so a change makes
    // a grain fail its check. Truncation ends the process with a bus error, as in every program
    // that maps files; the lake stays at its last commit. On Linux the `gristmill` program then
    // prints what has happened.
    unsafe { Mmap::map(file) }
}

impl Deref for SourceBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let whole: &[u8] = match &self.content {
            BytesContent::Mapped(map) => map,
            BytesContent::Owned(bytes) => bytes,
        };
        // A mapping is at least as long as the file was when it was mapped.
        whole.get(..self.length).unwrap_or(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_bytes_read_the_same() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, &[7; 100_000]).unwrap();
        let bytes = SourceBytes::map_spooled(file.into_temp_path()).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 7));
        bytes.release(5_000..90_000);
        bytes.release(90_000..1_000_000);
        assert!(bytes.len() == 100_000 && bytes.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn chunks_cover_their_range_once_and_in_order() {
        let length = RESIDENT_LIMIT_BYTES + 3 * CHUNK_BYTES + 5;
        let content: Vec<u8> = (0..length).map(|at| (at >> 8 ^ at) as u8).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, &content).unwrap();
        let sources = [
            SourceBytes::map(file.path()).unwrap(),
            content.get(..1_000_000).unwrap().to_vec().into(),
        ];
        for bytes in sources {
            for range in [
                0..0,
                0..1,
                7..CHUNK_BYTES + 7,
                500_000..bytes.len(),
                0..usize::MAX,
                usize::MAX..usize::MAX,
            ] {
                let mut read = Vec::new();
                bytes.for_each_chunk(range.clone(), |chunk| read.extend_from_slice(chunk));
                let expected = content
                    .get(range.start.min(length)..range.end.min(bytes.len()))
                    .unwrap_or_default();
                assert!(read == expected, "{range:?} of {}", bytes.len());
            }
        }
    }

    #[test]
    fn lines_are_those_between_breaks() {
        let mut content = vec![b'x'; RESIDENT_LIMIT_BYTES + 5];
        content
            .iter_mut()
            .step_by(1 << 20)
            .for_each(|byte| *byte = b'\n');
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, &content).unwrap();
        let bytes = SourceBytes::map(file.path()).unwrap();
        let expected = content.split(|byte| *byte == b'\n');
        assert!(bytes.lines().eq(expected));
        assert_eq!(SourceBytes::from(b"a\n\nb".to_vec()).lines().count(), 3);
    }

    #[test]
    fn truncating_keeps_the_first_bytes() {
        let truncated = |length| SourceBytes::from(b"abc".to_vec()).truncate(length);
        assert_eq!(
            (&*truncated(2), &*truncated(9).truncate(1), &*truncated(9)),
            (&b"ab"[..], &b"a"[..], &b"abc"[..])
        );
    }

    #[test]
    fn an_empty_file_has_no_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(SourceBytes::map(file.path()).unwrap().is_empty());
        assert!(SourceBytes::map(Path::new("no such file")).is_err());
    }
}
