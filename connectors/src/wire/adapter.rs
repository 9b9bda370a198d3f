//! The contract between an adapter (one dialect of one provider) and the shared codec.

use std::borrow::Cow;
use std::fmt;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::capability::Capabilities;
use gristmill_schemas::message::request::{Request, Response};
use gristmill_schemas::message::stream::Assembler;
use gristmill_schemas::message::{Message, Timestamp};

use super::error::ErrorFormat;
use super::framing::StreamFrame;
use super::message_reader::MessageReader;
use super::message_writer::MessageWriter;
use super::unit_path::UnitPath;

/// One provider dialect: the only code that contains the field names of that wire format.
///
/// An adapter is a stateless value: its methods may be called in any order and on any number of
/// threads, and return the same result for the same arguments. It does no I/O, reads no clock and
/// generates no ids; the codec passes in what an adapter needs ([`MessageReader`],
/// [`MessageWriter`]).
///
/// # Units
///
/// A wire body is an *envelope* (model, options, usage …) around *units*. A unit is the part of the
/// body that becomes one canonical message, or a few neighbouring ones: an item of `messages`, the
/// `system` prompt, one choice of a response, a run of items. The adapter reports the [`UnitPath`]
/// of each unit when it reads it and again when it writes it. The codec compares unit with unit and
/// envelope with envelope, and stores the differences with the message, request or response that
/// they belong to. So a message keeps its provider-specific members when another request resends
/// it.
///
/// # Reading
///
/// [`read_request`](Adapter::read_request) and [`read_response`](Adapter::read_response) must
/// accept everything that the provider might send, now or in a later version. They convert what the
/// canonical model can hold; the residual keeps the rest. So they never fail on an unknown field,
/// block, role or value, and fail only if the body isn't of this dialect. A block that none of the
/// six kinds can hold becomes [`MessageReader::unknown_block`], so that it keeps its position; a
/// message whose role isn't one of the four becomes [`MessageReader::push_unknown_role`]. Readers
/// never invent content, with one exception: an empty user or assistant message of a request
/// becomes one empty text, because the model has no empty messages.
///
/// Calls and results go through [`MessageReader::tool_use`] and [`MessageReader::tool_result`].
/// Providers identify a call by an id, by the name of its tool or only by order (Gemini, Ollama);
/// the reader joins calls and results by whichever is present.
///
/// # Writing
///
/// [`write_request`](Adapter::write_request) and [`write_response`](Adapter::write_response) write
/// the canonical message in the simplest form of the provider. The same input must give the same
/// output in all later versions: stored residuals are differences from it, so a change to what an
/// adapter writes is a change of format. Written bodies contain no cache markers and no
/// preferences; [`send_hints`](Adapter::send_hints) adds those to requests that are sent.
///
/// A block that the dialect can't express, or that only another provider can interpret (thinking,
/// unknown blocks), is dropped as a whole through [`MessageWriter::drop_block`], never truncated. A
/// message whose blocks are all dropped isn't written, and has no path.
///
/// # Round trip
///
/// For every body `b`: reading `b`, writing the result and applying the residual gives `b`, value
/// for value. The codec guarantees this for every adapter; the quality of an adapter is the size of
/// its residuals, which is measured.
///
/// # Streams
///
/// [`fold`](Adapter::fold) turns the events of a stream into the body that the same endpoint
/// returns without streaming. Padding, pings and keep-alives are removed; everything else must be
/// somewhere in the folded body. A truncated stream gives the part that was received.
pub trait Adapter: Send + Sync + fmt::Debug {
    /// Returns `provider/endpoint`, as exchanges spell it: the key of this adapter in
    /// `provider_raw`.
    fn key(&self) -> &'static str;

