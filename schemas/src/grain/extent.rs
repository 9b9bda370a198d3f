//! Lengths of self-delimiting grains, and codecs for maps and values outside a grain.

use super::cbor::{self, CborReader, envelope_length};
use super::header::{GrainHeader, HEADER_LENGTH, VERSION};
use super::msgpack::{self, MessagePackReader};
use super::payload::Encoding;
use super::raw::{RawCollection, RawValue, read_raw};
use super::token::{Deviation, TokenReader, skip};
use super::value::Value;
use crate::compression::zstd_frame_length;
use crate::error::{ErrorCode, GrainError};

/// Returns the length of the delivered grain (a blob or an envelope) at the start of `bytes`;
/// `None` for an encrypted blob, whose ciphertext does not indicate its length.
///
/// # Errors
/// Those of reading a header; [`ErrorCode::Corrupt`] if the grain is incomplete.
pub(crate) fn delivered_length(bytes: &[u8]) -> Result<Option<usize>, GrainError> {
    if bytes.first() != Some(&VERSION) {
        return envelope_length(bytes).map(Some);
    }
    let header = GrainHeader::read(bytes)?;
    if header.flags.encrypted() {
        return Ok(None);
    }
    let payload = bytes.get(HEADER_LENGTH..).unwrap_or_default();
    let length = if header.flags.compressed() {
        zstd_frame_length(payload)
    } else {
        map_length(payload)
    };
    length
        .map(|length| Some(HEADER_LENGTH + length))
        .map_err(|error| error.shifted(HEADER_LENGTH))
}

fn map_length(bytes: &[u8]) -> Result<usize, GrainError> {
    fn length<'a>(mut reader: impl TokenReader<'a>) -> Result<usize, GrainError> {
        skip(&mut reader)?;
        Ok(reader.position())
    }
    match encoding_of(bytes)? {
        Encoding::MessagePack => length(MessagePackReader::new(bytes)),
        Encoding::Cbor => length(CborReader::new(bytes)),
    }
}

fn encoding_of(bytes: &[u8]) -> Result<Encoding, GrainError> {
    let encoding = bytes
        .first()
        .and_then(|first| Encoding::from_map_head(*first));
    encoding
        .ok_or_else(|| GrainError::new(ErrorCode::NotMap, "not a MessagePack or CBOR map").at(0))
}

/// Reads the map, in either encoding, that `bytes` consist of, and returns the first deviation from
/// canonical form.
///
/// # Errors
/// [`ErrorCode::NotMap`], [`ErrorCode::Corrupt`], [`ErrorCode::FloatInvalid`].
pub(crate) fn read_map(bytes: &[u8]) -> Result<(RawCollection<'_>, Option<Deviation>), GrainError> {
    match encoding_of(bytes)? {
        Encoding::MessagePack => {
            read_only_map(MessagePackReader::new(bytes), Encoding::MessagePack)
        }
        Encoding::Cbor => read_only_map(CborReader::new(bytes), Encoding::Cbor),
    }
}

/// Reads the map that the bytes of `reader` consist of.
fn read_only_map<'a>(
    mut reader: impl TokenReader<'a>,
    encoding: Encoding,
) -> Result<(RawCollection<'a>, Option<Deviation>), GrainError> {
    let value = read_raw(&mut reader, encoding, 0)?;
    if reader.position() != reader.bytes().len() {
        return Err(GrainError::corrupt(
            reader.position(),
            "bytes follow the map",
        ));
    }
    match value {
        RawValue::Map(encoded) => Ok((encoded, reader.deviation().take())),
        _ => Err(GrainError::new(ErrorCode::NotMap, "not a map").at(0)),
    }
}

/// Appends the canonical encoding of `value`.
///
/// # Errors
/// [`ErrorCode::FloatInvalid`], [`ErrorCode::Corrupt`].
pub(crate) fn append_value(
    value: &Value<'_>,
    encoding: Encoding,
    out: &mut Vec<u8>,
) -> Result<(), GrainError> {
    match encoding {
        Encoding::MessagePack => msgpack::write(value, out),
        Encoding::Cbor => cbor::write(value, out),
    }
}

/// Returns the canonical encoding of `value`.
///
/// # Errors
/// [`ErrorCode::FloatInvalid`], [`ErrorCode::Corrupt`].
pub(crate) fn write_value(value: &Value<'_>, encoding: Encoding) -> Result<Vec<u8>, GrainError> {
    let mut out = Vec::new();
    append_value(value, encoding, &mut out)?;
    Ok(out)
}
