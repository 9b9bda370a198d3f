//! Blocks that the reference sends and our adapters drop: rows 15 and 17 of §17.

use gristmill_connectors::wire::body_codec::WrittenBody;
use gristmill_connectors::wire::message_writer::DropReason;
use gristmill_schemas::json::Json;
use gristmill_schemas::message::ContentBlock;
use gristmill_schemas::message::block::{ImageBlock, ImageSource};
use gristmill_schemas::message::request::Request;

use super::compare::Row;

/// Decides whether a row concerns a content part.
type PartCondition<'c> = &'c dyn Fn(&Json) -> bool;

/// Removes from the target body the blocks that ours lacks by a row, if they are as many as were
/// dropped for the row's reason. Returns the rows with the numbers of their blocks.
pub fn leave_out_dropped(
    wanted: &mut Json,
    written: &WrittenBody,
    request: &Request,
) -> Vec<(Row, usize)> {
    let sent = parts(&written.json);
    let is_foreign = |part: &Json| is_thinking(part) && !sent.iter().any(|own| **own == *part);
    let paths = urls_of_paths(request);
    let is_path = |part: &Json| {
        let url = part.get("image_url").and_then(|image| image.get("url"));
        let url = url.and_then(Json::as_str).unwrap_or_default();
        paths.iter().any(|path| path == url)
    };
    let rules: [(Row, DropReason, PartCondition<'_>); 2] = [
        (
            Row::ThinkingDropped,
            DropReason::ForeignThinking,
            &is_foreign,
        ),
        (Row::PathNotSent, DropReason::FileUnavailable, &is_path),
    ];
    let mut rows = Vec::new();
    for (row, reason, is_dropped) in rules {
        let drops = written.drops.iter().filter(|drop| drop.reason == reason);
        let (dropped, lacking) = (drops.count(), parts(wanted));
        let lacking = lacking.into_iter().filter(|part| is_dropped(part)).count();
        if dropped > 0 && dropped == lacking {
            remove_parts(wanted, is_dropped);
            rows.push((row, dropped));
        }
    }
    rows
}

fn is_thinking(part: &Json) -> bool {
    let kind = part.get("type").and_then(Json::as_str);
    matches!(kind, Some("thinking" | "redacted_thinking"))
}

/// Returns the URLs that the reference sends for files: their paths as if they were base64.
fn urls_of_paths(request: &Request) -> Vec<String> {
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    let paths = blocks.filter_map(|block| match block {
        ContentBlock::Image(ImageBlock {
            source: ImageSource::FileRef(path),
            media_type,
        }) => Some(format!("data:{media_type};base64,{path}")),
        _ => None,
    });
    paths.collect()
}

/// Returns the content parts of all messages of a body.
fn parts<'b, 'j>(body: &'b Json<'j>) -> Vec<&'b Json<'j>> {
    let messages = body.get("messages").and_then(Json::as_array);
    let contents = messages
        .unwrap_or_default()
        .iter()
        .filter_map(|message| message.get("content")?.as_array());
    contents.flatten().collect()
}

/// Removes content parts, and messages of which no part is left.
fn remove_parts(body: &mut Json, is_dropped: &dyn Fn(&Json) -> bool) {
    let messages = body
        .as_object_mut()
        .and_then(|body| body.get_mut("messages"));
    let Some(Json::Array(messages)) = messages else {
        return;
    };
    messages.retain_mut(|message| {
        let content = message
            .as_object_mut()
            .and_then(|message| message.get_mut("content"));
        let Some(Json::Array(parts)) = content else {
            return true;
        };
        let before = parts.len();
        parts.retain(|part| !is_dropped(part));
        parts.len() == before || !parts.is_empty()
    });
}
