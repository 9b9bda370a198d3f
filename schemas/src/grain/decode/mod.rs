//! Decodes the payload of a grain in a single pass.
//!
//! The pass allocates nothing per value: a [`Grain`] holds slices of the payload. A `Grain` can be
//! reused for the next blob ([`Grain::redecode`]) to reuse its lists, too. The schema rules (§8) of
//! the module `validate` are checked at the end of the pass.

mod accessors;

use super::alias::field_of_alias;
use super::cbor::CborReader;
use super::fields::{Field, FieldAccess};
use super::header::{GrainHeader, HEADER_LENGTH};
use super::marks::{Mark, Marks};
use super::msgpack::MessagePackReader;
use super::payload::{Encoding, Payload};
use super::raw::{RawCollection, RawValue, read_raw, read_validated};
use super::token::{
    Deviation, KeyOrder, KeyToken, NULL_IN_MAP, PayloadToken, TokenReader, read_field_key,
    read_key, skip,
};
use super::types::GrainType;
use super::validate::{self, CheckLevel};
use crate::error::{ErrorCode, GrainError};

/// What a reader accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DecodeMode {
    /// Only the canonical form of a grain. A key that isn't in the field map is a custom field
    /// (§6.12).
    #[default]
    Strict,
    /// As [`DecodeMode::Strict`], but a key that other writers use for a field is that field.
    StrictAliased,
    /// Everything with an unambiguous meaning; deviations from canonical form are marked.
    Lenient,
}

impl DecodeMode {
    /// Returns true if only the canonical form is accepted.
    pub fn is_strict(self) -> bool {
        self != DecodeMode::Lenient
    }
}

