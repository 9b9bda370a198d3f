//! The tool calls of a conversation, by their ids and names.

use std::collections::{HashMap, VecDeque};

/// The number of calls from which they are looked up by hash instead of by a linear scan: results
/// nearly always follow their calls, and most conversations have few.
const MANY_CALLS: usize = 64;

/// A tool call of a conversation.
#[derive(Debug, Clone)]
pub(super) struct TrackedCall {
    /// The provider's id.
    pub(super) wire_id: Option<String>,
    /// The name of the tool.
    pub(super) name: Option<String>,
    /// The canonical id, once the message of the call was added.
    pub(super) canonical: Option<String>,
    /// True if a result followed.
    pub(super) answered: bool,
}

/// The tool calls of a conversation, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct TrackedCalls {
    calls: Vec<TrackedCall>,
    /// All calls before this one have a result.
    unanswered_from: usize,
    /// Set if there are many calls.
    index: Option<Box<CallIndex>>,
}

/// Where the calls of a long conversation are.
#[derive(Debug, Clone, Default)]
struct CallIndex {
    last_by_wire_id: HashMap<String, usize>,
    last_by_canonical: HashMap<String, usize>,
    /// The calls of each tool, without the first ones that have a result.
    unanswered_by_name: HashMap<String, VecDeque<usize>>,
}

impl CallIndex {
    fn of(calls: &[TrackedCall]) -> CallIndex {
        let mut index = CallIndex::default();
        for (at, call) in calls.iter().enumerate() {
            index.add(at, call);
        }
        index
    }

    fn add(&mut self, at: usize, call: &TrackedCall) {
        if let Some(wire_id) = &call.wire_id {
            self.last_by_wire_id.insert(wire_id.clone(), at);
        }
        if let Some(canonical) = &call.canonical {
            self.set_canonical(at, canonical);
        }
        if let Some(name) = &call.name {
            let of_tool = self.unanswered_by_name.entry(name.clone()).or_default();
            of_tool.push_back(at);
        }
    }

    fn set_canonical(&mut self, at: usize, canonical: &str) {
        let last = self.last_by_canonical.entry(canonical.to_owned());
        let last = last.or_insert(at);
        *last = at.max(*last);
    }
}

impl TrackedCalls {
    /// Adds a call and returns its number.
    pub(super) fn push(&mut self, call: TrackedCall) -> usize {
        let at = self.calls.len();
        if let Some(index) = &mut self.index {
            index.add(at, &call);
        }
        self.calls.push(call);
        if self.index.is_none() && self.calls.len() >= MANY_CALLS {
            self.index = Some(Box::new(CallIndex::of(&self.calls)));
        }
        at
    }

    /// Returns the number of the last call with this id of the provider.
    pub(super) fn last_with_wire_id(&self, wire_id: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.last_by_wire_id.get(wire_id).copied(),
            None => {
                let has_id = |call: &TrackedCall| call.wire_id.as_deref() == Some(wire_id);
                self.calls.iter().rposition(has_id)
            }
        }
    }

    /// Returns the last call with this canonical id.
    pub(super) fn last_with_canonical(&self, canonical: &str) -> Option<&TrackedCall> {
        match &self.index {
            Some(index) => self.calls.get(*index.last_by_canonical.get(canonical)?),
            None => {
                let has_id = |call: &&TrackedCall| call.canonical.as_deref() == Some(canonical);
                self.calls.iter().rfind(has_id)
            }
        }
    }

    /// Returns the number of the first call without a result, of the tool `name` if it is given.
    pub(super) fn first_unanswered(&mut self, name: Option<&str>) -> Option<usize> {
        let TrackedCalls {
            calls,
            unanswered_from,
            index,
        } = self;
        let is_answered = |at: usize| calls.get(at).is_some_and(|call| call.answered);
        while is_answered(*unanswered_from) {
            *unanswered_from += 1;
        }
        match (name, index) {
            (None, _) => (*unanswered_from < calls.len()).then_some(*unanswered_from),
            (Some(name), None) => (*unanswered_from..calls.len()).find(|at| {
                let call = calls.get(*at).filter(|call| !call.answered);
                call.is_some_and(|call| call.name.as_deref() == Some(name))
            }),
            (Some(name), Some(index)) => {
                let of_tool = index.unanswered_by_name.get_mut(name)?;
                while of_tool.front().is_some_and(|at| is_answered(*at)) {
                    of_tool.pop_front();
                }
                of_tool.front().copied()
            }
        }
    }

    /// Marks the call `at` as one with a result.
    pub(super) fn answer(&mut self, at: usize) {
        if let Some(call) = self.calls.get_mut(at) {
            call.answered = true;
        }
    }

    /// Returns the provider's and the canonical id of the call `at`, which gets `default_id` if it
    /// has no canonical one.
    pub(super) fn identify(
        &mut self,
        at: usize,
        default_id: impl FnOnce() -> String,
    ) -> Option<(Option<&str>, &str)> {
        let call = self.calls.get_mut(at)?;
        if call.canonical.is_none() {
            let canonical = default_id();
            if let Some(index) = &mut self.index {
                index.set_canonical(at, &canonical);
            }
            call.canonical = Some(canonical);
        }
        Some((call.wire_id.as_deref(), call.canonical.as_deref()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(wire_id: usize, name: usize) -> TrackedCall {
        TrackedCall {
            wire_id: Some(wire_id.to_string()),
            name: Some(format!("tool-{name}")),
            canonical: None,
            answered: false,
        }
    }

    #[test]
    fn the_calls_of_long_conversations_are_found_in_constant_time() {
        // By linear scans this takes minutes.
        const COUNT: usize = 200_000;
        let mut calls = TrackedCalls::default();
        for at in 0..COUNT {
            assert_eq!(calls.push(call(at, at % 2)), at);
        }
        for at in 0..COUNT {
            assert_eq!(calls.last_with_wire_id(&at.to_string()), Some(at));
            let canonical = format!("tu_{at}");
            assert!(calls.last_with_canonical(&canonical).is_none());
            calls.identify(at, || canonical.clone());
            assert!(calls.last_with_canonical(&canonical).is_some());
            let name = format!("tool-{}", at % 2);
            assert_eq!(calls.first_unanswered(Some(&name)), Some(at));
            assert_eq!(calls.first_unanswered(None), Some(at));
            calls.answer(at);
        }
        assert_eq!(calls.first_unanswered(None), None);
        assert_eq!(calls.first_unanswered(Some("tool-1")), None);
    }

    #[test]
    fn few_and_many_calls_are_found_alike() {
        for count in [4, 4 * MANY_CALLS] {
            let mut calls = TrackedCalls::default();
            for at in 0..count {
                calls.push(call(at / 2, at % 2));
                calls.identify(at, || format!("tu_{}", at / 2));
            }
            assert_eq!(calls.last_with_wire_id("0"), Some(1), "{count}");
            assert_eq!(calls.last_with_wire_id("x"), None, "{count}");
            let found = calls.last_with_canonical("tu_0").unwrap();
            assert_eq!(found.name.as_deref(), Some("tool-1"), "{count}");
            calls.answer(0);
            calls.answer(1);
            assert_eq!(calls.first_unanswered(Some("tool-1")), Some(3), "{count}");
            assert_eq!(calls.first_unanswered(Some("tool-2")), None, "{count}");
            assert_eq!(calls.first_unanswered(None), Some(2), "{count}");
            let known = calls.identify(1, || "other".to_owned());
            assert_eq!(known, Some((Some("0"), "tu_0")), "{count}");
        }
    }
}
