//! Rows that are read once and returned many times: in memory up to a limit, in spill files beyond
//! it.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SpillManager, execute_stream_partitioned};
use futures::{StreamExt, stream};
use tokio::task::JoinSet;

use super::super::external;

/// Memory that the rows of one plan take at most, in bytes.
const MEMORY_BYTES: usize = 64 << 20;

/// Part of the session's memory that they take at most: one in so many.
const MEMORY_SHARE: usize = 8;

/// The rows of a plan.
pub(super) struct KeptRows {
    spills: SpillManager,
    partitions: Vec<KeptPartition>,
    /// Holds the memory as long as the rows exist.
    _memory: Arc<RowMemory>,
}

/// The rows of one partition: first those in memory, then those that were spilled.
#[derive(Default)]
struct KeptPartition {
    rows: usize,
    batches: Vec<RecordBatch>,
    spilled: Option<Arc<dyn SpillFile>>,
}

impl KeptRows {
    /// Runs `plan` and keeps its rows. Its partitions run concurrently.
    ///
    /// # Errors
    /// Those of the plan, and [`DataFusionError`](datafusion::error::DataFusionError) if the rows
    /// can't be spilled.
    pub(super) async fn read(
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
    ) -> Result<KeptRows> {
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let spills = SpillManager::new(context.runtime_env(), metrics, plan.schema());
        let memory = Arc::new(RowMemory::of(context.memory_pool()));
        let batch_rows = context.session_config().batch_size();
        let mut tasks = JoinSet::new();
        let streams = execute_stream_partitioned(plan, context)?;
        let mut partitions: Vec<KeptPartition> = Vec::new();
        for (number, rows) in streams.into_iter().enumerate() {
            partitions.push(KeptPartition::default());
            let kept = keep(rows, batch_rows, spills.clone(), Arc::clone(&memory));
            tasks.spawn(async move { (number, kept.await) });
        }
        while let Some(task) = tasks.join_next().await {
            let (number, kept) = task.map_err(external)?;
            partitions[number] = kept?;
        }
        Ok(KeptRows {
            spills,
            partitions,
            _memory: memory,
        })
    }

    /// Returns the schema of the rows.
    pub(super) fn schema(&self) -> &SchemaRef {
        self.spills.schema()
    }

    /// Returns the number of partitions.
    pub(super) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Returns the number of rows of a partition, or of all.
    pub(super) fn count(&self, partition: Option<usize>) -> usize {
        let is_counted = |number: usize| partition.is_none_or(|partition| partition == number);
        let counted = self.partitions.iter().enumerate();
        let counted = counted.filter(|(number, _)| is_counted(*number));
        counted.map(|(_, partition)| partition.rows).sum()
    }

    /// Returns `columns` of all rows; `None` if they take more than `limit` bytes, or if some rows
    /// are in spill files.
    ///
    /// # Errors
    /// If there is no such column.
    pub(super) fn within(
        &self,
        columns: &[usize],
        limit: usize,
    ) -> Result<Option<Vec<RecordBatch>>> {
        let mut batches = Vec::new();
        let mut bytes = 0;
        for partition in &self.partitions {
            if partition.spilled.is_some() {
                return Ok(None);
            }
            for batch in &partition.batches {
                let batch = batch.project(columns)?;
                for column in batch.columns() {
                    bytes += column.to_data().get_slice_memory_size()?;
                }
                batches.push(batch);
            }
        }
        Ok((bytes <= limit).then_some(batches))
    }

    /// Returns the rows of a partition.
    ///
    /// # Errors
    /// If there is no such partition, or a spill file can't be read.
    pub(super) fn rows(&self, partition: usize) -> Result<SendableRecordBatchStream> {
        let kept = self.partitions.get(partition);
        let kept = kept.ok_or_else(|| exec_datafusion_err!("there is no partition {partition}"))?;
        let first = stream::iter(kept.batches.clone().into_iter().map(Ok));
        let schema = Arc::clone(self.schema());
        let Some(file) = &kept.spilled else {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, first)));
        };
        let spills = &self.spills;
        let rest = spills.read_spill_as_stream_unbuffered(Arc::clone(file), None)?;
        let all = first.chain(rest);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, all)))
    }
}

impl fmt::Debug for KeptRows {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "KeptRows({})", self.count(None))
    }
}

