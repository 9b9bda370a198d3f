//! Lines of a file, and what can be wrong with one.

use std::fmt;
use std::ops::Range;

use gristmill_schemas::error::GrainError;
use gristmill_schemas::json::{Json, JsonErrorKind, JsonParser};
use memchr::memchr;

/// The longest line that is read, in bytes.
pub const LINE_LIMIT_BYTES: usize = 256 << 20;

/// A line that isn't blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Which line of the file it is, counted from 1.
    pub number: u64,
    /// Its bytes in the file, without the line's end.
    pub range: Range<usize>,
}

/// Why a line can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFault {
    /// The line, counted from 1.
    pub number: u64,
    /// Its bytes in the file.
    pub range: Range<usize>,
    /// What kind of fault it is.
    pub code: FaultCode,
    /// What is wrong, for people.
    pub message: String,
}

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultCode {
    /// It isn't JSON.
    Json,
    /// It isn't UTF-8.
    Utf8,
    /// It is longer than [`LINE_LIMIT_BYTES`].
    TooLong,
    /// It is JSON, but not of the kind that the file holds.
    Shape,
    /// The file as a whole is of no form that its reader knows, so that nothing of it is damaged.
    NotUnderstood,
    /// No grain can hold what it says.
    Grain(gristmill_schemas::error::ErrorCode),
}

impl FaultCode {
    /// The code as it stands in reports and in `rejects`.
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
        write!(
            formatter,
            "line {}: {}: {}",
            self.number,
            self.code.name(),
            self.message
        )
    }
}

/// The lines of `bytes` that aren't blank.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = Line> {
    let start = if bytes.starts_with(b"\xef\xbb\xbf") {
        3
    } else {
        0
    };
    let mut at = Some(start);
    let mut number = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at.filter(|start| *start < bytes.len())?;
            let rest = bytes.get(start..)?;
            let length = memchr(b'\n', rest).unwrap_or(rest.len());
            at = Some(start + length + 1);
            number += 1;
            let line = rest.get(..length).unwrap_or_default();
            let trimmed = line.trim_ascii();
            if !trimmed.is_empty() {
                let start = start
                    + line
                        .iter()
                        .take_while(|byte| byte.is_ascii_whitespace())
                        .count();
                return Some(Line {
                    number,
                    range: start..start + trimmed.len(),
                });
            }
        }
    })
}

impl Line {
    /// The fault of this line.
    pub fn fault(&self, code: FaultCode, message: impl Into<String>) -> LineFault {
        LineFault {
            number: self.number,
            range: self.range.clone(),
            code,
            message: message.into(),
        }
    }

    /// The fault that no grain can hold what the line says.
    pub fn grain_fault(&self, error: &GrainError) -> LineFault {
        self.fault(FaultCode::Grain(error.code), error.detail())
    }

    /// The line's JSON.
    ///
    /// # Errors
    /// A [`LineFault`] with its code and, where it is known, the byte of the line.
    pub fn json<'b>(&self, bytes: &'b [u8]) -> Result<Json<'b>, LineFault> {
        self.json_by(&mut JsonParser::new(), bytes)
    }

    /// [`Line::json`] by a parser that reads many lines.
    ///
    /// # Errors
    /// As there.
    pub fn json_by<'b>(
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
        parser.parse_bytes(text).map_err(|error| match error.kind {
            JsonErrorKind::Utf8 => self.fault(
                FaultCode::Utf8,
                format!("not UTF-8 at byte {}", error.offset),
            ),
            _ => self.fault(FaultCode::Json, error.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers_and_places() {
        let bytes = b"\xef\xbb\xbf{}\r\n\n  [1]\nlast";
        let found: Vec<_> = lines(bytes)
            .map(|line| (line.number, &bytes[line.range]))
            .collect();
        assert_eq!(found, [(1, &b"{}"[..]), (3, b"[1]"), (4, b"last")]);
        assert_eq!(lines(b"").count() + lines(b"\n\n").count(), 0);
    }

    #[test]
    fn every_fault_has_a_code_and_a_place() {
        let bytes = b"{\"a\":\n\"\xff\"\n";
        let faults: Vec<_> = lines(bytes)
            .map(|line| line.json(bytes).unwrap_err())
            .collect();
        let told: Vec<_> = faults
            .iter()
            .map(|fault| (fault.number, fault.code.name()))
            .collect();
        assert_eq!(told, [(1, "ERR_JSON"), (2, "ERR_UTF8")]);
        assert!(
            faults[1]
                .to_string()
                .starts_with("line 2: ERR_UTF8: not UTF-8 at byte 1")
        );
    }
}
