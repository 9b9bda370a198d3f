//! Compares grains with stored rows without converting them to rows.
//!
//! Each cell is compared with the value that the projection would produce, using the same
//! coercions. Lists and structs, which few grains have, are built by the projection and compared as
//! columns. The result only indicates whether all cells are equal; a caller that needs to know
//! which cells differ projects the rows.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, Int16Array, Int64Array,
    ListArray, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Float64Type, Int16Type, Int64Type, TimestampMicrosecondType};

use super::column_builder::{Capacity, ColumnBuilder, exact_integer, microseconds, text_of};
use super::envelope::envelope_cell;
use super::grains::{SystemColumn, column_type, grains_schema};
use super::projection::RowMetadata;
use crate::address::ContentAddress;
use crate::grain::{Field, Grain, RawValue};

/// Stored rows of `grains`, to be compared with grains in order.
pub struct StoredRows<'b> {
    rows: usize,
    system: StoredSystemCells<'b>,
    /// One per [`Field::ALL`].
    fields: Vec<StoredColumn<'b>>,
    /// A buffer for cells that hold JSON.
    json: String,
}

struct StoredSystemCells<'b> {
    address: &'b StringArray,
    type_name: &'b StringArray,
    type_byte: &'b Int16Array,
    flags: &'b Int16Array,
    sensitivity: &'b Int16Array,
    encoding: &'b StringArray,
    blob_size: &'b Int64Array,
    envelope: &'b BinaryArray,
    signature: &'b StringArray,
    signer: &'b StringArray,
    marks: &'b ListArray,
}

/// The stored column of a field.
struct StoredColumn<'b> {
    cells: StoredCells<'b>,
    /// The number of non-null cells that were compared and equal.
    equal: usize,
}