/// Keeps the rows of one partition. They are copied into full batches, because a filtered batch may
/// hold the memory of all rows that were read.
async fn keep(
    mut rows: SendableRecordBatchStream,
    batch_rows: usize,
    spills: SpillManager,
    memory: Arc<RowMemory>,
) -> Result<KeptPartition> {
    let mut full = BatchCoalescer::new(rows.schema(), batch_rows);
    let mut kept = KeptPartition::default();
    let mut spilled = None;
    let mut ended = false;
    while !ended {
        match rows.next().await {
            Some(batch) => full.push_batch(batch?)?,
            None => {
                full.finish_buffered_batch()?;
                ended = true;
            }
        }
        while let Some(batch) = full.next_completed_batch() {
            kept.rows += batch.num_rows();
            if spilled.is_none() && memory.takes(&batch) {
                kept.batches.push(batch);
                continue;
            }
            let file = match spilled.take() {
                Some(file) => file,
                None => spills.create_in_progress_file("rows of several queries")?,
            };
            spilled.insert(file).append_batch(&batch)?;
        }
    }
    if let Some(mut file) = spilled {
        kept.spilled = file.finish()?;
    }
    Ok(kept)
}

/// Memory that the rows of a plan take.
struct RowMemory {
    reservation: MemoryReservation,
    limit: usize,
}

impl RowMemory {
    fn of(pool: &Arc<dyn MemoryPool>) -> RowMemory {
        let limit = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => MEMORY_BYTES.min(limit / MEMORY_SHARE),
            _ => MEMORY_BYTES,
        };
        RowMemory {
            reservation: MemoryConsumer::new("KeptRows").register(pool),
            limit,
        }
    }

    /// Takes the memory of `batch`; false if that would exceed the limit. Partitions that do so at
    /// the same moment may exceed it by a batch each.
    fn takes(&self, batch: &RecordBatch) -> bool {
        let bytes = batch.get_array_memory_size();
        let is_within = self.reservation.size().saturating_add(bytes) <= self.limit;
        is_within && self.reservation.try_grow(bytes).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::compute::cast;
    use arrow::datatypes::{DataType, Int64Type};
    use datafusion::physical_plan::common::collect;

    use super::*;
    use crate::sql::{SessionContext, SqlOptions, bare_context};

    /// 100,000 rows with texts, some 6 MB.
    const QUERY: &str = "SELECT value, md5(value::text) AS text FROM generate_series(1, 100000)";

    async fn kept(memory: Option<usize>) -> (SessionContext, KeptRows) {
        let options = SqlOptions {
            threads: 2,
            memory,
            ..SqlOptions::default()
        };
        let context = bare_context(&options).unwrap();
        let frame = context.sql(QUERY).await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        let rows = KeptRows::read(plan, context.task_ctx()).await.unwrap();
        (context, rows)
    }

    /// Returns the sum of the first column and the bytes of the second.
    async fn sums(rows: &KeptRows) -> (i64, usize) {
        let mut sums = (0, 0);
        for number in 0..rows.partitions() {
            for batch in collect(rows.rows(number).unwrap()).await.unwrap() {
                let values = batch.column(0).as_primitive::<Int64Type>();
                sums.0 += values.values().iter().sum::<i64>();
                let texts = cast(batch.column(1), &DataType::Utf8).unwrap();
                let texts = texts.as_string::<i32>();
                sums.1 += texts.iter().flatten().map(str::len).sum::<usize>();
            }
        }
        sums
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn rows_that_fit_stay_in_memory_and_the_others_are_spilled() {
        for (memory, is_spilled) in [(None, false), (Some(8 << 20), true)] {
            let (context, rows) = kept(memory).await;
            assert_eq!(rows.count(None), 100_000);
            let spilled = rows.partitions.iter().any(|it| it.spilled.is_some());
            assert_eq!(spilled, is_spilled, "{memory:?}");
            for _ in 0..2 {
                assert_eq!(sums(&rows).await, (5_000_050_000, 3_200_000));
            }
            let numbers = rows.within(&[0], 1 << 20).unwrap();
            assert_eq!(numbers.is_none(), is_spilled);
            let numbers = numbers.into_iter().flatten();
            let count: usize = numbers.map(|batch| batch.num_rows()).sum();
            assert_eq!(count, if is_spilled { 0 } else { 100_000 });
            assert!(rows.within(&[0, 1], 1 << 20).unwrap().is_none());
            let runtime = context.runtime_env();
            let pool = &runtime.memory_pool;
            let limit = memory.map_or(MEMORY_BYTES, |memory| memory / MEMORY_SHARE);
            assert!(
                (1..=limit).contains(&pool.reserved()),
                "{}",
                pool.reserved()
            );
            drop(rows);
            assert_eq!(pool.reserved(), 0);
        }
    }
}
