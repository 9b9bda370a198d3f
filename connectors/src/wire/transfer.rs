//! Reading and writing whole bodies: the adapter does the provider's part, the frame keeps what it
//! leaves.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::ids::Position;
use gristmill_schemas::message::request::{Choice, Request, Response};
use gristmill_schemas::message::stream::{Assembler, StreamEvent};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, Message};

use super::adapter::{Adapter, Unreadable, Written};
use super::framing::Frame;
use super::place::{put_units, take_units};
use super::raw::{self, Unapplied};
use super::read::{Conversation, ReadContext, ReadWarning, Reader, Unit};
use super::write::{Drop, DropReason, WriteOptions, Writer, units};

/// A request, read.
#[derive(Debug)]
pub struct ReadRequest<'j> {
    /// The request.
    pub request: Request<'j>,
    /// Where each of its messages stands in the conversation.
    pub positions: Vec<Position>,
    /// What was kept without being understood.
    pub warnings: Vec<ReadWarning>,
}

/// A response, read.
#[derive(Debug)]
pub struct ReadResponse<'j> {
    /// The response.
    pub response: Response<'j>,
    /// Where each of its choices stands in the conversation.
    pub positions: Vec<Position>,
    /// What was kept without being understood.
    pub warnings: Vec<ReadWarning>,
}

/// A body, written.
#[derive(Debug)]
pub struct Body<'m> {
    /// The body.
    pub json: Json<'m>,
    /// What wasn't written.
    pub drops: Vec<Drop>,
}

/// Reads a request and keeps its residual. The conversation moves on to after its last message.
///
/// # Errors
/// If the body isn't of the adapter's dialect.
pub fn read_request<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> Result<ReadRequest<'j>, Unreadable> {
    request(adapter, body, conversation, context, Wanted::All)
}

/// [`read_request`] for who takes messages from it and writes no request of it again: residuals are
/// kept only of the messages at places that are `wanted`, and none of the envelope.
///
/// # Errors
/// If the body isn't of the adapter's dialect.
pub fn read_messages<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
    wanted: &dyn Fn(&Position) -> bool,
) -> Result<ReadRequest<'j>, Unreadable> {
    request(
        adapter,
        body,
        conversation,
        context,
        Wanted::Messages(wanted),
    )
}

/// Of what residuals are kept.
#[derive(Clone, Copy)]
enum Wanted<'w> {
    /// Of everything.
    All,
    /// Of the messages at these places.
    Messages(&'w dyn Fn(&Position) -> bool),
    /// Of the messages at these places, and of the envelope with the first of all.
    Answers(&'w dyn Fn(&Position) -> bool),
}

impl Wanted<'_> {
    fn at(self, position: Option<&Position>) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Messages(wanted) | Wanted::Answers(wanted) => position.is_some_and(wanted),
        }
    }

    /// The residuals of `original` beside what is `written`, if any of them is wanted.
    fn of<'m, 'j>(
        self,
        read_units: &[Unit],
        is_wanted: &dyn Fn(&Unit) -> bool,
        original: &'j Json<'j>,
        written: impl FnOnce() -> Written<'m>,
    ) -> Residuals<'j> {
        let with_envelope = match self {
            Wanted::All => true,
            Wanted::Messages(_) => false,
            // Where there is no answer the envelope is all that there is.
            Wanted::Answers(_) => read_units.first().is_none_or(is_wanted),
        };
        if !with_envelope && !read_units.iter().any(is_wanted) {
            return Residuals {
                units: Vec::new(),
                envelope: None,
            };
        }
        residuals(written(), original, read_units, is_wanted, with_envelope)
    }
}

