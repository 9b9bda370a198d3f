//! The grains of a batch that isn't committed yet, on which its claims depend: in memory, or in the
//! segment that another process has published.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::StateRow;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};
use gristmill_schemas::sign::DeliveredGrain;

use super::claims::{DELIVERED, add_delivered, successor_of};
use super::proven_batch::ProvenBatch;
use crate::error::Result;
use crate::lake::{Lake, LakeFile, Segment};
use crate::policy::{HOPS, named_grains};
use crate::segment::AddressIndex;

/// The grains of a batch.
pub(super) trait BatchGrains: Sync {
    /// Returns the delivered bytes of the grain called `address`.
    fn bytes_of(&self, address: &ContentAddress) -> Option<&[u8]>;

    /// Returns true if there is a grain called `address`.
    fn contains(&self, address: &ContentAddress) -> bool {
        self.bytes_of(address).is_some()
    }
}

impl BatchGrains for ProvenBatch {
    fn bytes_of(&self, address: &ContentAddress) -> Option<&[u8]> {
        ProvenBatch::bytes_of(self, address)
    }
}

/// Those grains of a published segment on which the claims of its batch depend.
#[derive(Default)]
pub(super) struct PublishedGrains(HashMap<ContentAddress, Vec<u8>>);

impl PublishedGrains {
    /// Reads the grains of `segment` that `claims` name, and those that these name, as far as the
    /// lifecycle gate looks. The duplicates of the batch are in the lake.
    ///
    /// # Errors
    /// As [`LakeFile::open`] and [`LakeFile::read_rows`].
    pub(super) async fn load(
        lake: &Lake,
        segment: Option<&(Segment, Arc<AddressIndex>)>,
        claims: &[StateRow],
    ) -> Result<PublishedGrains> {
        let mut grains = PublishedGrains::default();
        let Some((segment, index)) = segment.filter(|_| !claims.is_empty()) else {
            return Ok(grains);
        };
        let file = LakeFile::open(lake, &segment.path()).await?;
        let targets = claims
            .iter()
            .filter_map(|claim| claim.content_address.parse::<ContentAddress>().ok());
        let successors = claims.iter().filter_map(successor_of);
        let mut wanted: HashSet<ContentAddress> = targets.chain(successors).collect();
        for _ in 0..=HOPS + 1 {
            wanted.retain(|address| !grains.contains(address));
            let mut rows: Vec<u32> = wanted.iter().filter_map(|it| index.row_of(it)).collect();
            if rows.is_empty() {
                break;
            }
            rows.sort_unstable();
            let mut fresh = HashMap::with_capacity(rows.len());
            for batch in file.read_rows(&DELIVERED, &rows)? {
                add_delivered(&batch, DELIVERED, &mut fresh);
            }
            wanted = fresh.values().flat_map(|bytes| named_in(bytes)).collect();
            grains.0.extend(fresh);
        }
        Ok(grains)
    }
}

impl BatchGrains for PublishedGrains {
    fn bytes_of(&self, address: &ContentAddress) -> Option<&[u8]> {
        self.0.get(address).map(Vec::as_slice)
    }
}

/// Returns the grains that the gate looks up for a delivered one; none if it can't be decoded.
fn named_in(delivered: &[u8]) -> Vec<ContentAddress> {
    let named = || {
        let delivery = DeliveredGrain::open(delivered).ok()?;
        let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT).ok()?;
        let grain = Grain::decode(&payload, DecodeMode::Lenient).ok()?;
        Some(named_grains(&grain))
    };
    named().unwrap_or_default()
}
