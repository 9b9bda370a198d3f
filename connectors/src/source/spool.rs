//! Temporary storage for input that isn't a local file: anonymous files with a size limit, which
//! are encrypted where no plaintext may be written to disk.
//!
//! A spool file is unlinked when it is created, so a killed process leaves no file behind. Input of
//! an encrypted lake is never written to disk in plaintext:
//!
//! * A stream or an object is kept in memory, up to a limit, because its readers need all of it as
//!   one slice.
//! * Grains that are converted from a transcript are written to a sealed (encrypted) file, which is
//!   read one range at a time. A few of them stay in memory, without a file.
//!
//! ```text
//! sealed file   chunks of 256 KiB, the last one shorter
//! chunk         AES-256-GCM(key, nonce = number of the chunk, 96 bits), then the tag, 16 bytes
//! ```
//!
//! The key is random, exists only in memory and is used for one file, so that no nonce is used
//! twice. The number of chunks is in memory too: reading a modified, moved or truncated chunk
//! fails.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use aes_gcm::aead::{AeadInOut, Generate, Key, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce};

use super::bytes::SourceBytes;
use crate::ConnectorError;

/// Limits for input that isn't a local file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolOptions {
    /// The maximum size of a source in bytes.
    pub limit: u64,
    /// The maximum size in bytes of a source that is kept in memory because no plaintext may be
    /// written to disk; `None` spools to a file.
    pub in_memory: Option<u64>,
}

/// The default maximum size of a spooled source: 64 GiB.
pub const DEFAULT_SPOOL_LIMIT: u64 = 64 << 30;

impl Default for SpoolOptions {
    fn default() -> Self {
        SpoolOptions {
            limit: DEFAULT_SPOOL_LIMIT,
            in_memory: None,
        }
    }
}

/// A spool: is written to its end, then read.
pub(super) struct SourceSpool {
    uri: String,
    options: SpoolOptions,
    length: u64,
    content: SpoolContent,
}

enum SpoolContent {
    File(File),
    Memory(Vec<u8>),
}

impl SourceSpool {
    /// Creates an empty spool for the source `uri`.
    ///
    /// # Errors
    /// [`ConnectorError::Io`].
    pub(super) fn new(uri: &str, options: SpoolOptions) -> Result<Self, ConnectorError> {
        let content = match options.in_memory {
            Some(_) => SpoolContent::Memory(Vec::new()),
            None => SpoolContent::File(anonymous_file()?),
        };
        Ok(SourceSpool {
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
            SpoolContent::File(file) => file.write_all(bytes).map_err(spool_error()),
            SpoolContent::Memory(memory) => {
                memory.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Returns the spooled bytes.
    ///
    /// # Errors
    /// [`ConnectorError::Io`].
    pub(super) fn finish(self) -> Result<SourceBytes, ConnectorError> {
        match self.content {
            SpoolContent::File(file) => SourceBytes::map_file(&file).map_err(spool_error()),
            SpoolContent::Memory(memory) => Ok(memory.into()),
        }
    }
}

/// Creates a temporary file without a name.
///
/// # Errors
/// [`ConnectorError::Io`].
pub(crate) fn anonymous_file() -> Result<File, ConnectorError> {
    tempfile::tempfile().map_err(ConnectorError::io(
        "can't create a file in",
        std::env::temp_dir(),
    ))
}

/// Wraps an I/O error of a spool file.
pub(crate) fn spool_error() -> impl FnOnce(std::io::Error) -> ConnectorError {
    ConnectorError::io("can't use a temporary file in", std::env::temp_dir())
}

/// The size in bytes of a chunk of a sealed file before encryption.
const CHUNK_BYTES: usize = 256 << 10;

/// The largest content in bytes that is kept in memory instead of a file: there may be as many as
/// small transcripts in the batches of an ingest.
const HELD_BYTES: usize = 16 << 10;

/// The size in bytes of the authentication tag of a chunk.
const TAG_BYTES: usize = 16;

/// Writes a sealed file.
pub struct SealedWriter {
    /// Created with the first chunk.
    file: Option<File>,
    cipher: Aes256Gcm,
    chunk: Vec<u8>,
    /// The number of chunks that were written.
    chunks: u64,
    /// The number of bytes before encryption.
    length: usize,
}

impl Default for SealedWriter {
    /// Returns a writer with a new key. It creates a file when it writes the first chunk.
    fn default() -> SealedWriter {
        SealedWriter {
            file: None,
            cipher: Aes256Gcm::new(&Key::<Aes256Gcm>::generate()),
            chunk: Vec::with_capacity(CHUNK_BYTES + TAG_BYTES),
            chunks: 0,
            length: 0,
        }
    }
}

impl SealedWriter {
    /// Writes the last chunk, and opens the file for reading. Content of at most 16 KiB stays in
    /// memory.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> std::io::Result<SealedFile> {
        if self.length > HELD_BYTES {
            self.seal()?;
        }
        let content = match self.file {
            Some(file) => SpooledContent::File(Mutex::new(file), Box::new(self.cipher)),
            None => SpooledContent::Memory(self.chunk.as_slice().into()),
        };
        Ok(SealedFile {
            content,
            length: self.length,
        })
    }

    /// Returns the number of bytes that were written, before encryption.
    pub fn written(&self) -> usize {
        self.length
    }

    /// Encrypts and writes the last chunk and releases its memory. Nothing may be written after it.
    ///
    /// # Errors
    /// If writing fails.
    pub fn close(&mut self) -> std::io::Result<()> {
        self.seal()?;
        self.chunk = Vec::new();
        Ok(())
    }

    /// Returns bytes from `start` on: those of its chunk, which may still be in memory. Empty at
    /// the end of what was written.
    ///
    /// # Errors
    /// If reading fails; [`std::io::ErrorKind::InvalidData`] if the chunk was modified.
    pub fn read_from(&mut self, start: usize) -> std::io::Result<Vec<u8>> {
        let (number, skipped) = (start / CHUNK_BYTES, start % CHUNK_BYTES);
        if number as u64 >= self.chunks {
            return Ok(self.chunk.get(skipped..).unwrap_or_default().to_vec());
        }
        let file = opened(&mut self.file)?;
        let mut chunk = read_chunk(file, &self.cipher, number, self.length)?;
        chunk.drain(..chunk.len().min(skipped));
        Ok(chunk)
    }

    /// Encrypts and writes the current chunk.
    fn seal(&mut self) -> std::io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let sealed = self
            .cipher
            .encrypt_in_place(&nonce(self.chunks), &[], &mut self.chunk);
        sealed.map_err(|_| std::io::Error::other("a chunk can't be encrypted"))?;
        let file = opened(&mut self.file)?;
        // A read may have moved the position.
        file.seek(SeekFrom::End(0))?;
        file.write_all(&self.chunk)?;
        self.chunk.clear();
        self.chunks += 1;
        Ok(())
    }
}

impl Write for SealedWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk
            .extend_from_slice(bytes.get(..taken).unwrap_or_default());
        self.length += taken;
        if self.chunk.len() == CHUNK_BYTES {
            self.seal()?;
        }
        Ok(taken)
    }

