//! What was wrong with a message's JSON, and where.

use std::fmt;

use crate::json::Json;

/// JSON that isn't what the format says, with the path of the fault from `$`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// Path steps, innermost first; each starts with `.` or `[`.
    steps: Vec<String>,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// A required field isn't there.
    Missing,
    /// A field is of the wrong kind.
    Kind {
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A block's type is none of the six.
    UnknownTag(String),
    /// A value isn't one of those that the field may have.
    UnknownValue(String),
    /// Text that isn't a moment, a decimal number and so on.
    Malformed(String),
}

impl DecodeError {
    pub(super) fn new(problem: Problem) -> Self {
        DecodeError {
            steps: Vec::new(),
            problem,
        }
    }

    pub(super) fn kind(expected: &'static str, found: &Json) -> Self {
        Self::new(Problem::Kind {
            expected,
            found: found.kind(),
        })
    }

    pub(super) fn inside(mut self, key: &str) -> Self {
        self.steps.push(format!(".{key}"));
        self
    }

    pub(super) fn at(mut self, index: usize) -> Self {
        self.steps.push(format!("[{index}]"));
        self
    }

    /// Where it is, as a path from `$`.
    pub fn path(&self) -> String {
        let steps = self.steps.iter().rev().map(String::as_str);
        std::iter::once("$").chain(steps).collect()
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.path())?;
        match &self.problem {
            Problem::Missing => formatter.write_str("missing"),
            Problem::Kind { expected, found } => {
                write!(formatter, "expected {expected}, got {found}")
            }
            Problem::UnknownTag(tag) => write!(formatter, "unknown type `{tag}`"),
            Problem::UnknownValue(value) => write!(formatter, "unknown value `{value}`"),
            Problem::Malformed(value) => write!(formatter, "malformed value `{value}`"),
        }
    }
}

impl std::error::Error for DecodeError {}
