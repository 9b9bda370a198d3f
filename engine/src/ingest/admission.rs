//! The units in which sources are admitted, and the outcome for each source.

use gristmill_connectors::ConnectorError;
use gristmill_connectors::source::Source;
use gristmill_schemas::columns::RejectRow;
use gristmill_schemas::error::GrainError;

use super::linked_sources::ReadSlot;
use super::morsel::AdmittedSource;
use super::refused_lines::RefusedLines;
use super::sources::SourceInfo;

/// The outcome of admitting a source.
pub(super) enum Admission {
    /// The source is ingested from its grain `first` on.
    Accepted {
        /// The source.
        source: Box<AdmittedSource>,
        /// Its lines that can't be read.
        refused: RefusedLines,
        /// The first grain that the lake doesn't contain.
        first: u64,
        /// Whether the source is read again.
        retry: RetryMode,
    },
    /// The lake already contains all of the source.
    AlreadyIngested(SourceInfo),
    /// No reader accepts the source, or it contains nothing of the kind that it was read as.
    Unsupported {
        /// The source.
        info: SourceInfo,
        /// The reason, for people.
        reason: String,
    },
    /// Reading failed (permissions, a missing object).
    Unreadable {
        /// The source.
        info: SourceInfo,
        /// The error of the system or store.
        cause: ConnectorError,
    },
    /// The source was rejected as a whole.
    Rejected {
        /// The source.
        info: SourceInfo,
        /// The row for `rejects`.
        reject: Box<RejectRow>,
        /// The reason.
        error: GrainError,
    },
}

impl Admission {
    /// Returns the URI of a source that a process which commits nothing leaves to the one that
    /// does: it may be readable there, and whether it is refused depends on the memory.
    pub(super) fn needs_client(&self) -> Option<&str> {
        match self {
            Admission::Unreadable { info, .. } | Admission::Rejected { info, .. } => {
                Some(&info.uri)
            }
            Admission::Accepted { .. }
            | Admission::AlreadyIngested(_)
            | Admission::Unsupported { .. } => None,
        }
    }
}

/// Whether a source is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryMode {
    /// The source is new to the lake, or is continued.
    No,
    /// The source was read before, as another kind or without a result. Rejects that don't occur
    /// again are removed from `rejects`.
    Restart,
    /// The lake has ingested the source as this kind, and keeps its entry in the ledger, so that a
    /// killed run doesn't make a complete source incomplete.
    KeepProgress,
}

/// A unit of admission: one linked source, or several sources hashed together.
pub(super) enum AdmissionUnit {
    /// A source that is read together with others, with its place among them.
    Linked(Source, Box<ReadSlot>),
    /// Independent sources.
    Unlinked(Vec<Source>),
}

/// Groups `sources` into units, in their order, with at most `per_unit` independent sources each.
pub(super) fn admission_units(
    sources: Vec<(Source, Option<ReadSlot>)>,
    per_unit: usize,
) -> Vec<AdmissionUnit> {
    let mut units = Vec::new();
    for (source, slot) in sources {
        match (slot, units.last_mut()) {
            (Some(slot), _) => units.push(AdmissionUnit::Linked(source, Box::new(slot))),
            (None, Some(AdmissionUnit::Unlinked(others))) if others.len() < per_unit => {
                others.push(source);
            }
            (None, _) => units.push(AdmissionUnit::Unlinked(vec![source])),
        }
    }
    units
}
