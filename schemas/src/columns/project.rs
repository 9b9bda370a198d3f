//! The row of a grain.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, Int16Builder, Int64Builder, ListBuilder, RecordBatch,
    StringBuilder, TimestampMicrosecondBuilder, new_null_array,
};
use arrow::datatypes::{DataType, TimestampMicrosecondType};
use arrow::error::ArrowError;

use super::cell::{ColumnBuilder, Room, instant_builder, list_field};
use super::envelope::envelope_cell;
use super::grains::{IdentityColumn, column_of, grains_schema};
use super::sealed::{TOKENS, is_sealed};
use crate::address::ContentAddress;
use crate::grain::{Field, Grain, GrainType, Header, RawValue};
use crate::sign::EnvelopeParts;

/// The version of the rules by which a grain becomes its row. It grows when the same grain gives
/// another cell than before, so that rows of earlier programs aren't taken for damaged ones. The
/// rules have not changed since format version 1 of the lake.
pub const PROJECTION_VERSION: u32 = 1;

/// What `signature` says of a grain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SignatureColumn {
    /// The grain came bare.
    #[default]
    None,
    /// The signer's key verifies it.
    Valid,
    /// It doesn't.
    Invalid,
    /// The signer's key isn't known.
    Unverifiable,
}

impl SignatureColumn {
    /// The word in the column.
    pub const fn name(self) -> &'static str {
        match self {
            SignatureColumn::None => "none",
            SignatureColumn::Valid => "valid",
            SignatureColumn::Invalid => "invalid",
            SignatureColumn::Unverifiable => "unverifiable",
        }
    }
}

/// What the engine knows about a grain beside its fields.
#[derive(Debug, Clone, Default)]
pub struct RowIdentity<'a> {
    /// The COSE envelope, if the grain came in one.
    pub envelope: Option<EnvelopeParts<'a>>,
    /// What the signature is worth.
    pub signature: SignatureColumn,
    /// Who signed.
    pub signer: Option<&'a str>,
    /// The BLAKE3 of the source, in hex.
    pub source_id: Option<&'a str>,
    /// When the run began, in microseconds since 1970.
    pub ingested_at: i64,
    /// The grains that this one supersedes.
    pub supersedes: &'a [ContentAddress],
}

/// Rows of `grains` that are being built.
pub struct GrainColumns {
    rows: usize,
    identity: Identity,
    /// One for each of [`Field::ALL`].
    fields: Vec<FieldColumn>,
}

/// What becomes of a field's values.
#[allow(
    clippy::large_enum_variant,
    reason = "one per field of a batch, nearly all of the large kind"
)]
enum FieldColumn {
    /// The field has no column.
    Left,
    /// No grain has had the field yet; in the batch before it took so much.
    Empty(Room),
    /// Cells are there.
    Building(ColumnBuilder),
}

impl FieldColumn {
    fn all() -> Vec<FieldColumn> {
        let column = |field: &Field| {
            if column_of(*field).is_some() {
                FieldColumn::Empty(Room::default())
            } else {
                FieldColumn::Left
            }
        };
        Field::ALL.iter().map(column).collect()
    }

    fn set(&mut self, field: Field, row: usize, value: &RawValue<'_>) {
        match self {
            FieldColumn::Left => {}
            FieldColumn::Building(column) => column.set(row, value),
            FieldColumn::Empty(room) => {
                let mut column = ColumnBuilder::new(field, *room);
                column.set(row, value);
                *self = FieldColumn::Building(column);
            }
        }
    }
}

/// Columns without a cell. Most fields are those of other types: all of one data type share one
/// array.
#[derive(Default)]
struct EmptyColumns(Vec<ArrayRef>);

impl EmptyColumns {
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

struct Identity {
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

impl GrainColumns {
    /// No rows, with room for `rows` of `blob_bytes` bytes in all.
    pub fn with_capacity(rows: usize, blob_bytes: usize) -> Self {
        GrainColumns {
            rows: 0,
            identity: Identity::with_capacity(rows, blob_bytes),
            fields: FieldColumn::all(),
        }
    }

