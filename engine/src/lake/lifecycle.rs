//! The lifecycle state of grains: the fold of `state`, of the supersessions in the grains' own
//! rows, and of those of disclosed copies by their originals.
//!
//! [`LifecycleState`] defines which events count. The views of SQL are equivalent.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, SystemColumn};
use gristmill_schemas::container::IndexState;
use gristmill_schemas::grain::Field;
use gristmill_schemas::lifecycle::{EventEffect, HoldIndex, LifecycleState};

use super::Lake;
use super::cells::{links, text_at, texts};
use super::lake_file::LakeFile;
use crate::error::{Context, Result};

/// The columns of `state` that the fold needs, in the order of the table.
pub(crate) const EVENT_COLUMNS: [&str; 4] = ["content_address", "event", "value", "at"];

/// A row of `state` as the fold reads it.
pub(crate) struct EventRow<'b> {
    pub(crate) address: ContentAddress,
    pub(crate) event: LifecycleEvent,
    pub(crate) value: Option<&'b str>,
    /// Microseconds since 1970.
    pub(crate) at: i64,
}

/// Returns the events in a batch of [`EVENT_COLUMNS`]. Rows with unknown events or invalid
/// addresses are skipped, because they don't concern any grain.
pub(crate) fn events_of(batch: &RecordBatch) -> impl Iterator<Item = EventRow<'_>> {
    let text = |at: usize| batch.column(at).as_string::<i32>();
    let (addresses, events, values) = (text(0), text(1), text(2));
    let instants = batch.column(3).as_primitive::<TimestampMicrosecondType>();
    (0..batch.num_rows()).filter_map(move |row| {
        Some(EventRow {
            address: addresses.value(row).parse().ok()?,
            event: LifecycleEvent::from_name(events.value(row))?,
            value: values.is_valid(row).then(|| values.value(row)),
            at: instants.value(row),
        })
    })
}

impl Lake {
    /// Returns the portable index-layer fields (§11.7) of the grains for which `wanted` is true, at
    /// the version of the handle. Reads all of `state` and the supersessions of all grains, file by
    /// file; only the wanted grains are held in memory.
    ///
    /// That the lake has a disclosed copy and its original isn't among them: it follows from the
    /// grains of each lake.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File),
    /// [`EngineError::Delta`](crate::error::EngineError::Delta).
    pub async fn portable_states(
        &self,
        wanted: impl Fn(&ContentAddress) -> bool,
    ) -> Result<BTreeMap<ContentAddress, IndexState>> {
        let folds = self.recorded_lifecycles(&wanted).await?;
        Ok(folds
            .into_iter()
            .filter_map(|(address, fold)| Some((address, fold.to_index_state()?)))
            .collect())
    }

    /// Returns the lifecycles of the grains for which `wanted` is true and which have any event, at
    /// the version of the handle. Reads as [`Lake::portable_states`] does, and the disclosed
    /// copies.
    ///
    /// # Errors
    /// As [`Lake::portable_states`].
    pub async fn lifecycles(
        &self,
        wanted: impl Fn(&ContentAddress) -> bool,
    ) -> Result<BTreeMap<ContentAddress, LifecycleState>> {
        let mut folds = self.recorded_lifecycles(&wanted).await?;
        let copies = self.copies_with_originals(|copy| wanted(&copy.address));
        for copy in copies.await? {
            let effect = (copy.at, EventEffect::Superseded(copy.original));
            folds.entry(copy.address).or_default().apply(effect);
        }
        Ok(folds)
    }

    /// As [`Lake::lifecycles`], without what follows for disclosed copies.
    async fn recorded_lifecycles(
        &self,
        wanted: impl Fn(&ContentAddress) -> bool,
    ) -> Result<BTreeMap<ContentAddress, LifecycleState>> {
        let mut folds: BTreeMap<ContentAddress, LifecycleState> = BTreeMap::new();
        let note = |batch: RecordBatch| {
            for row in events_of(&batch).filter(|row| wanted(&row.address)) {
                folds
                    .entry(row.address)
                    .or_default()
                    .add(row.event, row.value, row.at);
            }
        };
        self.state.each_batch(&EVENT_COLUMNS, note).await?;
        let segments = self.segments()?.into_iter();
        for segment in segments.filter(|segment| segment.file.superseding != Some(0)) {
            let path = self.grains.path_of(&segment.file.name);
            let file = LakeFile::open(self, &path).await?;
            let superseded = tokio::task::spawn_blocking(move || row_supersessions(&file))
                .await
                .file("can't read", &path)??;
            for (old, new, at) in superseded.into_iter().filter(|(old, ..)| wanted(old)) {
                folds
                    .entry(old)
                    .or_default()
                    .add(LifecycleEvent::Superseded, Some(&new), at);
            }
        }
        Ok(folds)
    }

