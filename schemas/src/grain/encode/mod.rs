//! Encodes a grain as its canonical blob (§4.9).
//!
//! Every blob is decoded by the strict reader and checked against the rules for writers before it
//! is returned. Readers and writers therefore share one set of rules, and this crate never writes a
//! blob that its own reader rejects.

mod options;
mod template;

use std::borrow::Cow;

pub use options::EncodeOptions;
pub use template::GrainTemplate;

use super::decode::{DecodeMode, Grain};
use super::extent::append_value;
use super::fields::Field;
use super::header::{GrainHeader, HEADER_LENGTH, HeaderFlags, Sensitivity};
use super::json::{compact, into_value};
use super::marks::Marks;
use super::payload::{DEFAULT_PAYLOAD_LIMIT, Encoding, Payload};
use super::raw::RawValue;
use super::types::{GrainType, TypeByte};
use super::validate::{self, CheckLevel};
use super::value::Value;
use crate::address::ContentAddress;
use crate::error::{ErrorCode, GrainError};
use crate::json::{Json, Object};

/// The zstd level of compressed payloads and container regions (§11.3).
pub const ZSTD_LEVEL: i32 = 3;

/// An encoded blob with its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedGrain {
    /// Header and payload.
    pub blob: Vec<u8>,
    /// SHA-256 of the blob.
    pub address: ContentAddress,
}

impl EncodedGrain {
    /// Replaces the text of `field` by a `text` of the same length, without encoding the grain
    /// again. Returns `None` if the field holds no text of this length. The caller must ensure that
    /// the schema permits `text`.
    pub fn replace_equal_length_text(mut self, field: Field, text: &str) -> Option<EncodedGrain> {
        overwrite_text(&mut self.blob, field, text)?;
        let address = ContentAddress::of(&self.blob);
        Some(EncodedGrain { address, ..self })
    }
}

/// Overwrites the text of `field` in an uncompressed blob by a text of the same length, which
/// changes no other byte of the blob.
fn overwrite_text(blob: &mut [u8], field: Field, text: &str) -> Option<()> {
    let (start, before) = {
        let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).ok()?;
        let grain = Grain::decode_validated(&payload, Marks::default()).ok()?;
        let before = grain.text(field)?;
        (offset_in(blob, before), before.to_owned())
    };
    // The text of a compressed payload lies in another buffer: its offset is out of range, or the
    // bytes there differ.
    let slot = blob.get_mut(start..start.checked_add(text.len())?)?;
    (*slot == *before.as_bytes()).then(|| slot.copy_from_slice(text.as_bytes()))
}

/// Returns the offset of `part`, a slice of `whole`.
fn offset_in(whole: &[u8], part: &str) -> usize {
    (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize)
}

/// Encodes a grain that is given as JSON with full field names.
///
/// # Errors
/// The codes of §19, with the field: [`ErrorCode::NoType`], [`ErrorCode::UnknownType`] (also for
/// types of later versions, whose schemas are unknown), [`ErrorCode::Schema`],
/// [`ErrorCode::Range`], [`ErrorCode::Empty`] …
pub fn encode_json(grain: &Json<'_>, options: EncodeOptions) -> Result<EncodedGrain, GrainError> {
    let object = grain.as_object().ok_or_else(|| {
        GrainError::new(
            ErrorCode::NotMap,
            format!("a grain is a map, not {}", grain.kind()),
        )
    })?;
    encode_object(object.reborrow(), options)
}

/// As [`encode_json`], for an object that is consumed.
///
/// # Errors
/// As [`encode_json`].
pub fn encode_object(
    grain: Object<'_>,
    options: EncodeOptions,
) -> Result<EncodedGrain, GrainError> {
    encode(fields_from_json(grain)?, options)
}

fn fields_from_json<'a>(grain: Object<'a>) -> Result<Vec<(Key<'a>, Value<'a>)>, GrainError> {
    let field = |(name, json): (Cow<'a, str>, Json<'a>)| {
        Ok(match Field::from_name(&name) {
            Some(field) => (Key::Field(field), compact(field, json)?),
            None => (Key::Custom(name), into_value(json)?),
        })
    };
    grain.into_iter().map(field).collect()
}

