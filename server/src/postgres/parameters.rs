//! Parameters of prepared statements: their types, and their values as text and in binary.

use std::collections::HashMap;

use arrow::datatypes::{DataType, Field, TimeUnit};
use bigdecimal::BigDecimal;
use bytes::{Buf, Bytes};
use datafusion::common::ScalarValue;
use pgwire::api::Type;
use pgwire::api::results::FieldFormat;
use pgwire::error::PgWireResult;

use super::array_parameters::{binary_items, text_items};
use super::failure::{error, query_error};
use super::types::{item_of, type_of};
use super::values::{EPOCH_DAYS, EPOCH_MICROSECONDS};

/// Largest number of parameters of a statement.
pub(super) const MAX_PARAMETERS: usize = 1_000;

/// Digits behind the point of a `numeric` parameter whose value isn't known yet.
const NUMERIC_SCALE: i8 = 10;

/// Most digits of a `numeric`.
const NUMERIC_DIGITS: i64 = 38;

/// Values of a `numeric` without their point are smaller.
const NUMERIC_END: u128 = 10_u128.pow(38);

/// Most bytes of a `numeric` as text: some of its digits may be zeros.
const NUMERIC_TEXT: usize = 1_000;

/// Returns the types of `$1`, `$2` …: those that the client declares, else those that the query
/// requires, else text.
pub(super) fn parameter_types(
    declared: &[Option<Type>],
    inferred: &HashMap<String, Option<DataType>>,
) -> PgWireResult<Vec<Type>> {
    let mut count = declared.len();
    for name in inferred.keys() {
        let number = name.trim_start_matches('$').parse::<usize>();
        let number = number
            .ok()
            .filter(|number| (1..=MAX_PARAMETERS).contains(number));
        let unknown = || {
            error(
                "42P02",
                format!("there is no parameter {name}: use $1, $2 …"),
            )
        };
        count = count.max(number.ok_or_else(unknown)?);
    }
    let type_at = |index: usize| {
        let declared = declared.get(index).cloned().flatten();
        let declared = declared.filter(|kind| *kind != Type::UNKNOWN);
        let inferred = inferred.get(&format!("${}", index + 1)).cloned().flatten();
        declared
            .or_else(|| inferred.map(|arrow| type_of(&arrow).0))
            .unwrap_or(Type::TEXT)
    };
    Ok((0..count).map(type_at).collect())
}

/// Returns NULL of a parameter's type, with which a query is described.
pub(super) fn null_of(kind: &Type) -> PgWireResult<ScalarValue> {
    ScalarValue::try_from(&arrow_of(kind)?).map_err(query_error)
}

/// Returns the value of a parameter.
pub(super) fn value_of(
    kind: &Type,
    format: FieldFormat,
    bytes: Option<&Bytes>,
) -> PgWireResult<ScalarValue> {
    let Some(bytes) = bytes else {
        return null_of(kind);
    };
    let value = match format {
        FieldFormat::Text => text_value(kind, bytes)?,
        FieldFormat::Binary => binary_value(kind, bytes)?,
    };
    value.ok_or_else(|| invalid(kind))
}

fn invalid(kind: &Type) -> pgwire::error::PgWireError {
    error(
        "22P03",
        format!("a parameter isn't a value of the type {kind}"),
    )
}

/// Returns the type of Arrow of a parameter.
fn arrow_of(kind: &Type) -> PgWireResult<DataType> {
    if let Some(item) = item_of(kind) {
        let item = Field::new_list_field(arrow_of(item)?, true);
        return Ok(DataType::List(item.into()));
    }
    Ok(match *kind {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 | Type::OID => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::NUMERIC => DataType::Decimal128(38, NUMERIC_SCALE),
        Type::BYTEA => DataType::Binary,
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Microsecond),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        Type::TEXT
        | Type::VARCHAR
        | Type::BPCHAR
        | Type::NAME
        | Type::CHAR
        | Type::UNKNOWN
        | Type::UUID
        | Type::JSON
        | Type::JSONB => DataType::Utf8,
        _ => {
            let message = format!("parameters of the type {kind} aren't supported");
            return Err(error("0A000", message));
        }
    })
}

