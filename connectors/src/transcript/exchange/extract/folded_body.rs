//! The body of a response, and how the answer in it ended.

use std::rc::Rc;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::MessageStatus;
use gristmill_schemas::message::request::StopReason;

use crate::wire::adapter::Adapter;
use crate::wire::exchange::{CachedFold, Exchange, ResponseBody};

/// The body of a response; a stream is folded into one body.
pub(super) enum FoldedBody<'b> {
    Json(&'b Json<'b>),
    Stream(Rc<CachedFold<'b>>),
}

impl<'b> FoldedBody<'b> {
    /// Returns the body of the response. A stream that was cut before its first event has none.
    /// With the HTTP status of an error it has the body that it folds to, and a missing body is
    /// null; one that isn't JSON is kept on its own.
    pub(super) fn of(adapter: &dyn Adapter, exchange: &Exchange<'b>) -> Option<FoldedBody<'b>> {
        match &exchange.response {
            ResponseBody::None => (exchange.has_failed() && !exchange.has_raw_text)
                .then_some(FoldedBody::Json(&Json::Null)),
            ResponseBody::Json(json) => Some(FoldedBody::Json(json)),
            ResponseBody::Stream(_) => exchange
                .folded(adapter)
                .filter(|fold| exchange.has_failed() || !fold.is_empty)
                .map(FoldedBody::Stream),
        }
    }

    pub(super) fn json(&self) -> &Json<'b> {
        match self {
            FoldedBody::Json(json) => json,
            FoldedBody::Stream(fold) => &fold.folded.body,
        }
    }

    /// Returns the stop reason and status of an answer with stop reason `reason`, taking into
    /// account an error or a missing end of the stream. A status of `None` leaves it as it is.
    pub(super) fn outcome(
        &self,
        reason: Option<StopReason>,
    ) -> (Option<StopReason>, Option<MessageStatus>) {
        let folded = match self {
            FoldedBody::Json(_) => None,
            FoldedBody::Stream(fold) => Some(&fold.folded),
        };
        let has_failed = folded.is_some_and(|folded| folded.error.is_some());
        match reason {
            _ if has_failed => (Some(StopReason::Error), Some(MessageStatus::Error)),
            Some(StopReason::Error) => (reason, Some(MessageStatus::Error)),
            Some(StopReason::Cancelled) => (reason, Some(MessageStatus::Cancelled)),
            _ => (
                reason,
                folded
                    .filter(|folded| !folded.complete)
                    .map(|_| MessageStatus::Partial),
            ),
        }
    }
}
