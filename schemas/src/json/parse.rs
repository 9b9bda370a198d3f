//! The parser from text to [`Json`], based on `jiter`'s pull parser.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, Peek};

use super::object::KeyPositions;
use super::surrogates::replace_lone_surrogates;
use super::{Json, Number, Object};

/// The default limit on the nesting of arrays and objects.
pub const DEFAULT_DEPTH_LIMIT: usize = 128;

/// The default limit on the number of values and keys. A tree takes up to 110 bytes for each value,
/// so that two bytes of text (`0,`) may become fifty.
pub const DEFAULT_VALUE_LIMIT: usize = 4 << 20;

/// The number of members and items of which the parser keeps the memory for the next text.
const KEPT_ENTRIES: usize = 1 << 16;

/// The number of members from which keys are looked up by hash instead of by a linear scan.
pub(super) const HASH_INDEX_THRESHOLD: usize = 64;

/// A JSON syntax error with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at byte {offset} (line {line}, column {column})")]
pub struct JsonError {
    /// A description of the error.
    pub message: String,
    /// The offset in bytes from the start of the text.
    pub offset: usize,
    /// The line of the offset, from 1.
    pub line: usize,
    /// The column of the offset in bytes, from 1.
    pub column: usize,
    /// The kind of the error.
    pub kind: JsonErrorKind,
}

/// The kind of a [`JsonError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonErrorKind {
    /// The text is not UTF-8.
    Utf8,
    /// The text violates the grammar of JSON.
    Syntax,
    /// `NaN` or `Infinity` in place of a value, as some writers emit for numbers that are not
    /// finite.
    NotFinite,
    /// The nesting exceeds the limit.
    Depth,
    /// The text has more values and keys than the limit.
    Values,
    /// One half of a surrogate pair without the other (`\ud83d` alone), which is no character.
    Surrogate,
    /// A key is repeated in one object, and the parser is set to refuse that.
    RepeatedKey,
}

