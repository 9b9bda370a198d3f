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
    /// The spooled copy, deleted when the source isn't needed any more.
    _spool: Option<TempPath>,
}

#[derive(Debug)]
enum Content {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl SourceBytes {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// [`ConnectorError::Io`].
    pub fn map(path: &Path) -> Result<SourceBytes, ConnectorError> {
        let file = File::open(path).map_err(ConnectorError::io("can't open", path))?;
        let length = file.metadata().map_err(ConnectorError::io("can't inspect", path))?.len();
        // A mapping of nothing is an error on some systems.
        let content = match length {
            0 => Content::Owned(Vec::new()),
            _ => Content::Mapped(map_file(&file).map_err(ConnectorError::io("can't map", path))?),
        };
        Ok(SourceBytes { content, _spool: None })
    }

    /// Maps a spooled copy, which lives as long as its bytes are used.
    ///
    /// # Errors
    /// [`ConnectorError::Io`].
    pub fn map_spooled(path: TempPath) -> Result<SourceBytes, ConnectorError> {
        let mapped = SourceBytes::map(&path)?;
        Ok(SourceBytes { _spool: Some(path), ..mapped })
    }

    /// Tells the system that the bytes in `range` were used and won't be soon, so that a pass over a large file doesn't
    /// count as memory of this process. They can still be read.
    pub fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Content::Mapped(map) = &self.content
            && range.end <= map.len()
            && !range.is_empty()
        {
            // SAFETY: the mapping is shared, read-only and backed by a file, so dropping its pages changes no byte: the
            // next access reads them from the file again. The range was checked to be inside the mapping.
            let advised =
                unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len()) };
            // Advice that isn't taken costs memory, not correctness.
            let _ = advised;
        }
    }
}

impl From<Vec<u8>> for SourceBytes {
    fn from(bytes: Vec<u8>) -> Self {
        SourceBytes { content: Content::Owned(bytes), _spool: None }
    }
}

fn map_file(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read-only and private use of it is bounds-checked. What remains is that another process may
    // change or cut the file while it is mapped. Changed bytes are only ever read as bytes: every grain is hashed and
    // decoded from what is read, so a change shows as a grain that fails its check. A cut file ends the process with a
    // bus error, as it does every program that maps files; the lake stays at its last commit.
    unsafe { Mmap::map(file) }
}

impl Deref for SourceBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.content {
            Content::Mapped(map) => map,
            Content::Owned(bytes) => bytes,
        }
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
    fn an_empty_file_has_no_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(SourceBytes::map(file.path()).unwrap().is_empty());
        assert!(SourceBytes::map(Path::new("no such file")).is_err());
    }
}