fn request<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
    wanted: Wanted<'_>,
) -> Result<ReadRequest<'j>, Unreadable> {
    let mut reader = Reader::new(adapter, conversation, context);
    let mut request = adapter.read_request(body, &mut reader)?;
    reader.units.retain(|unit| !unit.messages.is_empty());
    let Reader {
        messages,
        units: read_units,
        warnings,
        positions,
        ..
    } = reader;
    request.messages = messages;
    mark_parts(adapter, &mut request.messages, &read_units);

    // A residual is kept with the first message of its unit.
    let is_wanted = |unit: &Unit| {
        wanted.at(unit
            .messages
            .first()
            .and_then(|first| positions.get(*first)))
    };
    let residuals = wanted.of(&read_units, &is_wanted, body, || {
        let write_units = units(adapter, &request.messages);
        let mut writer = Writer::new(
            adapter,
            &mut conversation.ids,
            write_units,
            WriteOptions::default(),
        );
        adapter.write_request(&request, &mut writer)
    });
    for (unit, residual) in read_units.iter().zip(residuals.units) {
        if let (Some(residual), Some(message)) =
            (residual, request.messages.get_mut(unit.messages[0]))
        {
            keep(&mut message.metadata.provider_raw, adapter.key(), residual);
        }
    }
    if let Some(residual) = residuals.envelope {
        keep(&mut request.provider_raw, adapter.key(), residual);
    }
    Ok(ReadRequest {
        request,
        positions,
        warnings,
    })
}

/// Where the messages of a request stand, without reading more of it than that takes. The
/// conversation moves on as in [`read_request`].
///
/// # Errors
/// If the body isn't of the adapter's dialect.
pub fn scan_request<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> Result<Vec<Position>, Unreadable> {
    let mut reader = Reader::new(adapter, conversation, context);
    adapter.read_request(body, &mut reader)?;
    Ok(reader.positions)
}

/// Where the choices of a response stand, and what it says beside them. The conversation moves on
/// as in [`read_response`].
///
/// # Errors
/// If the body isn't of the adapter's dialect.
pub fn scan_response<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> Result<(Vec<Position>, Response<'j>), Unreadable> {
    let mut reader = Reader::new(adapter, conversation, context);
    let response = adapter.read_response(body, &mut reader)?;
    reader.finish_choices();
    Ok((reader.positions, response))
}

/// Reads a response and keeps its residual, with the message that counts. The conversation moves on
/// to after that message.
///
/// # Errors
/// If the body isn't of the adapter's dialect.
pub fn read_response<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> Result<ReadResponse<'j>, Unreadable> {
    response(adapter, body, conversation, context, Wanted::All)
}

/// [`read_response`] for who takes messages from it: residuals are kept only of the answers at
/// places that are `wanted`, and that of the envelope only if the first one is.
///
/// # Errors
/// If the body isn't of the adapter's dialect.
pub fn read_answers<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
    wanted: &dyn Fn(&Position) -> bool,
) -> Result<ReadResponse<'j>, Unreadable> {
    response(
        adapter,
        body,
        conversation,
        context,
        Wanted::Answers(wanted),
    )
}

fn response<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
    wanted: Wanted<'_>,
) -> Result<ReadResponse<'j>, Unreadable> {
    let mut reader = Reader::new(adapter, conversation, context);
    let mut response = adapter.read_response(body, &mut reader)?;
    reader.finish_choices();
    let Reader {
        choices,
        units: read_units,
        warnings,
        positions,
        ..
    } = reader;
    response.choices = choices;
    if let Some(model) = &response.model {
        let maker = context.maker.unwrap_or(adapter.provider());
        let model = gristmill_schemas::message::model_id::canonical(maker, model);
        for choice in &mut response.choices {
            choice.message.metadata.model = Some(Cow::Owned(model.clone()));
        }
    }
    let is_wanted = |unit: &Unit| {
        wanted.at(unit
            .messages
            .first()
            .and_then(|first| positions.get(*first)))
    };
    let residuals = wanted.of(&read_units, &is_wanted, body, || {
        // Who writes these answers again knows the calls of all; the conversation goes on with
        // those of the first.
        let mut of_all;
        let ids = match response.choices.as_slice() {
            [] | [_] => &mut conversation.ids,
            choices => {
                of_all = conversation.ids.clone();
                recall_ids_of_choices(adapter, choices, &mut of_all);
                &mut of_all
            }
        };
        let mut writer = Writer::new(adapter, ids, Vec::new(), WriteOptions::default());
        adapter.write_response(&response, &mut writer)
    });
    for (choice, residual) in response.choices.iter_mut().zip(residuals.units) {
        if let Some(residual) = residual {
            keep(
                &mut choice.message.metadata.provider_raw,
                adapter.key(),
                residual,
            );
        }
    }
    if let Some(residual) = residuals.envelope {
        keep(&mut response.provider_raw, adapter.key(), residual);
    }
    Ok(ReadResponse {
        response,
        positions,
        warnings,
    })
}