impl<'a> Json<'a> {
    /// Parses a JSON value that consists of all of `text`, with a nesting of at most
    /// [`DEFAULT_DEPTH_LIMIT`].
    ///
    /// A repeated key keeps its first position and its last value, as in most parsers.
    ///
    /// # Errors
    /// [`JsonError`] with the position, for text that isn't one JSON value in UTF-8 or is nested
    /// too deeply.
    pub fn parse(text: &'a [u8]) -> Result<Json<'a>, JsonError> {
        Self::parse_with_depth(text, DEFAULT_DEPTH_LIMIT)
    }

    /// As [`Json::parse`], but a repeated key is an error: a grain is a map of unique keys (§4.1).
    ///
    /// # Errors
    /// As [`Json::parse`]; and for a repeated key.
    pub fn parse_unique_keys(text: &'a [u8]) -> Result<Json<'a>, JsonError> {
        JsonParser::new().with_unique_keys().parse_bytes(text)
    }

    /// As [`Json::parse`], but one half of a surrogate pair without the other becomes U+FFFD.
    /// Programs write such halves that cut a text in the middle of an emoji.
    ///
    /// # Errors
    /// As [`Json::parse`].
    pub fn parse_lossy(text: &'a [u8]) -> Result<Json<'a>, JsonError> {
        JsonParser::new().with_lone_surrogates().parse_bytes(text)
    }

    /// As [`Json::parse`], with the given limit on nesting.
    ///
    /// # Errors
    /// As [`Json::parse`].
    pub fn parse_with_depth(text: &'a [u8], depth_limit: usize) -> Result<Json<'a>, JsonError> {
        JsonParser::new().with_depth(depth_limit).parse_bytes(text)
    }
}

impl JsonError {
    fn at(text: &[u8], offset: usize, kind: JsonErrorKind, message: String) -> JsonError {
        let place = Jiter::new(text).error_position(offset.min(text.len()));
        JsonError {
            message,
            offset,
            line: place.line,
            column: place.column,
            kind,
        }
    }
}

/// A parser for many texts that reuses its memory.
#[derive(Debug)]
pub struct JsonParser<'a> {
    depth_limit: usize,
    value_limit: usize,
    unique_keys: bool,
    lone_surrogates: bool,
    /// The number of values and keys of the last text.
    values: usize,
    /// The members of all incomplete objects and the items of all incomplete arrays, those of the
    /// innermost last.
    members: Vec<(Cow<'a, str>, Json<'a>)>,
    items: Vec<Json<'a>>,
}

impl<'a> Default for JsonParser<'a> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> JsonParser<'a> {
    /// Creates a parser with [`DEFAULT_DEPTH_LIMIT`].
    pub fn new() -> Self {
        JsonParser {
            depth_limit: DEFAULT_DEPTH_LIMIT,
            value_limit: DEFAULT_VALUE_LIMIT,
            unique_keys: false,
            lone_surrogates: false,
            values: 0,
            members: Vec::new(),
            items: Vec::new(),
        }
    }

    /// Sets the limit on nesting.
    pub fn with_depth(self, depth_limit: usize) -> Self {
        JsonParser {
            depth_limit,
            ..self
        }
    }

    /// Sets the limit on the number of values and keys.
    pub fn with_value_limit(self, value_limit: usize) -> Self {
        JsonParser {
            value_limit,
            ..self
        }
    }

    /// Replaces one half of a surrogate pair without the other by U+FFFD.
    pub fn with_lone_surrogates(self) -> Self {
        JsonParser {
            lone_surrogates: true,
            ..self
        }
    }

    /// Returns the number of values and keys of the text that was parsed last.
    pub fn values(&self) -> usize {
        self.values
    }

    /// Refuses objects with a repeated key.
    pub fn with_unique_keys(self) -> Self {
        JsonParser {
            unique_keys: true,
            ..self
        }
    }

    /// As [`Json::parse`].
    ///
    /// # Errors
    /// As [`Json::parse`]; and for a repeated key with [`JsonParser::with_unique_keys`].
    pub fn parse_bytes(&mut self, text: &'a [u8]) -> Result<Json<'a>, JsonError> {
        match simdutf8::compat::from_utf8(text) {
            Ok(text) => self.parse(text),
            Err(error) => {
                let message = "invalid UTF-8".to_owned();
                Err(JsonError::at(
                    text,
                    error.valid_up_to(),
                    JsonErrorKind::Utf8,
                    message,
                ))
            }
        }
    }

    /// As [`Json::parse`], for text that is known to be UTF-8.
    ///
    /// # Errors
    /// As [`JsonParser::parse_bytes`].
    pub fn parse(&mut self, text: &'a str) -> Result<Json<'a>, JsonError> {
        let parsed = self.parse_strictly(text);
        match parsed {
            Err(error) if self.lone_surrogates && error.kind == JsonErrorKind::Surrogate => {
                self.parse_repaired(text).unwrap_or(Err(error))
            }
            parsed => parsed,
        }
    }

    /// Parses a copy of `text` without lone surrogates; `None` if it has none.
    fn parse_repaired(&mut self, text: &str) -> Option<Result<Json<'a>, JsonError>> {
        let repaired = replace_lone_surrogates(text)?;
        let mut parser = JsonParser::new();
        parser.depth_limit = self.depth_limit;
        parser.value_limit = self.value_limit;
        parser.unique_keys = self.unique_keys;
        let parsed = parser.parse(&repaired).map(Json::into_owned);
        self.values = parser.values;
        Some(parsed)
    }

    fn parse_strictly(&mut self, text: &'a str) -> Result<Json<'a>, JsonError> {
        self.members.clear();
        self.items.clear();
        self.values = 0;
        let depth = self.depth_limit;
        let mut parser = TreeBuilder {
            text,
            jiter: Jiter::new(text.as_bytes()),
            stack: self,
        };
        let value = parser.any(depth).and_then(|value| {
            parser.jiter.finish()?;
            Ok(value)
        });
        let result = value.map_err(|fault| parser.error(fault));
        self.release_memory();
        result
    }

    /// Releases the memory that a large text needed.
    fn release_memory(&mut self) {
        if self.items.capacity() > KEPT_ENTRIES {
            self.items = Vec::new();
        }
        if self.members.capacity() > KEPT_ENTRIES {
            self.members = Vec::new();
        }
    }

    /// Takes the items from `start` on.
    fn take_items(&mut self, start: usize) -> Vec<Json<'a>> {
        match start {
            // Without a copy, which would double the memory of a long list.
            0 if self.items.len() > KEPT_ENTRIES => std::mem::take(&mut self.items),
            _ => self.items.drain(start..).collect(),
        }
    }
}

enum ParseFailure {
    Syntax(Box<JiterError>),
    NotFinite(usize),
    Depth,
    Values,
    RepeatedKey(String),
}

impl From<JiterError> for ParseFailure {
    fn from(error: JiterError) -> Self {
        ParseFailure::Syntax(Box::new(error))
    }
}

struct TreeBuilder<'p, 'a> {
    text: &'a str,
    jiter: Jiter<'a>,
    stack: &'p mut JsonParser<'a>,
}

impl<'a> TreeBuilder<'_, 'a> {
    fn any(&mut self, depth: usize) -> Result<Json<'a>, ParseFailure> {
        let peek = self.jiter.peek()?;
        self.value(peek, depth)
    }

    fn value(&mut self, peek: Peek, depth: usize) -> Result<Json<'a>, ParseFailure> {
        self.count_value()?;
        Ok(match peek {
            Peek::Null => {
                self.jiter.known_null()?;
                Json::Null
            }
            Peek::True | Peek::False => Json::Bool(self.jiter.known_bool(peek)?),
            Peek::String => {
                let decoded = self.jiter.known_str()?;
                Json::String(borrowed(self.text, decoded))
            }
            Peek::Array => {
                Json::Array(self.array(depth.checked_sub(1).ok_or(ParseFailure::Depth)?)?)
            }
            Peek::Object => {
                Json::Object(self.object(depth.checked_sub(1).ok_or(ParseFailure::Depth)?)?)
            }
            _ => {
                let (text, start) = (self.text, self.jiter.current_index());
                let digits = self
                    .jiter
                    .known_number_bytes(peek)
                    .map_err(|error| not_a_number(text, start, error))?;
                let end = start + digits.len();
                Json::Number(Number::from_checked(
                    text.get(start..end).unwrap_or_default(),
                ))
            }
        })
    }

