//! One value of a payload as a cell: declared coercions, with the blob as the truth.
//!
//! Other writers keep a list of one as a plain string, a count as a fraction, a priority as a word.
//! What fits the column without doubt becomes a cell; what doesn't becomes null. Either way the
//! grain carries the mark `field_kind`.

use arrow::array::{
    ArrayBuilder, ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, ListBuilder,
    NullBufferBuilder, OffsetBufferBuilder, StringBuilder, StructArray,
    TimestampMicrosecondBuilder, make_builder,
};
use arrow::datatypes::{DataType, Field as ArrowField, Fields};
use std::sync::Arc;

use super::grains::{instant, struct_members};
use crate::grain::{Field, Kind, RawValue};
use crate::json::write_string;

/// A column that is being built. Rows without the field cost nothing until the column is finished
/// or gets its next cell.
pub(super) struct ColumnBuilder {
    field: Field,
    cells: Cells,
    /// How many rows there are.
    rows: usize,
    /// Where cells of JSON are put together.
    json: String,
}

/// Room that is made at once for the cells of a column: what those of a batch before it took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Room {
    cells: usize,
    /// Bytes of texts.
    bytes: usize,
}

enum Cells {
    Text(StringBuilder),
    Float(Float64Builder),
    Int(Int64Builder),
    Bool(BooleanBuilder),
    Instant(TimestampMicrosecondBuilder),
    TextList(ListBuilder<StringBuilder>),
    IntList(ListBuilder<Int64Builder>),
    Structs(StructListBuilder),
    Struct(StructBuilder),
}

pub(super) fn list_field(item: DataType) -> Arc<ArrowField> {
    Arc::new(ArrowField::new("element", item, true))
}

/// A builder of instants with room for so many.
pub(super) fn instant_builder(room: usize) -> TimestampMicrosecondBuilder {
    TimestampMicrosecondBuilder::with_capacity(room).with_data_type(instant())
}

impl ColumnBuilder {
    pub(super) fn new(field: Field, room: Room) -> Self {
        let cells = match field.kind() {
            Kind::Text
            | Kind::TextOrMap
            | Kind::Any
            | Kind::Map
            | Kind::MapList
            | Kind::AnyList => Cells::Text(StringBuilder::with_capacity(room.cells, room.bytes)),
            Kind::UnitFloat | Kind::Float => {
                Cells::Float(Float64Builder::with_capacity(room.cells))
            }
            Kind::Int | Kind::Count | Kind::Byte => {
                Cells::Int(Int64Builder::with_capacity(room.cells))
            }
            Kind::Bool => Cells::Bool(BooleanBuilder::with_capacity(room.cells)),
            Kind::Instant => Cells::Instant(instant_builder(room.cells)),
            Kind::TextList | Kind::CitationList => Cells::TextList(
                ListBuilder::new(StringBuilder::new()).with_field(list_field(DataType::Utf8)),
            ),
            Kind::ByteList => Cells::IntList(
                ListBuilder::new(Int64Builder::new()).with_field(list_field(DataType::Int64)),
            ),
            kind @ (Kind::ContentRefs
            | Kind::EmbeddingRefs
            | Kind::RelatedTo
            | Kind::ProvenanceChain) => {
                Cells::Structs(StructListBuilder::new(struct_members(kind)))
            }
            kind @ (Kind::InvalidationPolicy | Kind::RetentionPolicy) => {
                Cells::Struct(StructBuilder::new(struct_members(kind)))
            }
        };
        ColumnBuilder {
            field,
            cells,
            rows: 0,
            json: String::new(),
        }
    }

    /// Sets the cell of row `row`; the rows since the last cell become null.
    #[inline]
    pub(super) fn set(&mut self, row: usize, value: &RawValue<'_>) {
        // Most rows follow one that has the field, too.
        if self.rows != row {
            self.pad(row);
        }
        self.rows += 1;
        match &mut self.cells {
            Cells::Text(cells) => append_text(cells, self.field, value, &mut self.json),
            Cells::Float(cells) => cells.append_option(value.as_number()),
            Cells::Int(cells) => cells.append_option(whole_number(value)),
            Cells::Bool(cells) => cells.append_option(value.as_bool()),
            Cells::Instant(cells) => cells.append_option(microseconds(value, 1_000)),
            Cells::TextList(cells) => append_texts(cells, value),
            Cells::IntList(cells) => append_ints(cells, value),
            Cells::Structs(cells) => cells.append(self.field, value),
            Cells::Struct(cells) => cells.append(self.field, value),
        }
    }

