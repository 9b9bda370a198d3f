//! The bytes of a local file, mapped into memory.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::Mmap;
use tempfile::TempPath;

use crate::ConnectorError;

/// The bytes of a source. Cheap to hold: pages that aren't in use belong to the system.
#[derive(Debug)]
pub struct SourceBytes {
    content: Content,
    /// Bytes from the start that count.
    length: usize,
    /// The spooled copy, deleted when the source isn't needed any more.
    _spool: Option<TempPath>,
}

#[derive(Debug)]
enum Content {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

/// Bytes that a pass takes at a time: few enough that several can use them while they are in the
/// cache.
const PART_BYTES: usize = 256 << 10;

/// Bytes of a source that stays in memory when it was passed over.
const STAYING_BYTES: usize = 64 << 20;

/// Bytes of a larger source that are released together.
const RELEASED_BYTES: usize = 16 << 20;

impl SourceBytes {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// [`ConnectorError::Io`].
    pub fn map(path: &Path) -> Result<SourceBytes, ConnectorError> {
        let file = File::open(path).map_err(ConnectorError::io("can't open", path))?;
        SourceBytes::map_file(&file).map_err(ConnectorError::io("can't map", path))
    }

    /// Maps an open file, which may have no name any more: its bytes live as long as they are used.
    ///
    /// # Errors
    /// Those of the file.
    pub fn map_file(file: &File) -> std::io::Result<SourceBytes> {
        let length = file.metadata()?.len();
        // A mapping of nothing is an error on some systems.
        let content = match length {
            0 => Content::Owned(Vec::new()),
            _ => Content::Mapped(map_file(file)?),
        };
        Ok(SourceBytes {
            content,
            length: length as usize,
            _spool: None,
        })
    }

    /// Maps a spooled copy, which lives as long as its bytes are used.
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

    /// The first `length` bytes.
    #[must_use]
    pub fn cut(self, length: usize) -> SourceBytes {
        SourceBytes {
            length: self.length.min(length),
            ..self
        }
    }

    /// True for a source of up to 64 MiB, which stays in memory when a pass went over it.
    pub fn stays(&self) -> bool {
        self.len() <= STAYING_BYTES
    }

    /// Gives the bytes in `range` to `take`, part by part and in order. A source that stays is
    /// there for whoever reads it next; of a larger one what was read is released, so that the pass
    /// counts for a few megabytes however large the source is.
    pub fn pass(&self, range: Range<usize>, mut take: impl FnMut(&[u8])) {
        let end = range.end.min(self.len());
        let (mut next, mut released) = (range.start, range.start);
        while next < end {
            let part = next..end.min(next + PART_BYTES);
            next = part.end;
            take(self.get(part).unwrap_or_default());
            if !self.stays() && (next - released >= RELEASED_BYTES || next == end) {
                self.release(released..next);
                released = next;
            }
        }
    }

    /// Tells the system that the bytes in `range` were used and won't be soon, so that a pass over
    /// a large file doesn't count as memory of this process. They can still be read.
    pub fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Content::Mapped(map) = &self.content
            && range.end <= map.len()
            && !range.is_empty()
        {
            // SAFETY: the mapping is shared, read-only and backed by a file, so dropping its pages
            // changes no byte: the next access reads them from the file again. The range was
            // checked to be inside the mapping.
            let advised = unsafe {
                map.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    range.start,
                    range.len(),
                )
            };
            // Advice that isn't taken costs memory, not correctness.
            let _ = advised;
        }
    }
}

impl From<Vec<u8>> for SourceBytes {
    fn from(bytes: Vec<u8>) -> Self {
        SourceBytes {
            length: bytes.len(),
            content: Content::Owned(bytes),
            _spool: None,
        }
    }
}

fn map_file(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read-only and private use of it is bounds-checked. What remains is
    // that another process may change or cut the file while it is mapped. Changed bytes are only
    // ever read as bytes: every grain is hashed and decoded from what is read, so a change shows as
    // a grain that fails its check. A cut file ends the process with a bus error, as it does every
    // program that maps files; the lake stays at its last commit.
    unsafe { Mmap::map(file) }
}

impl Deref for SourceBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let whole: &[u8] = match &self.content {
            Content::Mapped(map) => map,
            Content::Owned(bytes) => bytes,
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
    fn a_pass_gives_every_byte_of_its_range_once_and_in_order() {
        let length = STAYING_BYTES + 3 * PART_BYTES + 5;
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
                7..PART_BYTES + 7,
                500_000..bytes.len(),
                0..usize::MAX,
                usize::MAX..usize::MAX,
            ] {
                let mut passed = Vec::new();
                bytes.pass(range.clone(), |part| passed.extend_from_slice(part));
                let expected = content
                    .get(range.start.min(length)..range.end.min(bytes.len()))
                    .unwrap_or_default();
                assert!(passed == expected, "{range:?} of {}", bytes.len());
            }
        }
    }

    #[test]
    fn of_cut_bytes_the_first_are_left() {
        let cut = |length| SourceBytes::from(b"abc".to_vec()).cut(length);
        assert_eq!(
            (&*cut(2), &*cut(9).cut(1), &*cut(9)),
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
