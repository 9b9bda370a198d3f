//! Temporary files for input that is no file: without a name, limited in size, and sealed where
//! nothing may lie open on a disk.
//!
//! A spool has no name from the moment when it is opened, so a process that is killed leaves
//! nothing that can be found. What is on its way into an encrypted lake goes further:
//!
//! * A stream or an object is held in memory, up to a limit, because its readers want all of it in
//!   one place.
//! * Grains that are made of a transcript go into a sealed file, which is read a window at a time.
//!
//! ```text
//! sealed file   chunks of 256 KiB, the last one shorter
//! chunk         AES-256-GCM(key, nonce = number of the chunk, 96 bits), then the tag, 16 bytes
//! ```
//!
//! The key is random, only in memory, and of one file, so that no nonce is used twice. How many
//! chunks there are is in memory too: a chunk that was changed, moved or cut off isn't read.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use aes_gcm::aead::{AeadInOut, Generate, Key, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce};

use super::bytes::SourceBytes;
use crate::ConnectorError;

/// How input that is no file is kept while it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolOptions {
    /// Bytes of a source at most.
    pub limit: u64,
    /// Bytes of a source at most where it is held in memory, because nothing of it may lie open on
    /// a disk; `None` if it may.
    pub in_memory: Option<u64>,
}

/// Bytes of a source that are spooled, unless the user says otherwise: 64 GiB.
pub const DEFAULT_SPOOL_LIMIT: u64 = 64 << 30;

impl Default for SpoolOptions {
    fn default() -> Self {
        SpoolOptions {
            limit: DEFAULT_SPOOL_LIMIT,
            in_memory: None,
        }
    }
}

/// A source that is filled and then read.
pub(super) struct Spool {
    uri: String,
    options: SpoolOptions,
    length: u64,
    content: Content,
}

enum Content {
    File(File),
    Memory(Vec<u8>),
}

impl Spool {
    /// An empty one for what is at `uri`.
    ///
    /// # Errors
    /// [`ConnectorError::Io`].
    pub(super) fn new(uri: &str, options: SpoolOptions) -> Result<Self, ConnectorError> {
        let content = match options.in_memory {
            Some(_) => Content::Memory(Vec::new()),
            None => Content::File(nameless()?),
        };
        Ok(Spool {
            uri: uri.to_owned(),
            options,
            length: 0,
            content,
        })
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// [`ConnectorError::TooLarge`], [`ConnectorError::TooLargeToHold`]; [`ConnectorError::Io`].
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectorError> {
        self.length = self.length.saturating_add(bytes.len() as u64);
        let SpoolOptions { limit, in_memory } = self.options;
        if self.length > limit {
            return Err(ConnectorError::TooLarge {
                uri: self.uri.clone(),
                limit,
            });
        }
        if let Some(limit) = in_memory.filter(|limit| self.length > *limit) {
            return Err(ConnectorError::TooLargeToHold {
                uri: self.uri.clone(),
                limit,
            });
        }
        match &mut self.content {
            Content::File(file) => file.write_all(bytes).map_err(spooling()),
            Content::Memory(memory) => {
                memory.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// The bytes.
    ///
    /// # Errors
    /// [`ConnectorError::Io`].
    pub(super) fn finish(self) -> Result<SourceBytes, ConnectorError> {
        match self.content {
            Content::File(file) => SourceBytes::map_file(&file).map_err(spooling()),
            Content::Memory(memory) => Ok(memory.into()),
        }
    }
}

/// A temporary file that has no name any more, or never had one.
///
/// # Errors
/// [`ConnectorError::Io`].
pub(crate) fn nameless() -> Result<File, ConnectorError> {
    tempfile::tempfile().map_err(ConnectorError::io(
        "can't create a file in",
        std::env::temp_dir(),
    ))
}

/// The error of a spool.
pub(crate) fn spooling() -> impl FnOnce(std::io::Error) -> ConnectorError {
    ConnectorError::io("can't use a temporary file in", std::env::temp_dir())
}

/// Bytes of a chunk of a sealed file, before it is sealed.
const CHUNK: usize = 256 << 10;

/// Bytes of its tag.
const TAG: usize = 16;

/// A sealed file that is being written.
pub struct SealedWriter {
    file: File,
    cipher: Aes256Gcm,
    chunk: Vec<u8>,
    chunks: u64,
    length: usize,
}

impl SealedWriter {
    /// A new file under a new key.
    ///
    /// # Errors
    /// [`ConnectorError::Io`].
    pub fn new() -> Result<SealedWriter, ConnectorError> {
        let cipher = Aes256Gcm::new(&Key::<Aes256Gcm>::generate());
        Ok(SealedWriter {
            file: nameless()?,
            cipher,
            chunk: Vec::with_capacity(CHUNK + TAG),
            chunks: 0,
            length: 0,
        })
    }

    /// Seals what is left, and opens the file for reading.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(mut self) -> std::io::Result<SealedFile> {
        self.seal()?;
        let SealedWriter {
            file,
            cipher,
            length,
            ..
        } = self;
        Ok(SealedFile {
            file: Mutex::new(file),
            cipher,
            length,
        })
    }

    fn seal(&mut self) -> std::io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let sealed = self
            .cipher
            .encrypt_in_place(&nonce(self.chunks), &[], &mut self.chunk);
        sealed.map_err(|_| std::io::Error::other("a chunk can't be sealed"))?;
        self.file.write_all(&self.chunk)?;
        self.chunk.clear();
        self.chunks += 1;
        Ok(())
    }
}

impl Write for SealedWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk
            .extend_from_slice(bytes.get(..taken).unwrap_or_default());
        self.length += taken;
        if self.chunk.len() == CHUNK {
            self.seal()?;
        }
        Ok(taken)
    }