enum StoredCells<'b> {
    /// The field has no column.
    None,
    Text(&'b StringArray),
    Float(&'b Float64Array),
    Int(&'b Int64Array),
    Bool(&'b BooleanArray),
    Timestamp(&'b TimestampMicrosecondArray),
    /// Lists and structs, compared as a whole column with the built one.
    Built(&'b ArrayRef, Option<Box<ColumnBuilder>>),
}

impl<'b> StoredRows<'b> {
    /// Wraps the rows of `batch`; `None` unless it has exactly the columns of `grains`, in their
    /// order and with their types.
    pub fn of(batch: &'b RecordBatch) -> Option<StoredRows<'b>> {
        let schema = grains_schema();
        let own = batch.schema_ref();
        let is_own = |(place, field): (usize, &std::sync::Arc<arrow::datatypes::Field>)| {
            own.fields()
                .get(place)
                .is_some_and(|found| found.name() == field.name())
        };
        if own.fields().len() != schema.fields().len()
            || !schema.fields().iter().enumerate().all(is_own)
        {
            return None;
        }
        let mut places = SystemColumn::ALL.len()..;
        let column = |field: &Field| -> Option<StoredColumn<'b>> {
            let cells = match column_type(*field) {
                None => StoredCells::None,
                Some(kind) => {
                    let found = batch.columns().get(places.next()?)?;
                    let found = if *found.data_type() == kind {
                        found
                    } else {
                        return None;
                    };
                    StoredCells::of(found)
                }
            };
            Some(StoredColumn { cells, equal: 0 })
        };
        let fields = Field::ALL.iter().map(column).collect::<Option<Vec<_>>>()?;
        Some(StoredRows {
            rows: batch.num_rows(),
            system: StoredSystemCells::of(batch)?,
            fields,
            json: String::new(),
        })
    }

    /// Returns true if row `row` matches `grain` in all cells that the grain has a value for.
    /// `size` is the length of its blob. Rows must be compared in order; cells of fields that the
    /// grain lacks are checked by [`StoredRows::finish`].
    pub fn matches(
        &mut self,
        row: usize,
        address: &ContentAddress,
        size: usize,
        grain: &Grain<'_>,
        metadata: &RowMetadata<'_>,
    ) -> bool {
        let fields = &mut self.fields;
        let json = &mut self.json;
        self.system.matches(row, address, size, grain, metadata)
            && grain.known().iter().all(|(field, value)| {
                fields
                    .get_mut(*field as usize)
                    .is_some_and(|column| column.matches(row, *field, value, json))
            })
    }

    /// Returns true if no row has a value for a field that its grain lacks, provided that all rows
    /// [matched](StoredRows::matches).
    pub fn finish(self) -> bool {
        let rows = self.rows;
        self.fields.into_iter().all(|column| column.finish(rows))
    }
}

impl<'b> StoredCells<'b> {
    fn of(column: &'b ArrayRef) -> StoredCells<'b> {
        if let Some(cells) = column.as_string_opt::<i32>() {
            StoredCells::Text(cells)
        } else if let Some(cells) = column.as_primitive_opt::<Float64Type>() {
            StoredCells::Float(cells)
        } else if let Some(cells) = column.as_primitive_opt::<Int64Type>() {
            StoredCells::Int(cells)
        } else if let Some(cells) = column.as_boolean_opt() {
            StoredCells::Bool(cells)
        } else if let Some(cells) = column.as_primitive_opt::<TimestampMicrosecondType>() {
            StoredCells::Timestamp(cells)
        } else {
            StoredCells::Built(column, None)
        }
    }
}

impl StoredColumn<'_> {
    fn matches(
        &mut self,
        row: usize,
        field: Field,
        value: &RawValue<'_>,
        json: &mut String,
    ) -> bool {
        let (is_equal, has_value) = match &mut self.cells {
            StoredCells::None => return true,
            StoredCells::Text(cells) => equal(text_of(field, value, json), text(cells, row)),
            StoredCells::Float(cells) => {
                let stored = cells.is_valid(row).then(|| cells.value(row).to_bits());
                equal(value.as_number().map(f64::to_bits), stored)
            }
            StoredCells::Int(cells) => equal(
                exact_integer(value),
                cells.is_valid(row).then(|| cells.value(row)),
            ),
            StoredCells::Bool(cells) => equal(
                value.as_bool(),
                cells.is_valid(row).then(|| cells.value(row)),
            ),
            StoredCells::Timestamp(cells) => equal(
                microseconds(value, 1_000),
                cells.is_valid(row).then(|| cells.value(row)),
            ),
            StoredCells::Built(_, builder) => {
                let new = || Box::new(ColumnBuilder::new(field, Capacity::default()));
                builder.get_or_insert_with(new).set(row, value);
                return true;
            }
        };
        self.equal += usize::from(has_value);
        is_equal
    }

    fn finish(self, rows: usize) -> bool {
        let has = |cells: &dyn Array| cells.len() - cells.null_count() == self.equal;
        match self.cells {
            StoredCells::None => true,
            StoredCells::Text(cells) => has(cells),
            StoredCells::Float(cells) => has(cells),
            StoredCells::Int(cells) => has(cells),
            StoredCells::Bool(cells) => has(cells),
            StoredCells::Timestamp(cells) => has(cells),
            StoredCells::Built(cells, None) => cells.null_count() == cells.len(),
            StoredCells::Built(cells, Some(mut builder)) => &builder.finish(rows) == cells,
        }
    }
}

impl<'b> StoredSystemCells<'b> {
    fn of(batch: &'b RecordBatch) -> Option<StoredSystemCells<'b>> {
        let column = |column: SystemColumn| batch.columns().get(column as usize);
        let text = |name| column(name)?.as_string_opt::<i32>();
        let small = |name| column(name)?.as_primitive_opt::<Int16Type>();
        Some(StoredSystemCells {
            address: text(SystemColumn::ContentAddress)?,
            type_name: text(SystemColumn::Type)?,
            type_byte: small(SystemColumn::TypeByte)?,
            flags: small(SystemColumn::Flags)?,
            sensitivity: small(SystemColumn::Sensitivity)?,
            encoding: text(SystemColumn::Encoding)?,
            blob_size: column(SystemColumn::BlobSize)?.as_primitive_opt::<Int64Type>()?,
            envelope: column(SystemColumn::Envelope)?.as_binary_opt::<i32>()?,
            signature: text(SystemColumn::Signature)?,
            signer: text(SystemColumn::SignerDid)?,
            marks: column(SystemColumn::Marks)?.as_list_opt::<i32>()?,
        })
    }

    fn matches(
        &self,
        row: usize,
        address: &ContentAddress,
        size: usize,
        grain: &Grain<'_>,
        metadata: &RowMetadata<'_>,
    ) -> bool {
        let header = grain.header();
        let number =
            |cells: &Int16Array, value: i16| cells.is_valid(row) && cells.value(row) == value;
        let envelope = || metadata.envelope.as_ref().map(envelope_cell);
        let stored_envelope = self
            .envelope
            .is_valid(row)
            .then(|| self.envelope.value(row));
        text(self.address, row) == Some(address.write_hex(&mut [0; ContentAddress::TEXT_LENGTH]))
            && text(self.type_name, row) == Some(&grain.type_name())
            && number(self.type_byte, i16::from(header.type_byte.byte()))
            && number(self.flags, i16::from(header.flags.byte()))
            && number(self.sensitivity, header.flags.sensitivity() as i16)
            && text(self.encoding, row) == (!grain.is_encrypted()).then(|| grain.encoding().name())
            && self.blob_size.is_valid(row)
            && self.blob_size.value(row) == size as i64
            && envelope().as_deref() == stored_envelope
            && text(self.signature, row) == Some(metadata.signature.name())
            && text(self.signer, row) == metadata.signer
            && self.has_marks(row, grain)
    }

    fn has_marks(&self, row: usize, grain: &Grain<'_>) -> bool {
        if self.marks.is_null(row) {
            return grain.marks().is_empty();
        }
        let stored = self.marks.value(row);
        let own = grain.marks().iter().map(|mark| Some(mark.name()));
        !grain.marks().is_empty()
            && stored
                .as_string_opt::<i32>()
                .is_some_and(|stored| stored.iter().eq(own))
    }
}

fn text(cells: &StringArray, row: usize) -> Option<&str> {
    cells.is_valid(row).then(|| cells.value(row))
}

/// Returns whether the cell equals the stored one, and whether it has a value.
fn equal<T: PartialEq>(cell: Option<T>, stored: Option<T>) -> (bool, bool) {
    (cell == stored, cell.is_some())
}
