//! From a payload to a grain: one walk that finds every field where it lies.
//!
//! The walk allocates nothing per value; a [`Grain`] can be used again for the next blob so that
//! its lists aren't allocated again either. Schema rules (§8) are checked in `rules`, called from
//! here.

use super::alias::field_of_alias;
use super::cbor::CborReader;
use super::fields::{Access, Field};
use super::header::{HEADER_LENGTH, Header, namespace_hash};
use super::marks::{Mark, Marks};
use super::msgpack::MessagePackReader;
use super::payload::{Encoding, Payload};
use super::raw::{RawValue, read_again, read_raw};
use super::rules::{self, Rigor};
use super::token::{
    Deviation, FieldKey, KeyOrder, NIL_IN_MAP, Reader, Token, read_field_key, read_key, skip,
};
use super::types::GrainType;
use crate::error::{ErrorCode, GrainError};

/// How much a reader accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Only the one canonical form of each grain.
    #[default]
    Strict,
    /// Whatever can be read without doubt; what isn't canonical is marked.
    Lenient,
}

/// A grain that was decoded and checked: its header and its fields where they lie in the payload.
#[derive(Debug, Clone)]
pub struct Grain<'a> {
    header: Header,
    encoding: Encoding,
    encrypted: bool,
    known: Vec<(Field, RawValue<'a>)>,
    unknown: Vec<(&'a str, RawValue<'a>)>,
    /// For each field its place in `known`, [`ABSENT`] if it isn't there.
    places: [u8; Field::COUNT],
    marks: Marks,
    /// The namespace that was hashed last, here or in a grain before: neighbours often share
    /// theirs.
    hashed: Option<(&'a str, [u8; 2])>,
}

/// Room for fields that is made at once: most grains have no more.
const USUAL_FIELDS: usize = 16;

const ABSENT: u8 = u8::MAX;
const _: () = assert!(Field::COUNT < ABSENT as usize);

impl<'a> Grain<'a> {
    /// Decodes and checks `payload`. An encrypted payload gives a grain without fields.
    ///
    /// # Errors
    /// The codes of §19 that concern a blob, with the field and the byte (from the start of the
    /// blob; for a compressed one, of the blob as if its payload weren't).
    pub fn decode(payload: &'a Payload<'_>, mode: Mode) -> Result<Grain<'a>, GrainError> {
        let mut grain = Grain::blank(*payload.header());
        grain.redecode(payload, mode)?;
        Ok(grain)
    }

    /// [`Grain::decode`] into a grain that isn't needed any more, so that its memory is used again.
    /// After an error the grain holds part of the new fields and must not be read.
    pub fn redecode(&mut self, payload: &'a Payload<'_>, mode: Mode) -> Result<(), GrainError> {
        let rigor = if mode == Mode::Lenient {
            Rigor::Lenient
        } else {
            Rigor::Read
        };
        self.decode_with(payload, mode, rigor)
    }

    /// [`Grain::redecode`] by the rules for writers where `rigor` says so.
    pub(super) fn decode_with(
        &mut self,
        payload: &'a Payload<'_>,
        mode: Mode,
        rigor: Rigor,
    ) -> Result<(), GrainError> {
        self.clear(*payload.header());
        let Some((bytes, encoding)) = payload.clear() else {
            self.encrypted = true;
            return Ok(());
        };
        self.encoding = encoding;
        let deviation = match encoding {
            Encoding::MessagePack => self.read(MessagePackReader::new(bytes)),
            Encoding::Cbor => self.read(CborReader::new(bytes)),
        }
        .map_err(|error| error.shifted(HEADER_LENGTH))?;
        if let Some(Deviation { offset, what }) = deviation {
            if mode == Mode::Strict {
                return Err(GrainError::corrupt(HEADER_LENGTH + offset, what));
            }
            self.marks.insert(Mark::NotCanonical);
        }
        self.marks.note(
            Mark::EncodingFlag,
            self.header.flags.cbor() != (encoding == Encoding::Cbor),
        );
        rules::check(self, rigor).map_err(|error| self.locate(error, bytes).shifted(HEADER_LENGTH))
    }

    /// [`Grain::decode`] of a payload that was decoded and checked before, with the marks that were
    /// made then: finds the fields and judges nothing again.
    ///
    /// # Errors
    /// None that the same bytes can cause.
    pub fn decode_again(payload: &'a Payload<'_>, marks: Marks) -> Result<Grain<'a>, GrainError> {
        let mut grain = Grain::blank(*payload.header());
        grain.redecode_again(payload, marks)?;
        Ok(grain)
    }

    /// [`Grain::decode_again`] into a grain that isn't needed any more, as [`Grain::redecode`]
    /// does.
    pub fn redecode_again(
        &mut self,
        payload: &'a Payload<'_>,
        marks: Marks,
    ) -> Result<(), GrainError> {
        self.clear(*payload.header());
        match payload.clear() {
            None => self.encrypted = true,
            Some((bytes, encoding)) => {
                self.encoding = encoding;
                match encoding {
                    Encoding::MessagePack => self.read_again(MessagePackReader::again(bytes, 0)),
                    Encoding::Cbor => self.read_again(CborReader::again(bytes, 0)),
                }
                .map_err(|error| error.shifted(HEADER_LENGTH))?;
            }
        }
        self.marks = marks;
        Ok(())
    }

    fn read_again<R: Reader<'a>>(&mut self, mut reader: R) -> Result<(), GrainError> {
        let of = self.header.type_byte.standard();
        for _ in 0..entries(&mut reader)? {
            let offset = reader.position();
            let key = read_field_key(&mut reader)?;
            match read_again(&mut reader, self.encoding)? {
                RawValue::Nil => {}
                value => self.add(of, key, value, offset)?,
            }
        }
        self.name_foreign_keys();
        at_end(&reader)
    }

    /// A grain without fields.
    pub(super) fn blank(header: Header) -> Grain<'a> {
        Grain {
            header,
            encoding: Encoding::default(),
            encrypted: false,
            known: Vec::with_capacity(USUAL_FIELDS),
            unknown: Vec::new(),
            places: [ABSENT; Field::COUNT],
            marks: Marks::default(),
            hashed: None,
        }
    }

    fn clear(&mut self, header: Header) {
        self.header = header;
        self.encrypted = false;
        self.known.clear();
        self.unknown.clear();
        self.places = [ABSENT; Field::COUNT];
        self.marks = Marks::default();
    }

    fn read<R: Reader<'a>>(&mut self, mut reader: R) -> Result<Option<Deviation>, GrainError> {
        let count = entries(&mut reader)?;
        let of = self.header.type_byte.standard();
        let start = reader.position();
        let mut order = KeyOrder::new();
        for _ in 0..count {
            let offset = reader.position();
            let key = read_field_key(&mut reader)?;
            order.next(&mut reader, key.text, offset)?;
            let value_offset = reader.position();
            match read_raw(&mut reader, self.encoding, 1)? {
                RawValue::Nil => reader.deviates(value_offset, NIL_IN_MAP),
                value => self.add(of, key, value, offset)?,
            }
        }
        self.name_foreign_keys();
        order.finish(&reader, start, count)?;
        at_end(&reader)?;
        Ok(reader.deviation().take())
    }

    #[inline(always)]
    fn add(
        &mut self,
        of: Option<GrainType>,
        FieldKey {
            text: key,
            field: named,
        }: FieldKey<'a>,
        value: RawValue<'a>,
        offset: usize,
    ) -> Result<(), GrainError> {
        let field = match named {
            Some(field) => {
                self.marks.note(
                    Mark::ForeignKey,
                    field == Field::Content && key != field.short_key(of),
                );
                field
            }
            None => match Field::from_name(key) {
                Some(field) => {
                    self.marks.insert(Mark::ForeignKey);
                    field
                }
                None => {
                    self.unknown.push((key, value));
                    return Ok(());
                }
            },
        };
        let place = &mut self.places[field as usize];
        if *place != ABSENT {
            let message = format!(
                "two keys stand for `{}`, the second is `{key}`",
                field.name()
            );
            return Err(GrainError::corrupt(offset, message).field(field.name()));
        }
        *place = self.known.len() as u8;
        self.marks
            .note(Mark::IndexFields, field.access() == Access::Index);
        self.known.push((field, value));
        Ok(())
    }

    /// Takes unknown keys that other writers use for a field as that field, unless the grain has
    /// it; what then is left is the author's own.
    fn name_foreign_keys(&mut self) {
        let of = self.header.type_byte.standard();
        let mut at = 0;
        while let Some((key, value)) = self.unknown.get(at).copied() {
            match field_of_alias(of, key).filter(|field| self.places[*field as usize] == ABSENT) {
                Some(field) => {
                    self.unknown.remove(at);
                    self.marks.insert(Mark::ForeignKey);
                    self.places[field as usize] = self.known.len() as u8;
                    self.known.push((field, value));
                }
                None => at += 1,
            }
        }
    }

    /// Adds to an error about a field the byte where the field's value lies, where that can be
    /// told. Goes through the payload once more, so that the good case needn't remember.
    fn locate(&self, error: GrainError, payload: &[u8]) -> GrainError {
        let field = error
            .field
            .as_deref()
            .and_then(|path| Field::from_name(path.split(['[', '.']).next()?));
        let place =
            field
                .filter(|_| error.offset.is_none())
                .and_then(|field| match self.encoding {
                    Encoding::MessagePack => self.place_of(field, MessagePackReader::new(payload)),
                    Encoding::Cbor => self.place_of(field, CborReader::new(payload)),
                });
        match place {
            Some(offset) => error.at(offset),
            None => error,
        }
    }

    fn place_of<'p, R: Reader<'p>>(&self, field: Field, mut reader: R) -> Option<usize> {
        let of = self.header.type_byte.standard();
        let Token::Map(count) = reader.token().ok()? else {
            return None;
        };
        let stands_for = |key: &str| {
            Field::from_short_key(key)
                .or_else(|| Field::from_name(key))
                .or_else(|| field_of_alias(of, key))
        };
        for _ in 0..count {
            let key = read_key(&mut reader).ok()?;
            let offset = reader.position();
            let value = skip(&mut reader).ok()?;
            let is_own = || self.unknown.iter().any(|(own, _)| *own == key);
            if value != Token::Nil && stands_for(key) == Some(field) && !is_own() {
                return Some(offset);
            }
        }
        None
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How the payload is really encoded, whatever the header says.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// True if the payload is encrypted, so that no field can be seen.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// The standard type, if the header's type byte is of one.
    pub fn grain_type(&self) -> Option<GrainType> {
        self.header.type_byte.standard()
    }

    /// The type's name: that of version 1.3 for a standard byte, else the payload's own word, else
    /// what [`TypeByte`](super::TypeByte) shows.
    pub fn type_name(&self) -> std::borrow::Cow<'a, str> {
        if let Some(kind) = self.grain_type() {
            return kind.name().into();
        }
        let own = self.get(Field::Type).and_then(|value| value.as_text());
        own.map_or_else(|| self.header.type_byte.to_string().into(), Into::into)
    }

    /// The value of `field`, if the grain has it.
    pub fn get(&self, field: Field) -> Option<RawValue<'a>> {
        self.known
            .get(usize::from(self.places[field as usize]))
            .map(|(_, value)| *value)
    }

    /// The text of `field`, if the grain has it as a string.
    pub fn text(&self, field: Field) -> Option<&'a str> {
        self.get(field).and_then(|value| value.as_text())
    }

    /// The grain's tags (§13): the texts of `structural_tags`, which may be a list or the one text
    /// that some writers keep instead of a list of one. Whatever depends on a tag asks this
    /// function.
    pub fn tags(&self) -> impl Iterator<Item = &'a str> {
        let value = self.get(Field::StructuralTags);
        let alone = value.and_then(|value| value.as_text());
        let listed = value
            .and_then(|value| value.as_array())
            .into_iter()
            .flatten();
        alone
            .into_iter()
            .chain(listed.filter_map(|tag| tag.as_text()))
    }

    /// The fields that the specification names, in the order of the payload's keys; those under
    /// another writer's key last.
    pub fn known(&self) -> &[(Field, RawValue<'a>)] {
        &self.known
    }

    /// The entries whose keys the specification doesn't name, in the order of the payload.
    pub fn unknown(&self) -> &[(&'a str, RawValue<'a>)] {
        &self.unknown
    }

    /// What the header's two bytes for the namespace should be.
    pub(super) fn namespace_hash(&mut self) -> [u8; 2] {
        let namespace = self.text(Field::Namespace);
        match (namespace, self.hashed) {
            (Some(namespace), Some((hashed, hash))) if namespace == hashed => hash,
            _ => {
                let hash = namespace_hash(namespace);
                self.hashed = namespace.map(|namespace| (namespace, hash));
                hash
            }
        }
    }

    /// What is odd about the grain.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    pub(super) fn marks_mut(&mut self) -> &mut Marks {
        &mut self.marks
    }

    /// True if `field` was hidden by selective disclosure (§10): it counts as present where it is
    /// required. What a receiver must see can't be hidden, whatever the grain claims.
    pub fn is_elided(&self, field: Field) -> bool {
        field.access() == Access::Open
            && self
                .get(Field::Elided)
                .is_some_and(|elided| elided.get(field.name()).is_some())
    }
}

/// A payload is one map and nothing else.
fn at_end<'a, R: Reader<'a>>(reader: &R) -> Result<(), GrainError> {
    if reader.position() != reader.bytes().len() {
        return Err(GrainError::corrupt(
            reader.position(),
            "bytes follow the payload",
        ));
    }
    Ok(())
}

/// How many entries the map has that a payload is.
fn entries<'a, R: Reader<'a>>(reader: &mut R) -> Result<usize, GrainError> {
    match reader.token()? {
        Token::Map(count) => Ok(count),
        _ => Err(GrainError::new(ErrorCode::NotMap, "the payload must be a map").at(0)),
    }
}
