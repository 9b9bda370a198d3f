//! The lines of a file, and the faults of lines that can't be read.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::json::{Json, JsonErrorKind, JsonParser};
use memchr::memchr;

/// Maximum length of a line, in bytes.
pub const LINE_LIMIT_BYTES: usize = 256 << 20;

/// A non-blank line of a file.
///
/// Entries of files without lines (rows of a database, items of an array) are numbered like lines
/// and have an empty range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The line number, counted from 1.
    pub number: u64,
    /// Its bytes in the file, without surrounding whitespace.
    pub range: Range<usize>,
}

/// The reason why a line can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFault {
    /// The line number, counted from 1.
    pub number: u64,
    /// Its bytes in the file.
    pub range: Range<usize>,
    /// The kind of fault.
    pub code: FaultCode,
    /// The description for the user. One that is the same for all lines takes no memory.
    pub message: Cow<'static, str>,
}

/// The kind of a [`LineFault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultCode {
    /// The line is not JSON.
    Json,
    /// The line is not UTF-8.
    Utf8,
    /// The line is longer than [`LINE_LIMIT_BYTES`], or has more values than a parser takes.
    TooLong,
    /// The line is JSON, but not of the kind of the file.
    Shape,
    /// The file is intact, but none of the forms that its reader supports.
    NotUnderstood,
    /// The content can't be encoded as a grain.
    Grain(ErrorCode),
}

impl FaultCode {
    /// Returns the stable code, as in reports and in `rejects`.
    pub fn name(self) -> &'static str {
        match self {
            FaultCode::Json => "ERR_JSON",
            FaultCode::Utf8 => "ERR_UTF8",
            FaultCode::TooLong => "ERR_LINE_TOO_LONG",
            FaultCode::Shape => "ERR_SHAPE",
            FaultCode::NotUnderstood => "ERR_NOT_UNDERSTOOD",
            FaultCode::Grain(code) => code.name(),
        }
    }
}

impl fmt::Display for LineFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.range.is_empty() {
            true => "entry",
            false => "line",
        };
        let (number, code) = (self.number, self.code.name());
        write!(formatter, "{place} {number}: {code}: {}", self.message)
    }
}

/// Returns the range of `line`, which begins at `start`, without the whitespace around it; `None`
/// if it is blank.
#[inline]
fn trimmed_range(line: &[u8], start: usize) -> Option<Range<usize>> {
    let trimmed = line.trim_ascii_end();
    let text = trimmed.trim_ascii_start();
    let start = start + trimmed.len() - text.len();
    (!text.is_empty()).then_some(start..start + text.len())
}

/// Returns the non-blank lines of `bytes`. A leading byte order mark is skipped.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = Line> {
    let start = if bytes.starts_with(b"\xef\xbb\xbf") {
        3
    } else {
        0
    };
    let mut next = Some(start);
    let mut number = 0;
    std::iter::from_fn(move || {
        loop {
            let start = next.filter(|start| *start < bytes.len())?;
            let rest = bytes.get(start..)?;
            let length = memchr(b'\n', rest).unwrap_or(rest.len());
            next = Some(start + length + 1);
            number += 1;
            let line = rest.get(..length).unwrap_or_default();
            if let Some(range) = trimmed_range(line, start) {
                return Some(Line { number, range });
            }
        }
    })
}

/// Returns a parser for lines of transcripts. Half of a surrogate pair, as programs write that cut
/// texts, becomes U+FFFD.
pub(crate) fn line_parser<'b>() -> JsonParser<'b> {
    JsonParser::new().with_lone_surrogates()
}

impl Line {
    /// Returns a fault of this line.
    pub fn fault(&self, code: FaultCode, message: impl Into<Cow<'static, str>>) -> LineFault {
        LineFault {
            number: self.number,
            range: self.range.clone(),
            code,
            message: message.into(),
        }
    }

    /// Returns the fault of a line whose content can't be encoded as a grain.
    pub(crate) fn grain_fault(&self, error: &GrainError) -> LineFault {
        self.fault(FaultCode::Grain(error.code), error.detail())
    }

