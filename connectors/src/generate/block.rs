//! A block of a corpus.

use std::collections::HashSet;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::IndexState;
use gristmill_schemas::grain::EncodedGrain;

/// A sequence of grains in the order of their creation.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// The grains.
    pub grains: Vec<EncodedGrain>,
    /// The index-layer states of the grains that aren't in their initial state.
    pub states: Vec<(ContentAddress, IndexState)>,
    /// The personal data in texts of the grains, in their order.
    pub labels: Vec<Label>,
}

/// An identifier of a person that the generator has written into a text of a grain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The grain.
    pub address: ContentAddress,
    /// The kind, by the name that scans and SQL's `personal_data` use, such as `email`.
    pub kind: &'static str,
    /// The identifier as it is in the text.
    pub value: String,
}

impl Block {
    /// Keeps the first `at` grains and returns the others. A state stays with the later of the
    /// grains that it names, so that no part has the state of a grain that comes later.
    pub fn split_off(&mut self, at: usize) -> Block {
        let grains = self.grains.split_off(at.min(self.grains.len()));
        let later: HashSet<ContentAddress> = grains.iter().map(|grain| grain.address).collect();
        let names_later = |(address, state): &(ContentAddress, IndexState)| {
            later.contains(address)
                || state
                    .superseded_by
                    .is_some_and(|successor| later.contains(&successor))
        };
        let (states, kept) = std::mem::take(&mut self.states)
            .into_iter()
            .partition(names_later);
        self.states = kept;
        let (labels, kept) = std::mem::take(&mut self.labels)
            .into_iter()
            .partition(|label| later.contains(&label.address));
        self.labels = kept;
        Block {
            grains,
            states,
            labels,
        }
    }

    /// Adds the grains of `next` at the end.
    pub fn append(&mut self, next: Block) {
        self.grains.extend(next.grains);
        self.states.extend(next.states);
        self.labels.extend(next.labels);
    }
}
