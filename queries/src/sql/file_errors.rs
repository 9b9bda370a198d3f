//! Errors of damaged files name the file: DataFusion's errors of decoding pages don't.
//!
//! A file is decoded by the morsels that a planner makes for it, so the planner and its morsels are
//! wrapped.

use std::error::Error;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::StreamExt;
use futures::stream::BoxStream;
use gristmill_engine::error::{EngineError, is_of_columnar_file};

use super::external;

/// Returns `error` with the path of the file if reading the file caused it.
pub(super) fn with_file(error: DataFusionError, path: &str) -> DataFusionError {
    if !is_of_columnar_file(error.find_root()) {
        return error;
    }
    let cause: Box<dyn Error + Send + Sync> = match error {
        DataFusionError::ParquetError(cause) => cause,
        DataFusionError::ArrowError(cause, _) => cause,
        DataFusionError::Context(_, inner) => return with_file(*inner, path),
        // It has the path, or is shared with others.
        other => return other,
    };
    external(EngineError::File {
        what: "can't read",
        path: path.to_owned(),
        cause,
    })
}

/// A morselizer whose errors name the file.
#[derive(Debug)]
pub(super) struct NamingMorselizer(pub(super) Box<dyn Morselizer>);

impl Morselizer for NamingMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let path: Arc<str> = file.object_meta.location.to_string().into();
        let planned = self.0.plan_file(file);
        let inner = planned.map_err(|error| with_file(error, &path))?;
        Ok(Box::new(NamingPlanner { inner, path }))
    }
}

#[derive(Debug)]
struct NamingPlanner {
    inner: Box<dyn MorselPlanner>,
    path: Arc<str>,
}

impl MorselPlanner for NamingPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let NamingPlanner { inner, path } = *self;
        let planned = inner.plan().map_err(|error| with_file(error, &path))?;
        Ok(planned.map(|plan| named(plan, path)))
    }
}

/// Returns `plan` with wrapped morsels and planners.
fn named(mut plan: MorselPlan, path: Arc<str>) -> MorselPlan {
    let mut morsels: Vec<Box<dyn Morsel>> = Vec::new();
    for inner in plan.take_morsels() {
        let path = Arc::clone(&path);
        morsels.push(Box::new(NamingMorsel { inner, path }));
    }
    let mut planners: Vec<Box<dyn MorselPlanner>> = Vec::new();
    for inner in plan.take_ready_planners() {
        let path = Arc::clone(&path);
        planners.push(Box::new(NamingPlanner { inner, path }));
    }
    let pending = plan.take_pending_planner();
    let mut named = MorselPlan::new()
        .with_morsels(morsels)
        .with_planners(planners);
    if let Some(pending) = pending {
        named.set_pending_planner(async move {
            let inner = pending.await.map_err(|error| with_file(error, &path))?;
            Ok(Box::new(NamingPlanner { inner, path }) as Box<dyn MorselPlanner>)
        });
    }
    named
}

#[derive(Debug)]
struct NamingMorsel {
    inner: Box<dyn Morsel>,
    path: Arc<str>,
}

impl Morsel for NamingMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let NamingMorsel { inner, path } = *self;
        let rows = inner.into_stream();
        rows.map(move |batch| batch.map_err(|error| with_file(error, &path)))
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use arrow::error::ArrowError;
    use parquet::errors::ParquetError;

    use super::super::user_message;
    use super::*;

    #[test]
    fn only_errors_of_the_content_name_the_file() {
        let path = "grains/part-1.parquet";
        let eof = || ParquetError::EOF("eof decoding byte array".to_owned());
        for damage in [
            DataFusionError::from(eof()),
            DataFusionError::from(ArrowError::from(eof())),
            DataFusionError::from(eof()).context("while scanning"),
        ] {
            let named = with_file(damage, path);
            assert!(
                user_message(&named).starts_with("can't read `grains/part-1.parquet`: "),
                "{named}"
            );
            // The path of an error isn't replaced by that of a caller.
            let again = user_message(&with_file(named, "other.parquet"));
            assert!(!again.contains("other"), "{again}");
        }
        let condition = ArrowError::ComputeError("of a condition".to_owned());
        for other in [
            DataFusionError::from(ArrowError::DivideByZero),
            DataFusionError::from(ParquetError::External(Box::new(condition))),
            DataFusionError::ResourcesExhausted("memory".to_owned()),
        ] {
            let message = user_message(&with_file(other, path));
            assert!(!message.contains("part-1"), "{message}");
        }
    }
}
