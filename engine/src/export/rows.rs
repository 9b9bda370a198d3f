//! The grains in a batch of rows.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{SystemColumn, delivered_bytes};
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{Encoding, Field, GrainHeader};

use crate::error::{Context, EngineError, Result};
use crate::hash::{Digest, sha256_each};

/// A batch of rows whose blobs match their addresses.
pub(super) struct GrainRows {
    addresses: Vec<ContentAddress>,
    encodings: StringArray,
    blobs: BinaryArray,
    envelopes: BinaryArray,
    created: TimestampMicrosecondArray,
}

impl GrainRows {
    /// Reads the grains of `batch`, whose columns may have any compatible Arrow type.
    ///
    /// # Errors
    /// [`EngineError::File`] if a column is missing or a blob doesn't match its address.
    pub(super) fn of(batch: &RecordBatch) -> Result<GrainRows> {
        let column = |name: &str, kind: &DataType| -> Result<ArrayRef> {
            let found = batch
                .column_by_name(name)
                .ok_or("there is no such column")
                .file("can't export", name)?;
            if found.data_type() == kind {
                Ok(Arc::clone(found))
            } else {
                cast(found, kind).file("can't export", name)
            }
        };
        let instant = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let texts = column(SystemColumn::ContentAddress.name(), &DataType::Utf8)?;
        let blobs = column(SystemColumn::Blob.name(), &DataType::Binary)?
            .as_binary::<i32>()
            .clone();
        Ok(GrainRows {
            addresses: proven(texts.as_string(), &blobs)?,
            encodings: column(SystemColumn::Encoding.name(), &DataType::Utf8)?
                .as_string::<i32>()
                .clone(),
            envelopes: column(SystemColumn::Envelope.name(), &DataType::Binary)?
                .as_binary::<i32>()
                .clone(),
            created: column(Field::CreatedAt.name(), &instant)?
                .as_primitive::<TimestampMicrosecondType>()
                .clone(),
            blobs,
        })
    }

    /// Returns their number.
    pub(super) fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Returns the address of grain `row`.
    pub(super) fn address(&self, row: usize) -> ContentAddress {
        self.addresses
            .get(row)
            .copied()
            .unwrap_or(ContentAddress::from_digest([0; 32]))
    }

    /// Returns the blob of grain `row`.
    pub(super) fn blob(&self, row: usize) -> &[u8] {
        self.blobs.value(row)
    }

    /// Returns the bytes in which grain `row` was delivered.
    pub(super) fn delivered(&self, row: usize) -> Result<Cow<'_, [u8]>> {
        let envelope = self
            .envelopes
            .is_valid(row)
            .then(|| self.envelopes.value(row));
        delivered_bytes(self.blob(row), envelope).file("can't export", self.address(row))
    }

    /// Returns whether grain `row` is known to be CBOR.
    pub(super) fn is_cbor(&self, row: usize) -> bool {
        self.encodings.is_valid(row) && self.encodings.value(row) == Encoding::Cbor.name()
    }

    /// Returns the creation time of grain `row` in microseconds since 1970: that of the payload, or
    /// else that of the header.
    pub(super) fn created_at(&self, row: usize) -> i64 {
        if self.created.is_valid(row) {
            return self.created.value(row);
        }
        GrainHeader::read(self.blob(row))
            .map_or(0, |header| i64::from(header.created_at_seconds) * 1_000_000)
    }
}

/// Returns the address of each grain in `rows`, and the bytes in which it was delivered.
///
/// # Errors
/// As [`GrainRows::of`].
pub(crate) fn delivered_grains(rows: &RecordBatch) -> Result<Vec<(ContentAddress, Vec<u8>)>> {
    let rows = GrainRows::of(rows)?;
    (0..rows.len())
        .map(|row| Ok((rows.address(row), rows.delivered(row)?.into_owned())))
        .collect()
}

/// Hashes all blobs again and returns their addresses, so that damaged bytes aren't exported under
/// a valid address.
fn proven(texts: &StringArray, blobs: &BinaryArray) -> Result<Vec<ContentAddress>> {
    let mut digests = vec![Digest::default(); blobs.len()];
    sha256_each(&mut digests, |row| blobs.value(row));
    let address_of = |(text, digest): (Option<&str>, Digest)| {
        let text = text.unwrap_or_default();
        let claimed: ContentAddress = text.parse().file("can't export", text)?;
        if claimed == ContentAddress::from_digest(digest) {
            return Ok(claimed);
        }
        let message = "the blob doesn't match its address; `gristmill verify` lists all damage";
        let cause = GrainError::new(ErrorCode::Integrity, message).into();
        Err(EngineError::File {
            what: "can't export",
            path: text.to_owned(),
            cause,
        })
    };
    texts.iter().zip(digests).map(address_of).collect()
}
