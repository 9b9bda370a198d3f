//! Repair of columns: segments with cells that differ from the projection of their blobs are
//! rewritten.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, StringArray};
use gristmill_schemas::columns::{GRAINS, SystemColumn};
use rayon::prelude::*;

use super::cells::{proven_rows, sources_of};
use super::report::{RepairReport, Repaired, Unrepaired};
use super::rewrite::SegmentRewrite;
use super::row_quality::{RowQualities, qualities_of};
use super::{RepairOptions, sidecars};
use crate::error::{Context, Result};
use crate::file_digest::FileDigest;
use crate::index::SidecarCache;
use crate::lake::{Change, Lake, Segment, remedy_of_lost_file};
use crate::progress::WorkProgress;
use crate::reproject::ORIGINS;
use crate::segment::{AddressIndex, SegmentReader, WrittenSegment};
use crate::verify::compare::StoredVerdicts;
use crate::verify::open_segment;
use crate::verify::row_group::{OpenSegment, RowGroupCheck};
use crate::verify::stated::SegmentStatement;

/// The remedy for a blob that isn't the grain of its address.
const RESTORE_BLOB: &str =
    "restore the file from a backup; the grain is also in its source, whose BLAKE3 is `source_id`";

/// The remedy for cells that don't follow from a blob.
const RESTORE_CELLS: &str =
    "restore the file from a backup: these cells follow from nothing else in the lake";

/// Rewrites every segment with cells that follow from a blob and differ from it. Returns what is
/// known of the rows of segments whose files are what was written.
pub(super) async fn repair(
    lake: &mut Lake,
    options: &RepairOptions,
    progress: &Arc<WorkProgress>,
    report: &mut RepairReport,
) -> Result<RowQualities> {
    let mut qualities = RowQualities::default();
    for segment in lake.segments()? {
        if progress.is_stopped() {
            return Ok(qualities);
        }
        let Some((opened, digest)) = open(lake, &segment, report).await? else {
            continue;
        };
        let diagnosis = diagnose(lake, &segment, &opened, options).await?;
        WorkProgress::add(&progress.grains, segment.file.rows);
        WorkProgress::add(&progress.bytes, segment.file.size);
        diagnosis.list(&opened, report);
        let rows = qualities_of(&diagnosis);
        let has_other_bytes = segment
            .file
            .digest
            .is_some_and(|expected| expected != digest);
        if !has_other_bytes {
            qualities.add(segment.file.name.clone(), Arc::clone(&rows));
        }
        match diagnosis.is_repairable() {
            true if options.dry_run => {}
            true => {
                let written = write(lake, &segment, opened, diagnosis, options).await?;
                qualities.add(written.id.file_name(), rows);
                replace(lake, &segment, written).await?;
            }
            false if has_other_bytes && diagnosis.is_sound() => {
                let written = write(lake, &segment, opened, diagnosis, options).await?;
                qualities.add(written.id.file_name(), rows);
                restore(lake, &segment, written, options, report).await?;
            }
            false => {}
        }
    }
    Ok(qualities)
}

async fn diagnose(
    lake: &Lake,
    segment: &Segment,
    opened: &OpenSegment,
    options: &RepairOptions,
) -> Result<SegmentDiagnosis> {
    let (sidecars, location) = (SidecarCache::of(lake), lake.location());
    let index = match sidecars.confirm(location, segment).await {
        Ok(()) => sidecars.addresses(location, segment).await,
        Err(_) => None,
    };
    let (opened, options) = (opened.clone(), options.clone());
    tokio::task::spawn_blocking(move || SegmentDiagnosis::of(&opened, index, &options))
        .await
        .task(&segment.file.name)
}

/// Returns the entry of a data file with `rows` rows that can't be opened.
fn lost_file(file: String, rows: u64, reason: &str) -> Unrepaired {
    Unrepaired {
        table: GRAINS,
        file,
        row: None,
        rows: Some(rows),
        content_address: None,
        source_id: None,
        reason: format!("{reason}; its sidecars can't be checked until it is restored"),
        remedy: remedy_of_lost_file(GRAINS),
    }
}

