//! How values of rows are written as JSON, for everything that prints rows: what Arrow's writer
//! refuses, or writes as something that isn't JSON.
//!
//! | value | is written as |
//! |---|---|
//! | of a union, such as the result of `->` and of `json_get` | the value that the row has |
//! | zero of a decimal with a negative scale | `0` |
//! | a time that has no date in the calendar | `null` |
//!
//! Arrow's writer itself writes `null` for NaN and for infinities.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, UnionArray};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::error::ArrowError;
use arrow::json::WriterBuilder;
use arrow::json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder, make_encoder};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use gristmill_schemas::json::{Json, write_string};

/// Name of the extension type of texts that contain JSON.
const JSON_EXTENSION: &str = "arrow.json";

/// Returns a builder of writers of rows as JSON.
pub fn json_writer() -> WriterBuilder {
    WriterBuilder::new().with_encoder_factory(Arc::new(ValueEncoders))
}

/// Returns a name that several columns of `schema` have: a reader of JSON keeps one of the equal
/// keys of an object, so such rows aren't written as JSON.
pub fn repeated_column(schema: &Schema) -> Option<&str> {
    let mut names = HashSet::new();
    let mut columns = schema.fields().iter().map(|field| field.name().as_str());
    columns.find(|name| !names.insert(*name))
}

/// Returns the options of encoders of values as JSON.
pub fn json_options() -> EncoderOptions {
    EncoderOptions::default().with_encoder_factory(Arc::new(ValueEncoders))
}

/// Returns the values of a union as texts, for formats with texts only: strings as they are, other
/// values as JSON, and null for rows without a value.
///
/// # Errors
/// [`ArrowError`] for a type that JSON has no form for.
pub fn union_texts(union: &ArrayRef) -> Result<StringArray, ArrowError> {
    let field = Arc::new(Field::new("", union.data_type().clone(), true));
    let options = json_options();
    let mut encoder = make_encoder(&field, union, &options)?;
    let text = |row: usize| {
        if encoder.is_null(row) {
            return None;
        }
        let mut written = Vec::new();
        encoder.encode(row, &mut written);
        Some(match Json::parse(&written) {
            Ok(Json::String(text)) => text.into_owned(),
            _ => String::from_utf8_lossy(&written).into_owned(),
        })
    };
    Ok((0..union.len()).map(text).collect())
}

/// The encoders that replace those of Arrow's writer.
#[derive(Debug)]
struct ValueEncoders;

impl EncoderFactory for ValueEncoders {
    fn make_default_encoder<'a>(
        &self,
        _: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Union(..) => Box::new(UnionEncoder::try_new(array.as_union(), options)?),
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale)
                if *scale < 0 =>
            {
                Box::new(DecimalEncoder(ValueTexts::try_new(array)?))
            }
            other if other.is_temporal() => Box::new(TimeEncoder(ValueTexts::try_new(array)?)),
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.logical_nulls())))
    }
}

/// Writes the values that rows of a union have.
struct UnionEncoder<'a> {
    union: &'a UnionArray,
    /// The members of the union by their type ids.
    members: Vec<(i8, UnionMember<'a>)>,
}

enum UnionMember<'a> {
    /// Texts that contain JSON.
    Json(&'a StringArray),
    Values(NullableEncoder<'a>),
}

impl<'a> UnionEncoder<'a> {
    fn try_new(
        union: &'a UnionArray,
        options: &'a EncoderOptions,
    ) -> Result<UnionEncoder<'a>, ArrowError> {
        let mut members = Vec::new();
        for (type_id, field) in union.fields().iter() {
            let values = union.child(type_id);
            let is_json = field.extension_type_name() == Some(JSON_EXTENSION);
            let texts = values.as_string_opt::<i32>().filter(|_| is_json);
            let member = match texts {
                Some(texts) => UnionMember::Json(texts),
                None => UnionMember::Values(make_encoder(field, values, options)?),
            };
            members.push((type_id, member));
        }
        Ok(UnionEncoder { union, members })
    }
}

impl Encoder for UnionEncoder<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let (type_id, at) = (self.union.type_id(row), self.union.value_offset(row));
        let mut members = self.members.iter_mut();
        match members.find(|(known, _)| *known == type_id) {
            Some((_, UnionMember::Json(texts))) if texts.is_valid(at) => {
                write_json(texts.value(at), out);
            }
            Some((_, UnionMember::Values(encoder))) if !encoder.is_null(at) => {
                encoder.encode(at, out);
            }
            _ => out.extend_from_slice(b"null"),
        }
    }
}

/// Writes a text that contains JSON in one line, or as a string if it isn't JSON after all or is
/// nested too deeply to be parsed.
fn write_json(text: &str, out: &mut Vec<u8>) {
    let mut written = String::new();
    match Json::parse(text.as_bytes()) {
        Ok(json) => json.write(&mut written),
        Err(_) => write_string(text, &mut written),
    }
    out.extend_from_slice(written.as_bytes());
}

/// Values as the texts that Arrow shows.
struct ValueTexts<'a> {
    formatter: ArrayFormatter<'a>,
    text: String,
}