/// Writes a request for the adapter's provider; what was read from the same provider comes out as
/// it went in.
pub fn write_request<'m>(
    adapter: &dyn Adapter,
    request: &'m Request<'m>,
    ids: &mut ToolIdMap,
    options: WriteOptions,
) -> Body<'m> {
    recall_ids(adapter, request.messages.iter(), ids);
    let write_units = units(adapter, &request.messages);
    let mut writer = Writer::new(adapter, ids, write_units.clone(), options);
    let written = adapter.write_request(request, &mut writer);
    let owners: Vec<Vec<&Message>> = write_units
        .iter()
        .map(|unit| {
            unit.messages
                .iter()
                .map(|&index| &request.messages[index])
                .collect()
        })
        .collect();
    restore(
        adapter,
        written,
        &owners,
        request.provider_raw.as_ref(),
        writer,
    )
}

/// Writes a response in the form of the adapter's provider; what was read from the same provider
/// comes out as it went in.
pub fn write_response<'m>(
    adapter: &dyn Adapter,
    response: &'m Response<'m>,
    ids: &mut ToolIdMap,
    options: WriteOptions,
) -> Body<'m> {
    recall_ids_of_choices(adapter, &response.choices, ids);
    let mut writer = Writer::new(adapter, ids, Vec::new(), options);
    let written = adapter.write_response(response, &mut writer);
    let owners: Vec<_> = response
        .choices
        .iter()
        .map(|choice| vec![&choice.message])
        .collect();
    restore(
        adapter,
        written,
        &owners,
        response.provider_raw.as_ref(),
        writer,
    )
}

/// Follows a recorded stream and tells of it in canonical events; `model` is the canonical id of
/// the model that was asked.
///
/// Calls have the ids that they have in the finished message.
pub fn follow<'f>(
    adapter: &dyn Adapter,
    model: &str,
    frames: Vec<Frame<'f>>,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> Vec<StreamEvent<'static>> {
    let mut assembler = Assembler::new(model);
    let Some(mut follower) = adapter.follow() else {
        return assembler.take_events();
    };
    let folded = adapter.fold(frames.clone());
    let read = read_response(adapter, &folded.body, conversation, context);
    let message = read.as_ref().ok().and_then(|read| read.response.message());
    let mut calls: Vec<(Option<String>, String)> =
        message.map_or_else(Vec::new, |message| named_calls(message, adapter.key()));
    let mut call_id = |wire_id: Option<&str>| {
        let place = calls
            .iter()
            .position(|(known, _)| known.as_deref() == wire_id)
            .unwrap_or(0);
        if place < calls.len() {
            calls.remove(place).1
        } else {
            String::new()
        }
    };
    for frame in &frames {
        follower.event(&frame.data, &mut assembler, &mut call_id);
    }
    follower.finish(&mut assembler);
    assembler.take_events()
}

/// The calls of a message: the provider's id, and the canonical one.
fn named_calls(message: &Message, key: &str) -> Vec<(Option<String>, String)> {
    let mut wire_ids = raw::call_ids(message, key).into_iter();
    let calls = message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolUse(call) => Some(call.id.to_string()),
        _ => None,
    });
    calls
        .map(|id| (wire_ids.next().flatten().map(str::to_owned), id))
        .collect()
}

/// The residuals of a body.
struct Residuals<'j> {
    units: Vec<Option<Members<'j>>>,
    envelope: Option<Members<'j>>,
}

type Members<'j> = [(&'static str, Json<'j>); 2];

/// The residuals of the units that are wanted, and of the envelope if it is.
fn residuals<'j>(
    written: Written,
    original: &'j Json<'j>,
    read_units: &[Unit],
    is_wanted: &dyn Fn(&Unit) -> bool,
    with_envelope: bool,
) -> Residuals<'j> {
    let places: Vec<_> = read_units
        .iter()
        .map(|unit| Some(unit.place.clone()))
        .collect();
    let (projected_envelope, projected) = take_units(written.body, &written.places);
    let (envelope, originals) = take_units(original.reborrow(), &places);
    let pairs = projected.iter().zip(&originals).zip(read_units);
    let units = pairs.map(|((projection, original), unit)| match is_wanted(unit) {
        true => raw::residual(projection, original),
        false => None,
    });
    let units = units.collect();
    let envelope = if with_envelope {
        raw::residual(&projected_envelope, &envelope)
    } else {
        None
    };
    Residuals { units, envelope }
}

