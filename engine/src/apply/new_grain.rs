//! The new grains of a batch of operations, and the segment that they become.
//!
//! Grains are proven and projected by the same code as in an ingest.

use std::collections::HashSet;

use arrow::array::RecordBatch;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{GrainBatchBuilder, RowMetadata, SignatureColumn, grains_schema};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Field, Grain, Payload};
use gristmill_schemas::sign::DeliveredGrain;

use crate::error::{BoxError, Context, Result};
use crate::index::{IndexBuilder, IndexKinds, SegmentBuilder};
use crate::ingest::grain_row::{append_row, envelope_columns};
use crate::ingest::prove::OpenedGrain;
use crate::keys::{LakeKeys, write_sort_key};
use crate::lake::LakeLocation;
use crate::segment::{ROW_GROUP_ROWS, SegmentId, WrittenSegment};

/// A grain that was proven.
#[derive(Debug, Clone)]
pub(super) struct NewGrain {
    pub(super) address: ContentAddress,
    /// The delivered bytes: the blob, or an envelope around it.
    pub(super) delivered: Vec<u8>,
    pub(super) signature: SignatureColumn,
    pub(super) supersedes: Vec<ContentAddress>,
}

impl NewGrain {
    /// Returns the grain that was `opened` from `delivered` bytes. It must have been decoded by the
    /// strict rules.
    pub(super) fn new(delivered: &[u8], opened: &OpenedGrain<'_>) -> NewGrain {
        NewGrain {
            address: ContentAddress::of(opened.delivery.blob()),
            delivered: delivered.to_vec(),
            signature: opened.signature,
            supersedes: Vec::new(),
        }
    }

    /// Opens and decodes the grain again.
    fn decode<T>(
        &self,
        job: impl FnOnce(&Grain<'_>, &DeliveredGrain<'_>) -> Result<T, BoxError>,
    ) -> Result<T, BoxError> {
        let delivery = DeliveredGrain::open(&self.delivered)?;
        let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT)?;
        job(&Grain::decode(&payload, DecodeMode::Lenient)?, &delivery)
    }
}

/// Writes `grains` as a segment at `now` (microseconds since 1970), encrypted if there are `keys`.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File),
/// [`EngineError::Key`](crate::error::EngineError::Key).
pub(super) fn write(
    location: &LakeLocation,
    mut grains: Vec<NewGrain>,
    now: i64,
    keys: Option<&LakeKeys>,
) -> Result<WrittenSegment> {
    if let Some(keys) = keys {
        let users = users(&grains);
        keys.prepare(users.iter().map(Option::as_deref))?;
    }
    sort(&mut grains, keys);
    let id = SegmentId::new_sealed(keys.is_some());
    let index = IndexBuilder::new(IndexKinds::ALL.of_segment(&id));
    let segment = SegmentBuilder::create(location, id, grains_schema(), index)?;
    for (number, rows) in grains.chunks(ROW_GROUP_ROWS).enumerate() {
        let (batch, copies) =
            project(rows, now, keys).file(SegmentBuilder::WRITING, segment.place())?;
        segment.write_row_group(number, batch, keys.map(|_| copies))?;
    }
    segment.finish()
}

/// Returns the users of `grains`.
fn users(grains: &[NewGrain]) -> HashSet<Option<String>> {
    let mut users = HashSet::new();
    for new in grains {
        // Decoding can't fail: each grain was decoded before.
        let _ = new.decode(|grain, _| {
            users.insert(grain.text(Field::UserId).map(str::to_owned));
            Ok(())
        });
    }
    users
}

/// Sorts `grains` as the rows of segments are sorted.
fn sort(grains: &mut [NewGrain], keys: Option<&LakeKeys>) {
    grains.sort_by_cached_key(|new| {
        let mut key = Vec::new();
        // Decoding can't fail: each grain was decoded before.
        let _ = new.decode(|grain, _| {
            write_sort_key(keys, grain, &mut key);
            Ok(())
        });
        (key, *new.address.as_bytes())
    });
}

/// Returns the rows, and how many of the sealed ones are disclosed copies.
fn project(
    rows: &[NewGrain],
    now: i64,
    keys: Option<&LakeKeys>,
) -> Result<(RecordBatch, u64), BoxError> {
    let mut columns = GrainBatchBuilder::with_capacity(
        rows.len(),
        rows.iter().map(|row| row.delivered.len()).sum(),
    );
    for row in rows {
        row.decode(|grain, delivery| {
            let identity = RowMetadata {
                ingested_at: now,
                supersedes: &row.supersedes,
                ..envelope_columns(delivery, row.signature)
            };
            append_row(
                &mut columns,
                keys,
                &row.address,
                delivery.blob(),
                grain,
                &identity,
            )
        })?;
    }
    Ok((columns.finish()?, columns.sealed_copies()))
}