    /// Counts a value or a key.
    fn count_value(&mut self) -> Result<(), ParseFailure> {
        self.stack.values += 1;
        match self.stack.values > self.stack.value_limit {
            true => Err(ParseFailure::Values),
            false => Ok(()),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Json<'a>>, ParseFailure> {
        let start = self.stack.items.len();
        let mut next = self.jiter.known_array()?;
        while let Some(peek) = next {
            let item = self.value(peek, depth)?;
            self.stack.items.push(item);
            next = self.jiter.array_step()?;
        }
        Ok(self.stack.take_items(start))
    }

    fn object(&mut self, depth: usize) -> Result<Object<'a>, ParseFailure> {
        let start = self.stack.members.len();
        let mut positions: Option<KeyPositions<'a>> = None;
        let text = self.text;
        let mut next = self.jiter.known_object()?.map(|key| borrowed(text, key));
        while let Some(key) = next {
            self.count_value()?;
            let value = self.any(depth)?;
            let members = self.stack.members.get_mut(start..).unwrap_or_default();
            // Most keys differ in length or first letter, which is cheaper to compare.
            let may_be_equal = |name: &str| {
                name.len() == key.len() && name.as_bytes().first() == key.as_bytes().first()
            };
            let member = if members.len() < HASH_INDEX_THRESHOLD {
                members
                    .iter_mut()
                    .find(|(name, _)| may_be_equal(name) && *name == key)
            } else {
                let count = members.len();
                positions
                    .get_or_insert_with(|| KeyPositions::of(members))
                    .get_or_insert(&key, count)
                    .and_then(|at| members.get_mut(at))
            };
            match member {
                Some(_) if self.stack.unique_keys => {
                    return Err(ParseFailure::RepeatedKey(key.into_owned()));
                }
                Some(member) => member.1 = value,
                None => self.stack.members.push((key, value)),
            }
            next = self.jiter.next_key()?.map(|key| borrowed(text, key));
        }
        Ok(Object::from_indexed_members(
            self.stack.members.drain(start..).collect(),
            positions,
        ))
    }

    fn error(&self, fault: ParseFailure) -> JsonError {
        let (kind, message, offset) = match fault {
            ParseFailure::Syntax(error) => (
                kind_of(&error.error_type),
                error.error_type.to_string(),
                error.index,
            ),
            ParseFailure::NotFinite(offset) => (
                JsonErrorKind::NotFinite,
                "a number is NaN or infinite, which JSON can't represent".to_owned(),
                offset,
            ),
            ParseFailure::Depth => (
                JsonErrorKind::Depth,
                "nested too deeply".to_owned(),
                self.jiter.current_index(),
            ),
            ParseFailure::Values => (
                JsonErrorKind::Values,
                format!("more than {} values and keys", self.stack.value_limit),
                self.jiter.current_index(),
            ),
            ParseFailure::RepeatedKey(key) => (
                JsonErrorKind::RepeatedKey,
                format!("the key `{key}` is repeated in one object"),
                self.jiter.current_index(),
            ),
        };
        JsonError::at(self.text.as_bytes(), offset, kind, message)
    }
}

/// Returns the kind of a syntax error. Half of a surrogate pair has two types of error.
fn kind_of(error: &JiterErrorType) -> JsonErrorKind {
    match error {
        JiterErrorType::JsonError(
            JsonErrorType::LoneLeadingSurrogateInHexEscape
            | JsonErrorType::UnexpectedEndOfHexEscape,
        ) => JsonErrorKind::Surrogate,
        _ => JsonErrorKind::Syntax,
    }
}

/// Returns the error for the invalid number at `start` of `text`.
fn not_a_number(text: &str, start: usize, error: JiterError) -> ParseFailure {
    let rest = text.get(start..).unwrap_or_default();
    let unsigned = rest.strip_prefix('-').unwrap_or(rest);
    if unsigned.starts_with("NaN") || unsigned.starts_with("Infinity") {
        ParseFailure::NotFinite(start)
    } else {
        error.into()
    }
}

/// Returns `decoded` as a slice of `text` if the decoder did not copy it, else a copy.
fn borrowed<'a>(text: &'a str, decoded: &str) -> Cow<'a, str> {
    let start = (decoded.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    match text.get(start..start.wrapping_add(decoded.len())) {
        _ if decoded.is_empty() => Cow::Borrowed(""),
        Some(slice) => Cow::Borrowed(slice),
        None => Cow::Owned(decoded.to_owned()),
    }
}
