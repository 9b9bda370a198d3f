//! The times of messages that have none of their own: that of their file, or the one that their
//! lines had when the lake read them first.

use gristmill_connectors::source::{Source, SourceBytes};
use gristmill_connectors::transcript::options::{KnownPrefix, ReadOptions};
use gristmill_schemas::message::Timestamp;

use crate::lake::{FilePlace, FilePrefix, Ledger};

/// The times of a file.
#[derive(Debug, Clone)]
pub(super) struct FileTimes {
    /// `None` for a stream.
    place: Option<FilePlace>,
    /// That of the file, or of its bytes if the lake has read them.
    own: Timestamp,
    /// What the lake has read of it, in that order.
    known: Vec<KnownPrefix>,
}

impl FileTimes {
    /// Returns the times of `source`, which has these `bytes`.
    pub(super) fn of(source: &Source, bytes: &SourceBytes, ledger: &Ledger) -> FileTimes {
        let place = FilePlace::of(source);
        let known = place
            .as_ref()
            .map(|place| ledger.file_prefixes().of(place, bytes))
            .unwrap_or_default();
        let same = known
            .iter()
            .find(|prefix| prefix.length == bytes.len() as u64);
        FileTimes {
            own: same.map_or_else(|| Timestamp::of_file(source.time), |same| same.time),
            place,
            known,
        }
    }

    /// Returns `options` with these times.
    pub(super) fn in_options<'o>(&'o self, options: ReadOptions<'o>) -> ReadOptions<'o> {
        ReadOptions {
            fallback: self.own,
            known_prefixes: &self.known,
            ..options
        }
    }

    /// Returns what the ledger doesn't have of the file with these `bytes`.
    pub(super) fn to_record(&self, bytes: &SourceBytes, ledger: &Ledger) -> Vec<FilePrefix> {
        let prefixes = ledger.file_prefixes();
        let place = self.place.as_ref();
        let new = place.map(|place| prefixes.to_record(place, bytes, self.own));
        new.unwrap_or_default()
    }
}