    /// Makes the column `rows` long, with nulls.
    fn pad(&mut self, rows: usize) {
        let missing = rows - self.rows;
        self.rows = rows;
        if missing == 0 {
            return;
        }
        match &mut self.cells {
            Cells::Text(cells) => cells.append_nulls(missing),
            Cells::Float(cells) => cells.append_nulls(missing),
            Cells::Int(cells) => cells.append_nulls(missing),
            Cells::Bool(cells) => cells.append_nulls(missing),
            Cells::Instant(cells) => cells.append_nulls(missing),
            Cells::TextList(cells) => cells.append_nulls(missing),
            Cells::IntList(cells) => cells.append_nulls(missing),
            Cells::Structs(cells) => cells.pad(rows),
            Cells::Struct(cells) => cells.pad(rows),
        }
    }

    /// What its cells take.
    pub(super) fn room(&self) -> Room {
        let bytes = if let Cells::Text(cells) = &self.cells {
            cells.values_slice().len()
        } else {
            0
        };
        Room {
            cells: self.rows,
            bytes,
        }
    }

    /// The column of `rows` rows.
    pub(super) fn finish(&mut self, rows: usize) -> ArrayRef {
        self.pad(rows);
        self.rows = 0;
        match &mut self.cells {
            Cells::Text(cells) => Arc::new(cells.finish()),
            Cells::Float(cells) => Arc::new(cells.finish()),
            Cells::Int(cells) => Arc::new(cells.finish()),
            Cells::Bool(cells) => Arc::new(cells.finish()),
            Cells::Instant(cells) => Arc::new(cells.finish()),
            Cells::TextList(cells) => Arc::new(cells.finish()),
            Cells::IntList(cells) => Arc::new(cells.finish()),
            Cells::Structs(cells) => cells.finish(),
            Cells::Struct(cells) => cells.finish(),
        }
    }
}

/// A string as it is; a map, list or number as canonical JSON, which is put together in `json`.
#[inline]
pub(super) fn text_of<'v>(
    field: Field,
    value: &'v RawValue<'_>,
    json: &'v mut String,
) -> Option<&'v str> {
    match (value, field.kind()) {
        (RawValue::Text(text), _) => Some(text),
        (_, Kind::Text) => None,
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

/// An integer, or a number or text that is exactly one.
pub(super) fn whole_number(value: &RawValue<'_>) -> Option<i64> {
    match value {
        RawValue::Int(value) => Some(*value),
        RawValue::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => Some(*value as i64),
        RawValue::Text(text) => text.parse().ok(),
        _ => None,
    }
}

/// An instant that the payload keeps in units of `scale` microseconds.
pub(super) fn microseconds(value: &RawValue<'_>, scale: i64) -> Option<i64> {
    value
        .as_int()
        .and_then(|instant| instant.checked_mul(scale))
}

/// A list of strings; a string alone is a list of one, a citation is its canonical JSON.
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
        cells.values().append_option(whole_number(&item));
    }
    cells.append(true);
}

/// Appends a value as canonical JSON: compact, the keys of every map in the order of their bytes.
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
            // MessagePack has them in this order already; CBOR puts shorter keys first.
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

/// A column of structs.
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
            // The members are built row by row, so their lengths are equal.
            Err(_) => Arc::new(StructArray::new_null(self.members.clone(), length)),
        }
    }
}

/// A column of lists of structs.
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
        DataType::Timestamp(..) => Box::new(instant_builder(0)),
        DataType::List(item) => {
            Box::new(ListBuilder::new(StringBuilder::new()).with_field(Arc::clone(item)))
        }
        other => make_builder(other, 0),
    }
}

/// Seconds, the one unit that isn't milliseconds (§23.2).
const LOCKED_UNTIL: &str = "locked_until";

fn append_member(column: &mut dyn ArrayBuilder, member: &ArrowField, value: Option<&RawValue<'_>>) {
    let column = column.as_any_mut();
    if let Some(cells) = column.downcast_mut::<StringBuilder>() {
        match value {
            Some(value) => append_text(cells, Field::Object, value, &mut String::new()),
            None => cells.append_null(),
        }
    } else if let Some(cells) = column.downcast_mut::<Int64Builder>() {
        cells.append_option(value.and_then(whole_number));
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
