//! Converts grains to rows of the table `grains`.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, Int16Builder, Int64Builder, ListBuilder, RecordBatch, StringBuilder,
    TimestampMicrosecondBuilder, new_null_array,
};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::column_builder::{Capacity, ColumnBuilder, list_field, timestamp_builder};
use super::envelope::envelope_cell;
use super::grains::{column_type, grains_schema};
use super::sealed::{BLIND_TOKEN_FIELDS, is_sealed};
use crate::address::ContentAddress;
use crate::grain::{Field, Grain, GrainType, RawValue};
use crate::sign::EnvelopeParts;

/// The version of the conversion rules. It is incremented when the same grain yields another cell
/// than before, so that rows of earlier versions are not reported as damaged. The rules have not
/// changed since format version 1 of the lake.
pub const PROJECTION_VERSION: u32 = 1;

/// The value of the column `signature`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SignatureColumn {
    /// The grain has no envelope.
    #[default]
    None,
    /// The signature is valid.
    Valid,
    /// The signature is invalid.
    Invalid,
    /// The signer's key is unknown.
    Unverifiable,
}

impl SignatureColumn {
    /// Returns the value in the column.
    pub const fn name(self) -> &'static str {
        match self {
            SignatureColumn::None => "none",
            SignatureColumn::Valid => "valid",
            SignatureColumn::Invalid => "invalid",
            SignatureColumn::Unverifiable => "unverifiable",
        }
    }
}

/// The metadata of a grain that is not stored in its fields.
#[derive(Debug, Clone, Default)]
pub struct RowMetadata<'a> {
    /// The COSE envelope, if the grain has one.
    pub envelope: Option<EnvelopeParts<'a>>,
    /// The result of the signature check.
    pub signature: SignatureColumn,
    /// The signer's DID.
    pub signer: Option<&'a str>,
    /// The BLAKE3 of the source, in hex.
    pub source_id: Option<&'a str>,
    /// The start of the run, in microseconds since 1970.
    pub ingested_at: i64,
    /// The grains that this one supersedes.
    pub supersedes: &'a [ContentAddress],
}

/// A builder for batches of the table `grains`.
pub struct GrainBatchBuilder {
    rows: usize,
    sealed_copies: u64,
    system: SystemColumnBuilders,
    /// One for each of [`Field::ALL`].
    fields: Vec<FieldColumn>,
}

/// The state of a field's column.
#[allow(
    clippy::large_enum_variant,
    reason = "one per field of a batch, nearly all of the large kind"
)]
enum FieldColumn {
    /// The field has no column.
    NoColumn,
    /// No grain of the batch has the field so far. The capacity is that of the previous batch.
    Empty(Capacity),
    /// At least one grain of the batch has the field.
    Building(ColumnBuilder),
}

impl FieldColumn {
    fn all() -> Vec<FieldColumn> {
        let column = |field: &Field| {
            if column_type(*field).is_some() {
                FieldColumn::Empty(Capacity::default())
            } else {
                FieldColumn::NoColumn
            }
        };
        Field::ALL.iter().map(column).collect()
    }

    fn set(&mut self, field: Field, row: usize, value: &RawValue<'_>) {
        match self {
            FieldColumn::NoColumn => {}
            FieldColumn::Building(column) => column.set(row, value),
            FieldColumn::Empty(capacity) => {
                let mut column = ColumnBuilder::new(field, *capacity);
                column.set(row, value);
                *self = FieldColumn::Building(column);
            }
        }
    }
}

/// All-null columns. Most fields belong to other grain types; columns of the same data type share
/// one array.
#[derive(Default)]
struct NullColumns(Vec<ArrayRef>);

impl NullColumns {
    fn of(&mut self, data_type: &DataType, rows: usize) -> ArrayRef {
        let known = self.0.iter().find(|column| column.data_type() == data_type);
        match known {
            Some(column) => Arc::clone(column),
            None => {
                let column = new_null_array(data_type, rows);
                self.0.push(Arc::clone(&column));
                column
            }
        }
    }
}

struct SystemColumnBuilders {
    address: StringBuilder,
    type_name: StringBuilder,
    type_byte: Int16Builder,
    flags: Int16Builder,
    sensitivity: Int16Builder,
    encoding: StringBuilder,
    blob: BinaryBuilder,
    blob_size: Int64Builder,
    envelope: BinaryBuilder,
    signature: StringBuilder,
    signer: StringBuilder,
    source_id: StringBuilder,
    ingested_at: TimestampMicrosecondBuilder,
    supersedes: ListBuilder<StringBuilder>,
    marks: ListBuilder<StringBuilder>,
}

