//! Messages that are merged from several lines.

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::Timestamp;

use super::log_line::LogLine;
use crate::transcript::line::Line;

/// A message, merged from its lines.
pub(super) struct MergedMessage {
    pub(super) line: Line,
    pub(super) session: String,
    pub(super) time: Option<Timestamp>,
    pub(super) message: Object<'static>,
    /// The usage was counted with an earlier message of the same answer, or is that of the original
    /// of a fork.
    pub(super) is_counted: bool,
    /// The message reports a failed request.
    pub(super) is_api_error: bool,
}

impl MergedMessage {
    /// Takes the message of `line`; `None` if it has none.
    pub(super) fn take(line: &mut LogLine) -> Option<MergedMessage> {
        let Json::Object(message) = line.message.take()? else {
            return None;
        };
        Some(MergedMessage {
            line: line.line.clone(),
            session: line.session.clone(),
            time: line.time,
            message,
            is_counted: line.is_copy,
            is_api_error: line.is_api_error,
        })
    }

    /// Returns the id of the answer; `None` if it isn't an answer.
    pub(super) fn answer_id(&self) -> Option<String> {
        let is_answer = self.message.get("role").and_then(Json::as_str) == Some("assistant");
        self.message
            .get("id")
            .and_then(Json::as_str)
            .filter(|_| is_answer)
            .map(str::to_owned)
    }

    /// Appends the blocks of the next line. Other members, such as usage and stop reason, are those
    /// of the last line that has them.
    pub(super) fn append(&mut self, line: &mut LogLine) {
        let Some(Json::Object(next)) = line.message.take() else {
            return;
        };
        for (key, value) in next {
            match (&*key, self.message.get_mut(&key), value) {
                ("content", Some(Json::Array(blocks)), Json::Array(next)) => blocks.extend(next),
                (_, Some(known), Json::Null) if !known.is_null() => {}
                (_, _, value) => _ = self.message.insert(key, value),
            }
        }
    }
}

/// The lines below the first line of an answer, by their roles. All are ids.
#[derive(Default)]
pub(super) struct AnswerParts {
    /// Further lines of the answer.
    pub(super) continuations: Vec<String>,
    /// The results of its tool calls.
    pub(super) results: Vec<String>,
    /// Lines between these that have no message.
    pub(super) silent: Vec<String>,
    /// The messages that follow the answer, each with whether it follows a result.
    pub(super) following: Vec<(String, bool)>,
}