fn text_value(kind: &Type, bytes: &[u8]) -> PgWireResult<Option<ScalarValue>> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Ok(None);
    };
    if let Some(item) = item_of(kind) {
        let Some(items) = text_items(text) else {
            return Ok(None);
        };
        let items = items.iter().map(|text| match text {
            None => null_of(item).map(Some),
            Some(text) => text_value(item, text.as_bytes()),
        });
        return list_value(item, items);
    }
    if *kind == Type::UUID {
        return Ok(uuid_value(text));
    }
    let arrow = match arrow_of(kind)? {
        DataType::Binary => {
            let digits = text
                .strip_prefix("\\x")
                .and_then(|digits| hex::decode(digits).ok());
            return Ok(digits.map(|bytes| ScalarValue::Binary(Some(bytes))));
        }
        DataType::Decimal128(..) => return Ok(numeric_value(text.trim())),
        arrow => arrow,
    };
    let parsed = ScalarValue::try_from_string(calendar_text(text, &arrow), &arrow);
    match arrow {
        DataType::Utf8 => Ok(Some(ScalarValue::Utf8(Some(text.to_owned())))),
        _ => Ok(parsed.ok().filter(|value| !value.is_null())),
    }
}

/// Returns the text of a value as Arrow reads it, without the spaces behind it. As PostgreSQL does,
/// it takes a date with an offset (`2027-01-31 +01`, of JDBC's setDate) for its midnight, and of a
/// time, where a date is expected, its date.
fn calendar_text(text: &str, arrow: &DataType) -> String {
    let text = text.trim_end();
    let is_offset = |rest: &str| rest.starts_with(['+', '-']);
    let is_time = |rest: &str| is_offset(rest) || rest.starts_with(|c: char| c.is_ascii_digit());
    match (text.split_once(' '), arrow) {
        (Some((date, rest)), DataType::Date32) if is_time(rest) => date.to_owned(),
        (Some((date, rest)), DataType::Timestamp(_, zone)) if is_offset(rest) => {
            let offset = zone.as_ref().map_or("", |_| rest);
            format!("{date} 00:00:00{offset}")
        }
        _ => text.to_owned(),
    }
}

/// Returns a UUID in PostgreSQL's form: small letters, with hyphens. `text` may lack these, as some
/// drivers write it, or have other ones.
fn uuid_value(text: &str) -> Option<ScalarValue> {
    let mut digits: String = text
        .trim()
        .chars()
        .filter(|letter| *letter != '-')
        .collect();
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    digits.make_ascii_lowercase();
    for at in [20, 16, 12, 8] {
        digits.insert(at, '-');
    }
    Some(ScalarValue::from(digits))
}

/// Returns the type of the items of an array. Numbers get as many digits behind the point as the
/// longest of them has.
fn arrow_of_items(kind: &Type, items: &[ScalarValue]) -> PgWireResult<DataType> {
    let scales = items.iter().filter_map(|item| match item {
        ScalarValue::Decimal128(Some(_), _, scale) => Some(*scale),
        _ => None,
    });
    match scales.max() {
        Some(scale) => Ok(DataType::Decimal128(38, scale)),
        None => arrow_of(kind),
    }
}

/// Returns the array of `items`; `None` if one isn't a value of its type.
fn list_value(
    kind: &Type,
    items: impl Iterator<Item = PgWireResult<Option<ScalarValue>>>,
) -> PgWireResult<Option<ScalarValue>> {
    let Some(items) = items.collect::<PgWireResult<Option<Vec<_>>>>()? else {
        return Ok(None);
    };
    let arrow = arrow_of_items(kind, &items)?;
    let items = items.iter().map(|item| item.cast_to(&arrow));
    let items = items.collect::<Result<Vec<_>, _>>().map_err(query_error)?;
    let list = ScalarValue::new_list_nullable(&items, &arrow);
    Ok(Some(ScalarValue::List(list)))
}

/// Returns a number with as many digits behind the point as `text` states, which may have an
/// exponent, as drivers write large and small numbers (`1E-7`).
fn numeric_value(text: &str) -> Option<ScalarValue> {
    if text.len() > NUMERIC_TEXT {
        return None;
    }
    let number = text.parse::<BigDecimal>().ok()?;
    let scale = number.fractional_digit_count();
    if !(-NUMERIC_DIGITS..=2 * NUMERIC_DIGITS).contains(&scale) {
        return None;
    }
    let scale = scale.clamp(0, NUMERIC_DIGITS);
    let (digits, _) = number.with_scale(scale).into_bigint_and_scale();
    let value = i128::try_from(digits).ok()?;
    let is_numeric = value.unsigned_abs() < NUMERIC_END;
    let value = ScalarValue::Decimal128(Some(value), 38, i8::try_from(scale).ok()?);
    is_numeric.then_some(value)
}

