//! A batch: so many grains, in the order of the input, that make one segment.

use std::collections::{BTreeSet, HashMap};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{RejectRow, StateRow};
use gristmill_schemas::container::IndexState;
use gristmill_schemas::lifecycle::claims_of;

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
    progress: Vec<Reached>,
}

/// How far a batch reads a source.
#[derive(Debug)]
struct Reached {
    source_id: String,
    /// The next grain to read, if the batch has grains of it.
    next: Option<u64>,
    /// True if it is read to its end.
    is_complete: bool,
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
        let next = morsel.first + morsel.len() as u64;
        self.reach(&morsel.source.id, |reached| reached.next = Some(next));
        self.morsels.push(morsel);
    }

    /// Notes that `source` is read to its end.
    pub(super) fn complete(&mut self, source: &Admitted, now: i64) {
        self.reach(&source.id, |reached| reached.is_complete = true);
        let states = source.manifest().flat_map(|(address, state)| states_of(address, state, &source.id, now));
        self.states.extend(states);
        self.uris.insert(source.id.clone(), source.uri.clone());
    }

    /// Notes that a source is read to its end whose name is all that is known of it.
    pub(super) fn complete_refused(&mut self, reject: RejectRow) {
        self.reach(&reject.source_id, |reached| reached.is_complete = true);
        self.rejects.push(reject);
    }

    /// Changes how far `source_id` is read. Sources are read one after another.
    fn reach(&mut self, source_id: &str, change: impl FnOnce(&mut Reached)) {
        match self.progress.last_mut().filter(|last| last.source_id == source_id) {
            Some(last) => change(last),
            None => {
                let mut reached = Reached { source_id: source_id.to_owned(), next: None, is_complete: false };
                change(&mut reached);
                self.progress.push(reached);
            }
        }
    }

    /// How far each source is read. Those that are `held` aren't complete yet: some of their state is committed later.
    pub(super) fn progress(&self, held: &BTreeSet<&str>) -> impl Iterator<Item = (&str, Progress)> {
        self.progress.iter().filter_map(move |reached| {
            let id = reached.source_id.as_str();
            match reached.is_complete && !held.contains(id) {
                true => Some((id, Progress::Complete)),
                false => reached.next.map(|next| (id, Progress::Next(next))),
            }
        })
    }
}

/// The lifecycle events that a manifest's entry stands for (§11.7); those without an instant are of `now`.
fn states_of<'a>(
    address: &'a ContentAddress,
    state: &IndexState,
    source_id: &'a str,
    now: i64,
) -> impl Iterator<Item = StateRow> + 'a {
    claims_of(state).into_iter().map(move |(event, value, at)| StateRow {
        content_address: address.to_string(),
        event,
        value,
        at: at.unwrap_or(now),
        actor: None,
        reason: None,
        source_id: Some(source_id.to_owned()),
    })
}