/// Opens the data file of `segment` and computes its digest. Returns `None`, with an entry in
/// `report`, if it can't be opened.
async fn open(
    lake: &Lake,
    segment: &Segment,
    report: &mut RepairReport,
) -> Result<Option<(OpenSegment, FileDigest)>> {
    let path = lake.grains.path_of(&segment.file.name);
    let keys = lake.keys_to_check(&segment.file.name)?;
    match open_file(lake, segment).await? {
        Ok((reader, digest)) => Ok(Some((
            OpenSegment {
                reader,
                keys,
                name: path.as_ref().into(),
                verdicts: StoredVerdicts::Completed,
                stated: SegmentStatement::default(),
            },
            digest,
        ))),
        Err(reason) => {
            report.unreadable.insert(segment.file.name.clone());
            report.unrepaired(lost_file(path.to_string(), segment.file.rows, &reason));
            Ok(None)
        }
    }
}

/// Opens the data file of `segment` and computes its digest, or returns why the file is unusable.
pub(super) async fn open_file(
    lake: &Lake,
    segment: &Segment,
) -> Result<std::result::Result<(SegmentReader, FileDigest), String>> {
    let path = lake.grains.path_of(&segment.file.name);
    match lake.location().read(&path).await {
        Ok(bytes) => {
            let digest = FileDigest::of(&bytes);
            Ok(open_segment(bytes, segment).map(|reader| (reader, digest)))
        }
        Err(error) if error.is_not_found() => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// What is wrong with the rows of a segment.
pub(super) struct SegmentDiagnosis {
    /// The checks of the row groups.
    pub(super) groups: Vec<RowGroupCheck>,
    /// Maps hashes of blobs to rows, so that damaged addresses aren't mistaken for damaged blobs.
    pub(super) index: Option<Arc<AddressIndex>>,
}

impl SegmentDiagnosis {
    fn of(
        segment: &OpenSegment,
        index: Option<Arc<AddressIndex>>,
        options: &RepairOptions,
    ) -> SegmentDiagnosis {
        let groups = 0..segment.reader.row_groups();
        let check = |number| segment.check(number, options.proof_options());
        let mut groups: Vec<RowGroupCheck> = groups.into_par_iter().map(check).collect();
        if let Some(index) = index.as_deref().filter(|_| segment.keys.is_none()) {
            groups
                .iter_mut()
                .enumerate()
                .for_each(|(number, group)| readdress(segment, number, index, group));
        }
        SegmentDiagnosis { groups, index }
    }

    /// Returns true if the rows show no damage.
    fn is_sound(&self) -> bool {
        self.groups
            .iter()
            .all(|group| !needs_repair(group) && group.failed.is_empty())
    }

    /// Returns true if something can be repaired, and no row group would lose rows.
    pub(super) fn is_repairable(&self) -> bool {
        self.groups.iter().any(needs_repair) && self.groups.iter().all(can_be_written)
    }

    /// Lists what will be repaired and what can't be.
    fn list(&self, segment: &OpenSegment, report: &mut RepairReport) {
        let is_repairable = self.is_repairable();
        for (number, group) in self.groups.iter().enumerate() {
            list_undecodable(segment, number, group, report);
            list_failed(segment, number, group, report);
            for (rows, columns) in damaged_cells(group) {
                match is_repairable {
                    true => list_repaired(segment, &rows, columns, report),
                    false => list_unrepaired(segment, &rows, &columns, report),
                }
            }
        }
        report.segments_rewritten += u64::from(is_repairable);
    }
}

/// Returns the entry of a problem with the rows of `segment` from `row` on.
fn unrepaired(segment: &OpenSegment, row: u64, reason: String, remedy: &'static str) -> Unrepaired {
    Unrepaired {
        row: Some(row),
        ..Unrepaired::file(GRAINS, segment.name.to_string(), reason, remedy)
    }
}

/// Lists the columns of a row group that can't be decoded, if that prevents its repair.
fn list_undecodable(
    segment: &OpenSegment,
    number: usize,
    group: &RowGroupCheck,
    report: &mut RepairReport,
) {
    let undecodable = group
        .undecodable
        .as_ref()
        .filter(|_| !can_be_written(group));
    let Some((columns, cause)) = undecodable else {
        return;
    };
    let columns = match columns.is_empty() {
        true => "its columns".to_owned(),
        false => columns.join(", "),
    };
    let reason = format!("{columns} of row group {number} can't be decoded: {cause}");
    report.unrepaired(Unrepaired {
        rows: Some(length(&group.rows)),
        source_id: sources_of(segment, number).and_then(|sources| only_value(&sources)),
        ..unrepaired(segment, group.rows.start, reason, RESTORE_CELLS)
    });
}

/// Lists the rows of a row group whose blob isn't the grain of their address.
fn list_failed(
    segment: &OpenSegment,
    number: usize,
    group: &RowGroupCheck,
    report: &mut RepairReport,
) {
    if group.failed.is_empty() {
        return;
    }
    let sources = sources_of(segment, number);
    for failed in &group.failed {
        report.unrepaired(Unrepaired {
            content_address: failed.content_address.clone(),
            source_id: sources
                .as_ref()
                .and_then(|sources| value(sources, failed.row - group.rows.start)),
            ..unrepaired(segment, failed.row, failed.error.to_string(), RESTORE_BLOB)
        });
    }
}

/// Lists cells that will be recomputed.
fn list_repaired(
    segment: &OpenSegment,
    rows: &Range<u64>,
    columns: Vec<String>,
    report: &mut RepairReport,
) {
    report.rows += length(rows);
    for column in &columns {
        *report.columns.entry(column.clone()).or_default() += length(rows);
    }
    report.repaired(Repaired {
        table: GRAINS,
        file: segment.name.to_string(),
        row: Some(rows.start),
        rows: Some(length(rows)),
        columns,
        what: "columns were computed from the blobs",
    });
}

/// Lists damaged cells of a segment that can't be rewritten.
fn list_unrepaired(
    segment: &OpenSegment,
    rows: &Range<u64>,
    columns: &[String],
    report: &mut RepairReport,
) {
    let reason = format!(
        "{} differ from the blobs, and other rows of the file can't be read",
        columns.join(", ")
    );
    report.unrepaired(Unrepaired {
        rows: Some(length(rows)),
        ..unrepaired(segment, rows.start, reason, RESTORE_CELLS)
    });
}

/// Returns the cells of a row group that follow from blobs and are damaged.
fn damaged_cells(group: &RowGroupCheck) -> Vec<(Range<u64>, Vec<String>)> {
    let undecodable = group.undecodable.as_ref().filter(|_| can_be_written(group));
    let undecodable = undecodable.map(|(columns, _)| (group.rows.clone(), columns.clone()));
    undecodable
        .into_iter()
        .chain(group.differing.iter().cloned())
        .collect()
}

/// Returns true if a row group has cells to recompute.
pub(super) fn needs_repair(group: &RowGroupCheck) -> bool {
    !group.differing.is_empty() || group.undecodable.is_some()
}

/// Returns true if the blobs, and the cells that don't follow from them, can be read.
fn can_be_written(group: &RowGroupCheck) -> bool {
    let Some((columns, _)) = &group.undecodable else {
        return true;
    };
    let is_needed = |column: &String| {
        let identity = SystemColumn::ALL
            .iter()
            .find(|identity| identity.name() == column);
        // A grain's marks follow from it. They only state beforehand how it is to be read.
        let is_origin = ORIGINS.contains(&column.as_str()) && *column != SystemColumn::Marks.name();
        is_origin || identity.is_some_and(|identity| !identity.is_derived())
    };
    !columns.is_empty() && !columns.iter().any(is_needed)
}

/// Returns the value of `column` in `row`.
fn value(column: &StringArray, row: u64) -> Option<String> {
    let row = usize::try_from(row)
        .ok()
        .filter(|row| *row < column.len() && column.is_valid(*row))?;
    Some(column.value(row).to_owned())
}

/// Returns the value of `column`, if all rows have the same.
fn only_value(column: &StringArray) -> Option<String> {
    let values: BTreeSet<&str> = column.iter().flatten().collect();
    values
        .first()
        .filter(|_| values.len() == 1)
        .map(|value| (*value).to_owned())
}

fn length(rows: &Range<u64>) -> u64 {
    rows.end - rows.start
}

/// Moves rows from `failed` whose blob has another hash than their address, but to which the
/// address index leads from that hash: their addresses are damaged, not their blobs.
fn readdress(
    segment: &OpenSegment,
    number: usize,
    index: &AddressIndex,
    group: &mut RowGroupCheck,
) {
    if group.failed.is_empty() {
        return;
    }
    let rows: BTreeSet<u64> = group.failed.iter().map(|failed| failed.row).collect();
    let found = proven_rows(segment, number, index, &rows);
    group.failed.retain(|failed| !found.contains(&failed.row));
    let column = || vec![SystemColumn::ContentAddress.name().to_owned()];
    group
        .differing
        .extend(found.into_iter().map(|row| (row..row + 1, column())));
    group.differing.sort_by_key(|(rows, _)| rows.start);
}

/// Rewrites `segment` with recomputed cells, to files that aren't part of the lake yet.
async fn write(
    lake: &Lake,
    segment: &Segment,
    opened: OpenSegment,
    diagnosis: SegmentDiagnosis,
    options: &RepairOptions,
) -> Result<WrittenSegment> {
    let (location, own) = (lake.location().clone(), options.clone());
    let rewrite = move || {
        SegmentRewrite {
            segment: &opened,
            diagnosis: &diagnosis,
            options: &own,
        }
        .write(&location)
    };
    tokio::task::spawn_blocking(rewrite)
        .await
        .task(&segment.file.name)?
}

/// Replaces `segment` by what was written.
async fn replace(lake: &mut Lake, segment: &Segment, written: WrittenSegment) -> Result<()> {
    let mut change = Change {
        changes_rows: true,
        removed: vec![segment.file.clone()],
        ..Change::default()
    };
    let id = written.id.clone();
    let vectors = sidecars::copied_vectors(lake, segment).await?;
    let binding = written.binding()?;
    lake.publish_segment(&mut change, written).await?;
    crate::lake::publish_sidecars(lake.location(), &id, &binding, vectors).await?;
    lake.grains.commit(change, "repair", 0).await?;
    Ok(())
}

/// Repairs a file whose rows are all right and whose digest differs from the log. If its rows,
/// encoded again, have that digest, they are proven to be those that were written, and the damaged
/// bytes contained no cell. Otherwise it isn't known what differs.
async fn restore(
    lake: &mut Lake,
    segment: &Segment,
    written: WrittenSegment,
    options: &RepairOptions,
    report: &mut RepairReport,
) -> Result<()> {
    let file = lake.grains.path_of(&segment.file.name).to_string();
    if Some(written.file.digest) != segment.file.digest {
        let reason = "the file's digest isn't that in the log, and all cells that follow from \
                      blobs are right: what differs is `source_id`, `ingested_at`, `supersedes`, \
                      or bytes that contain no cell";
        report.unrepaired(Unrepaired {
            table: GRAINS,
            file,
            row: None,
            rows: Some(segment.file.rows),
            content_address: None,
            source_id: None,
            reason: reason.to_owned(),
            remedy: RESTORE_CELLS,
        });
        return Ok(());
    }
    let what = "the rows were encoded again, to the bytes whose digest is in the log";
    let (row, rows, columns) = (None, Some(segment.file.rows), Vec::new());
    report.repaired(Repaired {
        table: GRAINS,
        file,
        row,
        rows,
        columns,
        what,
    });
    report.segments_rewritten += 1;
    match options.dry_run {
        true => Ok(()),
        false => replace(lake, segment, written).await,
    }
}
