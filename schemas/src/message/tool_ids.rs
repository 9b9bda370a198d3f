//! Ids of providers for the tool calls of a session (§6.2).

use std::collections::HashMap;

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
}

impl ToolIdMap {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that `provider` uses the id `wire` for the call `canonical`. A later id replaces an
    /// earlier one for sending; the earlier one is still recognized.
    pub fn remember(&mut self, provider: &str, canonical: &str, wire: &str) {
        insert(&mut self.wire, provider, canonical, wire);
        insert(&mut self.canonical, provider, wire, canonical);
        self.first
            .entry(canonical.to_owned())
            .or_insert_with(|| wire.to_owned());
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

fn insert(
    map: &mut HashMap<String, HashMap<String, String>>,
    provider: &str,
    key: &str,
    value: &str,
) {
    if !map.contains_key(provider) {
        map.insert(provider.to_owned(), HashMap::new());
    }
    if let Some(mine) = map.get_mut(provider) {
        mine.insert(key.to_owned(), value.to_owned());
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
