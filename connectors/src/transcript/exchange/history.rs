//! The history of a request that continues an earlier response by its id instead of resending it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gristmill_schemas::json::Json;

use super::extract::{AdapterMatch, match_adapter, scan_exchange};
use crate::transcript::options::ReadOptions;
use crate::transcript::sighting_index::SightingIndex;
use crate::wire::adapter::Adapter;
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::exchange::{Exchange, with_parsed_request};

/// Number of earlier exchanges that are replayed for one request. The conversation of a request
/// with a longer history begins anew.
const CHAIN_LIMIT: usize = 4096;

/// Number of conversations that are kept, of those that were replayed last.
const KEPT_CONVERSATIONS: usize = 64;

/// From so many exchanges on, what is between them is kept, too.
const LONG_REPLAY: usize = 8;

/// Number of conversations within long ones that are kept, together with their calls and parts of
/// their names.
const KEPT_WITHIN: usize = 1 << 17;

/// A name counts as one of them for so many bytes.
const NAME_BYTES: usize = 64;

/// The conversations that were replayed, by the lines at which they end, so that a history isn't
/// read again for each request that continues it. All are of one pass, because the ids of calls
/// depend on it.
#[derive(Default)]
pub(super) struct ReplayedConversations(Mutex<KeptConversations>);

#[derive(Default)]
struct KeptConversations {
    /// The last ones. In a file in the order of time each request continues one of them.
    last: VecDeque<ReplayedConversation>,
    /// The beginnings of long ones. If the newest request is the first in the file, the others
    /// continue these.
    within: HashMap<usize, ReplayedConversation>,
    /// The number of those and of their calls.
    size: usize,
    /// The lines that end a history which isn't replayed.
    unreplayed: HashSet<usize>,
}

/// A conversation up to the response of a line.
#[derive(Clone)]
struct ReplayedConversation {
    /// Where the line begins.
    line: usize,
    name: String,
    /// The number of its exchanges.
    length: usize,
    conversation: Conversation,
}

impl ReplayedConversation {
    fn is_at(&self, line: usize, name: &str) -> bool {
        self.line == line && self.name == name
    }
}

impl ReplayedConversations {
    fn kept(&self) -> MutexGuard<'_, KeptConversations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn up_to(&self, line: usize, name: &str) -> Option<ReplayedConversation> {
        let kept = self.kept();
        let within = kept.within.get(&line);
        let mut known = within.into_iter().chain(kept.last.iter().rev());
        known.find(|known| known.is_at(line, name)).cloned()
    }

    fn keep(&self, replayed: ReplayedConversation) {
        let mut kept = self.kept();
        if kept.last.len() == KEPT_CONVERSATIONS {
            kept.last.pop_front();
        }
        kept.last.push_back(replayed);
    }

    /// Keeps a conversation within a long one, unless there are too many already.
    fn keep_within(&self, replayed: ReplayedConversation) {
        let mut kept = self.kept();
        let size = 1 + replayed.conversation.call_count() + replayed.name.len() / NAME_BYTES;
        if kept.size + size <= KEPT_WITHIN {
            kept.size += size;
            kept.within.insert(replayed.line, replayed);
        }
    }

    /// Records that histories up to `lines` aren't replayed, so that they aren't read again.
    fn note_unreplayed(&self, lines: &[usize]) {
        self.kept().unreplayed.extend(lines);
    }

    /// Makes room for `count` conversations within a long one.
    fn make_room(&self, count: usize) {
        let mut kept = self.kept();
        if kept.size + count > KEPT_WITHIN {
            (kept.within, kept.size) = (HashMap::new(), 0);
        }
    }
}

/// The exchanges that a request continues.
#[derive(Default)]
struct PrecedingExchanges<'r> {
    /// Those that were replayed before.
    known: Option<ReplayedConversation>,
    /// Those after these, newest first, each with where its line begins.
    chain: Vec<(usize, Json<'r>)>,
}

impl PrecedingExchanges<'_> {
    /// Returns where the lines after the known ones begin.
    fn lines(&self) -> Vec<usize> {
        self.chain.iter().map(|(line, _)| *line).collect()
    }

    fn length(&self) -> usize {
        self.known.as_ref().map_or(0, |known| known.length) + self.chain.len()
    }
}

/// A file with the index of its sightings.
#[derive(Clone, Copy)]
pub(super) struct IndexedFile<'r> {
    pub(super) bytes: &'r [u8],
    pub(super) options: ReadOptions<'r>,
    pub(super) index: &'r SightingIndex,
    pub(super) file: u32,
    pub(super) replayed: &'r ReplayedConversations,
}

/// Returns the name of the conversation of a line: its `session_id`, or an empty string.
///
/// Conversations of different names share no positions.
pub(super) fn conversation_name(json: &Json) -> String {
    json.get("session_id")
        .and_then(Json::as_str)
        .unwrap_or_default()
        .to_owned()
}

