//! From a grain to its one blob (§4.9).
//!
//! What is written is read back by the strict reader and held to the rules for writers before it
//! leaves: there is one set of rules, and no blob of ours that our own reader would refuse.

use std::borrow::Cow;

use super::alias::field_of_alias;
use super::decode::{Grain, Mode};
use super::extent::append_value;
use super::fields::{Field, Kind};
use super::header::{Flags, HEADER_LENGTH, Header, Sensitivity};
use super::json::{compact, into_value};
use super::marks::Marks;
use super::payload::{DEFAULT_PAYLOAD_LIMIT, Encoding, Payload};
use super::rules::{self, Rigor};
use super::types::{GrainType, TypeByte};
use super::value::Value;
use crate::address::{BlobHash, ContentAddress};
use crate::error::{ErrorCode, GrainError};
use crate::json::{Json, Object};

/// The zstd level of compressed payloads and container regions (§11.3).
pub const ZSTD_LEVEL: i32 = 3;

/// What a writer chooses beside the grain itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodeOptions {
    /// MessagePack or CBOR. The same grain has another address in each.
    pub encoding: Encoding,
    /// The least sensitivity class; tags raise it (§13.4).
    pub sensitivity: Sensitivity,
    /// Sets the signed flag: the blob is going to be wrapped (§9.2).
    pub signed: bool,
    /// Compresses the payload with zstd.
    pub compressed: bool,
}

impl EncodeOptions {
    /// The options as JSON lines have them beside a grain, each missing at its default.
    ///
    /// # Errors
    /// [`ErrorCode::Schema`] for an option of the wrong kind.
    pub fn of_json(options: Option<&Json<'_>>) -> Result<Self, GrainError> {
        let Some(options) = options.filter(|options| !options.is_null()) else {
            return Ok(Self::default());
        };
        let wrong = |member: &'static str, expected: &str| {
            GrainError::new(
                ErrorCode::Schema,
                format!("the option `{member}` must be {expected}"),
            )
            .field(member)
        };
        let flag = |member: &'static str| match options.get(member) {
            None | Some(Json::Null) => Ok(false),
            Some(value) => value
                .as_bool()
                .ok_or_else(|| wrong(member, "true or false")),
        };
        let encoding = match options.get("encoding").map(|value| value.as_str()) {
            None | Some(Some("msgpack")) => Encoding::MessagePack,
            Some(Some("cbor")) => Encoding::Cbor,
            _ => return Err(wrong("encoding", "msgpack or cbor")),
        };
        let sensitivity = match options.get("sensitivity") {
            None | Some(Json::Null) => Sensitivity::Public,
            Some(value) => match value.as_u64() {
                Some(bits @ 0..=3) => Sensitivity::from_bits(bits as u8),
                _ => return Err(wrong("sensitivity", "0, 1, 2 or 3")),
            },
        };
        Ok(Self {
            encoding,
            sensitivity,
            signed: flag("signed")?,
            compressed: flag("compressed")?,
        })
    }
}

/// A blob that was just written, with its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedGrain {
    /// Header and payload.
    pub blob: Vec<u8>,
    /// SHA-256 of the blob.
    pub address: ContentAddress,
}

impl EncodedGrain {
    /// The grain with `text` in the place of the text of `field`, which is as long; `None` if there
    /// is none as long. The schema has to let `text` stand there.
    pub fn with_text_as_long(mut self, field: Field, text: &str) -> Option<EncodedGrain> {
        overwrite(&mut self.blob, field, text)?;
        let address = ContentAddress::of(&self.blob);
        Some(EncodedGrain { address, ..self })
    }
}

