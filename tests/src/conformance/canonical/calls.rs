//! Complete calls: a canonical request to the provider's body, and the provider's response to
//! canonical content.

use gristmill_connectors::wire::adapter::{Adapter, SendHints};
use gristmill_connectors::wire::body_codec::{WrittenBody, read_response, write_request};
use gristmill_connectors::wire::conversation::{Conversation, ReadContext};
use gristmill_connectors::wire::image::FolderWorkspace;
use gristmill_connectors::wire::message_writer::{Workspace, WriteOptions};
use gristmill_connectors::wire::{anthropic as claude, openrouter as router, registry};
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::decode::{MessageDecodeMode, decode_message};
use gristmill_schemas::message::encode::{UnknownFields, encode_blocks};
use gristmill_schemas::message::model_id;
use gristmill_schemas::message::request::{Request, RequestTool, Response};
use gristmill_schemas::message::tool::{SideEffects, ToolDefinition};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{Message, Timestamp};

use super::Checked;
use super::compare::{Matcher, Row};
use super::model::with_defaults;
use super::row_drops::leave_out_dropped;

/// Output limit of cases without one.
const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 128;

const ANTHROPIC_RESPONSE: &str = r#"{"content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
const OPENAI_RESPONSE: &str = r#"{"choices":[{"finish_reason":"stop","message":{"content":"ok"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;

pub fn anthropic(input: &Json, target: &Json) -> Checked {
    call(&claude::MESSAGES, ANTHROPIC_RESPONSE, input, target)
}

pub fn openai(input: &Json, target: &Json) -> Checked {
    call(&registry::OPENAI_CHAT, OPENAI_RESPONSE, input, target)
}

pub fn openrouter(input: &Json, target: &Json) -> Checked {
    call(&router::CHAT, OPENAI_RESPONSE, input, target)
}

fn call(adapter: &dyn Adapter, default_response: &str, input: &Json, target: &Json) -> Checked {
    let inputs = Inputs::of(input.get("request").ok_or("no request")?)?;
    let request = inputs.request()?;
    let mut conversation = Conversation::new("case");
    conversation.ids = inputs.ids(adapter.provider());
    let written = written(adapter, &request, &mut conversation.ids, input);

    let default_response =
        Json::parse(default_response.as_bytes()).map_err(|error| error.to_string())?;
    let response = input.get("response").unwrap_or(&default_response);
    let context = ReadContext::at(Timestamp::from_micros(0));
    let read = read_response(adapter, response, &mut conversation, &context)
        .map_err(|error| error.to_string())?;

    let mut matcher = Matcher::new(&conversation.ids, adapter.provider());
    // The reference sends these blocks, so it has no warnings of them.
    let mut sent_there = 0;
    if let Some(wanted) = target.get("request_body") {
        let mut wanted = flattened(wanted);
        for (row, blocks) in leave_out_dropped(&mut wanted, &written, &request) {
            matcher.rows.add(row);
            sent_there += blocks;
        }
        if leave_out_silent(&mut wanted, &written.json) {
            matcher.rows.add(Row::NothingToSay);
        }
        matcher.matches(&wanted, &written.json, "request_body")?;
    }
    let answer = answer(adapter, &request, &read.response, &conversation.ids)?;
    let is_compared = |key: &str| key == "request_body" || answer.contains_key(key);
    let mut expected = target.as_object().into_iter().flat_map(Object::keys);
    if !expected.any(is_compared) {
        return Err("the case expects nothing that is compared".to_owned());
    }
    for (key, value) in answer.iter() {
        if let Some(wanted) = target.get(key) {
            matcher.matches(wanted, value, key)?;
        }
    }
    let found = written.drops.len() - sent_there + read.warnings.len();
    if let Some(wanted) = target.get("warnings").and_then(Json::as_array)
        && found != wanted.len()
    {
        return Err(format!(
            "expected {} warnings, found {:?} and {:?}",
            wanted.len(),
            written.drops,
            read.warnings
        ));
    }
    Ok(matcher.rows)
}

/// Writes the request of the case with its workspace and its catalog.
fn written<'m>(
    adapter: &dyn Adapter,
    request: &'m Request<'m>,
    ids: &mut ToolIdMap,
    input: &Json,
) -> WrittenBody<'m> {
    let folder = input
        .get("request")
        .and_then(|request| request.get("workspace_path"))
        .and_then(Json::as_str);
    let workspace = folder.and_then(|folder| FolderWorkspace::new(folder).ok());
    let options = WriteOptions {
        workspace: workspace
            .as_ref()
            .map(|workspace| workspace as &dyn Workspace),
        ..WriteOptions::default()
    };
    let mut written = write_request(adapter, request, ids, options);
    adapter.send_hints(&mut written.json, request, &hints(input));
    written
}

/// Returns the members of the response that cases compare.
fn answer(
    adapter: &dyn Adapter,
    request: &Request,
    response: &Response,
    ids: &ToolIdMap,
) -> Result<Object<'static>, String> {
    let choice = response.choices.first().ok_or("no choice")?;
    let model = response
        .model
        .as_ref()
        .map(|model| model_id::canonical(adapter.provider(), model))
        .or(request.model.as_ref().map(ToString::to_string))
        .unwrap_or_default();
    let content = encode_blocks(&choice.message.content, UnknownFields::Drop).into_owned();
    let usage = response.usage.unwrap_or_default().to_json();
    Ok([
        ("content", content),
        ("stop_reason", Json::from(choice.reason().as_str())),
        ("usage", usage),
        ("provider", Json::from(adapter.provider())),
        ("model", Json::from(model)),
        ("id_map", id_map(ids, adapter.provider()).into_owned()),
    ]
    .into_iter()
    .collect())
}

