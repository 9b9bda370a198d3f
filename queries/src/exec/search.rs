//! What a search has to know of all grains, by a scan.

use arrow::array::{Array, AsArray};
use arrow::datatypes::UInt32Type;
use datafusion::logical_expr::col;
use futures::StreamExt;
use gristmill_engine::text::{Statistics, Terms};

use super::columns::BLOB;
use super::corpus::Corpus;
use super::error::Result;
use super::functions;

/// The statistics of every grain that the session may see, for the words of one search. Reads every grain, holds one batch.
pub(super) async fn statistics(corpus: &Corpus<'_>, terms: &Terms) -> Result<Statistics> {
    let mut statistics = Statistics::new(terms.words().len());
    if terms.is_empty() {
        return Ok(statistics);
    }
    let counts = functions::frequencies(terms.clone()).call(vec![col(BLOB)]);
    let mut batches = corpus.visible().await?.select(vec![counts])?.execute_stream().await?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let lists = batch.column(0).as_list::<i32>();
        for row in (0..lists.len()).filter(|row| lists.is_valid(*row)) {
            let list = lists.value(row);
            let mut numbers = list.as_primitive::<UInt32Type>().values().iter().map(|number| u64::from(*number));
            let length = numbers.next().unwrap_or_default();
            statistics.add(length, numbers);
        }
    }
    Ok(statistics)
}
