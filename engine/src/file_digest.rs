//! Digests of whole files: BLAKE3, computed while a file is written or from the bytes of one that
//! is read.

use std::fmt;
use std::io::Write;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The BLAKE3 of a file's bytes. Its text form is 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileDigest([u8; 32]);

impl FileDigest {
    /// Returns the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> FileDigest {
        FileDigest(*blake3::hash(bytes).as_bytes())
    }

    /// Returns the 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<blake3::Hash> for FileDigest {
    fn from(hash: blake3::Hash) -> Self {
        FileDigest(*hash.as_bytes())
    }
}

impl fmt::Display for FileDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for FileDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "FileDigest({self})")
    }
}

impl FromStr for FileDigest {
    type Err = hex::FromHexError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut digest = [0; 32];
        hex::decode_to_slice(text, &mut digest)?;
        Ok(FileDigest(digest))
    }
}

impl Serialize for FileDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FileDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// The times between which grains were created, as their payloads state it, in microseconds since
/// 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedSpan {
    /// The first of them, or an earlier time.
    pub first: i64,
    /// The last of them, or a later time.
    pub last: i64,
}

/// A complete data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenFile {
    /// Number of rows.
    pub rows: u64,
    /// Size in bytes.
    pub size: u64,
    /// The digest of all bytes.
    pub digest: FileDigest,
    /// When the grains in it were created. `None` if it isn't known of all, as of encrypted ones.
    pub created: Option<CreatedSpan>,
}

/// Digests bytes and passes them on to `W`.
pub(crate) struct DigestWriter<W> {
    inner: W,
    hasher: blake3::Hasher,
}

impl<W: Write> DigestWriter<W> {
    /// Returns a writer to `inner`, to which nothing has been written yet.
    pub(crate) fn new(inner: W) -> Self {
        DigestWriter {
            inner,
            hasher: blake3::Hasher::new(),
        }
    }

    /// Returns the number of bytes written, and their digest.
    pub(crate) fn finish(&self) -> (u64, FileDigest) {
        (self.hasher.count(), self.hasher.finalize().into())
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_written_in_pieces_have_the_digest_of_the_whole() {
        let bytes: Vec<u8> = (0..100_000_u32)
            .map(|number| (number % 251) as u8)
            .collect();
        let mut sink = Vec::new();
        let mut writer = DigestWriter::new(&mut sink);
        for piece in bytes.chunks(777) {
            writer.write_all(piece).unwrap();
        }
        assert_eq!(
            writer.finish(),
            (bytes.len() as u64, FileDigest::of(&bytes))
        );
        assert_eq!(sink, bytes);
        let digest = FileDigest::of(&bytes);
        assert_eq!(digest.to_string().parse(), Ok(digest));
    }
}