/// Members that the reference's client sends outside the schema are ordinary members of our body.
fn flattened<'j>(body: &'j Json<'j>) -> Json<'j> {
    let mut object = body.as_object().map(Object::reborrow).unwrap_or_default();
    if let Some(Json::Object(extra)) = object.remove("extra_body") {
        for (key, value) in extra {
            object.insert(key, value);
        }
    }
    Json::Object(object)
}

/// Removes messages with only a role from the target, if the answer has none of them.
fn leave_out_silent(wanted: &mut Json, answer: &Json) -> bool {
    let silent = |message: &Json| {
        message
            .as_object()
            .is_some_and(|message| message.len() == 1 && message.contains_key("role"))
    };
    let told = answer
        .get("messages")
        .and_then(Json::as_array)
        .is_some_and(|messages| messages.iter().any(silent));
    match wanted
        .as_object_mut()
        .and_then(|body| body.get_mut("messages"))
    {
        Some(Json::Array(messages)) if !told && messages.iter().any(silent) => {
            messages.retain(|message| !silent(message));
            true
        }
        _ => false,
    }
}

/// Capabilities of the called model in the case's catalog.
fn hints(input: &Json) -> SendHints {
    let catalog = input
        .get("catalog")
        .and_then(Json::as_array)
        .unwrap_or_default();
    let model = input
        .get("request")
        .and_then(|request| request.get("model"))
        .and_then(Json::as_str)
        .unwrap_or_default();
    let entry = catalog
        .iter()
        .find(|entry| entry.get("id").and_then(Json::as_str) == Some(model_id::wire_name(model)));
    SendHints {
        cache_read_priced: entry.is_some_and(router::cache_read_priced),
    }
}

/// The session's id map in the form of the cases.
pub fn id_map<'m>(ids: &'m ToolIdMap, provider: &str) -> Json<'m> {
    Json::Object(
        ids.of_provider(provider)
            .into_iter()
            .map(|(canonical, wire)| (canonical, Json::from(wire)))
            .collect(),
    )
}

/// A case's request with its defaults.
pub struct Inputs<'j> {
    json: &'j Json<'j>,
    messages: Vec<Json<'j>>,
}

impl<'j> Inputs<'j> {
    /// Builds it from a case's `request`.
    pub fn of(json: &'j Json<'j>) -> Result<Self, String> {
        let messages = json
            .get("messages")
            .and_then(Json::as_array)
            .unwrap_or_default();
        Ok(Inputs {
            json,
            messages: messages.iter().map(with_defaults).collect(),
        })
    }

    /// The canonical request.
    pub fn request<'r>(&'r self) -> Result<Request<'r>, String> {
        let json: &'r Json<'r> = self.json;
        let text = |key| json.get(key).and_then(Json::as_str).map(Into::into);
        let messages: Result<Vec<Message>, _> = self
            .messages
            .iter()
            .map(|message| {
                decode_message(message, MessageDecodeMode::Tolerant).map(|(message, _)| message)
            })
            .collect();
        let stops = json
            .get("stop_sequences")
            .and_then(Json::as_array)
            .unwrap_or_default();
        let limit = json.get("max_output_tokens").and_then(Json::as_u64);
        Ok(Request {
            model: text("model"),
            messages: messages.map_err(|error| error.to_string())?,
            system_prompt: text("system_prompt"),
            system_prompt_volatile: text("system_prompt_volatile"),
            tools: json
                .get("tools")
                .and_then(Json::as_array)
                .unwrap_or_default()
                .iter()
                .map(tool)
                .collect::<Result<_, _>>()?,
            max_output_tokens: Some(limit.unwrap_or(DEFAULT_MAX_OUTPUT_TOKENS)),
            stop_sequences: stops
                .iter()
                .filter_map(Json::as_str)
                .map(Into::into)
                .collect(),
            temperature: json
                .get("temperature")
                .and_then(Json::as_number)
                .map(|number| number.reborrow()),
            output_schema: json
                .get("output_schema")
                .filter(|schema| !schema.is_null())
                .map(Json::reborrow),
            stream: json.get("stream").and_then(Json::as_bool).unwrap_or(false),
            provider_raw: None,
        })
    }

    /// The ids that the case declares as known.
    pub fn ids(&self, provider: &str) -> ToolIdMap {
        let mut ids = ToolIdMap::new();
        for (canonical, wire) in self
            .json
            .get("tool_id_map")
            .and_then(Json::as_object)
            .into_iter()
            .flat_map(Object::iter)
        {
            ids.remember(provider, canonical, wire.as_str().unwrap_or_default());
        }
        ids
    }
}

fn tool<'j>(json: &'j Json<'j>) -> Result<RequestTool<'j>, String> {
    let text = |key| json.get(key).and_then(Json::as_str);
    Ok(RequestTool::Defined(ToolDefinition {
        name: text("name").ok_or("a tool without a name")?.into(),
        description: text("description").unwrap_or_default().into(),
        input_schema: json
            .get("input_schema")
            .and_then(Json::as_object)
            .map(Object::reborrow)
            .unwrap_or_default(),
        side_effects: text("side_effects")
            .and_then(SideEffects::from_text)
            .unwrap_or(SideEffects::None),
        requires_workspace: json
            .get("requires_workspace")
            .and_then(Json::as_bool)
            .unwrap_or(true),
    }))
}
