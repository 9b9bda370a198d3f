//! Types of columns: which type of PostgreSQL a column of Arrow has, and to which type of Arrow it
//! is converted before its values are written.

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use pgwire::api::Type;
use pgwire::api::results::{FieldFormat, FieldInfo};

/// Digits that a `numeric` column has at most.
const DECIMAL_DIGITS: u8 = 38;

/// A column of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Type,
    /// Type of Arrow that its values have when they are written.
    pub(super) written: DataType,
}

impl Column {
    /// Returns its description for clients.
    pub(super) fn info(&self, format: FieldFormat) -> FieldInfo {
        FieldInfo::new(self.name.clone(), None, None, self.kind.clone(), format)
            .with_type_size(self.size())
    }

    /// Returns the bytes of a value in binary, -1 if they vary.
    pub(super) fn size(&self) -> i16 {
        match self.kind {
            Type::BOOL => 1,
            Type::INT2 => 2,
            Type::INT4 | Type::FLOAT4 | Type::DATE => 4,
            Type::INT8 | Type::FLOAT8 | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ => 8,
            _ => -1,
        }
    }
}

/// Returns the columns of answers with this schema.
pub(super) fn columns(schema: &Schema) -> Vec<Column> {
    let fields = schema.fields().iter();
    let column = |field: &Field| {
        let (kind, written) = type_of(field.data_type());
        let name = field.name().clone();
        Column {
            name,
            kind,
            written,
        }
    };
    fields.map(|field| column(field)).collect()
}

/// Returns the type of PostgreSQL for a type of Arrow, and the type to convert to. Structs, maps
/// and lists of lists are written as JSON.
pub(super) fn type_of(arrow: &DataType) -> (Type, DataType) {
    match arrow {
        DataType::Dictionary(_, value) => type_of(value),
        DataType::RunEndEncoded(_, value) => type_of(value.data_type()),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => list_of(arrow, item),
        DataType::Struct(_) | DataType::Map(..) | DataType::Union(..) => {
            (Type::JSON, arrow.clone())
        }
        _ => scalar_of(arrow),
    }
}

fn list_of(arrow: &DataType, item: &Field) -> (Type, DataType) {
    let (item_kind, item_written) = type_of(item.data_type());
    match array_of(&item_kind) {
        Some(kind) => {
            let item = Field::new_list_field(item_written, true);
            (kind, DataType::List(item.into()))
        }
        None => (Type::JSON, arrow.clone()),
    }
}

/// Types of items and of their arrays.
static ARRAYS: [(Type, Type); 13] = [
    (Type::BOOL, Type::BOOL_ARRAY),
    (Type::INT2, Type::INT2_ARRAY),
    (Type::INT4, Type::INT4_ARRAY),
    (Type::INT8, Type::INT8_ARRAY),
    (Type::FLOAT4, Type::FLOAT4_ARRAY),
    (Type::FLOAT8, Type::FLOAT8_ARRAY),
    (Type::NUMERIC, Type::NUMERIC_ARRAY),
    (Type::TEXT, Type::TEXT_ARRAY),
    (Type::BYTEA, Type::BYTEA_ARRAY),
    (Type::DATE, Type::DATE_ARRAY),
    (Type::TIME, Type::TIME_ARRAY),
    (Type::TIMESTAMP, Type::TIMESTAMP_ARRAY),
    (Type::TIMESTAMPTZ, Type::TIMESTAMPTZ_ARRAY),
];

/// The same for types that only parameters have.
static PARAMETER_ARRAYS: [(Type, Type); 5] = [
    (Type::VARCHAR, Type::VARCHAR_ARRAY),
    (Type::BPCHAR, Type::BPCHAR_ARRAY),
    (Type::NAME, Type::NAME_ARRAY),
    (Type::OID, Type::OID_ARRAY),
    (Type::UUID, Type::UUID_ARRAY),
];

/// Returns the type of the arrays of a scalar type.
fn array_of(item: &Type) -> Option<Type> {
    let known = ARRAYS.iter().find(|(known, _)| known == item);
    known.map(|(_, array)| array.clone())
}

/// Returns the type of the items of an array.
pub(super) fn item_of(array: &Type) -> Option<&'static Type> {
    let mut arrays = ARRAYS.iter().chain(&PARAMETER_ARRAYS);
    let known = arrays.find(|(_, known)| known == array);
    known.map(|(item, _)| item)
}

fn scalar_of(arrow: &DataType) -> (Type, DataType) {
    match arrow {
        DataType::Boolean => (Type::BOOL, DataType::Boolean),
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => (Type::INT2, DataType::Int16),
        DataType::UInt16 | DataType::Int32 => (Type::INT4, DataType::Int32),
        DataType::UInt32 | DataType::Int64 => (Type::INT8, DataType::Int64),
        DataType::UInt64 => (Type::NUMERIC, DataType::Decimal128(20, 0)),
        DataType::Float16 | DataType::Float32 => (Type::FLOAT4, DataType::Float32),
        DataType::Float64 => (Type::FLOAT8, DataType::Float64),
        DataType::Decimal128(..) => (Type::NUMERIC, arrow.clone()),
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal256(_, scale) => {
            (Type::NUMERIC, DataType::Decimal128(DECIMAL_DIGITS, *scale))
        }
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => (Type::BYTEA, DataType::Binary),
        DataType::Date32 | DataType::Date64 => (Type::DATE, DataType::Date32),
        DataType::Time32(_) | DataType::Time64(_) => {
            (Type::TIME, DataType::Time64(TimeUnit::Microsecond))
        }
        DataType::Timestamp(_, None) => (
            Type::TIMESTAMP,
            DataType::Timestamp(TimeUnit::Microsecond, None),
        ),
        DataType::Timestamp(_, zone) => (
            Type::TIMESTAMPTZ,
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        ),
        // Durations and intervals among them, which have more forms than PostgreSQL's type.
        _ => (Type::TEXT, DataType::Utf8),
    }
}
