//! Reads and writes whole bodies without loss: the adapter converts what the canonical model holds,
//! this module computes, stores and applies the residual of the rest.
//!
//! | module | question |
//! |---|---|
//! | `read` | how is a body read, and its residual stored with the messages? |
//! | `write` | how is a body written, and the residual applied? |
//! | `residual_scope` | which residuals are stored? |
//! | `stream` | how is a recorded stream decoded into canonical events? |

mod read;
mod residual_scope;
mod stream;
mod write;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::ids::MessagePosition;
use gristmill_schemas::message::request::{Choice, Request, Response};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, Message};

pub use read::{
    read_choices, read_messages, read_request, read_response, scan_request, scan_response,
};
pub use stream::decode_stream;
pub use write::{write_request, write_response};

use super::adapter::Adapter;
use super::message_writer::DroppedBlock;
use super::provider_raw;
use super::read_warning::ReadWarning;

/// The result of reading a request.
#[derive(Debug)]
pub struct ReadRequest<'j> {
    /// The request.
    pub request: Request<'j>,
    /// The position of each of its messages in the conversation.
    pub positions: Vec<MessagePosition>,
    /// Parts that were kept without being understood.
    pub warnings: Vec<ReadWarning>,
}

/// The result of reading a response.
#[derive(Debug)]
pub struct ReadResponse<'j> {
    /// The response.
    pub response: Response<'j>,
    /// The position of each of its choices in the conversation.
    pub positions: Vec<MessagePosition>,
    /// Parts that were kept without being understood.
    pub warnings: Vec<ReadWarning>,
}

/// The result of writing a body.
#[derive(Debug)]
pub struct WrittenBody<'m> {
    /// The body.
    pub json: Json<'m>,
    /// The blocks that weren't written.
    pub drops: Vec<DroppedBlock>,
}

/// Adds the stored wire ids of the calls and results of `messages` to `ids`.
fn recall_ids<'m>(
    adapter: &dyn Adapter,
    messages: impl Iterator<Item = &'m Message<'m>>,
    ids: &mut ToolIdMap,
) {
    for message in messages {
        let wire_ids = provider_raw::call_ids(message, adapter.key());
        let canonical = message.content.iter().filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(&*call.id),
            ContentBlock::ToolResult(result) => Some(&*result.tool_use_id),
            _ => None,
        });
        for (canonical, wire_id) in canonical.zip(wire_ids) {
            if let Some(wire_id) = wire_id {
                ids.remember(adapter.provider(), canonical, wire_id);
            }
        }
    }
}

/// Calls [`recall_ids`] for the messages of all choices. If two choices are the same message, and
/// so have the same calls, the ids of the first one win, because that one is stored.
fn recall_ids_of_choices(adapter: &dyn Adapter, choices: &[Choice], ids: &mut ToolIdMap) {
    let messages = choices.iter().rev().map(|choice| &choice.message);
    recall_ids(adapter, messages, ids);
}
