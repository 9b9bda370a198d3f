//! What a search has to know of all grains: from the full-text sidecars, and by a scan of the
//! segments that have none.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::UInt32Type;
use datafusion::logical_expr::{col, lit};
use datafusion::prelude::DataFrame;
use futures::StreamExt;
use gristmill_engine::index::fulltext::rounded_length;
use gristmill_engine::text::{Statistics, Terms};

use super::blob_functions;
use super::columns::BLOB;
use super::error::Result;
use super::grain_reader::GrainReader;

/// The statistics of the grains that a session looks at, for the words of one search: those of its
/// namespace, or all. A score must not depend on what stands in another namespace: it would tell
/// which words are frequent there. Of a segment without a usable sidecar every grain is read; one
/// batch is held.
pub(super) async fn search_statistics(
    reader: &GrainReader<'_>,
    terms: &Terms,
) -> Result<Statistics> {
    let mut statistics = Statistics::new(terms.words().len());
    if terms.is_empty() {
        return Ok(statistics);
    }
    let namespace = reader.session.namespace.as_deref();
    let indexed = match reader.lake_table().await? {
        Some(table) => {
            table
                .text_statistics(&reader.context.state(), terms, namespace)
                .await
        }
        None => None,
    };
    let unread = match indexed {
        None => Some(reader.everything().await?),
        Some((known, rest)) => {
            statistics = known;
            (rest.files() > 0)
                .then(|| reader.context.read_table(Arc::new(rest)))
                .transpose()?
        }
    };
    match (unread, namespace) {
        (None, _) => {}
        (Some(frame), None) => count(frame, terms, &mut statistics, |length| length).await?,
        // The index keeps the length of one grain rounded; those of a part of the lake are summed
        // up from these.
        (Some(frame), Some(namespace)) => {
            let own = frame.filter(col("namespace").eq(lit(namespace)))?;
            count(own, terms, &mut statistics, rounded_length).await?;
        }
    }
    Ok(statistics)
}

/// Counts the words of the grains of `frame`. One that can't be read has none, like its document in
/// a sidecar.
async fn count(
    frame: DataFrame,
    terms: &Terms,
    statistics: &mut Statistics,
    length_of: impl Fn(u64) -> u64,
) -> Result<()> {
    let counts = blob_functions::frequencies(terms.clone()).call(vec![col(BLOB)]);
    let mut batches = frame.select(vec![counts])?.execute_stream().await?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let lists = batch.column(0).as_list::<i32>();
        for row in 0..lists.len() {
            let list = lists.is_valid(row).then(|| lists.value(row));
            let numbers = list
                .iter()
                .flat_map(|list| list.as_primitive::<UInt32Type>().values());
            let mut numbers = numbers.map(|number| u64::from(*number));
            let length = numbers.next().unwrap_or_default();
            statistics.add(length_of(length), numbers);
        }
    }
    Ok(())
}
