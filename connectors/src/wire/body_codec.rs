//! Reads and writes whole bodies without loss: the adapter converts what the canonical model holds,
//! this module computes, stores and applies the residual of the rest.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::ids::Position;
use gristmill_schemas::message::model_id;
use gristmill_schemas::message::request::{Choice, Request, Response};
use gristmill_schemas::message::stream::{Assembler, StreamEvent};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, Message};

use super::adapter::{Adapter, DialectError, WireProjection};
use super::framing::StreamFrame;
use super::message_reader::{Conversation, MessageReader, ReadContext, ReadUnit, ReadWarning};
use super::message_writer::{DropReason, DroppedBlock, MessageWriter, WriteOptions, units};
use super::provider_raw::{self, ResidualError};
use super::unit_path::{extract_units, insert_units};

/// The result of reading a request.
#[derive(Debug)]
pub struct ReadRequest<'j> {
    /// The request.
    pub request: Request<'j>,
    /// The position of each of its messages in the conversation.
    pub positions: Vec<Position>,
    /// Parts that were kept without being understood.
    pub warnings: Vec<ReadWarning>,
}

/// The result of reading a response.
#[derive(Debug)]
pub struct ReadResponse<'j> {
    /// The response.
    pub response: Response<'j>,
    /// The position of each of its choices in the conversation.
    pub positions: Vec<Position>,
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

/// Reads a request and stores its residual. Advances the conversation past the last message.
///
/// # Errors
/// If the body isn't of the adapter's dialect.
pub fn read_request<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> Result<ReadRequest<'j>, DialectError> {
    request(adapter, body, conversation, context, ResidualScope::All)
}

/// Reads a request like [`read_request`], for callers that use its messages and never write the
/// request again: stores residuals only of messages at positions for which `wanted` returns true,
/// and none of the envelope.
///
/// # Errors
/// If the body isn't of the adapter's dialect.
pub fn read_messages<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
    wanted: &dyn Fn(&Position) -> bool,
) -> Result<ReadRequest<'j>, DialectError> {
    request(
        adapter,
        body,
        conversation,
        context,
        ResidualScope::Messages(wanted),
    )
}

/// Selects the parts of a body whose residuals are stored.
#[derive(Clone, Copy)]
enum ResidualScope<'w> {
    /// All units and the envelope.
    All,
    /// The messages at these positions.
    Messages(&'w dyn Fn(&Position) -> bool),
    /// The choices at these positions, and the envelope if the first choice is among them.
    Choices(&'w dyn Fn(&Position) -> bool),
}

impl ResidualScope<'_> {
    /// Returns true if the residual of `unit` is stored. It is stored with the unit's first
    /// message.
    fn contains(self, unit: &ReadUnit, positions: &[Position]) -> bool {
        match self {
            ResidualScope::All => true,
            ResidualScope::Messages(wanted) | ResidualScope::Choices(wanted) => {
                let first = unit.messages.first();
                first
                    .and_then(|first| positions.get(*first))
                    .is_some_and(wanted)
            }
        }
    }

    /// Computes the residuals of `original` that are in this scope. Calls `project`, which writes
    /// the body again, only if there is any.
    fn residuals<'m, 'j>(
        self,
        read_units: &[ReadUnit],
        positions: &[Position],
        original: &'j Json<'j>,
        project: impl FnOnce() -> WireProjection<'m>,
    ) -> BodyResiduals<'j> {
        let is_wanted = |unit: &ReadUnit| self.contains(unit, positions);
        let with_envelope = match self {
            ResidualScope::All => true,
            ResidualScope::Messages(_) => false,
            // A response without choices consists of its envelope.
            ResidualScope::Choices(_) => read_units.first().is_none_or(is_wanted),
        };
        if !with_envelope && !read_units.iter().any(is_wanted) {
            return BodyResiduals {
                units: Vec::new(),
                envelope: None,
            };
        }
        residuals(project(), original, read_units, &is_wanted, with_envelope)
    }
}

fn request<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
    scope: ResidualScope<'_>,
) -> Result<ReadRequest<'j>, DialectError> {
    let mut reader = MessageReader::new(adapter, conversation, context);
    let mut request = adapter.read_request(body, &mut reader)?;
    reader.units.retain(|unit| !unit.messages.is_empty());
    let MessageReader {
        messages,
        units: read_units,
        warnings,
        positions,
        ..
    } = reader;
    request.messages = messages;
    mark_units(adapter, &mut request.messages, &read_units);
    let residuals = scope.residuals(&read_units, &positions, body, || {
        let write_units = units(adapter, &request.messages);
        let ids = &mut conversation.ids;
        let options = WriteOptions::default();
        let mut writer = MessageWriter::new(adapter, ids, write_units, options);
        adapter.write_request(&request, &mut writer)
    });
    for (unit, residual) in read_units.iter().zip(residuals.units) {
        let message = request.messages.get_mut(unit.messages[0]);
        if let (Some(residual), Some(message)) = (residual, message) {
            store_residual(&mut message.metadata.provider_raw, adapter.key(), residual);
        }
    }
    if let Some(residual) = residuals.envelope {
        store_residual(&mut request.provider_raw, adapter.key(), residual);
    }
    Ok(ReadRequest {
        request,
        positions,
        warnings,
    })
}

