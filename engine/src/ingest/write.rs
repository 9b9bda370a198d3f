//! Writing a planned segment: each row group projected and encoded by one core.

use gristmill_schemas::columns::{GrainColumns, RowIdentity, grains_schema};
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{Field, Grain, Payload};
use gristmill_schemas::sign::Delivery;
use rayon::prelude::*;
use std::collections::HashSet;

use super::morsel::Admitted;
use super::plan::Plan;
use super::prove::{OPENED_GRAINS, ProvenMorsel, ProvenRow, bring_into_cache};
use super::proven::Place;
use crate::error::{Context, Result};
use crate::index::{IndexBuilder, IndexKinds};
use crate::keys::LakeKeys;
use crate::lake::LakeLocation;
use crate::segment::{
    ADDRESSES_FILE, AddressIndex, ROW_GROUP_ROWS, SegmentFile, SegmentId, SidecarFile,
    WrittenSegment, grains_properties,
};

/// What is the same for all rows of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'k> {
    pub(super) payload_limit: usize,
    /// Microseconds since 1970.
    pub(super) now: i64,
    /// What the rows are sealed with, if they are.
    pub(super) keys: Option<&'k LakeKeys>,
}

/// Writes the segment that `plan` describes, and its sidecars.
pub(super) fn write(
    location: &LakeLocation,
    morsels: &[ProvenMorsel],
    plan: &Plan,
    run: Run<'_>,
    indexes: IndexKinds,
) -> Result<WrittenSegment> {
    let id = SegmentId::new_sealed(run.keys.is_some());
    let data = location.scratch_file()?;
    let file = SegmentFile::create(&data, grains_schema(), grains_properties())
        .file("can't write the segment", id.as_str())?;
    let builder = IndexBuilder::without_addresses(indexes.of_segment(&id));
    let row_groups = cut(morsels, &plan.order, ROW_GROUP_ROWS, ROW_GROUP_BYTES);
    let encode = |(number, places): (usize, &&[Place])| -> Result<(), Fault> {
        let mut group = file.row_group(number);
        let mut part = builder.part()?;
        let mut chunks = cut(morsels, places, CHUNK_ROWS, CHUNK_BYTES).into_iter();
        let mut columns = GrainColumns::with_capacity(0, 0);
        let mut project_next = || {
            chunks
                .next()
                .map(|chunk| project(morsels, chunk, run, &mut columns))
                .transpose()
        };
        let mut next = project_next()?;
        // While one core encodes a chunk, another may index it, and a third project the one after.
        while let Some(batch) = next {
            let encode = || group.write(&batch);
            let index = || part.add(&batch);
            let ((encoded, indexed), projected) =
                rayon::join(|| rayon::join(encode, index), &mut project_next);
            encoded?;
            indexed?;
            next = projected?;
        }
        let (ended, indexed) =
            rayon::join(|| file.end_row_group(group), || builder.put(number, part));
        indexed?;
        Ok(ended?)
    };
    // Begun in the order of their numbers, as the file likes it. Which address stands in which row
    // is known before any of them is written.
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
    written.file("can't write the segment", id.as_str())?;
    let (file, mut sidecars) = rayon::join(|| file.finish(), || builder.finish());
    sidecars.push(SidecarFile::whole(ADDRESSES_FILE, addresses));
    let file = file.file("can't write the segment", id.as_str())?;
    Ok(WrittenSegment {
        id,
        data,
        file,
        sidecars,
    })
}

/// The bytes of the address index of the segment that `plan` describes.
pub(super) fn address_index(morsels: &[ProvenMorsel], plan: &Plan) -> Vec<u8> {
    let rows = plan.order.iter().filter_map(|place| place.of(morsels));
    // An iterator that may leave some out doesn't say how many come.
    let mut addresses = Vec::with_capacity(plan.order.len());
    addresses.extend(rows.map(|(_, row)| row.address));
    AddressIndex::build(&[addresses])
}

/// Rows that are projected at a time: few enough that their columns are still in the cache when
/// they are encoded.
const CHUNK_ROWS: usize = 4_096;

/// Bytes of opened payloads from which on no more rows are projected at a time, for the same
/// reason: some grains are large.
const CHUNK_BYTES: u64 = 4 << 20;

/// Bytes of opened payloads in a row group from which on it is closed: what one core projects at a
/// time, and far below what the offsets of a column reach.
const ROW_GROUP_BYTES: u64 = 64 << 20;

