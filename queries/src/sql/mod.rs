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
//! | module | question |
//! |---|---|
//! | `lake_table` | How is a stored table scanned? |
//! | `deferred_table` | When is a table opened that few queries read? |
//! | `index_predicate` | Which values does a filter allow in the indexed columns? |
//! | `required_fields` | Which domain fields must a row have for a filter to be true? |
//! | `index_pruning` | Which rows of each segment can match, according to the sidecars? |
//! | `address_lookup` | Which rows are read of the large side of a join on addresses? |
//! | `join_keys` | Which addresses does the filter of a join allow? |
//! | `index_only_scan` | Which scans are answered from sidecars without reading a segment? |
//! | `leaf_scan` | Which scans hide from the optimizer what they read, and how long do they hold its memory? |
//! | `reference`, `describe` | What do the tables, columns and functions mean? |
//! | `point_lookup` | How are rows read whose positions are known? |
//! | `page_index_reader` | How does a row selection read only the pages that contain its rows? |
//! | `indexed_file_source` | How does EXPLAIN show which sidecars were used? |
//! | `file_errors` | How do errors name a damaged file? |
//! | `unseal` | How are sealed (encrypted) rows read? |
//! | `search` | `search(text, k)` and the standard response to a search |
//! | `search_filter` | Which conditions can a search have without SQL? |
//! | `search_results` | How are the rows of search results read? |
//! | `filtered_search` | How are the `k` best rows found that also pass a WHERE clause? |
//! | `vectors` | `vector_search(vector, k)`, `hybrid_search(text, k)` |
//! | `hybrid` | How are matches by words and by meaning combined? |
//! | `pattern` | `pattern(subject, relation, object)` |
//! | `system_tables` | `segments`, `source_progress`, `indexes` |
//! | `views` | `beliefs` … `consents`, `triples`, `holds` |
//! | `consent_views` | `consent_withdrawals`, `consent_state`, `withdrawn_consents` |
//! | `lifecycle` | `supersessions`, `lifecycle`, `current` |
//! | `listed_rows` | How is what a view reads limited to some grains or subjects? |
//! | `lazy_views` | When is a view planned? |
//! | `conversation_views` | `messages`, `blocks`, `message_views`, `tool_calls`, `threads`, `usage`, `thread(session_id)` |
//! | `message_blocks`, `cmf_views`, `cost_functions` | The functions behind those views: `message_blocks`, `cmf_views`, `cost_usd`, `token_counts` |
//! | `scalar_functions` | Scalar functions of one grain or value |
//! | `binary_functions` | `length`, `octet_length` and `substr` of binary columns |
//! | `limited_function` | How does a function of DataFusion get a limit? |
//! | `size_limits`, `result_sizes` | Which results of functions are too large? |
//! | `text_concatenation` | How is `\|\|` of texts computed? |
//! | `large_constants` | How large may a constant be that is repeated in each row? |
//! | `nested_sort_keys` | Which sort keys does a projection compute? |
//! | `first_value` | The first value of a query, for tests |
//! | `percentiles` | How many centroids may an approximate percentile have? |
//! | `step_limits` | How long may texts and lists be that are compared piece by piece? |
//! | `pass_through` | Which operators pass on all rows of one input? |
//! | `window_limits` | How large may the results of a window function be? |
//! | `timed_patterns` | How long may the searches for all matches of a pattern take? |
//! | `type_limits` | Which types are too large or nested too deeply? |
//! | `compliance_functions` | Scalar functions of tags, profile fields and personal data |
//! | `expression_functions` | Scalar functions that check expressions, citations and device profiles |
//! | `parameters` | How are the values of placeholders given? |
//! | `script` | How is a text of several statements run? |
//! | `statement_depth` | How deep may a statement be? |
//! | `with_references` | How often may queries of WITH be read? |
//! | `plan_size` | How large may its plan become? |
//! | `statement_dialect` | In which dialect are statements parsed, and how long may it take? |
//! | `allowlist` | Which statements may run? |
//! | `confined` | What does a session see that is confined to a namespace or user? |
//! | `json_values` | How are values of rows written as JSON? |
//! | `error_message` | What does the user read when a statement fails? |
//! | `planning_message` | What does the user read when its functions and types don't fit? |
//! | `no_lake` | Which tables and functions exist without a lake, or without its grains? |
//! | `select_grains` | Which grains match a condition? |
//! | `file_functions` | `mg_file(path)`, `transcript_file(path)`: a file as a table |
//! | `lineage` | `history(address)`, `provenance(address, depth)` |
//! | `as_of` | `as_of(instant)`: the grains that were current at an instant |
//! | `bitemporal` | `known_at(instant)`, `valid_at(instant[, known])`: transaction and valid time |
//! | `session_limits` | How are threads and memory of a session limited? |
//! | `footer_cache` | Which footers do the versions of a lake share? |
//! | `bounded_pool` | What does DataFusion's memory pool not count? |
//! | `shared_memory` | How do the queries of a server share its memory? |
//! | `bounded_projection` | How are wide results made in small batches? |
//! | `cooperative_operators` | When does a query end that is cancelled? |
//! | `grouping_sets` | How many groups may an aggregate make of a row? |
//! | `sliced_inputs` | How many copies of wide values may an operator make? |
//! | `partitioned_windows` | How many rows does a window function over whole partitions hold? |
//! | `wide_batches` | How many bytes of wide rows do filters, exchanges and joins gather? |
//! | `counted_rows` | How does the memory of an answer's rows count until they are sent? |
//! | `wide_rows` | How many bytes do rows have, and how are batches cut by that? |
//! | `shared_rows` | Which rows are read once for several plans? |
//! | `row_estimate` | How many rows does a plan return? |
//! | `selectivity` | How many of its rows does a condition keep? |
//! | `build_side` | Which side of a join is held in memory? |
//! | `spilling_joins` | What happens if that side doesn't fit? |
//! | `large_joins` | Which joins sort their sides, because other processes run them? |
//! | `spill` | Where do rows go that don't fit in memory? |
//! | `spill_parts` | Why does no repartition wait forever for its spill files? |
//! | `unary_node` | How are operators of ours part of a logical plan? |
//! | `portable` | What of a plan can another process run? |

