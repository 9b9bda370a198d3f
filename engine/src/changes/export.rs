//! Writing a bundle: erasures first, then the grains of each segment that has new rows, then the
//! events of each file that has new ones.

use std::path::PathBuf;
use std::time::Instant;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::TimestampMicrosecondType;
use futures::StreamExt;
use gristmill_connectors::transcript::changes::CHANGE_BUNDLE;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, SystemColumn};
use gristmill_schemas::grain::Field;
use serde::Serialize;

use super::bundle::{BundleHeader, BundleWriter, ChangeLine, ErasedLine, EventLine};
use super::events::each_event;
use super::position::LakePosition;
use crate::error::{Context, EngineError, Result};
use crate::export::{ExportReport, Target, grain_lines};
use crate::lake::{DataFile, Lake, Segment, row_links};
use crate::progress::WorkProgress;

/// The columns of a grain, its supersessions, and the instant of its run.
const COLUMNS: [&str; 7] = [
    SystemColumn::ContentAddress.name(),
    SystemColumn::Encoding.name(),
    SystemColumn::Blob.name(),
    SystemColumn::Envelope.name(),
    Field::CreatedAt.name(),
    SystemColumn::IngestedAt.name(),
    SystemColumn::Supersedes.name(),
];

/// What a bundle contains.
#[derive(Debug, Clone, Serialize)]
pub struct ExportedChanges {
    /// The id of the lake.
    pub lake: String,
    /// The position whose successors it has.
    pub from: String,
    /// The position up to which it has them: the next export starts there.
    pub to: String,
    /// Added grains.
    pub added: u64,
    /// Lifecycle events.
    pub events: u64,
    /// Tombstones of erased grains.
    pub erased: u64,
    /// The size of the bundle in bytes.
    pub bytes: u64,
    /// Its path.
    pub path: String,
    /// Wall-clock time in seconds.
    pub seconds: f64,
}

impl ExportedChanges {
    /// Returns the counts of an export of these grains.
    pub fn as_export(&self) -> ExportReport {
        ExportReport {
            grains: self.added,
            bytes: self.bytes,
            states: self.events,
            seconds: self.seconds,
            ..ExportReport::default()
        }
    }
}

/// Writes what was added to `lake`, closed and erased since `from`, up to the version of the
/// handle. Merging and rewriting of files isn't a change. Rows whose version isn't known, in files
/// of earlier releases, are always written. Memory is bounded by a batch of rows per thread.
///
/// # Errors
/// [`EngineError::Request`] if the lake is older than `from`; [`EngineError::File`] if `out` exists
/// without `overwrite`, can't be written, or a blob doesn't match its address;
/// [`EngineError::Interrupted`]; errors of the lake. An unfinished file is removed.
pub async fn export_changes(
    lake: &Lake,
    from: LakePosition,
    (out, overwrite): (PathBuf, bool),
    threads: usize,
    progress: &WorkProgress,
) -> Result<ExportedChanges> {
    let started = Instant::now();
    let to = LakePosition::of(lake);
    if !to.includes(&from) {
        return Err(EngineError::Request(format!(
            "the lake is at {to}, and has no changes since {from}: that is the position of another \
             lake, or this one was restored from a backup; `--since 0` exports all of it"
        )));
    }
    let target = Target::at(out, overwrite)?;
    let header = BundleHeader {
        format: CHANGE_BUNDLE.to_owned(),
        lake: lake.audit.id(),
        from,
        to,
    };
    let (lake_id, pool) = (header.lake.clone(), thread_pool(threads)?);
    let mut bundle = BundleWriter::begin(target.begin()?, header)?;
    write_erasures(lake, from.erased, &mut bundle).await?;
    for segment in lake.segments()? {
        if may_be_after(&segment.file, from.grains) {
            write_grains(lake, &segment, from.grains, (&mut bundle, &pool), progress).await?;
        }
    }
    for file in lake.state.files()? {
        if may_be_after(&file, from.state) {
            let mut write = |event| bundle.push(&ChangeLine::Event(event));
            each_event(lake, &file, &mut write).await?;
        }
    }
    let (output, end) = bundle.finish()?;
    let file = output.finish(end.added)?;
    Ok(ExportedChanges {
        lake: lake_id,
        from: from.to_string(),
        to: to.to_string(),
        added: end.added,
        events: end.events,
        erased: end.erased,
        bytes: file.bytes,
        path: file.path,
        seconds: started.elapsed().as_secs_f64(),
    })
}

fn thread_pool(threads: usize) -> Result<rayon::ThreadPool> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
    builder.build().threads()
}

/// Returns true if `file` may have rows that were added after `version`.
fn may_be_after(file: &DataFile, version: u64) -> bool {
    let versions = file.versions.as_ref();
    versions.is_none_or(|versions| versions.any_after(version))
}

/// Returns the event of a supersession by the column `supersedes`: the old grain, the new one, and
/// the instant that the fold gives it.
pub(super) fn row_event((old, new, at): (ContentAddress, String, i64)) -> EventLine {
    EventLine {
        content_address: old.to_string(),
        event: LifecycleEvent::Superseded.name().to_owned(),
        value: Some(new),
        at,
        actor: None,
        reason: None,
        source_id: None,
    }
}

/// Writes the tombstones that were added to `lake` after `version`.
pub(super) async fn write_erasures(
    lake: &Lake,
    version: u64,
    bundle: &mut BundleWriter,
) -> Result<()> {
    for file in lake.erased.files()? {
        if !may_be_after(&file, version) {
            continue;
        }
        for row in lake.erased_rows_in(&file).await? {
            bundle.push(&ChangeLine::Erased(ErasedLine {
                key: hex::encode(row.tombstone.key),
                token: hex::encode(row.tombstone.token),
                erasure_id: row.erasure_id,
                at: row.at,
            }))?;
        }
    }
    Ok(())
}

/// Writes the grains of `segment` that were added after `version`, and their supersessions.
async fn write_grains(
    lake: &Lake,
    segment: &Segment,
    version: u64,
    (bundle, pool): (&mut BundleWriter, &rayon::ThreadPool),
    progress: &WorkProgress,
) -> Result<()> {
    let mut rows = lake.scan_segments(vec![segment.clone()], Some(&COLUMNS));
    while let Some(batch) = rows.next().await {
        if progress.is_stopped() {
            return Err(EngineError::Interrupted);
        }
        let batch = rows_after(&batch?, &segment.file, version)?;
        WorkProgress::add(&progress.grains, batch.num_rows() as u64);
        for line in grain_lines(&batch, pool)? {
            bundle.push_grain(&line)?;
        }
        for link in row_links(&batch) {
            bundle.push(&ChangeLine::Event(row_event(link)))?;
        }
    }
    Ok(())
}

/// Returns the rows of `batch`, which are of `file`, that were added after `version`.
fn rows_after(batch: &RecordBatch, file: &DataFile, version: u64) -> Result<RecordBatch> {
    let Some(versions) = &file.versions else {
        return Ok(batch.clone());
    };
    let instants = batch
        .column_by_name(SystemColumn::IngestedAt.name())
        .and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>())
        .ok_or("there is no such column")
        .file("can't export", SystemColumn::IngestedAt.name())?;
    let is_after: BooleanArray = instants
        .iter()
        .map(|instant| Some(instant.is_none_or(|instant| versions.is_after(instant, version))))
        .collect();
    filter_record_batch(batch, &is_after).file("can't filter", "grains")
}
