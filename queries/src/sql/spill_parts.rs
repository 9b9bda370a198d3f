//! Spill files of one batch each, many of which are parts of one file.
//!
//! DataFusion 55 repartitions rows through files that several tasks append to. Its reader waits at
//! the oldest one that is open, also when the next rows are in another: a query may wait forever or
//! lose rows (apache/datafusion#24883). A file that is complete after its first batch is never
//! waited for. As there are many of them, they share files of [`FILE_BYTES`], which are removed
//! when the last of their parts has been read.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::execution::{SpillFile, SpillWriter};
use futures::{Stream, StreamExt, stream};
use gristmill_connectors::source::SealedWriter;

use super::spill::{SealedSpill, named};

/// What DataFusion calls the spill files of a repartition.
pub(super) const REPARTITION: &str = "SpillPool";

/// Size of a file after which the next part begins another one.
const FILE_BYTES: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// The file that the next parts are appended to, while one of its parts exists.
#[derive(Clone, Default)]
pub(super) struct SharedFile(Arc<Mutex<Weak<Mutex<SealedWriter>>>>);

/// A part of a file.
#[derive(Clone)]
pub(super) struct FilePart {
    content: Arc<Mutex<PartContent>>,
    shared: SharedFile,
}

enum PartContent {
    /// What was written, until it is complete.
    Open(Vec<u8>),
    /// Where it was stored.
    Stored {
        file: SealedSpill,
        start: usize,
        length: usize,
    },
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedFile {
    /// Returns a new part.
    pub(super) fn part(&self) -> FilePart {
        FilePart {
            content: Arc::new(Mutex::new(PartContent::Open(Vec::new()))),
            shared: self.clone(),
        }
    }

    /// Appends `bytes` to the current file, or to a new one if that is full.
    fn store(&self, bytes: &[u8]) -> Result<PartContent> {
        let mut current = lock(&self.0);
        let mut file = current.upgrade().map(SealedSpill);
        if let Some(full) = file.take_if(|file| file.lock().written() >= FILE_BYTES) {
            full.lock().close().map_err(named)?;
        }
        let file = match file {
            Some(file) => file,
            None => SealedSpill::new(),
        };
        *current = Arc::downgrade(&file.0);
        let start = file.lock().written();
        file.clone().write_all(bytes)?;
        Ok(PartContent::Stored {
            file,
            start,
            length: bytes.len(),
        })
    }
}

impl SpillFile for FilePart {
    fn size(&self) -> Option<u64> {
        Some(match &*lock(&self.content) {
            PartContent::Open(bytes) => bytes.len() as u64,
            PartContent::Stored { length, .. } => *length as u64,
        })
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        Ok(match &*lock(&self.content) {
            PartContent::Open(bytes) => {
                let bytes = Bytes::copy_from_slice(bytes);
                stream::iter([Ok(bytes)]).boxed()
            }
            PartContent::Stored {
                file,
                start,
                length,
            } => file.read(*start..*start + *length).boxed(),
        })
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(self.clone()))
    }
}

