//! Which call of a stream a delta belongs to.

use std::collections::HashMap;

/// The positions of the calls of a stream, by their indices and ids.
#[derive(Debug, Default)]
pub(super) struct CallPositions {
    count: usize,
    /// The last call with each index.
    by_index: HashMap<u64, usize>,
    /// The first call with each id.
    by_id: HashMap<String, usize>,
}

impl CallPositions {
    /// Adds the next call; `id` is empty if it has none yet.
    pub(super) fn push(&mut self, index: Option<u64>, id: &str) {
        let position = self.count;
        self.count += 1;
        if let Some(index) = index {
            self.by_index.insert(index, position);
        }
        self.set_id(position, id);
    }

    /// Sets the id of a call that had none.
    pub(super) fn set_id(&mut self, position: usize, id: &str) {
        if !id.is_empty() {
            let first = self.by_id.entry(id.to_owned()).or_insert(position);
            *first = position.min(*first);
        }
    }

    /// Returns the position of the call that a delta with `index`, `id` and the tool `name` belongs
    /// to, or `None` if it begins a new one. `id_at` returns the id of the call at a position.
    ///
    /// The call is the last one with the index; without an index, the first one with the id;
    /// without either, the last one, unless the delta has a name, which only the first delta of a
    /// call has.
    pub(super) fn find<'c>(
        &self,
        index: Option<u64>,
        id: Option<&str>,
        name: &str,
        id_at: impl Fn(usize) -> &'c str,
    ) -> Option<usize> {
        let id = id.filter(|id| !id.is_empty());
        match (index, id) {
            (Some(index), _) => {
                let last = *self.by_index.get(&index)?;
                (!begins_another(id_at(last), id, name)).then_some(last)
            }
            (None, Some(id)) => self.by_id.get(id).copied(),
            (None, None) if name.is_empty() => self.count.checked_sub(1),
            (None, None) => None,
        }
    }
}

/// Returns true if a delta with `id` and the tool `name` begins another call than the one with the
/// id `known`, although both have the same index: both have ids that differ, and the delta has a
/// name, which only the first delta of a call has.
fn begins_another(known: &str, id: Option<&str>, name: &str) -> bool {
    !known.is_empty() && id.is_some_and(|id| id != known) && !name.is_empty()
}