mod address_lookup;
mod allowlist;
mod as_of;
mod binary_functions;
mod bitemporal;
mod bounded_pool;
mod bounded_projection;
mod build_side;
mod cmf_views;
mod compliance_functions;
mod confined;
pub(crate) mod consent_views;
mod conversation_views;
mod cooperative_operators;
mod cost_functions;
mod counted_rows;
mod deferred_table;
mod describe;
mod error_message;
mod expression_functions;
mod file_errors;
mod file_functions;
mod filtered_search;
#[cfg(test)]
mod first_value;
mod footer_cache;
mod grouping_sets;
mod hybrid;
mod index_only_scan;
mod index_predicate;
mod index_pruning;
mod indexed_file_source;
mod join_keys;
mod json_values;
mod lake_table;
mod large_constants;
mod large_joins;
mod lazy_views;
mod leaf_scan;
pub(crate) mod lifecycle;
mod limited_function;
mod lineage;
mod listed_rows;
mod message_blocks;
mod nested_sort_keys;
mod no_lake;
mod page_index_reader;
mod parameters;
mod partitioned_windows;
mod pass_through;
mod pattern;
mod percentiles;
mod plan_size;
mod planning_message;
mod point_lookup;
mod portable;
mod reference;
mod required_fields;
mod result_sizes;
mod row_estimate;
mod scalar_functions;
mod script;
mod search;
mod search_filter;
mod search_results;
mod select_grains;
mod selectivity;
mod session_limits;
mod shared_memory;
mod shared_rows;
mod size_limits;
mod sliced_inputs;
mod spill;
mod spill_parts;
mod spilling_joins;
mod statement_depth;
mod statement_dialect;
mod step_limits;
mod system_tables;
mod text_concatenation;
mod timed_patterns;
mod type_limits;
mod unary_node;
mod unseal;
mod vectors;
mod views;
mod wide_batches;
mod wide_rows;
mod window_limits;
mod with_references;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::empty::EmptyTable;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionStateBuilder;
use gristmill_engine::index::lifecycle_mask::HiddenRows;
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
#[cfg(feature = "rego")]
pub(crate) use cmf_views::MessageContext;
pub(crate) use confined::without_cause;
pub use confined::{Confinement, HiddenCause, confined_context};
pub use counted_rows::{CountedBatch, CountedRows};
pub use datafusion::common::{ParamValues, ScalarValue};
pub use datafusion::error::DataFusionError;
pub use datafusion::execution::SendableRecordBatchStream;
pub use datafusion::prelude::{DataFrame, SessionContext};
pub use datafusion::sql::parser::Statement;
pub(crate) use error_message::exhausted_message;
pub use error_message::user_message;
use footer_cache::NewestVersion;
pub use indexed_file_source::IndexedFileSource;
pub(crate) use indexed_file_source::index_notes;
pub use json_values::{json_options, json_writer, repeated_column, union_texts};
pub use lake_table::LakeTable;
pub(crate) use lake_table::{RowsByFile, TextMatches, hide_rows, keep_rows};
pub use large_joins::with_spilling_joins;
pub(crate) use lazy_views::register_view;
use lifecycle::{CURRENT, Copies};
pub use no_lake::{context_without_grains, context_without_lake};
pub use page_index_reader::PageIndexReaderFactory;
pub use parameters::{parameter_from_json, parameter_types, parameters_from_json};
pub use portable::{PortableNode, portable_node};
pub use reference::{SqlReference, sql_reference};
pub use script::{
    completions, execute, functions_query, plan_query, query, query_of, statements, tables_query,
};
pub use search::{SearchEnvelope, SearchMode, SearchRequest, SearchResult, search, search_rows};
pub use search_filter::SearchFilter;
pub use select_grains::select_grains;
pub use session_limits::with_small_batches;
pub use shared_memory::{SharedMemory, is_memory_of_others, is_shared_limit};
pub(crate) use shared_rows::{read_consents_once, register_shared_rows, share_view};
pub use size_limits::is_fixed_limit;
pub(crate) use spilling_joins::is_exhausted;
pub use statement_depth::{STACK_BYTES, check_depth};
pub use statement_dialect::StatementDialect;
pub(crate) use unary_node::{UnaryOperator, apply};

