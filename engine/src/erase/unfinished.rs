//! Erasures that were begun and not finished: their journals are in the lake, and possibly rows
//! that they have still to remove.

use futures::StreamExt;
use gristmill_schemas::columns::SystemColumn;

use super::journal::JOURNAL;
use crate::error::Result;
use crate::lake::{ERASURES, Lake, LakeLocation, address_at, texts};

/// The column by which rows are found.
const COLUMNS: [&str; 1] = [SystemColumn::ContentAddress.name()];

/// Returns the number of erasures of `lake` that run or were killed.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File).
pub async fn unfinished_erasures(lake: &Lake) -> Result<usize> {
    journals_in(lake.location()).await
}

/// Does the same for the lake at `location`, which may be damaged.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File).
pub(crate) async fn journals_in(location: &LakeLocation) -> Result<usize> {
    let files = location.list(ERASURES).await?;
    let names = files.iter().filter_map(|file| file.location.filename());
    Ok(names.filter(|name| name.ends_with(JOURNAL)).count())
}

/// Returns the number of rows of `grains` that unfinished erasures have still to remove. If there
/// are such erasures, reads a column of all segments, otherwise nothing.
///
/// # Errors
/// Errors of the lake.
pub async fn rows_to_erase(lake: &Lake) -> Result<u64> {
    if unfinished_erasures(lake).await? == 0 {
        return Ok(0);
    }
    let erased = lake.tombstone_set().await?;
    let mut rows = lake.scan(Some(&COLUMNS))?;
    let mut left = 0;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let addresses = texts(&batch, COLUMNS[0]);
        let addresses = (0..batch.num_rows()).filter_map(|row| address_at(addresses, row));
        left += addresses.filter(|address| erased.contains(address)).count() as u64;
    }
    Ok(left)
}
