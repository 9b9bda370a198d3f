//! What a reader accepted but must tell: oddities of a grain that don't make it unreadable.

use std::fmt;

/// One oddity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mark {
    /// The bytes aren't in canonical form; only a lenient reader accepts them.
    NotCanonical,
    /// The header's CBOR flag says something else than the payload's bytes.
    EncodingFlag,
    /// A known field stands under its full name or under another writer's key.
    ForeignKey,
    /// The payload holds fields of the index layer (§5.6): untrusted, never applied.
    IndexFields,
    /// A field holds another kind of value than its kind. One that can be read in one way only has
    /// its column all the same (an integer as a double, a text as a list of one), any other has
    /// none.
    FieldKind,
    /// The header's creation second differs from the payload's `created_at`.
    HeaderTime,
    /// The header's namespace bytes differ from the payload's namespace.
    HeaderNamespace,
    /// The header's flags for content or embedding references differ from the payload.
    ReferenceFlags,
    /// A field stands where the phase of the action omits it (§27.1).
    PhaseFields,
    /// A value outside a closed vocabulary of the specification.
    Vocabulary,
    /// The signed flag is set but no wrapper came with the blob.
    Unwrapped,
    /// A required field is missing or empty; only a lenient reader accepts that.
    Incomplete,
}

impl Mark {
    const ALL: [Mark; 12] = [
        Mark::NotCanonical,
        Mark::EncodingFlag,
        Mark::ForeignKey,
        Mark::IndexFields,
        Mark::FieldKind,
        Mark::HeaderTime,
        Mark::HeaderNamespace,
        Mark::ReferenceFlags,
        Mark::PhaseFields,
        Mark::Vocabulary,
        Mark::Unwrapped,
        Mark::Incomplete,
    ];

    /// The mark's name in the column `marks` and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Mark::NotCanonical => "not_canonical",
            Mark::EncodingFlag => "encoding_flag",
            Mark::ForeignKey => "foreign_key",
            Mark::IndexFields => "index_fields",
            Mark::FieldKind => "field_kind",
            Mark::HeaderTime => "header_time",
            Mark::HeaderNamespace => "header_namespace",
            Mark::ReferenceFlags => "reference_flags",
            Mark::PhaseFields => "phase_fields",
            Mark::Vocabulary => "vocabulary",
            Mark::Unwrapped => "unwrapped",
            Mark::Incomplete => "incomplete",
        }
    }
}

/// A set of marks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Marks(u16);

impl Marks {
    /// True if there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if `mark` is among them.
    pub const fn contains(self, mark: Mark) -> bool {
        self.0 & 1 << mark as u8 != 0
    }

    /// Adds `mark`.
    pub fn insert(&mut self, mark: Mark) {
        self.0 |= 1 << mark as u8;
    }

    /// Adds `mark` if `odd`.
    pub(super) fn note(&mut self, mark: Mark, odd: bool) {
        if odd {
            self.insert(mark);
        }
    }

    /// The marks in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Mark> {
        Mark::ALL
            .into_iter()
            .filter(move |mark| self.contains(*mark))
    }
}

impl fmt::Debug for Marks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_set()
            .entries(self.iter().map(Mark::name))
            .finish()
    }
}
