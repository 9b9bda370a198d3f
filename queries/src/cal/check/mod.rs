//! The rules of CAL that go beyond its grammar, as functions over parts of the syntax tree.
//!
//! The parser and the JSON reader call each check right after they have read the part, so that both
//! report the same codes from left to right. Binding calls the checks again with the values of
//! parameters.
//!
//! | module | what it checks |
//! |---|---|
//! | [`field`] | which field does a name refer to? |
//! | [`condition`] | are operator and value valid for the field? |
//! | [`pipeline`] | may a stage follow the ones before it? |
//! | [`recall`] | may the shortcuts of a RECALL be combined? |
//! | [`assemble`] | are sources, labels and budget valid? |
//! | [`evolve`] | may ADD and SUPERSEDE set this field? |
//! | [`bindings`] | is every reference to a LET valid? |

pub(crate) mod assemble;
pub(crate) mod bindings;
pub(crate) mod condition;
pub(crate) mod evolve;
pub(crate) mod field;
pub(crate) mod pipeline;
pub(crate) mod recall;

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::Options;
use super::ast::{BatchEntry, Parameter, Recall};
use super::error::{CalError, Code, Result, Warning, WarningCode};
use super::keywords::{is_excluded, is_identifier};
use super::lexer::excluded_word;
use super::limits;
use super::number::Number;
use super::span::Span;
use super::text::{check_bidi, normalise};
use super::vocabulary::StreamEvent;

/// State of the checks of one query.
pub(crate) struct Checker {
    /// The options of parsing.
    pub options: Options,
    /// The warnings so far.
    pub warnings: Vec<Warning>,
    parameters: BTreeSet<String>,
}

impl Checker {
    /// Returns the state at the start of a query.
    pub fn new(options: Options) -> Checker {
        Checker {
            options,
            warnings: Vec::new(),
            parameters: BTreeSet::new(),
        }
    }

    /// Adds a warning.
    pub fn warn(&mut self, code: WarningCode, message: String, span: Span) {
        self.warnings.push(Warning {
            code,
            message,
            span: Some(span),
        });
    }

    /// Counts a parameter.
    ///
    /// # Errors
    /// E002 for an invalid name and for one parameter too many.
    pub fn parameter(&mut self, name: &str, span: Span) -> Result<Parameter> {
        if !is_identifier(name) {
            return Err(CalError::new(
                Code::E002,
                format!("\"{name}\" can't be the name of a parameter."),
            )
            .at(span));
        }
        if !self.parameters.contains(name) {
            self.parameters.insert(name.to_owned());
        }
        if self.parameters.len() > limits::MAX_PARAMETERS {
            let message = format!(
                "A query takes at most {} parameters.",
                limits::MAX_PARAMETERS
            );
            return Err(CalError::new(Code::E002, message)
                .at(span)
                .suggest("Pass lists as IN values instead."));
        }
        Ok(Parameter {
            name: name.to_owned(),
            span,
        })
    }
}

/// Checks the name of a context, a template or a label.
///
/// # Errors
/// E002 for excluded words, for anything but an identifier, and for names over the limit.
pub(crate) fn name(text: &str, span: Span) -> Result<String> {
    if is_excluded(text) {
        return Err(excluded_word(text, span));
    }
    if !is_identifier(text) {
        return Err(
            CalError::new(Code::E002, format!("{text:?} is not a name."))
                .at(span)
                .suggest("Write a letter, then letters, digits and underscores, without quotes."),
        );
    }
    if text.len() > limits::MAX_NAME_CHARACTERS {
        let message = format!(
            "A name has at most {} characters.",
            limits::MAX_NAME_CHARACTERS
        );
        return Err(CalError::new(Code::E002, message)
            .at(span)
            .suggest("Use a shorter name."));
    }
    Ok(text.to_owned())
}

/// Checks and normalises a text that doesn't come from the lexer.
///
/// # Errors
/// E071.
pub(crate) fn text(text: &str) -> Result<String> {
    check_bidi(text)?;
    Ok(normalise(Cow::Borrowed(text)).into_owned())
}

/// Checks the length of a REASON.
///
/// # Errors
/// E016.
pub(crate) fn reason(text: &str, span: Span) -> Result<()> {
    let characters = text.chars().count();
    if characters > limits::MAX_REASON_CHARACTERS {
        return Err(CalError::new(
            Code::E016,
            format!("The REASON has {characters} characters."),
        )
        .at(span));
    }
    Ok(())
}

/// Checks the length of a FOR text.
///
/// # Errors
/// E002.
pub(crate) fn intent(text: &str, span: Span) -> Result<()> {
    if text.chars().count() > limits::MAX_INTENT_CHARACTERS {
        let message = format!(
            "A FOR text has at most {} characters.",
            limits::MAX_INTENT_CHARACTERS
        );
        return Err(CalError::new(Code::E002, message)
            .at(span)
            .suggest("Say it shorter."));
    }
    Ok(())
}

