//! Threads and memory of a session: the pool that operators take memory from, and the settings that
//! keep plans within it.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionConfig;

use super::spill::SealedSpillFactory;
use super::{FileAccess, SqlOptions};

/// Limit of the session's cache of Parquet footers and page indexes, in bytes. A segment of half a
/// million grains needs about two megabytes.
const METADATA_CACHE_BYTES: usize = 512 << 20;

/// Part of the memory limit that the cache takes at most: one in so many. The rest is the pool.
const METADATA_SHARE: usize = 4;

/// Memory of a partition: there is one for so many bytes of the limit, and at least one.
const PARTITION_BYTES: usize = 32 << 20;

/// Below this limit, batches are [`SMALL_BATCH_ROWS`] long: a merge of spilled rows holds a batch
/// of each file.
const SMALL_MEMORY: usize = 512 << 20;

/// Rows of a batch with little memory.
const SMALL_BATCH_ROWS: usize = 2_048;

/// Part of the pool that each sort keeps for merging what it spills: one in so many.
const MERGE_SHARE: usize = 64;

/// Bytes that each sort keeps at most.
const MERGE_BYTES: usize = 10 << 20;

/// Memory that a merge needs for each file of spilled rows: two batches of 2,048 addresses, each
/// counted twice, take 0.8 MB.
const MERGED_FILE_BYTES: usize = 1 << 20;

/// Spilled files that are open in one merge at most.
const MERGED_FILES: usize = 256;

/// Returns the bytes of the pool that operators share.
fn pool_bytes(memory: usize) -> usize {
    memory - memory / METADATA_SHARE
}

/// Returns the number of partitions of plans.
fn partitions(threads: usize, memory: usize) -> usize {
    threads.min(memory / PARTITION_BYTES).max(1)
}

/// Returns how many spilled files a sort merges at once; more are merged in several passes.
///
/// A merge takes memory for all its files and can't give it back. Without this limit, the sort of
/// one side of a join may take the whole pool, and that of the other side can't begin.
fn files_per_merge(threads: usize, memory: usize) -> usize {
    // Sort-merge joins sort both sides of each partition, of which they have at least two.
    let sorts = 2 * partitions(threads, memory).max(2);
    (pool_bytes(memory) / sorts / MERGED_FILE_BYTES).clamp(2, MERGED_FILES)
}

/// Returns the number of threads of a session.
fn threads(options: &SqlOptions) -> usize {
    match options.threads {
        0 => SessionConfig::new().target_partitions(),
        threads => threads,
    }
}

pub(super) fn session_config(options: &SqlOptions) -> SessionConfig {
    let config = SessionConfig::new()
        .with_information_schema(true)
        .set_bool("datafusion.execution.parquet.pushdown_filters", true)
        .set_bool("datafusion.execution.parquet.reorder_filters", true)
        // In PostgreSQL `a ->> 'b' = 'c'` compares the result of `->>`.
        .set_str("datafusion.sql_parser.dialect", "PostgreSQL")
        .with_extension(Arc::new(options.files));
    let threads = threads(options);
    let Some(memory) = options.memory else {
        return config.with_target_partitions(threads);
    };
    let merge = (pool_bytes(memory) / MERGE_SHARE).min(MERGE_BYTES);
    let config = config
        .with_target_partitions(partitions(threads, memory))
        .with_sort_spill_reservation_bytes(merge);
    match memory < SMALL_MEMORY {
        true => config.with_batch_size(SMALL_BATCH_ROWS),
        false => config,
    }
}

/// Returns the runtime: memory pool, spill files and object stores.
///
/// # Errors
/// [`DataFusionError`](super::DataFusionError) if it can't be created.
pub(super) fn runtime_env(options: &SqlOptions) -> Result<Arc<RuntimeEnv>> {
    let metadata_limit = options.memory.map_or(METADATA_CACHE_BYTES, |memory| {
        METADATA_CACHE_BYTES.min(memory / METADATA_SHARE)
    });
    let mut spills =
        DiskManagerBuilder::default().with_temp_file_factory(Arc::new(SealedSpillFactory));
    if let Some(memory) = options.memory {
        spills.set_max_spill_merge_fan_in(files_per_merge(threads(options), memory));
    }
    let mut runtime = RuntimeEnvBuilder::new()
        .with_metadata_cache_limit(metadata_limit)
        .with_disk_manager_builder(spills);
    if let Some(memory) = options.memory {
        let pool = pool_bytes(memory);
        tracing::debug!(memory, pool, "memory of queries");
        runtime = runtime.with_memory_pool(Arc::new(FairSpillPool::new(pool)));
    }
    let runtime = runtime.build_arc()?;
    if options.files < FileAccess::ReadAndWrite {
        // The allowlist refuses statements that would use this store; without it, code that
        // bypasses the allowlist can't use it either.
        runtime
            .object_store_registry
            .deregister_store(ObjectStoreUrl::local_filesystem().as_ref())?;
    }
    Ok(runtime)
}
