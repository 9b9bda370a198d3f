//! The order of rows in a segment: by namespace, user, subject and creation time, so that the rows
//! of a person are adjacent.
//!
//! Keys are bytes that compare as the tuple does:
//!
//! ```text
//! for each text: 00 if it is absent, else 01, the text, 00 00     a zero byte in it becomes 00 ff
//! created_at in milliseconds, sign bit flipped                   i64, big-endian
//! ```

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use arrow::error::ArrowError;

use super::grains::SystemColumn;
use super::sealed::is_sealed;
use crate::grain::{Field, Grain, GrainHeader};

/// Appends the sort key of `grain` to `out`. Absent values sort before empty ones.
pub fn write_sort_key(grain: &Grain<'_>, out: &mut Vec<u8>) {
    let created = grain.get(Field::CreatedAt).and_then(|value| value.as_int());
    // A type without a schema may hold an instant that is out of range for its column.
    let created = created.filter(|milliseconds| milliseconds.checked_mul(1_000).is_some());
    let created = created.unwrap_or_else(|| i64::from(grain.header().created_at_seconds) * 1000);
    write_key(KEY_FIELDS.map(|field| grain.text(field)), created, out);
}

/// As [`write_sort_key`], for an encrypted row: with blind tokens instead of texts, and without the
/// instant, which is encrypted.
pub fn write_sealed_sort_key(
    grain: &Grain<'_>,
    token: &dyn Fn(Field, &str) -> String,
    out: &mut Vec<u8>,
) {
    let texts = KEY_FIELDS.map(|field| grain.text(field).map(|text| token(field, text)));
    write_key(texts.each_ref().map(Option::as_deref), 0, out);
}

/// The fields before the creation time in a sort key.
const KEY_FIELDS: [Field; 3] = [Field::Namespace, Field::UserId, Field::Subject];

/// Appends the sort key of `texts` and an instant in milliseconds.
fn write_key(texts: [Option<&str>; 3], created: i64, out: &mut Vec<u8>) {
    for text in texts {
        match text {
            None => out.push(0),
            Some(text) => {
                out.push(1);
                write_escaped(text.as_bytes(), out);
            }
        }
    }
    // Flipping the sign bit turns the order of signed integers into byte order.
    out.extend((created ^ i64::MIN).to_be_bytes());
}

/// Splits a sort key into its encoded texts and its instant as a number. Keys compare as these
/// pairs do.
pub fn split_sort_key(key: &[u8]) -> (&[u8], u64) {
    key.split_last_chunk().map_or((key, 0), |(texts, created)| {
        (texts, u64::from_be_bytes(*created))
    })
}

/// The sort keys of the rows of a batch of `grains`, each followed by the row's address: the order
/// of the rows in a segment.
#[derive(Debug, Default)]
pub struct RowSortKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl RowSortKeys {
    /// Computes the keys of `batch`, which must have the columns of `grains` by name.
    ///
    /// # Errors
    /// [`ArrowError::SchemaError`] if a column is missing.
    pub fn of(batch: &RecordBatch) -> Result<RowSortKeys, ArrowError> {
        let column = |name: &str| {
            batch
                .column_by_name(name)
                .ok_or_else(|| ArrowError::SchemaError(format!("no column `{name}`")))
        };
        let addresses = column(SystemColumn::ContentAddress.name())?.as_string::<i32>();
        let blobs = column(SystemColumn::Blob.name())?.as_binary::<i32>();
        let created = column(Field::CreatedAt.name())?.as_primitive::<TimestampMicrosecondType>();
        let [namespace, user, subject] = KEY_FIELDS.map(|field| column(field.name()));
        let texts = [
            namespace?.as_string::<i32>(),
            user?.as_string::<i32>(),
            subject?.as_string::<i32>(),
        ];
        let mut keys = RowSortKeys::default();
        for row in 0..batch.num_rows() {
            let created = match created.is_valid(row) {
                true => created.value(row).div_euclid(1_000),
                false if is_sealed(blobs.value(row)) => 0,
                false => GrainHeader::read(blobs.value(row))
                    .map_or(0, |header| i64::from(header.created_at_seconds) * 1_000),
            };
            write_key(
                texts.map(|texts| texts.is_valid(row).then(|| texts.value(row))),
                created,
                &mut keys.bytes,
            );
            keys.bytes.extend(addresses.value(row).as_bytes());
            keys.ends.push(keys.bytes.len());
        }
        Ok(keys)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the key of `row`. Keys compare as their rows do.
    pub fn key(&self, row: usize) -> &[u8] {
        let start = row
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied()
            .unwrap_or(0);
        self.ends
            .get(row)
            .and_then(|end| self.bytes.get(start..*end))
            .unwrap_or_default()
    }
}

/// Appends text so that no encoded text is a prefix of another: a zero byte becomes 00 ff, the end
/// 00 00.
fn write_escaped(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == 0) {
        out.extend(&rest[..at]);
        out.extend([0x00, 0xff]);
        rest = &rest[at + 1..];
    }
    out.extend(rest);
    out.extend([0x00, 0x00]);
}
