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
    /// The changes so far, if they can be undone.
    changes: Option<Vec<CallChange>>,
}

/// A change of the calls, and what it replaced in the index.
#[derive(Debug, Clone)]
enum CallChange {
    /// A call was added. The last ones with its ids before it are given.
    Pushed {
        wire_id: Option<usize>,
        canonical: Option<usize>,
    },
    /// The call `at` got its canonical id, which the call `before` had.
    Identified { at: usize, before: Option<usize> },
    /// The call got its first result.
    Answered(usize),
    /// The call isn't among those of its tool any more, because it has a result.
    Passed(usize),
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

    /// Adds the call `at`. Returns the last calls with its provider's and its canonical id before.
    fn add(&mut self, at: usize, call: &TrackedCall) -> (Option<usize>, Option<usize>) {
        let ids = (call.wire_id.as_ref(), call.canonical.as_ref());
        let wire_before = ids
            .0
            .and_then(|wire_id| self.last_by_wire_id.insert(wire_id.clone(), at));
        let before = ids
            .1
            .and_then(|canonical| self.set_canonical(at, canonical));
        if let Some(name) = &call.name {
            let of_tool = self.unanswered_by_name.entry(name.clone()).or_default();
            of_tool.push_back(at);
        }
        (wire_before, before)
    }

    /// Removes `call`, the last one that was added.
    fn remove(&mut self, call: &TrackedCall, wire_id: Option<usize>, canonical: Option<usize>) {
        restore(&mut self.last_by_wire_id, call.wire_id.as_ref(), wire_id);
        let known = call.canonical.as_ref();
        restore(&mut self.last_by_canonical, known, canonical);
        if let Some(name) = &call.name
            && let Some(of_tool) = self.unanswered_by_name.get_mut(name)
        {
            of_tool.pop_back();
        }
    }

    /// Records the canonical id of the call `at`. Returns the last call that had it before.
    fn set_canonical(&mut self, at: usize, canonical: &str) -> Option<usize> {
        let before = self.last_by_canonical.get(canonical).copied();
        let last = before.map_or(at, |before| at.max(before));
        self.last_by_canonical.insert(canonical.to_owned(), last);
        before
    }
}

/// Sets the call of `id` to the one `before`; removes it if there was none.
fn restore(calls: &mut HashMap<String, usize>, id: Option<&String>, before: Option<usize>) {
    match (id, before) {
        (Some(id), Some(before)) => _ = calls.insert(id.clone(), before),
        (Some(id), None) => _ = calls.remove(id),
        (None, _) => {}
    }
}

impl TrackedCalls {
    /// Returns no calls, which can return to an earlier state. They remember their changes.
    pub(super) fn undoable() -> TrackedCalls {
        TrackedCalls {
            changes: Some(Vec::new()),
            ..TrackedCalls::default()
        }
    }

    /// Returns the number of calls.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns the number of changes so far, for [`TrackedCalls::undo_to`].
    pub(super) fn changes(&self) -> usize {
        self.changes.as_ref().map_or(0, Vec::len)
    }

    /// Undoes all changes after the first `changes`.
    pub(super) fn undo_to(&mut self, changes: usize) {
        while let Some(done) = self.changes.as_mut().filter(|done| done.len() > changes) {
            let Some(change) = done.pop() else {
                return;
            };
            self.undo(change);
        }
    }

    fn undo(&mut self, change: CallChange) {
        match change {
            CallChange::Pushed { wire_id, canonical } => {
                let Some(call) = self.calls.pop() else {
                    return;
                };
                if let Some(index) = &mut self.index {
                    index.remove(&call, wire_id, canonical);
                }
                // Changes from before there were so many say nothing of the index.
                if self.calls.len() < MANY_CALLS {
                    self.index = None;
                }
                self.unanswered_from = self.unanswered_from.min(self.calls.len());
            }
            CallChange::Identified { at, before } => {
                let call = self.calls.get_mut(at);
                let canonical = call.and_then(|call| call.canonical.take());
                if let Some(index) = &mut self.index {
                    restore(&mut index.last_by_canonical, canonical.as_ref(), before);
                }
            }
            CallChange::Answered(at) => {
                if let Some(call) = self.calls.get_mut(at) {
                    call.answered = false;
                }
                self.unanswered_from = self.unanswered_from.min(at);
            }
            CallChange::Passed(at) => {
                let name = self.calls.get(at).and_then(|call| call.name.as_ref());
                let by_name = self
                    .index
                    .as_mut()
                    .map(|index| &mut index.unanswered_by_name);
                let of_tool = name.zip(by_name).and_then(|(name, all)| all.get_mut(name));
                of_tool.into_iter().for_each(|calls| calls.push_front(at));
            }
        }
    }

    fn note(&mut self, change: CallChange) {
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
    }

    /// Adds a call and returns its number.
    pub(super) fn push(&mut self, call: TrackedCall) -> usize {
        let at = self.calls.len();
        let index = self.index.as_mut();
        let (wire_id, canonical) = index.map_or((None, None), |index| index.add(at, &call));
        self.note(CallChange::Pushed { wire_id, canonical });
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
            changes,
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
                while let Some(at) = of_tool.pop_front_if(|at| is_answered(*at)) {
                    changes
                        .iter_mut()
                        .for_each(|all| all.push(CallChange::Passed(at)));
                }
                of_tool.front().copied()
            }
        }
    }

    /// Marks the call `at` as one with a result.
    pub(super) fn answer(&mut self, at: usize) {
        let call = self.calls.get_mut(at).filter(|call| !call.answered);
        if let Some(call) = call {
            call.answered = true;
            self.note(CallChange::Answered(at));
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
            let index = self.index.as_mut();
            let before = index.and_then(|index| index.set_canonical(at, &canonical));
            call.canonical = Some(canonical);
            self.note(CallChange::Identified { at, before });
        }
        let call = self.calls.get(at)?;
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

    /// What is found of calls: by the ids of both kinds, and as the first without a result.
    fn found(calls: &mut TrackedCalls) -> Vec<Option<String>> {
        let mut found = Vec::new();
        for id in 0..4 * MANY_CALLS {
            let by_wire_id = calls.last_with_wire_id(&id.to_string());
            found.push(by_wire_id.map(|at| at.to_string()));
            let by_canonical = calls.last_with_canonical(&format!("tu_{id}"));
            found.push(by_canonical.and_then(|call| call.wire_id.clone()));
        }
        for name in [None, Some("tool-0"), Some("tool-1")] {
            let first = calls.first_unanswered(name);
            found.push(first.map(|at| at.to_string()));
        }
        found
    }

    #[test]
    fn undone_changes_leave_the_calls_before_them() {
        let mut calls = TrackedCalls::undoable();
        let mut before = Vec::new();
        for at in 0..3 * MANY_CALLS {
            let (copy, changes) = (found(&mut calls.clone()), calls.changes());
            before.push((changes, copy));
            // Ids repeat, and some calls get their results late or never.
            calls.push(call(at % 50, at % 2));
            calls.identify(at, || format!("tu_{}", at % 70));
            calls.answer(at / 2);
            if at % 3 == 0 {
                found(&mut calls);
                calls.answer(at);
            }
        }
        for (changes, expected) in before.into_iter().rev() {
            calls.undo_to(changes);
            assert_eq!(calls.changes(), changes);
            assert_eq!(found(&mut calls), expected);
            calls.undo_to(changes);
        }
        assert!(calls.calls.is_empty() && calls.index.is_none());
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