    /// Parses the line as JSON.
    ///
    /// # Errors
    /// A [`LineFault`] with code [`FaultCode::Json`], [`FaultCode::Utf8`] or
    /// [`FaultCode::TooLong`], with the offset in the line where it is known.
    pub fn json<'b>(&self, bytes: &'b [u8]) -> Result<Json<'b>, LineFault> {
        self.json_with(&mut line_parser(), bytes)
    }

    /// Like [`Line::json`], with a parser that is reused for many lines.
    ///
    /// # Errors
    /// Those of [`Line::json`]. A repeated key is `ERR_CORRUPT` if the parser refuses it, as in the
    /// map that a grain is (§4.1).
    pub(crate) fn json_with<'b>(
        &self,
        parser: &mut JsonParser<'b>,
        bytes: &'b [u8],
    ) -> Result<Json<'b>, LineFault> {
        let text = bytes.get(self.range.clone()).unwrap_or_default();
        if text.len() > LINE_LIMIT_BYTES {
            return Err(self.fault(
                FaultCode::TooLong,
                format!("longer than {LINE_LIMIT_BYTES} bytes"),
            ));
        }
        parser.parse_bytes(text).map_err(|error| {
            let (code, what) = match error.kind {
                JsonErrorKind::Utf8 => (FaultCode::Utf8, "not UTF-8"),
                JsonErrorKind::Values => (FaultCode::TooLong, &*error.message),
                JsonErrorKind::RepeatedKey => {
                    (FaultCode::Grain(ErrorCode::Corrupt), &*error.message)
                }
                _ => (FaultCode::Json, &*error.message),
            };
            self.fault(code, format!("{what} at byte {}", error.offset))
        })
    }
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::json::DEFAULT_VALUE_LIMIT;

    use super::*;

    #[test]
    fn lines_have_their_numbers_and_ranges() {
        let bytes = b"\xef\xbb\xbf{}\r\n\n  [1]\nlast";
        let found: Vec<_> = lines(bytes)
            .map(|line| (line.number, &bytes[line.range]))
            .collect();
        assert_eq!(found, [(1, &b"{}"[..]), (3, b"[1]"), (4, b"last")]);
        assert_eq!(lines(b"").count() + lines(b"\n\n").count(), 0);
    }

    #[test]
    fn half_of_a_surrogate_pair_is_read_and_too_many_values_are_a_fault() {
        let many = format!("[{}0]", "0,".repeat(DEFAULT_VALUE_LIMIT));
        let text = format!("{{\"a\":\"x\\ud83d\"}}\n{many}\n");
        let mut found = lines(text.as_bytes()).map(|line| line.json(text.as_bytes()));
        let cut = found.next().unwrap().unwrap();
        assert_eq!(cut.get("a").and_then(Json::as_str), Some("x\u{fffd}"));
        let fault = found.next().unwrap().unwrap_err();
        let expected = "line 2: ERR_LINE_TOO_LONG: more than 4194304 values and keys at byte ";
        assert!(fault.to_string().starts_with(expected), "{fault}");
    }

    #[test]
    fn a_fault_has_a_line_a_code_and_an_offset() {
        let bytes = b"{\"a\":\n\"\xff\"\n";
        let faults: Vec<_> = lines(bytes)
            .map(|line| line.json(bytes).unwrap_err())
            .collect();
        let codes: Vec<_> = faults
            .iter()
            .map(|fault| (fault.number, fault.code.name()))
            .collect();
        assert_eq!(codes, [(1, "ERR_JSON"), (2, "ERR_UTF8")]);
        let shown: Vec<_> = faults.iter().map(LineFault::to_string).collect();
        assert_eq!(shown[1], "line 2: ERR_UTF8: not UTF-8 at byte 1");
        let place = shown[0].strip_prefix("line 1: ERR_JSON: EOF while parsing a value at byte ");
        assert!(
            place.is_some_and(|byte| byte.parse::<u8>().is_ok()),
            "{shown:?}"
        );
    }
}