fn binary_value(kind: &Type, mut bytes: &[u8]) -> PgWireResult<Option<ScalarValue>> {
    if let Some(item) = item_of(kind) {
        let Some(items) = binary_items(item, bytes) else {
            return Ok(None);
        };
        let items = items.into_iter().map(|bytes| match bytes {
            None => null_of(item).map(Some),
            Some(bytes) => binary_value(item, bytes),
        });
        return list_value(item, items);
    }
    let arrow = arrow_of(kind)?;
    let expected = match arrow {
        DataType::Boolean => 1,
        DataType::Int16 => 2,
        DataType::Int32 | DataType::Float32 | DataType::Date32 => 4,
        DataType::Int64 if *kind == Type::OID => 4,
        DataType::Int64 | DataType::Float64 | DataType::Time64(_) | DataType::Timestamp(..) => 8,
        _ => bytes.len(),
    };
    if bytes.len() != expected {
        return Ok(None);
    }
    let value = match arrow {
        DataType::Boolean => ScalarValue::from(bytes.get_u8() != 0),
        DataType::Int16 => ScalarValue::from(bytes.get_i16()),
        DataType::Int32 => ScalarValue::from(bytes.get_i32()),
        DataType::Int64 if *kind == Type::OID => ScalarValue::from(i64::from(bytes.get_u32())),
        DataType::Int64 => ScalarValue::from(bytes.get_i64()),
        DataType::Float32 => ScalarValue::from(bytes.get_f32()),
        DataType::Float64 => ScalarValue::from(bytes.get_f64()),
        DataType::Date32 => {
            let days = bytes.get_i32().checked_add(EPOCH_DAYS);
            return Ok(days.map(|days| ScalarValue::Date32(Some(days))));
        }
        DataType::Time64(_) => ScalarValue::Time64Microsecond(Some(bytes.get_i64())),
        DataType::Timestamp(_, zone) => {
            let time = bytes.get_i64().checked_add(EPOCH_MICROSECONDS);
            return Ok(time.map(|time| ScalarValue::TimestampMicrosecond(Some(time), zone)));
        }
        DataType::Decimal128(..) => match numeric_text(bytes) {
            Some(text) => return text_value(kind, text.as_bytes()),
            None => return Ok(None),
        },
        DataType::Binary => ScalarValue::Binary(Some(bytes.to_vec())),
        _ if *kind == Type::UUID => return Ok(uuid_value(&hex::encode(bytes))),
        _ => {
            // The binary form of `jsonb` begins with its version.
            let text = if *kind == Type::JSONB {
                bytes.get(1..)
            } else {
                Some(bytes)
            };
            let text = text.and_then(|text| std::str::from_utf8(text).ok());
            return Ok(text.map(ScalarValue::from));
        }
    };
    Ok(Some(value))
}