/// Returns the positions of the messages of a request, without computing residuals. Advances the
/// conversation like [`read_request`].
///
/// # Errors
/// If the body isn't of the adapter's dialect.
pub fn scan_request<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> Result<Vec<Position>, DialectError> {
    let mut reader = MessageReader::new(adapter, conversation, context);
    adapter.read_request(body, &mut reader)?;
    Ok(reader.positions)
}

/// Returns the positions of the choices of a response, and its envelope. Advances the conversation
/// like [`read_response`].
///
/// # Errors
/// If the body isn't of the adapter's dialect.
pub fn scan_response<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> Result<(Vec<Position>, Response<'j>), DialectError> {
    let mut reader = MessageReader::new(adapter, conversation, context);
    let response = adapter.read_response(body, &mut reader)?;
    reader.finish_choices();
    Ok((reader.positions, response))
}

/// Reads a response and stores its residual. Advances the conversation past the first choice.
///
/// # Errors
/// If the body isn't of the adapter's dialect.
pub fn read_response<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> Result<ReadResponse<'j>, DialectError> {
    response(adapter, body, conversation, context, ResidualScope::All)
}

/// Reads a response like [`read_response`], for callers that use its messages: stores residuals
/// only of choices at positions for which `wanted` returns true, and that of the envelope only if
/// the first choice is among them.
///
/// # Errors
/// If the body isn't of the adapter's dialect.
pub fn read_choices<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
    wanted: &dyn Fn(&Position) -> bool,
) -> Result<ReadResponse<'j>, DialectError> {
    response(
        adapter,
        body,
        conversation,
        context,
        ResidualScope::Choices(wanted),
    )
}

fn response<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    context: &ReadContext,
    scope: ResidualScope<'_>,
) -> Result<ReadResponse<'j>, DialectError> {
    let mut reader = MessageReader::new(adapter, conversation, context);
    let mut response = adapter.read_response(body, &mut reader)?;
    reader.finish_choices();
    let MessageReader {
        choices,
        units: read_units,
        warnings,
        positions,
        ..
    } = reader;
    response.choices = choices;
    set_model(adapter, context, &mut response);
    let residuals = scope.residuals(&read_units, &positions, body, || {
        project_response(adapter, &response, &mut conversation.ids)
    });
    for (choice, residual) in response.choices.iter_mut().zip(residuals.units) {
        if let Some(residual) = residual {
            let metadata = &mut choice.message.metadata;
            store_residual(&mut metadata.provider_raw, adapter.key(), residual);
        }
    }
    if let Some(residual) = residuals.envelope {
        store_residual(&mut response.provider_raw, adapter.key(), residual);
    }
    Ok(ReadResponse {
        response,
        positions,
        warnings,
    })
}

/// Sets the canonical model id of all choices.
fn set_model(adapter: &dyn Adapter, context: &ReadContext, response: &mut Response) {
    let Some(model) = &response.model else {
        return;
    };
    let provider = context.provider_override.unwrap_or(adapter.provider());
    let model = model_id::canonical(provider, model);
    for choice in &mut response.choices {
        choice.message.metadata.model = Some(Cow::Owned(model.clone()));
    }
}

/// Writes a response that was just read. Writing stored choices recalls the calls of all of them,
/// while the conversation continues with those of the first: several choices use a copy of `ids`.
fn project_response<'m>(
    adapter: &dyn Adapter,
    response: &'m Response<'m>,
    ids: &mut ToolIdMap,
) -> WireProjection<'m> {
    let mut of_all_choices;
    let ids = match response.choices.as_slice() {
        [] | [_] => ids,
        choices => {
            of_all_choices = ids.clone();
            recall_ids_of_choices(adapter, choices, &mut of_all_choices);
            &mut of_all_choices
        }
    };
    let mut writer = MessageWriter::new(adapter, ids, Vec::new(), WriteOptions::default());
    adapter.write_response(response, &mut writer)
}

