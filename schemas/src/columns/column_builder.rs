//! Builds the columns of fields from payload values, with defined coercions; the blob remains the
//! authoritative value.
//!
//! Some writers store a list of one as a plain string, a count as a fraction, or a priority as a
//! word. A value that converts to the column's type without ambiguity becomes a cell, any other
//! becomes null. In either case the grain has the mark `field_kind`.

use arrow::array::{
    ArrayBuilder, ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, ListBuilder,
    NullBufferBuilder, OffsetBufferBuilder, StringBuilder, StructArray,
    TimestampMicrosecondBuilder, make_builder,
};
use arrow::datatypes::{DataType, Field as ArrowField, Fields};
use std::sync::Arc;

use super::grains::{struct_members, timestamp_type};
use crate::grain::{Field, FieldKind, RawValue};
use crate::json::write_string;

/// A column under construction. Rows without the field cost nothing until the next cell is set or
/// the column is finished.
pub(super) struct ColumnBuilder {
    field: Field,
    cells: CellBuilder,
    /// The number of rows so far.
    rows: usize,
    /// A buffer for cells that hold JSON.
    json: String,
}

/// The initial capacity of a column, taken from the previous batch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Capacity {
    cells: usize,
    /// Bytes of text.
    bytes: usize,
}

enum CellBuilder {
    Text(StringBuilder),
    Float(Float64Builder),
    Int(Int64Builder),
    Bool(BooleanBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    TextList(ListBuilder<StringBuilder>),
    IntList(ListBuilder<Int64Builder>),
    Structs(StructListBuilder),
    Struct(StructBuilder),
}

pub(super) fn list_field(item: DataType) -> Arc<ArrowField> {
    Arc::new(ArrowField::new("element", item, true))
}

/// Creates a builder of instants with the given capacity.
pub(super) fn timestamp_builder(capacity: usize) -> TimestampMicrosecondBuilder {
    TimestampMicrosecondBuilder::with_capacity(capacity).with_data_type(timestamp_type())
}

impl ColumnBuilder {
    pub(super) fn new(field: Field, capacity: Capacity) -> Self {
        let cells = match field.kind() {
            FieldKind::Text
            | FieldKind::TextOrMap
            | FieldKind::Any
            | FieldKind::Map
            | FieldKind::MapList
            | FieldKind::AnyList => {
                CellBuilder::Text(StringBuilder::with_capacity(capacity.cells, capacity.bytes))
            }
            FieldKind::UnitFloat | FieldKind::Float => {
                CellBuilder::Float(Float64Builder::with_capacity(capacity.cells))
            }
            FieldKind::Int | FieldKind::Count | FieldKind::Byte => {
                CellBuilder::Int(Int64Builder::with_capacity(capacity.cells))
            }
            FieldKind::Bool => CellBuilder::Bool(BooleanBuilder::with_capacity(capacity.cells)),
            FieldKind::Timestamp => CellBuilder::Timestamp(timestamp_builder(capacity.cells)),
            FieldKind::TextList | FieldKind::CitationList => CellBuilder::TextList(
                ListBuilder::new(StringBuilder::new()).with_field(list_field(DataType::Utf8)),
            ),
            FieldKind::ByteList => CellBuilder::IntList(
                ListBuilder::new(Int64Builder::new()).with_field(list_field(DataType::Int64)),
            ),
            kind @ (FieldKind::ContentRefs
            | FieldKind::EmbeddingRefs
            | FieldKind::RelatedTo
            | FieldKind::ProvenanceChain) => {
                CellBuilder::Structs(StructListBuilder::new(struct_members(kind)))
            }
            kind @ (FieldKind::InvalidationPolicy | FieldKind::RetentionPolicy) => {
                CellBuilder::Struct(StructBuilder::new(struct_members(kind)))
            }
        };
        ColumnBuilder {
            field,
            cells,
            rows: 0,
            json: String::new(),
        }
    }

    /// Sets the cell of row `row`; rows since the last cell become null.
    #[inline]
    pub(super) fn set(&mut self, row: usize, value: &RawValue<'_>) {
        // The previous row has the field in most cases.
        if self.rows != row {
            self.pad(row);
        }
        self.rows += 1;
        match &mut self.cells {
            CellBuilder::Text(cells) => append_text(cells, self.field, value, &mut self.json),
            CellBuilder::Float(cells) => cells.append_option(value.as_number()),
            CellBuilder::Int(cells) => cells.append_option(exact_integer(value)),
            CellBuilder::Bool(cells) => cells.append_option(value.as_bool()),
            CellBuilder::Timestamp(cells) => cells.append_option(microseconds(value, 1_000)),
            CellBuilder::TextList(cells) => append_texts(cells, value),
            CellBuilder::IntList(cells) => append_ints(cells, value),
            CellBuilder::Structs(cells) => cells.append(self.field, value),
            CellBuilder::Struct(cells) => cells.append(self.field, value),
        }
    }

