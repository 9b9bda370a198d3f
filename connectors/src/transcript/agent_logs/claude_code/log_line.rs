//! One line of a session.

use std::borrow::Cow;
use std::collections::HashMap;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;

use super::run_result::failure_of_run;
use crate::transcript::line::Line;
use crate::wire::json_access::{flag, items, non_empty_text, object, present, text, text_or_empty};

/// A line with an id.
#[derive(Debug)]
pub(super) struct LogLine {
    pub(super) line: Line,
    pub(super) parent: Option<String>,
    pub(super) session: String,
    pub(super) time: Option<Timestamp>,
    /// The message of a `user` or `assistant` line, or of a prompt that waited; other lines only
    /// link to their parent.
    pub(super) message: Option<Json<'static>>,
    /// The message reports a failed request.
    pub(super) is_api_error: bool,
    /// The line was copied from another session, of which this one is a fork.
    pub(super) is_copy: bool,
}

impl LogLine {
    /// Returns the id of the answer that this line is a part of.
    pub(super) fn answer_id(&self) -> Option<&str> {
        let message = self
            .message
            .as_ref()
            .filter(|message| text(message, "role").as_deref() == Some("assistant"))?;
        message.get("id").and_then(Json::as_str)
    }

    /// Returns true if all blocks are results of tools.
    pub(super) fn is_tool_result(&self) -> bool {
        let content = self
            .message
            .as_ref()
            .map_or(&[][..], |message| items(message, "content"));
        !content.is_empty()
            && content
                .iter()
                .all(|block| text(block, "type").as_deref() == Some("tool_result"))
    }
}

/// The last line of each stream of `stream-json` output, by session and by the tool call that
/// started the subagent.
#[derive(Default)]
pub(super) struct StreamTails(HashMap<(String, String), StreamTail>);

/// The last line of a stream.
struct StreamTail {
    uuid: String,
    /// The text of its message.
    text: String,
}

/// Returns the text of `message`, whose content is one text or a list of blocks.
fn text_of(message: &Json) -> String {
    let content = text(message, "content").unwrap_or_default();
    let blocks = items(message, "content").iter();
    let texts = blocks.filter_map(|block| text(block, "text"));
    [content].into_iter().chain(texts).collect()
}

/// Returns the message of a `user` or `assistant` line; `None` if it is null.
pub(super) fn message_of_line<'j>(json: &'j Json<'j>) -> Option<&'j Json<'j>> {
    let kind = json.get("type").and_then(Json::as_str);
    json.get("message")
        .filter(|message| !message.is_null() && matches!(kind, Some("user" | "assistant")))
}

/// Returns the message of a prompt that waited while the agent worked. Such a prompt has no `user`
/// line: the agent got it with the results of its tools, as an attachment.
pub(super) fn queued_message(json: &Json) -> Option<Json<'static>> {
    if text_or_empty(json, "type") != "attachment" {
        return None;
    }
    let attachment = json.get("attachment")?;
    if text_or_empty(attachment, "type") != "queued_command" {
        return None;
    }
    let prompt = attachment.get("prompt")?;
    let is_content = prompt.as_str().is_some() || prompt.as_array().is_some();
    let mut message = object("role", "user");
    message.insert("content", prompt.clone().into_owned());
    is_content.then_some(Json::Object(message))
}

impl StreamTails {
    /// Returns a line with its id; `None` for lines without an id.
    pub(super) fn parse_line(&mut self, json: &Json, line: Line) -> Option<(String, LogLine)> {
        let text = |key| json.get(key).and_then(Json::as_str);
        text("type")?;
        let message = message_of_line(json);
        let stream_session = text("session_id")
            .filter(|_| json.get("sessionId").is_none() && json.get("parentUuid").is_none());
        let failure = stream_session.and_then(|_| failure_of_run(json));
        // A run that ends before it begins, such as without a login, says so in a message, too.
        let failure = failure.filter(|failure| {
            let tail = stream_session.and_then(|session| self.0.get(&stream_of(session, json)));
            tail.is_none_or(|tail| tail.text != text_of(failure))
        });
        let (uuid, parent) = match stream_session {
            Some(session) if failure.is_some() => self.follow(session, json, &line),
            Some(session) => {
                message?;
                self.append(session, json, &line)
            }
            None => {
                let parent = text("parentUuid").or_else(|| text("logicalParentUuid"));
                (text("uuid")?.to_owned(), parent.map(str::to_owned))
            }
        };
        let session = text("sessionId").or(stream_session).unwrap_or_default();
        let message = message.filter(|message| message.as_object().is_some());
        let is_api_error = flag(json, "isApiErrorMessage") || failure.is_some();
        let line = LogLine {
            line,
            parent,
            session: session.to_owned(),
            time: text("timestamp").and_then(Timestamp::parse),
            message: message
                .map(|message| message.clone().into_owned())
                .or_else(|| queued_message(json))
                .or(failure),
            is_api_error,
            is_copy: present(json, "forkedFrom").is_some(),
        };
        Some((uuid, line))
    }

    /// Makes a line the last of its stream; returns its id and that of the previous line.
    fn append(&mut self, session: &str, json: &Json, line: &Line) -> (String, Option<String>) {
        let (uuid, previous) = self.follow(session, json, line);
        let tail = StreamTail {
            uuid: uuid.clone(),
            text: message_of_line(json).map(text_of).unwrap_or_default(),
        };
        self.0.insert(stream_of(session, json), tail);
        (uuid, previous)
    }

    /// Returns the id of a line that nothing follows, and that of the last line of its stream.
    fn follow(&self, session: &str, json: &Json, line: &Line) -> (String, Option<String>) {
        let uuid = text(json, "uuid").map_or_else(|| line.number.to_string(), Cow::into_owned);
        let tail = self.0.get(&stream_of(session, json));
        (uuid, tail.map(|tail| tail.uuid.clone()))
    }
}

/// Returns true for a line of a subagent in `stream-json` output.
pub(super) fn is_of_subagent(json: &Json) -> bool {
    non_empty_text(json, "parent_tool_use_id").is_some()
}

/// Returns the key of the stream of a line.
fn stream_of(session: &str, json: &Json) -> (String, String) {
    let agent = text(json, "parent_tool_use_id").unwrap_or_default();
    (session.to_owned(), agent.into_owned())
}