fn keep<'j>(raw: &mut Option<Object<'j>>, key: &'static str, residual: Members<'j>) {
    for (name, value) in residual {
        raw::keep(raw, key, name, value);
    }
}

/// Marks the messages of those units that the adapter's own grouping wouldn't make again.
fn mark_parts(adapter: &dyn Adapter, messages: &mut [Message], read_units: &[Unit]) {
    let grouped = adapter.group(&messages.iter().collect::<Vec<_>>());
    let mark = |messages: &mut [Message], unit: &Unit| {
        for (part, &index) in unit.messages.iter().enumerate() {
            let pair = vec![
                Json::from(part as u64),
                Json::from(unit.messages.len() as u64),
            ];
            if let Some(message) = messages.get_mut(index) {
                raw::keep(
                    &mut message.metadata.provider_raw,
                    adapter.key(),
                    "part",
                    pair,
                );
            }
        }
    };
    for unit in read_units
        .iter()
        .filter(|unit| !grouped.contains(&unit.messages))
    {
        mark(messages, unit);
    }
    let made = units(adapter, messages);
    if !made
        .iter()
        .map(|unit| &unit.messages)
        .eq(read_units.iter().map(|unit| &unit.messages))
    {
        read_units.iter().for_each(|unit| mark(messages, unit));
    }
}

/// Tells the map what the adapter's provider called the calls of these messages.
fn recall_ids<'m>(
    adapter: &dyn Adapter,
    messages: impl Iterator<Item = &'m Message<'m>>,
    ids: &mut ToolIdMap,
) {
    for message in messages {
        let wire_ids = raw::call_ids(message, adapter.key());
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

/// [`recall_ids`] of alternatives. Where two are the same message, whose calls are the same, the
/// ids of the first count: it is the one that is stored.
fn recall_ids_of_choices(adapter: &dyn Adapter, choices: &[Choice], ids: &mut ToolIdMap) {
    recall_ids(
        adapter,
        choices.iter().rev().map(|choice| &choice.message),
        ids,
    );
}

/// Applies the residuals that belong to a written body; `owners` are the messages of each unit.
fn restore<'m>(
    adapter: &dyn Adapter,
    written: Written<'m>,
    owners: &[Vec<&'m Message<'m>>],
    envelope_raw: Option<&'m Object<'m>>,
    mut writer: Writer,
) -> Body<'m> {
    let key = adapter.key();
    let (envelope, units) = take_units(written.body, &written.places);
    let units = units
        .into_iter()
        .zip(owners)
        .map(|(projection, owners)| match owners.first() {
            Some(first) => restore_unit(projection, first, owners, key, &mut writer),
            None => projection,
        });
    let mut units: Vec<Json> = units.collect();
    let envelope =
        raw::restore(envelope, raw::part(envelope_raw, key)).unwrap_or_else(|(projection, why)| {
            let session_id = owners
                .iter()
                .flatten()
                .next()
                .map_or_else(String::new, |message| message.session_id.to_string());
            let (message_id, block_type) = (String::new(), "provider_raw".to_owned());
            writer.drops.push(Drop {
                session_id,
                message_id,
                block_type,
                adapter: key,
                reason: reason(why),
            });
            projection
        });
    Body {
        json: put_units(envelope, &mut units),
        drops: writer.drops,
    }
}

/// Applies the residual of a unit. What it brings back was not dropped after all.
fn restore_unit<'m>(
    projection: Json<'m>,
    first: &'m Message<'m>,
    owners: &[&Message],
    key: &'static str,
    writer: &mut Writer,
) -> Json<'m> {
    let part = raw::message_part(first, key).filter(|part| part.contains_key("p"));
    if part.is_none() {
        return projection;
    }
    match raw::restore(projection, part) {
        Ok(restored) => {
            writer
                .drops
                .retain(|drop| owners.iter().all(|owner| drop.message_id != owner.id));
            restored
        }
        Err((projection, why)) => {
            writer.drop_named(first, "provider_raw", reason(why));
            projection
        }
    }
}

fn reason(why: Unapplied) -> DropReason {
    match why {
        Unapplied::Stale => DropReason::StaleResidual,
        Unapplied::Malformed => DropReason::MalformedResidual,
    }
}