/// Writes a request for the adapter's provider; messages that were read from the same provider are
/// restored unchanged.
pub fn write_request<'m>(
    adapter: &dyn Adapter,
    request: &'m Request<'m>,
    ids: &mut ToolIdMap,
    options: WriteOptions,
) -> WrittenBody<'m> {
    recall_ids(adapter, request.messages.iter(), ids);
    let write_units = units(adapter, &request.messages);
    let mut writer = MessageWriter::new(adapter, ids, write_units.clone(), options);
    let projection = adapter.write_request(request, &mut writer);
    let messages_of = |indices: &[usize]| {
        indices
            .iter()
            .map(|&index| &request.messages[index])
            .collect()
    };
    let owners: Vec<Vec<&Message>> = write_units
        .iter()
        .map(|unit| messages_of(&unit.messages))
        .collect();
    let envelope_raw = request.provider_raw.as_ref();
    apply_residuals(adapter, projection, &owners, envelope_raw, writer)
}

/// Writes a response in the adapter's dialect; one that was read from the same provider is restored
/// unchanged.
pub fn write_response<'m>(
    adapter: &dyn Adapter,
    response: &'m Response<'m>,
    ids: &mut ToolIdMap,
    options: WriteOptions,
) -> WrittenBody<'m> {
    recall_ids_of_choices(adapter, &response.choices, ids);
    let mut writer = MessageWriter::new(adapter, ids, Vec::new(), options);
    let projection = adapter.write_response(response, &mut writer);
    let owners: Vec<_> = response
        .choices
        .iter()
        .map(|choice| vec![&choice.message])
        .collect();
    let envelope_raw = response.provider_raw.as_ref();
    apply_residuals(adapter, projection, &owners, envelope_raw, writer)
}

/// Decodes a recorded stream into canonical events; `model` is the canonical id of the requested
/// model. Returns no events if the adapter has no [`Adapter::stream_decoder`].
///
/// Calls have the same ids as in the finished message.
pub fn decode_stream<'f>(
    adapter: &dyn Adapter,
    model: &str,
    frames: Vec<StreamFrame<'f>>,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> Vec<StreamEvent<'static>> {
    let mut assembler = Assembler::new(model);
    let Some(mut decoder) = adapter.stream_decoder() else {
        return assembler.take_events();
    };
    let folded = adapter.fold(frames.clone());
    let read = read_response(adapter, &folded.body, conversation, context);
    let message = read.as_ref().ok().and_then(|read| read.response.message());
    let mut calls = message.map_or_else(Vec::new, |message| call_ids(message, adapter.key()));
    let mut call_id = |wire_id: Option<&str>| take_call_id(&mut calls, wire_id);
    for frame in &frames {
        decoder.decode_event(&frame.data, &mut assembler, &mut call_id);
    }
    decoder.finish(&mut assembler);
    assembler.take_events()
}

/// The wire id of a call, if it has one, and its canonical id.
type CallId = (Option<String>, String);

/// Removes the call with that wire id, else the first call, and returns its canonical id; empty if
/// no call is left.
fn take_call_id(calls: &mut Vec<CallId>, wire_id: Option<&str>) -> String {
    let index = calls
        .iter()
        .position(|(known, _)| known.as_deref() == wire_id)
        .unwrap_or(0);
    if index < calls.len() {
        calls.remove(index).1
    } else {
        String::new()
    }
}

/// Returns the ids of the calls of a message.
fn call_ids(message: &Message, key: &str) -> Vec<CallId> {
    let mut wire_ids = provider_raw::call_ids(message, key).into_iter();
    let calls = message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolUse(call) => Some(call.id.to_string()),
        _ => None,
    });
    calls
        .map(|id| (wire_ids.next().flatten().map(str::to_owned), id))
        .collect()
}

/// The residuals of a body.
struct BodyResiduals<'j> {
    units: Vec<Option<ResidualMembers<'j>>>,
    envelope: Option<ResidualMembers<'j>>,
}

/// The members of `provider_raw` that store a residual: the patch and its guard.
type ResidualMembers<'j> = [(&'static str, Json<'j>); 2];

/// Computes the residuals of the units for which `is_wanted` returns true, and of the envelope if
/// `with_envelope`.
fn residuals<'j>(
    projection: WireProjection,
    original: &'j Json<'j>,
    read_units: &[ReadUnit],
    is_wanted: &dyn Fn(&ReadUnit) -> bool,
    with_envelope: bool,
) -> BodyResiduals<'j> {
    let paths: Vec<_> = read_units
        .iter()
        .map(|unit| Some(unit.path.clone()))
        .collect();
    let (projected_envelope, projected) = extract_units(projection.body, &projection.unit_paths);
    let (envelope, originals) = extract_units(original.reborrow(), &paths);
    let pairs = projected.iter().zip(&originals).zip(read_units);
    let units = pairs.map(|((projection, original), unit)| match is_wanted(unit) {
        true => provider_raw::encode_residual(projection, original),
        false => None,
    });
    let units = units.collect();
    let envelope = if with_envelope {
        provider_raw::encode_residual(&projected_envelope, &envelope)
    } else {
        None
    };
    BodyResiduals { units, envelope }
}

