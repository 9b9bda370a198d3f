//! Validation of requests in the Anthropic format.

use std::borrow::Cow;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::request::RequestTool;
use gristmill_schemas::message::{ContentBlock, Message, Role, Timestamp};

use super::super::anthropic;
use super::super::conversation::Conversation;
use super::super::json_access::present;
use super::{
    InboundRequest, InvalidField, drop_unsupported, empty_text, invalid, read, required_fields,
};

/// Reads and validates a request in the Anthropic format.
///
/// # Errors
/// The first invalid field.
pub fn inbound_anthropic<'j>(
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    time: Timestamp,
) -> Result<InboundRequest<'j>, InvalidField> {
    let messages = super::check_model_and_messages(body)?;
    let Some(limit) = required_fields::limit(body.get("max_tokens")) else {
        return invalid("max_tokens", "is required and must be a positive integer");
    };
    let (stable, volatile) = split_system(body.get("system"))?;
    check_messages(messages)?;
    let tools = tools(body)?;
    required_fields::list(body, "stop_sequences")?;
    let mut inbound = read(&anthropic::MESSAGES, body, conversation, time)?;
    let request = &mut inbound.request;
    request.max_output_tokens = Some(limit);
    request.tools = tools;
    (request.system_prompt, request.system_prompt_volatile) = (stable, volatile);
    normalize_messages(&mut request.messages);
    Ok(inbound)
}

/// Removes system messages and unsupported blocks. An empty assistant message gets an empty text;
/// an empty user message, such as one that consisted of tool results, is removed.
fn normalize_messages(messages: &mut Vec<Message>) {
    messages.retain(|message| message.role != Role::System);
    for message in messages.iter_mut() {
        drop_unsupported(message, |block| {
            matches!(block, ContentBlock::Text(_) | ContentBlock::Image(_))
        });
        if message.content.is_empty() && message.role == Role::Assistant {
            message.content.push(empty_text());
        }
    }
    messages.retain(|message| !message.content.is_empty());
}

fn check_messages(messages: &[Json]) -> Result<(), InvalidField> {
    for (index, message) in messages.iter().enumerate() {
        check_message(message, &format!("messages[{index}]"))?;
    }
    Ok(())
}

fn check_message(message: &Json, path: &str) -> Result<(), InvalidField> {
    let check_block = match message.get("role").and_then(Json::as_str) {
        Some("user") => check_user_block,
        Some("assistant") => check_assistant_block,
        _ => return invalid(format!("{path}.role"), "must be 'user' or 'assistant'"),
    };
    let blocks = match message.get("content") {
        None | Some(Json::Null) => &[],
        Some(content) => required_fields::content(content, path)?,
    };
    let mut blocks = blocks.iter().enumerate();
    blocks.try_for_each(|(index, block)| check_block(block, &format!("{path}.content[{index}]")))
}

fn check_user_block(block: &Json, path: &str) -> Result<(), InvalidField> {
    match required_fields::kind(block, &["text", "image", "tool_result", "document"], path)? {
        "image" => check_image(block, path),
        "tool_result" => check_result(block, path),
        _ => Ok(()),
    }
}

fn check_assistant_block(block: &Json, path: &str) -> Result<(), InvalidField> {
    match required_fields::kind(
        block,
        &["text", "thinking", "redacted_thinking", "tool_use"],
        path,
    )? {
        "thinking" => required_fields::text(block, "thinking", path).map(|_| ()),
        "redacted_thinking" => required_fields::text(block, "data", path).map(|_| ()),
        "tool_use" => {
            required_fields::name(block, "id", path)?;
            required_fields::name(block, "name", path)?;
            match block.get("input") {
                None | Some(Json::Object(_)) => Ok(()),
                Some(_) => invalid(format!("{path}.input"), "must be an object"),
            }
        }
        _ => Ok(()),
    }
}

fn check_result(block: &Json, path: &str) -> Result<(), InvalidField> {
    required_fields::name(block, "tool_use_id", path)?;
    let Some(content) = block.get("content") else {
        return Ok(());
    };
    for (index, inner) in required_fields::content(content, path)?.iter().enumerate() {
        let path = format!("{path}.content[{index}]");
        if required_fields::kind(inner, &["text", "image"], &path)? == "image" {
            check_image(inner, &path)?;
        }
    }
    Ok(())
}

/// Checks an image. A client may not refer to files of a workspace.
fn check_image(block: &Json, path: &str) -> Result<(), InvalidField> {
    let path = format!("{path}.source");
    let source = block.get("source").unwrap_or(&Json::Null);
    let key = if required_fields::kind(source, &["base64", "url"], &path)? == "url" {
        "url"
    } else {
        "data"
    };
    required_fields::name(source, key, &path).map(|_| ())
}

/// Returns the declared tools. A gateway supports client-side tools only, so a server-side tool of
/// the provider is treated like one, by its name.
fn tools<'j>(body: &'j Json<'j>) -> Result<Vec<RequestTool<'j>>, InvalidField> {
    let declared = required_fields::list(body, "tools")?.iter().enumerate();
    declared
        .map(|(index, json)| {
            required_fields::tool(json, "input_schema", &format!("tools[{index}]"))
        })
        .collect()
}

/// Splits the instructions into a stable and a volatile text: a string is stable; of a list, the
/// blocks up to the last cache marker are stable, or all of them if there is none.
#[expect(
    clippy::type_complexity,
    reason = "a pair of the two optional texts of a request"
)]
fn split_system<'j>(
    system: Option<&'j Json<'j>>,
) -> Result<(Option<Cow<'j, str>>, Option<Cow<'j, str>>), InvalidField> {
    let blocks = match system {
        None | Some(Json::Null) => return Ok((None, None)),
        Some(Json::String(text)) => {
            return Ok(((!text.is_empty()).then(|| Cow::Borrowed(&**text)), None));
        }
        Some(Json::Array(blocks)) => blocks,
        Some(_) => return invalid("system", "must be a string or a list of text blocks"),
    };
    check_system_blocks(blocks)?;
    let (stable, volatile) = blocks.split_at(stable_length(blocks));
    Ok((joined_text(stable), joined_text(volatile)))
}

/// Returns the number of blocks up to the last cache marker, or of all if there is none.
fn stable_length(blocks: &[Json]) -> usize {
    let is_marked = |block: &Json| present(block, "cache_control").is_some();
    let last_marked = blocks.iter().rposition(is_marked);
    last_marked.map_or(blocks.len(), |last| last + 1)
}

fn check_system_blocks(blocks: &[Json]) -> Result<(), InvalidField> {
    for (index, block) in blocks.iter().enumerate() {
        let path = format!("system[{index}]");
        required_fields::kind(block, &["text"], &path)?;
        required_fields::text(block, "text", &path)?;
    }
    Ok(())
}

/// Joins the non-empty texts of blocks; `None` if there are none.
fn joined_text<'j>(blocks: &'j [Json<'j>]) -> Option<Cow<'j, str>> {
    let texts = blocks
        .iter()
        .filter_map(|block| block.get("text").and_then(Json::as_str));
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| Cow::Owned(texts.join("\n\n")))
}
