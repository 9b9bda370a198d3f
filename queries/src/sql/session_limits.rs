//! Threads and memory of a session: the pool that operators take memory from, and the settings that
//! keep plans within it.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::address_lookup::{MAX_KEY_BYTES, MAX_KEYS};
use super::bounded_pool::{BoundedPool, MERGE_BYTES};
use super::bounded_projection::BoundedProjectionRule;
use super::partitioned_windows::PartitionedWindowRule;
use super::spill::SealedSpillFactory;
use super::wide_batches::WideBatchesRule;
use super::window_limits::WindowMemoryRule;
use super::{FileAccess, SqlOptions};

/// Limit of the session's cache of Parquet footers and page indexes, in bytes. A segment of half a
/// million grains needs about two megabytes.
const METADATA_CACHE_BYTES: usize = 512 << 20;

/// Part of the memory limit that the cache takes at most: one in so many. The rest is the pool.
const METADATA_SHARE: usize = 4;

/// Memory of a partition: there is one for so many bytes of the limit, and at least one.
const PARTITION_BYTES: usize = 32 << 20;

/// Below this limit, batches are [`SMALL_BATCH_ROWS`] long: a merge of spilled rows holds a batch
/// of each file, and each operator some that the pool doesn't count.
const SMALL_MEMORY: usize = 2 << 30;

/// Rows of a batch with little memory.
const SMALL_BATCH_ROWS: usize = 2_048;

/// Part of the pool that each sort keeps for merging what it spills: one in so many.
const MERGE_SHARE: usize = 64;

/// Rows of a batch with more memory: DataFusion's default.
const LARGE_BATCH_ROWS: usize = 8_192;

/// Memory that a merge needs for each row of a file's batch: it has two batches of each file, and
/// each is counted twice. Rows of four addresses take so much.
const MERGED_ROW_BYTES: usize = 1 << 10;

/// The setting for the size after which a repartition ends a spill file: after each batch. See
/// [`spill_parts`](super::spill_parts).
const SPILL_FILE_BYTES: &str = "datafusion.execution.max_spill_file_size_bytes";

/// Part of the memory limit that the keys which one partition looks up take at most: one in so
/// many. The pool doesn't count them.
const KEY_SHARE: usize = 256;

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

/// Returns the number of rows of a batch.
pub(super) fn batch_rows(memory: usize) -> usize {
    match memory < SMALL_MEMORY {
        true => SMALL_BATCH_ROWS,
        false => LARGE_BATCH_ROWS,
    }
}

/// Returns how many spilled files a sort merges at once; more are merged in several passes.
///
/// A merge takes memory for all its files and can't give it back. Without this limit, the sort of
/// one side of a join may take the whole pool, and that of the other side can't begin.
fn files_per_merge(threads: usize, memory: usize) -> usize {
    // Sort-merge joins sort both sides of each partition, of which they have at least two.
    let sorts = 2 * partitions(threads, memory).max(2);
    let file = batch_rows(memory) * MERGED_ROW_BYTES;
    (pool_bytes(memory) / sorts / file).clamp(2, MERGED_FILES)
}

/// Returns the number of threads of a session.
fn threads(options: &SqlOptions) -> usize {
    match options.threads {
        0 => SessionConfig::new().target_partitions(),
        threads => threads,
    }
}

pub(super) fn session_config(options: &SqlOptions) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_information_schema(true)
        .set_bool("datafusion.execution.parquet.pushdown_filters", true)
        .set_bool("datafusion.execution.parquet.reorder_filters", true)
        // In PostgreSQL `a ->> 'b' = 'c'` compares the result of `->>`.
        .set_str("datafusion.sql_parser.dialect", "PostgreSQL")
        .set_usize(SPILL_FILE_BYTES, 1)
        .with_extension(Arc::new(options.files));
    let keys = options
        .memory
        .map_or(MAX_KEY_BYTES, |memory| memory / KEY_SHARE);
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.hash_join_inlist_pushdown_max_distinct_values = MAX_KEYS;
    optimizer.hash_join_inlist_pushdown_max_size = keys.min(MAX_KEY_BYTES);
    let threads = threads(options);
    let Some(memory) = options.memory else {
        return config.with_target_partitions(threads);
    };
    let merge = (pool_bytes(memory) / MERGE_SHARE).min(MERGE_BYTES);
    config
        .with_target_partitions(partitions(threads, memory))
        .with_sort_spill_reservation_bytes(merge)
        .with_batch_size(batch_rows(memory))
}

/// Returns a session with the tables and the memory of `context` that gathers and makes wide rows
/// in small batches: the memory pool doesn't count the batches of most operators.
pub fn with_small_batches(context: &SessionContext) -> SessionContext {
    let pool = match context.runtime_env().memory_pool.memory_limit() {
        MemoryLimit::Finite(pool) => pool,
        _ => usize::MAX,
    };
    let state = SessionStateBuilder::new_from_existing(context.state())
        .with_physical_optimizer_rule(Arc::new(WideBatchesRule::of_memory(pool)))
        .with_physical_optimizer_rule(Arc::new(BoundedProjectionRule))
        .with_physical_optimizer_rule(Arc::new(PartitionedWindowRule))
        .with_physical_optimizer_rule(Arc::new(WindowMemoryRule::of_memory(pool)));
    SessionContext::new_with_state(state.build())
}

/// Returns the runtime: memory pool, spill files and object stores.
///
/// # Errors
/// [`DataFusionError`](super::DataFusionError) if it can't be created.
pub(super) fn runtime_env(options: &SqlOptions) -> Result<Arc<RuntimeEnv>> {
    let metadata_limit = options.memory.map_or(METADATA_CACHE_BYTES, |memory| {
        METADATA_CACHE_BYTES.min(memory / METADATA_SHARE)
    });
    let mut runtime = RuntimeEnvBuilder::new()
        .with_metadata_cache_limit(metadata_limit)
        .with_disk_manager_builder(spill_files(options));
    if let Some(memory) = options.memory {
        let pool = pool_bytes(memory);
        tracing::debug!(memory, pool, "memory of queries");
        runtime = runtime.with_memory_pool(Arc::new(BoundedPool::new(pool)));
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

/// Returns the builder of the spill files, which are sealed.
fn spill_files(options: &SqlOptions) -> DiskManagerBuilder {
    let mut spills = DiskManagerBuilder::default()
        .with_temp_file_factory(Arc::new(SealedSpillFactory::default()));
    if let Some(memory) = options.memory {
        spills.set_max_spill_merge_fan_in(files_per_merge(threads(options), memory));
    }
    spills
}