impl Write for FilePart {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *lock(&self.content) {
            PartContent::Open(content) => content.extend_from_slice(bytes),
            PartContent::Stored { .. } => return Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for FilePart {
    fn finish(&mut self) -> Result<()> {
        let mut content = lock(&self.content);
        if let PartContent::Open(bytes) = &*content {
            *content = self.shared.store(bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::time::Duration;

    use datafusion::error::DataFusionError;
    use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation, UnboundedMemoryPool};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::execution::session_state::SessionStateBuilder;
    use datafusion::prelude::SessionContext;
    use futures::TryStreamExt;

    use super::*;
    use crate::sql::{SqlOptions, bare_context};

    async fn content(part: &FilePart) -> Vec<u8> {
        let read: Vec<Bytes> = part.read_stream().unwrap().try_collect().await.unwrap();
        read.concat()
    }

    #[tokio::test]
    async fn parts_of_one_file_return_what_was_written() {
        let shared = SharedFile::default();
        let bytes = |number: usize| vec![number as u8; number * 70_001];
        let mut parts = Vec::new();
        for number in 0..9 {
            let part = shared.part();
            let mut writer = part.open_writer().unwrap();
            writer.write_all(&bytes(number)).unwrap();
            assert!(content(&part).await == bytes(number));
            writer.finish().unwrap();
            writer.finish().unwrap();
            assert!(writer.write_all(b"more").is_err());
            parts.push(part);
        }
        for (number, part) in parts.iter().enumerate().rev() {
            assert_eq!(part.size(), Some(number as u64 * 70_001));
            assert!(content(part).await == bytes(number));
        }
    }

    #[tokio::test]
    async fn a_full_file_is_followed_by_another_and_its_parts_stay_readable() {
        let shared = SharedFile::default();
        let part = |byte: u8| {
            let part = shared.part();
            let mut writer = part.open_writer().unwrap();
            writer.write_all(&vec![byte; FILE_BYTES / 2 + 1]).unwrap();
            writer.finish().unwrap();
            part
        };
        let parts: Vec<FilePart> = (1..=3).map(part).collect();
        let file = |part: &FilePart| match &*lock(&part.content) {
            PartContent::Stored { file, start, .. } => (file.clone(), *start),
            PartContent::Open(_) => panic!("not stored"),
        };
        let places: Vec<usize> = parts.iter().map(|part| file(part).1).collect();
        assert_eq!(places, [0, FILE_BYTES / 2 + 1, 0]);
        for (part, byte) in parts.iter().zip(1..) {
            assert!(content(part).await == vec![byte; FILE_BYTES / 2 + 1]);
        }
        // The file goes with its last part, so that the next part begins one.
        drop(parts);
        assert_eq!(file(&part(4)).1, 0);
    }

    /// A pool in which all rows that are repartitioned spill.
    #[derive(Debug, Default)]
    struct RefusedRepartitions(UnboundedMemoryPool);

    impl fmt::Display for RefusedRepartitions {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    }

    impl MemoryPool for RefusedRepartitions {
        fn name(&self) -> &str {
            "refused repartitions"
        }

        fn grow(&self, reservation: &MemoryReservation, additional: usize) {
            self.0.grow(reservation, additional);
        }

        fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
            self.0.shrink(reservation, shrink);
        }

        fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
            let consumer = reservation.consumer().name();
            match consumer.starts_with("RepartitionExec") {
                true => Err(DataFusionError::ResourcesExhausted(consumer.to_owned())),
                false => self.0.try_grow(reservation, additional),
            }
        }

        fn reserved(&self) -> usize {
            self.0.reserved()
        }
    }

    /// With files that stay open after a batch, such queries lose rows or don't end.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_repartition_that_spills_does_not_wait_forever() {
        let options = SqlOptions {
            threads: 4,
            memory: Some(128 << 20),
            ..SqlOptions::default()
        };
        let state = bare_context(&options).unwrap().state();
        let runtime = RuntimeEnvBuilder::from_runtime_env(state.runtime_env())
            .with_memory_pool(Arc::new(RefusedRepartitions::default()))
            .build_arc()
            .unwrap();
        let state = SessionStateBuilder::new_from_existing(state).with_runtime_env(runtime);
        let context = SessionContext::new_with_state(state.build());
        let query = "SELECT g, count(DISTINCT t) AS n FROM (
                SELECT value % 20000 AS g, md5(value::text) AS t FROM generate_series(1, 100000)
            ) GROUP BY g HAVING count(DISTINCT t) <> 5";
        for attempt in 0..3 {
            let rows = context.sql(query).await.unwrap().collect();
            let rows = tokio::time::timeout(Duration::from_secs(240), rows).await;
            let rows = rows.unwrap_or_else(|_| panic!("attempt {attempt} doesn't end"));
            let rows: usize = rows.unwrap().iter().map(|batch| batch.num_rows()).sum();
            assert_eq!(rows, 0);
        }
    }
}
