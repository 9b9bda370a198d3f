//! What a search has to know of all grains: from the full-text sidecars, and by a scan of the segments that have none.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::UInt32Type;
use datafusion::logical_expr::col;
use datafusion::prelude::DataFrame;
use futures::StreamExt;
use gristmill_engine::text::{Statistics, Terms};

use super::columns::BLOB;
use super::corpus::Corpus;
use super::error::Result;
use super::functions;

/// The statistics of every grain of the lake, for the words of one search. Of a segment without a usable sidecar every grain
/// is read; one batch is held.
pub(super) async fn statistics(corpus: &Corpus<'_>, terms: &Terms) -> Result<Statistics> {
    let mut statistics = Statistics::new(terms.words().len());
    if terms.is_empty() {
        return Ok(statistics);
    }
    let indexed = match corpus.lake_table().await? {
        Some(table) => table.text_statistics(terms).await,
        None => None,
    };
    let unread = match indexed {
        None => Some(corpus.everything().await?),
        Some((known, rest)) => {
            statistics = known;
            (rest.files() > 0).then(|| corpus.context.read_table(Arc::new(rest))).transpose()?
        }
    };
    if let Some(frame) = unread {
        count(frame, terms, &mut statistics).await?;
    }
    Ok(statistics)
}

/// Counts the words of the grains of `frame`. One that can't be read has none, like its document in a sidecar.
async fn count(frame: DataFrame, terms: &Terms, statistics: &mut Statistics) -> Result<()> {
    let counts = functions::frequencies(terms.clone()).call(vec![col(BLOB)]);
    let mut batches = frame.select(vec![counts])?.execute_stream().await?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let lists = batch.column(0).as_list::<i32>();
        for row in 0..lists.len() {
            let list = lists.is_valid(row).then(|| lists.value(row));
            let numbers = list.iter().flat_map(|list| list.as_primitive::<UInt32Type>().values());
            let mut numbers = numbers.map(|number| u64::from(*number));
            let length = numbers.next().unwrap_or_default();
            statistics.add(length, numbers);
        }
    }
    Ok(())
}
