//! Reading: the adapter converts a body, the residual of the rest is stored with the messages.

use std::borrow::Cow;
use std::collections::HashSet;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::Message;
use gristmill_schemas::message::ids::MessagePosition;
use gristmill_schemas::message::model_id;
use gristmill_schemas::message::request::{Request, Response};
use gristmill_schemas::message::tool_ids::ToolIdMap;

use super::super::adapter::{Adapter, DialectError, WireProjection};
use super::super::conversation::{Conversation, ReadContext};
use super::super::message_reader::{MessageReader, ReadUnit};
use super::super::message_writer::{MessageWriter, WriteOptions, units};
use super::super::provider_raw;
use super::residual_scope::{ResidualMembers, ResidualScope};
use super::{ReadRequest, ReadResponse, recall_ids_of_choices};

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
    wanted: &dyn Fn(&MessagePosition) -> bool,
) -> Result<ReadRequest<'j>, DialectError> {
    request(
        adapter,
        body,
        conversation,
        context,
        ResidualScope::Messages(wanted),
    )
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
        project_request(adapter, &request, &mut conversation.ids)
    });
    for (unit, residual) in read_units.iter().zip(residuals.units) {
        if let Some(message) = request.messages.get_mut(unit.messages[0]) {
            store_residual(&mut message.metadata.provider_raw, adapter.key(), residual);
        }
    }
    store_residual(&mut request.provider_raw, adapter.key(), residuals.envelope);
    Ok(ReadRequest {
        request,
        positions,
        warnings,
    })
}

/// Writes a request that was just read.
fn project_request<'m>(
    adapter: &dyn Adapter,
    request: &'m Request<'m>,
    ids: &mut ToolIdMap,
) -> WireProjection<'m> {
    let write_units = units(adapter, &request.messages);
    let mut writer = MessageWriter::new(adapter, ids, write_units, WriteOptions::default());
    adapter.write_request(request, &mut writer)
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
) -> Result<Vec<MessagePosition>, DialectError> {
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
) -> Result<(Vec<MessagePosition>, Response<'j>), DialectError> {
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
    wanted: &dyn Fn(&MessagePosition) -> bool,
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
        let metadata = &mut choice.message.metadata;
        store_residual(&mut metadata.provider_raw, adapter.key(), residual);
    }
    store_residual(
        &mut response.provider_raw,
        adapter.key(),
        residuals.envelope,
    );
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

fn store_residual<'j>(
    raw: &mut Option<Object<'j>>,
    key: &'static str,
    residual: Option<ResidualMembers<'j>>,
) {
    for (name, value) in residual.into_iter().flatten() {
        provider_raw::set(raw, key, name, value);
    }
}

/// Marks the messages of those units that [`units`] wouldn't group in the same way.
fn mark_units(adapter: &dyn Adapter, messages: &mut [Message], read_units: &[ReadUnit]) {
    let grouped = adapter.group_units(&messages.iter().collect::<Vec<_>>());
    let grouped: HashSet<&[usize]> = grouped.iter().map(Vec::as_slice).collect();
    for unit in read_units {
        if !grouped.contains(unit.messages.as_slice()) {
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
