//! The rows of an answer between the operators that make them and the client that takes them: their
//! memory counts until they are sent, and wide rows are sent in parts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::execute_stream_partitioned;
use datafusion::prelude::DataFrame;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::Notify;

use super::wide_rows::parts_of;

/// Bytes of rows in flight that each query has in addition to its memory: narrow rows don't take
/// any from its sorts and joins.
const FREE_BYTES: usize = 8 << 20;

/// The rows of a running query.
pub struct CountedRows {
    schema: SchemaRef,
    partitions: Vec<SendableRecordBatchStream>,
    memory: Arc<AnswerMemory>,
}

/// Some rows of a query. Their memory counts until this and the other parts of their batch are
/// dropped.
pub struct CountedBatch {
    /// The rows.
    pub batch: RecordBatch,
    /// Bytes of their values.
    pub bytes: usize,
    _held: Arc<HeldBytes>,
}

impl CountedRows {
    /// Starts `query`.
    ///
    /// # Errors
    /// Those of planning.
    pub async fn of(query: &DataFrame) -> Result<CountedRows> {
        let context = Arc::new(query.task_ctx());
        let plan = query.create_physical_plan().await?;
        Ok(CountedRows {
            schema: plan.schema(),
            memory: Arc::new(AnswerMemory::of(context.memory_pool())),
            partitions: execute_stream_partitioned(plan, context)?,
        })
    }

    /// Returns the schema of the rows.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Returns the rows of each partition; those of a sorted query have one. A partition waits
    /// before it returns rows for which there is no memory until others are sent.
    ///
    /// Their errors are those of the query, and `ResourcesExhausted` if there is no memory for a
    /// batch although no other is in flight.
    pub fn into_partitions(self) -> Vec<BoxStream<'static, Result<CountedBatch>>> {
        let memory = self.memory;
        let partitions = self.partitions.into_iter();
        partitions
            .map(|rows| counted(rows, Arc::clone(&memory)))
            .collect()
    }
}

fn counted(
    rows: SendableRecordBatchStream,
    memory: Arc<AnswerMemory>,
) -> BoxStream<'static, Result<CountedBatch>> {
    let parts = rows.and_then(move |batch| {
        let memory = Arc::clone(&memory);
        async move {
            let in_memory = get_record_batch_memory_size(&batch);
            let parts = parts_of(batch);
            let held = Arc::new(memory.hold(bytes_of(in_memory, &parts)).await?);
            let parts = parts.into_iter().map(move |(batch, bytes)| {
                Ok::<_, DataFusionError>(CountedBatch {
                    batch,
                    bytes,
                    _held: Arc::clone(&held),
                })
            });
            Ok::<_, DataFusionError>(stream::iter(parts))
        }
    });
    parts.try_flatten().boxed()
}

/// Returns the memory of a batch and of the part that is being written for the client. Batches may
/// be slices of a larger one that an operator counts, so that their rows take less than their
/// memory.
fn bytes_of(in_memory: usize, parts: &[(RecordBatch, usize)]) -> usize {
    let bytes = || parts.iter().map(|(_, bytes)| *bytes);
    let sum = bytes().fold(0, usize::saturating_add);
    let written = bytes().max().unwrap_or_default();
    in_memory.min(sum).saturating_add(written)
}

/// The memory of the rows of one answer that are in flight.
struct AnswerMemory {
    /// What they take beyond [`FREE_BYTES`].
    reservation: MemoryReservation,
    /// Bytes in flight. Locked while the reservation changes, so that the two agree.
    in_flight: Mutex<usize>,
    /// Notified when rows are sent.
    released: Notify,
}

impl AnswerMemory {
    fn of(pool: &Arc<dyn MemoryPool>) -> AnswerMemory {
        AnswerMemory {
            reservation: MemoryConsumer::new("AnswerRows").register(pool),
            in_flight: Mutex::new(0),
            released: Notify::new(),
        }
    }

    fn in_flight(&self) -> MutexGuard<'_, usize> {
        self.in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts `bytes` until the result is dropped. Waits while there is no memory for them and
    /// others are in flight.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no memory and no others are in flight.
    async fn hold(self: &Arc<Self>, bytes: usize) -> Result<HeldBytes> {
        loop {
            // Made before the attempt, so that it includes what is released after it.
            let released = self.released.notified();
            if let Some(held) = self.try_hold(bytes)? {
                return Ok(held);
            }
            released.await;
        }
    }

