//! The new grains of a batch as a segment.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{GrainColumns, RowIdentity, SignatureColumn, grains_schema};
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Field, Grain, Mode, Payload};
use gristmill_schemas::sign::{Delivery, KeyResolver, SignatureStatus};

use crate::error::{Context, Result};
use crate::index::{IndexBuilder, IndexKinds};
use crate::keys::{LakeKeys, write_sort_key};
use crate::lake::LakeLocation;
use crate::segment::{ROW_GROUP_ROWS, SegmentFile, SegmentId, WrittenSegment, grains_properties};

/// A grain that was proven to be one.
#[derive(Debug, Clone)]
pub(super) struct NewGrain {
    pub(super) address: ContentAddress,
    /// Its delivered bytes: the blob, or an envelope around it.
    pub(super) delivered: Vec<u8>,
    pub(super) signature: SignatureColumn,
    pub(super) supersedes: Vec<ContentAddress>,
}

impl NewGrain {
    /// Opens, hashes, decodes and checks `delivered` by the strict rules, as ingest does.
    pub(super) fn prove(
        delivered: &[u8],
        resolver: &dyn KeyResolver,
    ) -> Result<NewGrain, GrainError> {
        let delivery = Delivery::open(delivered)?;
        let signature = match &delivery {
            Delivery::Bare(_) => SignatureColumn::None,
            Delivery::Signed(signed) => match signed.prove(resolver)? {
                SignatureStatus::Valid => SignatureColumn::Valid,
                SignatureStatus::Invalid => SignatureColumn::Invalid,
                SignatureStatus::Unverifiable(_) => SignatureColumn::Unverifiable,
            },
        };
        let shifted = |error: GrainError| error.shifted(delivery.blob_start());
        let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT).map_err(shifted)?;
        Grain::decode(&payload, Mode::Strict).map_err(shifted)?;
        let address = ContentAddress::of(delivery.blob());
        Ok(NewGrain {
            address,
            delivered: delivered.to_vec(),
            signature,
            supersedes: Vec::new(),
        })
    }
}

/// Writes `grains`, sorted as segments are, at `now` (microseconds since 1970); sealed with `keys`
/// if there are any.
pub(super) fn write(
    location: &LakeLocation,
    mut grains: Vec<NewGrain>,
    now: i64,
    keys: Option<&LakeKeys>,
) -> Result<WrittenSegment> {
    let id = SegmentId::new_sealed(keys.is_some());
    let mut users = Vec::new();
    grains.sort_by_cached_key(|new| {
        let mut key = Vec::new();
        // Each was decoded before.
        let _ = new.read(|grain, _| {
            users.push(grain.text(Field::UserId).map(str::to_owned));
            write_sort_key(keys, grain, &mut key);
            Ok(())
        });
        (key, *new.address.as_bytes())
    });
    if let Some(keys) = keys {
        keys.prepare(users.iter().map(Option::as_deref))?;
    }
    let data = location.scratch_file()?;
    let file = SegmentFile::create(&data, grains_schema(), grains_properties())
        .file("can't write", id.as_str())?;
    let builder = IndexBuilder::new(IndexKinds::ALL.of_segment(&id));
    for (number, rows) in grains.chunks(ROW_GROUP_ROWS).enumerate() {
        let batch = project(rows, now, keys).file("can't write", id.as_str())?;
        builder.add(number, &batch)?;
        file.write_row_group(number, &[batch])
            .file("can't write", id.as_str())?;
    }
    let file = file.finish().file("can't write", id.as_str())?;
    Ok(WrittenSegment {
        id,
        data,
        file,
        sidecars: builder.finish(),
    })
}

type Fault = Box<dyn std::error::Error + Send + Sync>;

impl NewGrain {
    /// Opens and decodes it again.
    fn read<T>(
        &self,
        job: impl FnOnce(&Grain<'_>, &Delivery<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let delivery = Delivery::open(&self.delivered)?;
        let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT)?;
        job(&Grain::decode(&payload, Mode::Lenient)?, &delivery)
    }
}

fn project(
    rows: &[NewGrain],
    now: i64,
    keys: Option<&LakeKeys>,
) -> Result<arrow::array::RecordBatch, Fault> {
    let mut columns =
        GrainColumns::with_capacity(rows.len(), rows.iter().map(|row| row.delivered.len()).sum());
    for row in rows {
        row.read(|grain, delivery| {
            let (envelope, signer) = match delivery {
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
            match keys {
                Some(keys) => keys.append(
                    &mut columns,
                    &row.address,
                    delivery.blob(),
                    grain,
                    &identity,
                )?,
                None => columns.append(&row.address, delivery.blob(), grain, &identity),
            }
            Ok(())
        })?;
    }
    Ok(columns.finish()?)
}