/// Cuts the rows into parts of at most `most_rows`, each of which ends with the row that takes it
/// to `most_bytes` of opened payloads.
fn cut<'p>(
    morsels: &[ProvenMorsel],
    order: &'p [Place],
    most_rows: usize,
    most_bytes: u64,
) -> Vec<&'p [Place]> {
    let mut parts = Vec::new();
    let mut rest = order;
    while !rest.is_empty() {
        let mut bytes = 0;
        let opened = |place: &Place| {
            place
                .of(morsels)
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

pub(super) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// The rows at `places`, in this order; `columns` are without rows before and after.
pub(super) fn project(
    morsels: &[ProvenMorsel],
    places: &[Place],
    run: Run<'_>,
    columns: &mut GrainColumns,
) -> Result<arrow::array::RecordBatch, Fault> {
    let extents = places.iter().filter_map(|place| {
        let (morsel, row) = place.of(morsels)?;
        morsel.morsel.extent(row.item as usize)
    });
    let bytes = extents.map(|extent| extent.len());
    columns.reserve(places.len(), bytes.sum());
    for places in places.chunks(OPENED_GRAINS) {
        let found = || places.iter().filter_map(|place| place.of(morsels));
        // Sorted rows lie anywhere in the input.
        bring_into_cache(found().map(|(morsel, row)| morsel.morsel.item(row.item as usize)));
        let opened = found()
            .map(|(morsel, row)| Opened::again(morsel, row, run))
            .collect::<Result<Vec<_>, _>>()?;
        append(&opened, run, columns)?;
    }
    Ok(columns.finish()?)
}

/// Decodes grains that were opened and adds their rows.
fn append(opened: &[Opened<'_>], run: Run<'_>, columns: &mut GrainColumns) -> Result<(), Fault> {
    if let Some(keys) = run.keys {
        prepare(keys, opened)?;
    }
    each_grain(opened, |found, grain| {
        let (address, blob, identity) = (
            &found.row.address,
            found.delivery.blob(),
            found.identity(run),
        );
        match run.keys {
            Some(keys) => keys.append(columns, address, blob, grain, &identity)?,
            None => columns.append(address, blob, grain, &identity),
        }
        Ok(())
    })
}

/// Makes the keys of all users in `opened` at once.
fn prepare(keys: &LakeKeys, opened: &[Opened<'_>]) -> Result<(), Fault> {
    let mut users: HashSet<Option<String>> = HashSet::new();
    each_grain(opened, |_, grain| {
        users.insert(grain.text(Field::UserId).map(str::to_owned));
        Ok(())
    })?;
    Ok(keys.prepare(users.iter().map(Option::as_deref))?)
}

/// Decodes one after another with the same memory. They were checked when they were proven.
fn each_grain<'a>(
    opened: &'a [Opened<'a>],
    mut take: impl FnMut(&Opened<'a>, &Grain<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut grain: Option<Grain<'_>> = None;
    for found in opened {
        let grain = match &mut grain {
            Some(grain) => {
                grain.redecode_again(&found.payload, found.row.marks)?;
                grain
            }
            empty => empty.insert(Grain::decode_again(&found.payload, found.row.marks)?),
        };
        take(found, grain)?;
    }
    Ok(())
}

/// A grain that was proven before, opened again to be written.
struct Opened<'a> {
    row: &'a ProvenRow,
    source: &'a Admitted,
    delivery: Delivery<'a>,
    payload: Payload<'a>,
}

impl<'a> Opened<'a> {
    fn again(
        morsel: &'a ProvenMorsel,
        row: &'a ProvenRow,
        run: Run<'_>,
    ) -> Result<Opened<'a>, GrainError> {
        let delivery = Delivery::open(morsel.morsel.item(row.item as usize))?;
        let payload = Payload::open(delivery.blob(), run.payload_limit)?;
        Ok(Opened {
            row,
            source: &morsel.morsel.source,
            delivery,
            payload,
        })
    }

    fn identity(&self, run: Run<'_>) -> RowIdentity<'_> {
        let (envelope, signer) = match &self.delivery {
            Delivery::Signed(signed) => (Some(signed.parts()), signed.signer()),
            Delivery::Bare(_) => (None, None),
        };
        RowIdentity {
            envelope,
            signature: self.row.signature,
            signer,
            source_id: Some(&self.source.id),
            ingested_at: run.now,
            // What a blob says of itself isn't trusted; the lifecycle gate lets a grain take
            // another's place, and so does the history of an export whose versions are all made
            // here.
            supersedes: self
                .source
                .beside
                .supersessions
                .get(&self.row.address)
                .map_or(&[], Vec::as_slice),
        }
    }
}
