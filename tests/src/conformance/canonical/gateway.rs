//! The gateway: clients' requests to canonical ones, canonical responses to clients' bodies.

use gristmill_connectors::wire::conversation::Conversation;
use gristmill_connectors::wire::gateway::{self, InboundRequest, InvalidField};
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::decode::{MessageDecodeMode, decode_blocks};
use gristmill_schemas::message::encode::{UnknownFields, encode_blocks};
use gristmill_schemas::message::ids::PositionTracker;
use gristmill_schemas::message::request::{Choice, Request, RequestTool, Response, StopReason};
use gristmill_schemas::message::{Message, Role, Timestamp};

use super::Checked;
use super::calls::{Inputs, id_map};
use super::compare::{Matcher, Row, Rows};
use super::values::token_usage;

pub fn inbound_openai(input: &Json, target: &Json) -> Checked {
    let (body, mut conversation) = body_of(input, "openai")?;
    let read = gateway::inbound_openai(body, &mut conversation, Timestamp::from_micros(0));
    inbound(read, target, &conversation, "openai")
}

pub fn inbound_anthropic(input: &Json, target: &Json) -> Checked {
    let (body, mut conversation) = body_of(input, "anthropic")?;
    let read = gateway::inbound_anthropic(body, &mut conversation, Timestamp::from_micros(0));
    inbound(read, target, &conversation, "anthropic")
}

fn body_of<'j>(
    input: &'j Json<'j>,
    provider: &str,
) -> Result<(&'j Json<'j>, Conversation), String> {
    let mut conversation = Conversation::new("case");
    conversation.ids = Inputs::of(input)?.ids(provider);
    Ok((input.get("body").ok_or("no body")?, conversation))
}

fn inbound(
    read: Result<InboundRequest, InvalidField>,
    target: &Json,
    conversation: &Conversation,
    provider: &str,
) -> Checked {
    let wanted_ok = target.get("ok").and_then(Json::as_bool).unwrap_or(true);
    let inbound = match (read, wanted_ok) {
        (Ok(inbound), true) => inbound,
        (Err(_), false) => return Ok(Rows::default()),
        (Ok(_), false) => return Err("expected a refusal, found a request".to_owned()),
        (Err(refusal), true) => {
            return Err(format!("expected a request, found the refusal {refusal}"));
        }
    };
    let mut matcher = Matcher::new(&conversation.ids, provider);
    let answer = request_json(&inbound);
    for (key, wanted) in target
        .get("request")
        .and_then(Json::as_object)
        .into_iter()
        .flat_map(Object::iter)
    {
        let found = answer
            .get(key)
            .ok_or(format!("nothing known of request.{key}"))?;
        matcher.matches(wanted, found, &format!("request.{key}"))?;
    }
    if let Some(wanted) = target.get("id_map") {
        matcher.matches(wanted, &id_map(&conversation.ids, provider), "id_map")?;
    }
    Ok(matcher.rows)
}

fn request_json<'m>(inbound: &'m InboundRequest<'m>) -> Object<'m> {
    let request: &Request = &inbound.request;
    let text = |text: Option<&'m str>| text.map_or(Json::Null, Json::from);
    let messages = request.messages.iter().map(|message| {
        let members = [
            ("role", Json::from(message.role.as_str())),
            (
                "content",
                encode_blocks(&message.content, UnknownFields::Drop),
            ),
        ];
        Json::Object(members.into_iter().collect())
    });
    let stops = request
        .stop_sequences
        .iter()
        .map(|stop| Json::from(&**stop));
    [
        ("model", text(request.model.as_deref())),
        ("messages", Json::Array(messages.collect())),
        ("system_prompt", text(request.system_prompt.as_deref())),
        (
            "system_prompt_volatile",
            text(request.system_prompt_volatile.as_deref()),
        ),
        (
            "tools",
            Json::Array(request.tools.iter().map(tool_json).collect()),
        ),
        (
            "max_output_tokens",
            request.max_output_tokens.map_or(Json::Null, Json::from),
        ),
        (
            "temperature",
            request
                .temperature
                .as_ref()
                .map_or(Json::Null, |number| Json::Number(number.reborrow())),
        ),
        ("stop_sequences", Json::Array(stops.collect())),
        (
            "output_schema",
            request
                .output_schema
                .as_ref()
                .map_or(Json::Null, Json::reborrow),
        ),
        ("stream", Json::from(request.stream)),
        ("include_usage", Json::from(inbound.include_usage)),
    ]
    .into_iter()
    .collect()
}

fn tool_json<'m>(tool: &'m RequestTool<'m>) -> Json<'m> {
    match tool {
        RequestTool::Defined(tool) => Json::Object(
            [
                ("name", Json::from(&*tool.name)),
                ("description", Json::from(&*tool.description)),
                ("input_schema", Json::Object(tool.input_schema.reborrow())),
                ("side_effects", Json::from(tool.side_effects.as_str())),
                ("requires_workspace", Json::from(tool.requires_workspace)),
            ]
            .into_iter()
            .collect(),
        ),
        RequestTool::Wire { json, .. } => json.reborrow(),
    }
}

pub fn render_openai(input: &Json, target: &Json) -> Checked {
    render(input, target, "openai", "chatcmpl-")
}

pub fn render_anthropic(input: &Json, target: &Json) -> Checked {
    render(input, target, "anthropic", "msg_")
}

fn render(input: &Json, target: &Json, provider: &str, id_prefix: &str) -> Checked {
    let json = input.get("response").ok_or("no response")?;
    let (content, _) = decode_blocks(
        json.get("content").ok_or("no content")?,
        MessageDecodeMode::Tolerant,
    )
    .map_err(|error| error.to_string())?;
    let time = Timestamp::from_micros(0);
    let ulid = PositionTracker::new("case")
        .advance(Role::Assistant, &content)
        .ulid(time);
    let message = Message::new(ulid.to_string(), "gw_1", Role::Assistant, content, time);
    let usage = token_usage(json.get("usage"));
    let response = Response {
        id: Some(format!("{id_prefix}{ulid}").into()),
        created_at: None,
        model: input
            .get("requested_model")
            .and_then(Json::as_str)
            .map(Into::into),
        choices: vec![Choice {
            message,
            stop_reason: json
                .get("stop_reason")
                .and_then(Json::as_str)
                .and_then(StopReason::from_text),
        }],
        usage: Some(usage),
        provider_raw: None,
    };
    let mut ids = Inputs::of(input)?.ids(provider);
    let body = match provider {
        "openai" => gateway::render_openai(&response, &mut ids),
        _ => gateway::render_anthropic(&response, &mut ids),
    };
    let known = ids.clone();
    let mut matcher = Matcher::new(&known, provider);
    let mut wanted = target.get("body").map(Json::reborrow).unwrap_or_default();
    // Row 18: the reference reports the uncached remainder as the prompt.
    let cached = usage.prompt_tokens() - usage.input_tokens;
    let counts = wanted
        .as_object_mut()
        .and_then(|body| body.get_mut("usage"))
        .and_then(Json::as_object_mut);
    if let Some(counts) = counts.filter(|counts| {
        cached > 0 && counts.get("prompt_tokens").and_then(Json::as_u64) == Some(usage.input_tokens)
    }) {
        for key in ["prompt_tokens", "total_tokens"] {
            let count = counts.get(key).and_then(Json::as_u64).unwrap_or(0);
            counts.insert(key, count + cached);
        }
        matcher.rows.add(Row::PromptIsSum);
    }
    matcher.matches(&wanted, &body, "body")?;
    Ok(matcher.rows)
}
