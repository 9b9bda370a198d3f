//! What client, scheduler and executors have in common: functions and settings.

use std::collections::HashMap;
use std::sync::Arc;

use ballista_core::ConfigProducer;
use ballista_core::config::BALLISTA_CLIENT_IO_RETRIES_TIMES;
use ballista_core::extension::SessionConfigExt;
use ballista_core::registry::BallistaFunctionRegistry;
use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{
    AggregateUDF, HigherOrderUDF, ScalarUDF, SimpleScalarUDF, WindowUDF,
};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::physical_plan::PhysicalExtensionCodec;
use gristmill_queries::sql::{SqlOptions, bare_context};

use crate::cluster_key::ClusterKey;

/// The setting for the number of partitions of one task. With more, the tasks of a stage are few.
const PARTITIONS_PER_TASK: &str = "ballista.scheduler.max_partitions_per_task";

/// Number of times that a task requests rows again after an error, three seconds after the last
/// request. That takes longer than the scheduler needs to notice the loss of their executor, so
/// that the query is sent again instead of failing.
const FETCH_RETRIES: usize = 5;

/// The setting for hash joins. Ballista's default are sort-merge joins only, for which both sides
/// are shuffled and sorted. Here the optimizer decides: what is small isn't shuffled.
const PREFER_HASH_JOIN: &str = "datafusion.optimizer.prefer_hash_join";

/// Largest message between processes, in bytes: a plan has the row selections of all its files.
pub(crate) const MESSAGE_BYTES: u32 = 256 << 20;

/// The functions that executors have, by name.
#[derive(Debug)]
pub(crate) struct Functions {
    scalar: HashMap<String, Arc<ScalarUDF>>,
    aggregate: HashMap<String, Arc<AggregateUDF>>,
    window: HashMap<String, Arc<WindowUDF>>,
    higher_order: HashMap<String, Arc<HigherOrderUDF>>,
}

impl Functions {
    /// Returns them.
    ///
    /// # Errors
    /// [`DataFusionError`](datafusion::error::DataFusionError) if no session can be created.
    pub(crate) fn of_executors() -> Result<Functions> {
        let state = bare_context(&SqlOptions::default())?.state();
        Ok(Functions {
            scalar: state.scalar_functions().clone(),
            aggregate: state.aggregate_functions().clone(),
            window: state.window_functions().clone(),
            higher_order: state.higher_order_functions().clone(),
        })
    }

    /// Returns true if executors have this function, not another one of its name.
    pub(crate) fn has_scalar(&self, function: &ScalarUDF) -> bool {
        let known = self.scalar.get(function.name());
        known.is_some_and(|known| **known == *function || is_the_same_simple(known, function))
    }

    /// Returns true if executors have this function, not another one of its name.
    pub(crate) fn has_aggregate(&self, function: &AggregateUDF) -> bool {
        let known = self.aggregate.get(function.name());
        known.is_some_and(|known| **known == *function)
    }

    /// Returns the registry of an executor.
    pub(crate) fn into_registry(self) -> BallistaFunctionRegistry {
        BallistaFunctionRegistry {
            scalar_functions: self.scalar,
            aggregate_functions: self.aggregate,
            window_functions: self.window,
            higher_order_functions: self.higher_order,
        }
    }
}

/// Returns true if both functions, which have one name, are simple ones: such a function has no
/// parameters, and each session makes its own, so that they are never equal.
fn is_the_same_simple(one: &ScalarUDF, other: &ScalarUDF) -> bool {
    one.inner().is::<SimpleScalarUDF>() && other.inner().is::<SimpleScalarUDF>()
}

/// Returns `config` with the settings that Ballista needs: plans have no filters that are filled
/// while they run and no round-robin distribution.
pub(crate) fn cluster_config(
    config: SessionConfig,
    codec: Arc<dyn PhysicalExtensionCodec>,
) -> SessionConfig {
    config
        .upgrade_for_ballista()
        .with_ballista_physical_extension_codec(codec)
        .with_ballista_grpc_client_max_message_size(MESSAGE_BYTES as usize)
        .set_usize(PARTITIONS_PER_TASK, 1)
        .set_usize(BALLISTA_CLIENT_IO_RETRIES_TIMES, FETCH_RETRIES)
        .set_bool(PREFER_HASH_JOIN, true)
}

/// Returns the producer of the configuration of a process, which the settings of each query change.
/// With `key`, it connects to others as a member.
pub(crate) fn config_producer(
    codec: Arc<dyn PhysicalExtensionCodec>,
    key: Option<&ClusterKey>,
) -> ConfigProducer {
    let endpoints = key.map(ClusterKey::endpoints);
    Arc::new(move || {
        let config = cluster_config(SessionConfig::new(), Arc::clone(&codec));
        match &endpoints {
            Some(endpoints) => {
                config.with_ballista_override_create_grpc_client_endpoint(Arc::clone(endpoints))
            }
            None => config,
        }
    })
}

/// Returns the state of a session of the scheduler with the functions of `context`.
pub(crate) fn scheduler_state(context: &SessionContext, config: SessionConfig) -> SessionState {
    SessionStateBuilder::new_from_existing(context.state())
        .with_config(config)
        .build()
}
