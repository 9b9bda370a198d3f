//! Temporary files of queries: unlinked and encrypted, so that a killed process leaves nothing
//! behind and no row of an encrypted lake lies on a disk in the clear.
//!
//! Every lake spills in this way: reading the rows back costs more than deciphering them, and one
//! kind of file is one kind of bug.

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};
use gristmill_connectors::source::SealedWriter;

use super::spill_parts::{REPARTITION, SharedFile};

/// Creates the files in the system's temporary folder (`TMPDIR`).
#[derive(Default)]
pub(super) struct SealedSpillFactory {
    repartitions: SharedFile,
}

impl fmt::Debug for SealedSpillFactory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SealedSpillFactory")
    }
}

/// A spill file, which may be read while it is written.
#[derive(Clone)]
pub(super) struct SealedSpill(pub(super) Arc<Mutex<SealedWriter>>);

impl SealedSpill {
    pub(super) fn new() -> SealedSpill {
        SealedSpill(Arc::new(Mutex::new(SealedWriter::default())))
    }

    /// Locks the file.
    pub(super) fn lock(&self) -> MutexGuard<'_, SealedWriter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes in `range`, up to the end of what was written.
    pub(super) fn read(&self, range: Range<usize>) -> impl Stream<Item = Result<Bytes>> + use<> {
        let next = move |(file, at): (SealedSpill, usize)| async move {
            if at >= range.end {
                return Ok(None);
            }
            let mut bytes = file.lock().read_from(at).map_err(named)?;
            bytes.truncate(range.end - at);
            let end = at + bytes.len();
            Ok((end > at).then(|| (Bytes::from(bytes), (file, end))))
        };
        stream::try_unfold((self.clone(), range.start), next)
    }
}

impl TempFileFactory for SealedSpillFactory {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        Ok(match description {
            REPARTITION => Arc::new(self.repartitions.part()),
            _ => Arc::new(SealedSpill::new()),
        })
    }
}

impl SpillFile for SealedSpill {
    fn size(&self) -> Option<u64> {
        Some(self.lock().written() as u64)
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        Ok(Box::pin(self.read(0..usize::MAX)))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(self.clone()))
    }
}

impl Write for SealedSpill {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for SealedSpill {
    fn finish(&mut self) -> Result<()> {
        Ok(self.lock().close().map_err(named)?)
    }
}

/// Adds the folder and the remedy to an I/O error.
pub(super) fn named(error: io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    io::Error::new(
        error.kind(),
        format!(
            "a query can't spill to `{}`: {error}; set TMPDIR to a folder with more space, or \
             raise --memory",
            folder.display()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::TryStreamExt;

    #[tokio::test]
    async fn a_spill_file_returns_what_was_written_and_has_no_name() {
        let factory = SealedSpillFactory::default();
        let file = factory.create_temp_file("a sort").unwrap();
        let content: Vec<u8> = (0..700_000_u32).map(|at| (at % 249) as u8).collect();
        let mut writer = file.open_writer().unwrap();
        writer.write_all(&content).unwrap();
        let open: Vec<Bytes> = file.read_stream().unwrap().try_collect().await.unwrap();
        assert!(open.concat() == content);
        writer.finish().unwrap();
        let closed: Vec<Bytes> = file.read_stream().unwrap().try_collect().await.unwrap();
        assert!(closed.concat() == content);
        assert_eq!(file.size(), Some(700_000));
        assert!(file.path().is_none());
    }
}
