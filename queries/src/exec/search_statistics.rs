//! Corpus statistics of a full-text search (document count, document frequencies, lengths): from
//! the full-text sidecars, and by a scan of the segments without one.

use std::sync::Arc;

use arrow::array::{Array, AsArray, ListArray};
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

/// Returns the statistics of the grains that a session may see, for the terms of one search.
///
/// A session with a namespace uses the statistics of that namespace only: otherwise its scores
/// would reveal which words are frequent in others. Every grain of a segment without a usable
/// sidecar is read; memory holds one batch.
pub(super) async fn search_statistics(
    reader: &GrainReader<'_>,
    terms: &Terms,
) -> Result<Statistics> {
    let mut statistics = Statistics::new(terms.words().len());
    if terms.is_empty() {
        return Ok(statistics);
    }
    let namespace = reader.session.namespace.as_deref();
    let unindexed = match indexed_statistics(reader, terms, namespace).await? {
        Some((indexed, unindexed)) => {
            statistics = indexed;
            unindexed
        }
        None => Some(reader.everything().await?),
    };
    if let Some(frame) = unindexed {
        add_visible_counts(frame, terms, namespace, &mut statistics).await?;
    }
    Ok(statistics)
}

/// Adds the counts of the grains of `frame` that a session with `namespace` may see.
async fn add_visible_counts(
    frame: DataFrame,
    terms: &Terms,
    namespace: Option<&str>,
    statistics: &mut Statistics,
) -> Result<()> {
    match namespace {
        None => add_counts(frame, terms, statistics, |length| length).await,
        // The index keeps rounded lengths. The lengths of a namespace are sums of these, so the
        // scanned ones are rounded too.
        Some(namespace) => {
            let visible = frame.filter(col("namespace").eq(lit(namespace)))?;
            add_counts(visible, terms, statistics, rounded_length).await
        }
    }
}

/// Returns the statistics of the indexed segments and a plan of the others, if there are any;
/// `None` if no index can be used.
async fn indexed_statistics(
    reader: &GrainReader<'_>,
    terms: &Terms,
    namespace: Option<&str>,
) -> Result<Option<(Statistics, Option<DataFrame>)>> {
    let Some(table) = reader.lake_table().await? else {
        return Ok(None);
    };
    let state = reader.context.state();
    let Some((statistics, rest)) = table.text_statistics(&state, terms, namespace).await else {
        return Ok(None);
    };
    let unindexed = (rest.files() > 0)
        .then(|| reader.context.read_table(Arc::new(rest)))
        .transpose()?;
    Ok(Some((statistics, unindexed)))
}

/// Adds the word counts of the grains of `frame`. An unreadable grain counts as an empty one, as in
/// a sidecar.
async fn add_counts(
    frame: DataFrame,
    terms: &Terms,
    statistics: &mut Statistics,
    length_of: impl Fn(u64) -> u64,
) -> Result<()> {
    let counts = blob_functions::frequencies(terms.clone()).call(vec![col(BLOB)]);
    let mut batches = frame.select(vec![counts])?.execute_stream().await?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        add_batch(batch.column(0).as_list::<i32>(), statistics, &length_of);
    }
    Ok(())
}

/// Adds lists of one length and the counts of the terms.
fn add_batch(lists: &ListArray, statistics: &mut Statistics, length_of: &impl Fn(u64) -> u64) {
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