/// Puts `text` in the place of the text of `field` in a blob of ours, if that is as long: then
/// nothing else of the blob depends on it.
fn overwrite(blob: &mut [u8], field: Field, text: &str) -> Option<()> {
    let (start, before) = {
        let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).ok()?;
        let grain = Grain::decode_again(&payload, Marks::default()).ok()?;
        let before = grain.text(field)?;
        (
            (before.as_ptr() as usize).wrapping_sub(blob.as_ptr() as usize),
            before.to_owned(),
        )
    };
    // In a payload that had to be decompressed the text stands elsewhere.
    let place = blob.get_mut(start..start.checked_add(text.len())?)?;
    (*place == *before.as_bytes()).then(|| place.copy_from_slice(text.as_bytes()))
}

/// Encodes a grain that is given as JSON with full names.
///
/// # Errors
/// The codes of §19 with the field that caused them: [`ErrorCode::NoType`],
/// [`ErrorCode::UnknownType`] (also for types of later versions: their schemas aren't known),
/// [`ErrorCode::Schema`], [`ErrorCode::Range`], [`ErrorCode::Empty`] …
pub fn encode_json(grain: &Json<'_>, options: EncodeOptions) -> Result<EncodedGrain, GrainError> {
    let object = grain.as_object().ok_or_else(|| {
        GrainError::new(
            ErrorCode::NotMap,
            format!("a grain is a map, not {}", grain.kind()),
        )
    })?;
    encode_object(object.reborrow(), options)
}

/// [`encode_json`] of a grain whose JSON isn't needed any more.
///
/// # Errors
/// As [`encode_json`].
pub fn encode_object(
    grain: Object<'_>,
    options: EncodeOptions,
) -> Result<EncodedGrain, GrainError> {
    encode(fields_of(grain)?, options)
}

fn fields_of<'a>(grain: Object<'a>) -> Result<Vec<(Key<'a>, Value<'a>)>, GrainError> {
    let field = |(name, json): (Cow<'a, str>, Json<'a>)| {
        Ok(match Field::from_name(&name) {
            Some(field) => (Key::Field(field), compact(field, json)?),
            None => (Key::Own(name), into_value(json)?),
        })
    };
    grain.into_iter().map(field).collect()
}

/// The key of a field that is to be encoded.
#[derive(Debug, Clone, PartialEq)]
pub enum Key<'a> {
    /// A field of the specification.
    Field(Field),
    /// Any other key, written as it is.
    Own(Cow<'a, str>),
}

impl From<Field> for Key<'_> {
    fn from(field: Field) -> Self {
        Key::Field(field)
    }
}

/// Encodes a grain that is given as fields whose values are in payload form (compacted inside,
/// instants in milliseconds).
///
/// An own key that readers take for a field is refused: the grain would come back as another.
///
/// # Errors
/// As [`encode_json`].
pub fn encode(
    fields: Vec<(Key<'_>, Value<'_>)>,
    options: EncodeOptions,
) -> Result<EncodedGrain, GrainError> {
    let blob = assemble(payload_of(fields, options.encoding)?, options, None)?.0;
    let address = ContentAddress::of(&blob);
    Ok(EncodedGrain { blob, address })
}

/// A canonical payload with room for a header before it, and the type of its grain.
struct Headless {
    kind: GrainType,
    blob: Vec<u8>,
}

impl Headless {
    fn payload(&self) -> &[u8] {
        self.blob.get(HEADER_LENGTH..).unwrap_or_default()
    }

    fn put_header(&mut self, header: Header) {
        self.blob
            .iter_mut()
            .zip(header.to_bytes())
            .for_each(|(place, byte)| *place = byte);
    }
}

/// The canonical payload of a grain.
fn payload_of(
    fields: Vec<(Key<'_>, Value<'_>)>,
    encoding: Encoding,
) -> Result<Headless, GrainError> {
    let kind = type_of(&fields)?;
    check_own_keys(kind, &fields)?;
    let key_of = |key| match key {
        Key::Field(field) => Cow::Borrowed(Field::short_key(field, Some(kind))),
        Key::Own(key) => key,
    };
    let map = Value::Map(
        fields
            .into_iter()
            .map(|(key, value)| (key_of(key), value))
            .collect(),
    );
    let mut blob = Vec::with_capacity(HEADER_LENGTH + map.encoded_length_at_most());
    blob.resize(HEADER_LENGTH, 0);
    append_value(&map, encoding, &mut blob)?;
    Ok(Headless { kind, blob })
}

