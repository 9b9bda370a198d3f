//! Errors of grains and containers, with the codes of the specification (§19).

use std::borrow::Cow;
use std::fmt;

/// The error codes of §19, plus [`ErrorCode::Unsupported`] for the custom field map of a container,
/// which the specification names without a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorCode {
    /// `ERR_TOO_SHORT`: a blob is shorter than ten bytes.
    TooShort,
    /// `ERR_VERSION`: the version byte is not 1.
    Version,
    /// `ERR_CORRUPT`: the bytes violate the format.
    Corrupt,
    /// `ERR_NOT_MAP`: the payload is not a map.
    NotMap,
    /// `ERR_NO_TYPE`: the `type` field is missing.
    NoType,
    /// `ERR_UNKNOWN_TYPE`: the type is unknown in this version, in a place that requires a known
    /// type.
    UnknownType,
    /// `ERR_SCHEMA`: a field is missing, forbidden or of the wrong type.
    Schema,
    /// `ERR_INTEGRITY`: a hash or a signature does not match.
    Integrity,
    /// `ERR_HASH_FORMAT`: a content address contains a character other than a lowercase hex digit.
    HashFormat,
    /// `ERR_HASH_LENGTH`: a content address is not 64 digits long.
    HashLength,
    /// `ERR_RANGE`: a number is out of its range.
    Range,
    /// `ERR_EMPTY`: a required string or list is empty.
    Empty,
    /// `ERR_FLOAT_INVALID`: a number is NaN or infinite.
    FloatInvalid,
    /// `ERR_SIGNED_MISMATCH`: the signed flag and the presence of a signature envelope disagree.
    SignedMismatch,
    /// `ERR_SENSITIVITY_MISMATCH`: the sensitivity bits of the header are below the class that the
    /// tags require.
    SensitivityMismatch,
    /// `ERR_INVALIDATION_DENIED`: the policy of a grain forbids superseding, contradicting or
    /// deleting it, or a delegation doesn't permit a grain that is derived from it.
    InvalidationDenied,
    /// `ERR_EVIDENCE_REQUIRED`: a protected goal was satisfied without the required evidence.
    EvidenceRequired,
    /// `ERR_UNSUPPORTED` (not in §19): the specification names a part but defines no layout for it.
    Unsupported,
}

impl ErrorCode {
    /// All codes.
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

    /// Returns the name in the specification, such as `ERR_CORRUPT`.
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

    /// Returns the code with the given name, or `None` if there is none.
    pub fn from_name(name: &str) -> Option<ErrorCode> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// An error in a grain or a container: its code, the field and the byte offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrainError {
    /// The error code of the specification.
    pub code: ErrorCode,
    /// The full name of the affected field, with the path inside it (`related_to[2].hash`).
    pub field: Option<Cow<'static, str>>,
    /// The offset of the error in bytes from the start of the blob or file.
    pub offset: Option<u64>,
    /// A description of what was found and what was expected.
    pub message: Cow<'static, str>,
}

impl GrainError {
    /// Creates an error without field and offset.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        GrainError {
            code,
            field: None,
            offset: None,
            message: message.into(),
        }
    }

    /// Creates an [`ErrorCode::Corrupt`] error at `offset`.
    pub fn corrupt(offset: usize, message: impl Into<Cow<'static, str>>) -> Self {
        GrainError::new(ErrorCode::Corrupt, message).at(offset)
    }

    /// Sets the field.
    pub fn field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Sets the offset.
    pub fn at(mut self, offset: usize) -> Self {
        self.offset = Some(offset as u64);
        self
    }

    /// Returns the message and the field, without code and offset: for callers that wrote fields
    /// rather than bytes.
    pub fn summary(&self) -> String {
        match &self.field {
            Some(field) => format!("{} (field `{field}`)", self.message),
            None => self.message.to_string(),
        }
    }

    /// Returns the message, the field and the offset, without the code.
    pub fn detail(&self) -> String {
        match self.offset {
            Some(offset) => format!("{} at byte {offset}", self.summary()),
            None => self.summary(),
        }
    }

    /// Adds `base` to the offset, which turns the offset within a part into one within the whole.
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
