//! Ids of providers for the tool calls of a session (§6.2).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A bidirectional map between the canonical ids (`tu_…`) of a session and the ids of each
/// provider.
///
/// A call that is new to a provider gets the id that another provider uses for it, if that id is
/// valid and unused there, so that a model sees its own ids again after the provider was changed
/// and changed back.
#[derive(Debug, Clone, Default)]
pub struct ToolIdMap {
    wire: HashMap<String, HashMap<String, String>>,
    canonical: HashMap<String, HashMap<String, String>>,
    first: HashMap<String, String>,
    /// The changes so far, if they can be undone.
    changes: Option<Vec<IdChange>>,
}

/// A pair of ids that was recorded, and what it replaced.
#[derive(Debug, Clone)]
struct IdChange {
    provider: String,
    canonical: String,
    wire: String,
    /// The id that the provider used for the call before.
    wire_before: Option<String>,
    /// The call that the provider's id denoted before.
    canonical_before: Option<String>,
    /// True if no provider had an id for the call before.
    is_first: bool,
}

impl ToolIdMap {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty map that can return to an earlier state. It remembers its changes.
    pub fn undoable() -> Self {
        ToolIdMap {
            changes: Some(Vec::new()),
            ..ToolIdMap::default()
        }
    }

    /// Returns the number of changes so far, for [`ToolIdMap::undo_to`].
    pub fn changes(&self) -> usize {
        self.changes.as_ref().map_or(0, Vec::len)
    }

    /// Undoes all changes after the first `changes`.
    pub fn undo_to(&mut self, changes: usize) {
        while let Some(done) = self.changes.as_mut().filter(|done| done.len() > changes) {
            let Some(change) = done.pop() else {
                return;
            };
            self.undo(change);
        }
    }

    fn undo(&mut self, change: IdChange) {
        let IdChange {
            provider,
            canonical,
            wire,
            wire_before,
            canonical_before,
            is_first,
        } = change;
        if is_first {
            self.first.remove(&canonical);
        }
        restore(self.canonical.get_mut(&provider), wire, canonical_before);
        restore(self.wire.get_mut(&provider), canonical, wire_before);
    }

    /// Records that `provider` uses the id `wire` for the call `canonical`. A later id replaces an
    /// earlier one for sending; the earlier one is still recognized.
    pub fn remember(&mut self, provider: &str, canonical: &str, wire: &str) {
        let wire_before = insert(&mut self.wire, provider, canonical, wire);
        let canonical_before = insert(&mut self.canonical, provider, wire, canonical);
        let first = self.first.entry(canonical.to_owned());
        let is_first = matches!(first, Entry::Vacant(_));
        first.or_insert_with(|| wire.to_owned());
        if let Some(changes) = &mut self.changes {
            changes.push(IdChange {
                provider: provider.to_owned(),
                canonical: canonical.to_owned(),
                wire: wire.to_owned(),
                wire_before,
                canonical_before,
                is_first,
            });
        }
    }

    /// Returns the id that `provider` uses for `canonical`.
    pub fn wire_id(&self, provider: &str, canonical: &str) -> Option<&str> {
        self.wire.get(provider)?.get(canonical).map(String::as_str)
    }

    /// Returns the canonical id for the id `wire` of `provider`.
    pub fn canonical_id(&self, provider: &str, wire: &str) -> Option<&str> {
        self.canonical.get(provider)?.get(wire).map(String::as_str)
    }

    /// Returns the id to use for `canonical` with `provider`, and records it: the recorded one,
    /// else that of another provider if `accepts` accepts it and it is unused, else the result of
    /// `make`.
    pub fn wire_id_or_else(
        &mut self,
        provider: &str,
        canonical: &str,
        accepts: impl Fn(&str) -> bool,
        make: impl FnOnce(&str) -> String,
    ) -> String {
        if let Some(known) = self.wire_id(provider, canonical) {
            return known.to_owned();
        }
        let elsewhere = self.first.get(canonical).filter(|id| accepts(id));
        let free = elsewhere.filter(|id| self.canonical_id(provider, id).is_none());
        let wire = free.cloned().unwrap_or_else(|| make(canonical));
        self.remember(provider, canonical, &wire);
        wire
    }