    /// Returns the holds that were placed on grains or lifted, at the version of the handle. Reads
    /// all of `state`, file by file.
    ///
    /// # Errors
    /// As [`Lake::portable_states`].
    pub async fn holds(&self) -> Result<HoldIndex> {
        let mut holds = HoldIndex::default();
        let note = |batch: RecordBatch| {
            for row in events_of(&batch) {
                holds.add(row.address, row.event, row.value, row.at);
            }
        };
        self.state.each_batch(&EVENT_COLUMNS, note).await?;
        Ok(holds)
    }

    /// Counts the supersessions in the rows of grains, at the version of the handle. Reads one
    /// column of all segments.
    ///
    /// # Errors
    /// As [`Lake::portable_states`].
    pub async fn count_supersessions(&self) -> Result<u64> {
        let mut count = 0;
        for segment in self.segments()? {
            let path = self.grains.path_of(&segment.file.name);
            let file = LakeFile::open(self, &path).await?;
            let columns = [SystemColumn::Supersedes.name()];
            let counting =
                move || file.map_batches(Some(&columns), |_, batch| Ok(supersessions_in(batch)));
            count += tokio::task::spawn_blocking(counting)
                .await
                .file("can't read", &path)??
                .into_iter()
                .sum::<u64>();
        }
        Ok(count)
    }
}

/// Counts the rows of `batch` that supersede others; `None` if it lacks the column. Rows of other
/// segments have no effect on lifecycles.
pub(crate) fn superseding_rows_in(batch: &RecordBatch) -> Option<u64> {
    let column = batch.column_by_name(SystemColumn::Supersedes.name())?;
    Some((batch.num_rows() - column.null_count()) as u64)
}

/// Counts the supersessions in the rows of `batch`.
pub(crate) fn supersessions_in(batch: &RecordBatch) -> u64 {
    let column = batch
        .column_by_name(SystemColumn::Supersedes.name())
        .and_then(|column| column.as_list_opt::<i32>());
    let lists = column.into_iter().flat_map(|lists| lists.iter().flatten());
    lists.map(|superseded| superseded.len() as u64).sum()
}

/// Returns the supersessions in the rows of `file`: the old grain, the new one, and when that was
/// created.
pub(crate) fn row_supersessions(file: &LakeFile) -> Result<Vec<(ContentAddress, String, i64)>> {
    let rows = rows_with(file, SystemColumn::Supersedes.name())?;
    let mut out = Vec::new();
    if rows.is_empty() {
        return Ok(out);
    }
    let [supersedes, address, created, ingested] = [
        SystemColumn::Supersedes.name(),
        SystemColumn::ContentAddress.name(),
        Field::CreatedAt.name(),
        SystemColumn::IngestedAt.name(),
    ];
    let columns = [supersedes, address, created, ingested];
    for batch in file.read_rows(&columns, &rows)? {
        out.extend(row_links(&batch));
    }
    Ok(out)
}

/// Returns the supersessions in the rows of `batch`, as [`row_supersessions`] does. Of the columns
/// that refer to other grains, the batch must have `supersedes` only; with another one instead, the
/// result is the grain that a row refers to, the row's own, and when that was created.
pub(crate) fn row_links(batch: &RecordBatch) -> Vec<(ContentAddress, String, i64)> {
    let instants = |name: &str| {
        batch
            .column_by_name(name)?
            .as_primitive_opt::<TimestampMicrosecondType>()
    };
    let created = instants(Field::CreatedAt.name());
    let ingested = instants(SystemColumn::IngestedAt.name());
    let mut out = Vec::new();
    links(batch, |row, _, old| {
        let at = [created, ingested]
            .into_iter()
            .flatten()
            .find(|column| column.is_valid(row));
        let new = text_at(texts(batch, SystemColumn::ContentAddress.name()), row);
        out.extend(
            new.zip(at)
                .map(|(new, at)| (old, new.to_owned(), at.value(row))),
        );
    });
    out
}

/// Returns the numbers of the rows of `file` with a value in the column `name`. Few grains refer to
/// others by it: the other columns are read only for these rows.
pub(crate) fn rows_with(file: &LakeFile, name: &str) -> Result<Vec<u32>> {
    let rows = file.map_batches(Some(&[name]), |first, batch| {
        let column = batch.column_by_name(name);
        let has_value = |row: &usize| column.is_some_and(|column| column.is_valid(*row));
        Ok((0..batch.num_rows())
            .filter(has_value)
            .map(|row| first + row as u32)
            .collect::<Vec<_>>())
    })?;
    Ok(rows.concat())
}