    /// Returns the key of the provider, as in model ids and metadata.
    fn provider(&self) -> &'static str {
        self.key()
            .split_once('/')
            .map_or(self.key(), |(provider, _)| provider)
    }

    /// Returns the capabilities of `model` that this adapter exposes.
    fn capabilities(&self, model: &str) -> Capabilities;

    /// Returns true if `body` looks like a request of this dialect.
    fn is_request(&self, body: &Json) -> bool;

    /// Returns true if `body` looks like a response of this dialect.
    fn is_response(&self, body: &Json) -> bool;

    /// Reads a request: passes the messages to `reader`, unit by unit, and returns everything else
    /// (with an empty list of messages).
    ///
    /// # Errors
    /// If the body isn't of this dialect.
    fn read_request<'j>(
        &self,
        body: &'j Json<'j>,
        reader: &mut MessageReader<'_, 'j>,
    ) -> Result<Request<'j>, DialectError>;

    /// Writes a request, grouped into the units of `writer`.
    fn write_request<'m>(
        &self,
        request: &'m Request<'m>,
        writer: &mut MessageWriter<'_>,
    ) -> WireProjection<'m>;

    /// Reads a response: passes the choices to `reader` and returns everything else (with an empty
    /// list of choices).
    ///
    /// # Errors
    /// If the body isn't of this dialect.
    fn read_response<'j>(
        &self,
        body: &'j Json<'j>,
        reader: &mut MessageReader<'_, 'j>,
    ) -> Result<Response<'j>, DialectError>;

    /// Returns the creation time in `body`, a response of this dialect: the time that
    /// [`Adapter::read_response`] returns, for callers that need nothing else of it.
    fn response_created_at(&self, _body: &Json) -> Option<Timestamp> {
        None
    }

    /// Writes a response; choice number `n` is unit number `n`.
    fn write_response<'m>(
        &self,
        response: &'m Response<'m>,
        writer: &mut MessageWriter<'_>,
    ) -> WireProjection<'m>;

    /// Writes the unit of an assistant message as in a response, or as in a request, for dialects
    /// where these differ: a message may be in the other body than the one that it was read from,
    /// and its residual is the difference from what it was there. `None` if both are the same.
    fn write_answer<'m>(
        &self,
        _message: &'m Message<'m>,
        _in_response: bool,
        _writer: &mut MessageWriter<'_>,
    ) -> Option<Json<'m>> {
        None
    }

    /// Returns the format of the provider's error bodies.
    fn errors(&self) -> &'static dyn ErrorFormat;

    /// Folds the events of a stream into a body.
    fn fold<'f>(&self, frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f>;

    /// Returns true if the text of a frame shows that a later frame repeats its content as a whole.
    /// Most frames of a stream are such deltas; they needn't be parsed if the whole follows.
    fn is_delta_frame(&self, _frame: &str) -> bool {
        false
    }

    /// Returns true if `folded`, a stream folded without its delta frames, equals the fold of all
    /// frames.
    fn is_complete_without_deltas(&self, _folded: &FoldedStream) -> bool {
        false
    }

    /// Returns a decoder that turns a stream into canonical events one frame at a time, or `None`
    /// if this adapter has none.
    fn stream_decoder(&self) -> Option<Box<dyn StreamDecoder>> {
        None
    }

    /// Groups the messages of a request that was never on a wire into units: lists of indices into
    /// `messages`, with each message in one list. By default each message is a unit.
    fn group_units(&self, messages: &[&Message]) -> Vec<Vec<usize>> {
        (0..messages.len()).map(|index| vec![index]).collect()
    }

    /// Returns true if the provider stores responses, so that a request may continue one by its id.
    fn stores_responses(&self) -> bool {
        false
    }

    /// Returns the id of the stored response that `request` continues instead of repeating the
    /// conversation.
    fn previous_response_id<'j>(&self, _request: &'j Json) -> Option<&'j str> {
        None
    }

    /// Adds the members that only a request that is sent contains: cache markers, routing
    /// preferences.
    fn send_hints(&self, _body: &mut Json, _request: &Request, _hints: &SendHints) {}

    /// Returns true if a signature identifies thinking as this provider's. Otherwise thinking that
    /// was read from its wire is marked in `provider_raw`.
    fn signs_thinking(&self) -> bool {
        false
    }

    /// Returns true if the provider accepts `id` as the id of a call.
    fn accepts_call_id(&self, _id: &str) -> bool {
        true
    }

    /// Returns the wire id of a call that has no id of this provider yet, from its canonical id.
    fn default_call_id(&self, canonical: &str) -> String {
        canonical.to_owned()
    }
}

/// Decodes one stream incrementally.
pub trait StreamDecoder {
    /// Decodes the next event into `assembler`. `call_id` maps the provider's id of a call to the
    /// canonical one.
    fn decode_event(
        &mut self,
        data: &Json,
        assembler: &mut Assembler,
        call_id: &mut dyn FnMut(Option<&str>) -> String,
    );

    /// Ends the open blocks and completes the message after the last event. A stream without the
    /// provider's final event counts as truncated.
    fn finish(&mut self, assembler: &mut Assembler);
}

/// Properties of the endpoint to which a request is sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendHints {
    /// The provider's price list has a price for cache reads of this model.
    pub cache_read_priced: bool,
}

/// What an adapter writes: a body and the path of each unit in it.
#[derive(Debug)]
pub struct WireProjection<'m> {
    /// The body.
    pub body: Json<'m>,
    /// One path per unit, in the order of the units; `None` for a unit that wasn't written.
    pub unit_paths: Vec<Option<UnitPath>>,
}

/// The body that a stream folds to.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedStream<'f> {
    /// The body.
    pub body: Json<'f>,
    /// True if the stream reached its final event.
    pub complete: bool,
    /// The error that the stream contained, if any.
    pub error: Option<Json<'f>>,
}

/// The body isn't of the dialect of the adapter that read it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a body of this dialect: {0}")]
pub struct DialectError(pub Cow<'static, str>);

/// Returns the list `key` of a body.
///
/// # Errors
/// If the body has no such list.
pub(super) fn required_list<'j>(
    body: &'j Json<'j>,
    key: &'static str,
) -> Result<&'j [Json<'j>], DialectError> {
    let list = body.get(key).and_then(Json::as_array);
    list.ok_or_else(|| DialectError(format!("no list of {key}").into()))
}