/// A grain that is encoded but for one address in it, which isn't known yet. All addresses are of
/// one length, so nothing else of the blob depends on it.
#[derive(Debug, Clone)]
pub struct OpenGrain {
    blob: Vec<u8>,
    /// Where the digits of the address stand.
    place: usize,
    /// The hash of what stands before the place: whoever puts the address in has only the rest to
    /// hash.
    before: BlobHash,
}

impl OpenGrain {
    /// Encodes `grain`, uncompressed, with a place for the address in `field`: in the text that it
    /// is, or the first of the list that it is. What the grain has there is replaced.
    ///
    /// # Errors
    /// As [`encode_json`].
    pub fn encode(mut grain: Object<'_>, field: Field) -> Result<OpenGrain, GrainError> {
        let nobody = Json::from("0".repeat(ContentAddress::TEXT_LENGTH));
        grain.insert(
            field.name(),
            if field.kind() == Kind::Text {
                nobody
            } else {
                Json::Array(vec![nobody])
            },
        );
        let options = EncodeOptions::default();
        let (blob, place) = assemble(
            payload_of(fields_of(grain)?, options.encoding)?,
            options,
            Some(field),
        )?;
        let place = place.ok_or_else(|| {
            GrainError::new(ErrorCode::Schema, "no address can stand there").field(field.name())
        })?;
        let before = BlobHash::of(blob.get(..place).unwrap_or_default());
        Ok(OpenGrain {
            blob,
            place,
            before,
        })
    }

    /// The grain with `address` in its place.
    pub fn close(mut self, address: ContentAddress) -> EncodedGrain {
        let digits = self
            .blob
            .get_mut(self.place..)
            .and_then(<[u8]>::first_chunk_mut);
        digits
            .into_iter()
            .for_each(|digits| _ = address.write_hex(digits));
        let address = self
            .before
            .end(self.blob.get(self.place..).unwrap_or_default());
        EncodedGrain {
            blob: self.blob,
            address,
        }
    }

    /// [`EncodedGrain::with_text_as_long`] before the address is put in.
    pub fn with_text_as_long(mut self, field: Field, text: &str) -> Option<OpenGrain> {
        overwrite(&mut self.blob, field, text)?;
        let before = BlobHash::of(self.blob.get(..self.place)?);
        Some(OpenGrain { before, ..self })
    }

    /// The blob, with no address in it that means anything.
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }
}

fn type_of(fields: &[(Key<'_>, Value<'_>)]) -> Result<GrainType, GrainError> {
    let stands = |key: &Key| {
        matches!(key, Key::Field(Field::Type)) || matches!(key, Key::Own(own) if own == "t")
    };
    match fields
        .iter()
        .find(|(key, _)| stands(key))
        .map(|(_, value)| value)
    {
        None | Some(Value::Nil) => {
            Err(GrainError::new(ErrorCode::NoType, "missing required field: type").field("type"))
        }
        Some(Value::Text(name)) => GrainType::from_name(name).ok_or_else(|| {
            GrainError::new(
                ErrorCode::UnknownType,
                format!("unknown memory type: {name}"),
            )
            .field("type")
        }),
        Some(_) => Err(GrainError::new(ErrorCode::Schema, "must be a string").field("type")),
    }
}

