//! The table `rejects`: what rows of refused input contain.

use gristmill_schemas::sign::{Delivery, SignedBlob};

/// The value of `field` in the row of a manifest's claim that was denied.
pub(crate) const MANIFEST: &str = "manifest";

/// Returns the blob inside `bytes` of a delivered grain: without its envelope, if the envelope can
/// be parsed, and `bytes` otherwise.
pub(crate) fn blob_of(bytes: &[u8]) -> &[u8] {
    match Delivery::open(bytes) {
        Ok(delivery) => delivery.blob(),
        Err(_) => SignedBlob::parse(bytes).map_or(bytes, |signed| signed.blob()),
    }
}
