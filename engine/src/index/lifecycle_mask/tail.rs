//! The effects of events that came after the masks.

use std::collections::HashMap;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::lifecycle::TimedEffect;

/// Number of effects in the tail above which no mask is used.
const MAX_TAIL: usize = 200_000;

/// The effects that some mask doesn't contain, up to [`MAX_TAIL`] of them.
#[derive(Debug, Default)]
pub(super) struct Tail {
    pub(super) effects: HashMap<ContentAddress, Vec<TimedEffect>>,
    count: usize,
}

impl Tail {
    /// Adds an effect on a grain. Keeps none beyond the maximal number.
    pub(super) fn add(&mut self, address: ContentAddress, effect: TimedEffect) {
        self.count += 1;
        if !self.is_too_long() {
            self.effects.entry(address).or_default().push(effect);
        }
    }

    /// Returns true if there were more effects than the tail may have.
    pub(super) fn is_too_long(&self) -> bool {
        self.count > MAX_TAIL
    }
}
