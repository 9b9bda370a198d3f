//! Errors of decoding a message, with their JSON path.

use std::fmt;

use crate::json::Json;

/// An error in the JSON of a message, with its path from `$`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// The path segments, innermost first; each starts with `.` or `[`.
    steps: Vec<String>,
    /// The problem.
    pub problem: DecodeProblem,
}

/// A problem with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeProblem {
    /// A required field is missing.
    Missing,
    /// A field has the wrong type.
    Kind {
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        found: &'static str,
    },
    /// The type of a block is unknown.
    UnknownTag(String),
    /// The value is not in the set of permitted values.
    UnknownValue(String),
    /// The text is malformed (a timestamp, a decimal number and so on).
    Malformed(String),
}

impl DecodeError {
    pub(super) fn new(problem: DecodeProblem) -> Self {
        DecodeError {
            steps: Vec::new(),
            problem,
        }
    }

    pub(super) fn kind(expected: &'static str, found: &Json) -> Self {
        Self::new(DecodeProblem::Kind {
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

    /// Returns the path of the error from `$`.
    pub fn path(&self) -> String {
        let steps = self.steps.iter().rev().map(String::as_str);
        std::iter::once("$").chain(steps).collect()
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.path())?;
        match &self.problem {
            DecodeProblem::Missing => formatter.write_str("missing"),
            DecodeProblem::Kind { expected, found } => {
                write!(formatter, "expected {expected}, got {found}")
            }
            DecodeProblem::UnknownTag(tag) => write!(formatter, "unknown type `{tag}`"),
            DecodeProblem::UnknownValue(value) => write!(formatter, "unknown value `{value}`"),
            DecodeProblem::Malformed(value) => write!(formatter, "malformed value `{value}`"),
        }
    }
}

impl std::error::Error for DecodeError {}