    /// Does nothing: each chunk is encrypted once, when it is full or the last one.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the file of a writer, which is created if there is none.
fn opened(file: &mut Option<File>) -> std::io::Result<&mut File> {
    match file {
        Some(file) => Ok(file),
        None => Ok(file.insert(tempfile::tempfile()?)),
    }
}

/// A sealed file, open for reading.
pub struct SealedFile {
    content: SpooledContent,
    /// The number of bytes after decryption.
    length: usize,
}

enum SpooledContent {
    File(Mutex<File>, Box<Aes256Gcm>),
    Memory(Box<[u8]>),
}

impl std::fmt::Debug for SealedFile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "SealedFile({} bytes)", self.length)
    }
}

impl SealedFile {
    /// Returns the number of bytes after decryption.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns true if the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the bytes in `range`, which is clipped to the length of the file. Decrypts all
    /// chunks that overlap the range.
    ///
    /// # Errors
    /// If reading fails; [`std::io::ErrorKind::InvalidData`] if a chunk was modified.
    pub fn read(&self, range: Range<usize>) -> std::io::Result<Vec<u8>> {
        let range = range.start.min(self.length)..range.end.min(self.length);
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let (file, cipher) = match &self.content {
            SpooledContent::File(file, cipher) => (file, cipher),
            SpooledContent::Memory(bytes) => {
                return Ok(bytes.get(range).unwrap_or_default().to_vec());
            }
        };
        let first = range.start / CHUNK_BYTES;
        let mut out = Vec::with_capacity(range.len() + 2 * CHUNK_BYTES);
        for number in first..range.end.div_ceil(CHUNK_BYTES) {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            out.append(&mut read_chunk(&mut file, cipher, number, self.length)?);
        }
        out.truncate(range.end - first * CHUNK_BYTES);
        out.drain(..range.start - first * CHUNK_BYTES);
        Ok(out)
    }
}

/// Reads and decrypts chunk `number` of a file with `length` bytes before encryption.
fn read_chunk(
    file: &mut File,
    cipher: &Aes256Gcm,
    number: usize,
    length: usize,
) -> std::io::Result<Vec<u8>> {
    let length = CHUNK_BYTES.min(length - number * CHUNK_BYTES);
    let mut chunk = vec![0; length + TAG_BYTES];
    file.seek(SeekFrom::Start((number * (CHUNK_BYTES + TAG_BYTES)) as u64))?;
    file.read_exact(&mut chunk)?;
    let opened = cipher.decrypt_in_place(&nonce(number as u64), &[], &mut chunk);
    opened.map_err(|_| {
        std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            "a spool file was modified while it was in use",
        )
    })?;
    Ok(chunk)
}