/// No own key may be another spelling of a field: its full name, or what another writer calls a
/// field that the grain lacks.
fn check_own_keys(kind: GrainType, fields: &[(Key<'_>, Value<'_>)]) -> Result<(), GrainError> {
    let lacks = |field: &Field| {
        !fields.iter().any(|(key, value)| {
            matches!(key, Key::Field(known) if known == field) && *value != Value::Nil
        })
    };
    for (key, _) in fields.iter().filter(|(_, value)| *value != Value::Nil) {
        let Key::Own(own) = key else { continue };
        let named = Field::from_short_key(own).or_else(|| Field::from_name(own));
        let field = named.or_else(|| field_of_alias(Some(kind), own).filter(lacks));
        if let Some(field) = field.filter(|field| field.short_key(Some(kind)) != own) {
            let message = format!(
                "`{own}` would be read as `{}`, which is to be given by its full name",
                field.name()
            );
            return Err(GrainError::new(ErrorCode::Schema, message).field(field.name()));
        }
    }
    Ok(())
}

/// Puts the header of `grain` before its payload, after checking that it makes a valid grain;
/// answers where the first text of the field `sought` stands, too.
fn assemble(
    mut grain: Headless,
    options: EncodeOptions,
    sought: Option<Field>,
) -> Result<(Vec<u8>, Option<usize>), GrainError> {
    let mut flags = Flags::default();
    flags.set_cbor(options.encoding == Encoding::Cbor);
    // The class and hints follow from the content, which the strict reader reads below: the highest
    // class satisfies it.
    flags.set_sensitivity(Sensitivity::Phi);
    let type_byte = TypeByte::Standard(grain.kind);
    let header = Header {
        flags,
        type_byte,
        namespace_hash: [0; 2],
        created_at_seconds: 0,
    };
    grain.put_header(header);
    let opened = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT)?;
    let mut checked = Grain::blank(header);
    checked.decode_with(&opened, Mode::Strict, Rigor::Write)?;
    let header = header_of(&mut checked, flags, options);
    if options.compressed {
        check_size(grain.payload())?;
        let compressed = zstd::bulk::compress(grain.payload(), ZSTD_LEVEL)
            .map_err(|error| GrainError::new(ErrorCode::Corrupt, format!("zstd: {error}")))?;
        return Ok(([&header.to_bytes()[..], &compressed].concat(), None));
    }
    let found = sought
        .and_then(|field| checked.get(field))
        .and_then(|value| match value.as_array() {
            Some(mut items) => items.next()?.as_text(),
            None => value.as_text(),
        });
    let place =
        found.map(|text| (text.as_ptr() as usize).wrapping_sub(grain.blob.as_ptr() as usize));
    grain.put_header(header);
    Ok((grain.blob, place))
}

/// Readers open a compressed payload up to a limit, so that it can't be a bomb.
fn check_size(payload: &[u8]) -> Result<(), GrainError> {
    if payload.len() <= DEFAULT_PAYLOAD_LIMIT {
        return Ok(());
    }
    let message = format!(
        "a payload of {} bytes can't be compressed: readers decompress at most \
         {DEFAULT_PAYLOAD_LIMIT} bytes",
        payload.len()
    );
    Err(GrainError::new(ErrorCode::Corrupt, message))
}

/// The header that the content of a checked grain demands.
fn header_of(grain: &mut Grain<'_>, mut flags: Flags, options: EncodeOptions) -> Header {
    let listed = |field| grain.get(field).is_some_and(|value| value.count() > 0);
    let created = grain
        .get(Field::CreatedAt)
        .and_then(|value| value.as_int())
        .and_then(rules::header_seconds);
    flags.set_signed(options.signed);
    flags.set_compressed(options.compressed);
    flags.set_content_refs(listed(Field::ContentRefs));
    flags.set_embedding_refs(listed(Field::EmbeddingRefs));
    flags.set_sensitivity(options.sensitivity.max(rules::demanded_sensitivity(grain)));
    Header {
        flags,
        type_byte: grain.header().type_byte,
        namespace_hash: grain.namespace_hash(),
        created_at_seconds: created.unwrap_or_default(),
    }
}