impl<'r> IndexedFile<'r> {
    /// Returns the exchange of a line and its adapter; `None` if no adapter reads it.
    pub(super) fn readable_exchange<'e>(
        &self,
        json: &'e Json<'e>,
    ) -> Option<(&'static dyn Adapter, Exchange<'e>)>
    where
        'r: 'e,
    {
        let exchange = Exchange::from_json_or_detect(json, self.options.provider)?;
        match match_adapter(&exchange) {
            AdapterMatch::Matched(adapter) => Some((adapter, exchange)),
            AdapterMatch::Opaque(_) => None,
        }
    }

    /// Advances `conversation`, whose name is `name`, through the exchanges that the request of
    /// `exchange` continues, oldest first.
    ///
    /// The chain ends at an exchange of another conversation or at one that isn't in the file. If
    /// it is a cycle or longer than [`CHAIN_LIMIT`], nothing is replayed.
    pub(super) fn replay_history(
        &self,
        adapter: &dyn Adapter,
        exchange: &Exchange,
        (conversation, name): (&mut Conversation, &str),
        context: &ReadContext,
    ) {
        let Some(last) = self.preceding_line(adapter, exchange) else {
            return;
        };
        let history = self.preceding_exchanges(last, name).unwrap_or_default();
        let all = history.length();
        if let Some(known) = history.known {
            *conversation = known.conversation;
        }
        let is_long = history.chain.len() >= LONG_REPLAY;
        if is_long {
            self.replayed.make_room(history.chain.len());
        }
        for (at, (line, json)) in history.chain.iter().enumerate().rev() {
            if let Some((adapter, exchange)) = self.readable_exchange(json) {
                scan_exchange(adapter, &exchange, conversation, context);
            }
            let replayed = || ReplayedConversation {
                line: *line,
                name: name.to_owned(),
                length: all - at,
                conversation: conversation.clone(),
            };
            match at {
                0 => self.replayed.keep(replayed()),
                _ if is_long => self.replayed.keep_within(replayed()),
                _ => {}
            }
        }
    }

    /// Returns the range of the line whose response the request of `exchange` continues by its id.
    fn preceding_line(&self, adapter: &dyn Adapter, exchange: &Exchange) -> Option<Range<usize>> {
        let id = adapter.previous_response_id(exchange.request?)?;
        self.index.answer(self.file, id)
    }

    /// Collects the exchanges of the conversation `name` up to that of the line `last`; `None` if
    /// they form a cycle or are more than [`CHAIN_LIMIT`].
    fn preceding_exchanges(
        &self,
        last: Range<usize>,
        name: &str,
    ) -> Option<PrecedingExchanges<'r>> {
        let (mut history, mut seen) = (PrecedingExchanges::default(), HashSet::new());
        let mut next = Some(last);
        while let Some(range) = next.take() {
            let line = range.start;
            if self.replayed.kept().unreplayed.contains(&line) {
                self.replayed.note_unreplayed(&history.lines());
                return None;
            }
            history.known = self.replayed.up_to(line, name);
            if history.known.is_some() {
                break;
            }
            if history.chain.len() == CHAIN_LIMIT || !seen.insert(line) {
                self.pass_over(&history, range, name);
                return None;
            }
            let Some((json, before)) = self.exchange_at(range, name) else {
                break;
            };
            next = before;
            history.chain.push((line, json));
        }
        let longer = history.length().saturating_sub(CHAIN_LIMIT);
        if longer > 0 {
            let lines = history.lines();
            self.replayed
                .note_unreplayed(lines.get(..longer).unwrap_or(&lines));
            return None;
        }
        Some(history)
    }

    /// Returns the exchange of a line, and the line before it in its conversation; `None` if it
    /// isn't one of the conversation `name`.
    fn exchange_at(
        &self,
        range: Range<usize>,
        name: &str,
    ) -> Option<(Json<'r>, Option<Range<usize>>)> {
        let json = Json::parse_lossy(self.bytes.get(range)?).ok()?;
        let parsed = with_parsed_request(&json).map(Json::into_owned);
        let json = parsed.unwrap_or(json);
        if conversation_name(&json) != name {
            return None;
        }
        let readable = self.readable_exchange(&json);
        let before =
            readable.and_then(|(adapter, exchange)| self.preceding_line(adapter, &exchange));
        Some((json, before))
    }

    /// Reads on from `next`, the line before `history`, which isn't replayed, and records which
    /// lines end such a history: in a cycle all, else those of more than [`CHAIN_LIMIT`] exchanges.
    fn pass_over(&self, history: &PrecedingExchanges<'_>, next: Range<usize>, name: &str) {
        let mut lines = history.lines();
        let mut seen: HashSet<usize> = lines.iter().copied().collect();
        let mut next = Some(next);
        let mut is_cycle = false;
        while let Some(range) = next.take() {
            is_cycle = !seen.insert(range.start);
            if is_cycle {
                break;
            }
            let line = range.start;
            let Some((_, before)) = self.exchange_at(range, name) else {
                break;
            };
            lines.push(line);
            next = before;
        }
        let short = if is_cycle { 0 } else { CHAIN_LIMIT };
        lines.truncate(lines.len().saturating_sub(short));
        self.replayed.note_unreplayed(&lines);
    }
}