    /// Does nothing: a chunk is sealed once, when it is full or the last.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A sealed file.
pub struct SealedFile {
    file: Mutex<File>,
    cipher: Aes256Gcm,
    length: usize,
}

impl std::fmt::Debug for SealedFile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "SealedFile({} bytes)", self.length)
    }
}

impl SealedFile {
    /// Bytes, opened.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes in `range`, as far as the file has them. Opens the chunks that they lie in.
    ///
    /// # Errors
    /// Those of the file; [`std::io::ErrorKind::InvalidData`] if a chunk isn't what was written.
    pub fn read(&self, range: Range<usize>) -> std::io::Result<Vec<u8>> {
        let range = range.start.min(self.length)..range.end.min(self.length);
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let first = range.start / CHUNK;
        let mut out = Vec::with_capacity(range.len() + 2 * CHUNK);
        for number in first..range.end.div_ceil(CHUNK) {
            out.append(&mut self.chunk(number)?);
        }
        out.truncate(range.end - first * CHUNK);
        out.drain(..range.start - first * CHUNK);
        Ok(out)
    }

    fn chunk(&self, number: usize) -> std::io::Result<Vec<u8>> {
        let length = CHUNK.min(self.length - number * CHUNK);
        let mut chunk = vec![0; length + TAG];
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start((number * (CHUNK + TAG)) as u64))?;
            file.read_exact(&mut chunk)?;
        }
        let opened = self
            .cipher
            .decrypt_in_place(&nonce(number as u64), &[], &mut chunk);
        opened.map_err(|_| {
            std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                "a spooled file was changed",
            )
        })?;
        Ok(chunk)
    }
}

fn nonce(number: u64) -> Nonce<aes_gcm::aead::consts::U12> {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_file_gives_any_range_back_and_nothing_of_it_lies_open() {
        let content: Vec<u8> = (0..CHUNK * 2 + 77).map(|at| (at % 251) as u8).collect();
        let mut writer = SealedWriter::new().unwrap();
        content
            .chunks(10_007)
            .for_each(|part| writer.write_all(part).unwrap());
        let file = writer.finish().unwrap();
        assert_eq!(file.len(), content.len());
        let edges = [
            0,
            1,
            CHUNK - 1,
            CHUNK,
            CHUNK + 1,
            2 * CHUNK,
            content.len() - 1,
            content.len(),
            usize::MAX,
        ];
        for start in edges {
            for end in edges {
                let expected = content
                    .get(start..end.min(content.len()))
                    .unwrap_or_default();
                assert!(file.read(start..end).unwrap() == expected, "{start}..{end}");
            }
        }
        let mut stored = Vec::new();
        let mut raw = file.file.lock().unwrap();
        raw.seek(SeekFrom::Start(0)).unwrap();
        raw.read_to_end(&mut stored).unwrap();
        assert_eq!(stored.len(), content.len() + 3 * TAG);
        assert!(!stored.windows(32).any(|window| window == &content[..32]));
    }

    #[test]
    fn a_chunk_that_was_changed_or_moved_is_not_read() {
        let mut writer = SealedWriter::new().unwrap();
        writer.write_all(&vec![7; CHUNK * 2]).unwrap();
        let file = writer.finish().unwrap();
        let first = {
            let mut raw = file.file.lock().unwrap();
            let mut first = vec![0; CHUNK + TAG];
            raw.seek(SeekFrom::Start(0)).unwrap();
            raw.read_exact(&mut first).unwrap();
            raw.write_all(&first).unwrap();
            first
        };
        assert!(
            file.read(0..CHUNK).is_ok() && file.read(CHUNK..CHUNK + 1).is_err(),
            "one chunk in another's place"
        );
        let mut raw = file.file.lock().unwrap();
        raw.seek(SeekFrom::Start(5)).unwrap();
        raw.write_all(&[first[5] ^ 1]).unwrap();
        drop(raw);
        assert!(file.read(0..1).is_err());
    }

    #[test]
    fn what_is_too_large_is_refused_by_its_name_and_limit() {
        let small = SpoolOptions {
            limit: 10,
            in_memory: None,
        };
        let mut spool = Spool::new("-", small).unwrap();
        spool.write(&[0; 10]).unwrap();
        let error = spool.write(&[0]).unwrap_err().to_string();
        assert!(
            error.contains("`-`") && error.contains("--max-source"),
            "{error}"
        );
        let mut held = Spool::new(
            "-",
            SpoolOptions {
                limit: 100,
                in_memory: Some(5),
            },
        )
        .unwrap();
        held.write(b"12345").unwrap();
        let error = held.write(b"6").unwrap_err().to_string();
        assert!(
            error.contains("encrypted") && error.contains("--memory"),
            "{error}"
        );
    }
}