    /// Makes room for `rows` of `blob_bytes` bytes in all, if there are none; for their fields, as
    /// much as the batch before took.
    pub fn reserve(&mut self, rows: usize, blob_bytes: usize) {
        if self.is_empty() {
            self.identity = Identity::with_capacity(rows, blob_bytes);
        }
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// True if it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds the row of `grain`, whose bytes are `blob`. Costs nothing for fields that the grain
    /// doesn't have.
    pub fn append(
        &mut self,
        address: &ContentAddress,
        blob: &[u8],
        grain: &Grain<'_>,
        row: &RowIdentity<'_>,
    ) {
        self.append_open(address, (blob, blob.len()), grain, row);
    }

    /// Adds the row of `grain`, whose bytes are `size` long, with an empty cell `blob`: for a
    /// comparison with a stored row, which needs no second copy of the bytes.
    pub fn append_without_blob(
        &mut self,
        address: &ContentAddress,
        size: usize,
        grain: &Grain<'_>,
        row: &RowIdentity<'_>,
    ) {
        self.append_open(address, (&[], size), grain, row);
    }

    fn append_open(
        &mut self,
        address: &ContentAddress,
        (blob, size): (&[u8], usize),
        grain: &Grain<'_>,
        row: &RowIdentity<'_>,
    ) {
        self.identity.append(address, blob, size, grain, row);
        for (field, value) in grain.known() {
            if let Some(column) = self.fields.get_mut(*field as usize) {
                column.set(*field, self.rows, value);
            }
        }
        self.rows += 1;
    }

    /// Adds the sealed row of `grain`, whose bytes are `size` long and stand in the envelope
    /// `sealed`; `token` answers the blind token of a text.
    pub fn append_sealed(
        &mut self,
        address: &ContentAddress,
        (sealed, size): (&[u8], usize),
        grain: &Grain<'_>,
        row: &RowIdentity<'_>,
        token: &dyn Fn(Field, &str) -> String,
    ) {
        let row = RowIdentity {
            envelope: None,
            signer: None,
            ..row.clone()
        };
        self.identity.append(address, sealed, size, grain, &row);
        for field in TOKENS {
            let cell = grain.text(field).map(|text| token(field, text));
            if let (Some(cell), Some(column)) = (cell, self.fields.get_mut(field as usize)) {
                column.set(field, self.rows, &RawValue::Text(&cell));
            }
        }
        self.rows += 1;
    }

    /// Adds a row of which nothing can be told: the key to its envelope was destroyed.
    pub fn append_unreadable(&mut self) {
        self.identity.append_empty();
        self.rows += 1;
    }

    /// The rows as a batch, leaving none. What comes next makes room for as much again.
    ///
    /// # Errors
    /// None that the builders can cause; Arrow's own check is passed on.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        let mut columns = self.identity.finish();
        let mut empty = EmptyColumns::default();
        for (field, column) in Field::ALL.iter().zip(&mut self.fields) {
            columns.push(match (&mut *column, column_of(*field)) {
                (FieldColumn::Building(cells), _) => {
                    let room = cells.room();
                    let cells = cells.finish(rows);
                    *column = FieldColumn::Empty(room);
                    cells
                }
                (FieldColumn::Empty(_), Some(data_type)) => empty.of(&data_type, rows),
                _ => continue,
            });
        }
        RecordBatch::try_new(grains_schema(), columns)
    }
}

impl Identity {
    fn with_capacity(rows: usize, blob_bytes: usize) -> Identity {
        let texts =
            || ListBuilder::new(StringBuilder::new()).with_field(list_field(DataType::Utf8));
        Identity {
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
            ingested_at: instant_builder(rows),
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
        row: &RowIdentity<'_>,
    ) {
        let header = grain.header();
        self.address
            .append_value(address.write_hex(&mut [0; ContentAddress::TEXT_LENGTH]));
        // The word of an unknown type is the payload's.
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

    /// In the order of [`IdentityColumn`](super::IdentityColumn).
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

/// Appends the sort key of `grain`: rows of a segment are ordered by namespace, user, subject and
/// creation time, so that a person's rows are neighbours. The bytes compare as the tuple does;
/// absent comes before empty.
pub fn write_sort_key(grain: &Grain<'_>, out: &mut Vec<u8>) {
    let created = grain.get(Field::CreatedAt).and_then(|value| value.as_int());
    // Types without a schema may hold an instant that its column can't.
    let created = created.filter(|milliseconds| milliseconds.checked_mul(1_000).is_some());
    let created = created.unwrap_or_else(|| i64::from(grain.header().created_at_seconds) * 1000);
    write_key(PERSON.map(|field| grain.text(field)), created, out);
}

/// [`write_sort_key`] of a sealed row: with the tokens in place of the texts, and without the
/// instant, which is sealed.
pub fn write_sealed_sort_key(
    grain: &Grain<'_>,
    token: &dyn Fn(Field, &str) -> String,
    out: &mut Vec<u8>,
) {
    let texts = PERSON.map(|field| grain.text(field).map(|text| token(field, text)));
    write_key(texts.each_ref().map(Option::as_deref), 0, out);
}

fn known_type(grain: &Grain<'_>) -> &'static str {
    grain.grain_type().map_or("unknown", GrainType::name)
}

/// The fields that stand before the creation time in a sort key.
const PERSON: [Field; 3] = [Field::Namespace, Field::UserId, Field::Subject];

/// The sort key of texts and an instant in milliseconds.
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
    // Flipping the sign bit makes signed order the order of bytes.
    out.extend((created ^ i64::MIN).to_be_bytes());
}

/// A sort key's texts, encoded, and its instant as a number: keys compare as these pairs do.
pub fn split_sort_key(key: &[u8]) -> (&[u8], u64) {
    key.split_last_chunk().map_or((key, 0), |(texts, created)| {
        (texts, u64::from_be_bytes(*created))
    })
}

/// The sort keys of the rows of `grains` in a batch, each followed by the row's address: the order
/// of rows in a segment.
#[derive(Debug, Default)]
pub struct RowKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl RowKeys {
    /// The keys of `batch`, which has the columns of `grains` by name.
    ///
    /// # Errors
    /// [`ArrowError::SchemaError`] if a column is missing.
    pub fn of(batch: &RecordBatch) -> Result<RowKeys, ArrowError> {
        let column = |name: &str| {
            batch
                .column_by_name(name)
                .ok_or_else(|| ArrowError::SchemaError(format!("no column `{name}`")))
        };
        let addresses = column(IdentityColumn::ContentAddress.name())?.as_string::<i32>();
        let blobs = column(IdentityColumn::Blob.name())?.as_binary::<i32>();
        let created = column(Field::CreatedAt.name())?.as_primitive::<TimestampMicrosecondType>();
        let [namespace, user, subject] = PERSON.map(|field| column(field.name()));
        let texts = [
            namespace?.as_string::<i32>(),
            user?.as_string::<i32>(),
            subject?.as_string::<i32>(),
        ];
        let mut keys = RowKeys::default();
        for row in 0..batch.num_rows() {
            let created = match created.is_valid(row) {
                true => created.value(row).div_euclid(1_000),
                false if is_sealed(blobs.value(row)) => 0,
                false => Header::read(blobs.value(row))
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

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The key of `row`; keys compare as their rows do.
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

/// Text so that no text's bytes are the beginning of another's: a zero byte becomes 00 ff, the end
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
