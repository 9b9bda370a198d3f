//! Writing: the adapter writes a projection, and stored residuals are applied to it.

use std::collections::HashSet;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::request::{Request, Response};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{Message, Role};

use super::super::adapter::{Adapter, WireProjection};
use super::super::message_writer::{DropReason, DroppedBlock, MessageWriter, WriteOptions, units};
use super::super::provider_raw::{self, ResidualError};
use super::super::unit_path::{extract_units, insert_units, units_in_lists};
use super::{WrittenBody, recall_ids, recall_ids_of_choices};

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
    let body = ProjectedBody {
        projection,
        is_response: false,
    };
    apply_residuals(adapter, body, &owners, envelope_raw, writer)
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
    let body = ProjectedBody {
        projection,
        is_response: true,
    };
    apply_residuals(adapter, body, &owners, envelope_raw, writer)
}

/// A body as the adapter writes it, to which the residuals are to be applied.
struct ProjectedBody<'m> {
    projection: WireProjection<'m>,
    is_response: bool,
}

/// Applies the stored residuals to a projection; `owners` are the messages of each unit.
fn apply_residuals<'m>(
    adapter: &dyn Adapter,
    body: ProjectedBody<'m>,
    owners: &[Vec<&'m Message<'m>>],
    envelope_raw: Option<&'m Object<'m>>,
    mut writer: MessageWriter,
) -> WrittenBody<'m> {
    let key = adapter.key();
    let mut drops = std::mem::take(&mut writer.drops);
    let projection = body.projection;
    let (envelope, units) = extract_units(projection.body, &projection.unit_paths);
    let mut restored: HashSet<&str> = HashSet::new();
    let mut replaced = Vec::new();
    let units = units.into_iter().zip(owners).enumerate();
    let units = units.map(|(number, (projection, owners))| {
        let Some(first) = owners.first() else {
            return projection;
        };
        let item = replaced_item(&projection, first, key);
        replaced.extend(item.map(|item| (number, item)));
        let (mut json, mut outcome) = unit_with_residual(projection, first, key);
        if let ResidualOutcome::Failed(ResidualError::Stale) = outcome
            && let Some(other) = of_other_body(adapter, owners, body.is_response, &mut writer)
        {
            (json, outcome) = (other, ResidualOutcome::Restored);
        }
        match outcome {
            ResidualOutcome::None => {}
            ResidualOutcome::Restored => restored.extend(owners.iter().map(|owner| &*owner.id)),
            ResidualOutcome::Failed(error) => {
                writer.drop_typed(first, "provider_raw", drop_reason(error));
            }
        }
        json
    });
    let mut units: Vec<Json> = units.collect();
    // A residual restores the blocks that the adapter dropped.
    drops.retain(|drop| !restored.contains(&*drop.message_id));
    drops.append(&mut writer.drops);
    let residual = provider_raw::adapter_part(envelope_raw, key);
    let envelope = match provider_raw::apply_residual(envelope, residual) {
        Ok(restored) => restored,
        Err((projection, error)) => {
            let first = owners.iter().flatten().next();
            drops.push(dropped_envelope(first.copied(), key, error));
            projection
        }
    };
    keep_items(&envelope, replaced, &mut units);
    WrittenBody {
        json: insert_units(envelope, &mut units),
        drops,
    }
}

/// Returns the projection of a unit whose residual replaces it as a whole: it may have been a text
/// in place of a list of messages.
fn replaced_item<'m>(projection: &Json<'m>, first: &Message, key: &str) -> Option<Json<'m>> {
    let patch = provider_raw::message_part(first, key)?.get("p")?;
    let is_replaced = projection.as_object().is_some() && patch.get("=").is_some();
    is_replaced.then(|| projection.clone())
}

/// Puts the projections `replaced` back in place of units that would be items of a list without
/// being objects. That of a message that was a text in place of the list would be such an item in
/// the request of another conversation.
fn keep_items<'m>(envelope: &Json, replaced: Vec<(usize, Json<'m>)>, units: &mut [Json<'m>]) {
    if replaced.is_empty() {
        return;
    }
    let in_lists: HashSet<usize> = units_in_lists(envelope).into_iter().collect();
    for (number, projection) in replaced {
        let unit = units.get_mut(number).filter(|_| in_lists.contains(&number));
        if let Some(unit) = unit.filter(|unit| unit.as_object().is_none()) {
            *unit = projection;
        }
    }
}

/// Returns the unit of an assistant message that was read from the other body: a response instead
/// of a request, or the reverse. `None` if its residual doesn't fit what that would be, either.
fn of_other_body<'m>(
    adapter: &dyn Adapter,
    owners: &[&'m Message<'m>],
    is_response: bool,
    writer: &mut MessageWriter,
) -> Option<Json<'m>> {
    let [message] = owners else { return None };
    let is_answer = message.role == Role::Assistant;
    let known = writer.drops.len();
    let projection = is_answer
        .then(|| adapter.write_answer(message, !is_response, writer))
        .flatten();
    writer.drops.truncate(known);
    let part = provider_raw::message_part(message, adapter.key());
    provider_raw::apply_residual(projection?, part).ok()
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

/// What became of the residual of a unit.
enum ResidualOutcome {
    /// The unit has none.
    None,
    /// It was applied.
    Restored,
    /// It can't be applied.
    Failed(ResidualError),
}

/// Applies the residual of a unit, which its first message has.
fn unit_with_residual<'m>(
    projection: Json<'m>,
    first: &'m Message<'m>,
    key: &'static str,
) -> (Json<'m>, ResidualOutcome) {
    let part = provider_raw::message_part(first, key).filter(|part| part.contains_key("p"));
    if part.is_none() {
        return (projection, ResidualOutcome::None);
    }
    match provider_raw::apply_residual(projection, part) {
        Ok(restored) => (restored, ResidualOutcome::Restored),
        Err((projection, error)) => (projection, ResidualOutcome::Failed(error)),
    }
}

fn drop_reason(error: ResidualError) -> DropReason {
    match error {
        ResidualError::Stale => DropReason::StaleResidual,
        ResidualError::Malformed => DropReason::MalformedResidual,
    }
}
