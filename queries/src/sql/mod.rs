//! SQL over a lake: a DataFusion context in which the lake's tables, views and functions are
//! registered.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use gristmill_engine::lake::Lake;
//! use gristmill_queries::sql::{SqlOptions, lake_context};
//!
//! let lake = Lake::open("lake").await?;
//! let context = lake_context(&lake, &SqlOptions::default()).await?;
//! context.sql("SELECT type, count(*) FROM grains GROUP BY type").await?.show().await?;
//! # Ok(()) }
//! ```
//!
//! | module | what it answers |
//! |---|---|
//! | `lake_table` | how is a stored table scanned? |
//! | `index_predicate` | what does a filter say about the columns that sidecars know? |
//! | `index_pruning` | which rows of each segment can it let pass, as the sidecars say? |
//! | `index_only_scan` | which scans need no segment? |
//! | `point_lookup` | how are rows read whose places are known? |
//! | `page_index_reader` | why do chosen rows cost only the pages in which they stand? |
//! | `indexed_file_source` | how does EXPLAIN show that? |
//! | `unseal` | how are sealed rows read? |
//! | `search` | `search(text, k)`, and the standard response to a search |
//! | `filtered_search` | which of its rows does a query want? |
//! | `vectors` | `vector_search(vector, k)`, `hybrid_search(text, k)` |
//! | `pattern` | `pattern(subject, relation, object)` |
//! | `system_tables` | what is the lake made of: `segments`, `source_progress`, `indexes`? |
//! | `views` | what are `beliefs` … `consents`, `triples`, `consent_state`? |
//! | `lifecycle` | what are `supersessions`, `lifecycle`, `current`? |
//! | `lazy_views` | when are views planned? |
//! | `messages` | what are `messages`, `blocks`, `message_views`, `tool_calls`, `threads`, `usage`, `thread(session_id)`? |
//! | `blocks`, `message_views`, `cost_functions` | the functions that those need: `message_blocks`, `cmf_views`, `cost_usd`, `token_counts` |
//! | `scalar_functions` | what can be asked of one grain or value? |
//! | `binary_functions` | what can be asked of bytes, beside texts? |
//! | `compliance_functions` | what can be asked of tags, profile fields and text? |
//! | `script` | how are several statements of one text run? |
//! | `allowlist` | which statements are run at all? |
//! | `error_message` | what is a person told about one that fails? |
//! | `no_lake` | what can be asked where there is no lake? |
//! | `select_grains` | which grains does a condition pick? |
//! | `file_functions` | `mg_file(path)`, `transcript_file(path)`: a file as a table |
//! | `lineage` | `history(address)`, `provenance(address, depth)` |
//! | `as_of` | `as_of(instant)`: what was current then |

mod allowlist;
mod as_of;
mod binary_functions;
mod cmf_views;
mod compliance_functions;
mod conversation_views;
mod cost_functions;
mod error_message;
mod file_functions;
mod filtered_search;
mod index_only_scan;
mod index_predicate;
mod index_pruning;
mod indexed_file_source;
mod lake_table;
mod lazy_views;
pub(crate) mod lifecycle;
mod lineage;
mod message_blocks;
mod no_lake;
mod page_index_reader;
mod pattern;
mod point_lookup;
mod scalar_functions;
mod script;
mod search;
mod select_grains;
mod system_tables;
mod unseal;
mod vectors;
mod views;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::empty::EmptyTable;
use datafusion::error::Result;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionConfig;
use gristmill_engine::index::SidecarCache;
use gristmill_engine::index::vectors::embed::Embedder;
use gristmill_engine::lake::{AUDIT, Lake};
use gristmill_schemas::columns::{
    GRAINS, REJECTS, SOURCES, STATE, audit_schema, grains_schema, rejects_schema, sources_schema,
    state_schema,
};
use gristmill_schemas::message::price::PriceTable;

use cost_functions::CostUsd;

use crate::exec::LifecycleCache;

pub use allowlist::{FileAccess, StatementError};
pub(crate) use cmf_views::MessageContext;
pub use datafusion::error::DataFusionError;
pub use datafusion::prelude::SessionContext;
pub use error_message::user_message;
pub(crate) use indexed_file_source::index_notes;
pub use lake_table::LakeTable;
pub use no_lake::context_without_lake;
pub(crate) use script::plan_query;
pub use script::{completions, execute, statements};
pub use search::{SearchEnvelope, SearchMode, SearchResult, search, search_rows};
pub use select_grains::select_grains;

/// What a user can choose.
#[derive(Debug, Clone, Default)]
pub struct SqlOptions {
    /// Partitions that are worked on at the same time; 0 for one per core.
    pub threads: usize,
    /// Bytes that sorts, joins and aggregates may hold before they spill to disk; no bound if
    /// absent.
    pub memory: Option<usize>,
    /// Price tables beside the shipped one; the last is used where a query names no version.
    pub prices: Vec<PriceTable>,
    /// What makes vectors of the texts in `vector_search` and `hybrid_search`.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// What statements may do with files outside the lake.
    pub files: FileAccess,
}

