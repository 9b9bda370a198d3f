//! A batch: so many grains, in the order of the input, that make one segment.

use std::collections::HashMap;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, RejectRow, StateRow};
use gristmill_schemas::container::IndexState;

use super::morsel::{Admitted, Morsel};
use crate::lake::Progress;

/// When a batch is full.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchLimits {
    pub(super) grains: usize,
    pub(super) bytes: usize,
}

/// Input that goes into one segment, and what else is committed with it.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) morsels: Vec<Morsel>,
    grains: usize,
    bytes: usize,
    /// Damage outside of grains.
    pub(super) rejects: Vec<RejectRow>,
    /// Lifecycle state of sources that end in this batch.
    pub(super) states: Vec<StateRow>,
    /// Where the sources of these states were read from, by their ids.
    pub(super) uris: HashMap<String, String>,
    /// How far each source is read when this batch is committed.
    pub(super) progress: Vec<(String, Progress)>,
}

impl Batch {
    /// True if it holds nothing to commit.
    pub(super) fn is_empty(&self) -> bool {
        self.morsels.is_empty() && self.rejects.is_empty() && self.states.is_empty() && self.progress.is_empty()
    }

    /// How many grains still fit; 0 if it is full.
    pub(super) fn room(&self, limits: BatchLimits) -> usize {
        if self.bytes >= limits.bytes { 0 } else { limits.grains.saturating_sub(self.grains) }
    }

    /// Adds a morsel; its source is then read up to the morsel's end.
    pub(super) fn add(&mut self, morsel: Morsel) {
        self.grains += morsel.len();
        self.bytes += morsel.bytes;
        self.note(&morsel.source, Progress::Next(morsel.first + morsel.len() as u64));
        self.morsels.push(morsel);
    }

    /// Notes that `source` is read to its end.
    pub(super) fn complete(&mut self, source: &Admitted, now: i64) {
        self.note(source, Progress::Complete);
        let states = source.manifest().flat_map(|(address, state)| states_of(address, state, &source.id, now));
        self.states.extend(states);
        self.uris.insert(source.id.clone(), source.uri.clone());
    }

    /// Notes that a source is read to its end whose name is all that is known of it.
    pub(super) fn complete_refused(&mut self, reject: RejectRow) {
        self.progress.push((reject.source_id.clone(), Progress::Complete));
        self.rejects.push(reject);
    }

    fn note(&mut self, source: &Admitted, progress: Progress) {
        match self.progress.last_mut().filter(|(id, _)| *id == source.id) {
            Some((_, noted)) => *noted = progress,
            None => self.progress.push((source.id.clone(), progress)),
        }
    }
}

/// The lifecycle events that a manifest's entry stands for (§11.7).
fn states_of(address: &ContentAddress, state: &IndexState, source_id: &str, now: i64) -> Vec<StateRow> {
    let until = state.system_valid_to.and_then(|instant| instant.checked_mul(1_000));
    let row = |event, value: Option<String>, at: Option<i64>| StateRow {
        content_address: address.to_string(),
        event,
        value,
        at: at.unwrap_or(now),
        actor: None,
        reason: None,
        source_id: Some(source_id.to_owned()),
    };
    let mut rows = Vec::new();
    match (&state.superseded_by, until) {
        (Some(successor), until) => rows.push(row(LifecycleEvent::Superseded, Some(successor.to_string()), until)),
        (None, Some(until)) => rows.push(row(LifecycleEvent::Expired, None, Some(until))),
        (None, None) => {}
    }
    if let Some(status) = state.verification_status {
        rows.push(row(LifecycleEvent::Verification, Some(status.name().to_owned()), None));
    }
    if let Some(count) = state.access_count {
        let at = state.last_accessed_at.and_then(|instant| instant.checked_mul(1_000));
        rows.push(row(LifecycleEvent::Accessed, Some(count.to_string()), at));
    }
    rows
}