    /// Does the same, but returns `None` if it would have to wait.
    fn try_hold(self: &Arc<Self>, bytes: usize) -> Result<Option<HeldBytes>> {
        let mut in_flight = self.in_flight();
        let all = in_flight.saturating_add(bytes);
        match self.reservation.try_resize(beyond_free(all)) {
            Ok(()) => {
                *in_flight = all;
                let memory = Arc::clone(self);
                Ok(Some(HeldBytes { memory, bytes }))
            }
            Err(error) if *in_flight == 0 => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn release(&self, bytes: usize) {
        let mut in_flight = self.in_flight();
        *in_flight = in_flight.saturating_sub(bytes);
        self.reservation.resize(beyond_free(*in_flight));
        drop(in_flight);
        self.released.notify_waiters();
    }
}

fn beyond_free(bytes: usize) -> usize {
    bytes.saturating_sub(FREE_BYTES)
}

/// Bytes in flight.
struct HeldBytes {
    memory: Arc<AnswerMemory>,
    bytes: usize,
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.memory.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow::array::{ArrayRef, StringArray};
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use tokio::time::timeout;

    use super::super::bounded_pool::BoundedPool;
    use super::super::spilling_joins::is_exhausted;
    use super::super::{SqlOptions, bare_context};
    use super::*;

    const MEBIBYTE: usize = 1 << 20;

    #[tokio::test]
    async fn rows_wait_for_those_in_flight_and_fail_alone() {
        let pool: Arc<dyn MemoryPool> = Arc::new(BoundedPool::new(16 * MEBIBYTE));
        let memory = Arc::new(AnswerMemory::of(&pool));
        let narrow = memory.hold(FREE_BYTES).await.unwrap();
        assert_eq!(pool.reserved(), 0);
        let wide = memory.hold(12 * MEBIBYTE).await.unwrap();
        assert_eq!(pool.reserved(), 12 * MEBIBYTE);
        let waiting = timeout(Duration::from_millis(20), memory.hold(8 * MEBIBYTE));
        assert!(waiting.await.is_err());
        let waiting = tokio::spawn({
            let memory = Arc::clone(&memory);
            async move { memory.hold(8 * MEBIBYTE).await.map(drop) }
        });
        tokio::task::yield_now().await;
        drop(wide);
        waiting.await.unwrap().unwrap();
        drop(narrow);
        assert_eq!(pool.reserved(), 0);
        let alone = memory.hold(32 * MEBIBYTE).await.map(drop).unwrap_err();
        assert!(is_exhausted(&alone), "{alone}");
    }

    #[tokio::test]
    async fn wide_rows_come_in_parts_that_count_until_they_are_dropped() {
        let column: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(60_000); 500]));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let rows = RecordBatchStreamAdapter::new(batch.schema(), stream::iter([Result::Ok(batch)]));
        let pool: Arc<dyn MemoryPool> = Arc::new(BoundedPool::new(64 * MEBIBYTE));
        let memory = Arc::new(AnswerMemory::of(&pool));
        let mut parts = counted(Box::pin(rows), memory);
        let mut count = 0;
        while let Some(part) = parts.next().await {
            let part = part.unwrap();
            assert!(part.bytes <= 2 * MEBIBYTE, "{}", part.bytes);
            assert!(pool.reserved() > 16 * MEBIBYTE, "{}", pool.reserved());
            count += part.batch.num_rows();
        }
        assert_eq!((count, pool.reserved()), (500, 0));
    }

    #[tokio::test]
    async fn a_query_returns_the_rows_of_all_partitions() {
        let context = bare_context(&SqlOptions::default()).unwrap();
        let query = "SELECT value FROM range(0, 700) UNION ALL SELECT value FROM range(0, 300)";
        let query = context.sql(query).await.unwrap();
        let mut count = 0;
        for partition in CountedRows::of(&query).await.unwrap().into_partitions() {
            let parts: Vec<CountedBatch> = partition.try_collect().await.unwrap();
            count += parts
                .iter()
                .map(|part| part.batch.num_rows())
                .sum::<usize>();
        }
        assert_eq!(count, 1_000);
    }
}
