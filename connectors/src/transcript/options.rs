//! Options that apply to reading any kind of transcript.

use gristmill_schemas::message::Timestamp;

use super::content_folder::ContentFolder;
use super::sighting_index::SightingIndex;

/// How a transcript is read.
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions<'o> {
    /// Time of messages without a recorded time: that of the file.
    pub fallback: Timestamp,
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

/// One of several files of traffic that are read together, because a conversation may be spread
/// over them.
#[derive(Debug, Clone, Copy)]
pub struct LinkedFile<'t> {
    /// The sightings of all linked files.
    pub index: &'t SightingIndex,
    /// The number of this file among them.
    pub file: u32,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions {
            fallback: Timestamp::from_micros(0),
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