impl<'a> ValueTexts<'a> {
    fn try_new(array: &'a dyn Array) -> Result<ValueTexts<'a>, ArrowError> {
        Ok(ValueTexts {
            formatter: ArrayFormatter::try_new(array, &FormatOptions::default())?,
            text: String::new(),
        })
    }

    /// Returns the text of a value, or `None` if it can't be shown.
    fn of(&mut self, row: usize) -> Option<&str> {
        self.text.clear();
        let written = self.formatter.value(row).write(&mut self.text);
        written.is_ok().then_some(self.text.as_str())
    }
}

/// Writes decimals with a negative scale, whose zero Arrow shows with zeros behind it.
struct DecimalEncoder<'a>(ValueTexts<'a>);

impl Encoder for DecimalEncoder<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let text = match self.0.of(row) {
            Some(text) if text.bytes().all(|digit| digit == b'0') => "0",
            Some(text) => text,
            None => "null",
        };
        out.extend_from_slice(text.as_bytes());
    }
}

/// Writes dates, times and durations as strings. Their texts need no escapes.
struct TimeEncoder<'a>(ValueTexts<'a>);

impl Encoder for TimeEncoder<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let Some(text) = self.0.of(row) else {
            out.extend_from_slice(b"null");
            return;
        };
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::ListArray;
    use arrow::buffer::OffsetBuffer;
    use arrow::json::LineDelimitedWriter;

    use super::super::{SqlOptions, bare_context};
    use super::*;

    /// Returns the answer to a query without a lake as JSON Lines.
    async fn lines(query: &str) -> String {
        let context = bare_context(&SqlOptions::default()).unwrap();
        let rows = context.sql(query).await.unwrap().collect().await.unwrap();
        let mut writer: LineDelimitedWriter<Vec<u8>> = json_writer().build(Vec::new());
        for batch in &rows {
            writer.write(batch).unwrap();
        }
        writer.finish().unwrap();
        String::from_utf8(writer.into_inner()).unwrap()
    }

    #[tokio::test]
    async fn a_union_is_the_value_that_the_row_has() {
        for (text, expected) in [
            (r#"{"a": 5}"#, r#"{"a":5}"#),
            (r#"{"a": 0.5}"#, r#"{"a":0.5}"#),
            (r#"{"a": true}"#, r#"{"a":true}"#),
            (r#"{"a": "x \"y\""}"#, r#"{"a":"x \"y\""}"#),
            ("{\"a\": [1,\n 2]}", r#"{"a":[1,2]}"#),
            (
                "{\"a\": {\"z\": 1.0,\n \"b\": null}}",
                r#"{"a":{"z":1.0,"b":null}}"#,
            ),
            (r#"{"a": null}"#, "{}"),
            (r#"{"b": 1}"#, "{}"),
        ] {
            for query in [
                format!("SELECT '{text}' -> 'a' AS a"),
                format!("SELECT json_get('{text}', 'a') AS a"),
            ] {
                assert_eq!(lines(&query).await, format!("{expected}\n"), "{query}");
            }
        }
    }

    #[tokio::test]
    async fn unions_in_lists_are_values() {
        let context = bare_context(&SqlOptions::default()).unwrap();
        let query = "SELECT json_get(x, 'a') FROM (VALUES ('{\"a\": 5}'), ('{}')) AS t(x)";
        let rows = context.sql(query).await.unwrap().collect().await.unwrap();
        let items = Arc::clone(rows[0].column(0));
        let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        let list = ListArray::new(item, OffsetBuffer::from_lengths([2]), items, None);
        let field = Arc::new(Field::new("a", list.data_type().clone(), true));
        let (options, mut written) = (json_options(), Vec::new());
        make_encoder(&field, &list, &options)
            .unwrap()
            .encode(0, &mut written);
        assert_eq!(String::from_utf8(written).unwrap(), "[5,null]");
    }

    #[tokio::test]
    async fn every_value_is_json() {
        for (value, expected) in [
            ("arrow_cast(0, 'Decimal128(38, -2)')", r#"{"a":0}"#),
            ("arrow_cast(500, 'Decimal128(38, -2)')", r#"{"a":500}"#),
            ("arrow_cast(-500, 'Decimal128(38, -2)')", r#"{"a":-500}"#),
            ("CAST(0 AS DECIMAL(10, 2))", r#"{"a":0.00}"#),
            ("CAST('NaN' AS DOUBLE)", r#"{"a":null}"#),
            (
                "arrow_cast(9223372036854775807, 'Timestamp(Microsecond, Some(\"UTC\"))')",
                r#"{"a":null}"#,
            ),
            (
                "TIMESTAMP '2027-01-31T12:30:00.25'",
                r#"{"a":"2027-01-31T12:30:00.250"}"#,
            ),
            ("DATE '2027-01-31'", r#"{"a":"2027-01-31"}"#),
            ("CAST(NULL AS DATE)", "{}"),
        ] {
            let query = format!("SELECT {value} AS a");
            assert_eq!(lines(&query).await, format!("{expected}\n"), "{query}");
        }
    }

    #[tokio::test]
    async fn texts_of_a_union_are_those_of_strings_or_json() {
        let context = bare_context(&SqlOptions::default()).unwrap();
        let query = "SELECT json_get(x, 'a') AS a FROM (VALUES ('{\"a\": \"x\"}'), ('{\"a\": [1]}'), \
                     ('{}')) AS t(x)";
        let rows = context.sql(query).await.unwrap().collect().await.unwrap();
        let texts = union_texts(rows[0].column(0)).unwrap();
        let texts: Vec<Option<&str>> = texts.iter().collect();
        assert_eq!(texts, [Some("x"), Some("[1]"), None]);
    }
}
