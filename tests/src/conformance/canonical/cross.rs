//! Sessions that switch between providers.

use gristmill_connectors::wire::adapter::Adapter;
use gristmill_connectors::wire::body_codec::{read_response, write_request};
use gristmill_connectors::wire::conversation::{Conversation, ReadContext};
use gristmill_connectors::wire::message_writer::WriteOptions;
use gristmill_connectors::wire::{anthropic, openrouter, registry};
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::ToolResultBlock;
use gristmill_schemas::message::capability::{Availability, TurnNeeds, rejection};
use gristmill_schemas::message::request::Request;
use gristmill_schemas::message::{ContentBlock, Message, Role, Timestamp};

use super::compare::{Rows, same};
use super::values::capabilities;
use super::{Checked, asked};

pub fn cross(input: &Json, target: &Json) -> Checked {
    match input.get("steps").and_then(Json::as_array) {
        Some(steps) => wire_ids(steps, target),
        None => swap(input, target),
    }
}

/// Reads answers with calls, sends the whole history to each provider, and compares each wire's id
/// of the call.
fn wire_ids(steps: &[Json], target: &Json) -> Checked {
    let mut conversation = Conversation::new("case");
    let mut history: Vec<Message<'static>> = Vec::new();
    let mut told = Object::new();
    for step in steps {
        let provider = step
            .get("provider")
            .and_then(Json::as_str)
            .ok_or("a step without a provider")?;
        let adapter = adapter(provider)?;
        if step.get("send_history").and_then(Json::as_bool) == Some(true) {
            let request = Request {
                messages: history.clone(),
                ..Request::default()
            };
            let body = write_request(
                adapter,
                &request,
                &mut conversation.ids,
                WriteOptions::default(),
            );
            let id = call_id(&body.json).ok_or("the body names no call")?;
            told.insert(provider.to_owned(), id);
        } else {
            history.extend(answer(adapter, step, &mut conversation)?);
        }
    }
    let answer: Object = [("wire_ids", told)].into_iter().collect();
    let (target, answer) = asked(target, answer);
    same(&target, &answer)
}

fn adapter(provider: &str) -> Result<&'static dyn Adapter, String> {
    match provider {
        "anthropic" => Ok(&anthropic::MESSAGES),
        "openai" => Ok(&registry::OPENAI_CHAT),
        "openrouter" => Ok(&openrouter::CHAT),
        other => Err(format!("no adapter for {other}")),
    }
}

/// The answer of a step, and a result for its call.
fn answer(
    adapter: &dyn Adapter,
    step: &Json,
    conversation: &mut Conversation,
) -> Result<[Message<'static>; 2], String> {
    let name = step
        .get("name")
        .map(ToString::to_string)
        .unwrap_or_default();
    let body = match (
        step.get("response_tool_call_id"),
        step.get("response_tool_use_id"),
    ) {
        (Some(id), _) => {
            let arguments = step
                .get("arguments")
                .map(ToString::to_string)
                .unwrap_or_default();
            format!(
                r#"{{"choices":[{{"message":{{"tool_calls":[{{"id":{id},"type":"function","function":{{"name":{name},"arguments":{arguments}}}}}]}}}}]}}"#
            )
        }
        (_, Some(id)) => {
            let input = step
                .get("input")
                .map(ToString::to_string)
                .unwrap_or_default();
            format!(
                r#"{{"content":[{{"type":"tool_use","id":{id},"name":{name},"input":{input}}}]}}"#
            )
        }
        _ => return Err("a step that neither answers nor sends".to_owned()),
    };
    let body = Json::parse(body.as_bytes()).map_err(|error| error.to_string())?;
    let time = Timestamp::from_micros(0);
    let read = read_response(adapter, &body, conversation, &ReadContext::at(time))
        .map_err(|error| error.to_string())?;
    let message = read
        .response
        .message()
        .ok_or("no message")?
        .clone()
        .into_owned();
    let Some(ContentBlock::ToolUse(call)) = message.content.first() else {
        return Err("no call".to_owned());
    };
    let result = ToolResultBlock {
        tool_use_id: call.id.clone(),
        content: vec![ContentBlock::text("r")],
        is_error: false,
    };
    let answered = Message::new(
        "m",
        "s",
        Role::Tool,
        vec![ContentBlock::ToolResult(result)],
        time,
    );
    Ok([message, answered])
}

/// The id of the first call in a body of either shape.
fn call_id(body: &Json) -> Option<String> {
    let messages = body.get("messages")?.as_array()?;
    let openai = messages
        .iter()
        .find_map(|message| message.get("tool_calls")?.as_array()?.first()?.get("id"));
    let is_call = |block: &&Json| block.get("type").and_then(Json::as_str) == Some("tool_use");
    let anthropic = || {
        messages.iter().find_map(|message| {
            message
                .get("content")?
                .as_array()?
                .iter()
                .find(is_call)?
                .get("id")
        })
    };
    openai.or_else(anthropic)?.as_str().map(str::to_owned)
}

/// Checks whether a history may be sent to another model.
fn swap(input: &Json, target: &Json) -> Checked {
    let blocks = input
        .get("history_blocks")
        .and_then(Json::as_array)
        .unwrap_or_default();
    let has_images = blocks
        .iter()
        .any(|block| block.get("type").and_then(Json::as_str) == Some("image"));
    let model = capabilities(input.get("to").unwrap_or(&Json::Null));
    let rejection = rejection(
        Availability::Available,
        &model,
        &TurnNeeds {
            has_images,
            ..TurnNeeds::default()
        },
    );
    let active = if rejection.is_some() {
        "unchanged"
    } else {
        "changed"
    };
    let answer = [
        (
            "rejection",
            rejection.map_or(Json::Null, |rejection| Json::from(rejection.as_str())),
        ),
        ("active_model", Json::from(active)),
    ];
    let (target, answer) = asked(target, answer.into_iter().collect());
    same(&target, &answer).map(|_| Rows::default())
}