impl GrainBatchBuilder {
    /// Creates an empty builder with the capacity for `rows` rows with `blob_bytes` bytes of blobs
    /// in total.
    pub fn with_capacity(rows: usize, blob_bytes: usize) -> Self {
        GrainBatchBuilder {
            rows: 0,
            sealed_copies: 0,
            system: SystemColumnBuilders::with_capacity(rows, blob_bytes),
            fields: FieldColumn::all(),
        }
    }

    /// Reserves capacity as [`GrainBatchBuilder::with_capacity`] if the builder is empty. The
    /// columns of fields keep the capacity that the previous batch used.
    pub fn reserve(&mut self, rows: usize, blob_bytes: usize) {
        if self.is_empty() {
            self.system = SystemColumnBuilders::with_capacity(rows, blob_bytes);
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns how many of all sealed rows so far, those of finished batches included, are
    /// disclosed copies of other grains: their cells don't show it.
    pub fn sealed_copies(&self) -> u64 {
        self.sealed_copies
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Appends the row of `grain` with the bytes `blob`. Fields that the grain lacks cost nothing.
    pub fn append(
        &mut self,
        address: &ContentAddress,
        blob: &[u8],
        grain: &Grain<'_>,
        row: &RowMetadata<'_>,
    ) {
        self.append_plaintext(address, (blob, blob.len()), grain, row);
    }

    /// Appends the row of `grain` with an empty cell `blob`; `size` is the length of its blob. Used
    /// to compare a grain with a stored row without copying the blob.
    pub fn append_without_blob(
        &mut self,
        address: &ContentAddress,
        size: usize,
        grain: &Grain<'_>,
        row: &RowMetadata<'_>,
    ) {
        self.append_plaintext(address, (&[], size), grain, row);
    }

    fn append_plaintext(
        &mut self,
        address: &ContentAddress,
        (blob, size): (&[u8], usize),
        grain: &Grain<'_>,
        row: &RowMetadata<'_>,
    ) {
        self.system.append(address, blob, size, grain, row);
        for (field, value) in grain.known() {
            if let Some(column) = self.fields.get_mut(*field as usize) {
                column.set(*field, self.rows, value);
            }
        }
        self.rows += 1;
    }

    /// Appends the encrypted row of `grain`. `sealed` is the encrypted envelope, `size` the length
    /// of the blob; `token` computes the blind token of a text.
    pub fn append_sealed(
        &mut self,
        address: &ContentAddress,
        (sealed, size): (&[u8], usize),
        grain: &Grain<'_>,
        row: &RowMetadata<'_>,
        token: &dyn Fn(Field, &str) -> String,
    ) {
        let row = RowMetadata {
            envelope: None,
            signer: None,
            ..row.clone()
        };
        self.system.append(address, sealed, size, grain, &row);
        for field in BLIND_TOKEN_FIELDS {
            let cell = grain.text(field).map(|text| token(field, text));
            if let (Some(cell), Some(column)) = (cell, self.fields.get_mut(field as usize)) {
                column.set(field, self.rows, &RawValue::Text(&cell));
            }
        }
        self.sealed_copies += u64::from(grain.text(Field::DisclosureOf).is_some());
        self.rows += 1;
    }

    /// Appends a row for a grain that was crypto-shredded (its key was destroyed): all cells are
    /// null or empty.
    pub fn append_shredded(&mut self) {
        self.system.append_empty();
        self.rows += 1;
    }

    /// Returns the rows as a batch and resets the builder, which keeps the used capacity for the
    /// next batch.
    ///
    /// # Errors
    /// None for any rows; Arrow's own check is passed on.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        let mut columns = self.system.finish();
        let mut empty = NullColumns::default();
        for (field, column) in Field::ALL.iter().zip(&mut self.fields) {
            columns.push(match (&mut *column, column_type(*field)) {
                (FieldColumn::Building(cells), _) => {
                    let capacity = cells.used_capacity();
                    let cells = cells.finish(rows);
                    *column = FieldColumn::Empty(capacity);
                    cells
                }
                (FieldColumn::Empty(_), Some(data_type)) => empty.of(&data_type, rows),
                _ => continue,
            });
        }
        RecordBatch::try_new(grains_schema(), columns)
    }
}

impl SystemColumnBuilders {
    fn with_capacity(rows: usize, blob_bytes: usize) -> SystemColumnBuilders {
        let texts =
            || ListBuilder::new(StringBuilder::new()).with_field(list_field(DataType::Utf8));
        SystemColumnBuilders {
            address: StringBuilder::with_capacity(rows, rows * ContentAddress::TEXT_LENGTH),
            type_name: StringBuilder::with_capacity(rows, rows * 8),
            type_byte: Int16Builder::with_capacity(rows),
            flags: Int16Builder::with_capacity(rows),
            sensitivity: Int16Builder::with_capacity(rows),
            encoding: StringBuilder::with_capacity(rows, rows * 8),
            blob: BinaryBuilder::with_capacity(rows, blob_bytes),
            blob_size: Int64Builder::with_capacity(rows),
            envelope: BinaryBuilder::new(),
            signature: StringBuilder::with_capacity(rows, rows * 4),
            signer: StringBuilder::new(),
            source_id: StringBuilder::with_capacity(rows, rows * 64),
            ingested_at: timestamp_builder(rows),
            supersedes: texts(),
            marks: texts(),
        }
    }

    fn append(
        &mut self,
        address: &ContentAddress,
        blob: &[u8],
        size: usize,
        grain: &Grain<'_>,
        row: &RowMetadata<'_>,
    ) {
        let header = grain.header();
        self.address
            .append_value(address.write_hex(&mut [0; ContentAddress::TEXT_LENGTH]));
        // The type name of an unknown type is part of the encrypted payload.
        match is_sealed(blob) {
            true => self.type_name.append_value(known_type(grain)),
            false => self.type_name.append_value(grain.type_name()),
        }
        self.type_byte
            .append_value(i16::from(header.type_byte.byte()));
        self.flags.append_value(i16::from(header.flags.byte()));
        self.sensitivity
            .append_value(header.flags.sensitivity() as i16);
        self.encoding
            .append_option((!grain.is_encrypted()).then(|| grain.encoding().name()));
        self.blob.append_value(blob);
        self.blob_size.append_value(size as i64);
        match &row.envelope {
            Some(parts) => self.envelope.append_value(envelope_cell(parts)),
            None => self.envelope.append_null(),
        }
        self.signature.append_value(row.signature.name());
        self.signer.append_option(row.signer);
        self.source_id.append_option(row.source_id);
        self.ingested_at.append_value(row.ingested_at);
        for address in row.supersedes {
            self.supersedes
                .values()
                .append_value(address.write_hex(&mut [0; ContentAddress::TEXT_LENGTH]));
        }
        self.supersedes.append(!row.supersedes.is_empty());
        for mark in grain.marks().iter() {
            self.marks.values().append_value(mark.name());
        }
        self.marks.append(!grain.marks().is_empty());
    }

    fn append_empty(&mut self) {
        for column in [&mut self.address, &mut self.type_name, &mut self.signature] {
            column.append_value("");
        }
        for column in [&mut self.type_byte, &mut self.flags, &mut self.sensitivity] {
            column.append_value(0);
        }
        for column in [&mut self.encoding, &mut self.signer, &mut self.source_id] {
            column.append_null();
        }
        self.blob.append_value([]);
        self.envelope.append_null();
        self.blob_size.append_value(0);
        self.ingested_at.append_value(0);
        self.supersedes.append(false);
        self.marks.append(false);
    }

    /// Returns the columns in the order of [`SystemColumn`](super::SystemColumn).
    fn finish(&mut self) -> Vec<ArrayRef> {
        vec![
            Arc::new(self.address.finish()),
            Arc::new(self.type_name.finish()),
            Arc::new(self.type_byte.finish()),
            Arc::new(self.flags.finish()),
            Arc::new(self.sensitivity.finish()),
            Arc::new(self.encoding.finish()),
            Arc::new(self.blob.finish()),
            Arc::new(self.blob_size.finish()),
            Arc::new(self.envelope.finish()),
            Arc::new(self.signature.finish()),
            Arc::new(self.signer.finish()),
            Arc::new(self.source_id.finish()),
            Arc::new(self.ingested_at.finish()),
            Arc::new(self.supersedes.finish()),
            Arc::new(self.marks.finish()),
        ]
    }
}

/// Returns the name of a standard type, or `unknown`.
fn known_type(grain: &Grain<'_>) -> &'static str {
    grain.grain_type().map_or("unknown", GrainType::name)
}