/// Checks an integer from 1. Numbers out of range saturate.
///
/// # Errors
/// E006.
pub(crate) fn positive(number: &Number, span: Span) -> Result<u64> {
    match saturated(number) {
        Some(count) if count > 0 => Ok(count),
        _ => Err(CalError::new(
            Code::E006,
            format!("{} is not a whole number from 1.", shown(number)),
        )
        .at(span)),
    }
}

/// Checks the number of OFFSET: an integer from 0. Numbers out of range saturate.
///
/// # Errors
/// E006.
pub(crate) fn offset(number: &Number, span: Span) -> Result<u64> {
    saturated(number).ok_or_else(|| {
        CalError::new(
            Code::E006,
            format!("{} is not a whole number from 0.", shown(number)),
        )
        .at(span)
    })
}

/// Returns an integer from 0, at most `u64::MAX`; `None` for other numbers.
fn saturated(number: &Number) -> Option<u64> {
    let too_large = number.is_integer() && !number.as_str().starts_with('-');
    number.as_u64().or(too_large.then_some(u64::MAX))
}

/// Checks the number of LIMIT or RECENT.
///
/// # Errors
/// E010.
pub(crate) fn limit(count: u64, what: &str, span: Span) -> Result<u32> {
    match u32::try_from(count)
        .ok()
        .filter(|count| *count <= limits::MAX_LIMIT)
    {
        Some(count) => Ok(count),
        None => Err(CalError::new(
            Code::E010,
            format!("{what} exceeds {} grains.", limits::MAX_LIMIT),
        )
        .at(span)),
    }
}

/// Checks the size of a chunk, in tokens.
///
/// # Errors
/// E006 for a fraction, E078 for a number out of range.
pub(crate) fn chunk_size(number: &Number, span: Span) -> Result<u32> {
    if !number.is_integer() {
        return Err(CalError::new(
            Code::E006,
            format!("{} is not a whole number.", shown(number)),
        )
        .at(span));
    }
    match number
        .as_i64()
        .and_then(|size| u32::try_from(size).ok())
        .filter(|size| limits::CHUNK_TOKENS.contains(size))
    {
        Some(size) => Ok(size),
        None => Err(CalError::new(
            Code::E078,
            format!("A chunk can't have {} tokens.", shown(number)),
        )
        .at(span)),
    }
}

/// Returns the error for an unknown option of STREAM.
pub(crate) fn stream_option(word: &str, span: Span) -> CalError {
    let shown: String = word.chars().take(64).collect();
    let options = StreamEvent::NAMES.iter().copied().chain(["chunk_size"]);
    CalError::new(Code::E077, format!("STREAM has no option \"{shown}\"."))
        .at(span)
        .valid_values(options)
}

/// Checks that a BATCH may have one more entry with this label.
///
/// # Errors
/// E002 for one too many and for a label that is used twice.
pub(crate) fn batch_entry(before: &[BatchEntry], label: &str, span: Span) -> Result<()> {
    let message = if before.len() >= limits::MAX_BATCH_ENTRIES {
        format!(
            "A BATCH holds at most {} queries.",
            limits::MAX_BATCH_ENTRIES
        )
    } else if before.iter().any(|entry| entry.label == label) {
        format!("Two queries are labelled \"{label}\".")
    } else {
        return Ok(());
    };
    Err(CalError::new(Code::E002, message)
        .at(span)
        .suggest("Give every query its own label, and split large batches."))
}

/// Checks the number of branches of a COALESCE.
///
/// # Errors
/// E039.
pub(crate) fn coalesce_branches(count: usize, span: Span) -> Result<()> {
    if count > limits::MAX_COALESCE_BRANCHES {
        return Err(CalError::new(
            Code::E039,
            format!(
                "COALESCE has more than {} branches.",
                limits::MAX_COALESCE_BRANCHES
            ),
        )
        .at(span));
    }
    Ok(())
}

/// Checks that a RECALL inside a set operation yields grains.
///
/// # Errors
/// E021.
pub(crate) fn operand_shape(recall: &Recall) -> Result<()> {
    if pipeline::result_shape(&recall.stages).is_of_grains() {
        return Ok(());
    }
    Err(CalError::new(
        Code::E021,
        "Set operations combine grains, not counts, values or groups.",
    )
    .at(recall.span)
    .suggest("Leave COUNT, GROUP BY, SUBJECTS, OBJECTS and HASHES out of the operands."))
}

/// Returns the error for a statement that a set operation can't combine.
pub(crate) fn not_an_operand(statement: &str, span: Span) -> CalError {
    CalError::new(
        Code::E021,
        format!("{statement} can't be combined by set operations."),
    )
    .at(span)
    .suggest("Combine RECALLs and other set operations.")
}

/// A number in messages.
fn shown(number: &Number) -> String {
    number.as_str().chars().take(32).collect()
}
