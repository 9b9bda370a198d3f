//! Warnings about parts of a body that aren't understood.

use std::fmt;

/// Reports a part of a body that isn't understood or is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadWarning {
    /// The number of the unit in the body; `None` for the envelope.
    pub message: Option<usize>,
    /// The cause.
    pub kind: ReadWarningKind,
}

/// The cause of a [`ReadWarning`]. The part is kept, except for [`Self::BlockLeftOut`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadWarningKind {
    /// The type of a block that none of the six kinds can hold.
    UnknownBlock(String),
    /// The type of a block that isn't accepted at its position.
    BlockLeftOut(String),
    /// A role other than the four canonical ones.
    UnknownRole(String),
    /// The wire id of a call whose arguments aren't a JSON object.
    ArgumentsNotAnObject(String),
    /// Token counts that contradict each other.
    InconsistentUsage {
        /// Tokens of the whole prompt.
        prompt: u64,
        /// Tokens read from a cache.
        cached: u64,
        /// Tokens written to a cache.
        written: u64,
    },
    /// A tool result without a call in the conversation.
    OrphanResult,
}

impl fmt::Display for ReadWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(message) = self.message {
            write!(formatter, "message {message}: ")?;
        }
        match &self.kind {
            ReadWarningKind::UnknownBlock(tag) => {
                write!(formatter, "block of unknown type `{tag}` is kept unchanged")
            }
            ReadWarningKind::BlockLeftOut(tag) => {
                write!(
                    formatter,
                    "block of type `{tag}` isn't supported here and is left out"
                )
            }
            ReadWarningKind::UnknownRole(role) => {
                write!(
                    formatter,
                    "message of unknown role `{role}` is kept unchanged"
                )
            }
            ReadWarningKind::ArgumentsNotAnObject(id) => {
                write!(
                    formatter,
                    "arguments of call `{id}` are not a JSON object; they are kept unchanged"
                )
            }
            ReadWarningKind::InconsistentUsage {
                prompt,
                cached,
                written,
            } => write!(
                formatter,
                "inconsistent usage: the prompt has {prompt} tokens, {cached} read from and \
                 {written} written to a cache"
            ),
            ReadWarningKind::OrphanResult => {
                formatter.write_str("tool result without a preceding call")
            }
        }
    }
}
