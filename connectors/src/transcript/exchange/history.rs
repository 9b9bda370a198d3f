//! The history of a request that continues an earlier response by its id instead of resending it.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use gristmill_schemas::json::Json;

use super::extract::{AdapterMatch, match_adapter, scan_exchange};
use crate::transcript::options::ReadOptions;
use crate::transcript::sighting_index::SightingIndex;
use crate::wire::adapter::Adapter;
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::exchange::Exchange;

/// Number of earlier exchanges that are replayed for one request. The conversation of a request
/// with a longer history begins anew.
const CHAIN_LIMIT: usize = 4096;

/// Number of replayed conversations that are kept.
const KEPT_CONVERSATIONS: usize = 64;

/// The conversations that were replayed last. In a file in the order of time each request continues
/// one of them, so that its history isn't read again. All are of one pass, because the ids of calls
/// depend on it.
#[derive(Default)]
pub(super) struct ReplayedConversations(Mutex<VecDeque<ReplayedConversation>>);

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

impl ReplayedConversations {
    fn up_to(&self, line: usize, name: &str) -> Option<ReplayedConversation> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut newest_first = kept.iter().rev();
        let found = newest_first.find(|known| known.line == line && known.name == name);
        found.cloned()
    }

    fn keep(&self, replayed: ReplayedConversation) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_CONVERSATIONS {
            kept.pop_front();
        }
        kept.push_back(replayed);
    }
}

/// The exchanges that a request continues.
#[derive(Default)]
struct PrecedingExchanges<'r> {
    /// Those that were replayed before.
    known: Option<ReplayedConversation>,
    /// Those after these, newest first.
    chain: Vec<Json<'r>>,
}

impl PrecedingExchanges<'_> {
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
        let line = last.start;
        let history = self.preceding_exchanges(last, name).unwrap_or_default();
        let length = history.length();
        if let Some(known) = history.known {
            *conversation = known.conversation;
        }
        for json in history.chain.iter().rev() {
            if let Some((adapter, exchange)) = self.readable_exchange(json) {
                scan_exchange(adapter, &exchange, conversation, context);
            }
        }
        if !history.chain.is_empty() {
            self.replayed.keep(ReplayedConversation {
                line,
                name: name.to_owned(),
                length,
                conversation: conversation.clone(),
            });
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
            history.known = self.replayed.up_to(range.start, name);
            if history.known.is_some() {
                break;
            }
            if history.chain.len() == CHAIN_LIMIT || !seen.insert(range.start) {
                return None;
            }
            let Some(Ok(json)) = self.bytes.get(range).map(Json::parse_lossy) else {
                break;
            };
            if conversation_name(&json) != name {
                break;
            }
            if let Some((adapter, exchange)) = self.readable_exchange(&json) {
                next = self.preceding_line(adapter, &exchange);
            }
            history.chain.push(json);
        }
        (history.length() <= CHAIN_LIMIT).then_some(history)
    }
}
