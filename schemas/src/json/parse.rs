//! The parser from text to [`Json`], based on `jiter`'s pull parser.

use std::borrow::Cow;

use jiter::{Jiter, JiterError, Peek};

use super::object::KeyPositions;
use super::{Json, Number, Object};

/// The default limit on the nesting of arrays and objects.
pub const DEFAULT_DEPTH_LIMIT: usize = 128;

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
    unique_keys: bool,
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
            unique_keys: false,
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
        self.members.clear();
        self.items.clear();
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
        value.map_err(|fault| parser.error(fault))
    }
}

enum ParseFailure {
    Syntax(Box<JiterError>),
    NotFinite(usize),
    Depth,
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

    fn array(&mut self, depth: usize) -> Result<Vec<Json<'a>>, ParseFailure> {
        let start = self.stack.items.len();
        let mut next = self.jiter.known_array()?;
        while let Some(peek) = next {
            let item = self.value(peek, depth)?;
            self.stack.items.push(item);
            next = self.jiter.array_step()?;
        }
        Ok(self.stack.items.drain(start..).collect())
    }

    fn object(&mut self, depth: usize) -> Result<Object<'a>, ParseFailure> {
        let start = self.stack.members.len();
        let mut positions: Option<KeyPositions<'a>> = None;
        let text = self.text;
        let mut next = self.jiter.known_object()?.map(|key| borrowed(text, key));
        while let Some(key) = next {
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
                JsonErrorKind::Syntax,
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
            ParseFailure::RepeatedKey(key) => (
                JsonErrorKind::RepeatedKey,
                format!("the key `{key}` is repeated in one object"),
                self.jiter.current_index(),
            ),
        };
        JsonError::at(self.text.as_bytes(), offset, kind, message)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Json<'_>, JsonError> {
        Json::parse(text.as_bytes())
    }

    #[test]
    fn strings_without_escapes_are_borrowed() {
        let Json::Array(items) = parse(r#"["plain", "a\u00e9b", ""]"#).unwrap() else {
            panic!()
        };
        assert!(matches!(&items[0], Json::String(Cow::Borrowed("plain"))));
        assert!(matches!(&items[1], Json::String(Cow::Owned(text)) if text == "aéb"));
        assert_eq!(items[2].as_str(), Some(""));
    }

    #[test]
    fn a_repeated_key_keeps_its_first_position_and_last_value() {
        for filler in [0, HASH_INDEX_THRESHOLD] {
            let mut text = String::from(r#"{"a":1,"b":2"#);
            (0..filler).for_each(|n| text.push_str(&format!(r#","k{n}":0"#)));
            text.push_str(r#","a":3}"#);
            let value = parse(&text).unwrap();
            assert_eq!(value.as_object().unwrap().len(), filler + 2);
            assert_eq!(value.get("a").and_then(Json::as_i64), Some(3));
            assert_eq!(value.as_object().unwrap().keys().next(), Some("a"));
            let refused = Json::parse_unique_keys(text.as_bytes()).unwrap_err();
            assert_eq!(refused.kind, JsonErrorKind::RepeatedKey);
            let message = "the key `a` is repeated in one object at byte ";
            assert!(refused.to_string().starts_with(message), "{refused}");
        }
        let inner = parse(r#"{"a":[{"b":1}],"b":{"a":2}}"#).unwrap().to_string();
        assert!(Json::parse_unique_keys(inner.as_bytes()).is_ok());
    }

    #[test]
    fn repeated_keys_of_a_large_object_are_found_in_constant_time() {
        // By linear look-ups this takes minutes.
        const KEYS: usize = 200_000;
        let mut text = String::from("{");
        (0..KEYS).for_each(|n| text.push_str(&format!(r#""k{n}":0,"#)));
        (1..=KEYS).for_each(|n| text.push_str(&format!(r#""k{}":{n},"#, KEYS - 1)));
        text.pop();
        text.push('}');
        let value = parse(&text).unwrap();
        assert_eq!(value.as_object().unwrap().len(), KEYS);
        for n in 0..KEYS {
            let expected = if n + 1 == KEYS { KEYS as i64 } else { 0 };
            let found = value.get(&format!("k{n}")).and_then(Json::as_i64);
            assert_eq!(found, Some(expected));
        }
    }

    #[test]
    fn errors_have_a_position() {
        let error = parse("{\"a\": 1,\n \"b\": nope}").unwrap_err();
        assert_eq!((error.line, error.offset > 9), (2, true), "{error}");
        for text in [
            "",
            "[1,]",
            "{\"a\" 1}",
            "[1] 2",
            "\"\u{1}\"",
            "01",
            "[",
            "\"\\ud800\"",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        let error = Json::parse(b"[\"\xc3\xa9\",\n\"\xff\"]").unwrap_err();
        assert_eq!(
            (error.kind, error.offset, error.line),
            (JsonErrorKind::Utf8, 8, 2)
        );
    }

    #[test]
    fn nan_and_infinity_are_distinguished_from_other_errors() {
        for (text, offset) in [
            ("NaN", 0),
            ("{\"a\": -Infinity}", 6),
            ("[1, Infinity]", 4),
            ("[NaN]", 1),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(
                (error.kind, error.offset),
                (JsonErrorKind::NotFinite, offset),
                "{text}"
            );
        }
        for text in ["Nan", "[-]", "-Inf", "nan", "\"NaN"] {
            assert_eq!(
                parse(text).unwrap_err().kind,
                JsonErrorKind::Syntax,
                "{text}"
            );
        }
    }

    #[test]
    fn the_limit_on_nesting_is_exact() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Json::parse_with_depth(nested(8).as_bytes(), 8).is_ok());
        assert!(Json::parse_with_depth(nested(9).as_bytes(), 8).is_err());
        assert!(parse(&nested(1_000_000)).is_err());
    }
}