/// The key of a field to encode.
#[derive(Debug, Clone, PartialEq)]
pub enum Key<'a> {
    /// A field of the specification, written under its short key.
    Field(Field),
    /// Any other key, written as given.
    Custom(Cow<'a, str>),
}

impl From<Field> for Key<'_> {
    fn from(field: Field) -> Self {
        Key::Field(field)
    }
}

/// Encodes a grain that is given as fields whose values are in payload form: nested keys are short,
/// instants are in milliseconds.
///
/// A custom key that the strict reader would decode as a field of the specification is an error,
/// because the grain would not round-trip.
///
/// # Errors
/// As [`encode_json`].
pub fn encode(
    fields: Vec<(Key<'_>, Value<'_>)>,
    options: EncodeOptions,
) -> Result<EncodedGrain, GrainError> {
    let blob = assemble(encode_payload(fields, options.encoding)?, options, None)?.0;
    let address = ContentAddress::of(&blob);
    Ok(EncodedGrain { blob, address })
}

/// A canonical payload after a zeroed header, and the type of its grain.
struct PayloadBuffer {
    kind: GrainType,
    blob: Vec<u8>,
}

impl PayloadBuffer {
    fn payload(&self) -> &[u8] {
        self.blob.get(HEADER_LENGTH..).unwrap_or_default()
    }

    fn put_header(&mut self, header: GrainHeader) {
        self.blob
            .iter_mut()
            .zip(header.to_bytes())
            .for_each(|(slot, byte)| *slot = byte);
    }
}

/// Encodes the canonical payload of a grain.
fn encode_payload(
    fields: Vec<(Key<'_>, Value<'_>)>,
    encoding: Encoding,
) -> Result<PayloadBuffer, GrainError> {
    let kind = type_of(&fields)?;
    check_custom_keys(kind, &fields)?;
    let short_key = |key| match key {
        Key::Field(field) => Cow::Borrowed(Field::short_key(field, Some(kind))),
        Key::Custom(key) => key,
    };
    let entries = fields
        .into_iter()
        .map(|(key, value)| (short_key(key), value));
    let map = Value::Map(entries.collect());
    let mut blob = Vec::with_capacity(HEADER_LENGTH + map.encoded_length_at_most());
    blob.resize(HEADER_LENGTH, 0);
    append_value(&map, encoding, &mut blob)?;
    Ok(PayloadBuffer { kind, blob })
}

/// Returns the type that the fields name, under the field or under its short key.
fn type_of(fields: &[(Key<'_>, Value<'_>)]) -> Result<GrainType, GrainError> {
    let is_type = |key: &Key| match key {
        Key::Field(field) => *field == Field::Type,
        Key::Custom(key) => key == "t",
    };
    let value = fields.iter().find(|(key, _)| is_type(key));
    let value = value.map(|(_, value)| value);
    let kind = match value {
        Some(Value::Text(name)) => GrainType::from_name(name),
        _ => None,
    };
    kind.ok_or_else(|| type_error(value))
}

/// Returns the error of a `value` that names no type.
fn type_error(value: Option<&Value<'_>>) -> GrainError {
    let (code, message) = match value {
        None | Some(Value::Nil) => (ErrorCode::NoType, "missing required field: type".into()),
        Some(Value::Text(name)) => (
            ErrorCode::UnknownType,
            format!("unknown memory type: {name}"),
        ),
        Some(_) => (ErrorCode::Schema, "must be a string".into()),
    };
    GrainError::new(code, message).field("type")
}

