//! What is read from an exchange line, and the mapping of it to output.

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;

use super::extract::ExchangeMessage;
use crate::transcript::line::LineFault;
use crate::wire::conversation::Conversation;
use crate::wire::exchange::Exchange;

/// The fault of a line that is JSON, but not an exchange.
pub(in crate::transcript) const NOT_AN_EXCHANGE: &str =
    "not an exchange: an object with `provider`, `endpoint`, `request` and `response`";

/// The outcome of reading one line.
#[derive(Debug)]
pub enum LineOutcome<T> {
    /// The mapped items of the line.
    Items(Vec<T>),
    /// The line can't be read.
    Fault(LineFault),
}

/// An item of an exchange line.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is passed on once and never stored"
)]
pub enum ExchangeItem<'s> {
    /// A message, with its conversation.
    Message(ExchangeMessage<'s>, &'s Conversation),
    /// An exchange that no adapter reads, as a whole.
    Opaque(OpaqueExchange<'s>),
}

/// An exchange that no adapter reads.
#[derive(Debug, Clone, Copy)]
pub struct OpaqueExchange<'o> {
    /// When it was recorded.
    pub time: Timestamp,
    /// The provider, as in the line.
    pub provider: &'o str,
    /// The endpoint, as in the line.
    pub endpoint: &'o str,
    /// Why no adapter reads it.
    pub reason: &'o str,
    /// The whole exchange.
    pub json: &'o Json<'o>,
}

impl OpaqueExchange<'_> {
    pub(in crate::transcript) fn new<'o>(
        exchange: &'o Exchange,
        json: &'o Json<'o>,
        reason: &'o str,
        fallback: Timestamp,
    ) -> OpaqueExchange<'o> {
        OpaqueExchange {
            time: exchange.time(None, fallback),
            provider: &exchange.provider,
            endpoint: &exchange.endpoint,
            reason,
            json,
        }
    }

    /// Returns `provider/endpoint`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.provider, self.endpoint)
    }
}

/// Maps items to output. It runs on the reading threads; an item may be mapped twice, and a result
/// may be discarded.
pub trait ItemMapper<T>: Sync {
    /// Maps one item.
    fn map(&self, item: ExchangeItem<'_>) -> T;

    /// Returns `mapped` as it would be if its message were in the session `session`; `None` if the
    /// item has to be mapped again for that.
    ///
    /// It is called only for derived session ids, which all have the same length.
    fn with_session(&self, _mapped: T, _session: &str) -> Option<T> {
        None
    }
}

impl<T, F: Fn(ExchangeItem<'_>) -> T + Sync> ItemMapper<T> for F {
    fn map(&self, item: ExchangeItem<'_>) -> T {
        self(item)
    }
}
