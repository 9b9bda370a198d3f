//! What MessagePack and CBOR have in common: tokens, text checks, and the walk over nested values.
//!
//! Both readers give the same [`Token`]s, so that depth, key order, repeated keys and nulls are
//! judged in one place. A reader keeps the first place where bytes are readable but not in the one
//! canonical form ([`Deviation`]); a strict caller refuses such a grain, a lenient one marks it.
//! What must not be read at all is an error at once.
//!
//! Nothing here allocates by a declared length, and nothing recurses deeper than [`DEPTH_LIMIT`].
//!
//! What lies on the road of every field is inlined by force, here and in `raw`, `msgpack` and
//! `decode`: an error takes 72 bytes, so that each call that may give one hands its result over
//! through memory, which costs more than reading the token.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::fields::Field;
use crate::error::{ErrorCode, GrainError};
use crate::normal_form::{is_normalized, normalized};

/// How deep a payload may nest, its own map included: the extended profile's limit (§4.10).
pub const DEPTH_LIMIT: usize = 32;

/// The smallest part of a payload: a scalar, or the head of an array or map with the number of its
/// items or entries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'a> {
    Nil,
    Bool(bool),
    /// Any integer up to `i64::MAX`.
    Int(i64),
    /// An integer above `i64::MAX`.
    BigInt(u64),
    Float(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Array(usize),
    Map(usize),
}

impl Token<'_> {
    /// How many values follow that belong to this one.
    pub(super) fn children(self) -> usize {
        match self {
            Token::Array(count) => count,
            Token::Map(count) => count.saturating_mul(2),
            _ => 0,
        }
    }
}

/// The first place where bytes can be read but aren't in canonical form (§4), and how they deviate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deviation {
    /// Bytes from the start of the payload.
    pub offset: usize,
    /// What isn't canonical about them.
    pub what: &'static str,
}

/// A cursor over an encoded payload.
pub(super) trait Reader<'a> {
    /// Where the next token begins, in bytes from the start of the payload.
    fn position(&self) -> usize;

    /// All bytes of the payload.
    fn bytes(&self) -> &'a [u8];

    /// A cursor over the same payload that stands at `position`.
    fn fork(&self, position: usize) -> Self;

    /// Reads one token.
    fn token(&mut self) -> Result<Token<'a>, GrainError>;

    /// The heads of texts so short that the head's lower five bits are their length.
    const SHORT_TEXT: RangeInclusive<u8>;

    /// Goes on at `position`.
    fn move_to(&mut self, position: usize);

    /// Reads the key that comes next if it is the short key of a field in its usual form. Such a
    /// key needs no look at its text. Before any other the reader stays where it is.
    #[inline]
    fn short_key(&mut self) -> Option<(&'static str, Field)> {
        let (text, end) = self.short_text()?;
        let found = Field::from_key_bytes(text)?;
        self.move_to(end);
        Some(found)
    }

    /// The bytes of the short text that comes next, and where it ends; the reader stays where it
    /// is.
    #[inline]
    fn short_text(&self) -> Option<(&'a [u8], usize)> {
        let start = self.position();
        let (head, rest) = self.bytes().get(start..)?.split_first()?;
        let length = usize::from(head & 0x1f);
        let text = Self::SHORT_TEXT
            .contains(head)
            .then(|| rest.get(..length))??;
        Some((text, start + 1 + length))
    }

    /// False if the payload was walked before, so that nothing has to be judged again.
    fn judges(&self) -> bool;

    /// Passes over one token of a payload that was walked before; answers how many values follow
    /// that belong to it.
    fn pass(&mut self) -> Result<usize, GrainError> {
        Ok(self.token()?.children())
    }

    /// The order that canonical maps have their keys in.
    fn key_order(left: &str, right: &str) -> Ordering;

    /// Where the payload first deviates from canonical form, so far.
    fn deviation(&mut self) -> &mut Option<Deviation>;

    /// Takes down a deviation, if it is the first.
    fn deviates(&mut self, offset: usize, what: &'static str) {
        self.deviation().get_or_insert(Deviation { offset, what });
    }

    /// Checks raw text: UTF-8, no byte-order mark in front, NFC.
    fn text(&mut self, bytes: &'a [u8], offset: usize) -> Result<&'a str, GrainError> {
        let text = simdutf8::basic::from_utf8(bytes)
            .map_err(|_| GrainError::corrupt(offset, "a string isn't UTF-8"))?;
        if !self.judges() {
            return Ok(text);
        }
        if text.starts_with('\u{feff}') {
            return Err(GrainError::corrupt(
                offset,
                "a string begins with a byte-order mark",
            ));
        }
        if !is_normalized(text) {
            self.deviates(offset, "a string isn't in Unicode normalization form C");
        }
        Ok(text)
    }
}

/// An item count or length that the rest of the payload can't hold is a lie; each item takes at
/// least one byte.
pub(super) fn check_count(
    count: u64,
    remaining: usize,
    offset: usize,
) -> Result<usize, GrainError> {
    match usize::try_from(count) {
        Ok(count) if count <= remaining => Ok(count),
        _ => Err(GrainError::corrupt(
            offset,
            format!("declares {count} bytes or items, {remaining} bytes are left"),
        )),
    }
}

/// The key of an entry of a grain's own map.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldKey<'a> {
    pub(super) text: &'a str,
    /// The field that has it as its short key.
    pub(super) field: Option<Field>,
}

/// Reads the key of a grain's field.
#[inline(always)]
pub(super) fn read_field_key<'a, R: Reader<'a>>(
    reader: &mut R,
) -> Result<FieldKey<'a>, GrainError> {
    if let Some((text, field)) = reader.short_key() {
        return Ok(FieldKey {
            text,
            field: Some(field),
        });
    }
    let text = read_key(reader)?;
    Ok(FieldKey {
        text,
        field: Field::from_short_key(text),
    })
}