fn store_residual<'j>(
    raw: &mut Option<Object<'j>>,
    key: &'static str,
    residual: ResidualMembers<'j>,
) {
    for (name, value) in residual {
        provider_raw::set(raw, key, name, value);
    }
}

/// Marks the messages of those units that [`units`] wouldn't group in the same way.
fn mark_units(adapter: &dyn Adapter, messages: &mut [Message], read_units: &[ReadUnit]) {
    let grouped = adapter.group_units(&messages.iter().collect::<Vec<_>>());
    for unit in read_units {
        if !grouped.contains(&unit.messages) {
            mark_unit(adapter, messages, unit);
        }
    }
    let regrouped = units(adapter, messages);
    let regrouped = regrouped.iter().map(|unit| &unit.messages);
    if !regrouped.eq(read_units.iter().map(|unit| &unit.messages)) {
        read_units
            .iter()
            .for_each(|unit| mark_unit(adapter, messages, unit));
    }
}

/// Stores in each message of a unit its index in the unit and the number of messages.
fn mark_unit(adapter: &dyn Adapter, messages: &mut [Message], unit: &ReadUnit) {
    let count = unit.messages.len() as u64;
    for (part, &index) in unit.messages.iter().enumerate() {
        let pair = vec![Json::from(part as u64), Json::from(count)];
        if let Some(message) = messages.get_mut(index) {
            let raw = &mut message.metadata.provider_raw;
            provider_raw::set(raw, adapter.key(), "part", pair);
        }
    }
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

/// Applies the stored residuals to a projection; `owners` are the messages of each unit.
fn apply_residuals<'m>(
    adapter: &dyn Adapter,
    projection: WireProjection<'m>,
    owners: &[Vec<&'m Message<'m>>],
    envelope_raw: Option<&'m Object<'m>>,
    mut writer: MessageWriter,
) -> WrittenBody<'m> {
    let key = adapter.key();
    let (envelope, units) = extract_units(projection.body, &projection.unit_paths);
    let units = units
        .into_iter()
        .zip(owners)
        .map(|(projection, owners)| match owners.first() {
            Some(first) => apply_unit_residual(projection, first, owners, key, &mut writer),
            None => projection,
        });
    let mut units: Vec<Json> = units.collect();
    let residual = provider_raw::adapter_part(envelope_raw, key);
    let envelope = match provider_raw::apply_residual(envelope, residual) {
        Ok(restored) => restored,
        Err((projection, error)) => {
            let first = owners.iter().flatten().next();
            writer
                .drops
                .push(dropped_envelope(first.copied(), key, error));
            projection
        }
    };
    WrittenBody {
        json: insert_units(envelope, &mut units),
        drops: writer.drops,
    }
}

/// Reports that the residual of an envelope wasn't applied; `first` is the first message of the
/// body.
fn dropped_envelope(
    first: Option<&Message>,
    adapter: &'static str,
    error: ResidualError,
) -> DroppedBlock {
    DroppedBlock {
        session_id: first.map_or_else(String::new, |message| message.session_id.to_string()),
        message_id: String::new(),
        block_type: "provider_raw".to_owned(),
        adapter,
        reason: drop_reason(error),
    }
}

/// Applies the residual of a unit. The residual restores the blocks that the adapter dropped, so
/// they are no longer reported.
fn apply_unit_residual<'m>(
    projection: Json<'m>,
    first: &'m Message<'m>,
    owners: &[&Message],
    key: &'static str,
    writer: &mut MessageWriter,
) -> Json<'m> {
    let part = provider_raw::message_part(first, key).filter(|part| part.contains_key("p"));
    if part.is_none() {
        return projection;
    }
    match provider_raw::apply_residual(projection, part) {
        Ok(restored) => {
            writer
                .drops
                .retain(|drop| owners.iter().all(|owner| drop.message_id != owner.id));
            restored
        }
        Err((projection, error)) => {
            writer.drop_typed(first, "provider_raw", drop_reason(error));
            projection
        }
    }
}

fn drop_reason(error: ResidualError) -> DropReason {
    match error {
        ResidualError::Stale => DropReason::StaleResidual,
        ResidualError::Malformed => DropReason::MalformedResidual,
    }
}