    /// Pads the column with nulls to `rows` rows.
    fn pad(&mut self, rows: usize) {
        let missing = rows - self.rows;
        self.rows = rows;
        if missing == 0 {
            return;
        }
        match &mut self.cells {
            CellBuilder::Text(cells) => cells.append_nulls(missing),
            CellBuilder::Float(cells) => cells.append_nulls(missing),
            CellBuilder::Int(cells) => cells.append_nulls(missing),
            CellBuilder::Bool(cells) => cells.append_nulls(missing),
            CellBuilder::Timestamp(cells) => cells.append_nulls(missing),
            CellBuilder::TextList(cells) => cells.append_nulls(missing),
            CellBuilder::IntList(cells) => cells.append_nulls(missing),
            CellBuilder::Structs(cells) => cells.pad(rows),
            CellBuilder::Struct(cells) => cells.pad(rows),
        }
    }

    /// Returns the capacity that the current cells use.
    pub(super) fn used_capacity(&self) -> Capacity {
        let bytes = if let CellBuilder::Text(cells) = &self.cells {
            cells.values_slice().len()
        } else {
            0
        };
        Capacity {
            cells: self.rows,
            bytes,
        }
    }

    /// Finishes the column with `rows` rows and resets the builder.
    pub(super) fn finish(&mut self, rows: usize) -> ArrayRef {
        self.pad(rows);
        self.rows = 0;
        match &mut self.cells {
            CellBuilder::Text(cells) => Arc::new(cells.finish()),
            CellBuilder::Float(cells) => Arc::new(cells.finish()),
            CellBuilder::Int(cells) => Arc::new(cells.finish()),
            CellBuilder::Bool(cells) => Arc::new(cells.finish()),
            CellBuilder::Timestamp(cells) => Arc::new(cells.finish()),
            CellBuilder::TextList(cells) => Arc::new(cells.finish()),
            CellBuilder::IntList(cells) => Arc::new(cells.finish()),
            CellBuilder::Structs(cells) => cells.finish(),
            CellBuilder::Struct(cells) => cells.finish(),
        }
    }
}

/// Returns the text of a cell: a string unchanged; a map, list or number as canonical JSON in the
/// buffer `json`; `None` for another kind in a text field.
#[inline]
pub(super) fn text_of<'v>(
    field: Field,
    value: &'v RawValue<'_>,
    json: &'v mut String,
) -> Option<&'v str> {
    match (value, field.kind()) {
        (RawValue::Text(text), _) => Some(text),
        (_, FieldKind::Text) => None,
        (value, _) => {
            json.clear();
            write_canonical_json(value, json);
            Some(json)
        }
    }
}

fn append_text(cells: &mut StringBuilder, field: Field, value: &RawValue<'_>, json: &mut String) {
    match text_of(field, value, json) {
        Some(text) => cells.append_value(text),
        None => cells.append_null(),
    }
}

/// Returns an integer, or a number or text with an exact integer value.
pub(super) fn exact_integer(value: &RawValue<'_>) -> Option<i64> {
    match value {
        RawValue::Int(value) => Some(*value),
        RawValue::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => Some(*value as i64),
        RawValue::Text(text) => text.parse().ok(),
        _ => None,
    }
}

/// Converts an instant in units of `scale` microseconds.
pub(super) fn microseconds(value: &RawValue<'_>, scale: i64) -> Option<i64> {
    value
        .as_int()
        .and_then(|instant| instant.checked_mul(scale))
}

/// Appends a list of strings. A single string becomes a list of one, a citation its canonical JSON.
fn append_texts(cells: &mut ListBuilder<StringBuilder>, value: &RawValue<'_>) {
    match value {
        RawValue::Text(text) => cells.values().append_value(text),
        RawValue::Array(encoded) => {
            let mut json = String::new();
            for item in encoded.items() {
                append_text(cells.values(), Field::Object, &item, &mut json);
            }
        }
        _ => return cells.append_null(),
    }
    cells.append(true);
}

fn append_ints(cells: &mut ListBuilder<Int64Builder>, value: &RawValue<'_>) {
    let Some(items) = value.as_array() else {
        return cells.append_null();
    };
    for item in items {
        cells.values().append_option(exact_integer(&item));
    }
    cells.append(true);
}

/// Appends `value` to `out` as canonical JSON: compact, with the keys of every map in byte order.
pub fn write_canonical_json(value: &RawValue<'_>, out: &mut String) {
    match value {
        RawValue::Array(encoded) => {
            out.push('[');
            for (at, item) in encoded.items().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_canonical_json(&item, out);
            }
            out.push(']');
        }
        RawValue::Map(encoded) => {
            let mut entries: Vec<_> = encoded.entries().collect();
            // MessagePack stores keys in this order already; CBOR puts shorter keys first.
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, value)) in entries.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_canonical_json(value, out);
            }
            out.push('}');
        }
        RawValue::Text(text) => write_string(text, out),
        scalar => crate::grain::to_json(scalar).write(out),
    }
}

