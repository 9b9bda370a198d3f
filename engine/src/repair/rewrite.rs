//! Rewriting a segment with every cell recomputed that follows from a blob.
//!
//! Rows keep their order and their row groups. `blob`, and cells that don't follow from it, are
//! copied; so is every cell of a row whose blob isn't the grain of its address, or whose key was
//! destroyed.

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::kernels::zip::zip;
use arrow::error::ArrowError;
use gristmill_schemas::columns::{SystemColumn, grains_schema};

use super::RepairOptions;
use super::cells::with_proven_addresses;
use super::rows::SegmentDiagnosis;
use crate::error::{Context, Result};
use crate::index::{IndexBuilder, IndexKinds, SegmentBuilder};
use crate::lake::LakeLocation;
use crate::reproject::{Reprojected, Reprojector, RowState};
use crate::segment::{SegmentId, WrittenSegment};
use crate::verify::compare::{AllowedVerdicts, StoredVerdicts, column_of};
use crate::verify::row_group::OpenSegment;

/// Rows that are recomputed at a time.
const BATCH_ROWS: usize = 4_096;

/// A segment to rewrite.
pub(super) struct SegmentRewrite<'r> {
    pub(super) segment: &'r OpenSegment,
    pub(super) diagnosis: &'r SegmentDiagnosis,
    pub(super) options: &'r RepairOptions,
}

impl SegmentRewrite<'_> {
    /// Writes the segment and its sidecars to files that aren't part of the lake yet. Memory holds
    /// one row group.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if the rows can't be read or written.
    pub(super) fn write(&self, location: &LakeLocation) -> Result<WrittenSegment> {
        let id = SegmentId::new_sealed(self.segment.keys.is_some());
        let index = IndexBuilder::new(IndexKinds::ALL.of_segment(&id));
        let new = SegmentBuilder::create(location, id, grains_schema(), index)?;
        for number in 0..self.diagnosis.groups.len() {
            self.write_row_group(number, &new)?;
        }
        new.finish()
    }

    fn write_row_group(&self, number: usize, new: &SegmentBuilder) -> Result<()> {
        let name = &self.segment.name;
        let reader = &self.segment.reader;
        let columns = self.decodable_columns(number);
        let index = self
            .diagnosis
            .index
            .as_deref()
            .filter(|_| self.has_damaged_addresses(number));
        let mut reprojector =
            Reprojector::new(self.options.proof_options(), self.segment.keys.as_deref());
        let mut group = new.file.row_group(number);
        let mut part = new.index.part()?;
        let mut first = self.segment.rows_of(number).start;
        let batches = reader
            .read(number..number + 1, Some(&columns), BATCH_ROWS)
            .file("can't read", name)?;
        for batch in batches {
            let mut batch = batch.file("can't read", name)?;
            if let Some(index) = index {
                batch = with_proven_addresses(&batch, first, index).file("can't read", name)?;
            }
            let made = reprojector.reproject(&batch)?;
            let rows = merged(&batch, &made).file("can't compute the rows of", name)?;
            group
                .write(&rows)
                .file(SegmentBuilder::WRITING, new.place())?;
            part.add(&rows)?;
            first += rows.num_rows() as u64;
        }
        new.file
            .close_row_group(group)
            .file(SegmentBuilder::WRITING, new.place())?;
        new.index.put(number, part)?;
        reader.release(number);
        Ok(())
    }

    /// Returns the columns of row group `number` that can be decoded.
    fn decodable_columns(&self, number: usize) -> Vec<&str> {
        let check = self.diagnosis.groups.get(number);
        let damaged = check
            .and_then(|check| check.undecodable.as_ref())
            .map(|(columns, _)| columns);
        let is_decodable = |column: &&str| {
            damaged.is_none_or(|damaged| !damaged.iter().any(|name| name == column))
        };
        self.segment
            .reader
            .column_names()
            .into_iter()
            .filter(is_decodable)
            .collect()
    }

    /// Returns true if addresses of row group `number` are damaged.
    fn has_damaged_addresses(&self, number: usize) -> bool {
        let is_address = |column: &String| column == SystemColumn::ContentAddress.name();
        self.diagnosis.groups.get(number).is_some_and(|check| {
            check
                .differing
                .iter()
                .any(|(_, columns)| columns.iter().any(is_address))
        })
    }
}

/// Returns the rows of `stored` with the cells of `made` that follow from blobs.
fn merged(stored: &RecordBatch, made: &Reprojected) -> Result<RecordBatch, ArrowError> {
    let schema = grains_schema();
    let is_derived = |state: &RowState| matches!(state, RowState::Derived { .. });
    let derived: BooleanArray = made
        .states
        .iter()
        .map(|state| Some(is_derived(state)))
        .collect();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let columns = names
        .zip(made.batch.columns())
        .enumerate()
        .map(|(place, (name, cells))| {
            let found = column_of(stored, name, place, cells)?;
            merged_column(name, found, cells, made, &derived)
        })
        .collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(schema, columns)
}

/// Returns the column `name`: the stored cells `found` if they don't follow from blobs, and the
/// recomputed `cells` in the `derived` rows otherwise.
fn merged_column(
    name: &str,
    found: Option<ArrayRef>,
    cells: &ArrayRef,
    made: &Reprojected,
    derived: &BooleanArray,
) -> Result<ArrayRef, ArrowError> {
    let identity = SystemColumn::ALL
        .iter()
        .find(|column| column.name() == name);
    let is_copied =
        identity.is_some_and(|column| !column.is_derived() || *column == SystemColumn::Blob);
    let has_all = derived.true_count() == derived.len();
    match found {
        Some(found) if is_copied => Ok(found),
        None if is_copied => Err(ArrowError::SchemaError(format!("no column `{name}`"))),
        Some(found) if identity == Some(&SystemColumn::Signature) => {
            // The validity of a signature that was determined with keys that aren't known here is
            // kept.
            let allowed = AllowedVerdicts {
                made,
                verdicts: StoredVerdicts::Completed,
            };
            let stays = |row: usize| !derived.value(row) || allowed.allows(&found, cells, row);
            let changes: BooleanArray = (0..derived.len()).map(|row| Some(!stays(row))).collect();
            zip(&changes, cells, &found)
        }
        Some(found) if !has_all => zip(derived, cells, &found),
        _ => Ok(cells.clone()),
    }
}