/// Returns the text of a number in groups of four decimal digits.
fn numeric_text(mut bytes: &[u8]) -> Option<String> {
    if bytes.len() < 8 {
        return None;
    }
    let count = usize::from(bytes.get_u16());
    let weight = i32::from(bytes.get_i16());
    let sign = match bytes.get_u16() {
        0 => "",
        0x4000 => "-",
        _ => return None,
    };
    let scale = usize::from(bytes.get_u16());
    // A number with more digits has no type in Arrow.
    if bytes.len() != count * 2 || scale > 38 || !(-10..=10).contains(&weight) || count > 20 {
        return None;
    }
    let groups: Vec<u16> = (0..count).map(|_| bytes.get_u16()).collect();
    let group = |at: i32| {
        let at = usize::try_from(weight - at).ok();
        at.and_then(|at| groups.get(at)).copied().unwrap_or(0)
    };
    let whole: String = (0..=weight.max(0))
        .rev()
        .map(|at| format!("{:04}", group(at)))
        .collect();
    let places = i32::try_from(scale.div_ceil(4)).ok()?;
    let fraction: String = (1..=places)
        .map(|at| format!("{:04}", group(-at)))
        .collect();
    let fraction = fraction.get(..scale)?;
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(match scale {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_groups_of_digits_are_read() {
        for (words, expected) in [
            (vec![0i16, 0, 0, 0], Some("0")),
            (vec![2, 0, 0x4000, 2, 123, 4500], Some("-123.45")),
            (vec![1, 1, 0, 0, 1], Some("10000")),
            (vec![1, -2, 0, 5, 5000], Some("0.00005")),
            (vec![9, 0, 0, 0, 1], None),
        ] {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            assert_eq!(numeric_text(&bytes).as_deref(), expected, "{words:?}");
        }
    }

    #[test]
    fn numbers_with_an_exponent_are_read() {
        let read = |text: &'static str| {
            let bytes = Bytes::from_static(text.as_bytes());
            value_of(&Type::NUMERIC, FieldFormat::Text, Some(&bytes)).ok()
        };
        for (text, value, scale) in [
            ("1E+5", 100_000, 0),
            ("-1.25e-3", -125, 5),
            ("12.5E1", 125, 0),
            ("1.234E2", 1_234, 1),
            (".5e0", 5, 1),
            ("0E-10", 0, 10),
        ] {
            let expected = ScalarValue::Decimal128(Some(value), 38, scale);
            assert_eq!(read(text), Some(expected), "{text}");
        }
        for text in [
            "1E",
            "E5",
            "1E5.0",
            "1EE5",
            "--1E5",
            "1E40",
            "1E99999999999",
            "é1E5",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn uuids_have_one_form_however_they_are_sent() {
        let expected = ScalarValue::from("550e8400-e29b-41d4-a716-446655440000");
        let read = |format, bytes: &[u8]| {
            value_of(&Type::UUID, format, Some(&Bytes::copy_from_slice(bytes))).ok()
        };
        for text in [
            "550e8400-e29b-41d4-a716-446655440000",
            "550e8400e29b41d4a716446655440000",
            "550E8400-E29B-41D4-A716-446655440000",
        ] {
            let found = read(FieldFormat::Text, text.as_bytes());
            assert_eq!(found.as_ref(), Some(&expected), "{text}");
        }
        let bytes = hex::decode("550e8400e29b41d4a716446655440000").unwrap();
        assert_eq!(read(FieldFormat::Binary, &bytes), Some(expected));
        assert_eq!(read(FieldFormat::Binary, &bytes[1..]), None);
        assert_eq!(read(FieldFormat::Text, b"550e8400"), None);
    }

    #[test]
    fn a_date_may_have_an_offset() {
        let read = |kind: &Type, text: &'static str| {
            let bytes = Bytes::from_static(text.as_bytes());
            value_of(kind, FieldFormat::Text, Some(&bytes)).ok()
        };
        let date = Some(ScalarValue::Date32(Some(20_849)));
        assert_eq!(read(&Type::DATE, "2027-01-31"), date);
        assert_eq!(read(&Type::DATE, "2027-01-31 +01"), date);
        assert_eq!(read(&Type::DATE, "2027-01-31 12:30:00+01"), date);
        let zoned = |micros: i64| {
            let zone = Some("+00:00".into());
            Some(ScalarValue::TimestampMicrosecond(Some(micros), zone))
        };
        let found = read(&Type::TIMESTAMPTZ, "2027-01-31 +01");
        assert_eq!(found, zoned(1_801_350_000_000_000));
        let found = read(&Type::TIMESTAMPTZ, "2027-01-31 01:00:00+01");
        assert_eq!(found, zoned(1_801_353_600_000_000));
        let local = ScalarValue::TimestampMicrosecond(Some(1_801_353_600_000_000), None);
        assert_eq!(read(&Type::TIMESTAMP, "2027-01-31 -05:30"), Some(local));
        assert_eq!(read(&Type::DATE, "2027-01-31 x"), None);
    }

    #[test]
    fn arrays_are_lists_of_their_items() {
        let read = |kind: &Type, text: &'static str| {
            let bytes = Bytes::from_static(text.as_bytes());
            value_of(kind, FieldFormat::Text, Some(&bytes))
        };
        let decimal = |value| ScalarValue::Decimal128(Some(value), 38, 1);
        for (kind, text, items, arrow) in [
            (
                Type::TEXT_ARRAY,
                r#"{a,"b,c",NULL}"#,
                vec![
                    ScalarValue::from("a"),
                    ScalarValue::from("b,c"),
                    ScalarValue::Utf8(None),
                ],
                DataType::Utf8,
            ),
            (
                Type::INT8_ARRAY,
                "{1,-2}",
                vec![ScalarValue::from(1i64), ScalarValue::from(-2i64)],
                DataType::Int64,
            ),
            (Type::INT2_ARRAY, "{}", Vec::new(), DataType::Int16),
            (
                Type::NUMERIC_ARRAY,
                "{1.5,2}",
                vec![decimal(15), decimal(20)],
                DataType::Decimal128(38, 1),
            ),
        ] {
            let expected = ScalarValue::List(ScalarValue::new_list_nullable(&items, &arrow));
            assert_eq!(read(&kind, text).unwrap(), expected, "{kind} {text}");
        }
        assert!(read(&Type::INT8_ARRAY, "{1,x}").is_err());
        assert!(read(&Type::INT8_ARRAY, "1").is_err());
        let null = value_of(&Type::TEXT_ARRAY, FieldFormat::Text, None).unwrap();
        assert!(null.is_null(), "{null:?}");
    }

    #[test]
    fn values_of_the_wrong_length_are_refused() {
        for kind in [
            Type::BOOL,
            Type::INT4,
            Type::INT8,
            Type::FLOAT8,
            Type::DATE,
            Type::NUMERIC,
        ] {
            let value = value_of(
                &kind,
                FieldFormat::Binary,
                Some(&Bytes::from_static(b"abc")),
            );
            assert!(value.is_err(), "{kind}");
            let value = value_of(&kind, FieldFormat::Text, Some(&Bytes::from_static(b"\xff")));
            assert!(value.is_err(), "{kind}");
        }
    }
}
