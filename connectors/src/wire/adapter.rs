//! The contract between a provider's dialect and the frame.

use std::borrow::Cow;
use std::fmt;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::capability::Capabilities;
use gristmill_schemas::message::request::{Request, Response};
use gristmill_schemas::message::stream::Assembler;
use gristmill_schemas::message::{Message, Timestamp};

use super::error::ErrorForm;
use super::framing::Frame;
use super::place::Place;
use super::read::Reader;
use super::write::Writer;

/// One provider dialect: everything that knows the field names of its wire.
///
/// An adapter is a value without state: it may be asked anything, in any order, on any number of
/// threads, and gives the same answer to the same question. It does no I/O, reads no clock and
/// mints no ids; what it needs of the world the frame hands to it ([`Reader`], [`Writer`]).
///
/// # Units
///
/// A wire body is an *envelope* (model, options, usage …) around *units*. A unit is the part of the
/// body that becomes one canonical message, or a few neighbours: a member of `messages`, the
/// `system` prompt, one choice of a response, a run of items. The adapter says where each unit
/// stands ([`Place`]) when it reads it and again when it writes it; the frame compares unit with
/// unit and envelope with envelope, and stores what differs with the message, or with the request
/// or response, that it belongs to. So a message keeps its peculiarities when it is resent in
/// another request.
///
/// # Reading
///
/// [`read_request`](Adapter::read_request) and [`read_response`](Adapter::read_response) must
/// accept whatever the provider might really send, today or tomorrow. They take what the canonical
/// model can hold and leave the rest: what they leave is found again by the difference. So they
/// never fail on an unknown field, block, role or value; they fail only if the body isn't of this
/// dialect at all. A block that none of the six kinds can hold becomes [`Reader::unknown`], so that
/// it keeps its place; so does a message of another role than the four ([`Reader::unknown_role`]).
/// Content is never invented, with one exception: a user or assistant message of a request that
/// says nothing becomes one empty text, because the model has no empty messages.
///
/// Calls and results go through [`Reader::tool_use`] and [`Reader::tool_result`]. Providers name a
/// call by an id, by its tool's name or by nothing but order (Gemini, Ollama); the reader joins
/// them by whatever there is.
///
/// # Writing
///
/// [`write_request`](Adapter::write_request) and [`write_response`](Adapter::write_response) write
/// what the canonical message says, in the provider's plainest form. The same input gives the same
/// output for ever: stored residuals are differences from it, so a change to what an adapter writes
/// is a change of format. Written bodies hold no cache markers and no preferences; those are
/// [`send_hints`](Adapter::send_hints), added to requests that are really sent.
///
/// A block that the dialect can't express, or that is another provider's secret (thinking, unknown
/// blocks), is dropped whole through [`Writer::drop_block`], never cut down; a message whose blocks
/// all drop isn't written, and has no place.
///
/// # Round trip
///
/// For every body `b`: reading `b`, writing what was read and applying the residual gives `b`,
/// value for value. The frame sees to that whatever the adapter does; an adapter is good if the
/// residual is small, which is measured.
///
/// # Streams
///
/// [`fold`](Adapter::fold) turns the events of a stream into the body that the provider's endpoint
/// without streaming would have returned. Padding, pings and keep-alives vanish; everything else
/// has to be somewhere in the folded body. A stream that was cut gives what there is.
pub trait Adapter: Send + Sync + fmt::Debug {
    /// `provider/endpoint`, as exchanges name it: the key of this adapter's part of `provider_raw`.
    fn key(&self) -> &'static str;