/// Checks that no custom key is the full name of a field, or the short key that it has in grains of
/// other types. A key that only other writers use for a field is a custom key (§6.12).
fn check_custom_keys(kind: GrainType, fields: &[(Key<'_>, Value<'_>)]) -> Result<(), GrainError> {
    for (key, _) in fields.iter().filter(|(_, value)| *value != Value::Nil) {
        let Key::Custom(custom) = key else { continue };
        let Some(field) = Field::from_short_key(custom).or_else(|| Field::from_name(custom)) else {
            continue;
        };
        if field.short_key(Some(kind)) != custom {
            let message = format!(
                "`{custom}` would be read as `{}`; use the full name of the field",
                field.name()
            );
            return Err(GrainError::new(ErrorCode::Schema, message).field(field.name()));
        }
    }
    Ok(())
}

/// Writes the header of `grain` and checks that the result is a valid grain. Returns the blob and,
/// unless it is compressed, the offset of the first text of the field `sought`.
fn assemble(
    mut grain: PayloadBuffer,
    options: EncodeOptions,
    sought: Option<Field>,
) -> Result<(Vec<u8>, Option<usize>), GrainError> {
    let (header, offset) = check(&mut grain, options, sought)?;
    if options.compressed {
        let blob = [&header.to_bytes()[..], &compress(grain.payload())?].concat();
        return Ok((blob, None));
    }
    grain.put_header(header);
    Ok((grain.blob, offset))
}

/// Decodes the payload of `grain` by the rules for writers. Returns its final header and the offset
/// of the first text of the field `sought`.
fn check(
    grain: &mut PayloadBuffer,
    options: EncodeOptions,
    sought: Option<Field>,
) -> Result<(GrainHeader, Option<usize>), GrainError> {
    let mut flags = HeaderFlags::default();
    flags.set_cbor(options.encoding == Encoding::Cbor);
    // The sensitivity class depends on the tags, which are decoded below; until then the highest
    // class passes every check.
    flags.set_sensitivity(Sensitivity::Phi);
    let header = GrainHeader {
        flags,
        type_byte: TypeByte::Standard(grain.kind),
        namespace_hash: [0; 2],
        created_at_seconds: 0,
    };
    grain.put_header(header);
    let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT)?;
    let mut checked = Grain::empty(header);
    checked.decode_with(&payload, DecodeMode::Strict, CheckLevel::Write)?;
    let first_text = |value: RawValue<'_>| match value.as_array() {
        Some(mut items) => items
            .next()?
            .as_text()
            .map(|text| offset_in(&grain.blob, text)),
        None => value.as_text().map(|text| offset_in(&grain.blob, text)),
    };
    let offset = sought
        .and_then(|field| checked.get(field))
        .and_then(first_text);
    Ok((header_of(&mut checked, flags, options), offset))
}

/// Compresses a payload, unless it is larger than readers decompress.
fn compress(payload: &[u8]) -> Result<Vec<u8>, GrainError> {
    if payload.len() > DEFAULT_PAYLOAD_LIMIT {
        let message = format!(
            "a payload of {} bytes can't be compressed: readers decompress at most \
             {DEFAULT_PAYLOAD_LIMIT} bytes",
            payload.len()
        );
        return Err(GrainError::new(ErrorCode::Corrupt, message));
    }
    zstd::bulk::compress(payload, ZSTD_LEVEL)
        .map_err(|error| GrainError::new(ErrorCode::Corrupt, format!("zstd: {error}")))
}

/// Returns the header that follows from the content of a checked grain and the options.
fn header_of(grain: &mut Grain<'_>, mut flags: HeaderFlags, options: EncodeOptions) -> GrainHeader {
    let is_filled = |field| grain.get(field).is_some_and(|value| value.count() > 0);
    let created = grain
        .get(Field::CreatedAt)
        .and_then(|value| value.as_int())
        .and_then(validate::header_seconds);
    flags.set_signed(options.signed);
    flags.set_compressed(options.compressed);
    flags.set_content_refs(is_filled(Field::ContentRefs));
    flags.set_embedding_refs(is_filled(Field::EmbeddingRefs));
    flags.set_sensitivity(
        options
            .sensitivity
            .max(validate::required_sensitivity(grain)),
    );
    GrainHeader {
        flags,
        type_byte: grain.header().type_byte,
        namespace_hash: grain.namespace_hash(),
        created_at_seconds: created.unwrap_or_default(),
    }
}
