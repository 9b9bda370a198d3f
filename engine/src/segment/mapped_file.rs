//! A memory-mapped file as a source of bytes for the Parquet reader.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use gristmill_connectors::source::SourceBytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// A mapped file. Clones share the mapping.
#[derive(Clone)]
pub(crate) struct MappedFile(pub(crate) Arc<SourceBytes>);

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Length for MappedFile {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

impl ChunkReader for MappedFile {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(self
            .get_bytes(start, (self.0.len() as u64).saturating_sub(start) as usize)?
            .reader())
    }

    /// Returns a view of the mapping without copying.
    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = (start as usize)
            .checked_add(length)
            .filter(|end| *end <= self.0.len());
        let end = end.ok_or_else(|| {
            ParquetError::EOF(format!("{length} bytes at {start} exceed the file"))
        })?;
        Ok(Bytes::from_owner(self.clone()).slice(start as usize..end))
    }
}
