//! Which call of a stream a delta belongs to.

use std::collections::HashMap;

/// The positions of the calls of a stream, by their indices and ids.
#[derive(Debug, Default)]
pub(super) struct CallPositions {
    count: usize,
    /// By position, the tool of the call, and how far its arguments are.
    calls: Vec<(String, ObjectText)>,
    /// The last call with each index.
    by_index: HashMap<u64, usize>,
    /// The first call with each id.
    by_id: HashMap<String, usize>,
}

impl CallPositions {
    /// Adds the next call, of the tool `name`; `id` is empty if it has none yet.
    pub(super) fn push(&mut self, index: Option<u64>, id: &str, name: &str) {
        let position = self.count;
        self.count += 1;
        self.calls.push((name.to_owned(), ObjectText::default()));
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

    /// Appends `piece` to the arguments of the call at `position`.
    pub(super) fn add_arguments(&mut self, position: usize, piece: &str) {
        if let Some((_, arguments)) = self.calls.get_mut(position) {
            arguments.push(piece);
        }
    }

    /// Returns the position of the call that a delta with `index`, `id`, the tool `name` and these
    /// `arguments` belongs to, or `None` if it begins a new one. `id_at` returns the id of the call
    /// at a position.
    ///
    /// The call is the last one with the index, unless neither has an id, the arguments of the call
    /// are complete, and the delta has another name, or the same one and other arguments: some
    /// endpoints give all calls the index 0 and no id, and some repeat the name at the end.
    /// Without an index it is the first one with the id; without either, the last one, unless the
    /// delta has a name, which only the first delta of a call has.
    pub(super) fn find<'c>(
        &self,
        index: Option<u64>,
        id: Option<&str>,
        (name, arguments): (&str, &str),
        id_at: impl Fn(usize) -> &'c str,
    ) -> Option<usize> {
        let id = id.filter(|id| !id.is_empty());
        match (index, id) {
            (Some(index), _) => {
                let last = *self.by_index.get(&index)?;
                let known = id_at(last);
                let is_next = known.is_empty() && id.is_none() && !name.is_empty();
                let is_done = |(tool, known): &(String, ObjectText)| {
                    known.is_complete() && (tool != name || !arguments.is_empty())
                };
                let is_another = begins_another(known, id, name)
                    || is_next && self.calls.get(last).is_some_and(is_done);
                (!is_another).then_some(last)
            }
            (None, Some(id)) => self.by_id.get(id).copied(),
            (None, None) if name.is_empty() => self.count.checked_sub(1),
            (None, None) => None,
        }
    }
}

/// How far the text of a JSON object is, of which only the structure is checked.
#[derive(Debug, Default)]
struct ObjectText {
    /// The number of open objects and lists.
    depth: usize,
    /// True after the first brace.
    has_begun: bool,
    is_text: bool,
    is_escaped: bool,
}

impl ObjectText {
    /// Appends a piece of the text.
    fn push(&mut self, piece: &str) {
        for byte in piece.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_text => self.is_escaped = true,
                b'"' => self.is_text = !self.is_text,
                _ if self.is_text => {}
                b'{' | b'[' => {
                    self.depth += 1;
                    self.has_begun = true;
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Returns true if the object is closed.
    fn is_complete(&self) -> bool {
        self.has_begun && self.depth == 0 && !self.is_text
    }
}

/// Returns true if a delta with `id` and the tool `name` begins another call than the one with the
/// id `known`, although both have the same index: both have ids that differ, and the delta has a
/// name, which only the first delta of a call has.
fn begins_another(known: &str, id: Option<&str>, name: &str) -> bool {
    !known.is_empty() && id.is_some_and(|id| id != known) && !name.is_empty()
}
