//! Values as PostgreSQL writes them, as text and in binary.

use std::fmt::Write as _;
use std::sync::LazyLock;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::array::{BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array};
use arrow::array::{Float64Array, Int16Array, Int32Array, Int64Array, ListArray, StringArray};
use arrow::array::{Time64MicrosecondArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, FieldRef};
use arrow::error::ArrowError;
use arrow::json::writer::{EncoderOptions, NullableEncoder, make_encoder};
use arrow::temporal_conversions::{date32_to_datetime, time64us_to_time, timestamp_us_to_datetime};
use bytes::{BufMut, BytesMut};
use chrono::{Datelike, NaiveDate};
use gristmill_queries::sql::json_options;
use pgwire::api::Type;
use pgwire::api::results::FieldFormat;

use super::types::type_of;

/// Days from 1970-01-01, where Arrow begins to count, to 2000-01-01, where PostgreSQL does.
pub(super) const EPOCH_DAYS: i32 = 10_957;

/// The same in microseconds.
pub(super) const EPOCH_MICROSECONDS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

static JSON: LazyLock<EncoderOptions> = LazyLock::new(json_options);

/// The values of a column, of a type that `type_of` converts to.
pub(super) enum Values<'a> {
    Bool(&'a BooleanArray),
    Int2(&'a Int16Array),
    Int4(&'a Int32Array),
    Int8(&'a Int64Array),
    Float4(&'a Float32Array),
    Float8(&'a Float64Array),
    Numeric(&'a Decimal128Array),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
    Date(&'a Date32Array),
    Time(&'a Time64MicrosecondArray),
    Timestamp(&'a TimestampMicrosecondArray),
    List(&'a ListArray, Box<Values<'a>>, Type),
    Json(NullableEncoder<'a>),
}

impl<'a> Values<'a> {
    pub(super) fn new(field: &'a FieldRef, array: &'a ArrayRef) -> Result<Values<'a>, ArrowError> {
        Ok(match array.data_type() {
            DataType::Boolean => Values::Bool(array.as_boolean()),
            DataType::Int16 => Values::Int2(array.as_primitive()),
            DataType::Int32 => Values::Int4(array.as_primitive()),
            DataType::Int64 => Values::Int8(array.as_primitive()),
            DataType::Float32 => Values::Float4(array.as_primitive()),
            DataType::Float64 => Values::Float8(array.as_primitive()),
            DataType::Decimal128(..) => Values::Numeric(array.as_primitive()),
            DataType::Utf8 => Values::Text(array.as_string()),
            DataType::Binary => Values::Bytes(array.as_binary()),
            DataType::Date32 => Values::Date(array.as_primitive()),
            DataType::Time64(_) => Values::Time(array.as_primitive()),
            DataType::Timestamp(..) => Values::Timestamp(array.as_primitive()),
            DataType::List(item) if type_of(array.data_type()).0 != Type::JSON => {
                let list = array.as_list();
                let items = Values::new(item, list.values())?;
                Values::List(list, Box::new(items), type_of(item.data_type()).0)
            }
            _ => Values::Json(make_encoder(field, array, &JSON)?),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Values::Bool(array) => array.is_null(row),
            Values::Int2(array) => array.is_null(row),
            Values::Int4(array) => array.is_null(row),
            Values::Int8(array) => array.is_null(row),
            Values::Float4(array) => array.is_null(row),
            Values::Float8(array) => array.is_null(row),
            Values::Numeric(array) => array.is_null(row),
            Values::Text(array) => array.is_null(row),
            Values::Bytes(array) => array.is_null(row),
            Values::Date(array) => array.is_null(row),
            Values::Time(array) => array.is_null(row),
            Values::Timestamp(array) => array.is_null(row),
            Values::List(array, ..) => array.is_null(row),
            Values::Json(encoder) => encoder.is_null(row),
        }
    }

    /// Writes a value with its length, -1 for NULL.
    pub(super) fn write_field(
        &mut self,
        row: usize,
        format: FieldFormat,
        out: &mut BytesMut,
    ) -> Result<(), ArrowError> {
        if self.is_null(row) {
            out.put_i32(-1);
            return Ok(());
        }
        let at = out.len();
        out.put_i32(0);
        match format {
            FieldFormat::Text => self.write_text(row, out)?,
            FieldFormat::Binary => self.write_binary(row, out)?,
        }
        let length = i32::try_from(out.len() - at - 4).map_err(|_| out_of_range("value"))?;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    fn write_binary(&mut self, row: usize, out: &mut BytesMut) -> Result<(), ArrowError> {
        match self {
            Values::Bool(array) => out.put_u8(array.value(row).into()),
            Values::Int2(array) => out.put_i16(array.value(row)),
            Values::Int4(array) => out.put_i32(array.value(row)),
            Values::Int8(array) => out.put_i64(array.value(row)),
            Values::Float4(array) => out.put_f32(array.value(row)),
            Values::Float8(array) => out.put_f64(array.value(row)),
            Values::Numeric(array) => write_numeric(array.value(row), array.scale(), out)?,
            Values::Text(array) => out.put_slice(array.value(row).as_bytes()),
            Values::Bytes(array) => out.put_slice(array.value(row)),
            Values::Date(array) => {
                let days = array.value(row).checked_sub(EPOCH_DAYS);
                out.put_i32(days.ok_or_else(|| out_of_range("date"))?);
            }
            Values::Time(array) => out.put_i64(array.value(row)),
            Values::Timestamp(array) => {
                let time = array.value(row).checked_sub(EPOCH_MICROSECONDS);
                out.put_i64(time.ok_or_else(|| out_of_range("timestamp"))?);
            }
            Values::List(list, items, kind) => {
                let (start, end) = bounds(list, row);
                out.put_i32(i32::from(start < end));
                out.put_i32((start..end).any(|item| items.is_null(item)).into());
                out.put_u32(kind.oid());
                if start < end {
                    let length = i32::try_from(end - start).map_err(|_| out_of_range("array"))?;
                    out.put_i32(length);
                    out.put_i32(1);
                }
                for item in start..end {
                    items.write_field(item, FieldFormat::Binary, out)?;
                }
            }
            Values::Json(encoder) => write_json(encoder, row, out),
        }
        Ok(())
    }

    fn write_text(&mut self, row: usize, out: &mut BytesMut) -> Result<(), ArrowError> {
        // Writing to memory doesn't fail.
        let _ = match self {
            Values::Bool(array) => out.write_str(if array.value(row) { "t" } else { "f" }),
            Values::Int2(array) => write!(out, "{}", array.value(row)),
            Values::Int4(array) => write!(out, "{}", array.value(row)),
            Values::Int8(array) => write!(out, "{}", array.value(row)),
            Values::Float4(array) => out.write_str(&float_text(
                f64::from(array.value(row)),
                &array.value(row).to_string(),
                &format!("{:e}", array.value(row)),
            )),
            Values::Float8(array) => out.write_str(&float_text(
                array.value(row),
                &array.value(row).to_string(),
                &format!("{:e}", array.value(row)),
            )),
            // Arrow shows the zero of a negative scale with zeros behind it.
            Values::Numeric(array) if array.scale() < 0 && array.value(row) == 0 => {
                out.write_str("0")
            }
            Values::Numeric(array) => out.write_str(&array.value_as_string(row)),
            Values::Text(array) => out.write_str(array.value(row)),
            Values::Bytes(array) => write!(out, "\\x{}", hex::encode(array.value(row))),
            Values::Date(array) => {
                let date = date32_to_datetime(array.value(row));
                let date = date.ok_or_else(|| out_of_range("date"))?.date();
                write!(out, "{}{}", date_text(date), era(date))
            }
            Values::Time(array) => {
                let time = time64us_to_time(array.value(row));
                write!(out, "{}", time.ok_or_else(|| out_of_range("time"))?)
            }
            Values::Timestamp(array) => {
                let time = timestamp_us_to_datetime(array.value(row));
                let time = time.ok_or_else(|| out_of_range("timestamp"))?;
                let zone = if array.timezone().is_some() {
                    "+00"
                } else {
                    ""
                };
                let (date, time) = (time.date(), time.time());
                write!(out, "{} {time}{zone}{}", date_text(date), era(date))
            }
            Values::List(list, items, _) => return write_list_text(list, items, row, out),
            Values::Json(encoder) => {
                write_json(encoder, row, out);
                Ok(())
            }
        };
        Ok(())
    }
}

/// Returns a date without its era. Years after 9999 have no sign.
fn date_text(date: NaiveDate) -> String {
    let (_, year) = date.year_ce();
    format!("{year:04}-{:02}-{:02}", date.month(), date.day())
}

/// Returns what PostgreSQL writes behind a time before the year 1.
fn era(date: NaiveDate) -> &'static str {
    match date.year_ce() {
        (true, _) => "",
        (false, _) => " BC",
    }
}

fn out_of_range(what: &str) -> ArrowError {
    ArrowError::ComputeError(format!("a {what} is out of PostgreSQL's range"))
}

fn bounds(list: &ListArray, row: usize) -> (usize, usize) {
    let offsets = list.value_offsets();
    (offsets[row] as usize, offsets[row + 1] as usize)
}

fn write_json(encoder: &mut NullableEncoder<'_>, row: usize, out: &mut BytesMut) {
    let mut text = Vec::new();
    encoder.encode(row, &mut text);
    out.put_slice(&text);
}

/// Returns the `plain` text of a number, `scientific` if it is very large or small, or PostgreSQL's
/// name of what isn't a number.
fn float_text(value: f64, plain: &str, scientific: &str) -> String {
    match value.abs() {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY if value > 0.0 => "Infinity".to_owned(),
        f64::INFINITY => "-Infinity".to_owned(),
        size if size != 0.0 && !(1e-5..1e15).contains(&size) => scientific.to_owned(),
        _ => plain.to_owned(),
    }
}

fn write_list_text(
    list: &ListArray,
    items: &mut Values<'_>,
    row: usize,
    out: &mut BytesMut,
) -> Result<(), ArrowError> {
    let (start, end) = bounds(list, row);
    out.put_u8(b'{');
    for item in start..end {
        if item > start {
            out.put_u8(b',');
        }
        if items.is_null(item) {
            out.put_slice(b"NULL");
            continue;
        }
        let mut text = BytesMut::new();
        items.write_text(item, &mut text)?;
        let is_plain = |byte: &u8| !b"{},\"\\".contains(byte) && !byte.is_ascii_whitespace();
        if !text.is_empty() && text.iter().all(is_plain) && !text.eq_ignore_ascii_case(b"null") {
            out.put_slice(&text);
            continue;
        }
        out.put_u8(b'"');
        for byte in text {
            if byte == b'"' || byte == b'\\' {
                out.put_u8(b'\\');
            }
            out.put_u8(byte);
        }
        out.put_u8(b'"');
    }
    out.put_u8(b'}');
    Ok(())
}

/// Writes a number as groups of four decimal digits.
fn write_numeric(value: i128, scale: i8, out: &mut BytesMut) -> Result<(), ArrowError> {
    let mut digits = value.unsigned_abs().to_string();
    let scale = usize::try_from(scale).unwrap_or_else(|_| {
        digits.push_str(&"0".repeat(usize::from(scale.unsigned_abs())));
        0
    });
    if digits.len() < scale {
        digits.insert_str(0, &"0".repeat(scale - digits.len()));
    }
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let padding = |length: usize| "0".repeat((4 - length % 4) % 4);
    let whole = padding(whole.len()) + whole;
    let fraction = fraction.to_owned() + &padding(fraction.len());
    let groups: Vec<i16> = (whole.clone() + &fraction)
        .as_bytes()
        .chunks(4)
        .map(|group| {
            group
                .iter()
                .fold(0, |sum, digit| sum * 10 + i16::from(digit - b'0'))
        })
        .collect();
    let leading = groups.iter().take_while(|group| **group == 0).count();
    let trailing = groups.iter().rev().take_while(|group| **group == 0).count();
    let kept = groups.get(leading..groups.len() - trailing.min(groups.len() - leading));
    let kept = kept.unwrap_or_default();
    let number = |count: usize| i16::try_from(count).map_err(|_| out_of_range("number"));
    out.put_i16(number(kept.len())?);
    out.put_i16(number(whole.len() / 4)? - number(leading)? - 1);
    out.put_u16(if value < 0 { 0x4000 } else { 0 });
    out.put_i16(number(scale)?);
    for group in kept {
        out.put_i16(*group);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;

    fn written(array: ArrayRef, format: FieldFormat) -> Vec<u8> {
        let field = Arc::new(Field::new("a", array.data_type().clone(), true));
        let mut out = BytesMut::new();
        let mut values = Values::new(&field, &array).unwrap();
        for row in 0..array.len() {
            values.write_field(row, format, &mut out).unwrap();
        }
        out.to_vec()
    }

    #[test]
    fn numbers_are_groups_of_four_digits() {
        for (value, scale, expected) in [
            (0, 0, vec![0, -1, 0, 0]),
            (1, 0, vec![1, 0, 0, 0, 1]),
            (-12_345, 2, vec![2, 0, 0x4000, 2, 123, 4500]),
            (10_000, 0, vec![1, 1, 0, 0, 1]),
            (5, 5, vec![1, -2, 0, 5, 5000]),
            (3, -4, vec![1, 1, 0, 0, 3]),
        ] {
            let mut out = BytesMut::new();
            write_numeric(value, scale, &mut out).unwrap();
            let found: Vec<i16> = out
                .chunks(2)
                .map(|pair| i16::from_be_bytes([pair[0], pair[1]]))
                .collect();
            assert_eq!(found, expected, "{value} scale {scale}");
        }
    }

    #[test]
    fn years_have_no_sign_and_those_before_the_first_an_era() {
        let dates = |day: i32| written(Arc::new(Date32Array::from(vec![day])), FieldFormat::Text);
        assert_eq!(&dates(2_932_896)[4..], b"9999-12-31");
        assert_eq!(&dates(2_932_897)[4..], b"10000-01-01");
        assert_eq!(&dates(-719_162)[4..], b"0001-01-01");
        assert_eq!(&dates(-719_163)[4..], b"0001-12-31 BC");
        let time = |micros: i64| {
            let array = TimestampMicrosecondArray::from(vec![micros]).with_timezone("+00:00");
            written(Arc::new(array), FieldFormat::Text)
        };
        assert_eq!(&time(0)[4..], b"1970-01-01 00:00:00+00");
        let day = 86_400_000_000;
        assert_eq!(&time(2_932_897 * day)[4..], b"10000-01-01 00:00:00+00");
        assert_eq!(&time(-719_163 * day)[4..], b"0001-12-31 00:00:00+00 BC");
    }

    #[test]
    fn texts_of_arrays_quote_what_would_be_read_otherwise() {
        let texts = ["a", "", "NULL", "b,\"c\\"].map(Some);
        let values = StringArray::from_iter(texts.into_iter().chain([None]));
        let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([5]);
        let list = ListArray::new(item, offsets, Arc::new(values), None);
        let text = written(Arc::new(list), FieldFormat::Text);
        assert_eq!(&text[4..], br#"{a,"","NULL","b,\"c\\",NULL}"#);
    }

    #[test]
    fn numbers_that_are_none_and_null_have_their_names() {
        let floats = Float64Array::from_iter([
            Some(f64::NAN),
            Some(f64::NEG_INFINITY),
            Some(1.5),
            Some(1e300),
            None,
        ]);
        let text = written(Arc::new(floats), FieldFormat::Text);
        let expected =
            b"\0\0\0\x03NaN\0\0\0\x09-Infinity\0\0\0\x031.5\0\0\0\x051e300\xff\xff\xff\xff";
        assert_eq!(text, expected);
    }
}
