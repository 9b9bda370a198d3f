//! The row of one delivered grain, for every command that writes grains.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{GrainBatchBuilder, RowMetadata, SignatureColumn};
use gristmill_schemas::grain::Grain;
use gristmill_schemas::sign::DeliveredGrain;

use crate::error::BoxError;
use crate::keys::LakeKeys;

/// Returns the columns of a grain's row that follow from its envelope; all others are empty.
pub(crate) fn envelope_columns<'a>(
    delivery: &'a DeliveredGrain<'_>,
    signature: SignatureColumn,
) -> RowMetadata<'a> {
    let (envelope, signer) = match delivery {
        DeliveredGrain::Signed(signed) => (Some(signed.parts()), signed.signer()),
        DeliveredGrain::Bare(_) => (None, None),
    };
    RowMetadata {
        envelope,
        signature,
        signer,
        ..RowMetadata::default()
    }
}

/// Appends the row of the grain `address`, encrypted if there are `keys`.
///
/// # Errors
/// If the person's key is missing or the row can't be encrypted.
pub(crate) fn append_row(
    columns: &mut GrainBatchBuilder,
    keys: Option<&LakeKeys>,
    address: &ContentAddress,
    blob: &[u8],
    grain: &Grain<'_>,
    identity: &RowMetadata<'_>,
) -> Result<(), BoxError> {
    match keys {
        Some(keys) => keys.append(columns, address, blob, grain, identity)?,
        None => columns.append(address, blob, grain, identity),
    }
    Ok(())
}
