//! A batch: the grains that become one segment, in the order of the input.

use std::collections::HashMap;

use gristmill_connectors::source::SourceKind;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{RejectRow, SourceRow, StateRow};
use gristmill_schemas::container::IndexState;
use gristmill_schemas::lifecycle::claims_from_index_state;
use serde::{Deserialize, Serialize};

use super::morsel::{AdmittedSource, Morsel};
use super::sources::{FinishedSource, SourceInfo};
use crate::lake::FilePrefix;
use crate::segment::ROW_GROUP_ROWS;

/// The size at which a batch is full.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchLimits {
    pub(super) grains: usize,
    pub(super) bytes: usize,
    /// Sources that it reads, and unread ones that it lists.
    pub(super) sources: usize,
}

impl BatchLimits {
    /// Returns the limits of batches with so many `bytes`. If the lake is encrypted, most sources
    /// are files that stay open.
    pub(super) fn of_bytes(bytes: usize, is_encrypted: bool) -> BatchLimits {
        let sources = match is_encrypted {
            true => SOURCES.min(open_files() / OPEN_SHARE).max(1),
            false => SOURCES,
        };
        BatchLimits {
            grains: SEGMENT_GRAINS,
            bytes,
            sources,
        }
    }
}

/// Maximum number of grains of a segment.
const SEGMENT_GRAINS: usize = 8 * ROW_GROUP_ROWS;

/// Part of the files that the process may have open for the sources of a batch, one in so many: up
/// to three batches exist at a time, and other files are open, too.
const OPEN_SHARE: usize = 8;

/// Returns how many files the process may have open.
fn open_files() -> usize {
    #[cfg(unix)]
    if let Ok((files, _)) = rlimit::getrlimit(rlimit::Resource::NOFILE) {
        return usize::try_from(files).unwrap_or(usize::MAX);
    }
    usize::MAX
}

/// Input that becomes one segment, and what else is committed with it. As a message it has no
/// grains.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct IngestBatch {
    #[serde(skip)]
    pub(super) morsels: Vec<Morsel>,
    grains: usize,
    bytes: usize,
    /// Rejects that aren't grains: sources, lines, and damage between grains.
    pub(super) rejects: Vec<RejectRow>,
    /// Lifecycle state of sources that end in this batch.
    pub(super) states: Vec<StateRow>,
    /// Where the sources of these states were read from, by their ids.
    pub(super) uris: HashMap<String, String>,
    /// How far each source has been read when this batch is committed.
    pub(super) progress: Vec<SourceProgress>,
    /// Sources that end in this batch.
    pub(super) ended: Vec<FinishedSource>,
    /// Rows of `sources` for sources that aren't read.
    pub(super) listed: Vec<SourceRow>,
}

/// How far a batch reads a source.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SourceProgress {
    pub(super) source_id: String,
    /// The kind that it is read as.
    pub(super) kind: Option<SourceKind>,
    /// The next grain to read, if the batch contains grains of it.
    pub(super) next: Option<u64>,
    /// As [`TranscriptExtras::file_prefixes`](super::morsel::TranscriptExtras::file_prefixes).
    pub(super) file_prefixes: Vec<FilePrefix>,
}

/// Maximum number of sources that a batch reads, and of unread ones that it lists. Each may be two
/// mappings, of which a process has a limited number (65,530 on Linux), and up to three batches
/// exist at a time.
const SOURCES: usize = 1 << 13;

impl IngestBatch {
    /// Returns true if there is nothing to commit.
    pub(super) fn is_empty(&self) -> bool {
        let is_listed = self.listed.is_empty() && self.ended.is_empty();
        is_listed && self.morsels.is_empty() && self.rejects.is_empty() && self.states.is_empty()
    }

    /// Returns how many grains still fit; 0 if the batch is full.
    pub(super) fn room(&self, limits: BatchLimits) -> usize {
        let sources = self.listed.len().max(self.progress.len());
        if self.bytes >= limits.bytes || sources >= limits.sources {
            0
        } else {
            limits.grains.saturating_sub(self.grains)
        }
    }

    /// Adds a morsel. Its source has then been read up to the morsel's end.
    pub(super) fn add(&mut self, morsel: Morsel) {
        self.grains += morsel.len();
        self.bytes += morsel.bytes;
        let next = morsel.first + morsel.len() as u64;
        self.reach(&morsel.source, |reached| reached.next = Some(next));
        self.morsels.push(morsel);
    }

    /// Records that `source`, which was read from its grain `first` on, has been read to its end.
    /// With `keeps_entry` its entry in the ledger isn't changed.
    pub(super) fn complete(
        &mut self,
        source: &AdmittedSource,
        first: u64,
        keeps_entry: bool,
        now: i64,
    ) {
        self.reach(source, |_| ());
        let states = source
            .manifest()
            .flat_map(|(address, state)| states_of(address, state, &source.id, now));
        self.states.extend(states);
        self.uris.insert(source.id.clone(), source.info.uri.clone());
        self.ended
            .push(FinishedSource::of(source, first, keeps_entry));
    }

    /// Adds a reject that isn't a grain, whose row counts towards the size of the batch.
    pub(super) fn reject(&mut self, row: RejectRow) {
        let texts = [&row.source_id, &row.source, &row.error_code, &row.message];
        let texts: usize = texts.into_iter().map(String::len).sum();
        self.bytes += size_of::<RejectRow>() + texts + row.bytes.len();
        self.rejects.push(row);
    }

    /// Records that a source was rejected as a whole.
    pub(super) fn complete_rejected(&mut self, info: SourceInfo, reject: RejectRow) {
        self.ended
            .push(FinishedSource::rejected(info, reject.message.clone()));
        self.reject(reject);
    }

    /// Changes how far `source` has been read. Sources are read one after another.
    fn reach(&mut self, source: &AdmittedSource, change: impl FnOnce(&mut SourceProgress)) {
        match self
            .progress
            .last_mut()
            .filter(|last| last.source_id == source.id)
        {
            Some(last) => change(last),
            None => {
                let mut reached = SourceProgress {
                    source_id: source.id.clone(),
                    kind: source.info.kind,
                    next: None,
                    file_prefixes: source.extras.file_prefixes.clone(),
                };
                change(&mut reached);
                self.progress.push(reached);
            }
        }
    }
}

/// Returns the lifecycle events of a manifest's entry (§11.7). Events without a time are of `now`.
fn states_of<'a>(
    address: &'a ContentAddress,
    state: &IndexState,
    source_id: &'a str,
    now: i64,
) -> impl Iterator<Item = StateRow> + 'a {
    claims_from_index_state(state)
        .into_iter()
        .map(move |(event, value, at)| StateRow {
            content_address: address.to_string(),
            event,
            value,
            at: at.unwrap_or(now),
            actor: None,
            reason: None,
            source_id: Some(source_id.to_owned()),
        })
}
