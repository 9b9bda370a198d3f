//! The check of a lake's segments on a cluster: one row for each segment, in as many parts as tasks.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_plan::ExecutionPlan;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use gristmill_engine::error::EngineError;
use gristmill_engine::verify::{SegmentCheck, SegmentWorkers, VerifyReport};
use gristmill_queries::sql::SessionContext;

use crate::job::Scheduler;
use crate::query::{ClusterQueryExec, cluster_state};
use crate::segment_operator::{SegmentsExec, batch_of, json, schema, texts_of};

/// The executors of a cluster, as workers that check segments.
pub struct ClusterSegments {
    scheduler: Scheduler,
    /// Location of the lake, the same for all processes.
    location: String,
    context: SessionContext,
    partitions: usize,
}

impl ClusterSegments {
    /// Returns the executors of `scheduler` for the lake at `location`: an absolute path, or a URI.
    /// Its segments are checked in at most `partitions` tasks.
    pub fn new(scheduler: &Scheduler, location: &str, partitions: usize) -> ClusterSegments {
        let state = SessionContext::new().state();
        let state = cluster_state(&state, partitions, |local| local);
        ClusterSegments {
            scheduler: scheduler.clone(),
            location: location.to_owned(),
            context: SessionContext::new_with_state(state),
            partitions: partitions.max(1),
        }
    }

    /// Returns the plan that checks each of `checks`.
    fn plan(&self, checks: &[SegmentCheck]) -> Result<Arc<dyn ExecutionPlan>> {
        let numbered: Vec<(usize, &SegmentCheck)> = checks.iter().enumerate().collect();
        let parts = numbered.len().div_ceil(self.partitions).max(1);
        let rows = numbered.chunks(parts).map(|part| {
            let texts = part.iter().map(serde_json::to_string);
            let texts: Vec<String> = texts.collect::<std::result::Result<_, _>>().map_err(json)?;
            Ok(vec![batch_of(texts)?])
        });
        let rows: Vec<Vec<RecordBatch>> = rows.collect::<Result<_>>()?;
        let rows = MemorySourceConfig::try_new_exec(&rows, schema(), None)?;
        Ok(Arc::new(SegmentsExec::new(self.location.clone(), rows)))
    }
}

#[async_trait]
impl SegmentWorkers for ClusterSegments {
    async fn check(
        &self,
        checks: Vec<SegmentCheck>,
    ) -> std::result::Result<
        BoxStream<'static, std::result::Result<(usize, VerifyReport), EngineError>>,
        EngineError,
    > {
        if checks.is_empty() {
            return Ok(stream::empty().boxed());
        }
        let plan = self.plan(&checks).map_err(failed)?;
        let plan = ClusterQueryExec::new(plan, self.scheduler.clone());
        let rows = plan.execute(0, self.context.task_ctx()).map_err(failed)?;
        let reports = rows.map(|batch| {
            let reports = texts_of(&batch?)?
                .map(|text| serde_json::from_str::<(usize, VerifyReport)>(text).map_err(json))
                .collect::<Vec<_>>();
            Ok::<_, DataFusionError>(stream::iter(reports))
        });
        Ok(reports.try_flatten().map_err(failed).boxed())
    }
}

fn failed(cause: DataFusionError) -> EngineError {
    EngineError::Task {
        what: "the check on the cluster".to_owned(),
        cause: Box::new(cause),
    }
}
