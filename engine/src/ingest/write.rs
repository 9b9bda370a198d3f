//! Writing a planned segment: each row group is projected and encoded by one core.

use gristmill_schemas::columns::{GrainBatchBuilder, RowMetadata, grains_schema};
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{Field, Grain, Payload};
use gristmill_schemas::sign::DeliveredGrain;
use rayon::prelude::*;
use std::collections::HashSet;

use super::grain_row::{append_row, envelope_columns};
use super::morsel::AdmittedSource;
use super::plan::SegmentPlan;
use super::prove::{OPENED_GRAINS, ProvenMorsel, ProvenRow, prefetch};
use super::proven_batch::RowRef;
use crate::error::{BoxError, Context, Result};
use crate::index::{IndexBuilder, IndexKinds, SegmentBuilder};
use crate::keys::LakeKeys;
use crate::lake::LakeLocation;
use crate::segment::{
    ADDRESSES_FILE, AddressIndex, ROW_GROUP_ROWS, SegmentId, SidecarFile, WrittenSegment,
};

/// What all rows of a run have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowContext<'k> {
    pub(super) payload_limit: usize,
    /// When the run began, in microseconds since 1970.
    pub(super) now: i64,
    /// The keys with which the rows are encrypted, if they are.
    pub(super) keys: Option<&'k LakeKeys>,
}

/// Writes the segment of `plan`, and its sidecars.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File).
pub(super) fn write(
    location: &LakeLocation,
    morsels: &[ProvenMorsel],
    plan: &SegmentPlan,
    context: RowContext<'_>,
    indexes: IndexKinds,
) -> Result<WrittenSegment> {
    let id = SegmentId::new_sealed(context.keys.is_some());
    let index = IndexBuilder::without_addresses(indexes.of_segment(&id));
    let segment = SegmentBuilder::create(location, id, grains_schema(), index)?;
    let row_groups = cut(morsels, &plan.order, ROW_GROUP_ROWS, ROW_GROUP_BYTES);
    let encode = |(number, places): (usize, &&[RowRef])| {
        encode_row_group(&segment, number, morsels, places, context)
    };
    // Started in the order of their numbers, which the writer prefers. The addresses are known
    // before the rows are written.
    let (written, addresses) = rayon::join(
        || {
            row_groups
                .iter()
                .enumerate()
                .par_bridge()
                .try_for_each(encode)
        },
        || address_index(morsels, plan),
    );
    written.file(SegmentBuilder::WRITING, segment.place())?;
    let mut written = segment.finish_in_parallel()?;
    written
        .sidecars
        .push(SidecarFile::whole(ADDRESSES_FILE, addresses));
    Ok(written)
}

/// Projects, encodes and indexes the rows at `places` as row group `number`.
fn encode_row_group(
    segment: &SegmentBuilder,
    number: usize,
    morsels: &[ProvenMorsel],
    places: &[RowRef],
    context: RowContext<'_>,
) -> Result<(), BoxError> {
    let mut group = segment.file.row_group(number);
    let mut part = segment.index.part()?;
    let mut chunks = cut(morsels, places, CHUNK_ROWS, CHUNK_BYTES).into_iter();
    let mut columns = GrainBatchBuilder::with_capacity(0, 0);
    let mut project_next = || {
        chunks
            .next()
            .map(|chunk| project(morsels, chunk, context, &mut columns))
            .transpose()
    };
    let mut next = project_next()?;
    // While one core encodes a chunk, another may index it, and a third project the next one.
    while let Some(batch) = next {
        let encode = || group.write(&batch);
        let index = || part.add(&batch);
        let ((encoded, indexed), projected) =
            rayon::join(|| rayon::join(encode, index), &mut project_next);
        encoded?;
        indexed?;
        next = projected?;
    }
    if context.keys.is_some() {
        part.set_sealed_copies(columns.sealed_copies());
    }
    let (ended, indexed) = rayon::join(
        || segment.file.close_row_group(group),
        || segment.index.put(number, part),
    );
    indexed?;
    Ok(ended?)
}

/// Returns the bytes of the address index of the segment of `plan`.
pub(super) fn address_index(morsels: &[ProvenMorsel], plan: &SegmentPlan) -> Vec<u8> {
    let rows = plan.order.iter().filter_map(|place| place.resolve(morsels));
    // The iterator has no exact size hint.
    let mut addresses = Vec::with_capacity(plan.order.len());
    addresses.extend(rows.map(|(_, row)| row.address));
    AddressIndex::build(&[addresses])
}

/// Rows that are projected at a time: few enough that their columns are still in the cache when
/// they are encoded.
const CHUNK_ROWS: usize = 4_096;

/// A chunk is closed when it has so many bytes of opened payloads, for the same reason: some grains
/// are large.
const CHUNK_BYTES: u64 = 4 << 20;

/// A row group is closed when it has so many bytes of opened payloads. One core projects it, and
/// the offsets of binary columns are limited to 2 GiB.
const ROW_GROUP_BYTES: u64 = 64 << 20;

