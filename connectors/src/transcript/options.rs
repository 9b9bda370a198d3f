//! Options that apply to reading any kind of transcript.

use gristmill_schemas::message::Timestamp;

use super::content_folder::ContentFolder;
use super::line::Line;
use super::sighting_index::SightingIndex;

/// How a transcript is read.
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions<'o> {
    /// Time of messages without a recorded time: that of the file.
    pub fallback: Timestamp,
    /// Beginnings of the file that were read before, in that order. Their lines keep the time that
    /// they had then.
    pub known_prefixes: &'o [KnownPrefix],
    /// Provider of exchange lines that don't name one.
    pub provider: Option<&'o str>,
    /// Namespace of the grains.
    pub namespace: Option<&'o str>,
    /// Number of threads; 0 for one per core.
    pub threads: usize,
    /// True if grains must not be written to a temporary file unencrypted.
    pub sealed: bool,
    /// True for a bundle of changes whose events and erasures the caller applies. In any other file
    /// such lines are faults: they would be lost.
    pub is_bundle: bool,
    /// Where embedded images and documents are written; `None` if they stay in the grains.
    pub content: Option<&'o ContentFolder>,
    /// Set if the file is one of several linked files; `None` if it is read by itself.
    pub linked: Option<LinkedFile<'o>>,
}

/// The beginning of a file that was read before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownPrefix {
    /// Its length, in bytes. It consists of complete lines, or is the whole file.
    pub length: u64,
    /// The time that messages without a recorded time had.
    pub time: Timestamp,
}

/// One of several files of traffic that are read together, because a conversation may be spread
/// over them.
#[derive(Debug, Clone, Copy)]
pub struct LinkedFile<'t> {
    /// The sightings of all linked files.
    pub index: &'t SightingIndex,
    /// The number of this file among them.
    pub file: u32,
}

impl ReadOptions<'_> {
    /// Returns the time of messages without a recorded time in `line`. Entries of documents, which
    /// have an empty range, have that of the file.
    pub(crate) fn time_of(&self, line: &Line) -> Timestamp {
        let has_line = |prefix: &&KnownPrefix| {
            !line.range.is_empty() && line.range.end as u64 <= prefix.length
        };
        let first = self.known_prefixes.iter().find(has_line);
        first.map_or(self.fallback, |prefix| prefix.time)
    }

    /// Returns options for lines whose ranges aren't those of the file.
    #[must_use]
    pub(crate) fn without_ranges(self) -> Self {
        ReadOptions {
            known_prefixes: &[],
            ..self
        }
    }
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions {
            fallback: Timestamp::from_micros(0),
            known_prefixes: &[],
            provider: None,
            namespace: None,
            threads: 0,
            sealed: false,
            is_bundle: false,
            content: None,
            linked: None,
        }
    }
}
