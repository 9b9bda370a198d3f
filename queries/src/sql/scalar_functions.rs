//! Scalar functions of one grain or one value.
//!
//! | function | result |
//! |---|---|
//! | `grain_json(blob)` | the grain as JSON text with the specification's full names; NULL if it can't be decoded |
//! | `grain_field(blob, path)` | one value of it, such as `context.msg:id` or `related_to.0.hash`; texts unquoted, other values as JSON |
//! | `content_address(blob)` | the SHA-256 of the bytes, as 64 hex digits |
//! | `verify_blob(blob, address)` | whether the address is the hash of the bytes |
//! | `humanize(relation)` | a relation in words |
//! | `sensitivity_name(flags)` | the sensitivity class of a header's flags byte |
//! | `did_method(did)` | the method of a DID: `key` for `did:key:z6M…` |
//!
//! A grain that can't be decoded yields NULL, not an error: one bad row must not abort a query over
//! a billion rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, BooleanArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, HeaderFlags, Payload};
use gristmill_schemas::json::Json;

use crate::render::humanize;

/// Registers all of them.
pub(super) fn register(context: &SessionContext) {
    for function in functions() {
        context.register_udf(function);
    }
}

fn functions() -> Vec<ScalarUDF> {
    use DataType::{Binary, Boolean, Int64, Utf8};
    vec![
        function("grain_json", vec![Binary], Utf8, |arguments| {
            Ok(texts(
                blobs(arguments)?
                    .iter()
                    .map(|blob| decoded(blob?).map(|json| json.to_string())),
            ))
        }),
        function("grain_field", vec![Binary, Utf8], Utf8, |arguments| {
            let (blobs, paths) = (blobs(arguments)?, strings(arguments, 1)?);
            Ok(texts(
                blobs
                    .iter()
                    .zip(paths.iter())
                    .map(|(blob, path)| field(&decoded(blob?)?, path?)),
            ))
        }),
        function("content_address", vec![Binary], Utf8, |arguments| {
            Ok(texts(
                blobs(arguments)?
                    .iter()
                    .map(|blob| Some(ContentAddress::of(blob?).to_string())),
            ))
        }),
        function("verify_blob", vec![Binary, Utf8], Boolean, |arguments| {
            let (blobs, addresses) = (blobs(arguments)?, strings(arguments, 1)?);
            let verdicts = blobs
                .iter()
                .zip(addresses.iter())
                .map(|(blob, address)| Some(is_address_of(blob?, address?)));
            Ok(Arc::new(BooleanArray::from_iter(verdicts)) as ArrayRef)
        }),
        function("humanize", vec![Utf8], Utf8, |arguments| {
            Ok(texts(
                strings(arguments, 0)?
                    .iter()
                    .map(|relation| Some(humanize(relation?))),
            ))
        }),
        function("sensitivity_name", vec![Int64], Utf8, |arguments| {
            Ok(texts(
                integers(arguments)?.iter().map(|flags| sensitivity(flags?)),
            ))
        }),
        function("did_method", vec![Utf8], Utf8, |arguments| {
            Ok(texts(strings(arguments, 0)?.iter().map(|did| method(did?))))
        }),
    ]
}

/// Wraps a function of arrays so that it also accepts scalars.
pub(super) fn function(
    name: &str,
    arguments: Vec<DataType>,
    answer: DataType,
    body: fn(&[ArrayRef]) -> Result<ArrayRef>,
) -> ScalarUDF {
    let body = move |arguments: &[ColumnarValue]| {
        let all_scalar = arguments
            .iter()
            .all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let answer = body(&ColumnarValue::values_to_arrays(arguments)?)?;
        Ok(match all_scalar {
            true => {
                ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&answer, 0)?)
            }
            false => ColumnarValue::Array(answer),
        })
    };
    create_udf(
        name,
        arguments,
        answer,
        Volatility::Immutable,
        Arc::new(body),
    )
}

pub(super) fn blobs(arguments: &[ArrayRef]) -> Result<BinaryArray> {
    Ok(cast(nth(arguments, 0)?, &DataType::Binary)?
        .as_binary()
        .clone())
}

pub(super) fn strings(arguments: &[ArrayRef], at: usize) -> Result<StringArray> {
    Ok(cast(nth(arguments, at)?, &DataType::Utf8)?
        .as_string()
        .clone())
}

fn integers(arguments: &[ArrayRef]) -> Result<Int64Array> {
    Ok(cast(nth(arguments, 0)?, &DataType::Int64)?
        .as_primitive::<Int64Type>()
        .clone())
}

pub(super) fn nth(arguments: &[ArrayRef], at: usize) -> Result<&ArrayRef> {
    arguments
        .get(at)
        .ok_or_else(|| datafusion::common::plan_datafusion_err!("argument {} is missing", at + 1))
}

pub(super) fn texts(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(StringArray::from_iter(values))
}

fn decoded(blob: &[u8]) -> Option<Json<'static>> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).ok()?;
    Some(Grain::decode(&payload, DecodeMode::Lenient).ok()?.to_json())
}

/// Returns the value at `path`: member names and list indexes separated by dots. A member whose
/// name contains dots is found by its whole name.
fn field(json: &Json<'_>, path: &str) -> Option<String> {
    let found = descend(json, path)?;
    match found {
        Json::Null => None,
        other => Some(
            other
                .as_str()
                .map_or_else(|| other.to_string(), str::to_owned),
        ),
    }
}

fn descend<'j, 'a>(json: &'j Json<'a>, path: &str) -> Option<&'j Json<'a>> {
    let step = |name: &str| match json.as_array() {
        Some(items) => items.get(name.parse::<usize>().ok()?),
        None => json.get(name),
    };
    if let Some(found) = step(path) {
        return Some(found);
    }
    path.match_indices('.')
        .find_map(|(dot, _)| descend(step(&path[..dot])?, &path[dot + 1..]))
}

fn is_address_of(blob: &[u8], address: &str) -> bool {
    address
        .parse::<ContentAddress>()
        .is_ok_and(|address| address.verify(blob).is_ok())
}

fn sensitivity(flags: i64) -> Option<String> {
    Some(
        HeaderFlags::from_byte(u8::try_from(flags).ok()?)
            .sensitivity()
            .name()
            .to_owned(),
    )
}

fn method(did: &str) -> Option<String> {
    let (method, identifier) = did.strip_prefix("did:")?.split_once(':')?;
    (!method.is_empty() && !identifier.is_empty()).then(|| method.to_owned())
}