/// The store under which the lake's own files are registered: its paths begin at the lake.
pub(crate) const LAKE_STORE: &str = "gristmill://lake";

/// Footers and page indexes of Parquet files that a session keeps at most, in bytes: some two
/// megabytes for a segment of half a million grains.
const KEPT_METADATA: usize = 512 << 20;

/// A context with the functions that need no lake: `mg_file` and `transcript_file`, if the options
/// allow them, scalar and JSON functions. Unless files of other kinds are allowed, it has no way to
/// the local file system.
///
/// # Errors
/// [`DataFusionError`] if the runtime can't be made.
pub fn bare_context(options: &SqlOptions) -> Result<SessionContext> {
    let mut config = SessionConfig::new()
        .with_information_schema(true)
        .set_bool("datafusion.execution.parquet.pushdown_filters", true)
        .set_bool("datafusion.execution.parquet.reorder_filters", true)
        // In PostgreSQL `a ->> 'b' = 'c'` compares what `->>` answers.
        .set_str("datafusion.sql_parser.dialect", "PostgreSQL")
        .with_extension(Arc::new(options.files));
    if options.threads > 0 {
        config = config.with_target_partitions(options.threads);
    }
    let kept = options
        .memory
        .map_or(KEPT_METADATA, |memory| KEPT_METADATA.min(memory / 4));
    let mut runtime = RuntimeEnvBuilder::new()
        .with_metadata_cache_limit(kept)
        .with_disk_manager_builder(
            DiskManagerBuilder::default().with_mode(DiskManagerMode::OsTmpDirectory),
        );
    if let Some(memory) = options.memory {
        runtime = runtime.with_memory_pool(Arc::new(FairSpillPool::new(memory)));
    }
    let runtime = runtime.build_arc()?;
    if options.files < FileAccess::ReadAndWrite {
        // The gate refuses statements that would use it; a program that goes around the gate
        // doesn't find it.
        runtime
            .object_store_registry
            .deregister_store(ObjectStoreUrl::local_filesystem().as_ref())?;
    }
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features();
    state
        .expr_planners()
        .get_or_insert_default()
        .insert(0, binary_functions::planner());
    let mut context = SessionContext::new_with_state(state.build());
    datafusion_functions_json::register_all(&mut context)?;
    scalar_functions::register(&context);
    binary_functions::register(&context);
    context.register_udf(CostUsd::new(&options.prices).into());
    context.register_udf(cost_functions::token_counts());
    context.register_udf(message_blocks::message_blocks());
    context.register_udf(cmf_views::cmf_views());
    compliance_functions::register(&context);
    file_functions::register(&context, options.files);
    Ok(context)
}

/// A context with all tables, views and functions of `lake`, as of the version that the handle
/// sees.
///
/// # Errors
/// [`DataFusionError::External`] with the engine's error if a table can't be read.
pub async fn lake_context(lake: &Lake, options: &SqlOptions) -> Result<SessionContext> {
    let context = bare_context(options)?;
    context
        .state_ref()
        .write()
        .config_mut()
        .set_extension(Arc::new(LifecycleCache::default()));
    let store = ObjectStoreUrl::parse(LAKE_STORE)?;
    context.register_object_store(store.as_ref(), lake.location().store());
    let stored = [
        (GRAINS, &lake.grains, grains_schema()),
        (STATE, &lake.state, state_schema()),
        (REJECTS, &lake.rejects, rejects_schema()),
        (AUDIT, &lake.audit, audit_schema()),
    ];
    for (name, table, schema) in stored {
        let mut provider = LakeTable::new(lake, table.clone(), schema, store.clone())?;
        if name == GRAINS {
            provider = provider.with_sidecars(SidecarCache::of(lake));
        }
        let provider = Arc::new(provider);
        if name == GRAINS {
            let source = search::GrainSource {
                lake: lake.clone(),
                grains: Arc::clone(&provider),
            };
            search::register(&context, &source);
            vectors::register(&context, &source, options.embedder.clone());
        }
        context.register_table(name, provider)?;
    }
    let sources: Arc<dyn TableProvider> = match &lake.sources {
        Some(sources) => Arc::new(LakeTable::new(
            lake,
            sources.clone(),
            sources_schema(),
            store.clone(),
        )?),
        None => Arc::new(EmptyTable::new(sources_schema())),
    };
    context.register_table(SOURCES, sources)?;
    system_tables::register(&context, lake)?;
    register_views(&context, options)?;
    Ok(context)
}

/// What stands on the stored tables, which must be registered: views, `as_of`, `history`,
/// `provenance`, `pattern`.
pub(crate) fn register_views(context: &SessionContext, options: &SqlOptions) -> Result<()> {
    lazy_views::register(
        context,
        views::views().chain(conversation_views::views(
            CostUsd::new(&options.prices).default_version(),
        )),
    )?;
    as_of::register(context);
    conversation_views::register(context);
    lineage::register(context);
    pattern::register(context);
    Ok(())
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
