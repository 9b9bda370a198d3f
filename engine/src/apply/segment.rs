//! The new grains of a batch as a segment.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{GrainColumns, RowIdentity, SignatureColumn, grains_schema, write_sort_key};
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Grain, Mode, Payload};
use gristmill_schemas::sign::{Delivery, KeyResolver, SignatureStatus};

use crate::error::{Context, Result};
use crate::index::{IndexBuilder, IndexKinds};
use crate::lake::LakeLocation;
use crate::segment::{ROW_GROUP_ROWS, SegmentFile, SegmentId, WrittenSegment, grains_properties};

/// A grain that was proven to be one.
#[derive(Debug, Clone)]
pub(super) struct NewGrain {
    pub(super) address: ContentAddress,
    /// Its delivered bytes: the blob, or an envelope around it.
    pub(super) delivered: Vec<u8>,
    pub(super) signature: SignatureColumn,
    pub(super) sort_key: Vec<u8>,
    pub(super) supersedes: Vec<ContentAddress>,
}

impl NewGrain {
    /// Opens, hashes, decodes and checks `delivered` by the strict rules, as ingest does.
    pub(super) fn prove(delivered: &[u8], resolver: &dyn KeyResolver) -> Result<NewGrain, GrainError> {
        let delivery = Delivery::open(delivered)?;
        let signature = match &delivery {
            Delivery::Bare(_) => SignatureColumn::None,
            Delivery::Signed(signed) => match signed.verify(resolver) {
                SignatureStatus::Valid => SignatureColumn::Valid,
                SignatureStatus::Unverifiable(_) => SignatureColumn::Unverifiable,
                SignatureStatus::Invalid => {
                    return Err(GrainError::new(
                        ErrorCode::Integrity,
                        "the signature isn't the signer's over this blob",
                    ));
                }
            },
        };
        let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT)?;
        let grain = Grain::decode(&payload, Mode::Strict)?;
        let mut sort_key = Vec::new();
        write_sort_key(&grain, &mut sort_key);
        let address = ContentAddress::of(delivery.blob());
        Ok(NewGrain { address, delivered: delivered.to_vec(), signature, sort_key, supersedes: Vec::new() })
    }
}

/// Writes `grains`, sorted as segments are, at `now` (microseconds since 1970).
pub(super) fn write(location: &LakeLocation, mut grains: Vec<NewGrain>, now: i64) -> Result<WrittenSegment> {
    grains.sort_by(|left, right| {
        left.sort_key.cmp(&right.sort_key).then_with(|| left.address.as_bytes().cmp(right.address.as_bytes()))
    });
    let id = SegmentId::new();
    let data = location.scratch_file()?;
    let file = SegmentFile::create(&data, grains_schema(), grains_properties()).file("can't write", id.as_str())?;
    let builder = IndexBuilder::new(IndexKinds::ALL);
    for (number, rows) in grains.chunks(ROW_GROUP_ROWS).enumerate() {
        let batch = project(rows, now).file("can't write", id.as_str())?;
        builder.add(number, &batch)?;
        file.write_row_group(number, &[batch]).file("can't write", id.as_str())?;
    }
    let rows = file.finish().file("can't write", id.as_str())?;
    let size = data.as_file().metadata().file("can't write", id.as_str())?.len();
    Ok(WrittenSegment { id, data, rows, size, sidecars: builder.finish() })
}

fn project(rows: &[NewGrain], now: i64) -> Result<arrow::array::RecordBatch, Box<dyn std::error::Error + Send + Sync>> {
    let mut columns = GrainColumns::with_capacity(rows.len(), rows.iter().map(|row| row.delivered.len()).sum());
    for row in rows {
        let delivery = Delivery::open(&row.delivered)?;
        let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT)?;
        let grain = Grain::decode(&payload, Mode::Lenient)?;
        let (envelope, signer) = match &delivery {
            Delivery::Signed(signed) => (Some(signed.parts()), signed.signer()),
            Delivery::Bare(_) => (None, None),
        };
        let identity = RowIdentity {
            envelope,
            signature: row.signature,
            signer,
            source_id: None,
            ingested_at: now,
            supersedes: &row.supersedes,
        };
        columns.append(&row.address, delivery.blob(), &grain, &identity);
    }
    Ok(columns.finish()?)
}