    /// The provider's key, as model ids and metadata name it.
    fn provider(&self) -> &'static str {
        self.key()
            .split_once('/')
            .map_or(self.key(), |(provider, _)| provider)
    }

    /// What the provider can do with `model`, as far as this adapter exposes it.
    fn capabilities(&self, model: &str) -> Capabilities;

    /// True if `body` looks like a request of this dialect.
    fn is_request(&self, body: &Json) -> bool;

    /// True if `body` looks like a response of this dialect.
    fn is_response(&self, body: &Json) -> bool;

    /// Reads a request: messages into `reader`, unit by unit, and everything else into the answer
    /// (whose own list of messages stays empty).
    ///
    /// # Errors
    /// If the body isn't of this dialect.
    fn read_request<'j>(
        &self,
        body: &'j Json<'j>,
        reader: &mut Reader<'_, 'j>,
    ) -> Result<Request<'j>, Unreadable>;

    /// Writes a request, unit by unit as `writer` has them.
    fn write_request<'m>(&self, request: &'m Request<'m>, writer: &mut Writer<'_>) -> Written<'m>;

    /// Reads a response: its choices into `reader`, everything else into the answer (whose own list
    /// of choices stays empty).
    ///
    /// # Errors
    /// If the body isn't of this dialect.
    fn read_response<'j>(
        &self,
        body: &'j Json<'j>,
        reader: &mut Reader<'_, 'j>,
    ) -> Result<Response<'j>, Unreadable>;

    /// When `body`, a response of this dialect, says that it was made: what
    /// [`Adapter::read_response`] answers as its time, for who needs no more of it.
    fn answered_at(&self, _body: &Json) -> Option<Timestamp> {
        None
    }

    /// Writes a response; choice number `n` is unit number `n`.
    fn write_response<'m>(
        &self,
        response: &'m Response<'m>,
        writer: &mut Writer<'_>,
    ) -> Written<'m>;

    /// How the provider tells of failures.
    fn errors(&self) -> &'static dyn ErrorForm;

    /// Folds the events of a stream into a body.
    fn fold<'f>(&self, frames: Vec<Frame<'f>>) -> Folded<'f>;

    /// True if the frame, by its text, holds only a piece of what a later one tells whole. Streams
    /// are long because of their pieces; they needn't be read if the whole comes.
    fn is_piece(&self, _frame: &str) -> bool {
        false
    }

    /// True if a stream that was folded without its pieces comes to what it would come to with
    /// them.
    fn is_whole(&self, _folded: &Folded) -> bool {
        false
    }

    /// Follows a stream and tells of it in canonical events. Adapters that can't follow piece by
    /// piece have no follower; then the events are told from the folded body.
    fn follow(&self) -> Option<Box<dyn Follower>> {
        None
    }

    /// How the messages of a request that no wire has seen group into units: lists of places in
    /// `messages`, each message in one. By default each is a unit of its own.
    fn group(&self, messages: &[&Message]) -> Vec<Vec<usize>> {
        (0..messages.len()).map(|index| vec![index]).collect()
    }

    /// True if the provider keeps its answers, so that a request may go on from one by its id.
    fn keeps_answers(&self) -> bool {
        false
    }

    /// The id of the answer that a request goes on from instead of sending what came before.
    fn goes_on_from<'j>(&self, _request: &'j Json) -> Option<&'j str> {
        None
    }

    /// Adds what only a request that is really sent carries: cache markers, routing preferences.
    fn send_hints(&self, _body: &mut Json, _request: &Request, _hints: &SendHints) {}

    /// True if a thought's signature tells that it is this provider's. Where it doesn't, thoughts
    /// that were read from its wire are marked.
    fn signs_thinking(&self) -> bool {
        false
    }

    /// True if the provider would take `id` as the id of a call.
    fn accepts_call_id(&self, _id: &str) -> bool {
        true
    }

    /// The id that a call gets on this wire if no provider has named it yet.
    fn call_id(&self, canonical: &str) -> String {
        canonical.to_owned()
    }
}

/// Follows one stream.
pub trait Follower {
    /// Takes the next event; what it tells goes to `assembler`. `call_id` gives the canonical id of
    /// a call by the provider's.
    fn event(
        &mut self,
        data: &Json,
        assembler: &mut Assembler,
        call_id: &mut dyn FnMut(Option<&str>) -> String,
    );

    /// The stream is over: ends what is open and completes the answer. A stream that ends before
    /// its provider said so was cut.
    fn finish(&mut self, assembler: &mut Assembler);
}

/// What is known about where a request goes.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendHints {
    /// The provider's price list has a price for reading this model's cache.
    pub cache_read_priced: bool,
}

/// A body and where its units stand: one place per unit, `None` for a unit that wasn't written.
#[derive(Debug)]
pub struct Written<'m> {
    /// The body.
    pub body: Json<'m>,
    /// The places, in the order of the units.
    pub places: Vec<Option<Place>>,
}

/// A stream, folded.
#[derive(Debug, Clone, PartialEq)]
pub struct Folded<'f> {
    /// The body.
    pub body: Json<'f>,
    /// True if the stream came to its end.
    pub complete: bool,
    /// The error that it carried, if it did.
    pub error: Option<Json<'f>>,
}

/// A body that isn't of the dialect that it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a body of this dialect: {0}")]
pub struct Unreadable(pub Cow<'static, str>);