/// Settings of a session.
#[derive(Debug, Clone, Default)]
pub struct SqlOptions {
    /// Number of partitions that run concurrently; 0 for one per core.
    pub threads: usize,
    /// Memory limit of sorts, joins and aggregates in bytes; beyond it they spill to disk. `None`
    /// for no limit.
    pub memory: Option<usize>,
    /// Price tables in addition to the shipped one; the last applies where a query names no
    /// version.
    pub prices: Vec<PriceTable>,
    /// Embedder of the texts passed to `vector_search` and `hybrid_search`.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// File access that statements have outside the lake.
    pub files: FileAccess,
}

/// URL under which the lake's object store is registered; its paths are relative to the lake.
pub const LAKE_STORE: &str = "gristmill://lake";

/// Returns a context with the functions that need no lake: scalar and JSON functions, and `mg_file`
/// and `transcript_file` if the options allow them. Unless [`FileAccess::ReadAndWrite`] is set, it
/// has no access to the local file system.
///
/// # Errors
/// [`DataFusionError`] if the runtime can't be created.
pub fn bare_context(options: &SqlOptions) -> Result<SessionContext> {
    bare_context_in(session_limits::runtime_env(options)?, options)
}

/// Does the same in a runtime that exists.
fn bare_context_in(runtime: Arc<RuntimeEnv>, options: &SqlOptions) -> Result<SessionContext> {
    let mut state = SessionStateBuilder::new()
        .with_config(session_limits::session_config(options))
        .with_runtime_env(runtime)
        .with_default_features()
        .with_analyzer_rule(Arc::new(nested_sort_keys::NestedSortKeyRule))
        .with_analyzer_rule(Arc::new(size_limits::SharedSizeRule))
        .with_analyzer_rule(Arc::new(grouping_sets::GroupingSetRule))
        .with_optimizer_rule(Arc::new(large_constants::LargeConstantRule))
        .with_physical_optimizer_rules(build_side::physical_rules(options.memory))
        .with_type_planner(type_limits::planner())
        .with_query_planner(Arc::new(spilling_joins::BoundedJoinPlanner));
    state.expr_planners().get_or_insert_default().splice(
        0..0,
        [
            binary_functions::planner(),
            size_limits::planner(),
            step_limits::planner(),
        ],
    );
    if let Some(memory) = options.memory {
        let planner = window_limits::planner(memory, session_limits::batch_rows(memory));
        state
            .expr_planners()
            .get_or_insert_default()
            .insert(0, planner);
    }
    let mut context = SessionContext::new_with_state(state.build());
    datafusion_functions_json::register_all(&mut context)?;
    scalar_functions::register(&context);
    binary_functions::register(&context);
    size_limits::register(&context)?;
    type_limits::register(&context)?;
    step_limits::register(&context)?;
    timed_patterns::register(&context)?;
    percentiles::register(&context)?;
    context.register_udf(CostUsd::new(&options.prices).into());
    context.register_udf(cost_functions::token_counts());
    context.register_udf(message_blocks::message_blocks());
    context.register_udf(cmf_views::cmf_views());
    compliance_functions::register(&context);
    expression_functions::register(&context);
    file_functions::register(&context, options.files);
    Ok(context)
}

