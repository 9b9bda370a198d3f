//! What can be wrong with a grain or a container, in the words of the specification (§19).

use std::borrow::Cow;
use std::fmt;

/// The error codes of §19, and [`ErrorCode::Unsupported`] for the one part of a container that has
/// no layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorCode {
    /// `ERR_TOO_SHORT`: a blob shorter than ten bytes.
    TooShort,
    /// `ERR_VERSION`: a version byte other than 1.
    Version,
    /// `ERR_CORRUPT`: bytes that aren't what the format allows.
    Corrupt,
    /// `ERR_NOT_MAP`: a payload that isn't a map.
    NotMap,
    /// `ERR_NO_TYPE`: no `type` field.
    NoType,
    /// `ERR_UNKNOWN_TYPE`: a type that this version doesn't know, where it must be known.
    UnknownType,
    /// `ERR_SCHEMA`: a field missing, forbidden or of the wrong type.
    Schema,
    /// `ERR_INTEGRITY`: a hash or a signature that doesn't match.
    Integrity,
    /// `ERR_HASH_FORMAT`: a content address with something else than lowercase hex digits.
    HashFormat,
    /// `ERR_HASH_LENGTH`: a content address that isn't 64 digits long.
    HashLength,
    /// `ERR_RANGE`: a number out of its range.
    Range,
    /// `ERR_EMPTY`: a required string or list without content.
    Empty,
    /// `ERR_FLOAT_INVALID`: NaN or an infinity.
    FloatInvalid,
    /// `ERR_SIGNED_MISMATCH`: the signed flag and the signature's wrapper disagree.
    SignedMismatch,
    /// `ERR_SENSITIVITY_MISMATCH`: header bits lower than the tags demand.
    SensitivityMismatch,
    /// `ERR_INVALIDATION_DENIED`: the policy of a grain forbids to supersede, contradict or delete
    /// it.
    InvalidationDenied,
    /// `ERR_EVIDENCE_REQUIRED`: a protected goal was satisfied without the evidence that it asks
    /// for.
    EvidenceRequired,
    /// `ERR_UNSUPPORTED` (ours): a part that the specification names but gives no layout for.
    Unsupported,
}

impl ErrorCode {
    /// Every code, for look-ups by name.
    pub const ALL: [ErrorCode; 18] = [
        ErrorCode::TooShort,
        ErrorCode::Version,
        ErrorCode::Corrupt,
        ErrorCode::NotMap,
        ErrorCode::NoType,
        ErrorCode::UnknownType,
        ErrorCode::Schema,
        ErrorCode::Integrity,
        ErrorCode::HashFormat,
        ErrorCode::HashLength,
        ErrorCode::Range,
        ErrorCode::Empty,
        ErrorCode::FloatInvalid,
        ErrorCode::SignedMismatch,
        ErrorCode::SensitivityMismatch,
        ErrorCode::InvalidationDenied,
        ErrorCode::EvidenceRequired,
        ErrorCode::Unsupported,
    ];

    /// The code as the specification spells it.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorCode::TooShort => "ERR_TOO_SHORT",
            ErrorCode::Version => "ERR_VERSION",
            ErrorCode::Corrupt => "ERR_CORRUPT",
            ErrorCode::NotMap => "ERR_NOT_MAP",
            ErrorCode::NoType => "ERR_NO_TYPE",
            ErrorCode::UnknownType => "ERR_UNKNOWN_TYPE",
            ErrorCode::Schema => "ERR_SCHEMA",
            ErrorCode::Integrity => "ERR_INTEGRITY",
            ErrorCode::HashFormat => "ERR_HASH_FORMAT",
            ErrorCode::HashLength => "ERR_HASH_LENGTH",
            ErrorCode::Range => "ERR_RANGE",
            ErrorCode::Empty => "ERR_EMPTY",
            ErrorCode::FloatInvalid => "ERR_FLOAT_INVALID",
            ErrorCode::SignedMismatch => "ERR_SIGNED_MISMATCH",
            ErrorCode::SensitivityMismatch => "ERR_SENSITIVITY_MISMATCH",
            ErrorCode::InvalidationDenied => "ERR_INVALIDATION_DENIED",
            ErrorCode::EvidenceRequired => "ERR_EVIDENCE_REQUIRED",
            ErrorCode::Unsupported => "ERR_UNSUPPORTED",
        }
    }

    /// The code of that name.
    pub fn from_name(name: &str) -> Option<ErrorCode> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// One thing wrong with a grain or a container: the code, what it is about, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrainError {
    /// The specification's code.
    pub code: ErrorCode,
    /// The field that caused it, by its full name, with the path inside it (`related_to[2].hash`).
    pub field: Option<Cow<'static, str>>,
    /// The byte that caused it, counted from the start of the blob or file.
    pub offset: Option<u64>,
    /// What was found and what was expected.
    pub message: Cow<'static, str>,
}

impl GrainError {
    /// An error with neither field nor offset yet.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        GrainError {
            code,
            field: None,
            offset: None,
            message: message.into(),
        }
    }

    /// [`ErrorCode::Corrupt`] at `offset`.
    pub fn corrupt(offset: usize, message: impl Into<Cow<'static, str>>) -> Self {
        GrainError::new(ErrorCode::Corrupt, message).at(offset)
    }

    /// The same error about `field`.
    pub fn field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same error at `offset`.
    pub fn at(mut self, offset: usize) -> Self {
        self.offset = Some(offset as u64);
        self
    }

    /// What is wrong and in which field, without code and byte: for those who wrote the fields and
    /// not the bytes.
    pub fn told(&self) -> String {
        match &self.field {
            Some(field) => format!("{} (field `{field}`)", self.message),
            None => self.message.to_string(),
        }
    }

    /// What is wrong, in which field and at which byte, without the code.
    pub fn detail(&self) -> String {
        match self.offset {
            Some(offset) => format!("{} at byte {offset}", self.told()),
            None => self.told(),
        }
    }

    /// The same error `base` bytes further on: an error inside a part becomes one of the whole.
    pub fn shifted(mut self, base: usize) -> Self {
        self.offset = self.offset.map(|offset| offset + base as u64);
        self
    }
}

impl fmt::Display for GrainError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.detail())
    }
}

impl std::error::Error for GrainError {}
