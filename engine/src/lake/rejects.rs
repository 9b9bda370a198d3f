//! The table `rejects`: rows for refused input.
//!
//! Every row is made by [`RejectContext::row`], whatever was refused: a source, a line, a grain,
//! damage between grains, or a claim of a manifest.

use gristmill_schemas::columns::RejectRow;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::sign::{DeliveredGrain, SignedBlob};

/// The value of `field` in the row of a source's claim that was denied.
pub(crate) const MANIFEST: &str = "manifest";

/// The ordinal of what isn't a part of a source: the source as a whole, or one of its claims.
pub(crate) const WHOLE_SOURCE: i64 = -1;

/// Bytes of a refused source or line that are stored, at most.
pub(crate) const MAX_SOURCE_BYTES: usize = 1 << 20;

/// Bytes of damage between grains that are stored, at most.
pub(crate) const MAX_DAMAGE_BYTES: usize = 64 << 10;

/// What the rows of one source have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RejectContext<'a> {
    /// The BLAKE3 of the source, in hex.
    pub(crate) source_id: &'a str,
    /// Where the source was read from.
    pub(crate) source: &'a str,
    /// When the run began, in microseconds since 1970.
    pub(crate) rejected_at: i64,
}

/// Where the refused part is in its source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RejectPosition {
    /// Which part it is, counted from 0, or [`WHOLE_SOURCE`].
    pub(crate) ordinal: i64,
    /// Where it begins, in bytes; `None` if that isn't known, such as of a grain that was made of a
    /// transcript. It tells such grains from lines: both are counted from 0.
    pub(crate) offset: Option<u64>,
}

/// Why a part was refused.
#[derive(Debug)]
pub(crate) struct RejectReason<'a> {
    /// The specification's code.
    pub(crate) code: &'a str,
    /// The field that caused it.
    pub(crate) field: Option<&'a str>,
    /// What was found and what was expected.
    pub(crate) message: String,
}

impl<'a> RejectReason<'a> {
    /// Returns the reason that `error` states, with the code and place in the message.
    pub(crate) fn of(error: &'a GrainError) -> RejectReason<'a> {
        RejectReason {
            code: error.code.name(),
            field: error.field.as_deref(),
            message: error.to_string(),
        }
    }
}

/// The refused bytes: all of them, or their beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RejectBytes<'a> {
    stored: &'a [u8],
    length: u64,
}

impl<'a> RejectBytes<'a> {
    /// Returns `bytes`, of which all are stored.
    pub(crate) fn whole(bytes: &'a [u8]) -> RejectBytes<'a> {
        RejectBytes::head(bytes, bytes.len() as u64)
    }

    /// Returns `bytes`, of which at most `limit` are stored.
    pub(crate) fn limited(bytes: &'a [u8], limit: usize) -> RejectBytes<'a> {
        RejectBytes::head(bytes.get(..limit).unwrap_or(bytes), bytes.len() as u64)
    }

    /// Returns `stored`, the beginning of `length` bytes.
    pub(crate) fn head(stored: &'a [u8], length: u64) -> RejectBytes<'a> {
        RejectBytes { stored, length }
    }
}

impl RejectContext<'_> {
    /// Returns the row for a refused part of the source.
    pub(crate) fn row(
        &self,
        position: RejectPosition,
        reason: RejectReason<'_>,
        bytes: RejectBytes<'_>,
    ) -> RejectRow {
        RejectRow {
            source_id: self.source_id.to_owned(),
            source: self.source.to_owned(),
            ordinal: position.ordinal,
            offset: position.offset.map(|offset| offset as i64),
            error_code: reason.code.to_owned(),
            field: reason.field.map(str::to_owned),
            message: reason.message,
            bytes: bytes.stored.to_vec(),
            truncated: (bytes.stored.len() as u64) < bytes.length,
            rejected_at: self.rejected_at,
        }
    }
}

/// Returns the blob inside `bytes` of a delivered grain: without its envelope, if the envelope can
/// be parsed, and `bytes` otherwise.
pub(crate) fn blob_of(bytes: &[u8]) -> &[u8] {
    match DeliveredGrain::open(bytes) {
        Ok(delivery) => delivery.blob(),
        Err(_) => SignedBlob::parse(bytes).map_or(bytes, |signed| signed.blob()),
    }
}
