//! Anomalies that a reader accepts and reports.

use std::fmt;

/// An anomaly of a grain that does not make it unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mark {
    /// The bytes are not in canonical form; only a lenient reader accepts them.
    NotCanonical,
    /// The header's CBOR flag contradicts the payload's encoding.
    EncodingFlag,
    /// A known field is stored under its full name or under a nonstandard key.
    AliasedKey,
    /// The payload contains fields of the index layer (§5.6), which are not trusted and never
    /// applied.
    IndexFields,
    /// A field holds a value of the wrong kind. A value with only one possible interpretation (an
    /// integer as a double, a text as a list of one) still fills its column; any other leaves it
    /// null.
    FieldKind,
    /// The header's creation time differs from the payload's `created_at`.
    HeaderTime,
    /// The header's namespace bytes differ from the payload's namespace.
    HeaderNamespace,
    /// The header's flags for content or embedding references contradict the payload.
    ReferenceFlags,
    /// The action has a field that its phase omits (§27.1).
    PhaseFields,
    /// A value is outside a closed vocabulary of the specification: a registry (§25, §26), a kind
    /// of reference or citation (§7, §14.3, §27.5), or the values that a field lists (§6, §8).
    Vocabulary,
    /// The signed flag is set but the blob was delivered without an envelope.
    Unwrapped,
    /// A required field is missing or empty; only a lenient reader accepts this.
    Incomplete,
    /// A field that names a DID holds a text that isn't one (§12.2).
    Identifier,
    /// A field of a domain profile that the grain declares has a value of another kind, outside its
    /// range, or outside its list (Appendix A).
    ProfileFields,
}

impl Mark {
    const ALL: [Mark; 14] = [
        Mark::NotCanonical,
        Mark::EncodingFlag,
        Mark::AliasedKey,
        Mark::IndexFields,
        Mark::FieldKind,
        Mark::HeaderTime,
        Mark::HeaderNamespace,
        Mark::ReferenceFlags,
        Mark::PhaseFields,
        Mark::Vocabulary,
        Mark::Unwrapped,
        Mark::Incomplete,
        Mark::Identifier,
        Mark::ProfileFields,
    ];

    /// Returns the name used in the column `marks` and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Mark::NotCanonical => "not_canonical",
            Mark::EncodingFlag => "encoding_flag",
            Mark::AliasedKey => "foreign_key",
            Mark::IndexFields => "index_fields",
            Mark::FieldKind => "field_kind",
            Mark::HeaderTime => "header_time",
            Mark::HeaderNamespace => "header_namespace",
            Mark::ReferenceFlags => "reference_flags",
            Mark::PhaseFields => "phase_fields",
            Mark::Vocabulary => "vocabulary",
            Mark::Unwrapped => "unwrapped",
            Mark::Incomplete => "incomplete",
            Mark::Identifier => "identifier",
            Mark::ProfileFields => "profile_fields",
        }
    }
}

/// A set of [`Mark`]s.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Marks(u16);

impl Marks {
    /// Returns true if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the set contains `mark`.
    pub const fn contains(self, mark: Mark) -> bool {
        self.0 & 1 << mark as u8 != 0
    }

    /// Adds `mark`.
    pub fn insert(&mut self, mark: Mark) {
        self.0 |= 1 << mark as u8;
    }

    /// Adds `mark` if `condition` holds.
    pub(super) fn insert_if(&mut self, mark: Mark, condition: bool) {
        if condition {
            self.insert(mark);
        }
    }

    /// Returns the marks in a fixed order.
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