/// Reads the key of a map entry.
pub(super) fn read_key<'a, R: Reader<'a>>(reader: &mut R) -> Result<&'a str, GrainError> {
    let offset = reader.position();
    match reader.token()? {
        Token::Text(key) => Ok(key),
        _ => Err(GrainError::corrupt(offset, "a map key isn't a string")),
    }
}

/// Judges the order and uniqueness of one map's keys as they come by.
pub(super) struct KeyOrder<'a> {
    previous: Option<&'a str>,
    disordered: bool,
}

impl<'a> KeyOrder<'a> {
    pub(super) fn new() -> Self {
        KeyOrder {
            previous: None,
            disordered: false,
        }
    }

    /// Takes the next key, read at `offset`.
    pub(super) fn next<R: Reader<'a>>(
        &mut self,
        reader: &mut R,
        key: &'a str,
        offset: usize,
    ) -> Result<(), GrainError> {
        match self
            .previous
            .map_or(Ordering::Less, |previous| R::key_order(previous, key))
        {
            Ordering::Less => {}
            Ordering::Equal => return Err(repeated(key, offset)),
            Ordering::Greater => {
                self.disordered = true;
                reader.deviates(offset, "map keys aren't in canonical order");
            }
        }
        self.previous = Some(key);
        Ok(())
    }

    /// At the end of a map of `count` entries whose first begins at `start`: keys in order can't
    /// repeat unseen, others are gone through once more.
    pub(super) fn finish<R: Reader<'a>>(
        self,
        reader: &R,
        start: usize,
        count: usize,
    ) -> Result<(), GrainError> {
        if !self.disordered {
            return Ok(());
        }
        let mut seen = HashSet::new();
        let mut again = reader.fork(start);
        for _ in 0..count {
            let offset = again.position();
            let key = read_key(&mut again)?;
            if !seen.insert(key) {
                return Err(repeated(key, offset));
            }
            skip(&mut again)?;
        }
        Ok(())
    }
}

fn repeated(key: &str, offset: usize) -> GrainError {
    GrainError::corrupt(offset, format!("the key `{key}` stands twice in one map"))
}

/// Passes over one value, judging nothing but that it is there.
pub(super) fn skip<'a, R: Reader<'a>>(reader: &mut R) -> Result<Token<'a>, GrainError> {
    let first = reader.token()?;
    let mut left = first.children();
    while left > 0 {
        left = (left - 1).saturating_add(reader.token()?.children());
    }
    Ok(first)
}

/// Passes over `count` values that were walked before, without looking at their texts again.
pub(super) fn pass_over<'a, R: Reader<'a>>(reader: &mut R, count: usize) -> Result<(), GrainError> {
    let mut left = count;
    while left > 0 {
        left = (left - 1).saturating_add(reader.pass()?);
    }
    Ok(())
}

/// Walks and checks the items of an array of `count` items.
pub(super) fn walk_array<'a, R: Reader<'a>>(
    reader: &mut R,
    count: usize,
    depth: usize,
) -> Result<(), GrainError> {
    for _ in 0..count {
        walk(reader, depth)?;
    }
    Ok(())
}

/// Walks and checks the entries of a map of `count` entries.
pub(super) fn walk_map<'a, R: Reader<'a>>(
    reader: &mut R,
    count: usize,
    depth: usize,
) -> Result<(), GrainError> {
    let start = reader.position();
    let mut order = KeyOrder::new();
    for _ in 0..count {
        let offset = reader.position();
        let key = read_key(reader)?;
        order.next(reader, key, offset)?;
        let offset = reader.position();
        if walk(reader, depth)? == Token::Nil {
            reader.deviates(offset, NIL_IN_MAP);
        }
    }
    order.finish(reader, start, count)
}

/// The deviation of a map entry that should have been omitted (§4.5).
pub(super) const NIL_IN_MAP: &str = "a map holds a null, which must be omitted";

/// Walks and checks one value inside a container at `depth`; answers its first token.
fn walk<'a, R: Reader<'a>>(reader: &mut R, depth: usize) -> Result<Token<'a>, GrainError> {
    let offset = reader.position();
    let token = reader.token()?;
    match token {
        Token::Array(count) => walk_array(reader, count, deeper(depth, offset)?)?,
        Token::Map(count) => walk_map(reader, count, deeper(depth, offset)?)?,
        _ => {}
    }
    Ok(token)
}

/// One level further down.
pub(super) fn deeper(depth: usize, offset: usize) -> Result<usize, GrainError> {
    if depth >= DEPTH_LIMIT {
        return Err(GrainError::corrupt(
            offset,
            format!("nested deeper than {DEPTH_LIMIT} levels"),
        ));
    }
    Ok(depth + 1)
}

/// A double that may stand in a grain: neither NaN nor infinite (§4.3).
pub(super) fn finite(value: f64, offset: usize) -> Result<f64, GrainError> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(GrainError::new(ErrorCode::FloatInvalid, "a number is NaN or infinite").at(offset))
}

/// `text` in normalization form C, borrowed where it is so already.
///
/// # Errors
/// [`ErrorCode::Corrupt`] if it begins with a byte-order mark.
pub(super) fn normalize(text: &str) -> Result<std::borrow::Cow<'_, str>, GrainError> {
    if text.starts_with('\u{feff}') {
        return Err(GrainError::new(
            ErrorCode::Corrupt,
            "a string begins with a byte-order mark",
        ));
    }
    Ok(normalized(text))
}