/// A decoded and validated grain: its header and its fields, as slices of the payload.
#[derive(Debug, Clone)]
pub struct Grain<'a> {
    header: GrainHeader,
    encoding: Encoding,
    encrypted: bool,
    /// The entries of the payload's own map, as they are encoded.
    entries: RawCollection<'a>,
    known: Vec<(Field, RawValue<'a>)>,
    unknown: Vec<(&'a str, RawValue<'a>)>,
    /// Keys of null entries that aren't in the specification.
    null_keys: Vec<&'a str>,
    /// For each field its index in `known`, or [`ABSENT`].
    positions: [u8; Field::COUNT],
    marks: Marks,
    /// The namespace that was hashed last, of this grain or of one before: neighbours often share
    /// one.
    hashed: Option<(&'a str, [u8; 2])>,
}

/// The initial capacity for fields; most grains have no more.
const TYPICAL_FIELD_COUNT: usize = 16;

const NO_ENTRIES: RawCollection<'static> = RawCollection::new(&[], 0, Encoding::MessagePack);

const ABSENT: u8 = u8::MAX;
const _: () = assert!(Field::COUNT < ABSENT as usize);

impl<'a> Grain<'a> {
    /// Decodes and validates `payload`. The result for an encrypted payload has no fields.
    ///
    /// # Errors
    /// The codes of §19 for blobs, with the field and the offset. Offsets count from the start of
    /// the blob, for a compressed blob as if its payload were not compressed.
    pub fn decode(payload: &'a Payload<'_>, mode: DecodeMode) -> Result<Grain<'a>, GrainError> {
        let mut grain = Grain::empty(*payload.header());
        grain.redecode(payload, mode)?;
        Ok(grain)
    }

    /// As [`Grain::decode`], but reuses the memory of `self`. After an error, `self` holds a part
    /// of the new fields and must not be read.
    ///
    /// # Errors
    /// As [`Grain::decode`].
    pub fn redecode(
        &mut self,
        payload: &'a Payload<'_>,
        mode: DecodeMode,
    ) -> Result<(), GrainError> {
        let level = match mode {
            DecodeMode::Lenient => CheckLevel::LenientRead,
            DecodeMode::Strict | DecodeMode::StrictAliased => CheckLevel::StrictRead,
        };
        self.decode_with(payload, mode, level)
    }

    /// As [`Grain::redecode`], with the schema rules of `level`.
    pub(super) fn decode_with(
        &mut self,
        payload: &'a Payload<'_>,
        mode: DecodeMode,
        level: CheckLevel,
    ) -> Result<(), GrainError> {
        self.clear(*payload.header());
        let Some((bytes, encoding)) = payload.plaintext() else {
            self.encrypted = true;
            return Ok(());
        };
        self.encoding = encoding;
        let deviation = match encoding {
            Encoding::MessagePack => self.read(MessagePackReader::new(bytes), mode),
            Encoding::Cbor => self.read(CborReader::new(bytes), mode),
        }
        .map_err(|error| error.shifted(HEADER_LENGTH))?;
        if let Some(Deviation { offset, what }) = deviation {
            if mode.is_strict() {
                return Err(GrainError::corrupt(HEADER_LENGTH + offset, what));
            }
            self.marks.insert(Mark::NotCanonical);
        }
        self.marks.insert_if(
            Mark::EncodingFlag,
            self.header.flags.cbor() != (encoding == Encoding::Cbor),
        );
        validate::check(self, level)
            .map_err(|error| self.with_field_offset(error, bytes).shifted(HEADER_LENGTH))
    }

    /// Decodes a payload that was validated before, without validating it again. `marks` are those
    /// of the first decoding. Keys of other writers are fields, as with
    /// [`DecodeMode::StrictAliased`].
    ///
    /// # Errors
    /// None for bytes that were decoded successfully before.
    pub fn decode_validated(
        payload: &'a Payload<'_>,
        marks: Marks,
    ) -> Result<Grain<'a>, GrainError> {
        let mut grain = Grain::empty(*payload.header());
        grain.redecode_validated(payload, marks)?;
        Ok(grain)
    }

    /// As [`Grain::decode_validated`], but reuses the memory of `self`.
    ///
    /// # Errors
    /// As [`Grain::decode_validated`].
    pub fn redecode_validated(
        &mut self,
        payload: &'a Payload<'_>,
        marks: Marks,
    ) -> Result<(), GrainError> {
        self.clear(*payload.header());
        match payload.plaintext() {
            None => self.encrypted = true,
            Some((bytes, encoding)) => {
                self.encoding = encoding;
                match encoding {
                    Encoding::MessagePack => {
                        self.read_validated(MessagePackReader::validated(bytes, 0))
                    }
                    Encoding::Cbor => self.read_validated(CborReader::validated(bytes, 0)),
                }
                .map_err(|error| error.shifted(HEADER_LENGTH))?;
            }
        }
        self.marks = marks;
        Ok(())
    }

    /// Creates a grain without fields.
    pub(super) fn empty(header: GrainHeader) -> Grain<'a> {
        Grain {
            header,
            encoding: Encoding::default(),
            encrypted: false,
            entries: NO_ENTRIES,
            known: Vec::with_capacity(TYPICAL_FIELD_COUNT),
            unknown: Vec::new(),
            null_keys: Vec::new(),
            positions: [ABSENT; Field::COUNT],
            marks: Marks::default(),
            hashed: None,
        }
    }

    fn clear(&mut self, header: GrainHeader) {
        self.header = header;
        self.encrypted = false;
        self.entries = NO_ENTRIES;
        self.known.clear();
        self.unknown.clear();
        self.null_keys.clear();
        self.positions = [ABSENT; Field::COUNT];
        self.marks = Marks::default();
    }

    fn read<R: TokenReader<'a>>(
        &mut self,
        mut reader: R,
        mode: DecodeMode,
    ) -> Result<Option<Deviation>, GrainError> {
        let count = self.read_map_head(&mut reader)?;
        let kind = self.header.type_byte.standard();
        let start = reader.position();
        let mut order = KeyOrder::new();
        for _ in 0..count {
            let offset = reader.position();
            let key = read_field_key(&mut reader)?;
            order.next(&mut reader, key.text, offset)?;
            let value_offset = reader.position();
            match read_raw(&mut reader, self.encoding, 1)? {
                RawValue::Nil => {
                    reader.deviates(value_offset, NULL_IN_MAP);
                    self.add_null(key);
                }
                value => self.add(kind, key, value, offset)?,
            }
        }
        if mode != DecodeMode::Strict {
            self.resolve_aliases();
        }
        order.finish(&reader, start, count)?;
        check_end(&reader)?;
        Ok(reader.deviation().take())
    }

    fn read_validated<R: TokenReader<'a>>(&mut self, mut reader: R) -> Result<(), GrainError> {
        let kind = self.header.type_byte.standard();
        for _ in 0..self.read_map_head(&mut reader)? {
            let offset = reader.position();
            let key = read_field_key(&mut reader)?;
            match read_validated(&mut reader, self.encoding)? {
                RawValue::Nil => self.add_null(key),
                value => self.add(kind, key, value, offset)?,
            }
        }
        self.resolve_aliases();
        check_end(&reader)
    }

    /// Reads the head of the payload's map; returns the number of its entries.
    fn read_map_head<R: TokenReader<'a>>(&mut self, reader: &mut R) -> Result<usize, GrainError> {
        let PayloadToken::Map(count) = reader.token()? else {
            return Err(GrainError::new(ErrorCode::NotMap, "the payload must be a map").at(0));
        };
        let entries = reader.bytes().get(reader.position()..);
        self.entries = RawCollection::new(entries.unwrap_or_default(), count, self.encoding);
        Ok(count)
    }

    /// Adds an entry to the known or unknown fields. `offset` is that of its key.
    #[inline(always)]
    fn add(
        &mut self,
        kind: Option<GrainType>,
        key: KeyToken<'a>,
        value: RawValue<'a>,
        offset: usize,
    ) -> Result<(), GrainError> {
        let Some(field) = self.field_of(kind, key) else {
            self.unknown.push((key.text, value));
            return Ok(());
        };
        let position = &mut self.positions[field as usize];
        if *position != ABSENT {
            let message = format!(
                "two keys for the field `{}`; the second is `{}`",
                field.name(),
                key.text
            );
            return Err(GrainError::corrupt(offset, message).field(field.name()));
        }
        *position = self.known.len() as u8;
        self.marks
            .insert_if(Mark::IndexFields, field.access() == FieldAccess::Index);
        self.known.push((field, value));
        Ok(())
    }

    /// Keeps the key of a null entry, unless it is that of a field.
    fn add_null(&mut self, key: KeyToken<'a>) {
        if key.field.is_none() && Field::from_name(key.text).is_none() {
            self.null_keys.push(key.text);
        }
    }

    /// Returns the field that `key` names by its short key or full name, and marks a key that a
    /// writer of type `kind` would not have used.
    #[inline(always)]
    fn field_of(&mut self, kind: Option<GrainType>, key: KeyToken<'a>) -> Option<Field> {
        if let Some(field) = key.field {
            self.marks.insert_if(
                Mark::AliasedKey,
                field == Field::Content && key.text != field.short_key(kind),
            );
            return Some(field);
        }
        let field = Field::from_name(key.text)?;
        self.marks.insert(Mark::AliasedKey);
        Some(field)
    }

    /// Moves unknown entries whose key is an alias of a field that the grain lacks and may have to
    /// the known fields. The remaining unknown entries are custom fields of the author.
    fn resolve_aliases(&mut self) {
        let kind = self.header.type_byte.standard();
        let mut at = 0;
        while let Some((key, value)) = self.unknown.get(at).copied() {
            let field = field_of_alias(kind, key).filter(|field| {
                self.positions[*field as usize] == ABSENT && validate::permits(self, *field)
            });
            match field {
                Some(field) => {
                    self.unknown.remove(at);
                    self.marks.insert(Mark::AliasedKey);
                    self.positions[field as usize] = self.known.len() as u8;
                    self.known.push((field, value));
                }
                None => at += 1,
            }
        }
    }

    /// Adds to an error about a field the offset of the field's value, if it can be found. Reads
    /// the payload once more, so that successful decoding need not record offsets.
    fn with_field_offset(&self, error: GrainError, payload: &[u8]) -> GrainError {
        if error.offset.is_some() {
            return error;
        }
        let field = error
            .field
            .as_deref()
            .and_then(|path| Field::from_name(path.split(['[', '.']).next()?));
        let offset = field.and_then(|field| match self.encoding {
            Encoding::MessagePack => self.offset_of(field, MessagePackReader::new(payload)),
            Encoding::Cbor => self.offset_of(field, CborReader::new(payload)),
        });
        match offset {
            Some(offset) => error.at(offset),
            None => error,
        }
    }

    /// Returns the offset of the value of `field` in the payload of `reader`.
    fn offset_of<'p, R: TokenReader<'p>>(&self, field: Field, mut reader: R) -> Option<usize> {
        let kind = self.header.type_byte.standard();
        let PayloadToken::Map(count) = reader.token().ok()? else {
            return None;
        };

        for _ in 0..count {
            let key = read_key(&mut reader).ok()?;
            let offset = reader.position();
            let value = skip(&mut reader).ok()?;
            let is_custom = || self.unknown.iter().any(|(custom, _)| *custom == key);
            if value != PayloadToken::Nil && field_of_key(kind, key) == Some(field) && !is_custom()
            {
                return Some(offset);
            }
        }
        None
    }
}

/// Returns the field that `key` denotes in a grain of the type `kind`: by its short key, its name
/// or an alias.
fn field_of_key(kind: Option<GrainType>, key: &str) -> Option<Field> {
    Field::from_short_key(key)
        .or_else(|| Field::from_name(key))
        .or_else(|| field_of_alias(kind, key))
}

/// Checks that the payload, which is a single map, has ended.
fn check_end<'a, R: TokenReader<'a>>(reader: &R) -> Result<(), GrainError> {
    if reader.position() != reader.bytes().len() {
        return Err(GrainError::corrupt(
            reader.position(),
            "bytes follow the payload",
        ));
    }
    Ok(())
}
