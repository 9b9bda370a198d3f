//! The history of a request that continues an earlier response by its id instead of resending it.

use std::collections::HashSet;
use std::ops::Range;

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

/// A file with the index of its sightings.
#[derive(Clone, Copy)]
pub(super) struct IndexedFile<'r> {
    pub(super) bytes: &'r [u8],
    pub(super) options: ReadOptions<'r>,
    pub(super) index: &'r SightingIndex,
    pub(super) file: u32,
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
        let chain = self.preceding_exchanges(adapter, exchange, name);
        for json in chain.unwrap_or_default().iter().rev() {
            if let Some((adapter, exchange)) = self.readable_exchange(json) {
                scan_exchange(adapter, &exchange, conversation, context);
            }
        }
    }

    /// Returns the range of the line whose response the request of `exchange` continues by its id.
    fn preceding_line(&self, adapter: &dyn Adapter, exchange: &Exchange) -> Option<Range<usize>> {
        let id = adapter.previous_response_id(exchange.request?)?;
        self.index.answer(self.file, id)
    }

    /// Collects the lines that the request of `exchange` continues, newest first; `None` if they
    /// form a cycle or are more than [`CHAIN_LIMIT`].
    fn preceding_exchanges(
        &self,
        adapter: &dyn Adapter,
        exchange: &Exchange,
        name: &str,
    ) -> Option<Vec<Json<'r>>> {
        let (mut chain, mut seen) = (Vec::new(), HashSet::new());
        let mut next = self.preceding_line(adapter, exchange);
        while let Some(range) = next.take() {
            if chain.len() == CHAIN_LIMIT || !seen.insert(range.start) {
                return None;
            }
            let Some(Ok(json)) = self.bytes.get(range).map(Json::parse) else {
                break;
            };
            if conversation_name(&json) != name {
                break;
            }
            if let Some((adapter, exchange)) = self.readable_exchange(&json) {
                next = self.preceding_line(adapter, &exchange);
            }
            chain.push(json);
        }
        Some(chain)
    }
}
