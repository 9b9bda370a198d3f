//! `reindex`: rebuilds missing or damaged sidecars, and indexes vectors.

use std::sync::Arc;

use gristmill_engine::index::vectors::files::VectorFiles;
use gristmill_engine::index::vectors::{VectorReport, VectorSource, index_vectors};
use gristmill_engine::index::{ReindexReport, reindex};
use gristmill_engine::lake::Lake;
use serde::Serialize;

use super::CommandContext;
use crate::args::ingest::IndexArg;
use crate::args::maintenance::ReindexArgs;
use crate::exit::{CommandOutcome, Failure};

/// Result of the command.
#[derive(Debug, Serialize)]
struct ReindexOutput {
    #[serde(flatten)]
    sidecars: ReindexReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    vectors: Option<VectorReport>,
}

/// Rebuilds the sidecars of every segment that are not intact, then indexes vectors if requested.
pub async fn run(
    context: &CommandContext,
    arguments: ReindexArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let lake = context.open_lake().await?;
    let source = vector_source(context, &arguments)?;
    let kinds = IndexArg::kinds(arguments.indexes.as_deref());
    #[cfg(feature = "cluster")]
    let on_cluster =
        super::cluster::reindex(context, &arguments.cluster, &lake, kinds, arguments.all).await?;
    #[cfg(not(feature = "cluster"))]
    let on_cluster = None;
    let sidecars = match on_cluster {
        Some(report) => report,
        None => reindex(&lake, kinds, arguments.all).await?,
    };
    let vectors = vectors_of(&lake, source, arguments.all).await?;
    printer.record(&ReindexOutput { sidecars, vectors })?;
    Ok(CommandOutcome::Done)
}

/// Indexes the vectors of `source`, if there is one.
async fn vectors_of(
    lake: &Lake,
    source: Option<VectorSource>,
    all: bool,
) -> Result<Option<VectorReport>, Failure> {
    Ok(match source {
        Some(source) => Some(index_vectors(lake, &source, all).await?),
        None => None,
    })
}

/// Returns the source of the vectors, or `None` if none are requested.
fn vector_source(
    context: &CommandContext,
    arguments: &ReindexArgs,
) -> Result<Option<VectorSource>, Failure> {
    Ok(match (&arguments.vectors[..], arguments.embed) {
        ([], false) => None,
        ([], true) => Some(VectorSource::Embedder(context.embedder()?)),
        (files, _) => {
            let files =
                VectorFiles::read(files).map_err(|error| Failure::usage(error.to_string()))?;
            Some(VectorSource::Files(Arc::new(files)))
        }
    })
}