/// A builder for a column of structs.
struct StructBuilder {
    members: Fields,
    columns: Vec<Box<dyn ArrayBuilder>>,
    validity: NullBufferBuilder,
}

impl StructBuilder {
    fn new(members: Fields) -> Self {
        let columns = members
            .iter()
            .map(|member| member_builder(member.data_type()))
            .collect();
        StructBuilder {
            members,
            columns,
            validity: NullBufferBuilder::new(0),
        }
    }

    fn append(&mut self, field: Field, value: &RawValue<'_>) {
        let is_map = matches!(value, RawValue::Map(_));
        for (member, column) in self.members.iter().zip(&mut self.columns) {
            let key = field
                .nested_keys()
                .iter()
                .find(|(name, _)| name == member.name())
                .map_or(&**member.name(), |(_, short)| short);
            let found = value.get(key).or_else(|| value.get(member.name()));
            append_member(column.as_mut(), member, found.as_ref());
        }
        self.validity.append(is_map);
    }

    fn pad(&mut self, rows: usize) {
        while self.validity.len() < rows {
            for (member, column) in self.members.iter().zip(&mut self.columns) {
                append_member(column.as_mut(), member, None);
            }
            self.validity.append_null();
        }
    }

    fn finish(&mut self) -> ArrayRef {
        let length = self.validity.len();
        let columns: Vec<_> = self
            .columns
            .iter_mut()
            .map(|column| column.finish())
            .collect();
        let nulls = self.validity.finish();
        match StructArray::try_new_with_length(self.members.clone(), columns, nulls.clone(), length)
        {
            Ok(array) => Arc::new(array),
            // The members have equal lengths because they are built row by row.
            Err(_) => Arc::new(StructArray::new_null(self.members.clone(), length)),
        }
    }
}

/// A builder for a column of lists of structs.
struct StructListBuilder {
    items: StructBuilder,
    offsets: OffsetBufferBuilder<i32>,
    validity: NullBufferBuilder,
}

impl StructListBuilder {
    fn new(members: Fields) -> Self {
        StructListBuilder {
            items: StructBuilder::new(members),
            offsets: OffsetBufferBuilder::new(0),
            validity: NullBufferBuilder::new(0),
        }
    }

    fn append(&mut self, field: Field, value: &RawValue<'_>) {
        let before = self.items.validity.len();
        for item in value.as_array().into_iter().flatten() {
            self.items.append(field, &item);
        }
        self.offsets.push_length(self.items.validity.len() - before);
        self.validity.append(matches!(value, RawValue::Array(_)));
    }

    fn pad(&mut self, rows: usize) {
        while self.validity.len() < rows {
            self.offsets.push_length(0);
            self.validity.append_null();
        }
    }

    fn finish(&mut self) -> ArrayRef {
        let item = list_field(DataType::Struct(self.items.members.clone()));
        let offsets = std::mem::replace(&mut self.offsets, OffsetBufferBuilder::new(0)).finish();
        Arc::new(arrow::array::ListArray::new(
            item,
            offsets,
            self.items.finish(),
            self.validity.finish(),
        ))
    }
}

fn member_builder(kind: &DataType) -> Box<dyn ArrayBuilder> {
    match kind {
        DataType::Timestamp(..) => Box::new(timestamp_builder(0)),
        DataType::List(item) => {
            Box::new(ListBuilder::new(StringBuilder::new()).with_field(Arc::clone(item)))
        }
        other => make_builder(other, 0),
    }
}

/// The member in seconds; all other instants are in milliseconds (§23.2).
const LOCKED_UNTIL: &str = "locked_until";

fn append_member(column: &mut dyn ArrayBuilder, member: &ArrowField, value: Option<&RawValue<'_>>) {
    let column = column.as_any_mut();
    if let Some(cells) = column.downcast_mut::<StringBuilder>() {
        match value {
            Some(value) => append_text(cells, Field::Object, value, &mut String::new()),
            None => cells.append_null(),
        }
    } else if let Some(cells) = column.downcast_mut::<Int64Builder>() {
        cells.append_option(value.and_then(exact_integer));
    } else if let Some(cells) = column.downcast_mut::<Float64Builder>() {
        cells.append_option(value.and_then(RawValue::as_number));
    } else if let Some(cells) = column.downcast_mut::<TimestampMicrosecondBuilder>() {
        let scale = if member.name() == LOCKED_UNTIL {
            1_000_000
        } else {
            1_000
        };
        cells.append_option(value.and_then(|value| microseconds(value, scale)));
    } else if let Some(cells) = column.downcast_mut::<ListBuilder<StringBuilder>>() {
        match value {
            Some(value) => append_texts(cells, value),
            None => cells.append_null(),
        }
    }
}