    /// Returns all pairs of canonical id and id of `provider`, in the order of the canonical ids.
    pub fn of_provider(&self, provider: &str) -> Vec<(&str, &str)> {
        let known = self.wire.get(provider).into_iter().flatten();
        let mut pairs: Vec<_> = known
            .map(|(canonical, wire)| (canonical.as_str(), wire.as_str()))
            .collect();
        pairs.sort_unstable();
        pairs
    }
}

/// Sets the value of `key` for `provider`, and returns the one before.
fn insert(
    map: &mut HashMap<String, HashMap<String, String>>,
    provider: &str,
    key: &str,
    value: &str,
) -> Option<String> {
    if !map.contains_key(provider) {
        map.insert(provider.to_owned(), HashMap::new());
    }
    let mine = map.get_mut(provider)?;
    mine.insert(key.to_owned(), value.to_owned())
}

/// Sets the value of `key` to the one `before`; removes it if there was none.
fn restore(map: Option<&mut HashMap<String, String>>, key: String, before: Option<String>) {
    match (map, before) {
        (Some(map), Some(before)) => _ = map.insert(key, before),
        (Some(map), None) => _ = map.remove(&key),
        (None, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_id_is_still_recognized() {
        let mut map = ToolIdMap::new();
        map.remember("p", "tu_a", "one");
        map.remember("p", "tu_a", "two");
        assert_eq!(map.wire_id("p", "tu_a"), Some("two"));
        assert_eq!(
            (map.canonical_id("p", "one"), map.canonical_id("p", "two")),
            (Some("tu_a"), Some("tu_a"))
        );
        assert_eq!(
            (map.wire_id("q", "tu_a"), map.wire_id("p", "tu_b")),
            (None, None)
        );
    }

    #[test]
    fn undone_changes_leave_the_ids_before_them() {
        let mut map = ToolIdMap::undoable();
        map.remember("p", "tu_a", "one");
        let before = map.changes();
        map.remember("p", "tu_a", "two");
        map.remember("p", "tu_b", "one");
        map.remember("q", "tu_b", "three");
        map.undo_to(before);
        assert_eq!(map.of_provider("p"), [("tu_a", "one")]);
        assert_eq!(map.canonical_id("p", "one"), Some("tu_a"));
        assert_eq!(map.canonical_id("p", "two"), None);
        assert_eq!((map.wire_id("q", "tu_b"), map.changes()), (None, before));
        let make = |canonical: &str| format!("made_{canonical}");
        let made = map.wire_id_or_else("q", "tu_b", |_| true, make);
        assert_eq!(made, "made_tu_b", "no provider has an id for it any more");
    }

    #[test]
    fn an_id_of_another_provider_is_reused_unless_it_is_taken_or_invalid() {
        let mut map = ToolIdMap::new();
        map.remember("a", "tu_1", "call_1");
        map.remember("b", "tu_2", "call_1");
        let make = |canonical: &str| format!("made_{canonical}");
        assert_eq!(
            map.clone().wire_id_or_else("c", "tu_1", |_| true, make),
            "call_1"
        );
        assert_eq!(
            map.clone().wire_id_or_else("c", "tu_1", |_| false, make),
            "made_tu_1"
        );
        assert_eq!(
            map.wire_id_or_else("b", "tu_1", |_| true, make),
            "made_tu_1",
            "b means tu_2 by call_1"
        );
        assert_eq!(map.canonical_id("b", "made_tu_1"), Some("tu_1"));
        assert_eq!(
            map.of_provider("b"),
            [("tu_1", "made_tu_1"), ("tu_2", "call_1")]
        );
    }
}