/// Cuts the rows into parts of at most `most_rows`. A part ends with the row with which it reaches
/// `most_bytes` of opened payloads.
fn cut<'p>(
    morsels: &[ProvenMorsel],
    order: &'p [RowRef],
    most_rows: usize,
    most_bytes: u64,
) -> Vec<&'p [RowRef]> {
    let mut parts = Vec::new();
    let mut rest = order;
    while !rest.is_empty() {
        let mut bytes = 0;
        let opened = |place: &RowRef| {
            place
                .resolve(morsels)
                .map_or(0, |(_, row)| u64::from(row.opened))
        };
        let rows = rest.iter().take(most_rows).take_while(|place| {
            let fits = bytes < most_bytes;
            bytes += opened(place);
            fits
        });
        let (part, behind) = rest.split_at(rows.count());
        parts.push(part);
        rest = behind;
    }
    parts
}

/// Returns the rows at `places`, in this order. `columns` is empty before and after.
pub(super) fn project(
    morsels: &[ProvenMorsel],
    places: &[RowRef],
    context: RowContext<'_>,
    columns: &mut GrainBatchBuilder,
) -> Result<arrow::array::RecordBatch, BoxError> {
    let extents = places.iter().filter_map(|place| {
        let (morsel, row) = place.resolve(morsels)?;
        morsel.morsel.extent(row.item as usize)
    });
    let bytes = extents.map(|extent| extent.len());
    columns.reserve(places.len(), bytes.sum());
    for places in places.chunks(OPENED_GRAINS) {
        let found = || places.iter().filter_map(|place| place.resolve(morsels));
        // Sorted rows are in random order in the input.
        prefetch(found().map(|(morsel, row)| morsel.morsel.item(row.item as usize)));
        let opened = found()
            .map(|(morsel, row)| ReopenedGrain::open(morsel, row, context))
            .collect::<Result<Vec<_>, _>>()?;
        append(&opened, context, columns)?;
    }
    Ok(columns.finish()?)
}

/// Decodes opened grains and appends their rows.
fn append(
    opened: &[ReopenedGrain<'_>],
    context: RowContext<'_>,
    columns: &mut GrainBatchBuilder,
) -> Result<(), BoxError> {
    if let Some(keys) = context.keys {
        prepare(keys, opened)?;
    }
    each_grain(opened, |found, grain| {
        let (address, blob, identity) = (
            &found.row.address,
            found.delivery.blob(),
            found.identity(context),
        );
        append_row(columns, context.keys, address, blob, grain, &identity)
    })
}

/// Creates the missing keys of all users in `opened` at once.
fn prepare(keys: &LakeKeys, opened: &[ReopenedGrain<'_>]) -> Result<(), BoxError> {
    let mut users: HashSet<Option<String>> = HashSet::new();
    each_grain(opened, |_, grain| {
        users.insert(grain.text(Field::UserId).map(str::to_owned));
        Ok(())
    })?;
    Ok(keys.prepare(users.iter().map(Option::as_deref))?)
}

/// Decodes grains one after another, reusing the memory. They were checked when they were proven.
fn each_grain<'a>(
    opened: &'a [ReopenedGrain<'a>],
    mut take: impl FnMut(&ReopenedGrain<'a>, &Grain<'a>) -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    let mut grain: Option<Grain<'_>> = None;
    for found in opened {
        let grain = match &mut grain {
            Some(grain) => {
                grain.redecode_validated(&found.payload, found.row.marks)?;
                grain
            }
            empty => empty.insert(Grain::decode_validated(&found.payload, found.row.marks)?),
        };
        take(found, grain)?;
    }
    Ok(())
}

/// A proven grain that was opened again to be written.
struct ReopenedGrain<'a> {
    row: &'a ProvenRow,
    source: &'a AdmittedSource,
    delivery: DeliveredGrain<'a>,
    payload: Payload<'a>,
}

impl<'a> ReopenedGrain<'a> {
    fn open(
        morsel: &'a ProvenMorsel,
        row: &'a ProvenRow,
        context: RowContext<'_>,
    ) -> Result<ReopenedGrain<'a>, GrainError> {
        let delivery = DeliveredGrain::open(morsel.morsel.item(row.item as usize))?;
        let payload = Payload::open(delivery.blob(), context.payload_limit)?;
        Ok(ReopenedGrain {
            row,
            source: &morsel.morsel.source,
            delivery,
            payload,
        })
    }

    fn identity(&self, context: RowContext<'_>) -> RowMetadata<'_> {
        RowMetadata {
            source_id: Some(&self.source.id),
            ingested_at: context.now,
            // A blob's own claims aren't trusted. A supersession needs the lifecycle gate, or an
            // export whose versions were all created by this ingest.
            supersedes: self
                .source
                .extras
                .supersessions
                .get(&self.row.address)
                .map_or(&[], Vec::as_slice),
            ..envelope_columns(&self.delivery, self.row.signature)
        }
    }
}