/// Returns a context with all tables, views and functions of `lake`, at the version that the handle
/// has loaded.
///
/// # Errors
/// [`DataFusionError::External`] with the engine's error if a table can't be read.
pub async fn lake_context(lake: &Lake, options: &SqlOptions) -> Result<SessionContext> {
    lake_context_in(session_limits::runtime_env(options)?, lake, options)
}

/// Returns the same for a newer version of the lake of `earlier`, which was made with the same
/// options. Both share memory and spill files, and the cache of footers, so that only the footers
/// of new files are read.
///
/// # Errors
/// As [`lake_context`].
pub async fn newer_context(
    lake: &Lake,
    options: &SqlOptions,
    earlier: &SessionContext,
) -> Result<SessionContext> {
    let newer = lake_context_in(earlier.runtime_env(), lake, options)?;
    footer_cache::forget_removed_files(lake, earlier)?;
    Ok(newer)
}

fn lake_context_in(
    runtime: Arc<RuntimeEnv>,
    lake: &Lake,
    options: &SqlOptions,
) -> Result<SessionContext> {
    let context = bare_context_in(runtime, options)?;
    set_extensions(&context, Copies::in_lake(lake)?, Arc::default());
    let store = ObjectStoreUrl::parse(LAKE_STORE)?;
    let grains = LakeTable::new(lake, lake.grains.clone(), grains_schema(), store)?;
    register_grains(&context, lake, grains, options)?;
    register_stored(&context, lake)?;
    system_tables::register(&context, lake)?;
    register_views(&context, options)?;
    Ok(context)
}

/// Registers the store of `lake` and its stored tables other than `grains`.
fn register_stored(context: &SessionContext, lake: &Lake) -> Result<()> {
    let store = ObjectStoreUrl::parse(LAKE_STORE)?;
    context.register_object_store(store.as_ref(), lake.location().store());
    for (name, table, schema) in [
        (STATE, &lake.state, state_schema()),
        (REJECTS, &lake.rejects, rejects_schema()),
        (AUDIT, &lake.audit, audit_schema()),
    ] {
        let provider = deferred_table::provider(lake, table, schema, store.clone())?;
        context.register_table(name, provider)?;
    }
    let sources: Arc<dyn TableProvider> = match &lake.sources {
        Some(sources) => deferred_table::provider(lake, sources, sources_schema(), store)?,
        None => Arc::new(EmptyTable::new(sources_schema())),
    };
    context.register_table(SOURCES, sources)?;
    Ok(())
}

/// Sets the extensions of sessions whose grains may be `copies`, at `version`.
fn set_extensions(context: &SessionContext, copies: Copies, version: Arc<NewestVersion>) {
    let state = context.state_ref();
    let mut state = state.write();
    let config = state.config_mut();
    config.set_extension(Arc::new(LifecycleCache::default()));
    config.set_extension(Arc::new(copies));
    config.set_extension(version);
}

/// Registers `grains` and the search functions over it.
fn register_grains(
    context: &SessionContext,
    lake: &Lake,
    grains: LakeTable,
    options: &SqlOptions,
) -> Result<()> {
    let grains = Arc::new(grains.with_sidecars(lake));
    if let Some(current) = grains.hiding(HiddenRows::NotCurrent) {
        context.register_table(CURRENT, Arc::new(current))?;
    }
    let source = search_results::GrainSource {
        lake: lake.clone(),
        grains: Arc::clone(&grains),
    };
    search::register(context, &source);
    vectors::register(context, &source, options.embedder.clone());
    context.register_table(GRAINS, grains)?;
    Ok(())
}

/// Registers what is derived from the stored tables, which must be registered already: the views,
/// `as_of`, `history`, `provenance` and `pattern`. A view that is registered as a table already
/// isn't replaced.
pub(crate) fn register_views(context: &SessionContext, options: &SqlOptions) -> Result<()> {
    let has_current = context.table_exist(CURRENT)?;
    let copies = Copies::of(&context.copied_config());
    let views = views::views(copies).filter(|(name, _)| *name != CURRENT || !has_current);
    lazy_views::register(
        context,
        views.chain(conversation_views::views(
            CostUsd::new(&options.prices).default_version(),
        )),
    )?;
    as_of::register(context);
    bitemporal::register(context)?;
    conversation_views::register(context);
    lineage::register(context);
    pattern::register(context);
    Ok(())
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