fn nonce(number: u64) -> Nonce<aes_gcm::aead::consts::U12> {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce.into()
}

#[cfg(test)]
mod tests {
    use std::sync::MutexGuard;

    use super::*;

    fn locked(file: &SealedFile) -> MutexGuard<'_, File> {
        match &file.content {
            SpooledContent::File(file, _) => file.lock().unwrap(),
            SpooledContent::Memory(_) => panic!("in memory"),
        }
    }

    #[test]
    fn small_content_has_no_file() {
        for (length, is_held) in [(0, true), (HELD_BYTES, true), (HELD_BYTES + 1, false)] {
            let content: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut writer = SealedWriter::default();
            writer.write_all(&content).unwrap();
            let file = writer.finish().unwrap();
            assert_eq!(matches!(file.content, SpooledContent::Memory(_)), is_held);
            assert_eq!(file.read(0..usize::MAX).unwrap(), content);
            assert_eq!(
                file.read(1..3).unwrap(),
                content.get(1..3).unwrap_or_default()
            );
        }
    }

    #[test]
    fn any_range_of_a_sealed_file_is_read_back_and_none_of_it_is_plaintext() {
        let content: Vec<u8> = (0..CHUNK_BYTES * 2 + 77)
            .map(|at| (at % 251) as u8)
            .collect();
        let mut writer = SealedWriter::default();
        content
            .chunks(10_007)
            .for_each(|part| writer.write_all(part).unwrap());
        let file = writer.finish().unwrap();
        assert_eq!(file.len(), content.len());
        let edges = [
            0,
            1,
            CHUNK_BYTES - 1,
            CHUNK_BYTES,
            CHUNK_BYTES + 1,
            2 * CHUNK_BYTES,
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
        let mut raw = locked(&file);
        raw.seek(SeekFrom::Start(0)).unwrap();
        raw.read_to_end(&mut stored).unwrap();
        assert_eq!(stored.len(), content.len() + 3 * TAG_BYTES);
        assert!(!stored.windows(32).any(|window| window == &content[..32]));
    }

    #[test]
    fn a_sealed_file_is_read_while_it_is_written_and_after_it_is_closed() {
        let content: Vec<u8> = (0..CHUNK_BYTES * 2 + 77)
            .map(|at| (at % 251) as u8)
            .collect();
        let mut writer = SealedWriter::default();
        let mut read = Vec::new();
        for part in content.chunks(100_003) {
            writer.write_all(part).unwrap();
            // What was written just now can be read at once.
            while read.len() < writer.written() {
                read.extend(writer.read_from(read.len()).unwrap());
            }
        }
        assert!(read == content);
        writer.close().unwrap();
        assert!(writer.read_from(2 * CHUNK_BYTES + 70).unwrap() == content[2 * CHUNK_BYTES + 70..]);
        assert!(
            writer.read_from(CHUNK_BYTES - 1).unwrap() == content[CHUNK_BYTES - 1..CHUNK_BYTES]
        );
        assert!(writer.read_from(content.len()).unwrap().is_empty());
    }

    #[test]
    fn a_modified_or_moved_chunk_is_rejected() {
        let mut writer = SealedWriter::default();
        writer.write_all(&vec![7; CHUNK_BYTES * 2]).unwrap();
        let file = writer.finish().unwrap();
        let first = {
            let mut raw = locked(&file);
            let mut first = vec![0; CHUNK_BYTES + TAG_BYTES];
            raw.seek(SeekFrom::Start(0)).unwrap();
            raw.read_exact(&mut first).unwrap();
            raw.write_all(&first).unwrap();
            first
        };
        assert!(
            file.read(0..CHUNK_BYTES).is_ok() && file.read(CHUNK_BYTES..CHUNK_BYTES + 1).is_err(),
            "a chunk at the position of another"
        );
        let mut raw = locked(&file);
        raw.seek(SeekFrom::Start(5)).unwrap();
        raw.write_all(&[first[5] ^ 1]).unwrap();
        drop(raw);
        assert!(file.read(0..1).is_err());
    }

    #[test]
    fn a_source_above_its_limit_is_rejected_with_its_name() {
        let small = SpoolOptions {
            limit: 10,
            in_memory: None,
        };
        let mut spool = SourceSpool::new("-", small).unwrap();
        spool.write(&[0; 10]).unwrap();
        let error = spool.write(&[0]).unwrap_err().to_string();
        assert!(
            error.contains("`-`") && error.contains("--max-source"),
            "{error}"
        );
        let mut held = SourceSpool::new(
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
